// SPDX-License-Identifier: BSD-3-Clause
#include "node/seats.h"

#include "base/check.h"

namespace farcached::node {

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
