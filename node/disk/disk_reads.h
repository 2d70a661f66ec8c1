// SPDX-License-Identifier: BSD-3-Clause
// DiskReads: one thread's reads of a DiskStore. The thread's loop polls fd(), and take() then reports the complete reads. An
// io_uring executes them, or threads of the store where the system has none.
//
// Owner: the serving thread, the only one that calls it. The store outlives it.
// Q1  Each get() that returned true is reported once, by a later take(). fd() is readable while a complete read is not reported.
// Q2  The kernel or a thread may write to a read's buffer until the read is complete. No buffer is freed before then; the
//     destructor waits.
// Q3  At most `depth` reads are under way, with at most bytes_max of records. A longer record is read alone.
// Q4  A record is reported only with a matching check (K1). If its segment was dropped during the read, the check decides.
#pragma once

#include <sys/eventfd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "node/disk/disk_store.h"

namespace farcached::node {

// Bytes of a complete read, valid while the call lasts that reports it.
struct DiskRecord {
    std::string_view key, value;
    uint64_t tag;
};

struct DiskRead;
class ReadWay;

class DiskReads {
  public:
    static constexpr uint64_t bytes_max = UINT64_C(16) << 20;

    // Throws std::bad_alloc and std::system_error.
    explicit DiskReads(DiskStore& store);
    ~DiskReads();
    DiskReads(const DiskReads&) = delete;
    DiskReads& operator=(const DiskReads&) = delete;

    int fd() const { return event_; }
    bool through_io_uring() const { return ring_; }
    // Whether Q3 permits one more read.
    bool has_room(const Place& place) const { return free_ != nullptr && (under_way_ == 0 || bytes_ + place.bytes <= bytes_max); }
    // cookie: the caller's name of this read. It is not the ticket of a request, which may need several reads.
    // False: too many are under way, or memory is short; counted.
    bool get(const Place& place, uint64_t cookie);
    // Reports the complete reads, and returns their number. record: nullptr if the bytes are not what put() stored there. `done`
    // may call get().
    size_t take(FunctionRef<void(uint64_t cookie, const DiskRecord* record)> done);
    uint32_t under_way() const { return under_way_; }  // not reported yet

  private:
    DiskRead* take_slot(const Place& place);
    void release(DiskRead& read);
    void complete(DiskRead& read);
    bool refuse();
    bool check(const DiskRead& read, DiskRecord& record);

    DiskStore& store_;
    int event_ = -1;
    bool ring_ = false;
    std::vector<DiskRead> reads_;
    DiskRead* free_ = nullptr;
    DiskRead* complete_ = nullptr;      // not reported yet, first one first
    DiskRead** complete_end_ = &complete_;
    uint32_t under_way_ = 0;
    uint64_t bytes_ = 0;  // of records under way
    std::unique_ptr<ReadWay> way_;
};

}  // namespace farcached::node
