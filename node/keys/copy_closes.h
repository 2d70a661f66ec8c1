// SPDX-License-Identifier: BSD-3-Clause
// CopyCloses: until when a node is closed for copies of other nodes' items (SharedKeys::close_copies()).
//
// Owner: SharedKeys. Threads: any. Its lock is taken before a partition's.
//
// L1  The node is closed until the last end of all closes that were not opened. Names need not differ.
// L2  A close without room is kept without its name: nothing opens it.
// L3  `apply` gives that time to all partitions under the lock, so they have the times in the order of the calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "base/function_ref.h"
#include "base/node_clock.h"

namespace farcached::node {

class CopyCloses {
  public:
    using Apply = FunctionRef<void(NodeSeconds until)>;

    void close(uint64_t name, NodeSeconds now, NodeSeconds until, Apply apply) {
        std::lock_guard hold(lock_);
        if (!note({name, until})) nameless_until_ = std::max(nameless_until_, until);
        apply(last_end(now));
    }
    // No-op if no close of that name runs.
    void open(uint64_t name, NodeSeconds now, Apply apply) {
        std::lock_guard hold(lock_);
        const auto closed = std::ranges::find_if(closes_, [&](const Close& one) { return one.name == name && one.until > now; });
        if (closed == closes_.end()) return;
        closes_.erase(closed);
        apply(last_end(now));
    }

  private:
    static constexpr size_t closes_max = 1024;

    struct Close {
        uint64_t name;
        NodeSeconds until;
    };

    bool note(const Close& close) try {
        if (closes_.size() >= closes_max) return false;
        closes_.push_back(close);
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
    NodeSeconds last_end(NodeSeconds now) {
        std::erase_if(closes_, [now](const Close& one) { return one.until <= now; });
        NodeSeconds until = nameless_until_;
        for (const Close& one : closes_) until = std::max(until, one.until);
        return until;
    }

    std::mutex lock_;
    std::vector<Close> closes_;
    NodeSeconds nameless_until_ = 0;  // L2
};

}  // namespace farcached::node
