// SPDX-License-Identifier: BSD-3-Clause
// Eviction policies: choose the next victim of a (partition, size class). A policy decides, Room acts.
// Owner: an EvictionOrder. All calls need the partition's lock; each is O(1). Policy is a variant of classes with these functions:
//
//   inserted   a new item; `hash` is its key's.
//   replaced   a new generation of an item; the older one is removed next. Its access_count and queue are already set:
//              those of the older one, with the touch if `touched`.
//   accessed   the item was read or changed, `times` times: more than one for one-sided reads counted later. access_count
//              is already raised.
//   removed    the item is gone. For evictions, policies with `remembers` get this call instead:
//   evicted    the item was evicted; `hash` is its key's.
//   victim     the next victim that may go; nil if none of those checked may. The policy asks for each checked
//              item whether it had uncounted one-sided reads. If so, they count as an access, and the item gets another chance.
//   next_to_go a guess at the next victim, for its age and its page; nil: the class has no item.
//   walk       visits some `depth` items that are next to go, until `stop` returns true. `stop` may remove the item
//              it gets. True: `stop` returned true.
//   kept       second chances given.
//   length     of a queue, 0 to 7; the queues together hold all items of the class.
//
// P1  Every item of a class is in exactly one list of its policy, linked by prev, next and queue of the descriptor. The policy
//     may also decrease access_count. No other code writes these while the item is in the list.
// P2  Decisions depend on `now` and on earlier calls only: the same calls yield the same victims.
#pragma once

#include <type_traits>
#include <variant>

#include "base/policy_kind.h"
#include "node/policy_lists.h"
#include "node/policy_queues.h"
#include "node/policy_s3fifo.h"

namespace farcached::node {

using Policy = std::variant<ClockLru, StrictLru, Pdla, PdlaPaper, Mq, S3Fifo>;

// private_seed: see Ghosts.
inline void choose_policy(Policy& policy, PolicyKind kind, uint64_t private_seed) {
    switch (kind) {
        case PolicyKind::clock: policy.emplace<ClockLru>(); return;
        case PolicyKind::lru:
        case PolicyKind::approx_lru:
        case PolicyKind::fixed_lease:
        case PolicyKind::original: policy.emplace<StrictLru>(); return;
        case PolicyKind::pdla: policy.emplace<Pdla>(private_seed); return;
        case PolicyKind::pdla_paper: policy.emplace<PdlaPaper>(); return;
        case PolicyKind::mq: policy.emplace<Mq>(private_seed); return;
        case PolicyKind::s3fifo: policy.emplace<S3Fifo>(private_seed); return;
    }
}

}  // namespace farcached::node
