// SPDX-License-Identifier: BSD-3-Clause
// CopyPlan: the plan for a key's copy after the primary has executed a mutation. The key gets no copy, a copy by the reply alone,
// or one of the item that the primary has then. Pure.
//
// Owner: a step of Replicas. It borrows the request, its reply and the value, and lives no longer than the step.
// D1  `item` is the primary's item as of the reply, with its unique: a later mutation has a larger one.
// D2  An item with tokens has no copy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/steps/stepped_request.h"
#include "protocol/op.h"

namespace farcached::daemon {

class CopyPlan {
  public:
    enum class What : uint8_t { nothing, look, store };

    // value: of the reply, if the request wanted one. Throws std::bad_alloc.
    CopyPlan(const SteppedRequest& request, const protocol::ReplyOp& reply, std::string_view value);
    CopyPlan(const CopyPlan&) = delete;
    CopyPlan& operator=(const CopyPlan&) = delete;

    What what() const { return what_; }
    // To store.
    const SteppedRequest::Item& item() const { return item_; }

    static bool has_tokens(const protocol::ItemMeta& meta) { return meta.stale || meta.win || meta.win_sent; }

  private:
    What after(bool wants_value, const protocol::GetReply& reply, std::string_view value);
    What after(const protocol::StoreOp& op, const protocol::StoreReply& reply);
    What after(const protocol::DeleteOp& op, const protocol::DeleteReply& reply);
    What after(const protocol::ArithReply& reply);

    SteppedRequest::Item item_;
    std::string number_;  // of an arithmetic operation, as text
    What what_;
};

}  // namespace farcached::daemon
