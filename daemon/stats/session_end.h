// SPDX-License-Identifier: BSD-3-Clause
// Reasons of session ends: each has a name, and a counter in `stats proxy`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcached::daemon {

//        name          reason in `watch connevents`, as memcached words it; help
#define SESSION_ENDS(X)                                                                      \
    X(client_closed, "normal", "the client closed the connection")                           \
    X(protocol_close, "normal", "the client said quit, or sent what is no request")          \
    X(peer_reset, "error", "the connection was reset, or receiving failed")                  \
    X(send_failed, "error", "sending failed")                                                \
    X(idle_timeout, "idle_timeout", "nothing was received for idle_timeout seconds")         \
    X(became_watcher, "normal", "the connection was handed over to `watch`")                 \
    X(no_memory, "error", "out of memory for the connection's buffers")                      \
    X(buffers_full, "error", "all clients' buffers together had reached read_buf_mem_limit") \
    X(server_stopped, "shutdown", "the server stopped")

enum class SessionEnd : uint8_t {
#define X(name, text, help) name,
    SESSION_ENDS(X)
#undef X
        count
};

struct SessionEndText {
    std::string_view name, text, help;
};
inline constexpr SessionEndText session_end_texts[] = {
#define X(name, text, help) {#name, text, help},
    SESSION_ENDS(X)
#undef X
};
constexpr std::string_view session_end_name(SessionEnd end) { return session_end_texts[size_t(end)].name; }
constexpr std::string_view session_end_text(SessionEnd end) { return session_end_texts[size_t(end)].text; }

}  // namespace farcached::daemon
