// SPDX-License-Identifier: BSD-3-Clause
// Messages in slots: torn, stale and foreign ones, their order, and the reuse of slots; the times of READs and wakes; and both
// ends together over memory that an adversary delivers. Pure: no device. Built again with S12_SLOTS broken on purpose
// (t/faulty/broken_rules.py).
#include <cstring>
#include <deque>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/broken.h"
#include "fabric/verbs/rpc_timing.h"
#include "fabric/verbs/verbs_slots.h"
#include "t/lib/tap.h"

namespace {

using namespace farcached;
using namespace farcached::fabric;

constexpr uint32_t slot_bytes = 256;
constexpr uint64_t us = 1000, ms = 1'000'000;

struct Slot {
    alignas(8) char bytes[slot_bytes] = {};
    const uint64_t* words() const { return reinterpret_cast<const uint64_t*>(bytes); }
};

// Numbers before a connection's first message: usual ones, and some before which the lower half of a number wraps soon, also for
// the second time.
constexpr uint64_t wraps = UINT64_C(1) << 32;
constexpr uint64_t befores[] = {0, wraps - 2, wraps - 33, 2 * wraps - 5, UINT64_C(7) << 40 | 0xffff'fff0};

std::string message(uint64_t number, std::string_view bytes, uint32_t seen = 0) {
    std::string made(sizeof(SlotHead) + bytes.size(), '\0');
    SlotHead head;
    head.seen = seen;
    compose_message(made.data(), number, head, bytes, {});
    return made;
}

void put(Slot& slot, std::string_view what) { std::memcpy(slot.bytes, what.data(), what.size()); }

// Every mixture of words of an old and a new message is one of both, or none.
void mixtures() {
    const std::string old = message(1, "the value before"), next = message(9, "and the one after");
    const size_t words = (std::max(old.size(), next.size()) + 7) / 8;
    uint32_t wrong = 0, whole = 0;
    for (uint32_t mask = 0; mask < 1u << words; mask++) {
        Slot slot, from;
        put(slot, old);
        put(from, next);
        for (size_t i = 0; i < words; i++)
            if ((mask >> i & 1) != 0) std::memcpy(slot.bytes + 8 * i, from.bytes + 8 * i, 8);
        char copy[slot_bytes];
        const MessageState state = copy_message(copy, slot.words(), slot_bytes, slot_bytes, 9);
        if (state != MessageState::whole) continue;
        whole++;
        SlotHead head;
        std::memcpy(&head, copy, sizeof head);
        if (head.sequence != 9 || std::string_view(copy + sizeof head, head.length) != "and the one after") wrong++;
    }
    tap::is(wrong, 0u, "no mixture of two messages is taken for one");
    tap::ok(whole >= 1, "and the whole new one is");
}

// Every byte that is wrong makes the message incomplete, another one, or longer than what is readable.
void flipped_bytes() {
    const std::string good = message(5, "value");
    uint32_t taken = 0;
    for (size_t i = 0; i < good.size(); i++)
        for (int bit = 0; bit < 8; bit++) {
            std::string bad = good;
            bad[i] = char(bad[i] ^ 1 << bit);
            Slot slot;
            put(slot, bad);
            char copy[slot_bytes];
            if (copy_message(copy, slot.words(), slot_bytes, slot_bytes, 5) == MessageState::whole) taken++;
        }
    tap::is(taken, 0u, "a flipped bit makes no whole message");
    Slot slot;
    put(slot, message(5, std::string(slot_bytes - sizeof(SlotHead), 'x')));
    char copy[slot_bytes];
    tap::ok(copy_message(copy, slot.words(), slot_bytes, slot_bytes, 5) == MessageState::whole, "a full slot is whole");
    tap::ok(copy_message(copy, slot.words(), 64, slot_bytes, 5) == MessageState::longer, "its first bytes say that there are more");
    tap::ok(copy_message(copy, slot.words(), slot_bytes, slot_bytes, 4) == MessageState::absent, "an earlier number is not there");
    tap::ok(copy_message(copy, slot.words(), slot_bytes, slot_bytes, 13) == MessageState::absent, "nor the next one of its slot");
}

// A slot that only later messages would have overwritten, but all of them were sent.
void old_ones() {
    for (const uint64_t number : {UINT64_C(5), wraps - 1, wraps + 5}) {
        Slot slot;
        put(slot, message(number, "value"));
        char copy[slot_bytes];
        const auto found = [&](uint64_t wanted) { return copy_message(copy, slot.words(), slot_bytes, slot_bytes, wanted); };
        tap::ok(found(number) == MessageState::whole, "message " + std::to_string(number) + " is whole");
        for (const uint64_t later : {wraps, 2 * wraps, wraps << 20})
            tap::ok(found(number + later) == MessageState::incomplete, "but is no message " + std::to_string(number + later));
    }
    Slot slot;
    put(slot, message(wraps - 1, "before"));
    SlotReader in(wraps - 2);
    in.use_slots(slot_bytes);
    tap::ok(in.look(slot.words(), slot_bytes, 7 * us) == MessageState::whole, "the last message before the lower half wraps");
    in.take_copy(0);
    in.consume(in.rest().size());
    tap::is(in.next(), wraps, "then comes 2^32");
    tap::ok(in.look(slot.words(), slot_bytes, 8 * us) == MessageState::absent, "which is not there yet");
    tap::is(in.incomplete_since_ns(), 0u, "and not incomplete");
    put(slot, message(0, "of another half"));
    tap::ok(in.look(slot.words(), slot_bytes, 9 * us) == MessageState::incomplete, "message 0 is no 2^32");
    tap::ok(in.look(slot.words(), slot_bytes, 12 * us) == MessageState::incomplete, "however often it is looked at");
    tap::is(in.incomplete_for_ns(13 * us), 4 * us, "incomplete since the first look");
    put(slot, message(wraps, "2^32"));
    tap::ok(in.look(slot.words(), slot_bytes, 13 * us) == MessageState::whole, "2^32 is");
    tap::is(in.incomplete_for_ns(5000 * ms), 0u, "a whole message is not incomplete, however late it is found");
    in.take_copy(0);
    tap::is(in.incomplete_since_ns(), 0u, "the next one is not incomplete yet");
}

void ledger(uint64_t before) {
    OutMessages out(before);
    tap::ok(!out.slot_free(), "without slots none is free");
    out.use_slots(4);
    for (uint32_t i = 0; i < 4; i++) {
        tap::ok(out.slot_free(), "a slot is free for message " + std::to_string(out.next()));
        out.left_in_slot();
    }
    tap::ok(!out.slot_free(), "none for the fifth");
    out.left_in_send();
    tap::ok(!out.slot_free(), "a SEND takes its number, and the next slot is in use, too");
    const auto saw = [&](uint64_t number) { return out.saw(uint32_t(before + number)); };
    tap::ok(!saw(6), "a message that was not sent cannot have been seen");
    tap::ok(saw(2) && out.slot_free(), "the slot of message 2 is free when it was seen");
    tap::ok(!saw(1), "what was seen never decreases");
    tap::is(out.seen(), before + 2, "an impossible number changes nothing");
    out.left_in_slot();
    tap::ok(!out.slot_free(), "that of message 3 is not");
    tap::ok(saw(6) && out.slot_free() && out.seen() == before + 6, "until all was seen");
    OutMessages late(before);
    late.use_slots(8);
    uint32_t stuck = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        if (!late.slot_free()) stuck++;
        late.left_in_slot();
        if (!late.saw(uint32_t(late.last()))) stuck++;
    }
    tap::is(stuck, 0u, "a ledger goes on as long as the other end does");
}

void reads_of_replies() {
    FetchPlan plan(4096, 0);
    tap::is(plan.bytes(), 256u, "the first READ takes 256 bytes");
    plan.asked(10 * us);
    const uint64_t first = plan.next_ns();
    tap::ok(first >= 10 * us && first <= 20 * us, "a READ follows a request soon");
    plan.posted(first);
    tap::is(plan.next_ns(), never_ns, "no other one meanwhile");
    plan.landed(first + 5 * us);
    tap::ok(!plan.found_none(first + 5 * us), "one READ too early changes nothing");
    const uint64_t second = plan.next_ns();
    tap::ok(second > first + 5 * us, "the next waits");
    plan.posted(second);
    plan.landed(second + 5 * us);
    tap::ok(plan.found_none(second + 5 * us), "the second in a row demands that the node sends");
    tap::ok(!plan.fetches(), "replies are sent now");
    tap::ok(plan.next_ns() != never_ns, "but a reply that is in its slot already is still READ (H1)");
    SlotHead head;
    head.length = 40;
    head.service_us = 100;
    for (int i = 0; i < 20; i++) plan.sent(head, 100 * us);
    tap::ok(!plan.fetches(), "slow service stays so");
    head.service_us = 1;
    for (uint32_t i = 0; i < FetchPlan::fast_min; i++) plan.sent(head, 100 * us);
    tap::ok(plan.fetches(), "until it was fast several times");
    plan.due(false, 100 * us);
    tap::is(plan.next_ns(), never_ns, "no READ while no reply is due");
    plan.due(true, 100 * us);
    tap::ok(plan.next_ns() != never_ns, "but as soon as one is");
    plan.posted(100 * us);
    plan.due(false, 101 * us);
    plan.due(true, 102 * us);
    plan.landed(103 * us);
    tap::ok(!plan.found_none(103 * us) && plan.next_ns() == 103 * us, "a READ for the former request says nothing about the next");
    plan.posted(103 * us);
    plan.landed(104 * us);
    tap::ok(!plan.found_none(104 * us), "whose first READ may be early");
    plan.posted(105 * us);
    plan.landed(106 * us);
    tap::ok(plan.found_none(106 * us), "and whose second one demands");
    FetchPlan learner(4096, 0);
    uint32_t early = 0, demands = 0;
    uint64_t now = 100 * us;
    constexpr uint32_t requests = 20'000, settled = 2000;
    for (uint32_t i = 0; i < requests; i++) {
        const uint64_t asked = now, ready = asked + 40 * us;  // most of it is flight, which service_us does not count
        learner.due(true, asked);
        learner.asked(asked);
        head.service_us = 1;
        for (bool found = false; !found;) {
            now = learner.next_ns();
            learner.posted(now);
            found = now >= ready;
            now += 5 * us;
            learner.landed(now);
            if (found) break;
            demands += learner.found_none(now);
            early += i >= settled;
        }
        learner.brought(head, now, /* more= */ false, asked);
        learner.due(false, now);
        if (!learner.fetches())
            for (uint32_t n = 0; n < FetchPlan::fast_min; n++) learner.sent(head, asked + 42 * us, asked);
    }
    tap::note("early READs: %.4f of the settled requests; %u demands", double(early) / (requests - settled), demands);
    tap::ok(demands <= 4, "it learns how long a reply takes, not only its service");
    tap::ok(early > 0 && early < (requests - settled) / 20, "and tries rarely whether it takes less");
    FetchPlan fixed(4096, 36);
    tap::is(fixed.bytes(), 36u, "the length can be fixed");
}

void lengths() {
    FetchPlan plan(4096, 0);
    SlotHead head;
    for (uint32_t i = 0; i < 20; i++) {
        head.length = i == 7 ? 3000 : 200;
        plan.sent(head, us);
    }
    tap::is(plan.bytes(), 256u, "one long reply of twenty does not lengthen all READs");
    for (uint32_t i = 0; i < 20; i++) {
        head.length = i % 3 == 0 ? 1000 : 10;
        plan.sent(head, us);
    }
    tap::is(plan.bytes(), 1088u, "but frequent ones do, with their heads");
}

void waking() {
    NodeAwake awake;
    tap::ok(!awake.awake(0) && awake.wake_ns() == never_ns, "at the start the node sleeps, and nothing is to be woken");
    awake.asked(1, 10 * us, /* plain= */ false);
    tap::is(awake.wake_ns(), never_ns, "a request that woke the node needs no other wake");
    awake.told(1, /* awake_us= */ 50, 40 * us);
    tap::ok(awake.awake(59 * us), "the node looks for 50 us from the request on (H3)");
    tap::ok(!awake.awake(60 * us), "and no longer");
    awake.asked(2, 50 * us, /* plain= */ true);
    const uint64_t wake = awake.wake_ns();
    tap::ok(wake != never_ns, "a plain request is followed by a wake (H2)");
    awake.woken(wake);
    tap::ok(awake.wake_ns() > wake && awake.wake_ns() != never_ns, "which repeats");
    tap::ok(!awake.awake(wake), "and the node counts as asleep");
    for (uint32_t i = 2; i < NodeAwake::wakes_max; i++) awake.woken(awake.wake_ns());
    tap::ok(awake.wake_ns() != never_ns, "several times");
    awake.woken(awake.wake_ns());
    tap::is(awake.wake_ns(), never_ns, "but not for ever");
    awake.told(2, 0, wake + us);
    tap::is(awake.wake_ns(), never_ns, "until it was seen");

    LookWindow window(200);
    tap::is(window.announce(us), 0u, "a node that knows no gap does not look");
    for (uint64_t i = 0; i < 20; i++) window.took_request(i * 10 * us);
    tap::is(window.announce(200 * us), 40u, "it looks for four gaps");
    tap::ok(window.open(240 * us) && window.open(240 * us + LookWindow::margin_ns - 1), "at least so long, and for a flight more");
    tap::ok(!window.open(240 * us + LookWindow::margin_ns), "then it sleeps");
    for (uint64_t i = 1; i < 100; i++) window.took_request(200 * us + i * ms);
    tap::is(window.announce(101 * ms), 0u, "rare requests are not worth it");
    LookWindow never(0);
    for (uint64_t i = 1; i < 20; i++) never.took_request(i * us);
    tap::is(never.announce(20 * us), 0u, "without a limit it never looks");
}

void choosing() {
    RpcChoice fixed(RpcMode::write, RpcMode::rfp);
    for (int i = 0; i < 1000; i++) fixed.measured(RpcMode::write, ms);
    tap::ok(fixed.now() == RpcMode::write && !fixed.automatic(), "a fixed way stays");
    for (const RpcMode best : {RpcMode::send, RpcMode::write, RpcMode::rfp}) {
        RpcChoice choice(RpcMode::automatic, RpcMode::rfp);
        for (uint32_t i = 0; i < 3 * RpcChoice::trial_replies; i++)
            choice.measured(choice.now(), choice.now() == best ? 5 * us : 9 * us);
        tap::is(rpc_mode_name(choice.now()), rpc_mode_name(best), "the fastest way wins: " + std::string(rpc_mode_name(best)));
        for (uint32_t i = 0; i < RpcChoice::settled_replies; i++) choice.measured(best, 5 * us);
        tap::is(rpc_mode_name(choice.now()), "send", "and is compared again later");
    }
    RpcChoice no_reads(RpcMode::automatic, RpcMode::write);
    for (uint32_t i = 0; i < 2 * RpcChoice::trial_replies; i++) no_reads.measured(no_reads.now(), us);
    tap::ok(no_reads.now() != RpcMode::rfp && no_reads.automatic(), "a way that the node does not offer is never tried");
}

// One direction: a sender with its slots, and an adversary that delivers words of WRITEs in any order, again, and late, but
// before the report that their message was seen.
struct Wire {
    struct Word {
        uint32_t slot;
        size_t at;
        uint64_t value;
    };
    const uint32_t count;
    std::vector<Slot> slots = std::vector<Slot>(count);
    std::vector<Word> flying, delivered;
    std::deque<std::string> sends;
    OutMessages out;
    SlotReader in;

