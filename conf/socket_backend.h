// SPDX-License-Identifier: BSD-3-Clause
// The backends for client sockets: the words of a configuration.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcached {

enum class SocketBackend : uint8_t {
    libevent,
    uring,      // io_uring, with a message on stderr if it is unavailable
    automatic,  // io_uring if it is available
};
constexpr std::array<std::string_view, 3> socket_backend_names = {"libevent", "uring", "auto"};
static_assert(socket_backend_names[size_t(SocketBackend::automatic)] == "auto");

}  // namespace farcached
