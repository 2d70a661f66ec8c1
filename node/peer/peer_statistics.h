// SPDX-License-Identifier: BSD-3-Clause
// PeerStatistics: the numbers of a PeerStore, and their rows.
//
// Owner: the caller; a copy of one moment. Threads: a value.
#pragma once

#include <array>
#include <cstdint>

#include "base/stat_row.h"

namespace farcached::node {

//    name                  kind     help
#define PEER_STATISTICS(X)                                                                                          \
    X(up, gauge, "1: the node of spill_to is connected")                                                            \
    X(records_sent, counter, "values sent to the node of spill_to")                                                 \
    X(bytes_sent, counter, "bytes of these values and their keys")                                                  \
    X(records_stored, counter, "values that the node of spill_to stored")                                           \
    X(records_forgotten, counter, "values that the node of spill_to was told to delete")                            \
    X(queue_bytes, gauge, "bytes of values that it has not stored yet")                                             \
    X(reads, counter, "reads of values on the node of spill_to")                                                    \
    X(reads_from_queue, counter, "reads of values that were still on their way to that node")                       \
    X(reads_gone, counter, "reads that did not find the value there: evicted, or the node was lost")                \
    X(dropped_full, counter, "values not sent because too many bytes were on their way, or memory was short")       \
    X(dropped_too_large, counter, "values not sent because they exceed that node's maximum item size")              \
    X(dropped_pause, counter, "values not sent because that node had just refused one")                             \
    X(refused, counter, "values that the node of spill_to did not store: its spill_share is used up, or it failed")

struct PeerStatistics {
#define X(name, kind, help) uint64_t name = 0;
    PEER_STATISTICS(X)
#undef X
    static constexpr auto rows() {
#define X(name, kind, help) StatRow<uint64_t PeerStatistics::*>{"spill_" #name, help, &PeerStatistics::name, StatKind::kind},
        return std::to_array<StatRow<uint64_t PeerStatistics::*>>({PEER_STATISTICS(X)});
#undef X
    }
};

}  // namespace farcached::node
