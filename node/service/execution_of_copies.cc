// SPDX-License-Identifier: BSD-3-Clause
// The requests of Execution that concern copies of items (replicas).
#include <string>

#include "node/service/batch.h"
#include "node/service/execution.h"
#include "node/store/shared_keys.h"

namespace farcached::node {

using protocol::RequestRefusal;

// After a mutation: another thread may have taken a newer list since execute() has looked. The key's new nodes are used as soon as
// that is answered. So the item goes, and the request counts as not executed.
bool Execution::has_moved(Batch& batch, uint32_t tag, const protocol::Key& key, bool wrote) {
    if (!connection_.shared.list.moved_away(batch.epoch, key.bytes, /* reads= */ false)) [[likely]] return false;
    if (wrote) node_.forget(key, batch.now);
    counters_.requests_old_list.add(1);
    batch.refuse(tag, RequestRefusal::old_list);
    return true;
}

void Execution::run(Batch& batch, const protocol::RequestOptions& options, protocol::HoldOp& op) {
    counters_.cmd_hold.add(1);
    batch.replies.add(node_.shared_keys().hold(op, batch.now), reply_to(options.tag));
}

void Execution::run(Batch& batch, const protocol::RequestOptions& options, const protocol::CopiesOp& op) {
    counters_.cmd_copies.add(1);
    using What = protocol::CopiesOp::What;
    ServiceShared& shared = connection_.shared;
    std::string keys(1, 1);
    switch (op.what) {
        case What::next_keys: keys[0] = char(shared.key_pass.take(node_, batch.now, shared.steady_ns(), keys)); break;
        case What::begin_pass: shared.key_pass.begin(batch.now, shared.steady_ns()); break;
        case What::close: node_.shared_keys().close_copies(batch.now, protocol::CopiesOp::closed_s, op.name); break;
        case What::open: node_.shared_keys().open_copies(batch.now, op.name); break;
    }
    batch.reply_text(options.tag, keys);
}

}  // namespace farcached::node
