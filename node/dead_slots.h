// SPDX-License-Identifier: BSD-3-Clause
// DeadSlots: the slots of one partition whose item died under a lease. Until lease and grace have ended, only a later item of
// the same key may be written there (S1).
//
// Owner: Leases, under the partition's lock. Adding a slot allocates nothing: the links are in the slots' descriptors.
//
// R1  A slot is here exactly while its state is `dead`. It is in two lists: that of the second in which its lease ends, linked
//     by Descriptor::prev and next, and that of its key's hash, linked by Descriptor::chain.
// R2  ended() returns a slot only when its lease end has passed (S2). A slot that its key revived earlier leaves no entry
//     behind that could free it later.
// R3  find() compares hash bits only; the caller compares the key's bytes. No peer learns the hash seed, so no peer can aim
//     many slots at one bucket.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/broken.h"
#include "base/function_ref.h"
#include "base/mapping.h"
#include "node/descriptor.h"

namespace farcached::node {

// Lease ends are distinguished modulo this many seconds; lease and grace together are never longer.
constexpr uint32_t lease_seconds_max = 1024;

class DeadSlots {
  public:
    DeadSlots(Descriptors items, uint64_t pages_max);

    // The slot's lease_end is set and its state is `dead`.
    void add(Ref ref, uint64_t key_hash);
    void remove(Ref ref);
    // Visits the slots of that hash until `stop` returns true; returns that slot, or nil. `stop` changes nothing here.
    Ref find(uint64_t key_hash, FunctionRef<bool(Ref)> stop) const;
    // Removes all slots whose lease end is before `now`, and passes each to `freed`.
    void ended(NodeSeconds now, FunctionRef<void(Ref)> freed);

    uint64_t count() const { return count_; }

  private:
    static constexpr uint32_t buckets_per_page = 128;
    struct Stale {
        Ref ref;
        uint32_t lease_end;
    };

    Ref& bucket(uint32_t hash_bits) const {
        return reinterpret_cast<Ref*>(buckets_.data())[hash_bits & bucket_mask_];
    }
    void unlink_key(Ref ref);
    void end_second(uint32_t second, NodeSeconds now, FunctionRef<void(Ref)> freed);
    void end_stale(NodeSeconds now, FunctionRef<void(Ref)> freed);

    Descriptors items_;
    uint32_t bucket_mask_;
    Mapping buckets_;  // first slot of each hash + 1; 0: empty, so that unused memory stays untouched
    std::array<Ref, lease_seconds_max> by_second_;
    NodeSeconds ended_before_ = 0;
    uint64_t count_ = 0;
    std::vector<Stale> stale_;  // used only where rule S2_STALE is broken on purpose
};

}  // namespace farcached::node
