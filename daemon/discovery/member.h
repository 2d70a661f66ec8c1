// SPDX-License-Identifier: BSD-3-Clause
// Member: what a farnode registers of itself in etcd, as JSON, and what a farcached reads there.
//
// Pure; value types. Owner: none; any thread.
// N1  Text from etcd is never trusted (S10): what is not a whole, plausible member is refused with a sentence. Names and
//     addresses satisfy the rules of --node. Unknown fields are allowed; a later version may write them. A socket that does not
//     satisfy them is none: the member has another address.
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
    static constexpr size_t word_bytes_max = 63;    // zone, version
    static constexpr size_t socket_bytes_max = 80;  // its identity

    std::string name;
    std::string tcp, verbs;      // "10.0.0.2:11300"; empty: none; at least one is there
    std::string shm, shm_socket; // path of a Unix socket on its host, and socket_identity() (base/host.h); both empty: none
    uint32_t weight = 1;         // up to limits::node_weight_max; 0: it gets no keys
    std::string zone;            // empty: none
    uint64_t incarnation = 0;    // of the node's memory
    std::string version;         // of farnode
    uint32_t ttl_s = 0;          // of its lease; 0: not given

    bool operator==(const Member&) const = default;
};

std::string member_text(const Member& member);
// name: from the key; the member must repeat it. The error is the end of a sentence: "has no name".
Result<Member, std::string> parse_member(std::string_view name, std::string_view text);
// 1 to Member::word_bytes_max characters, as of a node's name.
bool is_zone_name(std::string_view text);
// How nodes are reached.
struct MemberWays {
    conf::NodeChannel channel = conf::NodeChannel::tcp;
    std::string boot = {};  // boot_name() (base/host.h): nodes of this host have a socket, too; empty: none has
};
// The member as a node over this channel, or over tcp if the member has no address of verbs. The error is the end of a sentence.
// origin: as in NodeSpec.
Result<conf::NodeSpec, std::string> spec_of(const Member& member, const MemberWays& ways, const std::string& origin);

}  // namespace farcached::daemon
