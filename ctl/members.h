// SPDX-License-Identifier: BSD-3-Clause
// `farctl members`: the nodes of the lists in use, the proxies that are connected to them, and the epochs of their lists.
// Owner: main; one thread.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ctl/server.h"
#include "ctl/show.h"
#include "ctl/survey.h"

namespace farcached::ctl {

struct MemberNode {
    std::string name, address, zone, version, state;  // zone, version: empty: not known
    std::optional<uint64_t> uptime_s;
    std::optional<uint64_t> epoch;  // newest that it knows of; none: it is not in etcd
};

// A process that is connected to nodes.
struct MemberProxy {
    std::string name, host;
    std::optional<uint64_t> pid;
    std::vector<std::string> nodes = {};           // to which it is connected
    uint64_t epoch_lowest = 0, epoch_highest = 0;  // that it named; 0: none
    uint64_t connected_s = 0;                      // the longest
    bool is_behind = false;                        // it named none as new as the newest of the nodes
};

struct Members {
    std::vector<MemberNode> nodes;
    std::vector<MemberProxy> proxies;    // by name, host and pid
    std::vector<std::string> farcached;  // HOST|ADDRESS|PORT, as clients get them
};

// lists: `stats members` of proxies. books: nodes with their `stats proxies`.
Members members_of(const Survey& survey, const std::vector<Stats>& lists,
                   const std::vector<std::pair<std::string, Stats>>& books);
// Asks all. Failures are added.
Members take_members(std::vector<Server>& servers, std::vector<Failure>& failures);
std::string members_text(const Members& members, std::time_t now, Look look = {});
Json json_of(const Members& members, const std::vector<Failure>& failures);

}  // namespace farcached::ctl
