// SPDX-License-Identifier: BSD-3-Clause
// Source: a directory that lists the nodes (--discover), such as DNS. It looks them up on a thread of its own, again and again.
//
// Owner: main, which makes it after the process has forked. Any thread may call the others.
// V1  A list is complete: it comes from one answer, or from answers that all succeeded. An empty or failed answer is counted and
//     logged; it leaves the last list in place.
// V2  A list does not change. The next one has a greater revision, and differs in its nodes, whose order does not count.
//     Or a node was gone in between.
// V3  The destructor ends the thread within a second. `changed` is not called after it returns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/shared_epoch.h"
#include "conf/settings.h"

namespace farcached::daemon {

struct FoundNode {
    conf::NodeSpec node;          // its origin names the source
    std::string zone = {};        // empty: the source has none
    uint64_t incarnation = 0;     // 0: the source has none
    std::string version = {};     // of farnode; empty: the source has none
};

struct Found {
    std::vector<FoundNode> nodes;  // at least one; sorted by name
    uint64_t revision = 0;         // of the source, or counted here from 1
    // The newest revision of etcd at which this was the list, as far as known. It rises while this is the newest list. 0: the list
    // has no place in an order that all farcached share. nullptr: the source has no order.
    SharedEpoch epoch = nullptr;
    std::shared_ptr<const conf::FormerLists> former = nullptr;  // before this one, by etcd; nullptr: none is known
};

// As `stats discovery` shows it.
struct SourceState {
    std::string source;                 // as in --discover, without secrets
    bool up = false;                    // the last look-up succeeded
    std::string last_error = {};        // a sentence; kept after a success; empty: none yet
    uint64_t changes = 0;               // lists after the first
    uint64_t answers = 0;               // look-ups that succeeded
    uint64_t failures = 0;              // and the others
    std::optional<uint64_t> answer_age_s = {};  // since the last success; nullopt: none yet
    uint64_t skipped = 0;               // records that are no nodes
    uint64_t nodes = 0;                 // of the newest list
    uint64_t revision = 0;
};

class Source {
  public:
    Source() = default;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;
    virtual ~Source() = default;

    // The newest list; nullptr: none yet.
    virtual std::shared_ptr<const Found> latest() const = 0;
    virtual SourceState state() const = 0;
    // A node knows a newer list, of this epoch; 0: it did not name one. Where the source has an order, and latest() is not as new,
    // asks for it now.
    virtual void ask_soon(uint64_t /* epoch */) {}
};

// Starts the thread. changed: called by it after latest() returns another list, the first included; does not throw.
Result<std::unique_ptr<Source>> make_source(const conf::ProxySettings& settings, std::function<void()> changed);

}  // namespace farcached::daemon
