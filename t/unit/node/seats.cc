// SPDX-License-Identifier: BSD-3-Clause
// Which connections keep a seat when more come than there are seats (Seats). Which connections end when all together
// hold more bytes than they may (PeerBudget). Each rule alone, then an attack on proxies that were there before.
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "node/service/ousting.h"
#include "t/lib/tap.h"

using namespace farcached;
using namespace farcached::node;

namespace {

constexpr NodeSeconds at_start = 1000;

// ---- seats --------------------------------------------------------------------------------------------

struct Peer final : Oustable {
    Peer(Seats& seats, const std::string& source) : seat(seats, *this) { seat.enter(source); }
    void oust(ServiceEnd reason) override { why = reason; }
    bool there() const { return why == ServiceEnd::count; }

    ServiceEnd why = ServiceEnd::count;
    Seats::Seat seat;
};

struct Room {
    explicit Room(uint32_t seats_max, uint32_t door_max = 4) : seats(door_max), max(seats_max) {}

    Peer& comes(const std::string& source) { return *all.emplace_back(std::make_unique<Peer>(seats, source)); }
    // nullptr: it was refused.
    Peer* sits(const std::string& source, NodeSeconds now = at_start) {
        Peer& peer = comes(source);
        if (peer.seat.sit(now, max)) return &peer;
        all.pop_back();
        return nullptr;
    }
    Peer* works(const std::string& source, NodeSeconds now = at_start) {
        Peer* peer = sits(source, now);
        if (peer != nullptr) peer->seat.used(now);
        return peer;
    }

