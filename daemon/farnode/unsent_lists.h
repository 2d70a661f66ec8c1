// SPDX-License-Identifier: BSD-3-Clause
// UnsentLists: lists of nodes that farcached use, and that no farcached has sent to this node (ListEpoch, E7).
//
// Owner: a NodeRegistration. Any thread.
//
// U1  A farcached uses a list only after the nodes that it reaches have received it. So a list is in use if another node has
//     received one of its revision, or a later one: that has the change, too.
// U2  A list that no farcached uses does not count: none sees it, or all refuse it.
// U3  Of more changes than changes_max, the last ones count as one.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>

namespace farcached::node {

class UnsentLists {
  public:
    static constexpr size_t changes_max = 64;

    // By etcd, the list's last change has this revision. A lower one than before: etcd lost its data.
    void changed(uint64_t revision) {
        std::lock_guard hold(lock_);
        if (!changes_.empty() && revision < changes_.back()) changes_.clear();
        if (!changes_.empty() && changes_.size() == changes_max) changes_.back() = revision;
        else if (changes_.empty() || revision != changes_.back()) changes_.push_back(revision);
    }
    // The newest change that is in use, and not known here; 0: none. known_to: of this node's ListEpoch. in_use: the newest epoch
    // of a list that another node has received.
    uint64_t newest(uint64_t known_to, uint64_t in_use) {
        std::lock_guard hold(lock_);
        while (changes_.size() > 1 && changes_.front() <= known_to) changes_.pop_front();
        uint64_t newest = 0;
        for (const uint64_t revision : changes_)
            if (revision > known_to && revision <= in_use) newest = revision;
        return newest;
    }

  private:
    std::mutex lock_;
    std::deque<uint64_t> changes_;  // revisions, under lock_; the oldest first
};

}  // namespace farcached::node
