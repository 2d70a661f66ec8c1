// SPDX-License-Identifier: BSD-3-Clause
// The rows of `stats members`: the nodes of the list in use, with their fields in its source, and the farcached that clients may
// choose from.
//
// Owner: none; it is called while the statistics are made. Threads: any. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/out_buffer.h"
#include "base/stat_row.h"
#include "daemon/discovery/source.h"
#include "daemon/stats/server_view.h"
#include "daemon/stats/stats.h"

namespace farcached::daemon {

// A node, and its entry in the list in use; nullptr: the list is static.
struct MemberShown {
    const NodeShown& node;
    const FoundNode* found;
};
// As node:name. Empty ones are left out.
inline constexpr StatRow<std::string (*)(const MemberShown&)> member_rows[] = {
    {"state", "as this farcached sees it: up, down, drained or fenced",
     [](const MemberShown& m) { return std::string(node_state_name(m.node.state)); }},
    {"address", "the address in use", [](const MemberShown& m) { return m.node.address; }},
    {"weight", "its share of the keys, relative to the other nodes",
     [](const MemberShown& m) { return std::to_string(m.node.weight); }},
    {"zone", "its zone; absent if the list has none",
     [](const MemberShown& m) { return m.found == nullptr ? std::string() : m.found->zone; }},
    {"version", "version of farnode; absent if the list has none",
     [](const MemberShown& m) { return m.found == nullptr ? std::string() : m.found->version; }},
    {"incarnation", "id of its run in the list, or else of the last one that greeted, 16 hexadecimal digits; zeros: none",
     [](const MemberShown& m) {
         const bool is_listed = m.found != nullptr && m.found->incarnation != 0;
         return hex_text(is_listed ? m.found->incarnation : m.node.incarnation);
     }},
};
constexpr std::string_view members_source_name = "source", members_source_help = "source of the list: static, or as in --discover";
constexpr std::string_view members_epoch_name = "epoch",
    members_epoch_help = "epoch of the list in use: the newest revision of etcd at which it was the list; absent if it has none";
constexpr std::string_view member_farcached_name = "farcached_1",
    member_farcached_help = "the first farcached that clients may choose from (config get cluster), as HOST|ADDRESS|PORT; "
                            "farcached_2 and so on are the others";

// found: the list in use; nullptr: static. cluster: words HOST|ADDRESS|PORT.
void write_members(StatWriter out, const NodesView& nodes, std::string_view source, const Found* found, std::string_view cluster);

}  // namespace farcached::daemon
