// SPDX-License-Identifier: BSD-3-Clause
// DiskFile: the file of a DiskStore (node/disk/disk_store.h) and the layout of its bytes.
//
//   file     | SuperBlock, 4 KiB | segment | segment | ...
//   segment  | SegmentHeader | record | record | ... zeros up to 4 KiB | record | ...
//   record   | RecordHeader | key | value |
//
// Owner: the DiskStore. Threads: open() is called by one; any may call the others.
// F1  A file is overwritten only if it is a store's, is empty, or begins with 128 KiB of zeros. A block device must not be in use.
// F2  One process uses the file: it is locked until the end of this object.
// F3  The file is untrusted input. A header counts only with its check, which is keyed by the store's id. The id is random and no
//     client learns it. Other users cannot write the file.
// F4  Segment n of a store lies at place n % segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace farcached::node {

struct DiskConfig;
struct Place;

constexpr uint64_t disk_block_bytes = 4096;  // no two writes touch the same block

struct SuperBlock {
    static constexpr uint64_t magic_word = UINT64_C(0x31746b7369646366);  // "fcdiskt1" in memory order
    uint64_t magic;
    uint64_t id;  // of the store
    uint64_t segment_bytes, segments;
    uint64_t check;
};

struct SegmentHeader {
    static constexpr uint64_t magic_word = UINT64_C(0x31746e6765736366);  // "fcsegnt1" in memory order
    uint64_t magic;
    uint64_t id;      // of the store
    uint64_t number;  // of the segment
    uint64_t check;
};

struct RecordHeader {
    uint64_t check;  // of the place, and of all that follows
    uint64_t tag;
    uint32_t value_bytes;
    uint32_t key_bytes;
};
static_assert(sizeof(SuperBlock) == 40);
static_assert(sizeof(SegmentHeader) == 32);
static_assert(sizeof(RecordHeader) == 24);
static_assert(std::has_unique_object_representations_v<RecordHeader>);

SegmentHeader segment_header(uint64_t id, uint64_t number);
// record: header, key and value, place.bytes long; its own check is not read.
uint64_t record_check(uint64_t id, const Place& place, const char* record);

class DiskFile {
  public:
    // Waits for no other process.
    static Result<std::unique_ptr<DiskFile>> open(const DiskConfig& config);
    ~DiskFile();
    DiskFile(const DiskFile&) = delete;
    DiskFile& operator=(const DiskFile&) = delete;

    int fd() const { return fd_; }
    uint64_t id() const { return id_; }
    bool kept() const { return kept_; }  // the store of the run before
    uint32_t segments() const { return segments_; }
    uint64_t offset_of(const Place& place) const;
    // The segment that lies at that place; 0: none of this store.
    uint64_t number_at(uint32_t place) const;
    // 0, or the error.
    int write(const char* bytes, size_t count, const Place& to) const;

  private:
    explicit DiskFile(const DiskConfig& config);
    Refusal open_and_lock();
    Refusal judge(bool& ours, SuperBlock& former);
    Refusal allocate();
    Problem problem(const char* what, int error, const char* action) const;

    const std::string path_;
    const uint64_t segment_bytes_;
    uint32_t segments_;
    int fd_ = -1;
    bool is_device_ = false;
    bool kept_ = false;
    uint64_t id_ = 0;
};

}  // namespace farcached::node
