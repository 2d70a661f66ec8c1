// SPDX-License-Identifier: BSD-3-Clause
// The contestants of `farbench hitratio`, and their node configurations. Immutable.
#pragma once

#include <span>
#include <string_view>

#include "node/store/node.h"

namespace farcached::bench {

struct Contestant {
    std::string_view name;
    bool leases;   // GETs use remote pointers
    bool reports;  // hosts report their reads
    void (*configure)(node::Config& config);
};

// In display order.
std::span<const Contestant> contestants();

// The configuration of a contestant's node; other settings as given.
node::Config policy_config(const Contestant& contestant, node::Config config);

}  // namespace farcached::bench
