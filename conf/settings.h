// SPDX-License-Identifier: BSD-3-Clause
// Settings: everything the command line can say, one small struct per module that reads it.
//
// I1  Members hold no defaults: those are in the option tables (conf/*option_table.cc), and conf::defaults()
//     applies them. A Settings that did not come from there or from parse_command_line() is all zeros.
// I2  A module is given its own struct, or what main makes of it, never all of Settings.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/log_words.h"
#include "base/socket_backend.h"
#include "conf/node_settings.h"
#include "conf/proxy_settings.h"

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
    int32_t port = 0;            // 0: no TCP; -1: one that the kernel chooses
    std::string interfaces;      // as given, several joined by commas; empty: all
    std::string unix_path;       // not empty: no TCP
    uint32_t unix_mode = 0;
    int32_t backlog = 0;
    Protocol protocol = Protocol::any;
};

struct SessionSettings {
    uint32_t connections_max = 0;
    bool reject_over_limit = false;   // else accepting stops until there is room
    uint32_t threads = 0;
    uint32_t requests_per_event = 0;
    uint32_t idle_timeout_s = 0;      // 0: none
    SocketBackend io = SocketBackend::libevent;
    std::string worker_cpus;          // conf/cpu_list.h; empty: any
};

struct ProcessSettings {
    bool daemonize = false;
    bool lock_memory = false;
    bool core_dumps = false;
    uint32_t verbosity = 0;
    LogLevel log_level = LogLevel::error;
    LogFormat log_format = LogFormat::text;
    std::string user;
    std::string pid_file;
    std::string config_path;     // a file read before the command line; empty: none
    std::string memcached_conf_path;  // one of flags, read before that; empty: none
};

struct AdminSettings {
    bool shutdown = false;
    bool flush = false;
    bool dump = false;
    bool watch = false;
    bool detail = false;
    bool track_sizes = false;
    std::string socket_path;             // of the operator's Unix socket; empty: none
    std::string http_host;               // a name, an address without brackets, "*": all; empty: no HTTP
    uint16_t http_port = 0;              // 0: one that the kernel chooses
    std::string prefix_delimiter;        // one character
    uint64_t watcher_log_bytes = 0;
    uint64_t worker_log_bytes = 0;
    bool latency = false;                // histograms of how long requests took
    uint32_t slow_log_ms = 0;            // requests that took so long are listed; 0: none
    uint32_t hot_keys_one_in = 0;        // of gets and sets, whose keys are sampled; 0: none
};

// The background search for expired items.
struct CrawlerSettings {
    bool enabled = false;
    uint32_t sleep_us = 0;       // pause between portions
    uint32_t items_max = 0;      // of a size class in one run; 0: all
};

// Options of memcached that nothing here reads: `stats settings` shows them. By the name shown there, or by
// the option's own where none is shown; the value as it is shown.
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

// As if farcached's command line were empty.
Settings defaults();

}  // namespace farcached::conf
