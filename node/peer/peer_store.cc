// SPDX-License-Identifier: BSD-3-Clause
#include "node/peer/peer_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/node_clock.h"
#include "base/random_word.h"

namespace farcached::node {

void PeerInbox::add(uint64_t cookie, std::optional<std::string_view> bytes_of_it, const fabric::LeasedPtr& leased) {
    Done one{cookie, /* is_wait= */ false, nullptr, 0, leased};
    if (bytes_of_it.has_value()) {
        one.bytes.reset(new (std::nothrow) char[bytes_of_it->size() + 1]);
        if (one.bytes != nullptr) one.length = bytes_of_it->copy(one.bytes.get(), bytes_of_it->size());
    }
    add(std::move(one));
}

void PeerInbox::add(Done one) {
    std::lock_guard hold(lock);
    if (fd < 0) return;
    done.push_back(std::move(one));
    (void)eventfd_write(fd, 1);
}

PeerStore::PeerStore() : home_(random_word()), tag_(uint32_t(random_word()) | 1), event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (event_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

PeerStore::~PeerStore() { ::close(event_); }

// With lock_ held.
void PeerStore::wake() {
    if (!std::exchange(woken_, true)) (void)eventfd_write(event_, 1);
}

// ---- for the node -------------------------------------------------------------------------------------

// nullptr: no memory.
std::shared_ptr<PeerRecord> PeerStore::record_of(const LeavingValue& leaving) try {
    auto record = std::make_shared<PeerRecord>();
    const uint64_t length = leaving.key.size() + leaving.value.size();
    record->bytes.reset(new char[length]);
    const size_t key_length = leaving.key.copy(record->bytes.get(), leaving.key.size());
    leaving.value.copy(record->bytes.get() + key_length, leaving.value.size());
    record->length = uint32_t(length);
    record->flags = leaving.flags;
    record->cas = leaving.cas;
    record->key_binary = leaving.key_binary;
    return record;
} catch (const std::bad_alloc&) {
    return nullptr;
}

// Why put() takes no value of that length now, counted; nullptr: it does. With lock_ held.
uint64_t* PeerStore::reason_against(uint64_t length) {
    if (length > record_bytes_max()) return &numbers_.dropped_too_large;
    if (paused_until_ns_ != 0 && boottime_ns() < paused_until_ns_) return &numbers_.dropped_pause;
    if (numbers_.queue_bytes + length > queue_bytes_max) return &numbers_.dropped_full;
    return nullptr;
}

std::optional<Place> PeerStore::put(const LeavingValue& leaving) {
    const uint64_t length = leaving.key.size() + leaving.value.size();
    {
        std::lock_guard hold(lock_);
        if (record_bytes_max() == 0) return std::nullopt;  // the peer was lost just now
        if (uint64_t* const reason = reason_against(length)) return ++*reason, std::nullopt;
    }
    const std::shared_ptr<PeerRecord> record = record_of(leaving);
    std::lock_guard hold(lock_);
    if (record == nullptr || !queue(record)) return numbers_.dropped_full++, std::nullopt;
    numbers_.records_sent++;
    numbers_.bytes_sent += length;
    numbers_.queue_bytes += length;
    wake();
    return Place{at_peer | record->number, tag_, uint32_t(length)};
}

// Gives it its number. False: no memory. With lock_ held.
bool PeerStore::queue(const std::shared_ptr<PeerRecord>& record) try {
    record->number = last_ + 1;
    record->key = key_of(record->number);
    on_their_way_[record->number] = {record};
    try {
        work_.puts.push_back(record);
    } catch (const std::bad_alloc&) {
        on_their_way_.erase(record->number);
        throw;
    }
    last_++;
    return true;
} catch (const std::bad_alloc&) {
    return false;
}

void PeerStore::forget(const Place& place) {
    if (!alive(place)) return;
    std::lock_guard hold(lock_);
    if (const auto found = on_their_way_.find(number_of(place)); found != on_their_way_.end())
        found->second.forgotten = true;  // over() follows
    else
        forget(key_of(number_of(place)));
}

// Without memory the peer keeps the value until it evicts it. With lock_ held.
void PeerStore::forget(const protocol::SpilledKey& key) try {
    work_.forgets.push_back(key);
    numbers_.records_forgotten++;
    wake();
} catch (const std::bad_alloc&) {
}

PeerStatistics PeerStore::statistics() const {
    std::lock_guard hold(lock_);
    return numbers_;
}

void PeerStore::read(const Place& place, const std::shared_ptr<PeerInbox>& asker, uint64_t cookie) {
    std::shared_ptr<const PeerRecord> queued;
    {
        std::lock_guard hold(lock_);
        const auto found = on_their_way_.find(number_of(place));
        if (found != on_their_way_.end()) queued = found->second.record;
        const bool gone = queued == nullptr && (record_bytes_max() == 0 || !alive(place));
        if (queued == nullptr && !gone) {
            work_.reads.push_back({key_of(number_of(place)), asker, cookie});
            wake();
        }
        numbers_.reads++;
        if (queued != nullptr) numbers_.reads_from_queue++;
        if (gone) numbers_.reads_gone++;
        if (queued == nullptr && !gone) return;
    }
    asker->add(cookie, queued != nullptr ? std::optional(queued->view()) : std::nullopt);
}

void PeerStore::await_end(const Place& place, uint64_t until_ns, const std::shared_ptr<PeerInbox>& asker, uint64_t cookie) {
    std::lock_guard hold(lock_);
    work_.waits.push_back({key_of(number_of(place)), place, until_ns, asker, cookie});
    wake();
}

// ---- for the link -------------------------------------------------------------------------------------

void PeerStore::take(Work& to) {
    eventfd_t count = 0;
    (void)eventfd_read(event_, &count);
    std::lock_guard hold(lock_);
    woken_ = false;
    const auto move = [](auto& from, auto& into) {
        if (into.empty()) return into.swap(from);
        for (auto& one : from) into.push_back(std::move(one));
        from.clear();
    };
    move(work_.puts, to.puts);
    move(work_.forgets, to.forgets);
    move(work_.reads, to.reads);
    move(work_.waits, to.waits);
}

void PeerStore::came_up(uint64_t incarnation, uint64_t item_bytes_max) {
    std::lock_guard hold(lock_);
    if (std::exchange(incarnation_, incarnation) != incarnation)
        first_alive_.store(last_ + 1, std::memory_order_release);  // V4
    paused_until_ns_ = 0;
    numbers_.up = 1;
    const uint64_t head_bytes = std::min(item_bytes_max, protocol::spilled_item_bytes(0, 0));
    record_bytes_max_.store(item_bytes_max - head_bytes, std::memory_order_relaxed);
}

void PeerStore::went_down() {
    std::lock_guard hold(lock_);
    numbers_.up = 0;
    record_bytes_max_.store(0, std::memory_order_relaxed);
}

// With lock_ held: the record is not on its way any more. One that was forgotten meanwhile is deleted there, if it arrived.
void PeerStore::over(const PeerRecord& record) {
    numbers_.queue_bytes -= record.length;
    const auto found = on_their_way_.find(record.number);
    CHECK(found != on_their_way_.end());
    const bool forgotten = found->second.forgotten;
    on_their_way_.erase(found);
    if (forgotten) forget(record.key);
}

void PeerStore::stored(const PeerRecord& record) {
    std::lock_guard hold(lock_);
    numbers_.records_stored++;
    over(record);
}

void PeerStore::refused(const PeerRecord& record) {
    std::lock_guard hold(lock_);
    numbers_.refused++;
    paused_until_ns_ = boottime_ns() + pause_after_refusal_ns;
    over(record);
}

void PeerStore::found(const Read& read, std::string_view bytes, const fabric::LeasedPtr& leased) {
    read.asker->add(read.cookie, bytes, leased);
}

void PeerStore::lost(const Read& read) {
    {
        std::lock_guard hold(lock_);
        numbers_.reads_gone++;
    }
    read.asker->add(read.cookie, std::nullopt);
}

// ---- PeerReads ----------------------------------------------------------------------------------------

PeerReads::PeerReads(PeerStore& store, int fd) : store_(store), inbox_(std::make_shared<PeerInbox>()) {
    inbox_->fd = fd;
    make_room();
}

PeerReads::~PeerReads() {
    std::lock_guard hold(inbox_->lock);
    inbox_->fd = -1;
}

// For one more report.
void PeerReads::make_room() {
    constexpr size_t room_min = 64;
    const size_t most = under_way_ + waits_ + 1;
    const auto grow = [&](auto& list) {
        if (list.capacity() < most) list.reserve(std::max(room_min, 2 * most));
    };
    grow(complete_);
    std::lock_guard hold(inbox_->lock);
    grow(inbox_->done);
}

void PeerReads::get(const Place& place, uint64_t cookie) {
    make_room();
    store_.read(place, inbox_, cookie);
    under_way_++;
}

void PeerReads::await_end(const Place& place, uint64_t until_ns, uint64_t cookie) {
    make_room();
    store_.await_end(place, until_ns, inbox_, cookie);
    waits_++;
}

// `done` may call get(), which needs room in both lists.
void PeerReads::take(Report done) {
    std::vector<PeerInbox::Done> complete;
    {
        std::lock_guard hold(inbox_->lock);
        complete_.swap(inbox_->done);
        complete.swap(complete_);
    }
    for (const PeerInbox::Done& one : complete) {
        (one.is_wait ? waits_ : under_way_)--;
        const std::optional<std::string_view> bytes =
            one.bytes != nullptr ? std::optional(std::string_view(one.bytes.get(), one.length)) : std::nullopt;
        done(one.cookie, bytes, one.leased.valid_until_ns != 0 ? &one.leased : nullptr);
    }
    complete.clear();
    if (complete.capacity() > complete_.capacity()) complete_.swap(complete);
}

}  // namespace farcached::node
