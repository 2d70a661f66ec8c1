// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/requests_ahead.h"

#include <variant>

#include "base/hash.h"
#include "fabric/local_read.h"

namespace farcached::node {

using protocol::FrameStep;

namespace {

// nullptr: the operation has no key.
protocol::Key* key_of(protocol::RequestOp& op) {
    return std::visit(
        [](auto& any) -> protocol::Key* {
            if constexpr (requires { any.key; }) return &any.key;
            return nullptr;
        },
        op);
}

}  // namespace

FrameStep RequestsAhead::look(protocol::RequestReader& reader, const fabric::RegionView& view) {
    FrameStep step = FrameStep::entry;
    count_ = 0;
    const bool alone = reader.requests_left() == 1;
    while (count_ < requests_.size()) {
        Request& next = requests_[count_];
        next.from = {reader.requests_left(), reader.bytes_left()};
        step = reader.next(next.request);
        if (step != FrameStep::entry) break;
        next.left = {reader.requests_left(), reader.bytes_left()};
        next.key = key_of(next.request.op);
        if (next.key != nullptr) {
            next.key->hash = hash_key(next.key->bytes, view.hash_seed);
            if (!alone) fabric::prefetch_bucket(view, next.key->hash);
        }
        count_++;
    }
    if (alone) return step;
    for (const Request& one : read())
        if (one.key != nullptr) fabric::prefetch_item(view, one.key->hash);
    return step;
}

}  // namespace farcached::node
