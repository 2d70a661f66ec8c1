// SPDX-License-Identifier: BSD-3-Clause
// MovedKeys: what each node may keep when the list of nodes changes (Fences, F7).
//
// Owner: Nodes. The thread of main.
// V1  A node of both lists keeps the items of the keys that both give it, as their own node or, with copies, as their second one.
// V2  A node that an earlier list had keeps nothing, if the last one had not, or under another name: others had its keys meanwhile.
//     An address names it, and with DNS its name, too: such a node may return at another address.
// V3  A node that was in no list before keeps all: this process does not know of another list. It joins, too, so that no worker
//     uses it while another one uses the former home of its keys. With etcd it keeps its keys of the new list (V5).
// V4  A node of both lists that DNS finds is the same at other addresses. If another process answers there, it keeps nothing
//     (Fences, F9).
// V5  With etcd this process sends the first list, too, and a node that joins receives its keys (ListEpoch, E5). It sends no keys
//     that take too long to describe, as the node would delete them all. A node without keys receives nothing. A reader sends none.
// V6  With etcd a node of both lists receives its keys even if these are the same. By a list in between, which this process did not
//     see, it may have had others, and another process may still use that list. As in V5, keys that take too long to describe are
//     not sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "conf/settings.h"
#include "daemon/remote/fence.h"
#include "proxy/placement.h"

namespace farcached::daemon {

struct NodeSet;
struct OneNode;

// The list of nodes changed at a revision of etcd.
struct ListChange {
    static constexpr uint32_t gone = UINT32_MAX;

    uint64_t revision;
    std::shared_ptr<const proxy::Placement> before;
    std::vector<uint32_t> members;  // the number in `before` -> the number in the set

    // The number in the set of the node that had the key before; gone: it is not in the set.
    uint32_t home_of(std::string_view key) const {
        return members[members.size() == 1 ? 0 : before->node_of(key, /* chance= */ 0)];
    }
};

class MovedKeys {
  public:
    struct Change {
        bool joins = false;
        std::shared_ptr<const Kept> kept = nullptr;  // nullptr: all
        JoinedChanges joined = {};                   // Nodes fills it
    };
    // Of each member of `next`. Throws std::bad_alloc.
    std::vector<Change> change(const NodeSet& last, const NodeSet& next);
    // For each member, of which this process knows no former list (V5); nullptr: nothing to send. Empty: nothing to any.
    static std::vector<std::shared_ptr<const Kept>> first(const NodeSet& set);
    // Leaves out of the set the changes from before other options than its own placed the keys.
    void forget_changes(const NodeSet& last, NodeSet& next);

  private:
    template <class Member>
    bool keeps_nothing(const Member& member) const;
    std::vector<Change> change_of_homes(const NodeSet& last, const NodeSet& next);
    std::vector<Change> change_with_copies(const NodeSet& last, const NodeSet& next);

    // Of nodes of earlier lists that the last one had not (V2): addresses, and names that DNS found.
    std::set<std::string> departed_, departed_names_;
    uint64_t placed_since_ = 0;       // the last epoch with other options
};

// Fills NodeSet::changes of that set, which is otherwise complete. Throws std::bad_alloc.
void note_changes(NodeSet& set, const conf::ProxySettings& settings);

}  // namespace farcached::daemon
