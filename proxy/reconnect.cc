// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/reconnect.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace farcached::proxy {

Reconnect::Reconnect(const ReconnectConfig& config, uint64_t seed) : config_(config), random_(seed) {
    CHECK(config.first_ns >= 2);
    CHECK(config.first_ns <= config.longest_ns);
    CHECK(config.mismatch_ns >= 2);
}

uint64_t Reconnect::failed() {
    constexpr uint32_t doublings_max = 30;
    const uint32_t doublings = std::min(failures_, doublings_max);
    if (failures_ != UINT32_MAX) failures_++;
    const bool longest = config_.first_ns > config_.longest_ns >> doublings;
    return jittered(longest ? config_.longest_ns : config_.first_ns << doublings);
}

uint64_t Reconnect::mismatched() {
    failed();
    return jittered(config_.mismatch_ns);
}

uint64_t Reconnect::jittered(uint64_t ns) {
    random_ = hash_bytes(&random_, sizeof random_, /* seed= */ 0x7ec0);
    return ns - random_ % (ns / 2 + 1);
}

}  // namespace farcached::proxy
