// SPDX-License-Identifier: BSD-3-Clause
// Settings: all values of the command line, one small struct for each module that reads it.
//
// I1  Members hold no defaults: the option tables (conf/*option_table.cc) have them, and conf::defaults() applies them. Any
//     other Settings is all zeros until defaults() or parse_command_line() fills it.
// I2  A module gets its own struct, or values that main derives from it, never all of Settings.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "conf/log_words.h"
#include "conf/node_settings.h"
#include "conf/proxy_settings.h"
#include "conf/socket_backend.h"

namespace farcached::conf {

enum class Protocol : uint8_t { any, text, binary };

struct MemorySettings {
    uint64_t bytes_max = 0;
    uint64_t item_bytes_max = 0;
    double growth_factor = 0;
    uint32_t chunk_bytes_min = 0;
    bool evict = false;
    bool cas = false;
    bool huge_pages = false;
};

struct ListenSettings {
    int32_t port = 0;            // 0: no TCP; -1: chosen by the kernel
    std::string interfaces;      // as given, several joined by commas; empty: all
    std::string unix_path;       // not empty: no TCP
    uint32_t unix_mode = 0;
    int32_t backlog = 0;
    Protocol protocol = Protocol::any;
};

struct SessionSettings {
    uint32_t connections_max = 0;
    bool reject_over_limit = false;   // otherwise accepting pauses until a connection ends
    uint32_t threads = 0;
    uint32_t requests_per_event = 0;
    uint32_t idle_timeout_s = 0;      // 0: none
    uint64_t buffer_bytes_max = 0;    // of all clients together; 0: derived from the memory limit
    SocketBackend io = SocketBackend::libevent;
    std::string worker_cpus;          // conf/units.h; empty: any
};

struct ProcessSettings {
    bool daemonize = false;
    bool lock_memory = false;
    bool core_dumps = false;
    bool drop_privileges = false;  // forbid system calls that the daemon does not need
    bool crash_request = false;  // crash reports show bytes of the current request
    uint32_t verbosity = 0;
    LogLevel log_level = LogLevel::error;
    LogFormat log_format = LogFormat::text;
    std::string user;
    std::string pid_file;
    std::string config_path;     // read before the command line; empty: none
    std::string memcached_conf_path;  // a file of flags, read before config_path; empty: none
};

struct AdminSettings {
    bool shutdown = false;
    bool flush = false;
    bool dump = false;
    bool watch = false;
    bool detail = false;
    bool track_sizes = false;
    std::string socket_path;             // of the admin Unix socket; empty: none
    std::string http_host;               // a name, an address without brackets, "*": all; empty: no HTTP
    uint16_t http_port = 0;              // 0: chosen by the kernel
    std::string http_names;              // a list for own_host_names(); empty: none
    std::string prefix_delimiter;        // one character
    uint64_t watcher_log_bytes = 0;
    uint64_t worker_log_bytes = 0;
    bool latency = false;                // histograms of request latency
    uint32_t slow_log_ms = 0;            // threshold for listing slow requests; 0: off
    uint32_t hot_keys_one_in = 0;        // sampling of keys of gets and sets: one in so many; 0: off
};

// The background sweep of expired items.
struct CrawlerSettings {
    bool enabled = false;
    uint32_t sleep_us = 0;       // pause between batches
    uint32_t items_max = 0;      // per size class and pass; 0: all
};

// memcached options without effect here: `stats settings` shows them. Keyed by the shown name, or by the option's own if none
// is shown; the value as shown.
using CompatSettings = std::map<std::string, std::string, std::less<>>;

struct Settings {
    MemorySettings memory;
    ListenSettings listen;
    SessionSettings session;
    ProcessSettings process;
    AdminSettings admin;
    CrawlerSettings crawler;
    ProxySettings proxy;
    NodeSettings node;
    CompatSettings compat;
};

// The settings of farcached's empty command line.
Settings defaults();

}  // namespace farcached::conf
