// SPDX-License-Identifier: BSD-3-Clause
// The serving right of a farnode by its registration in etcd, moment by moment (S17).
#include "daemon/discovery/registration_right.h"

#include <cstdint>

#include "t/lib/tap.h"

namespace {

using farcached::daemon::RegistrationRight;

constexpr uint64_t second = 1'000'000'000;
constexpr uint64_t ttl = 10 * second, silence = 5 * second;

void member() {
    RegistrationRight right(silence, /* has_items= */ false);
    tap::ok(right.reads_until_ns() == 0 && right.serves_until_ns() == 0, "before the registration there is no right");
    right.registered(100 * second, ttl);
    tap::is(right.reads_until_ns(), 100 * second + ttl - ttl / 500, "it counts from before the request, less 0.2 %");
    tap::is(right.serves_until_ns(), right.reads_until_ns(), "requests are executed as long");
    right.registered(103 * second, ttl);
    tap::is(right.reads_until_ns(), 113 * second - ttl / 500, "a keepalive extends it");
    right.lost();
    tap::ok(right.reads_until_ns() == 0 && right.serves_until_ns() == 0, "the end of the record ends it");
    right.failed(105 * second), right.failed(106 * second), right.failed(107 * second);
    tap::is(right.serves_until_ns(), 0u, "without answers it stays so");
    right.registered(108 * second, ttl);
    tap::is(right.serves_until_ns(), 118 * second - ttl / 500, "until the next registration");
    right.leaves();
    tap::is(right.serves_until_ns(), 118 * second - ttl / 500, "a node that leaves serves on");
    tap::is(right.reads_until_ns(), 0u, "and is not read");
}

void etcd_away() {
    RegistrationRight right(silence, /* has_items= */ false);
    right.registered(100 * second, ttl);
    right.failed(106 * second);
    tap::is(right.serves_until_ns(), 111 * second, "while etcd does not answer, requests go on");
    tap::is(right.reads_until_ns(), 110 * second - ttl / 500, "reads end");
    for (uint64_t at = 110; at < 200; at += 4) right.failed(at * second);
    tap::is(right.serves_until_ns(), 203 * second, "for any time");
    right.registered(210 * second, ttl);
    tap::is(right.reads_until_ns(), 220 * second - ttl / 500, "until it answers");
}

void stood_still() {
    RegistrationRight right(silence, /* has_items= */ false);
    right.registered(100 * second, ttl);
    tap::ok(right.serves_until_ns() < 110 * second, "a node that stood still until its lease was over executes nothing");
    right.failed(120 * second);
    tap::ok(right.serves_until_ns() < 120 * second, "nor after a request that the stop has broken");
    right.failed(121 * second);
    tap::is(right.serves_until_ns(), 126 * second, "but if etcd does not answer twice");
    tap::ok(right.reads_until_ns() < 110 * second, "without reads");
    right.failed(140 * second);
    tap::is(right.serves_until_ns(), 126 * second, "another stop counts by itself, also while etcd is away");
}

void start() {
    RegistrationRight fresh(silence, /* has_items= */ false), warm(silence, /* has_items= */ true);
    for (RegistrationRight* right : {&fresh, &warm}) right->failed(100 * second), right->failed(101 * second);
    tap::is(fresh.serves_until_ns(), 106 * second, "a new node serves if etcd does not answer");
    tap::is(warm.serves_until_ns(), 0u, "one with items of a former run does not");
    warm.registered(102 * second, ttl);
    warm.failed(105 * second);
    tap::is(warm.reads_until_ns(), 112 * second - ttl / 500, "before it is registered");
}

}  // namespace

int main() {
    member();
    etcd_away();
    stood_still();
    start();
    return tap::done();
}
