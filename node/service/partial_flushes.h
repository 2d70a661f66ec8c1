// SPDX-License-Identifier: BSD-3-Clause
// PartialFlushes: the deletes of many items that a connection requests: by prefix, or of all items that the node does not keep by
// a new list of nodes.
//
// Owner: an Execution (execution.h). The connection's thread.
//
// D1  A delete that visits items takes long, so it runs a few pages per step, and other connections run in between.
// D2  The deletes of a connection run one after the other, in the order of their requests.
// D3  A new list of nodes is noted in ListEpoch before the delete, and its keys as deleted once no other item is left.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

#include "node/service/connection.h"
#include "node/service/values.h"
#include "node/store/node.h"
#include "node/store/prefix_deletes.h"

namespace farcached::node {

class PartialFlushes {
  public:
    // The connection outlives this.
    explicit PartialFlushes(const Connection& connection) : connection_(connection) {}
    PartialFlushes(const PartialFlushes&) = delete;
    PartialFlushes& operator=(const PartialFlushes&) = delete;

    enum class Begun : uint8_t {
        runs,        // go_on() returns it at its end
        done,        // no item is to go
        no_memory,   // nothing is deleted
        not_partly,  // all items are to go: the process cannot read the list, or too many deletes run in the node
    };
    // Throw std::bad_alloc.
    Begun by_prefix(const RequestId& id, std::string_view prefix);
    Begun all_but(const RequestId& id, std::string_view kept, NodeSeconds now);

    bool empty() const { return running_.empty(); }
    struct Over {
        RequestId id;
        bool no_memory;  // it was not completed
    };
    // Visits some pages for the first delete, which exists. nullopt: it still runs.
    std::optional<Over> go_on(NodeSeconds now);
    void clear() { running_.clear(); }

  private:
    struct Running {
        RequestId id;
        PartialFlush flush;
    };
    bool begin(const RequestId& id, PartialFlush&& flush);

    const Connection& connection_;
    std::deque<Running> running_;
};

}  // namespace farcached::node