    Wire(uint32_t of, uint64_t before) : count(of), out(before), in(before) {
        out.use_slots(count);
        in.use_slots(slot_bytes);
    }
    void send(const std::string& text) {
        const std::string made = message(out.next(), text);
        if (!out.slot_free() || text.size() > slot_bytes - sizeof(SlotHead)) {
            sends.push_back(made);
            return out.left_in_send();
        }
        Slot padded;
        put(padded, made);
        for (size_t at = 0; at < made.size(); at += 8) flying.push_back({out.slot(), at, padded.words()[at / 8]});
        out.left_in_slot();
    }
    void deliver(std::mt19937& random) {
        if (flying.empty()) return;
        const size_t which = random() % flying.size();
        const Word word = flying[which];
        std::memcpy(slots[word.slot].bytes + word.at, &word.value, 8);
        if (random() % 4 == 0) return;  // and once more, later
        flying[which] = flying.back();
        flying.pop_back();
    }
    // The next message, if all of it has arrived.
    bool take(std::string& text) {
        if (in.look(slots[in.next() % count].words(), slot_bytes, 0) == MessageState::whole) {
            in.take_copy(0);
            text = in.rest();
            in.consume(text.size());
            return true;
        }
        if (sends.empty()) return false;
        SlotHead head;
        std::memcpy(&head, sends.front().data(), sizeof head);
        if (head.sequence != uint32_t(in.next())) return false;
        text = sends.front().substr(sizeof head);
        sends.pop_front();
        in.take_send();
        return true;
    }
};

// Returns the number of violations.
uint32_t adversary() {
    uint32_t wrong = 0, missing = 0;
    for (uint32_t seed = 1; seed <= (broken::must_catch() ? 30 : 300); seed++) {
        std::mt19937 random(seed);
        // Slots of every count, so that some lie elsewhere for an end that counted in 32 bits.
        Wire wire(3 + seed % 4, befores[seed % std::size(befores)]);
        uint32_t sent = 0, taken = 0;
        const uint32_t all = 60;
        for (uint32_t step = 0; step < 100'000 && taken < all; step++) {
            const uint32_t what = random() % 8;
            if (what == 0 && sent < all) {
                wire.send("message " + std::to_string(++sent) + std::string(random() % 300, 'x'));
            } else if (what < 6) {
                wire.deliver(random);
            } else {
                std::string text;
                if (!wire.take(text)) continue;
                const std::string begin = "message " + std::to_string(++taken);
                if (!text.starts_with(begin) || text.find_first_not_of('x', begin.size()) != std::string::npos) wrong++;
                // A WRITE that is repeated by the device arrives before its acknowledgement, which comes before any reuse.
                if (wire.flying.empty() || random() % 2 == 0) {
                    while (!wire.flying.empty() && wire.out.seen() != wire.in.taken()) {
                        const Wire::Word word = wire.flying.back();
                        wire.flying.pop_back();
                        std::memcpy(wire.slots[word.slot].bytes + word.at, &word.value, 8);
                    }
                    if (!wire.out.saw(uint32_t(wire.in.taken()))) wrong++;
                }
            }
        }
        if (taken != all) missing++;
    }
    tap::is(wrong, 0u, "messages are taken whole and in order, however their bytes arrive");
    tap::is(missing, 0u, "and all of them");
    return wrong + missing;
}

}  // namespace

int main() {
    mixtures();
    flipped_bytes();
    old_ones();
    for (const uint64_t before : befores) ledger(before);
    reads_of_replies();
    lengths();
    waking();
    choosing();
    const uint32_t violations = adversary();
    if (broken::must_catch()) tap::ok(violations > 0, "the rule that was broken on purpose is caught");
    return tap::done();
}
