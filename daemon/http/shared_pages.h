// SPDX-License-Identifier: BSD-3-Clause
// HTTP answers that farcached and farnode share: the status page, the program's identity, and the metrics process_*, which
// Prometheus expects from every program.
//
// Owner: none; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/metrics_text.h"
#include "node/store/node.h"
#include "process/http_listener.h"
#include "process/json_text.h"
#include "process/process.h"

namespace farcached::http {

// daemon/http/status_page.html with its script, at build time. @NONCE@ in it stands for a word that differs in each answer.
extern const std::string_view status_page;

// The page. It runs its own script and style only, and connects to this server only.
process::HttpAnswer page();

// A program as its page names it.
struct Identity {
    std::string_view program, name, version;  // name: of a node, or empty
    uint16_t port = 0;                        // for clients or proxies; 0: no TCP port
};
// Members of an open object: program, name, version, host, port and pid.
void add_identity(process::JsonText& out, const Identity& identity);
// The first TCP port; 0: none.
uint16_t tcp_port(std::span<const process::BoundPort> ports);

// The member "memory" of a node's object.
void add_memory(process::JsonText& out, const node::Stats& stats, uint64_t evictions);

// User and system CPU time of the process.
double cpu_seconds();
// process_cpu_seconds_total, process_resident_memory_bytes and so on, from /proc/self. An unreadable one is left out.
void write_process_metrics(MetricsText& out);

}  // namespace farcached::http
