// SPDX-License-Identifier: BSD-3-Clause
// Traffic of a channel, counted by the channel itself: declared once, here, for the counters, the statistics and the man
// page. A counter of a feature that a transport lacks stays 0: only RDMA has SENDs, READs and doorbells.
//
// Owner: the owner of the channel (Channel::count_in()); any thread may read (base/counters.h).
#pragma once

#include <span>

#include "base/stat_row.h"

namespace farcached::fabric {

//        name                  help
#define CHANNEL_COUNTERS(X)                                         \
    X(link_bytes_sent, "bytes of frames sent")                      \
    X(link_bytes_received, "bytes of frames received")              \
    X(rdma_doorbells, "calls that posted SENDs, READs and atomics") \
    X(rdma_sends, "RDMA SENDs, including those with credits only")  \
    X(rdma_send_bytes, "bytes in them")                             \
    X(rdma_receives, "messages received over RDMA")                 \
    X(rdma_receive_bytes, "bytes in them")                          \
    X(rdma_reads, "RDMA READs")                                     \
    X(rdma_read_bytes, "bytes requested by them")                   \
    X(rdma_writes, "RDMA WRITEs into the peer's container")         \
    X(rdma_write_bytes, "bytes in them")                            \
    X(rdma_atomics, "RDMA FETCH_AND_ADDs of 8 bytes, which count reads (access_tracking)")

template <class Cell>
struct ChannelCells {
#define X(name, help) Cell name{};
    CHANNEL_COUNTERS(X)
#undef X
    static std::span<const StatRow<Cell ChannelCells::*>> rows() {
#define X(name, help) {#name, help, &ChannelCells::name},
        static constexpr StatRow<Cell ChannelCells::*> table[] = {CHANNEL_COUNTERS(X)};
#undef X
        return table;
    }
};
using ChannelCounters = ChannelCells<Counter>;

}  // namespace farcached::fabric
