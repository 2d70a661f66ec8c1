// SPDX-License-Identifier: BSD-3-Clause
#include "bench/transport/check_cost.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/boottime.h"
#include "protocol/item_check.h"

namespace farcached::bench {

namespace {

constexpr uint64_t round_ns = 1'000'000;  // at least

}  // namespace

double check_cost_us(uint32_t value_bytes) {
    const uint64_t bytes = layout::item_bytes(1, value_bytes);
    std::vector<uint64_t> item((bytes + 7) / 8, UINT64_C(0x9e3779b97f4a7c15));
    std::array<double, 5> rounds{};
    uint64_t generation = 1;
    for (double& us : rounds) {
        const uint64_t begun_ns = boottime_ns();
        uint64_t ended_ns = begun_ns, times = 0;
        while (ended_ns - begun_ns < round_ns) {
            // Each check depends on the one before, so the compiler and the CPU cannot skip or overlap them.
            for (int i = 0; i < 16; i++) generation = layout::item_check(item.data(), bytes, 1, generation, 0);
            times += 16;
            ended_ns = boottime_ns();
        }
        us = double(ended_ns - begun_ns) / 1e3 / double(times);
    }
    std::sort(rounds.begin(), rounds.end());
    return rounds[rounds.size() / 2];
}

}  // namespace farcached::bench
