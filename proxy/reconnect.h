// SPDX-License-Identifier: BSD-3-Clause
// Reconnect: when a connection that could not be made, or was lost, is tried again: after a time that doubles with
// each failure, up to a bound, and is never the same for two who failed together.
#pragma once

#include <cstdint>

namespace farcached::proxy {

struct ReconnectConfig {
    uint64_t first_ns = 50'000'000;         // after the first failure
    uint64_t longest_ns = 2'000'000'000;    // after many
    uint64_t mismatch_ns = 60'000'000'000;  // after the node said that versions do not meet
};

class Reconnect {
  public:
    // seed: chance is an argument; other for every link.
    Reconnect(const ReconnectConfig& config, uint64_t seed);

    // Until the next try: between half and all of first_ns * 2^(failures before), no more than longest_ns.
    uint64_t failed();
    // As failed(), for what does not mend by itself: between half and all of mismatch_ns.
    uint64_t mismatched();
    // It was up for a while: the next failure is the first again.
    void recovered() { failures_ = 0; }
    uint32_t failures() const { return failures_; }

  private:
    uint64_t jittered(uint64_t ns);

    ReconnectConfig config_;
    uint64_t random_;
    uint32_t failures_ = 0;
};

}  // namespace farcached::proxy
