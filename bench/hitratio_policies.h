// SPDX-License-Identifier: BSD-3-Clause
// The contestants of `farbench hitratio`, and how a node is configured to be one.
#pragma once

#include <span>
#include <string_view>

#include "node/node.h"

namespace farcached::bench {

// Until when a GET goes through a remote pointer that was earned.
enum class PointerUse : uint8_t {
    none,
    leased,    // while its lease runs
    for_ever,  // until it is found invalid
};

struct Contestant {
    std::string_view name;
    PointerUse pointers;
    bool reports;  // hosts report what they read
    void (*configure)(node::Config& config);
};

// In the order in which they are shown.
std::span<const Contestant> contestants();

// Of a contestant's node, all else as given.
node::Config policy_config(const Contestant& contestant, node::Config config);

}  // namespace farcached::bench
