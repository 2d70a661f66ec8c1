// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_config.h"

#include <algorithm>

namespace farcached::fabric {

VerbsConfig VerbsConfig::clamped(const Device& device) const {
    VerbsConfig use = *this;
    constexpr uint32_t receives_min = 4, sends_min = 4, reads_min = 2, beats = 3;  // one of them the last, one a binding
    // Each work request may leave a completion: SENDs and receives get a quarter each, READs get the rest.
    const uint32_t each_max = device.completions_max / 4;
    const uint32_t receives_max = std::max(receives_min, std::min(device.work_requests_max, each_max));
    use.receives = std::clamp(receives, receives_min, receives_max) & ~1U;
    const uint32_t queue = std::max(device.work_requests_max, sends_min + reads_min + beats);
    const uint32_t sends_max = std::max(sends_min, std::min(queue / 2 - beats, each_max));
    use.sends = std::clamp(sends, sends_min, sends_max);
    const uint32_t others = use.sends + beats + use.receives;
    const uint32_t completions = std::max(device.completions_max, others + reads_min);
    use.reads = std::clamp(reads, reads_min, std::min(queue - beats - use.sends, completions - others));
    const uint32_t at_once = std::min({uint32_t(reads_at_once), device.reads_at_once_out, device.reads_at_once_in});
    use.reads_at_once = uint8_t(std::max(at_once, 1U));
    use.fetches_at_once = std::min(fetches_at_once, use.reads_at_once);
    return use;
}

std::string VerbsConfig::describe() const {
    return std::to_string(receives) + " receives of " + std::to_string(message_bytes) + " bytes, " +
           std::to_string(sends) + " SENDs and " + std::to_string(reads) + " READs under way, " +
           std::to_string(reads_at_once) + " READs at once, SENDs up to " + std::to_string(inline_bytes) +
           " bytes inline, over after " + std::to_string(verbs_flight_us(ack_timeout, retries) / 1000) +
           " ms without an answer";
}

}  // namespace farcached::fabric