    Seats seats;
    uint32_t max;
    std::deque<std::unique_ptr<Peer>> all;
};

void at_the_door() {
    Room room(10);
    Peer& other = room.comes("b");
    Peer& first = room.comes("a");
    Peer& second = room.comes("a");
    room.comes("a");
    tap::ok(first.there() && room.seats.at_door() == 4, "as many as may wait at the door do");
    Peer& late = room.comes("c");
    tap::ok(first.why == ServiceEnd::crowded_out, "for one more the oldest goes of the address with most");
    tap::ok(other.there() && second.there() && late.there(), "and no other");
    tap::ok(!first.seat.sit(at_start, 10), "a connection that is ousted gets no seat");
    tap::is(room.seats.at_door(), 4u, "and is not counted");
    tap::is(room.seats.present(), 5u, "but is there until it has gone");
}

void unused_ones() {
    Room room(4);
    Peer* worker = room.works("b");
    Peer* idle = room.sits("b");
    Peer* first = room.sits("a");
    Peer* second = room.sits("a");
    Peer* newcomer = room.sits("c");
    tap::ok(newcomer != nullptr && first->why == ServiceEnd::displaced,
            "the oldest unused seat of the address with most is given away");
    tap::ok(worker->there() && idle->there() && second->there(), "and no other");
    tap::is(room.seats.seated(), 4u, "there are no more seats than there may be");
    for (int i = 0; i < 10; i++) room.sits("a");
    tap::ok(worker->there(), "a used connection keeps its seat");
    tap::is(room.seats.seated(), 4u, "however many come");
}

void used_ones() {
    Room room(4);
    Peer* early = room.works("a", at_start);
    Peer* a[] = {early, room.works("a", at_start + 1)};
    Peer* b[] = {room.works("b", at_start + 2), room.works("b", at_start + 3)};
    tap::ok(room.sits("c", at_start + 10) == nullptr, "seats that are used are not given to another,");
    tap::ok(room.sits("a", at_start + 10) == nullptr, "nor to one of the same address");
    early->seat.used(at_start + 5);
    const NodeSeconds later = at_start + 1 + Seats::idle_s;
    Peer* newcomer = room.works("c", later);
    tap::ok(newcomer != nullptr && a[1]->why == ServiceEnd::displaced, "but one that was silent for long, the longest");
    tap::ok(early->there() && b[0]->there() && b[1]->there(), "and no other");
}

void more_than_half() {
    Room room(8);
    std::vector<Peer*> many;
    for (NodeSeconds i = 0; i < 8; i++) many.push_back(room.works("a", at_start + i));
    many[0]->seat.used(at_start + 20);
    tap::ok(room.sits("a", at_start + 20) == nullptr, "an address with all seats gets no more");
    Peer* newcomer = room.works("b", at_start + 20);
    tap::ok(newcomer != nullptr && many[1]->why == ServiceEnd::displaced,
            "but gives one to another address, the one silent longest");
    int given = 1;
    for (int i = 0; i < 20; i++) given += room.works("c" + std::to_string(i), at_start + 20) != nullptr;
    int kept = 0;
    for (Peer* one : many) kept += one->there();
    tap::is(kept, 4, "until it has half of them");
    tap::is(given, 4, "which it keeps");
}

void freed() {
    Room room(2);
    room.works("a");
    room.works("a");
    tap::ok(room.sits("a") == nullptr, "full");
    room.all.pop_front();
    tap::ok(room.works("a") != nullptr, "when one leaves its seat is free");
    room.all.clear();
    tap::ok(room.seats.seated() == 0 && room.seats.at_door() == 0 && room.seats.present() == 0,
            "nothing is left of those that went");
}

// Proxies of two addresses that are in use, one of them with many workers; then attackers connect in many ways.
void attack() {
    std::mt19937 dice(7);
    Room room(100, 50);
    std::vector<Peer*> proxies;
    for (int i = 0; i < 40; i++) proxies.push_back(room.works("host"));
    for (int i = 0; i < 5; i++) proxies.push_back(room.works("other"));
    NodeSeconds now = at_start;
    int came = 0, lost = 0;
    for (int i = 0; i < 20'000; i++) {
        if (i % 100 == 0) {
            now++;
            for (Peer* proxy : proxies) proxy->seat.used(now);
        }
        const std::string source = "attacker" + std::to_string(dice() % (i < 10'000 ? 1 : 300));
        switch (dice() % 3) {
            case 0: room.comes(source); break;
            case 1: room.sits(source, now); break;
            case 2: room.works(source, now); break;
        }
        if (i % 1000 == 500) came += room.works("newcomer", now) != nullptr;
        while (room.all.size() > 1000) room.all.erase(room.all.begin() + 45);  // what was ousted goes at some time
        lost += room.seats.seated() > 100;
    }
    int there = 0;
    for (Peer* proxy : proxies) there += proxy->there();
    tap::is(there, 45, "proxies that are in use keep their seats against any number of attackers and addresses");
    tap::ok(came >= 10, "and proxies come in while one address attacks");
    tap::is(lost, 0, "there are never more seats than there may be");
}

// ---- bytes --------------------------------------------------------------------------------------------

struct Holder final : Oustable {
    explicit Holder(PeerBudget& budget) : account(budget, *this) {}
    void oust(ServiceEnd reason) override { why = reason; }
    bool there() const { return why == ServiceEnd::count; }

    ServiceEnd why = ServiceEnd::count;
    PeerBudget::Account account;
};

constexpr auto value = PeerBudget::For::value, frame = PeerBudget::For::frame;

void values_are_refused() {
    PeerBudget budget(1000);
    Holder a(budget), b(budget);
    tap::ok(a.account.take(700, 0, 0, value), "a value within three quarters");
    tap::ok(!b.account.take(100, 10, 10, value), "what is above is refused");
    tap::ok(a.there() && b.there(), "and no connection ends while values are on their way");
    tap::ok(b.account.take(100, 10, 10, frame), "frames have all of it");
    const uint64_t late = PeerBudget::patience_ms + 1;
    tap::ok(b.account.take(100, late, late, value), "a value that was held for long makes room");
    tap::ok(a.why == ServiceEnd::over_budget && b.there(), "by the end of its connection");
    tap::ok(!a.account.take(1, late, late, frame), "which gets nothing more");
    tap::is(budget.bytes(), 900u, "what it holds is there until it has gone");
    a.account.give_back(700, 0);
    tap::is(budget.bytes(), 200u, "and then no more");
}

void frames_end_the_heaviest() {
    PeerBudget budget(1000);
    Holder slow(budget), large(budget), small(budget);
    slow.account.take(200, 0, 0, frame);
    large.account.take(700, 990, 990, frame);
    tap::ok(small.account.take(90, 1000, 1000, frame) && slow.there() && large.there(), "within the budget no connection ends");
    small.account.give_back(90, 1000);
    tap::ok(small.account.take(150, 1001, 1001, frame), "a frame that came gets its room");
    tap::ok(slow.why == ServiceEnd::over_budget && large.there() && small.there(),
            "from the one that held most for longest, not from the largest nor from the last");
    slow.account.give_back(100, 0);
    tap::ok(!large.account.take(900, 1001, 1001, frame) && !large.there(), "a request above the budget ends its own connection");
}

// A request that does not fit in any case ends no connection except, for a frame, its own.
void nobody_ends_in_vain() {
    PeerBudget budget(1000);
    const uint64_t late = PeerBudget::patience_ms + 1;
    Holder old(budget), busy(budget), asks(budget);
    old.account.take(100, 0, 0, frame);
    busy.account.take(600, late, late, frame);
    tap::ok(!asks.account.take(200, late, late, value) && old.there() && busy.there() && asks.there(),
            "a value ends no long holders if that frees too little for it");
    tap::ok(asks.account.take(150, late, late, value) && !old.there() && busy.there(), "one that then fits ends them");
    tap::ok(!asks.account.take(1100, late, late, frame) && !asks.there() && busy.there(),
            "a frame larger than the budget ends its own");

    PeerBudget other(1000);
    Holder heavy(other), heavier(other), light(other);
    heavy.account.take(400, 10, 10, frame);
    heavier.account.take(300, 0, 0, frame);
    light.account.take(250, 90, 90, frame);
    tap::ok(!heavy.account.take(600, 100, 100, frame) && !heavy.there() && heavier.there() && light.there(),
            "the heaviest ends alone if its own request does not fit");
    heavy.account.give_back(400, 10);
    tap::ok(light.account.take(500, 100, 100, frame) && !heavier.there(), "and then one is enough");
}

void never_much_above() {
    std::mt19937 dice(3);
    PeerBudget budget(100'000);
    std::vector<std::unique_ptr<Holder>> holders;
    uint64_t most = 0;
    for (int i = 0; i < 50; i++) holders.push_back(std::make_unique<Holder>(budget));
    for (uint64_t now = 0; now < 20'000; now++) {
        auto& one = holders[dice() % holders.size()];
        one->account.take(dice() % 8000, now, now, dice() % 2 == 0 ? value : frame);
        most = std::max(most, budget.bytes());
        if (!one->there() && dice() % 8 == 0) one = std::make_unique<Holder>(budget);
    }
    tap::ok(most > 90'000 && most <= 125'000, "bytes never exceed the budget by more than a quarter");
    holders.clear();
    tap::is(budget.bytes(), 0u, "nothing is left of holders that went");
    tap::is(peer_budget_bytes(64 << 20, 1 << 20), 16u << 20, "16 MB of 64");
    tap::is(peer_budget_bytes(64 << 20, 32 << 20), 64u << 20, "two of the largest values at least");
}

}  // namespace

int main() {
    at_the_door();
    unused_ones();
    used_ones();
    more_than_half();
    freed();
    attack();
    values_are_refused();
    frames_end_the_heaviest();
    nobody_ends_in_vain();
    never_much_above();
    return tap::done();
}
