// SPDX-License-Identifier: BSD-3-Clause
// LeaseDenial: why a lease was not granted, or not extended. A node decides and counts it. A reply that lacks a remote pointer
// for this reason has it, and the proxy counts it by the same row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcached::protocol {

//        name      help
#define LEASE_DENIALS(X)                                                                   \
    X(young, "the item was touched too seldom")                                            \
    X(dead_key, "a dead slot of the key waits for its lease, and dead slots are many")     \
    X(dead, "dead slots hold twice the share of memory that they may")                     \
    X(no_room, "the lease zone has no slot for the item, or it is larger than 4 MiB")      \
    X(short, "the item expires too soon, or a flush is scheduled")                         \
    X(draining, "the item's page is draining")                                             \
    X(stopped, "a set found no memory, and leases are stopped for a while")                \
    X(tokens, "the item is stale, or a recache token of it is out")                        \
    X(sparse, "the item fills less than a quarter of its slot")

enum class LeaseDenial : uint8_t {
    none,
#define X(name, help) name##_,
    LEASE_DENIALS(X)
#undef X
        count
};

struct LeaseDenialText {
    std::string_view name, help;
};
inline constexpr LeaseDenialText lease_denial_texts[] = {
    {"none", "none"},
#define X(name, help) {#name, help},
    LEASE_DENIALS(X)
#undef X
};
constexpr std::string_view lease_denial_name(LeaseDenial why) { return lease_denial_texts[size_t(why)].name; }

}  // namespace farcached::protocol
