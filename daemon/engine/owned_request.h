// SPDX-License-Identifier: BSD-3-Clause
// OwnedRequest: an operation that outlives the call that submitted it: until its link has room, or in another thread.
//
// Owner: PostponedRequests, or a Letter. `op` points into `bytes` and options.value, so it neither moves nor is copied.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "protocol/frame_request.h"
#include "protocol/op.h"
#include "proxy/ask.h"

namespace farcached::daemon {

// Copies the value; the result owns it, and is nullptr without a value. Throws std::bad_alloc.
inline std::shared_ptr<const void> own_value(protocol::StoreOp& op) {
    if (op.value.empty()) return nullptr;
    std::shared_ptr<char[]> bytes(new char[op.value.size()]);
    std::memcpy(bytes.get(), op.value.data(), op.value.size());
    op.value = {bytes.get(), op.value.size()};
    return bytes;
}

struct OwnedRequest {
    // Throws std::bad_alloc.
    template <class Op>
    OwnedRequest(const Op& from, proxy::AskOptions&& with) : op(from), options(std::move(with)) {
        own(std::get<Op>(op));
    }
    OwnedRequest(const OwnedRequest&) = delete;
    OwnedRequest& operator=(const OwnedRequest&) = delete;

    protocol::RequestOp op;
    std::string bytes;  // key, group or prefix
    proxy::AskOptions options;

  private:
    template <class Op>
    void own(Op& kept) {
        if constexpr (requires { kept.key; }) {
            bytes = kept.key.bytes;
            kept.key.bytes = bytes;
        }
        if constexpr (requires { kept.group; }) {
            bytes = kept.group;
            kept.group = bytes;
        }
        if constexpr (std::is_same_v<Op, protocol::FlushOp>) {
            std::string_view& one = kept.kept.empty() ? kept.prefix : kept.kept;
            bytes = one;
            one = bytes;
        }
        if constexpr (std::is_same_v<Op, protocol::StoreOp>)
            if (options.value == nullptr) options.value = own_value(kept);
    }
};

}  // namespace farcached::daemon
