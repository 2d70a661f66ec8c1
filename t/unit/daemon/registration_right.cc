// SPDX-License-Identifier: BSD-3-Clause
// The serving right of a farnode by its registration in etcd, moment by moment (S17), and the lists that it has not received.
#include "daemon/discovery/registration_right.h"

#include <cstdint>

#include "daemon/farnode/unsent_lists.h"
#include "t/lib/tap.h"

namespace {

using farcached::daemon::RegistrationRight;

constexpr uint64_t second = 1'000'000'000, ms = second / 1000;
constexpr uint64_t ttl = 10 * second, rate_error = ttl / 500;

// The process runs, as its thread shows.
void runs(RegistrationRight& right, uint64_t from_ns, uint64_t to_ns) {
    for (uint64_t at = from_ns; at <= to_ns; at += 200 * ms) right.runs(at);
}

void member() {
    RegistrationRight right(/* has_items= */ false);
    tap::ok(right.reads_until_ns() == 0 && right.serves_until_ns() == 0, "before the registration there is no right");
    runs(right, 98 * second, 99 * second);
    tap::is(right.serves_until_ns(), 0u, "by itself it does not begin");
    right.registered(100 * second, ttl);
    tap::is(right.reads_until_ns(), 110 * second - rate_error, "it counts from before the request, less 0.2 %");
    tap::is(right.serves_until_ns(), right.reads_until_ns(), "requests are executed as long");
    right.registered(103 * second, ttl);
    tap::is(right.reads_until_ns(), 113 * second - rate_error, "a keepalive extends it");
    right.lost();
    tap::ok(right.reads_until_ns() == 0 && right.serves_until_ns() == 0, "the end of the record ends it");
    runs(right, 104 * second, 108 * second);
    tap::is(right.serves_until_ns(), 0u, "for any time");
    right.registered(108 * second, ttl);
    tap::is(right.serves_until_ns(), 118 * second - rate_error, "until the next registration");
    right.leaves();
    runs(right, 108 * second, 109 * second);
    tap::is(right.serves_until_ns(), 118 * second - rate_error, "a node that leaves serves on");
    tap::is(right.reads_until_ns(), 0u, "and is not read");
}

void etcd_away() {
    RegistrationRight right(/* has_items= */ false);
    right.registered(100 * second, ttl);
    right.failed(106 * second);
    runs(right, 106 * second, 109'900 * ms);
    tap::ok(right.serves_until_ns() > 110 * second, "while etcd does not answer, requests go on");
    tap::is(right.reads_until_ns(), 110 * second - rate_error, "reads end");
    for (uint64_t at = 110; at < 200; at += 4) {
        runs(right, (at - 4) * second, at * second);
        right.failed(at * second);
    }
    tap::is(right.serves_until_ns(), 199 * second, "for any time");
    tap::ok(!right.served_unregistered(), "as a node that was registered");
    right.registered(210 * second, ttl);
    tap::is(right.reads_until_ns(), 220 * second - rate_error, "until it answers");
}

void strict() {
    RegistrationRight right(/* has_items= */ false, /* strict= */ true);
    right.failed(90 * second);
    right.failed(94 * second);
    runs(right, 90 * second, 99 * second);
    tap::is(right.serves_until_ns(), 0u, "strict: silence before the registration gives no right");
    right.registered(100 * second, ttl);
    for (uint64_t at = 102; at < 120; at += 2) {
        runs(right, (at - 2) * second, at * second);
        right.failed(at * second);
    }
    tap::is(right.serves_until_ns(), 110 * second - rate_error, "requests end with the right to be read");
    right.registered(120 * second, ttl);
    tap::is(right.serves_until_ns(), 130 * second - rate_error, "and go on with the next answer");
    right.leaves();
    tap::is(right.serves_until_ns(), 0u, "a node that leaves serves no more");
}

// For statistics.
void silence() {
    RegistrationRight right(/* has_items= */ true, /* strict= */ true);
    tap::ok(!right.is_silent(100 * second), "before the first request etcd is not silent");
    right.failed(100 * second);
    tap::ok(right.is_silent(100 * second) && right.is_silent(130 * second), "after one without an answer it is");
    right.failed(140 * second);
    tap::ok(right.is_silent(190 * second), "and after the next one");
    tap::ok(!right.is_silent(200 * second), "until none fails");
    right.failed(210 * second);
    right.refused();
    tap::ok(!right.is_silent(211 * second), "a refusal is no silence");
    right.failed(212 * second);
    right.registered(213 * second, ttl);
    tap::ok(!right.is_silent(213 * second), "nor is a registration");
    right.failed(214 * second);
    right.lost();
    tap::ok(!right.is_silent(215 * second), "nor the loss of one, which etcd told");
}

// A request to etcd may take longer than the lease: to several endpoints, each with an authentication.
void slow_requests() {
    RegistrationRight right(/* has_items= */ false);
    right.registered(100 * second, 2 * second);
    runs(right, 100 * second, 108 * second);
    tap::is(right.serves_until_ns(), 109 * second, "requests go on while one to etcd is not answered");
    right.failed(108 * second);
    tap::is(right.serves_until_ns(), 109 * second, "and afterwards");
}

void stood_still() {
    RegistrationRight right(/* has_items= */ false);
    right.registered(100 * second, ttl);
    runs(right, 100 * second, 101 * second);
    tap::ok(right.serves_until_ns() < 110 * second, "a node that stood still until its lease was over executes nothing");
    right.runs(115 * second);
    tap::ok(right.serves_until_ns() < 110 * second, "also when it goes on");
    right.failed(120 * second);
    tap::ok(right.serves_until_ns() < 120 * second, "nor after a request that the stop has broken");
    right.runs(120'200 * ms);
    right.failed(121 * second);
    tap::is(right.serves_until_ns(), 122 * second, "but if etcd does not answer twice");
    tap::ok(right.reads_until_ns() < 110 * second, "without reads");
    runs(right, 121 * second, 125 * second);
    tap::is(right.serves_until_ns(), 126 * second, "for as long as it runs");
    right.failed(140 * second);
    tap::is(right.serves_until_ns(), 126 * second, "another stop counts by itself, also while etcd is away");

    RegistrationRight after_one(/* has_items= */ false);
    after_one.registered(100 * second, ttl);
    after_one.failed(106 * second);
    tap::ok(after_one.serves_until_ns() < 110 * second, "a stop after a request without an answer is not different");
    after_one.runs(115 * second);
    tap::ok(after_one.serves_until_ns() < 110 * second, "when it goes on");
}

void refused() {
    RegistrationRight right(/* has_items= */ false);
    right.registered(100 * second, ttl);
    right.failed(106 * second);
    right.refused();
    runs(right, 106 * second, 109'900 * ms);
    tap::is(right.serves_until_ns(), 110 * second - rate_error, "a refusal is no silence: requests end with the lease");
    right.failed(111 * second), right.refused(), right.failed(112 * second);
    tap::ok(right.serves_until_ns() < 111 * second, "nor does it count as one of two");
    right.failed(113 * second);
    tap::is(right.serves_until_ns(), 114 * second, "two requests without an answer do");
    right.refused();
    tap::ok(right.serves_until_ns() < 111 * second, "until etcd answers");
    right.registered(115 * second, ttl);
    tap::is(right.serves_until_ns(), 125 * second - rate_error, "or the node is registered");
}

// The end of the registration was seen; then etcd does not answer.
void lost() {
    RegistrationRight right(/* has_items= */ false);
    right.registered(100 * second, ttl);
    right.lost();
    right.failed(105 * second);
    tap::ok(!right.must_drop(), "one request without an answer");
    right.failed(106 * second);
    tap::ok(right.must_drop() && right.serves_until_ns() == 0, "after the second one the items must go");
    right.lost(), right.dropped();
    right.failed(107 * second);
    tap::is(right.serves_until_ns(), 0u, "without items it begins anew");
    right.failed(108 * second);
    tap::is(right.serves_until_ns(), 109 * second, "as a new node");
    tap::ok(right.served_unregistered(), "whose new items are of no registration");
    right.lost();
    tap::ok(!right.served_unregistered() && right.serves_until_ns() == 0, "before they are dropped, no request is executed");
    right.dropped();
    runs(right, 109 * second, 110 * second);
    tap::is(right.serves_until_ns(), 0u, "nor until it is registered");
    right.registered(110 * second, ttl);
    tap::ok(right.serves_until_ns() > 119 * second && !right.served_unregistered(), "then they are");
}

void start() {
    RegistrationRight fresh(/* has_items= */ false), warm(/* has_items= */ true);
    for (RegistrationRight* right : {&fresh, &warm}) right->failed(100 * second), right->failed(101 * second);
    tap::is(fresh.serves_until_ns(), 102 * second, "a new node serves if etcd does not answer");
    tap::ok(fresh.served_unregistered(), "without a registration");
    tap::is(warm.serves_until_ns(), 0u, "one with items of a former run does not");
    tap::ok(!warm.must_drop(), "and keeps them");
    warm.registered(102 * second, ttl);
    warm.failed(105 * second);
    tap::is(warm.reads_until_ns(), 112 * second - rate_error, "before it is registered");
}

void unsent_lists() {
    using farcached::node::UnsentLists;
    constexpr uint64_t any = UINT64_MAX;  // another node has received all lists
    UnsentLists lists;
    tap::is(lists.newest(0, any), 0u, "without changes no list is missing");
    for (uint64_t revision : {20, 20, 30}) lists.changed(revision);
    tap::is(lists.newest(10, 0), 0u, "nor if no other node has received one");
    tap::ok(lists.newest(10, 19) == 0 && lists.newest(10, 20) == 20 && lists.newest(10, 29) == 20 && lists.newest(10, any) == 30,
            "another node has received a list with that change");
    tap::ok(lists.newest(30, any) == 0 && lists.newest(29, any) == 30, "this one has, too");
    for (uint64_t i = 0; i < 2 * UnsentLists::changes_max; i++) lists.changed(40 + i);
    const uint64_t last = 39 + 2 * UnsentLists::changes_max;
    tap::ok(lists.newest(39, any) == last && lists.newest(39, last - 1) < last, "the last of many are one");
    lists.changed(5);
    tap::ok(lists.newest(1000, any) == 0 && lists.newest(0, any) == 5, "a lower revision ends the earlier changes");
}

}  // namespace

int main() {
    unsent_lists();
    member();
    etcd_away();
    strict();
    silence();
    slow_requests();
    stood_still();
    refused();
    lost();
    start();
    return tap::done();
}
