// SPDX-License-Identifier: BSD-3-Clause
// OwnedKeys: the keys whose home is one node, by one list of nodes, as a proxy sends them to the node when the list changes.
//
// Pure; a value. Any thread.
// O1  Its size does not grow with the number of nodes: the node's arcs of the ring, or its remainder.
// O2  Text from a proxy is never trusted (S10): what is not whole and plausible is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_place.h"

namespace farcached::protocol {

struct OwnedKeys {
    struct Arc {
        uint32_t first, last;  // both belong to it; first <= last
        bool operator==(const Arc&) const = default;
    };
    KeyPlace place;
    uint32_t modulus = 0;    // 0: arcs; else keys whose place leaves `remainder`, which is less
    uint32_t remainder = 0;
    std::vector<Arc> arcs = {};  // ascending, without overlap

    bool owns(std::string_view key) const;
    bool none() const { return modulus == 0 && arcs.empty(); }
    bool all() const { return modulus == 1 || (arcs.size() == 1 && arcs[0] == Arc{0, UINT32_MAX}); }
    bool operator==(const OwnedKeys&) const = default;
};

// The keys that a node keeps: those that each of the lists, the former one and then the new one, gives it. A proxy that starts
// knows no former one (`first`). Of several changes in one (kept_after()) the first list has the keys that all former lists
// give the node. With `unmoved` the first list has the keys that both give the node; the new list follows only if the node lost no
// key, and may be missing then, too.
struct KeptKeys {
    static constexpr size_t lists_max = 2;

    std::vector<OwnedKeys> lists;
    // With copies of items: the kept keys whose nodes, all of them, are the same by both lists. Nodes execute requests by the
    // former list for these alone. Without copies: for the keys of the new list.
    std::optional<OwnedKeys> unmoved = std::nullopt;
    // With `unmoved`: the epochs (EpochRecord) at which the former list was first and last known to be the list.
    uint64_t since = 0, last = 0;
    uint64_t next = 0;  // the first one of the new list

    bool first = false;  // from version_with_first_list on
    // With `unmoved`: a hash of the node's keys and of their nodes by the new list, the same from all proxies. 0: not sent.
    uint64_t identity = 0;

    bool keeps(std::string_view key) const;
    bool keeps_all() const;
    bool operator==(const KeptKeys&) const = default;
};

// The keys that both keep, without `unmoved`. nullopt: that takes more lists than each of them has, as with remainders by two
// moduli.
std::optional<KeptKeys> kept_by_both(const KeptKeys& one, const KeptKeys& other);

// One change in place of two that follow each other. The node keeps what both keep, and has the list of `next`. nullopt: as in
// kept_by_both(); or one of them is a first list, or one alone has copies.
std::optional<KeptKeys> kept_after(const KeptKeys& former, const KeptKeys& next);

std::string kept_text(const KeptKeys& kept);
// Of the end of a text with an identity, or that is `first`. A node before version_with_first_list gets the text without it.
constexpr size_t kept_tail_bytes = 16;
// nullopt: it is damaged.
std::optional<KeptKeys> parse_kept(std::string_view text);
// False: the keys are by a hash function that this process does not have.
bool can_tell(const KeptKeys& kept);

}  // namespace farcached::protocol
