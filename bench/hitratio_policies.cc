// SPDX-License-Identifier: BSD-3-Clause
#include "bench/hitratio_policies.h"

namespace farcached::bench {

namespace {

template <PolicyKind kind>
void policy(node::Config& config) {
    config.policy = kind;
}

template <uint32_t term_s>
void fixed(node::Config& config) {
    config.policy = PolicyKind::fixed_lease;
    config.lease.term_ms = term_s * 1000;
}

// Nothing is kept for anybody's pointer, everything has one from the first touch on, and they are used for as long as what
// they point at is there.
void original(node::Config& config) {
    config.policy = PolicyKind::original;
    config.lease.term_ms_min = config.lease.term_ms_max = config.lease.grace_ms = 1;
    config.lease.from_touches = 1;
    config.lease.share = 0.9;
}

constexpr Contestant table[] = {
    {"lru", PointerUse::none, false, policy<PolicyKind::lru>},
    {"mq", PointerUse::none, false, policy<PolicyKind::mq>},
    {"pdla", PointerUse::leased, true, policy<PolicyKind::pdla>},
    {"s3fifo", PointerUse::leased, true, policy<PolicyKind::s3fifo>},
    {"approx_lru", PointerUse::leased, true, policy<PolicyKind::approx_lru>},
    {"clock", PointerUse::leased, true, policy<PolicyKind::clock>},
    {"fixed_lease_128", PointerUse::leased, true, fixed<128>},
    {"fixed_lease_32", PointerUse::leased, true, fixed<32>},
    {"fixed_lease_8", PointerUse::leased, true, fixed<8>},
    {"original", PointerUse::for_ever, false, original},
};

}  // namespace

std::span<const Contestant> contestants() { return table; }

node::Config policy_config(const Contestant& contestant, node::Config config) {
    config.lease.enabled = contestant.pointers != PointerUse::none;
    contestant.configure(config);
    return config;
}

}  // namespace farcached::bench
