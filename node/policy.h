// SPDX-License-Identifier: BSD-3-Clause
// Eviction policies: which item of a (partition, size class) goes next. A policy decides, the partition acts.
// All calls under the partition's lock; each is O(1). The choice is a variant; each policy has the same functions:
//
//   inserted   an item came that was not there; `hash` is its key's.
//   replaced   one came in the place of an older generation of it, which is removed next. Its access_count and queue are
//              set: what was known of the older one, and the touch, if this was `touched`.
//   accessed   it was touched, so many times: several if reads were counted that nobody saw. Its access_count is raised.
//   removed    it is no more. Those that remember are told in the place of this:
//   evicted    it had to go; `hash` is its key's.
//   victim     the next to go of those that may; nil when none of those that are looked at may. It asks of each that it
//              looks at whether it was read unseen since it was asked last: if so, that has been an access, and it gets
//              another chance.
//   next_to_go a guess at who that will be, for its age and its place; nil: the class has no item.
//   walk       shows some `depth` items of those that are next to go, until `stop` says so, which may remove the one
//              that it is shown. True: it did.
//   kept       second chances given.
//   length     of a queue, 0 to 7; those of all queues together are the items of the class.
//
// P1  Every item of a class is in one place of its policy, by links that the policy keeps in the descriptor: prev, next and
//     queue, and access_count, which it may let age. Nobody else writes these while the item is there.
// P2  What decides is `now`, what was called before, and a seed: the same calls, the same victims.
#pragma once

#include <type_traits>
#include <variant>

#include "base/policy_kind.h"
#include "node/policy_lists.h"
#include "node/policy_queues.h"
#include "node/policy_s3fifo.h"

namespace farcached::node {

using Policy = std::variant<ClockLru, StrictLru, Pdla, Mq, S3Fifo, RandomPick>;

inline void choose_policy(Policy& policy, PolicyKind kind, uint64_t seed) {
    switch (kind) {
        case PolicyKind::clock: policy.emplace<ClockLru>(); return;
        case PolicyKind::lru:
        case PolicyKind::approx_lru:
        case PolicyKind::fixed_lease: policy.emplace<StrictLru>(); return;
        case PolicyKind::pdla: policy.emplace<Pdla>(); return;
        case PolicyKind::mq: policy.emplace<Mq>(); return;
        case PolicyKind::s3fifo: policy.emplace<S3Fifo>(); return;
        case PolicyKind::original: policy.emplace<RandomPick>(seed); return;
    }
}

}  // namespace farcached::node
