// SPDX-License-Identifier: BSD-3-Clause
// The effect of a request on the item of its key. Pure.
#pragma once

#include "protocol/frame_request.h"

namespace farcached::node {

// The request does not need the item's value.
inline bool replaces_value(const protocol::StoreOp& op) {
    return op.mode == protocol::StoreOp::Mode::set && !op.cas_compare.has_value() && !op.invalidate;
}
inline bool replaces_value(const protocol::DeleteOp& op) {
    return !op.cas_compare.has_value() && !op.invalidate && !op.remove_value;
}
inline bool replaces_value(const protocol::ForgetOp&) { return true; }
inline bool replaces_value(const protocol::HoldOp& op) { return op.release == 0; }
inline bool replaces_value(const auto&) { return false; }

// The request may change the item, or hand out its tokens.
inline bool changes_item(const protocol::GetOp& op) {
    return op.touch.has_value() || op.vivify.has_value() || op.recache_before.has_value();
}
inline bool changes_item(const auto&) { return true; }

}  // namespace farcached::node
