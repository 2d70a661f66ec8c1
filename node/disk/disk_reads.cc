// SPDX-License-Identifier: BSD-3-Clause
#include "node/disk/disk_reads.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/broken.h"
#include "node/disk/read_ways.h"

namespace farcached::node {

DiskReads::DiskReads(DiskStore& store) : store_(store), reads_(store.config_.depth) {
    event_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (event_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    try {
        std::string refusal;
        if (store.ring_works_) way_ = make_ring_way(store.file_->fd(), event_, store.config_.depth, refusal);
        ring_ = way_ != nullptr;
        if (!ring_) way_ = std::make_unique<ThreadWay>(store.readers(), event_);
    } catch (...) {
        ::close(event_);
        throw;
    }
    for (DiskRead& read : reads_) read.next = std::exchange(free_, &read);
}

DiskReads::~DiskReads() {
    way_->finish();
    way_ = nullptr;
    store_.reads_.under_way.fetch_sub(under_way_);
    ::close(event_);
}

bool DiskReads::refuse() {
    store_.reads_.refused.fetch_add(1, std::memory_order_relaxed);
    return false;
}

// nullptr: refused (Q3), or no memory.
DiskRead* DiskReads::take_slot(const Place& place) {
    if (free_ == nullptr || (under_way_ != 0 && bytes_ + place.bytes > bytes_max)) return nullptr;
    std::unique_ptr<char[]> bytes(new (std::nothrow) char[place.bytes]);
    if (bytes == nullptr) return nullptr;
    DiskRead* const read = std::exchange(free_, free_->next);
    *read = {};
    read->place = place;
    read->bytes = std::move(bytes);
    bytes_ += place.bytes;
    under_way_++;
    store_.reads_.under_way.fetch_add(1, std::memory_order_relaxed);
    return read;
}

void DiskReads::release(DiskRead& read) {
    bytes_ -= read.place.bytes;
    under_way_--;
    store_.reads_.under_way.fetch_sub(1, std::memory_order_relaxed);
    read.bytes = nullptr;
    read.next = std::exchange(free_, &read);
}

void DiskReads::complete(DiskRead& read) {
    read.next = nullptr;
    *complete_end_ = &read;
    complete_end_ = &read.next;
}

bool DiskReads::get(const Place& place, uint64_t cookie) {
    // An impossible place is none of this store.
    const Place sane = place.bytes <= store_.config_.buffer_bytes ? place : Place{};
    DiskRead* const read = take_slot(sane);
    if (read == nullptr) return refuse();
    read->cookie = cookie;
    switch (store_.find(sane, read->bytes.get())) {
    case DiskStore::Found::gone: read->state = DiskRead::State::gone; break;
    case DiskStore::Found::copied: read->state = DiskRead::State::copied; break;
    case DiskStore::Found::in_file:
        read->from = store_.file_->offset_of(sane);
        if (way_->start(*read)) return true;
        release(*read);
        return refuse();
    }
    complete(*read);
    (void)eventfd_write(event_, 1);
    return true;
}

// The reason of a false is counted.
bool DiskReads::check(const DiskRead& read, DiskRecord& record) {
    DiskStore::ReadCounters& counters = store_.reads_;
    const auto count = [](std::atomic<uint64_t>& one, uint64_t n = 1) { one.fetch_add(n, std::memory_order_relaxed); };
    if (read.state == DiskRead::State::gone) {
        count(counters.gone);
        return false;
    }
    if (read.error != 0) {
        store_.read_failed(read.error);
        return false;
    }
    RecordHeader header;
    std::memcpy(&header, read.bytes.get(), sizeof header);
    const bool lengths_match = sizeof header + uint64_t{header.key_bytes} + header.value_bytes == read.place.bytes;
    const bool good = broken::s4_skip_disk_check || header.check == record_check(store_.id(), read.place, read.bytes.get());
    if (!lengths_match || !good) {
        count(counters.bad);
        return false;
    }
    const char* const key = read.bytes.get() + sizeof header;
    record = {{key, header.key_bytes}, {key + header.key_bytes, header.value_bytes}, header.tag};
    count(counters.objects);
    count(counters.bytes, read.place.bytes);
    if (read.state == DiskRead::State::copied) count(counters.from_buffers);
    return true;
}

size_t DiskReads::take(FunctionRef<void(uint64_t cookie, const DiskRecord* record)> done) {
    eventfd_t times = 0;
    (void)eventfd_read(event_, &times);  // before the completions are collected (Q1)
    way_->collect([this](DiskRead& read) { complete(read); });
    DiskRead* all = std::exchange(complete_, nullptr);
    complete_end_ = &complete_;
    size_t count = 0;
    for (; all != nullptr; count++) {
        DiskRead& read = *std::exchange(all, all->next);
        DiskRecord record;
        done(read.cookie, check(read, record) ? &record : nullptr);
        release(read);
    }
    return count;
}

}  // namespace farcached::node
