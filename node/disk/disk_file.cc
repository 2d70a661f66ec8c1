// SPDX-License-Identifier: BSD-3-Clause
#include "node/disk/disk_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/broken.h"
#include "base/hash.h"
#include "base/random_word.h"
#include "node/disk/disk_store.h"

namespace farcached::node {

namespace {

constexpr uint64_t blank_bytes = 128 << 10;  // a file system, a partition table or a volume has a word in them

uint64_t check_of(const SuperBlock& block) { return hash_bytes(&block, offsetof(SuperBlock, check), block.id); }
uint64_t check_of(const SegmentHeader& header, uint64_t id) {
    return hash_bytes(&header, offsetof(SegmentHeader, check), id);
}

// The number of bytes read: fewer at the end of the file. -1: an error.
ssize_t read_from(int fd, void* to, size_t bytes, uint64_t at) {
    size_t got = 0;
    while (got < bytes) {
        const ssize_t more = pread(fd, static_cast<char*>(to) + got, bytes - got, off_t(at + got));
        if (more < 0 && errno == EINTR) continue;
        if (more < 0) return -1;
        if (more == 0) break;
        got += size_t(more);
    }
    return ssize_t(got);
}

// 0, or the error.
int write_to(int fd, const void* bytes, size_t count, uint64_t at) {
    for (const char* from = static_cast<const char*>(bytes); count != 0;) {
        const ssize_t done = pwrite(fd, from, count, off_t(at));
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return errno;
        if (done == 0) return ENOSPC;
        from += done;
        at += uint64_t(done);
        count -= size_t(done);
    }
    return 0;
}

}  // namespace

SegmentHeader segment_header(uint64_t id, uint64_t number) {
    SegmentHeader header{SegmentHeader::magic_word, id, number, 0};
    header.check = check_of(header, id);
    return header;
}

uint64_t record_check(uint64_t id, const Place& place, const char* record) {
    const uint64_t seed = hash_bytes(&place, sizeof place, id);
    constexpr size_t from = offsetof(RecordHeader, tag);
    return hash_bytes(record + from, place.bytes - from, seed);
}

DiskFile::DiskFile(const DiskConfig& config)
    : path_(config.path),
      segment_bytes_(config.segment_bytes),
      segments_(uint32_t(std::min<uint64_t>(config.bytes / config.segment_bytes, DiskConfig::segments_max))) {}

DiskFile::~DiskFile() {
    if (fd_ >= 0) ::close(fd_);
}

Problem DiskFile::problem(const char* what, int error, const char* action) const {
    std::string text = "disk store " + path_ + ": " + what;
    if (error != 0) text += std::string(": ") + std::strerror(error);
    return system_problem(text + "; " + action);
}

Result<std::unique_ptr<DiskFile>> DiskFile::open(const DiskConfig& config) {
    std::unique_ptr<DiskFile> file(new DiskFile(config));
    if (Refusal refusal = file->open_and_lock()) return std::move(*refusal);
    bool ours = false;
    SuperBlock former{};
    if (Refusal refusal = file->judge(ours, former)) return std::move(*refusal);
    file->kept_ = ours && config.former_store != 0 && former.id == config.former_store &&
                  former.segment_bytes == config.segment_bytes && former.segments == file->segments_;
    file->id_ = file->kept_ ? former.id : random_word();
    // Written before the space is allocated: if the process ends then, the next one knows the file.
    SuperBlock block{SuperBlock::magic_word, file->id_, config.segment_bytes, file->segments_, 0};
    block.check = check_of(block);
    if (const int error = write_to(file->fd_, &block, sizeof block, 0); error != 0)
        return file->problem("cannot write to the file", error, "check the disk and the file's permissions");
    if (Refusal refusal = file->allocate()) return std::move(*refusal);
    return file;
}

Refusal DiskFile::open_and_lock() {
    constexpr const char* action = "name a regular file or an unused block device that this user can write";
    struct stat facts {};
    is_device_ = stat(path_.c_str(), &facts) == 0 && S_ISBLK(facts.st_mode);
    // Of a block device, O_EXCL refuses one that is mounted or part of a volume.
    fd_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | (is_device_ ? O_EXCL : O_CREAT), 0600);
    if (fd_ < 0) return problem("cannot open the file", errno, action);
    if (fstat(fd_, &facts) != 0) return problem("cannot open the file", errno, action);
    if (!S_ISREG(facts.st_mode) && !S_ISBLK(facts.st_mode)) return problem("it is not a file", 0, action);
    if (S_ISREG(facts.st_mode) && (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return problem("other users can write the file", 0, "change its mode to 0600");
    if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return {};
    if (errno == EWOULDBLOCK) return problem("in use by another process", 0, "give each process another file");
    return problem("cannot lock the file", errno, action);
}

// Whether the file is a store's, and if not, whether it may be overwritten (F1).
Refusal DiskFile::judge(bool& ours, SuperBlock& former) {
    const std::unique_ptr<char[]> begin(new char[blank_bytes]);
    const ssize_t got = read_from(fd_, begin.get(), blank_bytes, 0);
    if (got < 0) return problem("cannot read the file", errno, "check the disk");
    if (size_t(got) >= sizeof former) std::memcpy(&former, begin.get(), sizeof former);
    ours = former.magic == SuperBlock::magic_word && former.check == check_of(former);
    const bool blank = std::all_of(begin.get(), begin.get() + got, [](char byte) { return byte == 0; });
    if (blank || former.magic == SuperBlock::magic_word) return {};
    return problem("the file has other contents, which stay as they are", 0, "name another file, or remove this one");
}

Refusal DiskFile::allocate() {
    constexpr const char* action = "free some space there, or choose a smaller size";
    const uint64_t bytes = disk_block_bytes + segments_ * segment_bytes_;
    if (is_device_) {
        const off_t end = lseek(fd_, 0, SEEK_END);
        if (end >= off_t(bytes)) return {};
        return problem("the block device is too small", 0, "choose a smaller size; the store takes 4 KiB more than that");
    }
    if (ftruncate(fd_, off_t(bytes)) != 0) return problem("cannot set the file's size", errno, action);
    int refused = 0;
    do {
        refused = fallocate(fd_, 0, 0, off_t(bytes)) == 0 ? 0 : errno;
    } while (refused == EINTR);
    // Where the file system cannot allocate, a full disk is an error of a later write.
    if (refused != 0 && refused != EOPNOTSUPP && refused != ENOSYS)
        return problem("cannot allocate the file's space", refused, action);
    return {};
}

uint64_t DiskFile::offset_of(const Place& place) const {
    return disk_block_bytes + place.segment % segments_ * segment_bytes_ + place.offset;
}

uint64_t DiskFile::number_at(uint32_t place) const {
    SegmentHeader header;
    if (read_from(fd_, &header, sizeof header, disk_block_bytes + place * segment_bytes_) != ssize_t(sizeof header)) return 0;
    const bool good = header.magic == SegmentHeader::magic_word && header.id == id_ && header.check == check_of(header, id_) &&
                      header.number % segments_ == place;
    return good ? header.number : 0;
}

int DiskFile::write(const char* bytes, size_t count, const Place& to) const {
    broken::hold_up(broken::faults.slow_disk);
    while (broken::faults.stuck_disk) ::pause();
    if (broken::happens(broken::faults.fail_disk_write)) return EIO;
    return write_to(fd_, bytes, count, offset_of(to));
}

}  // namespace farcached::node
