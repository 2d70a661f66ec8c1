// SPDX-License-Identifier: BSD-3-Clause
// The states of the rejoin fence (S19), as workers see them step by step. A test is the nodes and the links. fence_homes.cc has
// those of nodes that DNS finds (F9).
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/broken.h"
#include "base/check.h"
#include "protocol/owned_keys.h"
#include "t/lib/tap.h"
#include "t/unit/daemon/fence_fixture.h"

namespace {

using namespace fence_test;

void key_sets() {
    KeySet keys, more;
    tap::ok(keys.empty() && !keys.all(), "a set of keys is empty");
    keys.add("k");
    keys.add("k");
    keys.add("j");
    tap::is(keys.size(), 2u, "each key is there once");
    more.add("j");
    more.add("i");
    keys.merge(more);
    tap::ok(keys.size() == 3 && more.empty(), "it takes another's keys");
    tap::is(keys.take(2).size(), 2u, "some can be taken");
    tap::is(keys.take(2).size(), 1u, "and the rest");
    for (size_t i = 0; i < KeySet::bytes_max / KeySet::key_overhead; i++) keys.add("key" + std::to_string(i));
    tap::ok(keys.all() && keys.size() == 0 && !keys.empty(), "too many keys are all keys");
    more.add("i");
    more.merge(keys);
    tap::ok(more.all() && keys.empty(), "which another set takes, too");
    more.clear();
    more.add("i");
    tap::is(more.size(), 1u, "it is cleared");
}

void one_worker() {
    World w;
    Worker one{w, 0};
    tap::is(one.attend(), "in_use", "a node is in use");
    tap::ok(!one.unsettled, "and nothing is to be done");
    tap::is(one.lose(), "out", "it is down: its keys go elsewhere");
    w.divert("k");
    w.divert("j");
    w.divert("k");
    one.attend();
    tap::ok(one.at_a.what == What::none && !one.unsettled, "nothing is deleted while it is down");
    tap::is(one.connect(), "out", "it is back, but not in use");
    tap::ok(one.at_a.what == What::stale && !one.at_a.flush, "the keys that changed are to be deleted there");
    w.divert("i");
    tap::is(one.attend(), "out", "which is not acknowledged yet");
    tap::is(one.acknowledge(), 2u, "each of them once");
    tap::is(one.attend(), "joining", "then requests wait for it");
    tap::is(one.acknowledge(), 1u, "while the keys that changed meanwhile are deleted");
    tap::is(one.attend(), "in_use", "then it is in use");
    tap::ok(!one.guests_at_b, "and the other node takes none of its keys any more");
    one.attend();
    tap::is(one.acknowledge_guests(), 3u, "until these items are deleted there");
    one.attend();
    tap::ok(one.guests_at_b && !one.unsettled, "then it does again");
    const FenceShown shown = w.fences.shown(w.a);
    tap::ok(shown.diverted == 4 && shown.killed == 3 && shown.keys == 0 && shown.failures == 0, "all is counted");
}

void two_workers() {
    World w;
    Worker one{w, 0}, two{w, 1};
    one.attend();
    two.attend();
    tap::is(one.lose(), "leaving", "one worker lost its connection: no key goes elsewhere before");
    tap::ok(one.changed, "the other worker is woken");
    tap::is(one.attend(), "leaving", "and has stopped to use the node");
    two.busy = true;
    tap::is(two.attend(), "out", "then they do");
    tap::is(one.attend(), "out", "by both");
    w.divert("k");
    one.connect();
    tap::ok(one.at_a.what == What::none, "nothing is deleted before the other worker's earlier requests");
    two.busy = false;
    two.attend();
    one.attend();
    tap::ok((one.at_a.what == What::stale) != (two.at_a.what == What::stale), "then one of them deletes");
    Worker& deletes = one.at_a.what == What::stale ? one : two;
    Worker& other = &deletes == &one ? two : one;
    tap::is(deletes.acknowledge(), 1u, "what changed");
    tap::is(deletes.attend(), "joining", "requests wait at one worker");
    tap::is(deletes.attend(), "joining", "until the other one diverts no more");
    w.divert("j");
    tap::is(other.attend(), "joining", "it did until now");
    Worker& last = other.at_a.what == What::stale ? other : deletes;
    if (last.at_a.what == What::none) last.attend();
    tap::is(last.acknowledge(), 1u, "and that is deleted, too");
    tap::is(last.attend(), "in_use", "before the node is in use");
    tap::is(other.attend(), "in_use", "by all");

    tap::is(one.lose(), "leaving", "down again");
    w.fences.leave(1);
    tap::is(one.attend(), "out", "a worker that has ended is not waited for");
    two.lose();
    two.up = two.down = false;
    two.attend();
    one.connect();
    two.attend();
    tap::is(one.attend(), "in_use", "nor is a first connection");
}

// Kills fail, the node dies and comes back, perhaps as another incarnation with its items.
void dies_in_the_fence() {
    World w;
    Worker one{w, 0};
    one.lose();
    for (size_t i = 0; i < Kill::keys_max + 10; i++) w.divert("k" + std::to_string(i));
    one.connect();
    tap::is(one.acknowledge(/* done= */ false), Kill::keys_max, "some keys are deleted at a time, and it fails");
    tap::is(one.attend(), "out", "the node is not used");
    tap::ok(one.at_a.what == What::none, "they are deleted again later");
    w.wait();
    one.attend();
    tap::is(one.acknowledge(), Kill::keys_max, "with success");
    one.attend();
    tap::is(one.lose(), "out", "the node dies during the others");
    one.acknowledge(/* done= */ false);
    w.wait();
    one.attend();
    tap::ok(one.at_a.what == What::none, "it is not asked while it is down");
    one.connect();
    tap::is(one.acknowledge(), 10u, "what was not acknowledged is deleted when it is back");
    tap::is(one.attend(), "in_use", "then it is in use");
    tap::is(w.fences.shown(w.a).failures, 2u, "failures are counted");

    one.lose();
    w.divert("k");
    one.connect();
    w.divert("j");
    one.acknowledge();
    tap::is(one.attend(), "joining", "it joins");
    tap::is(one.lose(), "out", "it dies while it joins");
    one.acknowledge(/* done= */ false);
    w.wait();
    one.connect();
    tap::is(one.acknowledge(), 1u, "and is fenced again");
    tap::is(one.attend(), "in_use", "before it is in use");
}

void too_many() {
    World w;
    Worker one{w, 0};
    one.lose();
    w.divert_too_many(w.now_ns + 60'000 * ms);
    one.connect();
    tap::ok(one.at_a.flush && one.at_a.keys.empty(), "if too many keys changed, the node is flushed");
    one.acknowledge(/* done= */ false);
    w.wait();
    tap::is(one.attend(), "out", "a flush that fails");
    tap::ok(one.at_a.flush, "is repeated");
    one.acknowledge();
    tap::is(one.attend(), "in_use", "then the node is in use");
    tap::is(w.fences.shown(w.a).flushes, 1u, "it was flushed once");
    one.attend();
    tap::ok(!one.guests_at_b && one.at_b.what == What::none, "the other node is not flushed: its items of those keys expire");
    w.now_ns += 60'000 * ms;
    one.attend();
    tap::ok(one.guests_at_b, "then it takes such keys again");

    one.lose();
    w.divert_too_many();
    one.connect();
    one.acknowledge();
    one.attend();
    one.attend();
    tap::ok(one.at_b.flush && one.at_b.what == What::guests, "if they never expire it is flushed");
    one.acknowledge_guests();
    one.attend();
    tap::ok(one.guests_at_b, "before it takes such keys again");
}

void guests() {
    World w;
    Worker one{w, 0};
    one.lose();
    w.divert("k");
    w.fences.divert(w.a, w.b, "late", UINT64_MAX, false);
    one.connect();
    one.acknowledge();
    one.attend();
    one.attend();
    tap::ok(!one.guests_at_b && one.at_b.what == What::none, "guests are not deleted before diverted mutations are answered");
    Fences::answered(w.b);
    one.attend();
    tap::is(one.acknowledge_guests(/* done= */ false), 2u, "then they are");
    one.attend();
    tap::ok(!one.guests_at_b, "if that fails the node takes none");
    w.wait();
    one.attend();
    tap::is(one.acknowledge_guests(), 2u, "until it succeeds");
    one.attend();
    tap::ok(one.guests_at_b, "as it does");
}

void switches() {
    World w;
    Worker one{w, 0};
    one.failover = false;
    tap::is(one.lose(), "in_use", "without failover nothing is diverted");
    one.connect();
    one.failover = true;
    w.drained = true;
    tap::is(one.attend(), "out", "a drained node is out of use");
    w.divert("k");
    one.failover = false;
    one.attend();
    tap::ok(one.at_a.what == What::none, "and not fenced while it is drained");
    w.drained = false;
    one.attend();
    tap::is(one.acknowledge(), 1u, "then it is, also if failover is off by now");
    tap::is(one.attend(), "in_use", "and is in use");
}

// A guest is known once its gutter has acknowledged it, until one of the nodes changes its state.
void known_guests() {
    World w;
    Worker one{w, 0};
    tap::ok(w.fences.guest(w.a, w.b, "k").known, "while the nodes are always the same, all that another one has is known");
    w.fences.list(w.a, false, nullptr);
    one.lose();
    const Fences::Guest before = w.fences.guest(w.a, w.b, "k");
    tap::ok(!before.known, "once they were others, its item may be old");
    w.fences.know(w.a, before);
    tap::ok(w.fences.guest(w.a, w.b, "k").known && w.fences.knows(w.a, before), "unless it was stored there since");
    tap::ok(!w.fences.guest(w.a, w.b, "j").known, "which holds for its key");
    tap::ok(!w.fences.guest(w.b, w.a, "k").known, "of its node");
    w.drained = true;
    Worker both{w, 0, /* up= */ true};
    both.drained_b = true;
    both.attend();
    tap::ok(!w.fences.guest(w.a, w.b, "k").known, "until the other node is out of use, too");
    w.drained = both.drained_b = false;
    both.attend();
    tap::is(both.a, FenceState::in_use, "both are back");
    w.fences.know(w.a, before);
    tap::ok(!w.fences.knows(w.a, before), "an answer that is too late counts no more");
    one.lose();
    tap::ok(!w.fences.guest(w.a, w.b, "k").known, "nor does anything of an earlier outage");
    const Fences::Guest now = w.fences.guest(w.a, w.b, "k");
    w.fences.know(w.a, now);
    w.fences.list(w.a, false, nullptr);
    tap::ok(!w.fences.knows(w.a, now), "nor of an earlier set of nodes");
}

// F7
void another_division() {
    World w;
    Worker one{w, 0}, two{w, 1};
    for (const bool failover : {false, true}) {
        one.failover = two.failover = failover;
        const auto text = std::make_shared<const Kept>(Kept{"kept"});
        tap::ok(one.attend() == "in_use" && two.attend() == "in_use", "a node is in use");
        w.fences.list(w.a, true, text);
        tap::ok(w.fences.moves(w.a), "its keys are others");
        tap::is(one.attend(), "moving", "it is moving");
        tap::ok(one.at_a.what == What::moved && one.at_a.kept == text, "and is told what it keeps");
        tap::is(two.attend(), "moving", "for all workers");
        tap::ok(two.at_a.what == What::none, "by one of them");
        one.acknowledge(/* done= */ false);
        tap::is(one.attend(), "moving", "until it has done so");
        w.wait();
        tap::ok(one.attend() == "moving" && one.at_a.what == What::moved, "it is told again");
        w.fences.list(w.a, true, std::make_shared<const Kept>(Kept{"next"}));
        one.acknowledge();
        tap::ok(one.attend() == "moving" && one.at_a.kept->text == "next", "if its keys changed meanwhile, again");
        one.acknowledge();
        one.attend();
        tap::ok(one.at_a.what == What::stale && one.at_a.flush, "and it is flushed, as it had not answered in between");
        one.acknowledge();
        two.attend();
        tap::ok(one.attend() == "in_use" && two.attend() == "in_use" && !w.fences.moves(w.a), "then it is in use");
        w.fences.list(w.a, true, nullptr);
        tap::is(one.attend(), "moving", "a node that is new to the set is moving, too");
        two.attend();
        tap::ok(one.at_a.what == What::none && one.attend() == "in_use", "until every worker has taken the set");
        two.attend();
        w.fences.list(w.a, true, text);
        one.attend();
        if (one.at_a.what != What::none) one.acknowledge(/* done= */ false);
        two.attend();
        tap::is(one.lose(), failover ? "out" : "moving", "if it is down, it is out of use with failover alone");
        w.wait();
        one.connect();
        two.attend();
        one.attend();
        tap::ok(one.at_a.what == What::moved, "when it is back, it is told");
        one.acknowledge();
        two.attend();
        tap::is(one.attend(), "in_use", "and is in use");
    }
}

// F7: two changes, which the node receives as one.
void two_changes() {
    World w;
    Worker one{w, 0};
    one.attend();
    using Arcs = std::vector<farcached::protocol::OwnedKeys::Arc>;
    const auto kept = [](Arcs had, Arcs has) {
        farcached::protocol::KeptKeys keys;
        keys.lists.resize(2);
        keys.lists[0].arcs = std::move(had);
        keys.lists[1].arcs = std::move(has);
        return std::make_shared<const Kept>(Kept{farcached::protocol::kept_text(keys)});
    };
    w.fences.list(w.a, true, kept({{0, 99}}, {{50, 199}}));
    one.attend();
    std::shared_ptr<const Kept> next = kept({{50, 199}}, {{0, 199}});
    const JoinedChanges joined = w.fences.join_unanswered(w.a, next);
    w.fences.list(w.a, true, next, joined);
    one.acknowledge();
    tap::ok(one.attend() == "moving" && one.at_a.what == What::moved, "a node that has not answered before the next change");
    const auto both = farcached::protocol::parse_kept(one.at_a.kept->text);
    const auto wanted = farcached::protocol::parse_kept(kept({{50, 99}}, {{0, 199}})->text);
    tap::ok(both.has_value() && both == wanted, "keeps what all lists give it");
    one.acknowledge();
    tap::ok(one.attend() == "in_use" && one.at_a.what == What::none && w.fences.shown(w.a).flushes == 0, "and is not flushed");
    next = kept({{0, 99}}, {{50, 199}});
    tap::ok(w.fences.join_unanswered(w.a, next).both == nullptr, "one that has acknowledged all has nothing to join");
    w.fences.list(w.a, true, next, joined);
    one.attend();
    tap::ok(one.at_a.what == What::moved && one.at_a.kept == next, "so it receives the next change as it is");
    one.acknowledge();
    tap::ok(one.attend() == "in_use" && w.fences.shown(w.a).flushes == 0, "and is not flushed, either");
}

// F8
void refuses() {
    World w;
    Worker one{w, 0};
    one.attend();
    w.fences.send_first(w.a, std::make_shared<const Kept>(Kept{"keys", false, nullptr, true}));
    const auto refused = [&] {
        one.attend();
        const bool sent = one.at_a.what == What::moved;
        one.at_a.refused = true;
        if (sent) one.acknowledge(/* done= */ false);
        return sent;
    };
    tap::ok(w.fences.moves(w.a), "requests wait for a node that has not received the first list");
    tap::ok(refused() && w.fences.moves(w.a), "they wait if it refuses, because it may not know its own record yet");
    tap::ok(!refused(), "the list is not sent again at once");
    w.now_ns += 10 * ms;
    tap::ok(refused() && w.fences.moves(w.a), "but soon");
    w.now_ns += FirstWait::refused_wait_ns;
    tap::ok(refused() && !w.fences.moves(w.a), "they do not wait for one that goes on refusing");
    w.fences.restarted(w.a);
    w.wait();
    tap::ok(refused() && w.fences.moves(w.a), "but again for one that restarts");
    w.now_ns += FirstWait::refused_wait_ns;
    tap::ok(refused() && !w.fences.moves(w.a), "and not for longer, either");
    w.wait();
    one.attend();
    one.acknowledge();
    tap::ok(one.attend() == "in_use" && w.fences.shown(w.a).failures == 5 && !refused(), "it receives the list later");
}

void marks() {
    GuestMarks marks;
    tap::ok(!marks.has(1, 1), "nothing is marked");
    const size_t count = GuestMarks::bytes / 16;
    for (size_t i = 0; i < 2 * count; i++) marks.add(i, 7);
    tap::ok(marks.has(2 * count - 1, 7) && marks.has(count, 7), "as many marks as there is room for");
    tap::ok(!marks.has(0, 7), "displace older ones");
    marks.add(2 * count - 1, 8);
    tap::ok(marks.has(2 * count - 1, 8) && !marks.has(2 * count - 1, 7), "a later mark of a key replaces its mark");
    tap::ok(marks.has(count, 7), "and no other one");
}

void idle() {
    World w;
    Worker one{w, 0};
    one.lose();
    w.divert("k");
    one.connect();
    one.acknowledge();
    one.attend();
    one.failover = false;
    one.up_b = false;
    one.acknowledge_guests(/* done= */ false);
    one.attend();
    tap::ok(one.again_at_ns >= w.now_ns + 500 * ms && !one.unsettled, "a node that is down is not looked at all the time");
    one.up = false;
    w.drained = true;
    one.failover = true;
    one.attend();
    w.drained = false;
    one.attend();
    tap::ok(one.a == FenceState::out && one.again_at_ns >= w.now_ns + 500 * ms, "nor one that other workers have the links to");
}

// With a rule that FARCACHED_BREAK names, for t/faulty/broken_rules.py.
int run_broken() {
    World w;
    Worker one{w, 0};
    one.lose();
    w.divert("k");
    one.connect();
    tap::ok(one.a == FenceState::in_use && one.at_a.what == What::none, "a node that is used with an old item is caught");
    return tap::done();
}

}  // namespace

int main() {
    if (farcached::broken::must_catch()) return run_broken();
    key_sets();
    one_worker();
    two_workers();
    dies_in_the_fence();
    too_many();
    guests();
    switches();
    known_guests();
    another_division();
    two_changes();
    refuses();
    marks();
    idle();
    return tap::done();
}
