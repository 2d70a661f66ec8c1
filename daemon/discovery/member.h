// SPDX-License-Identifier: BSD-3-Clause
// Member: what a farnode registers of itself in etcd, as JSON, and what a farcached reads there.
//
// Pure; value types. Owner: none; any thread.
// N1  Text from etcd is never trusted (S10): what is not a whole, plausible member is refused with a sentence. Names and
//     addresses satisfy the rules of --node. Unknown fields are allowed; a later version may write them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "conf/settings.h"

namespace farcached::daemon {

struct Member {
    static constexpr size_t bytes_max = 16 * 1024;  // of its JSON
    static constexpr size_t word_bytes_max = 63;    // zone, version, host

    std::string name;
    std::string tcp, verbs;      // "10.0.0.2:11300"; empty: none; at least one is there
    std::string shm;             // the path of its Unix socket on its host; empty: none
    std::string host;            // of shm, as in ThisHost
    uint32_t weight = 1;         // up to limits::node_weight_max; 0: it gets no keys
    std::string zone;            // empty: none
    uint64_t incarnation = 0;    // of the node's memory
    std::string version;         // of farnode
    uint32_t ttl_s = 0;          // of its lease; 0: not said

    bool operator==(const Member&) const = default;
};

std::string member_text(const Member& member);
// name: as the key says, which the member must repeat. The error is the end of a sentence: "has no name".
Result<Member, std::string> parse_member(std::string_view name, std::string_view text);
// 1 to Member::word_bytes_max characters, as of a node's name.
bool is_zone_name(std::string_view text);
// Where this process runs, for members on the same host.
struct ThisHost {
    std::string id = {};                            // of the kernel's boot; empty: not known
    bool (*reaches)(const std::string&) = nullptr;  // may this process connect to a Unix socket at that path?

    static ThisHost of_this_process();
};
// The member as a node over this channel, or over tcp if the member has no such address. Over shm only on this host. The error is
// the end of a sentence. origin: as in NodeSpec.
Result<conf::NodeSpec, std::string> spec_of(const Member& member, conf::NodeChannel channel, const std::string& origin,
                                            const ThisHost& here = {});

}  // namespace farcached::daemon
