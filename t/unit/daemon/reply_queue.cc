// SPDX-License-Identifier: BSD-3-Clause
// When a queue's replies are sent: at once if none is outstanding, else at the end of the next tick at the latest.
#include <array>
#include <string>
#include <string_view>

#include "daemon/engine/reply_queue.h"
#include "daemon/session/datagrams.h"
#include "t/unit/daemon/text_fixture.h"

using namespace farcached;
using daemon::ReplyPool;
using daemon::ReplyQueue;
using daemon::ReplySlot;
using daemon::Ticket;

namespace {

struct Nothing {};

void write_value(ReplySlot& slot, const daemon::ReplyTarget& to) {
    to.out.append(slot.available() ? slot.value() : std::string_view("unavailable"));
}

struct Desk {
    fixture::Talk talk;
    ReplyPool pool{talk.context};
    ReplyQueue queue{pool, -1};
    OutBuffer out;
    ReplySlot::Complete complete = &write_value;

    Ticket ask() {
        ReplySlot& slot = queue.open();
        const Ticket ticket = queue.ticket_of(slot);
        queue.park(slot, out, /* crowded= */ false, /* gets_value= */ true, "key", "", Nothing(), complete);
        return ticket;
    }
    // In a tick that has begun: "1" is the reply to the first request, the next two are asked of others.
    std::array<Ticket, 2> begin() {
        pool.begin_tick();
        out.append("1");
        const Ticket two = ask();
        return {two, ask()};
    }
    void answer(Ticket ticket, std::string_view value) {
        pool.answer(ticket, protocol::GetReply(), value);
    }
    // The replies that the end of a tick emits.
    std::string tick_ends() {
        for (ReplyQueue* one : pool.take_ready()) one->emit(out);
        return taken();
    }
    std::string settle() {
        queue.settle(out);
        return taken();
    }
    std::string taken() {
        std::string all(out.data(), out.size());
        out.clear(0);
        return all;
    }
};

void at_once() {
    Desk desk;
    desk.out.append("now");
    tap::is(desk.settle(), "now", "without slots what is replied goes out");
    desk.answer(desk.ask(), "a");
    desk.out.append("b");
    tap::is(desk.settle(), "ab", "and with slots if all were answered");
    tap::is(desk.tick_ends(), "", "then nothing is left for the end of the tick");
    tap::ok(desk.queue.empty() && !desk.pool.begin_tick(), "nor for the next");
}

void one_tick() {
    Desk desk;
    const auto [two, three] = desk.begin();
    tap::is(desk.settle(), "", "a reply waits for those behind it");
    tap::is(desk.tick_ends(), "", "to the end of the tick and beyond");
    desk.answer(two, "2");
    tap::ok(desk.queue.ready() && !desk.queue.due(), "the rest may come in the same tick");
    tap::ok(desk.pool.begin_tick(), "but the worker must not sleep before the next");
    tap::is(desk.tick_ends(), "12", "and without the rest, the ready replies are sent");
    tap::ok(!desk.pool.begin_tick(), "after that the worker may sleep");
    desk.answer(three, "3");
    tap::is(desk.tick_ends(), "3", "the last one does not wait");
    tap::ok(desk.queue.empty(), "nothing is left");
}

void together() {
    Desk desk;
    const auto [two, three] = desk.begin();
    desk.settle();
    desk.answer(two, "2");
    desk.tick_ends();
    desk.pool.begin_tick();
    desk.answer(three, "3");
    tap::is(desk.tick_ends(), "123", "what came within a tick goes out in one piece");
}

void much() {
    Desk desk;
    desk.pool.begin_tick();
    const std::string large(ReplyQueue::patience_bytes_max, 'x');
    const Ticket one = desk.ask();
    desk.ask();
    desk.settle();
    desk.answer(one, large);
    tap::ok(desk.queue.due(), "what is large does not wait");
    tap::is(desk.tick_ends(), large, "and goes out in the same tick");
    desk.queue.remind();
    tap::ok(!desk.pool.begin_tick(), "a queue without replies is not waited for");
}

void gone() {
    Desk desk;
    {
        ReplyQueue brief(desk.pool, -1);
        ReplySlot& slot = brief.open();
        desk.out.append("1");
        brief.park(slot, desk.out, false, true, "key", "", Nothing(), &write_value);
        brief.settle(desk.out);
    }
    tap::ok(!desk.pool.begin_tick(), "a queue that is gone is not waited for");
    tap::ok(desk.pool.take_ready().empty(), "nor given out");
}

void write_value_and_count(ReplySlot& slot, const daemon::ReplyTarget& to) {
    (slot.available() ? to.context.counters.get_misses : to.context.counters.get_unavailable).add(1);
    write_value(slot, to);
}

// A refused datagram's queue counts late answers as any others, in whatever order they come, and keeps none.
void discarded() {
    Desk desk;
    desk.complete = &write_value_and_count;
    const auto [two, three] = desk.begin();
    const Ticket four = desk.ask();
    desk.settle();
    desk.answer(three, std::string(100'000, '3'));
    daemon::WorkerCounters& counters = *desk.talk.counters;
    tap::is(counters.get_misses.get(), uint64_t(0), "an answer waits for those before it");
    desk.queue.discard();
    tap::ok(counters.get_misses.get() == 1 && desk.queue.bytes() < 100 && !desk.queue.empty(),
            "discarded: it is counted, and only its place is kept");
    tap::ok(desk.pool.is_awaited(two) && desk.pool.is_awaited(four), "the others are awaited");
    desk.answer(four, std::string(100'000, '4'));
    tap::ok(counters.get_misses.get() == 2 && desk.queue.bytes() < 100, "a late answer is counted");
    tap::is(desk.tick_ends(), "", "and not sent");
    desk.answer(two, "2");
    tap::is(desk.tick_ends(), "", "nor is the last");
    tap::ok(desk.queue.empty() && counters.get_misses.get() == 3, "after which the queue is empty");
    tap::is(counters.get_unavailable.get() + counters.response_oom.get(), uint64_t(0), "none was unavailable");
}

struct CountedRoom final : daemon::RoomMaker {
    bool make_room(size_t, daemon::Lack) override { return ++calls, false; }
    int calls = 0;
};

// Sessions end for a session's answers, but not for a datagram's.
void without_room() {
    Desk desk;
    CountedRoom room;
    daemon::SessionMemory whole(100'000), part(50'000, &whole);
    desk.talk.context.memory = &whole;
    desk.talk.context.room = &room;
    daemon::Datagram datagram(&part);
    ReplyQueue queue(desk.pool, -1, nullptr, &datagram, &part);
    const auto answer = [&](ReplyQueue& asked) {
        ReplySlot& slot = asked.open();
        const Ticket ticket = asked.ticket_of(slot);
        asked.park(slot, desk.out, false, true, "key", "", Nothing(), &write_value);
        desk.answer(ticket, std::string(200'000, 'v'));
        asked.emit(desk.out);
        return desk.taken();
    };
    tap::is(answer(queue), "unavailable", "no room for a datagram's answer");
    tap::is(room.calls, 0, "no session is asked to end");
    tap::is(answer(desk.queue), "unavailable", "nor for a session's");
    tap::is(room.calls, 1, "for which one may end");
}

}  // namespace

int main() {
    at_once();
    one_tick();
    together();
    much();
    gone();
    discarded();
    without_room();
    return tap::done();
}
