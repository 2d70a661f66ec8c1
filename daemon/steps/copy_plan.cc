// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/steps/copy_plan.h"

#include <variant>

namespace farcached::daemon {

using protocol::ArithReply;
using protocol::DeleteOp;
using protocol::DeleteReply;
using protocol::GetReply;
using protocol::StoreOp;
using protocol::StoreReply;

CopyPlan::CopyPlan(const SteppedRequest& request, const protocol::ReplyOp& reply, std::string_view value) {
    const protocol::RequestOp& asked = request.asked.op;
    if (std::holds_alternative<protocol::ForgetOp>(asked))
        what_ = What::nothing;
    else if (const auto* get = std::get_if<GetReply>(&reply))
        what_ = after(request.wanted.value, *get, value);
    else if (const auto* stored = std::get_if<StoreReply>(&reply))
        what_ = after(std::get<StoreOp>(asked), *stored);
    else if (const auto* removed = std::get_if<DeleteReply>(&reply))
        what_ = after(std::get<DeleteOp>(asked), *removed);
    else
        what_ = after(std::get<ArithReply>(reply));
}

CopyPlan::What CopyPlan::after(bool wants_value, const GetReply& reply, std::string_view value) {
    if (reply.status != GetReply::Status::hit || has_tokens(reply.meta)) return What::nothing;
    if (!wants_value) return What::look;
    item_ = {value, reply.meta.flags, reply.meta.exptime, reply.meta.cas, reply.meta.key_binary};
    return What::store;
}

CopyPlan::What CopyPlan::after(const StoreOp& op, const StoreReply& reply) {
    using Status = StoreReply::Status;
    const bool joins = op.mode == StoreOp::Mode::append || op.mode == StoreOp::Mode::prepend;
    if (reply.status == Status::not_found || reply.status == Status::too_large) return What::nothing;
    if (reply.status != Status::stored || joins || op.invalidate) return What::look;
    item_ = {op.value, op.flags, reply.exptime, reply.cas, op.key_binary};
    return What::store;
}

CopyPlan::What CopyPlan::after(const DeleteOp& op, const DeleteReply& reply) {
    const bool is_gone = reply.status != DeleteReply::Status::exists && !op.invalidate && !op.remove_value;
    return is_gone ? What::nothing : What::look;
}

CopyPlan::What CopyPlan::after(const ArithReply& reply) {
    if (reply.status != ArithReply::Status::ok && reply.status != ArithReply::Status::vivified) return What::look;
    if (has_tokens(reply.meta)) return What::nothing;
    number_ = std::to_string(reply.value);
    number_.resize(reply.meta.value_len, ' ');  // as memcached pads a shorter number
    item_ = {number_, reply.meta.flags, reply.meta.exptime, reply.meta.cas, reply.meta.key_binary};
    return What::store;
}

}  // namespace farcached::daemon
