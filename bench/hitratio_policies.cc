// SPDX-License-Identifier: BSD-3-Clause
#include "bench/hitratio_policies.h"

namespace farcached::bench {

namespace {

template <uint32_t term_s>
void fixed(node::Config& config) {
    config.lease.term_ms = term_s * 1000;
}

constexpr Contestant table[] = {
    {"lru", false, false, [](node::Config& config) { config.policy = node::EvictionPolicy::strict_lru; }},
    {"clock", true, true, [](node::Config&) {}},
    {"fixed_lease_128", true, true, fixed<128>},
    {"fixed_lease_32", true, true, fixed<32>},
    {"fixed_lease_8", true, true, fixed<8>},
};

}  // namespace

std::span<const Contestant> contestants() { return table; }

node::Config policy_config(const Contestant& contestant, node::Config config) {
    config.lease.enabled = contestant.one_sided;
    contestant.configure(config);
    return config;
}

}  // namespace farcached::bench
