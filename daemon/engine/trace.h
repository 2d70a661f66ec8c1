// SPDX-License-Identifier: BSD-3-Clause
// The log lines of -vv and `verbosity 2`, at level debug, worded as by memcached: connections, and the first line of each
// request and reply. For engines and workers, which check EngineOptions::trace first. Without memory a line is lost.
#pragma once

#include <string_view>

namespace farcached::daemon {

void trace_connection(int fd, std::string_view what) noexcept;  // "<22 new auto-negotiating client connection"
void trace_request(int fd, std::string_view bytes) noexcept;    // "<22 get foo", or a binary header's fields
void trace_reply(int fd, std::string_view bytes) noexcept;      // ">22 END"; no line for no bytes

}  // namespace farcached::daemon
