// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/steps/stepped_request.h"

#include <variant>

namespace farcached::daemon {

using protocol::GetOp;
using protocol::StoreOp;

bool SteppedRequest::is_get() const {
    const auto* get = std::get_if<GetOp>(&asked.op);
    return get != nullptr && !get->touch.has_value() && !get->vivify.has_value() && !get->recache_before.has_value();
}

const protocol::Key& SteppedRequest::key() const {
    static constexpr protocol::Key none{{}, 0};
    return std::visit(
        [](const auto& one) -> const protocol::Key& {
            if constexpr (requires { one.key; }) return one.key;
            else return none;
        },
        asked.op);
}

StoreOp SteppedRequest::store_op(const Item& item) const {
    StoreOp op;
    op.key = key();
    op.mode = StoreOp::Mode::cas;
    op.cas_compare = mark;
    if (item.cas != 0) op.cas_set = item.cas;
    op.value = item.value;
    op.flags = item.flags;
    op.exptime = item.exptime;
    op.key_binary = item.key_binary;
    return op;
}

StoreOp SteppedRequest::mark_op() const {
    StoreOp op;
    op.key = key();
    op.mode = StoreOp::Mode::cas;
    op.cas_compare = 0;
    return op;
}

}  // namespace farcached::daemon
