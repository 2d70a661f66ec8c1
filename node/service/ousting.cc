// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/ousting.h"

#include <algorithm>

#include "base/check.h"

namespace farcached::node {

void OustNote::oust(ServiceEnd why) {
    ServiceEnd none = ServiceEnd::count;
    if (!why_.compare_exchange_strong(none, why, std::memory_order_relaxed)) return;
    if (waker_ != nullptr) waker_->wake_for_ousted();
}

// ---- peer budget -----------------------------------------------------------------------------------------

namespace {

constexpr uint64_t least_bytes = 8 << 20, share_of_memory = 8;  // the budget: least_bytes + memory / share_of_memory
constexpr uint64_t items_at_least = 2;

}  // namespace

uint64_t peer_budget_bytes(uint64_t memory_bytes, uint64_t item_bytes_max) {
    return std::max(least_bytes + memory_bytes / share_of_memory, items_at_least * item_bytes_max);
}

void PeerBudget::change(uint64_t bytes_max) {
    std::lock_guard hold(lock_);
    bytes_max_ = bytes_max;
}

uint64_t PeerBudget::bytes() const {
    std::lock_guard hold(lock_);
    return bytes_;
}

void PeerBudget::open(Account& account) {
    std::lock_guard hold(lock_);
    account.place_ = accounts_.insert(accounts_.end(), &account);
}

void PeerBudget::close(Account& account) {
    std::lock_guard hold(lock_);
    accounts_.erase(account.place_);
    count(bytes_ - account.bytes_);
    if (account.ousted_) leaving_ -= account.bytes_;
}

void PeerBudget::oust(Account& account) {
    account.ousted_ = true;
    leaving_ += account.bytes_;
    account.owner_.oust(ServiceEnd::over_budget);
}

bool PeerBudget::may_end(const Account& account, uint64_t now_ms, For what) {
    if (account.ousted_ || account.bytes_ == 0) return false;
    return what == For::frame || account.weight(now_ms) >= account.bytes_ * patience_ms;
}

// B3. Ends the accounts with the most byte-milliseconds until `bytes` are free. False: that many cannot be freed, and no
// account ends.
bool PeerBudget::make_room(const Account& asker, uint64_t bytes, uint64_t now_ms, For what) {
    const uint64_t least = may_end(asker, now_ms, what) ? asker.weight(now_ms) : 0;
    const auto goes_first = [&](const Account& one) {
        return &one != &asker && may_end(one, now_ms, what) && one.weight(now_ms) >= least;
    };
    uint64_t all = 0;
    for (const Account* one : accounts_)
        if (goes_first(*one)) all += one->bytes_;
    if (all < bytes) return false;
    for (uint64_t freed = 0; freed < bytes;) {
        Account* most = nullptr;
        for (Account* one : accounts_)
            if (goes_first(*one) && (most == nullptr || one->weight(now_ms) > most->weight(now_ms))) most = one;
        CHECK(most != nullptr);
        freed += most->bytes_;
        oust(*most);
    }
    return true;
}

bool PeerBudget::take(Account& account, uint64_t bytes, uint64_t since_ms, uint64_t now_ms, For what) {
    std::lock_guard hold(lock_);
    if (account.ousted_) return false;
    const uint64_t most = what == For::value ? bytes_max_ / 4 * 3 : bytes_max_;
    const uint64_t wanted = bytes_ - leaving_ + bytes;
    bool fits = bytes_ + bytes <= bytes_max_ + bytes_max_ / 4;
    if (fits && wanted > most) fits = make_room(account, wanted - most, now_ms, what);
    if (!fits) {
        if (what == For::frame) oust(account);
        return false;
    }
    count(bytes_ + bytes);
    account.bytes_ += bytes;
    account.began_ += bytes * since_ms;
    return true;
}

void PeerBudget::give_back(Account& account, uint64_t bytes, uint64_t since_ms) {
    std::lock_guard hold(lock_);
    CHECK(bytes <= account.bytes_);
    count(bytes_ - bytes);
    if (account.ousted_) leaving_ -= bytes;
    account.bytes_ -= bytes;
    account.began_ -= bytes * since_ms;
}

// ---- seats -----------------------------------------------------------------------------------------------

uint32_t Seats::seated() const {
    std::lock_guard hold(lock_);
    return taken();
}

uint32_t Seats::at_door() const {
    std::lock_guard hold(lock_);
    return counts_[door];
}

uint32_t Seats::present() const {
    std::lock_guard hold(lock_);
    return present_;
}

// ---- lists --------------------------------------------------------------------------------------------

void Seats::list(Seat& seat, Stage stage) {
    SeatList& to = seat.source_->second.lists[stage];
    to.splice(to.end(), seat.node_);
    counts_[stage]++;
    seat.stage_ = stage;
}

void Seats::unlist(Seat& seat) {
    CHECK(seat.stage_ < stages_listed);
    seat.node_.splice(seat.node_.end(), seat.source_->second.lists[seat.stage_], seat.place_);
    counts_[seat.stage_]--;
    seat.stage_ = away;
}

void Seats::oust(Seat& seat, ServiceEnd why) {
    unlist(seat);
    if (seat.source_->second.empty()) sources_.erase(seat.source_);
    seat.stage_ = ousted;
    seat.owner_.oust(why);
}

// ---- stages of a seat ---------------------------------------------------------------------------------

void Seats::enter(Seat& seat, const std::string& source) {
    std::lock_guard hold(lock_);
    CHECK(seat.stage_ == away);
    const Sources::iterator from = sources_.try_emplace(source).first;
    present_++;
    seat.source_ = from;
    list(seat, door);
    if (counts_[door] > door_max_) oust(*oldest_of_most(door), ServiceEnd::crowded_out);
}

bool Seats::sit(Seat& seat, NodeSeconds now, uint32_t seats_max) {
    std::lock_guard hold(lock_);
    if (seat.stage_ == ousted) return false;
    CHECK(seat.stage_ == door);
    if (taken() >= seats_max) {
        Seat* const goes = who_goes(seat.source_, now, seats_max);
        if (goes == nullptr) return false;
        oust(*goes, ServiceEnd::displaced);
    }
    seat.last_used_.store(now, std::memory_order_relaxed);
    unlist(seat);
    list(seat, unused);
    return true;
}

void Seats::first_use(Seat& seat) {
    std::lock_guard hold(lock_);
    if (seat.stage_ != unused) return;
    unlist(seat);
    list(seat, used);
}

void Seats::leave(Seat& seat) {
    std::lock_guard hold(lock_);
    if (seat.stage_ == away) return;  // it never entered
    present_--;
    if (seat.stage_ == ousted) return;
    unlist(seat);
    if (seat.source_->second.empty()) sources_.erase(seat.source_);
}

// ---- displacement -------------------------------------------------------------------------------------

// D1, S1.
Seats::Seat* Seats::oldest_of_most(Stage stage) {
    const SeatList* most = nullptr;
    for (const auto& [name, source] : sources_)
        if (most == nullptr || source.lists[stage].size() > most->size()) most = &source.lists[stage];
    return most == nullptr || most->empty() ? nullptr : most->front();
}

Seats::Seat* Seats::silent_longest(const Source& source) {
    Seat* longest = nullptr;
    for (Seat* seat : source.lists[used])
        if (longest == nullptr || seat->last_used() < longest->last_used()) longest = seat;
    return longest;
}

// S1 to S3. nullptr: no seat may be reassigned.
Seats::Seat* Seats::who_goes(Sources::const_iterator newcomer, NodeSeconds now, uint32_t seats_max) {
    if (Seat* never_used = oldest_of_most(unused)) return never_used;
    Seat* silent = nullptr;
    const Source* most = nullptr;
    for (const auto& [name, source] : sources_) {
        Seat* const one = silent_longest(source);
        if (one != nullptr && (silent == nullptr || one->last_used() < silent->last_used())) silent = one;
        if (most == nullptr || source.seats() > most->seats()) most = &source;
    }
    if (silent != nullptr && seconds_since(silent->last_used(), now) >= idle_s) return silent;
    if (most == &newcomer->second || 2 * most->seats() <= seats_max) return nullptr;
    return most->seats() >= newcomer->second.seats() + 2 ? silent_longest(*most) : nullptr;
}

}  // namespace farcached::node
