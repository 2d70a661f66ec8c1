// SPDX-License-Identifier: BSD-3-Clause
// The share of GETs answered one-sided, and the reasons of the others: the one table behind `stats proxy`, the metrics,
// the status page, farctl and farbench. Pure: every value is a sum of LINK_COUNTERS.
//
// O1  A GET through a link is one of get_onesided, get_index and get_twosided. Mapped memory (get_local) is not a link.
// O2  A reason is a sum of counters that never decrease, so it is a counter, too.
// O3  A GET sent to its node has at most one reason. GETs that only the node can answer (gat, mg with T or N) have
//     none. With pointer_miss=index, a GET without a pointer has a reason even if the index then answers it.
// O4  Denials are not further reasons: a reply that denies a pointer is why the next GET of the key has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/stat_row.h"
#include "protocol/op.h"
#include "proxy/link_counters.h"

namespace farcached::proxy {

// The counters of one link or of several.
using LinkCounts = LinkCells<uint64_t>;

// help: follows "because".
inline constexpr StatRow<uint64_t (*)(const LinkCounts&)> onesided_reasons[] = {
    {"no_pointer", "the key had no remote pointer", [](const LinkCounts& c) { return c.pointer_misses; }},
    {"lease_over", "the lease had expired before or during the read",
     [](const LinkCounts& c) { return c.pointer_expired + c.read_invalid_lease; }},
    {"dead", "the item was dead: deleted, moved, or being overwritten",
     [](const LinkCounts& c) { return c.read_invalid_dead; }},
    {"grown", "the item was longer than the bytes read", [](const LinkCounts& c) { return c.read_invalid_grown; }},
    {"torn", "the check did not match: the item changed during the read",
     [](const LinkCounts& c) { return c.read_invalid_crc; }},
    {"expired", "the item had expired or was flushed",
     [](const LinkCounts& c) { return c.read_invalid_expired + c.read_invalid_flushed; }},
    {"place", "the pointer led to an older generation, a foreign key or impossible bounds",
     [](const LinkCounts& c) { return c.read_invalid_generation + c.read_invalid_key + c.read_invalid_length; }},
    {"order", "its session has a mutation of the key in flight", [](const LinkCounts& c) { return c.pointer_bypassed; }},
    {"transport", "the transport failed, or too many reads were in flight",
     [](const LinkCounts& c) { return c.read_failed + c.read_unposted; }},
    {"tokens", "the item was stale, or its recache token was issued", [](const LinkCounts& c) { return c.read_tokens; }},
    {"right_over", "the node's serving right was over", [](const LinkCounts& c) { return c.right_over; }},
    {"index", "the index did not lead to the key", [](const LinkCounts& c) { return c.index_not_found; }},
};

inline uint64_t gets_onesided(const LinkCounts& c) { return c.get_onesided + c.get_index; }
inline uint64_t gets_through_links(const LinkCounts& c) { return gets_onesided(c) + c.get_twosided; }

// From 0 to 1; 0 without GETs.
inline double onesided_share(const LinkCounts& c) {
    const uint64_t all = gets_through_links(c);
    return all == 0 ? 0 : double(gets_onesided(c)) / double(all);
}

// Calls visit(name, help, count) for each reason.
template <class Visit>
void each_onesided_reason(const LinkCounts& c, Visit visit) {
    for (const auto& row : onesided_reasons) visit(row.name, row.help, row.of(c));
}

// Calls visit(name, help, count) for each bound that denied pointers; a name is "denied_" and a row of LEASE_DENIALS.
template <class Visit>
void each_pointer_denial(const LinkCounts& c, Visit visit) {
    for (size_t i = 1; i < c.lease_denied_by.size(); i++)
        visit("denied_" + std::string(protocol::lease_denial_texts[i].name), protocol::lease_denial_texts[i].help,
              c.lease_denied_by[i]);
}

}  // namespace farcached::proxy
