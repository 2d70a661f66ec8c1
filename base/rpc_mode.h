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
    automatic,  // the fastest of the others, measured for each link
    send,       // requests and replies by SEND
    write,      // both by WRITE
    rfp,        // requests by WRITE, replies by a READ of the proxy
    count
};
constexpr std::array<std::string_view, size_t(RpcMode::count)> rpc_mode_names = {"auto", "send", "write", "rfp"};
static_assert(rpc_mode_names[size_t(RpcMode::rfp)] == "rfp");
constexpr std::string_view rpc_mode_name(RpcMode mode) { return rpc_mode_names.at(size_t(mode)); }

}  // namespace farcached
