// SPDX-License-Identifier: BSD-3-Clause
// The process whose items are used, of a node that DNS finds (S19; Fences, F9), as workers see it step by step; then histories by
// chance.
#include <cstdint>
#include <string>

#include "base/broken.h"
#include "daemon/engine/followed_fence.h"
#include "t/lib/tap.h"
#include "t/unit/daemon/fence_fixture.h"
#include "t/unit/daemon/fence_histories.h"

namespace {

using namespace fence_test;

// Addresses.
constexpr uint64_t first = 1, second = 2, third = 3;

bool deletes_all(const Worker& worker) { return worker.at_a.what == What::moved && worker.at_a.kept->nothing; }

// Two workers with connections to a node, without failover.
struct Pair {
    World w;
    Worker one{w, 0}, two{w, 1};

    explicit Pair(uint64_t process = 7, uint64_t at = first) {
        one.failover = two.failover = false;
        one.up = two.up = false;
        attend();
        if (process == 0) return;
        one.come_up(process, at);
        two.come_up(process, at);
        attend();
    }
    void attend() {
        for (Worker* worker : {&one, &two, &one}) worker->attend();
    }
    // Both workers take a set with other addresses.
    void renew() {
        w.fences.renew(w.a);
        for (Worker* worker : {&one, &two}) {
            worker->up = worker->down = worker->held = false;
            worker->renewal++;
        }
    }
    // All deletes are done.
    void settle() {
        for (int i = 0; i < 4; i++) {
            w.wait();
            attend();
            for (Worker* worker : {&one, &two})
                if (worker->at_a.what != What::none) worker->acknowledge();
        }
        attend();
    }
    bool both_use() const { return one.uses() && two.uses(); }
    bool none_uses() const { return !one.uses() && !two.uses(); }
    bool nothing_to_delete() const { return one.at_a.what == What::none && two.at_a.what == What::none; }
};

void another_address() {
    Pair same;
    tap::ok(same.both_use() && same.nothing_to_delete(), "the first process is used as it is");
    same.w.fences.renew(same.w.a);
    tap::is(same.one.attend(), "joining", "its address has gone: requests wait");
    same.attend();
    tap::ok(same.none_uses() && same.nothing_to_delete(), "the former connections are not used any more");
    tap::ok(!same.w.fences.home_address(same.w.a).is_up, "and do not count");
    same.renew();
    same.one.renewal = same.two.renewal = 2;
    tap::is(same.one.attend(), "joining", "they are to be replaced");
    same.two.attend();
    tap::is(same.one.attend(), "in_use", "by every worker");
    same.one.come_up(7, second);
    tap::ok(same.none_uses(), "a connection is not used before the worker attends");
    same.two.come_up(7, second);
    same.attend();
    tap::ok(same.both_use() && same.nothing_to_delete(), "the same process elsewhere is used as it is");

    Pair other;
    other.renew();
    other.attend();
    other.one.come_up(8, second);
    tap::is(other.one.attend(), "joining", "another process elsewhere is not used");
    tap::ok(deletes_all(other.one), "before it has deleted all items");
    other.two.come_up(8, second);
    tap::is(other.two.attend(), "joining", "by any worker");
    other.one.acknowledge(/* done= */ false);
    other.w.wait();
    other.one.attend();
    tap::ok(other.none_uses() && deletes_all(other.one), "if that fails it is repeated");
    other.one.acknowledge();
    other.attend();
    tap::ok(other.both_use(), "then it is used");
}

// A process restarts at the address of home.
void in_place() {
    Pair both;
    both.one.end();
    both.one.come_up(9, first);
    both.attend();
    tap::ok(both.one.uses() && both.nothing_to_delete(), "a node that restarts at its address is used as one of a static list");
    tap::ok(both.w.fences.home_address(both.w.a).is_up && both.two.ends && !both.two.uses(),
            "a worker that has not noticed ends its connection");
    both.one.attend();
    tap::ok(both.one.uses() && !both.one.ends, "the other one goes on");
    both.two.end();
    both.two.attend();
    both.two.come_up(9, first);
    both.attend();
    tap::ok(both.both_use() && both.nothing_to_delete(), "nor when it has");

    Pair left;
    left.one.end();
    left.two.end();
    left.attend();
    left.w.fences.readdress(left.w.a, [](uint64_t at) { return at == second; });
    left.w.fences.readdress(left.w.a, [](uint64_t at) { return at == first; });
    left.one.come_up(9, first);
    left.one.attend();
    tap::ok(left.none_uses() && deletes_all(left.one), "if the address had left the list, the process there deletes its items");

    Pair apart;
    apart.two.end();
    apart.two.attend();
    apart.two.come_up(7, second);
    apart.two.attend();
    tap::ok(apart.both_use() && apart.nothing_to_delete(), "one process at two addresses");
    apart.one.end();
    apart.one.come_up(9, first);
    apart.attend();
    tap::ok(apart.none_uses() && apart.one.elsewhere, "another process at one of them is not used beside it");
    apart.two.end();
    apart.attend();
    tap::ok(apart.none_uses() && deletes_all(apart.one), "nor later, before it has deleted its items");

    Pair back;
    back.one.end();
    back.attend();
    back.one.come_up(7, second);
    back.attend();
    back.two.end();
    back.attend();
    back.two.come_up(7, first);
    back.attend();
    back.two.end();
    back.two.come_up(9, first);
    back.attend();
    tap::ok(back.none_uses() && back.two.elsewhere, "nor at the latest of its addresses");
}

// An address leads to another process, and the former one goes on to answer where it had connections.
void address_of_two() {
    Pair pair;
    pair.one.end();
    pair.attend();
    pair.one.come_up(8, first);
    tap::is(pair.one.attend(), "joining", "another process at home's address: requests wait for all workers");
    tap::ok(pair.two.uses(), "one of which has a connection to the former one");
    pair.two.attend();
    tap::ok(!pair.two.uses() && pair.two.ends, "it ends that");
    pair.two.end();
    pair.attend();
    tap::ok(pair.one.uses() && pair.nothing_to_delete(), "and the present one is used");
    pair.one.end();
    pair.attend();
    pair.one.come_up(7, first);
    pair.one.attend();
    tap::ok(pair.none_uses() && deletes_all(pair.one) && pair.one.back, "the former one is back: it deletes its items");
    pair.settle();
    tap::ok(pair.one.uses(), "then it is used");

    Pair loose;
    loose.one.end();
    loose.attend();
    loose.one.come_up(8, second);
    loose.attend();
    tap::ok(loose.none_uses() && loose.one.elsewhere && loose.one.two && loose.two.two, "both workers know that there are two");
    loose.two.end();
    loose.two.come_up(7, second);
    loose.two.attend();
    tap::ok(!loose.one.uses(), "home is at the other one's address by now");
    loose.one.attend();
    tap::ok(!loose.one.uses() && loose.one.ends, "a connection from before is ended, and not used");
}

void followed() {
    FollowedFence fence;
    Fences::Seen seen;
    tap::ok(!fence.follow(seen, 1) && fence.is_used() && fence.takes_keys(), "a worker follows: nothing has changed");
    tap::ok(fence.hold() && !fence.is_used() && fence.is_elsewhere() && fence.takes_keys(), "a new connection: requests wait");
    seen.state = FenceState::joining;
    seen.elsewhere = seen.two = true;
    tap::ok(!fence.follow(seen, 1) && fence.takes_keys() && !fence.report_two_processes(), "two processes: requests wait");
    (void)fence.follow(seen, 1 + FollowedFence::two_processes_ns);
    tap::ok(!fence.takes_keys() && fence.report_two_processes(), "for some time: they fail, and the log has it");
    (void)fence.follow(seen, 2 + FollowedFence::two_processes_ns);
    tap::ok(!fence.takes_keys() && !fence.report_two_processes(), "once");
    seen.elsewhere = seen.two = false;
    seen.former = true;
    tap::ok(!fence.follow(seen, UINT64_MAX - 1) && fence.takes_keys() && fence.is_used(), "a link to be replaced is in use");
    tap::ok(!fence.hold() && !fence.is_used(), "but not a new connection");
}

// A connection proves nothing before its worker attends (F9).
void before_the_worker_attends() {
    Pair beside;
    beside.renew();
    beside.attend();
    beside.one.come_up(8, second);
    beside.two.come_up(8, second);
    tap::ok(beside.none_uses(), "two connections to one new address: neither is used before its worker attends");
    beside.attend();
    tap::ok(beside.none_uses() && (deletes_all(beside.one) || deletes_all(beside.two)), "the process deletes its items");
    beside.settle();
    tap::ok(beside.both_use(), "then both are used");

    Pair again;
    again.renew();
    again.attend();
    again.one.come_up(8, second);
    again.one.end();
    again.one.come_up(8, second);
    again.one.attend();
    tap::ok(again.none_uses() && deletes_all(again.one), "a connection that ends, and is there again, proves nothing");

    Pair taken;
    taken.w.fences.renew(taken.w.a);
    taken.two.end();
    taken.two.come_up(8, second);
    taken.attend();
    tap::ok(taken.none_uses(), "a link of the former set comes up at the new address: it is not used");
    taken.one.renewal = taken.two.renewal = 1;
    taken.one.up = taken.two.up = false;
    taken.attend();
    taken.two.come_up(8, second);
    taken.two.attend();
    tap::ok(taken.none_uses() && deletes_all(taken.two), "and is replaced: that process deletes its items all the same");
}

void two_processes() {
    for (const bool home_dies : {true, false}) {
        const std::string title = home_dies ? "the one in use ends: " : "the other one ends: ";
        Pair both;
        both.one.end();
        both.attend();
        both.one.come_up(8, second);
        tap::ok(both.two.uses() && !both.one.uses(), title + "a worker is connected to another process");
        both.two.attend();
        both.one.attend();
        both.attend();
        tap::ok(both.none_uses() && both.one.elsewhere && !both.two.elsewhere, title + "neither is used");
        both.settle();
        tap::ok(both.none_uses() && both.nothing_to_delete(), title + "for as long as both are there");
        tap::ok(both.w.fences.home_address(both.w.a).at == first, title + "others are to connect to the one in use");
        if (!home_dies) {
            both.one.end();
            both.attend();
            tap::ok(both.two.uses() && both.nothing_to_delete(), title + "the one in use goes on with its items");
            both.one.come_up(7, first);
            both.attend();
            tap::ok(both.both_use() && both.nothing_to_delete(), title + "at the other worker, too");
            continue;
        }
        both.two.end();
        both.two.come_up(8, second);
        both.attend();
        tap::ok(both.none_uses() && (deletes_all(both.one) || deletes_all(both.two)), title + "the other one deletes its items");
        both.settle();
        tap::ok(both.both_use(), title + "then it is used");
    }
}

// A worker that came up elsewhere attends after the node was put in use.
void comes_up_elsewhere() {
    Pair pair;
    pair.renew();
    pair.attend();
    pair.two.come_up(9, third);
    pair.one.come_up(8, second);
    pair.one.attend();
    pair.one.acknowledge();
    pair.one.attend();
    tap::ok(!pair.two.uses(), "the connection to a third process is not used");
    pair.two.attend();
    pair.attend();
    tap::ok(pair.none_uses() && pair.two.elsewhere, "two processes: neither is used");
    pair.two.end();
    pair.attend();
    pair.two.come_up(8, second);
    pair.settle();
    tap::ok(pair.both_use(), "until there is one");
}

void never_used() {
    Pair pair(/* process= */ 0);
    pair.renew();
    tap::is(pair.one.attend(), "joining", "other addresses before the first connection: all workers take them first");
    pair.attend();
    pair.one.come_up(7, second);
    pair.one.attend();
    tap::ok(pair.one.uses() && pair.nothing_to_delete(), "then the first process is used as it is");
    Pair two(/* process= */ 0);
    two.one.come_up(7, first);
    two.two.come_up(8, second);
    two.attend();
    tap::ok(two.none_uses() && two.two.elsewhere && two.nothing_to_delete(), "if two are there, neither is used");
}

// The next connection is made where home is.
void address_of_home() {
    Pair pair;
    pair.two.end();
    pair.attend();
    pair.two.come_up(7, third);
    pair.attend();
    tap::is(pair.w.fences.home_address(pair.w.a).at, third, "the latest connection shows the address");
    pair.w.fences.readdress(pair.w.a, [](uint64_t at) { return at == first || at == second; });
    tap::is(pair.w.fences.home_address(pair.w.a).at, first, "if that has gone, one that stays does");
    Pair ends;
    ends.two.end();
    ends.attend();
    ends.two.come_up(7, third);
    ends.attend();
    ends.two.end();
    ends.attend();
    tap::is(ends.w.fences.home_address(ends.w.a).at, first, "if that connection has ended, one that is up does");
    ends.one.end();
    ends.attend();
    tap::ok(!ends.w.fences.home_address(ends.w.a).is_up, "and none is up at last");
}

// Another process while the node is out of use: the deletes of the fence come, too.
void another_address_while_out() {
    World w;
    Worker one{w, 0};
    one.come_up(7, first);
    one.attend();
    tap::is(one.lose(), "out", "a node is out of use");
    w.divert("k");
    one.come_up(8, second);
    one.attend();
    tap::ok(one.a == FenceState::out && deletes_all(one), "another process answers: all items are deleted first");
    one.acknowledge();
    one.attend();
    tap::ok(one.a == FenceState::out && one.at_a.what == What::stale, "and keys that were changed elsewhere");
    one.acknowledge();
    one.attend();
    tap::ok(one.uses(), "then it is used");
}

void histories() {
    for (const bool failover : {false, true}) {
        const std::string title = failover ? "with failover: " : "without failover: ";
        const Histories all = run_histories(failover);
        tap::is(all.first_old, 0u, title + "no history has a read of an old item");
        tap::is(all.first_stuck, 0u, title + "each ends with the node in use, once it is one process");
        tap::ok(all.hits > 1000 && all.kept > (failover ? 0 : 100) && all.deletes > 1000,
                title + "items are read, kept by restarts and deleted");
        tap::note("%llu hits, %llu of restarted processes, %llu deletes", (unsigned long long)all.hits,
                  (unsigned long long)all.kept, (unsigned long long)all.deletes);
        tap::ok(run_histories(failover, /* waits= */ false).first_old != 0,
                title + "a worker that uses a connection before it attends reads an old item");
    }
}

// With a rule that FARCACHED_BREAK names, for t/faulty/broken_rules.py.
int run_broken() {
    for (const bool failover : {false, true})
        tap::ok(run_histories(failover).first_old != 0, "a read of another process's old item is caught");
    return tap::done();
}

}  // namespace

int main() {
    if (farcached::broken::must_catch()) return run_broken();
    another_address();
    in_place();
    address_of_two();
    followed();
    before_the_worker_attends();
    two_processes();
    comes_up_elsewhere();
    never_used();
    address_of_home();
    another_address_while_out();
    histories();
    return tap::done();
}
