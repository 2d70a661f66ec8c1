// SPDX-License-Identifier: BSD-3-Clause
// DiskStore: values of evicted items in a file on an SSD. It has neither index nor metadata. The node keeps in memory the Place
// that put() returns, and DiskReads (node/disk/disk_reads.h) reads the value there. The file consists of segments. Records are
// appended to one of them through write buffers. When no segment is free, the oldest one is dropped with all its records.
//
// Owner: the node; it outlives all its DiskReads. Threads: any may call, except for open() and the destructor. The writer, a thread
// of the store, writes the buffers.
//
// K1  A read returns exactly the bytes that one put() stored at that Place, or nothing. The proof is the record's check, a keyed
//     hash of the store's id, segment, offset, lengths, tag, key and value.
// K2  A segment's number never returns in a store. alive() is false before a byte of the segment is overwritten.
// K3  put(), get() and forget() never wait for the disk. They hold a mutex while they compute a few words. If all buffers wait for
//     the disk, put() drops the record.
// K4  After a failed write the buffer's records are lost, and their reads find nothing. Then put() drops records for
//     `pause_after_error`.
// K5  After a restart nothing is appended to a segment of the run before. Numbers continue far above the largest one in the file.
//     So none returns that was given out and did not reach the disk.
// K6  Records in a buffer are read from there. A buffer is reused after it was written, when no reader copies from it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "node/disk/disk_file.h"
#include "node/disk/disk_statistics.h"
#include "node/disk/place.h"

namespace farcached::node {

struct DiskConfig {
    static constexpr uint64_t segment_bytes_min = 64 << 10, segment_bytes_max = UINT64_C(1) << 31;
    static constexpr uint32_t segments_min = 2, segments_max = 1 << 20;
    static constexpr uint32_t depth_max = 4096, threads_max = 64, buffers_max = 64;

    std::string path;               // of a file or a block device
    uint64_t bytes = 0;             // for segments; the file is 4 KiB longer
    uint64_t segment_bytes = UINT64_C(64) << 20;  // a multiple of 4 KiB, at least buffer_bytes
    uint64_t buffer_bytes = UINT64_C(4) << 20;    // a multiple of 4 KiB; a longer record is dropped
    uint32_t buffers = 4;           // at least 2
    uint32_t threads = 1;           // that read, where io_uring is not available
    uint32_t depth = 64;            // reads under way of one DiskReads
    bool io_uring = true;           // read through io_uring, if build and system have it
    uint64_t former_store = 0;      // id() of the run before; 0: nothing of the file is kept
    std::function<void(const std::string&)> say;  // a sentence for the log; from any thread, at most two a minute
};

class DiskReaders;
class DiskReads;

class DiskStore {
  public:
    static constexpr std::chrono::milliseconds pause_after_error{1000};

    // Creates a missing file. Throws std::bad_alloc and std::system_error (no thread).
    static Result<std::unique_ptr<DiskStore>> open(const DiskConfig& config);
    ~DiskStore();  // records that are not in the file are lost: see flush()
    DiskStore(const DiskStore&) = delete;
    DiskStore& operator=(const DiskStore&) = delete;

    // Random; in the file, and the same after a restart that kept the records. Secret: it keys the checks.
    uint64_t id() const { return file_->id(); }
    bool kept() const { return file_->kept(); }  // the places of the run before may be alive
    uint64_t record_bytes_max() const;  // of key and value together

    // The record is in a write buffer when it returns. nullopt: dropped and counted. Allocates nothing.
    std::optional<Place> put(std::string_view key, std::string_view value, uint64_t tag);
    // May the place still be read? Two loads, no lock. False for dropped segments and other stores.
    bool alive(const Place& place) const {
        return place.segment != 0 && segments_[place.segment % count_].number.load(std::memory_order_acquire) == place.segment;
    }
    // The record is not needed any more; once for each place. A full segment is free when all its records are forgotten.
    void forget(const Place& place);
    // After a restart: the node has that place. False: it is not alive. A restored segment has no other records that count.
    bool adopt(const Place& place);
    // Writes the open buffer out and waits for the disk, for a clean stop. A buffer that is not full waits for more records until
    // then. False: an error; records may be lost.
    bool flush();

    DiskStatistics statistics() const;
    // In the order of the file: the segment's number, 0: free; and the bytes of its records that are still needed.
    void each_segment(FunctionRef<void(uint32_t place, uint64_t number, uint64_t bytes)> visit) const;

  private:
    friend class DiskReads;

    using Clock = std::chrono::steady_clock;
    using Indexes = std::list<uint32_t>;  // places of segments; moved by splice(), which allocates nothing

    struct Segment {
        std::atomic<uint64_t> number{0};   // 0: free
        std::atomic<uint32_t> in_file{0};  // bytes from its beginning that are in the file, or lost
        uint32_t filled = 0;               // bytes, with those of buffers
        uint32_t records = 0;              // not forgotten
        uint64_t bytes = 0;                // of these
        Indexes::iterator at;
    };
    struct Buffer {
        std::unique_ptr<char[]> memory;
        uint64_t segment = 0;  // 0: free
        uint32_t start = 0;    // offset in the segment
        uint32_t filled = 0, room = 0;
        uint32_t records = 0;
        uint32_t puts = 0, reads = 0;  // copying
        bool written = false;
    };
    // Of all DiskReads.
    struct ReadCounters {
        std::atomic<uint64_t> objects{0}, bytes{0}, errors{0}, refused{0}, from_buffers{0}, gone{0}, bad{0}, under_way{0};
    };
    enum class Found : uint8_t { gone, copied, in_file };

    DiskStore(const DiskConfig& config, std::unique_ptr<DiskFile> file);
    void restore();
    // ---- with lock_ held ----
    Segment& segment_of(uint64_t number) { return segments_[number % count_]; }
    Buffer* reserve(uint64_t bytes, Place& place);
    void close_buffer();
    bool open_buffer(uint64_t bytes);
    void open_segment();
    void drop(Segment& segment);
    void free_if_done(Buffer& buffer);
    bool paused();
    // ---- without ----
    void write_buffers();
    int write_out(const Buffer& buffer) const;
    // The record's bytes, if a buffer has them.
    Found find(const Place& place, char* to);
    void read_failed(int error);
    void complain(std::atomic<int64_t>& next, const char* what, int error) const;
    DiskReaders& readers();

    const DiskConfig config_;
    const std::unique_ptr<DiskFile> file_;
    const uint32_t count_;  // of segments
    const std::unique_ptr<Segment[]> segments_;
    std::vector<Buffer> buffers_;
    std::thread writer_;
    bool ring_works_ = false;

    mutable std::mutex lock_;
    std::condition_variable work_, written_;
    bool stopping_ = false;
    Indexes free_, open_segment_, full_;  // full_: oldest first
    uint64_t last_number_ = 0;
    Buffer* open_ = nullptr;              // gets records
    std::vector<Buffer*> waiting_;        // for the disk, oldest first
    uint64_t closed_count_ = 0, written_count_ = 0;  // buffers
    Clock::time_point paused_until_{};    // zero: put() is not paused
    DiskStatistics numbers_;              // the counters of put() and the writer
    std::unique_ptr<DiskReaders> readers_;  // made on demand

    ReadCounters reads_;
    mutable std::atomic<int64_t> next_write_complaint_s_{0}, next_read_complaint_s_{0};
};

}  // namespace farcached::node
