// SPDX-License-Identifier: BSD-3-Clause
// VerbsConfig: every attribute of a connection over RDMA that is ours to choose, clamped to the limits of a device. Pure.
//
// V1  VerbsConfig::clamped() is in force: no request to a device exceeds the limits that it reports.
// V2  The grace of a node (S2) is computed from the timeouts in force here, and changes with them. A queue pair with
//     longer timeouts is rejected (VerbsQueue::connected()).
#pragma once

#include <cstdint>
#include <string>

namespace farcached::fabric {

struct VerbsConfig {
    uint32_t message_bytes = 8 * 1024;  // of one posted receive, and most of one SEND
    uint32_t receives = 32;             // posted: the other side's credits; even, 4 to 65534
    uint32_t sends = 32;                // SENDs and WRITEs under way
    uint32_t reads = 1024;              // READs and FETCH_AND_ADDs posted and not completed; 2 at least
    uint32_t inline_bytes = 220;        // a SEND up to this size leaves with the work request itself
    uint8_t reads_at_once = 16;         // READs that the other side's device serves at once (max_rd_atomic)
    uint8_t fetches_at_once = 4;        // READs that a proxy's device serves at once: a node fetches few long values
    uint8_t ack_timeout = 14;           // time until a retry: 4.096 us * 2^n; 1 to 31
    uint8_t retries = 7;                // after these the connection ends; 0 to 7
    uint32_t spins_max = 200;           // most polls of the completion queue by one linger(); 0: none
    bool windows = true;                // the other end reaches containers through memory windows (fabric/channel.h, C7)
    bool sleeps = true;                 // false: fd() is useless once connected; call ready() again and again
    uint32_t beat_ms = 5000;            // silence after which a heartbeat (an empty WRITE) is sent

    struct Device {  // from ibv_query_device()
        uint32_t work_requests_max = 0, completions_max = 0;
        uint32_t reads_at_once_out = 0, reads_at_once_in = 0;  // posted by it, served by it; atomics as well
    };
    // Work requests that one queue pair's send queue holds: SENDs and WRITEs, READs, the binding of a window, a heartbeat,
    // and a last one.
    uint32_t send_queue() const { return sends + reads + 3; }
    VerbsConfig clamped(const Device& device) const;
    // "8192 bytes a message, 32 receives, ..., 16 READs at once", for a log.
    std::string describe() const;
};

// The longest time that a READ can be under way by a queue pair's own settings, in microseconds.
constexpr uint64_t verbs_flight_us(uint8_t ack_timeout, uint8_t retries) {
    return (UINT64_C(4096) << ack_timeout) * (uint64_t(retries) + 1) / 1000;
}

// S2: how long after the end of a lease a node keeps its memory unused, with terms up to term_ms_max.
constexpr uint32_t verbs_grace_ms(const VerbsConfig& config, uint32_t term_ms_max) {
    const uint64_t flight_ms = (verbs_flight_us(config.ack_timeout, config.retries) + 999) / 1000;
    return uint32_t(4 * flight_ms + (uint64_t(term_ms_max) * 2 + 999) / 1000);
}
static_assert(verbs_grace_ms(VerbsConfig(), 4000) == 2156);

}  // namespace farcached::fabric
