// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/pointer_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"

namespace farcached::proxy {

namespace {

constexpr uint32_t fillers_tried_max = 256;

// A lock of one byte by the open file, independent of threads; only the kernel releases it.
struct flock lock_of(uint16_t filler) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = off_t(table_attached_offset + filler);
    lock.l_len = 1;
    return lock;
}

}  // namespace

PointerTable::PointerTable(int fd, void* mapping, uint64_t entries, uint64_t seed, bool created)
    : fd_(fd), mapping_(mapping), entries_(entries), seed_(seed), created_(created),
      boards_(static_cast<char*>(mapping) + table_boards_offset(entries), entries, seed) {
    // 0 means no process. The number of a live process is skipped. After fillers_tried_max attempts a process shares
    // the last number; at worst, two reporters result. If the kernel grants no such locks, all processes count as dead,
    // and the reporter changes often.
    for (uint32_t tried = 0; tried < fillers_tried_max; tried++) {
        const uint64_t before = __atomic_fetch_add(&header()->fillers, 1, __ATOMIC_RELAXED);
        filler_ = uint16_t(1 + before % 0xffff);
        struct flock lock = lock_of(filler_);
        if (fcntl(fd_, F_OFD_SETLK, &lock) == 0) break;
    }
}

PointerTable::~PointerTable() {
    munmap(mapping_, table_bytes(entries_));
    close(fd_);
}

bool PointerTable::attached(uint16_t filler) const {
    if (filler == filler_) return true;
    struct flock lock = lock_of(filler);
    return fcntl(fd_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

// An entry whose lease ended is not merged: its slot may have belonged to another key since.
fabric::LeasedPtr PointerTable::merged(const EntryCopy& copy, const fabric::LeasedPtr& told, uint64_t now_ns) const {
    if (entry_state(copy, seed_) != EntryState::whole) return told;
    if (copy[word_valid_until] <= now_ns) return told;
    return fabric::merged(unpack_entry(copy), told);
}

uint64_t PointerTable::worth(const EntryCopy& copy, uint64_t now_ns) const {
    enum : uint64_t { free_entry, expired_entry, torn_entry, live_entries };
    switch (entry_state(copy, seed_)) {
        case EntryState::free: return free_entry;
        case EntryState::torn: return torn_entry;  // a process may be about to complete it
        case EntryState::whole: break;
    }
    if (copy[word_valid_until] <= now_ns) return expired_entry;
    return std::max<uint64_t>(copy[word_valid_until], live_entries);
}

// The key's pointer to that slot, for any generation.
std::optional<fabric::LeasedPtr> PointerTable::pointer_to(uint64_t key_hash, const Place& item) const {
    const SetPlace set = set_of(key_hash, entries_);
    NoPause unwatched;
    for (uint32_t n = 0; n < set_ways; n++) {
        const EntryCopy copy = load_entry(at(set.way(n)), unwatched);
        if (copy[word_key_hash] != key_hash) continue;
        if (copy[word_incarnation] != item.incarnation) continue;
        if (entry_state(copy, seed_) != EntryState::whole) continue;
        const fabric::LeasedPtr leased = unpack_entry(copy);
        if (leased.ptr.offset == item.offset && leased.ptr.region == item.region) return leased;
    }
    return std::nullopt;
}

bool PointerTable::extend(uint64_t key_hash, const Place& item, uint64_t valid_until_ns, uint64_t now_ns) {
    std::optional<fabric::LeasedPtr> leased = pointer_to(key_hash, item);
    if (!leased.has_value()) return false;
    leased->valid_until_ns = valid_until_ns;
    return put(key_hash, *leased, now_ns) == Put::stored;
}

uint64_t PointerTable::valid_until_ns(uint64_t key_hash, const Place& item) const {
    const std::optional<fabric::LeasedPtr> leased = pointer_to(key_hash, item);
    return leased.has_value() ? leased->valid_until_ns : 0;
}

bool PointerTable::drop(uint64_t key_hash, const fabric::RemotePtr& ptr) {
    return drop_if(key_hash, ptr.incarnation, &ptr);
}

bool PointerTable::forget(uint64_t key_hash, uint64_t incarnation) {
    return drop_if(key_hash, incarnation, nullptr);
}

bool PointerTable::drop_if(uint64_t key_hash, uint64_t incarnation, const fabric::RemotePtr* only) {
    const SetPlace set = set_of(key_hash, entries_);
    bool dropped = false;
    NoPause unwatched;
    for (uint32_t n = 0; n < set_ways; n++) {  // all: two processes may have put it at once
        uint64_t* entry = at(set.way(n));
        const EntryCopy copy = load_entry(entry, unwatched);
        if (copy[word_key_hash] != key_hash) continue;
        if (copy[word_incarnation] != incarnation) continue;
        if (entry_state(copy, seed_) != EntryState::whole) continue;
        const fabric::RemotePtr held = unpack_entry(copy).ptr;
        if (only != nullptr && (!same_place(held, *only) || held.generation != only->generation)) continue;
        // Exchanged, not stored, so that an entry written in between survives.
        uint64_t check = copy[word_check];
        if (__atomic_compare_exchange_n(entry + word_check, &check, 0, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            dropped = true;
    }
    return dropped;
}

namespace {

PointerTable::Record record_of(const EntryCopy& copy) {
    return {copy[word_key_hash], unpack_entry(copy), filler_of(copy), copy[word_accesses]};
}

}  // namespace

void PointerTable::walk(uint64_t first, uint64_t count, Visit visit) const {
    CHECK(first <= entries_);
    CHECK(count <= entries_ - first);
    NoPause unwatched;
    for (uint64_t number = first; number < first + count; number++) {
        if (words::load_relaxed(at(number) + word_check) == 0) continue;
        const EntryCopy copy = load_entry(at(number), unwatched);
        if (entry_state(copy, seed_) == EntryState::whole) visit(record_of(copy));
    }
}

void PointerTable::add_occupancy(uint64_t first, uint64_t count, uint64_t now_ns,
                                 Occupancy& sum) const {
    CHECK(first <= entries_);
    CHECK(count <= entries_ - first);
    NoPause unwatched;
    sum.entries += count;
    for (uint64_t number = first; number < first + count; number++) {
        const EntryCopy copy = load_entry(at(number), unwatched);
        const EntryState state = entry_state(copy, seed_);
        if (state == EntryState::free) sum.free++;
        if (state == EntryState::torn) sum.torn++;
        if (state != EntryState::whole) continue;
        sum.accesses += copy[word_accesses];
        if (copy[word_valid_until] <= now_ns) {
            sum.expired++;
            continue;
        }
        sum.live++;
        sum.own += filler_of(copy) == filler_;
        const uint64_t left_s = (copy[word_valid_until] - now_ns) / UINT64_C(1'000'000'000);
        const auto* bound =
            std::upper_bound(lease_left_bounds_s.begin(), lease_left_bounds_s.end(), left_s);
        sum.lease_left[size_t(bound - lease_left_bounds_s.begin())]++;
    }
}

}  // namespace farcached::proxy
