// SPDX-License-Identifier: BSD-3-Clause
// What -vv and `verbosity 2` show in the log, at level debug, as memcached words it: connections, the first line of each
// request and of each reply. For engines and workers, which ask EngineOptions::trace first.
#pragma once

#include <string_view>

namespace farcached::daemon {

void trace_connection(int fd, std::string_view what);  // "<22 new auto-negotiating client connection"
void trace_request(int fd, std::string_view bytes);    // "<22 get foo", or what a binary header says
void trace_reply(int fd, std::string_view bytes);      // ">22 END"; nothing if there are no bytes

}  // namespace farcached::daemon
