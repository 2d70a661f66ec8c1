// SPDX-License-Identifier: BSD-3-Clause
// UnsentLists: lists of nodes that farcached use, and that no farcached has sent to this node (ListEpoch, E7). Pure: times are
// arguments, CLOCK_BOOTTIME in nanoseconds.
//
// Owner: a NodeRegistration. Any thread.
//
// U1  A farcached uses a list only after the nodes that it reaches have received it. So a list is in use if another node has
//     received one of its revision, or a later one: that has the change, too.
// U2  A list that nobody uses, because no farcached sees it, or because all refuse it, does not count.
// U3  Of more changes than changes_max, the last ones count as one, at the time of the first of them.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>

namespace farcached::node {

class UnsentLists {
  public:
    static constexpr size_t changes_max = 64;

    // patience_ns: how much later than another node this one may receive a list.
    explicit UnsentLists(uint64_t patience_ns) : patience_ns_(patience_ns) {}

    // By etcd, the list's last change has this revision. A lower one than before: etcd lost its data.
    void changed(uint64_t revision, uint64_t now_ns) {
        std::lock_guard hold(lock_);
        if (!changes_.empty() && revision < changes_.back().revision) changes_.clear();
        if (!changes_.empty() && (revision == changes_.back().revision || changes_.size() == changes_max))
            changes_.back().revision = revision;
        else
            changes_.push_back({revision, now_ns});
    }
    // The newest one that is in use, and should have been received by now; 0: none. known_to: of this node's ListEpoch. in_use: the
    // newest one that another node has received.
    uint64_t overdue(uint64_t known_to, uint64_t in_use, uint64_t now_ns) {
        std::lock_guard hold(lock_);
        while (changes_.size() > 1 && changes_.front().revision <= known_to) changes_.pop_front();
        uint64_t newest = 0;
        for (const Change& one : changes_)
            if (one.revision > known_to && one.revision <= in_use && one.seen_ns + patience_ns_ <= now_ns) newest = one.revision;
        return newest;
    }

  private:
    struct Change {
        uint64_t revision, seen_ns;
    };
    const uint64_t patience_ns_;
    std::mutex lock_;
    std::deque<Change> changes_;  // under lock_; the oldest first
};

}  // namespace farcached::node
