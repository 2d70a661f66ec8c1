// SPDX-License-Identifier: BSD-3-Clause
// AwayItems: the items of a node whose values are in a tier (node/store/tiers.h). It decides what becomes of an item after a read
// of its value there, and how long proxies may READ a value on another node.
//
// Owner: Node::Impl. Threads: any; no caller has a partition's lock. Times of subleases are on CLOCK_BOOTTIME.
//
// V1  An item changes only if its stub still names the place that the caller read.
// V2  S15: while a sublease of a key runs, no mutation of the key is executed, and no get of it is a miss. The node's connections
//     wait for the end (node/service/sublease_waits.h): this class has the times.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/node_clock.h"
#include "fabric/remote_ptr.h"
#include "node/disk/place.h"
#include "node/keys/sublease_gate.h"
#include "node/store/node.h"
#include "protocol/op.h"

namespace farcached::node {

class Arena;
class Partitions;

class AwayItems {
  public:
    // All outlive this. flush_is_announced: a flush is scheduled.
    AwayItems(Partitions& partitions, Arena& arena, SpillRules& rules, const std::atomic<bool>& flush_is_announced)
        : partitions_(partitions), arena_(arena), rules_(rules), flush_is_announced_(flush_is_announced) {}
    AwayItems(const AwayItems&) = delete;
    AwayItems& operator=(const AwayItems&) = delete;

    SpillRules& rules() { return rules_; }

    // The tier had that value of the key there. It may return to memory (SpillRules).
    void found(const protocol::Key& key, const Place& place, std::string_view value, NodeSeconds now);
    // The tier has not: the item is gone, unless it has changed since.
    void lost(const protocol::Key& key, const Place& place, NodeSeconds now);

    // A pointer to that value under a sublease, which ends before `leased` does. `place`: as Node::get() gave it. nullopt: none;
    // the item has changed, or expires soon, or a mutation or a flush waits.
    std::optional<protocol::Grant> sublease(const protocol::Key& key, const Place& place, const fabric::LeasedPtr& leased,
                                            uint64_t now_ns, NodeSeconds now);
    // The end of the key's sublease, and the place of the value; 0: none runs.
    uint64_t sublease_end(const protocol::Key& key, uint64_t now_ns, Place& place);
    // The same before a mutation: none follows it until then. If none runs, none is granted until change_over().
    uint64_t begin_change(const protocol::Key& key, uint64_t now_ns, Place& place);
    void change_over(uint64_t key_hash);
    // The other node has killed the value there.
    void sublease_over(uint64_t key_hash, const Place& place);
    // No key gets a sublease until resume_subleases(). Returns when the last one ends; 0: none runs. Calls may nest.
    uint64_t stop_subleases(uint64_t now_ns);
    void resume_subleases() { gate_.resume(); }

    void add_stats(TierStats& sum) const;

  private:
    Partitions& partitions_;
    Arena& arena_;
    SpillRules& rules_;
    const std::atomic<bool>& flush_is_announced_;
    std::atomic<uint64_t> found_{0}, recached_{0}, lost_{0};
    SubleaseGate gate_;
};

}  // namespace farcached::node
