// SPDX-License-Identifier: BSD-3-Clause
// Why a connection ended: every ending has a name, and a counter in `stats proxy`.
#pragma once

#include <cstdint>
#include <string_view>

namespace farcached::daemon {

//        name          reason in `watch connevents`, as memcached words it
#define SESSION_ENDS(X)                \
    X(client_closed, "normal")         \
    X(protocol_close, "normal")        \
    X(peer_reset, "error")             \
    X(send_failed, "error")            \
    X(idle_timeout, "idle_timeout")    \
    X(became_watcher, "normal")        \
    X(no_memory, "error")              \
    X(server_stopped, "shutdown")

enum class SessionEnd : uint8_t {
#define X(name, text) name,
    SESSION_ENDS(X)
#undef X
        count
};

constexpr std::string_view session_end_name(SessionEnd end) {
    constexpr std::string_view names[] = {
#define X(name, text) #name,
        SESSION_ENDS(X)
#undef X
    };
    return names[size_t(end)];
}

constexpr std::string_view session_end_text(SessionEnd end) {
    constexpr std::string_view texts[] = {
#define X(name, text) text,
        SESSION_ENDS(X)
#undef X
    };
    return texts[size_t(end)];
}

}  // namespace farcached::daemon
