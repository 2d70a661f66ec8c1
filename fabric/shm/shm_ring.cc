// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/shm/shm_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "protocol/words.h"

namespace farcached::fabric {

// ---- writer -----------------------------------------------------------------------------------------

// False: the reader's position is beyond the writer's, or more bytes wait than the ring holds.
bool RingWriter::look() {
    const uint64_t head = words::load_acquire(&shared_.head);
    if (tail_ - head > ring_bytes_) return false;
    head_seen_ = head;
    return true;
}

std::optional<size_t> RingWriter::write(std::string_view bytes) {
    if (ring_bytes_ - (tail_ - head_seen_) < bytes.size())
        if (!look()) return std::nullopt;
    const size_t room = size_t(ring_bytes_ - (tail_ - head_seen_));
    const size_t size = std::min(room, bytes.size());
    const size_t at = size_t(tail_ & (ring_bytes_ - 1));
    const size_t first = std::min(size, ring_bytes_ - at);
    std::memcpy(ring_ + at, bytes.data(), first);
    std::memcpy(ring_, bytes.data() + first, size - first);
    tail_ += size;
    words::store_release(&shared_.tail, tail_);
    return size;
}

bool RingWriter::has_room() { return !look() || tail_ - head_seen_ < ring_bytes_; }

// ---- reader -----------------------------------------------------------------------------------------

std::optional<size_t> RingReader::read(char* to, size_t room) {
    const uint64_t there = words::load_acquire(&shared_.tail) - head_;
    if (there > ring_bytes_) return std::nullopt;
    const size_t size = std::min(size_t(there), room);
    const size_t at = size_t(head_ & (ring_bytes_ - 1));
    const size_t first = std::min(size, ring_bytes_ - at);
    std::memcpy(to, ring_ + at, first);
    std::memcpy(to + first, ring_, size - first);
    head_ += size;
    words::store_release(&shared_.head, head_);
    return size;
}

bool RingReader::has_bytes() const { return words::load_acquire(&shared_.tail) != head_; }

// ---- memory -----------------------------------------------------------------------------------------

LinkMemory::LinkMemory(Descriptor file, char* base, uint32_t ring_bytes, uint32_t version)
    : file_(std::move(file)), base_(base), ring_bytes_(ring_bytes), version_(version) {}

LinkMemory::~LinkMemory() { munmap(base_, bytes(ring_bytes_, version_)); }

namespace {

char* map_link(int fd, size_t bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}

}  // namespace

std::unique_ptr<LinkMemory> LinkMemory::make(uint32_t ring_bytes, uint32_t version) {
    CHECK(ring_bytes_valid(ring_bytes));
    const size_t size = bytes(ring_bytes, version);
    Descriptor file(memfd_create("farcached-link", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file) return nullptr;
    // Not ftruncate(): a write to memory that the kernel cannot provide later is a SIGBUS.
    if ((errno = posix_fallocate(file.get(), 0, off_t(size))) != 0) return nullptr;
    if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return nullptr;
    char* base = map_link(file.get(), size);
    if (base == nullptr) return nullptr;
    std::unique_ptr<LinkMemory> made(new LinkMemory(std::move(file), base, ring_bytes, version));
    LinkShared& shared = made->shared();
    shared.magic = link_magic;
    shared.version = version;
    shared.ring_bytes = ring_bytes;
    return made;
}

Result<std::unique_ptr<LinkMemory>> LinkMemory::adopt(Descriptor file, uint32_t ring_bytes, uint32_t version) {
    const Problem another = system_problem("the memory of the connection differs from the announcement");
    struct stat there {};
    if (!ring_bytes_valid(ring_bytes)) return another;
    const size_t size = bytes(ring_bytes, version);
    if (fstat(file.get(), &there) != 0 || uint64_t(there.st_size) != size) return another;
    // Without this seal the other side could shrink the memory, and an access here would be a SIGBUS.
    const int seals = fcntl(file.get(), F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return another;
    char* base = map_link(file.get(), size);
    if (base == nullptr) return system_problem("mmap: cannot map the connection: " + std::string(std::strerror(errno)));
    std::unique_ptr<LinkMemory> link(new LinkMemory(std::move(file), base, ring_bytes, version));
    const LinkShared& shared = link->shared();
    if (shared.magic != link_magic || shared.version != version || shared.ring_bytes != ring_bytes) return another;
    return link;
}

}  // namespace farcached::fabric
