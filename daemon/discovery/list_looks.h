// SPDX-License-Identifier: BSD-3-Clause
// ListLooks: a node's own looks at the list of nodes in etcd, for the changes that no proxy tells it of: those that were running
// have ended, and those that started since do not know the list of before (ListEpoch, E5).
//
// Pure; times are the caller's. Owner: an EtcdRegistration, in its thread.
// K1  A look shows the number of records and the revision of the newest one. Each change of the list changes one of them. The node
//     does not know the number before its first look: it takes what was written until then for a change.
// K2  A change is reported after patience_ns. By then every proxy that sees etcd has told of it, or names an epoch that is not
//     below the revision at which the change was seen (EtcdSource::question_ms).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "daemon/discovery/etcd_messages.h"

namespace farcached::daemon {

class ListLooks {
  public:
    static constexpr uint64_t patience_ns = 10'000'000'000;

    struct Change {
        uint64_t before, seen;  // the list changed after the first revision, and not after the second one
        uint64_t since_ns;
    };
    // The node has registered, at that revision.
    void begin(int64_t revision, uint64_t cluster) {
        changes_.clear();
        revision_ = newest_ = revision;
        count_ = -1;
        cluster_ = cluster;
    }
    // The answer of a look at all records. Throws std::bad_alloc: the change is seen again at the next look.
    void look(const EtcdRange& found, uint64_t now_ns) {
        const int64_t newest = found.keys.empty() ? 0 : found.keys.front().mod_revision;
        if (found.revision < revision_ || found.cluster != cluster_) changes_.clear(), revision_ = 0;  // it lost its data
        if (revision_ != 0 && found.revision != revision_ && (found.count != count_ || newest != newest_))
            changes_.push_back({uint64_t(revision_), uint64_t(found.revision), now_ns});
        revision_ = found.revision;
        cluster_ = found.cluster;
        count_ = found.count;
        newest_ = newest;
    }
    // The next one that is due; it is forgotten.
    std::optional<Change> take(uint64_t now_ns) {
        if (changes_.empty() || now_ns - changes_.front().since_ns < patience_ns) return {};
        const Change first = changes_.front();
        changes_.pop_front();
        return first;
    }

  private:
    std::deque<Change> changes_;  // one for each look within patience_ns at most
    int64_t revision_ = 0, count_ = 0, newest_ = 0;
    uint64_t cluster_ = 0;
};

}  // namespace farcached::daemon
