// SPDX-License-Identifier: BSD-3-Clause
// DiskStatistics: the numbers of a DiskStore, and their rows. Names and meanings are those of memcached's extstore where it has
// them; a page is a segment.
//
// Owner: the caller; a copy of one moment. Threads: a value.
#pragma once

#include <array>
#include <cstdint>

#include "base/stat_row.h"

namespace farcached::node {

//    name                  kind     help
#define DISK_STATISTICS(X)                                                                                       \
    X(page_allocs, counter, "disk segments taken into use")                                                      \
    X(page_evictions, counter, "disk segments dropped with records that were still needed")                      \
    X(page_reclaims, counter, "disk segments reused because none of their records was needed any more")          \
    X(pages_free, gauge, "disk segments not in use")                                                             \
    X(pages_used, gauge, "disk segments in use")                                                                 \
    X(objects_evicted, counter, "records in dropped disk segments that were still needed")                       \
    X(objects_read, counter, "records read from the disk or its write buffers")                                  \
    X(objects_written, counter, "records accepted for the disk")                                                 \
    X(objects_used, gauge, "records on the disk that are still needed")                                          \
    X(bytes_evicted, counter, "bytes of records in dropped disk segments that were still needed")                \
    X(bytes_written, counter, "bytes written to the disk")                                                       \
    X(bytes_read, counter, "bytes of records read from the disk or its write buffers")                           \
    X(bytes_used, gauge, "bytes of records on the disk that are still needed")                                   \
    X(bytes_fragmented, gauge, "bytes of disk segments in use without a record that is needed")                  \
    X(limit_maxbytes, gauge, "bytes of all disk segments")                                                       \
    X(io_queue, gauge, "reads of the disk under way")                                                            \
    X(page_count, gauge, "disk segments")                                                                        \
    X(buffers_waiting, gauge, "write buffers that wait for the disk")                                            \
    X(dropped_no_buffer, counter, "records dropped because all write buffers waited for the disk")               \
    X(dropped_too_large, counter, "records dropped because they exceed a write buffer")                          \
    X(dropped_by_fault, counter, "records dropped because a write to the disk failed")                           \
    X(write_errors, counter, "failed writes to the disk")                                                        \
    X(read_errors, counter, "failed reads from the disk")                                                        \
    X(reads_refused, counter, "reads not started because too many were under way or memory was short")           \
    X(reads_from_buffers, counter, "records read from a write buffer")                                           \
    X(records_gone, counter, "reads of records whose disk segment had been dropped")                             \
    X(records_bad, counter, "reads that did not find the record's bytes: lost, torn, overwritten, or damaged")

struct DiskStatistics {
#define X(name, kind, help) uint64_t name = 0;
    DISK_STATISTICS(X)
#undef X
    static constexpr auto rows() {
#define X(name, kind, help) \
    StatRow<uint64_t DiskStatistics::*>{"extstore_" #name, help, &DiskStatistics::name, StatKind::kind},
        return std::to_array<StatRow<uint64_t DiskStatistics::*>>({DISK_STATISTICS(X)});
#undef X
    }
};

}  // namespace farcached::node
