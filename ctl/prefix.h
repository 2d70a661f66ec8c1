// SPDX-License-Identifier: BSD-3-Clause
// `farctl delete-prefix`: a delete, or a count, of the items that begin with a prefix, through one farcached. Its nodes free the
// memory of deleted items in the background and then know their number; farctl waits as long as they make progress.
// Owner: main; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
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
        uint64_t order = 0, pages_done = 0;
        std::optional<uint64_t> items;
    };
    std::vector<One> nodes;
};
PrefixTold prefix_told_of(const Stats& rows);

// Of one farcached.
struct PrefixResult {
    std::optional<uint64_t> items;  // none: unknown
    size_t nodes = 0, nodes_done = 0;
    std::optional<Failure> failure;
};
// The sum over the nodes that did it: with `before`, those whose delete is newer than that.
PrefixResult prefix_result_of(const PrefixTold& now, const PrefixTold* before);
// "deleted 1111 items beginning with "x" on 2 of 2 nodes".
std::string prefix_text(const PrefixResult& result, const std::string& prefix, bool is_count);

PrefixResult delete_prefix(Server& server, const std::string& prefix, uint32_t timeout_ms);
PrefixResult count_prefix(Server& server, const std::string& prefix, uint32_t timeout_ms);

}  // namespace farcached::ctl
