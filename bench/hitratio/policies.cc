// SPDX-License-Identifier: BSD-3-Clause
#include "bench/hitratio/policies.h"

namespace farcached::bench {

namespace {

constexpr double lease_share_max = 0.9;

template <PolicyKind kind>
void policy(node::Config& config) {
    config.policy = kind;
}

template <uint32_t term_s>
void fixed(node::Config& config) {
    config.policy = PolicyKind::fixed_lease;
    config.lease.term_ms = term_s * 1000;
}

// The paper's server without C-Hint: clients keep pointers to all keys that they got, and report no use. Items with
// pointers are pinned: in the paper until they are deleted, here for the longest term. The paper can pin all of memory,
// this node its leasable share.
void original(node::Config& config) {
    config.policy = PolicyKind::original;
    config.lease.from_touches = 1;
    config.lease.share = lease_share_max;
    config.lease.dead_share = 1;
}

// In the paper all of memory may be leased, and dead items are unbounded.
void pdla_paper(node::Config& config) {
    config.policy = PolicyKind::pdla_paper;
    config.lease.share = lease_share_max;
    config.lease.dead_share = 1;
}

constexpr Contestant table[] = {
    {"lru", false, false, policy<PolicyKind::lru>},
    {"mq", false, false, policy<PolicyKind::mq>},
    {"pdla", true, true, policy<PolicyKind::pdla>},
    {"pdla_paper", true, true, pdla_paper},
    {"s3fifo", true, true, policy<PolicyKind::s3fifo>},
    {"approx_lru", true, true, policy<PolicyKind::approx_lru>},
    {"clock", true, true, policy<PolicyKind::clock>},
    {"fixed_lease_128", true, true, fixed<128>},
    {"fixed_lease_32", true, true, fixed<32>},
    {"fixed_lease_8", true, true, fixed<8>},
    {"original", true, false, original},
};

}  // namespace

std::span<const Contestant> contestants() { return table; }

node::Config policy_config(const Contestant& contestant, node::Config config) {
    config.lease.enabled = contestant.leases;
    contestant.configure(config);
    return config;
}

}  // namespace farcached::bench
