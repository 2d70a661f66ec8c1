// SPDX-License-Identifier: BSD-3-Clause
// RpcMode: how the requests of a link over RDMA and their replies travel; the option `rpc` of both daemons names it.
// Owner: the holder, a value type. Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcached {

enum class RpcMode : uint8_t {
    send,       // requests and replies by SEND
    write,      // server-reply: both by WRITE
    rfp,        // remote fetching: requests by WRITE, replies by a READ of the proxy
    automatic,  // the fastest of these, measured for each link
    count
};
constexpr std::array<std::string_view, size_t(RpcMode::count)> rpc_mode_names = {"send", "write", "rfp", "auto"};
static_assert(rpc_mode_names[size_t(RpcMode::automatic)] == "auto");
constexpr std::string_view rpc_mode_name(RpcMode mode) { return rpc_mode_names.at(size_t(mode)); }

}  // namespace farcached
