// SPDX-License-Identifier: BSD-3-Clause
// What serves the sockets of clients, as a configuration may say it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcached {

enum class SocketBackend : uint8_t {
    libevent,
    uring,      // io_uring, and a word on stderr where there is none
    automatic,  // io_uring where there is one
};
constexpr std::array<std::string_view, 3> socket_backend_names = {"libevent", "uring", "auto"};
static_assert(socket_backend_names[size_t(SocketBackend::automatic)] == "auto");

}  // namespace farcached
