// SPDX-License-Identifier: BSD-3-Clause
// PrefixDeletes: a node's deletes of the items with a prefix, or of all items whose keys have moved to other nodes. A delete lasts
// from the request to the end of the sweep that frees the items' memory.
//
//   begin(): each partition hides the items -> go_on(): items under leases die -> a sweep of all pages -> swept()
//
// Owner: Node::Impl. Threads: any; swept() is the sweeper's (crawler.h). No caller has a partition's lock. lock_ and the lock of
// PrefixCounts are taken before a partition's.
//
// W1  Once the last step has returned, no reader finds an item of the flush that was stored before begin() (S11). Until the sweep
//     has ended, reads of items older than that use the locked path.
// W2  Orders rise. An order is unswept once all partitions hide its items, whether the delete succeeded or not. So a sweep that
//     begins then finds all of them.
// W3  With a file of memory (node/memory/memory_file.h), its notes have the prefix before the first partition hides an item, and
//     until swept(). So after a restart the items stay hidden.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "base/node_clock.h"
#include "node/keys/prefix_counts.h"
#include "node/store/hidden_items.h"

namespace farcached::node {

class MemoryFile;  // node/memory/memory_file.h
class Partitions;

class PrefixDeletes {
  public:
    // Both outlive this. file: nullptr: the memory is in no file.
    PrefixDeletes(Partitions& partitions, MemoryFile* file) : partitions_(partitions), file_(file) {}
    PrefixDeletes(const PrefixDeletes&) = delete;
    PrefixDeletes& operator=(const PrefixDeletes&) = delete;

    // All of it, for a prefix of 1 to key_bytes_max bytes. Visits all items under leases. False: as begin().
    bool remove(std::string_view prefix, NodeSeconds now);
    // The same in steps. begin() fills the rest of `flush`. False: HiddenPrefixes::prefixes_max prefixes wait for the sweep, or
    // memory is short; matching items may be gone.
    bool begin(PartialFlush& flush);
    // Visits at most pages_max pages. True: done. Throws std::bad_alloc: try again.
    bool go_on(PartialFlush& under_way, uint32_t pages_max, NodeSeconds now);
    // Deletes by prefix that are done.
    uint64_t executed() const { return executed_.load(std::memory_order_relaxed); }

    // ---- the sweeper
    // The last order, if it was not swept; 0: none is to be swept.
    uint64_t unswept() const;
    // Every page was swept since unswept() returned that order.
    void swept(uint64_t order);
    // Numbers of items by prefix; the sweeper counts.
    PrefixCounts& counts() { return counts_; }

  private:
    Partitions& partitions_;
    MemoryFile* const file_;
    std::mutex lock_;  // admits one begin() at a time; of the prefixes in the file's notes
    std::atomic<uint64_t> last_order_{0}, swept_order_{0};
    std::atomic<uint64_t> executed_{0};
    PrefixCounts counts_;
};

}  // namespace farcached::node
