// SPDX-License-Identifier: BSD-3-Clause
// Traffic of a channel, counted by the channel itself: declared once, here, for the counters, the statistics and the man
// page. A counter of a feature that a transport lacks stays 0: only RDMA has SENDs, READs and doorbells.
//
// Owner: the owner of the channel (Channel::count_in()); any thread may read (base/counters.h).
#pragma once

#include "base/counters.h"

namespace farcached::fabric {

//        name                  help
#define CHANNEL_COUNTERS(X)                                                                    \
    X(link_bytes_sent, "bytes of frames that went to the transport")                           \
    X(link_bytes_received, "bytes of frames that came")                                        \
    X(rdma_doorbells, "calls that handed SENDs, READs and atomics to a device")                \
    X(rdma_sends, "SENDs over RDMA, those of nothing but credits included")                    \
    X(rdma_send_bytes, "bytes in them")                                                        \
    X(rdma_receives, "messages that came over RDMA")                                           \
    X(rdma_receive_bytes, "bytes in them")                                                     \
    X(rdma_reads, "READs over RDMA")                                                           \
    X(rdma_read_bytes, "bytes that were asked for by them")                                    \
    X(rdma_writes, "WRITEs over RDMA, into the container at the other end")                    \
    X(rdma_write_bytes, "bytes in them")                                                       \
    X(rdma_atomics, "FETCH_AND_ADDs over RDMA, of 8 bytes each: reads that were counted (access_tracking)")

struct ChannelCounters {
#define X(name, help) Counter name;
    CHANNEL_COUNTERS(X)
#undef X
};

}  // namespace farcached::fabric
