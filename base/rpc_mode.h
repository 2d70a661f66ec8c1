// SPDX-License-Identifier: BSD-3-Clause
// RpcMode: how the requests of a link over RDMA and their replies travel; the option `rpc` of both daemons names it.
// Owner: the holder, a value type. Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/enum_text.h"

namespace farcached {

//        name        help
#define RPC_MODES(X)                                                                     \
    X(automatic, "auto", "the fastest of the others, by measurement of each link")       \
    X(send, "send", "requests and replies by SEND")                                      \
    X(write, "write", "requests by WRITE, replies by WRITE")                             \
    X(rfp, "rfp", "requests by WRITE; the proxy READs the replies from the node's slots")

enum class RpcMode : uint8_t {
#define X(name, text, help) name,
    RPC_MODES(X)
#undef X
        count
};
inline constexpr EnumText rpc_mode_texts[] = {
#define X(name, text, help) {text, help},
    RPC_MODES(X)
#undef X
};
constexpr std::string_view rpc_mode_name(RpcMode mode) { return text_of(rpc_mode_texts, mode).name; }
// For options, in the order of RpcMode.
constexpr std::array<std::string_view, size_t(RpcMode::count)> rpc_mode_names = {
#define X(name, text, help) text,
    RPC_MODES(X)
#undef X
};

}  // namespace farcached
