// SPDX-License-Identifier: BSD-3-Clause
// `farctl delete-prefix`: a delete, or a count, of the items that begin with a prefix, through one farcached. Its nodes free the
// memory of deleted items in the background and then know their number; farctl waits as long as they make progress.
// Owner: main; one thread. PrefixProgress and the functions about results are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ctl/server.h"
#include "ctl/show.h"

namespace farcached::ctl {

// The reply to `count_prefix`: rows "node:name".
struct PrefixTold {
    struct One {
        std::string node, state;
        uint64_t order = 0, pages_done = 0, pages = 0, pages_walked = 0;
        std::optional<uint64_t> items;
    };
    std::vector<One> nodes;
};
PrefixTold prefix_told_of(const Stats& rows);

// How far the nodes' walks over their pages are. Each node's progress is bounded: other deletes and counts cannot prolong a wait
// without end.
class PrefixProgress {
  public:
    struct Look {
        size_t running = 0;                  // nodes
        bool advanced = false;               // one of them, since the last call
        uint64_t pages_done = 0, pages = 0;  // of them
    };
    // before: the state before the delete; null: a count.
    Look look(const PrefixTold& told, const PrefixTold* before);

  private:
    struct Walks {
        uint64_t pages_done = 0, pages_walked = 0;
        uint32_t begun = 1;
    };
    std::map<std::string, Walks> nodes_;
};

// Of one farcached.
struct PrefixResult {
    std::optional<uint64_t> items;  // none: unknown
    size_t nodes = 0, nodes_done = 0;
    size_t nodes_running = 0;       // at the end of the wait
    bool has_copies = false;        // replicas=2: items counts a copy, too
    std::optional<Failure> failure;
};
// The sum over the nodes that did it: with `before`, those whose delete is newer than that.
PrefixResult prefix_result_of(const PrefixTold& now, const PrefixTold* before);
// "deleted 1111 items beginning with "x" on 2 of 2 nodes".
std::string prefix_text(const PrefixResult& result, const std::string& prefix, bool is_count);

PrefixResult delete_prefix(Server& server, const std::string& prefix, uint32_t timeout_ms);
PrefixResult count_prefix(Server& server, const std::string& prefix, uint32_t timeout_ms);

}  // namespace farcached::ctl
