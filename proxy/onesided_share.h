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

#include <cstdint>
#include <string_view>

#include "protocol/lease_denial.h"

namespace farcached::proxy {

//        name         counters of `c`                                           help
#define ONESIDED_REASONS(X)                                                                                    \
    X(no_pointer, c.pointer_misses, "the key had no remote pointer")                                           \
    X(lease_over, c.pointer_expired + c.read_invalid_lease, "the lease had expired before or during the read") \
    X(dead, c.read_invalid_dead, "the item was dead: deleted, moved, or being overwritten")                    \
    X(grown, c.read_invalid_grown, "the item was longer than the bytes read")                                  \
    X(torn, c.read_invalid_crc, "the check did not match: the item changed during the read")                   \
    X(expired, c.read_invalid_expired + c.read_invalid_flushed, "the item had expired or was flushed")         \
    X(place, c.read_invalid_generation + c.read_invalid_key + c.read_invalid_length,                           \
      "the pointer led to an older generation, a foreign key or impossible bounds")                            \
    X(order, c.pointer_bypassed, "its session has a mutation of the key in flight")                            \
    X(transport, c.read_failed + c.read_unposted, "the transport failed, or too many reads were in flight")    \
    X(tokens, c.read_tokens, "the item was stale, or its recache token was issued")                            \
    X(index, c.index_not_found, "the index did not lead to the key")

// ---- `c`: the counters of one link or of several, by their names in LINK_COUNTERS -----------------------

template <class Counts>
uint64_t gets_onesided(const Counts& c) {
    return c.get_onesided + c.get_index;
}

template <class Counts>
uint64_t gets_through_links(const Counts& c) {
    return gets_onesided(c) + c.get_twosided;
}

// From 0 to 1; 0 without GETs.
template <class Counts>
double onesided_share(const Counts& c) {
    const uint64_t all = gets_through_links(c);
    return all == 0 ? 0 : double(gets_onesided(c)) / double(all);
}

// Calls visit(name, help, count) for each reason.
template <class Counts, class Visit>
void each_onesided_reason(const Counts& c, Visit visit) {
#define X(name, counters, help) visit(std::string_view(#name), std::string_view(help), uint64_t(counters));
    ONESIDED_REASONS(X)
#undef X
}

// Calls visit(name, help, count) for each bound that denied pointers; a name is "denied_" and a row of LEASE_DENIALS.
template <class Counts, class Visit>
void each_pointer_denial(const Counts& c, Visit visit) {
    using protocol::LeaseDenial;
#define X(name, help) \
    visit(std::string_view("denied_" #name), std::string_view(help), uint64_t(c.lease_denied_by[size_t(LeaseDenial::name##_)]));
    LEASE_DENIALS(X)
#undef X
}

}  // namespace farcached::proxy
