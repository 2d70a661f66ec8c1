// SPDX-License-Identifier: BSD-3-Clause
// Pages: the pages of a node's items, for walks over all items: the crawler's, dumps', and those that count or list keys.
//
// Owner: Node::Impl. Threads: any; no caller has a partition's lock.
//
// G1  Each call takes the lock of the page's owner, for that page and, with `tails`, for a bounded number of its next victims.
// G2  A walk over all pages sees every item that does not move during it.
#pragma once

#include <cstdint>

#include "base/function_ref.h"
#include "base/node_clock.h"
#include "node/store/node.h"

namespace farcached::node {

class Arena;
class Partitions;

class Pages {
  public:
    // Both outlive this.
    Pages(Partitions& partitions, Arena& arena) : partitions_(partitions), arena_(arena) {}
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    // Pages are 0 .. count()-1.
    uint64_t count() const;
    // Pages that can exist, now or after Node::set_memory_limit(); those from count() on are empty, or about to be.
    uint64_t most() const;
    // Visits the live items of one page; an empty page visits none.
    void visit(uint64_t page, NodeSeconds now, FunctionRef<void(const ItemView&)> visit);
    // Removes expired and flushed items of one page; they count as crawled. With `tails`, it first removes those among the
    // class's next victims, in any page. These count as reclaimed, as in memcached's LRU maintenance.
    SweptPage sweep(uint64_t page, NodeSeconds now, bool tails = false);

  private:
    Partitions& partitions_;
    Arena& arena_;
};

}  // namespace farcached::node
