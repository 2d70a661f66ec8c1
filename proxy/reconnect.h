// SPDX-License-Identifier: BSD-3-Clause
// Reconnect: the delay before a failed or lost connection is tried again. It doubles with each failure up to a bound,
// with jitter, so that links that fail together do not reconnect together.
// Owner: a NodeLink.
#pragma once

#include <cstdint>

namespace farcached::proxy {

struct ReconnectConfig {
    uint64_t first_ns = 50'000'000;         // after the first failure
    uint64_t longest_ns = 2'000'000'000;    // upper bound
    uint64_t mismatch_ns = 60'000'000'000;  // after the node refused our versions
};

class Reconnect {
  public:
    // seed: for the jitter; differs by link.
    Reconnect(const ReconnectConfig& config, uint64_t seed);

    // Delay after a failure: between half and all of first_ns * 2^(failures before), at most longest_ns.
    uint64_t failed();
    // Between half and all of first_ns, for a failure that neither the node nor the network caused.
    uint64_t soon() { return jittered(config_.first_ns); }
    // As failed(), for a failure that lasts: between half and all of mismatch_ns.
    uint64_t mismatched();
    // The link was up for a while: the next failure counts as the first again.
    void recovered() { failures_ = 0; }
    uint32_t failures() const { return failures_; }

  private:
    uint64_t jittered(uint64_t ns);

    ReconnectConfig config_;
    uint64_t random_;
    uint32_t failures_ = 0;
};

}  // namespace farcached::proxy
