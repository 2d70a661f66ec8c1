// SPDX-License-Identifier: BSD-3-Clause
// The lines of `watch proxyevents`, behind time and number, worded as by memcached's built-in proxy where it has them:
//
//   type=proxy_backend error=disconnected name=10.0.0.1 port=11300 label=a depth=3 rbuf= cause=channel_ended text=...
//   type=proxy_backend error=markedbad name=10.0.0.1 port=11300 label=a retry=1
//   type=proxy_conf status=done
// and ours:
//   type=proxy_backend event=connected name=10.0.0.1 port=11300 label=a links_up=4
//   type=proxy_request error=timed_out label=a key=k cfd=31
//   type=proxy_read error=generation name=10.0.0.1 port=11300 label=a way=pointer key=k
//
// Pure. Callers check WatchLog::wants(watch_proxyevents) first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/link_counters.h"

namespace farcached::daemon {

// A node's place as configured.
struct NodePlace {
    std::string_view label;  // its name
    std::string_view host;   // shm: the path of its socket
    uint16_t port = 0;       // shm: 0
};

// A worker's connection. lost: requests under way at its end. text: the reason.
std::string backend_connected_line(const NodePlace& place, uint32_t links_up);
std::string backend_error_line(const NodePlace& place, proxy::LinkDown why, bool was_up, uint32_t lost, std::string_view text);
// A node's state for all workers. retry_s: until the next attempt.
std::string backend_bad_line(const NodePlace& place, uint64_t retry_s);
std::string backend_good_line(const NodePlace& place);
// By the operator.
std::string backend_drained_line(const NodePlace& place, bool on);
// A failure that a client got. label: empty: no node was available.
std::string request_failed_line(std::string_view why, std::string_view label, std::string_view key, int fd);
std::string read_failed_line(const NodePlace& place, std::string_view why, bool by_index, std::string_view key);
std::string reload_line(std::string_view status);  // start, done, failed

}  // namespace farcached::daemon
