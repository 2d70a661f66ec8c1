// SPDX-License-Identifier: BSD-3-Clause
// Validates a copy that a one-sided READ made, through a remote pointer or an index probe (S4).
// Pure: the copy is private, and the clock was read after the READ had completed.
//
// P1  No field of the copy is trusted before validate() returns hit; no byte beyond its end is read (S10).
#pragma once

#include <cstdint>
#include <string_view>

#include "fabric/local_read.h"
#include "fabric/remote_ptr.h"
#include "fabric/validate.h"

namespace farcached::fabric {

struct PointerCopy {
    const uint64_t* words = nullptr;  // leased.ptr.length bytes
    LeasedPtr leased;                 // the pointer that was READ
    uint64_t completed_ns = 0;        // CLOCK_BOOTTIME, read after the completion
    uint64_t item_bytes_max = UINT64_MAX;  // longest possible item at that offset
    NodeSeconds latest = 0;           // upper bound of the node's clock at the completion (S13)
};

// A whole slot found through the index, without a lease.
struct ProbeCopy {
    const uint64_t* words = nullptr;
    uint32_t capacity_bytes = 0;  // of the slot; more than an item's header
    uint64_t offset = 0;          // from the region's start
    uint64_t flush_floor = 0;     // of the partition, READ for this probe
    NodeSeconds latest = 0;       // upper bound of the node's clock at the completion (S13)
};

struct PointerRead {
    Outcome outcome = Outcome::bounds;
    uint64_t generation = 0;  // of a hit
    ReadMeta meta{};         // of a hit; its size class is unknown (0)
    std::string_view value;  // of a hit; in the copy
};

// Both verify the item's check with the generation and the lengths in the copy (S5). check_secret: of the incarnation.
PointerRead judge_copy(const PointerCopy& copy, std::string_view key, bool tokens_matter, uint64_t check_secret);
PointerRead judge_probe(const ProbeCopy& copy, std::string_view key, bool tokens_matter, uint64_t check_secret);

}  // namespace farcached::fabric
