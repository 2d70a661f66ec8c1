// SPDX-License-Identifier: BSD-3-Clause
// A copy that a one-sided READ made, through a remote pointer or of what the index led to, and what it is worth (S4).
// Pure: the copy is private, the clock was read after the READ had completed.
//
// P1  Nothing in the copy is believed before validate() has said hit; no byte behind its end is looked at (S10).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "fabric/local_read.h"
#include "fabric/remote_ptr.h"
#include "fabric/validate.h"

namespace farcached::fabric {

struct PointerCopy {
    const uint64_t* words = nullptr;  // leased.ptr.length bytes
    LeasedPtr leased;                 // by which it was read
    uint64_t completed_ns = 0;        // CLOCK_BOOTTIME, read after the completion
};

// What the index led to: a whole slot, without a lease.
struct ProbeCopy {
    const uint64_t* words = nullptr;
    uint32_t capacity_bytes = 0;  // of the slot; more than an item's header
    uint64_t offset = 0;          // from the region's start
    uint64_t flush_floor = 0;     // of the partition, since the read was asked for
    NodeSeconds latest = 0;       // that the node's clock can have shown at the completion (S13)
};

struct PointerRead {
    Outcome outcome = Outcome::bounds;
    uint64_t generation = 0;  // of a hit
    ReadMeta meta{};         // of a hit; its size class is not known
    std::string_view value;  // of a hit; in the copy
};

// check_secret: of the incarnation; nullopt: the item's check is not verified, which a lease allows.
PointerRead judge_copy(const PointerCopy& copy, std::string_view key, bool tokens_matter,
                       std::optional<uint64_t> check_secret);

// Always verifies the check: without a lease nothing else says that the bytes belong together (S5).
PointerRead judge_probe(const ProbeCopy& copy, std::string_view key, bool tokens_matter,
                        uint64_t check_secret);

}  // namespace farcached::fabric
