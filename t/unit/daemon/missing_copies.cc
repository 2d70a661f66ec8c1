// SPDX-License-Identifier: BSD-3-Clause
// MissingCopies: when keys are tried again, and how many wait.
#include <string>
#include <vector>

#include "base/check.h"
#include "daemon/engine/missing_copies.h"
#include "daemon/engine/replicas.h"
#include "t/lib/tap.h"

using namespace farcached;
using namespace farcached::daemon;

namespace {

constexpr uint64_t start_ns = 5'000'000'000;

// The time of the try after `tries` in vain, from start_ns on.
uint64_t delay_of(MissingCopies& missing, uint32_t tries) {
    missing.add("key", tries, start_ns);
    const uint64_t at_ns = missing.next_ns();
    tap::ok(missing.take_due(at_ns - 1).empty(), "not before its time");
    const std::vector<MissingCopies::Key> due = missing.take_due(at_ns);
    CHECK(due.size() == 1);
    tap::ok(due[0].key == "key" && due[0].tries == tries, "once at its time");
    tap::is(missing.next_ns(), UINT64_MAX, "then none waits");
    return at_ns - start_ns;
}

void delays() {
    MissingCopies one(1), two(2);
    uint64_t least_ns = 0, differ = 0;
    for (uint32_t tries = 0; tries < MissingCopies::tries_max; tries++) {
        const uint64_t middle = MissingCopies::first_delay_ns << (2 * tries);
        const uint64_t a = delay_of(one, tries), b = delay_of(two, tries);
        tap::ok(a >= middle / 2 && a < middle + middle / 2, "around its middle");
        differ += a != b;
        least_ns += middle / 2;
    }
    tap::is(differ, uint64_t(MissingCopies::tries_max), "two processes differ");
    tap::ok(one.add("key", MissingCopies::tries_max, start_ns) && one.next_ns() == UINT64_MAX, "then it is given up");
    tap::ok(least_ns > Replicas::hold_s * UINT64_C(1'000'000'000), "all tries together last longer than a hold");
}

void keys() {
    MissingCopies missing(3);
    for (size_t i = 0; i < MissingCopies::keys_max; i++) missing.add("key-" + std::to_string(i), 0, start_ns);
    tap::ok(!missing.add("another", 0, start_ns), "no room for one more");
    const uint64_t next_ns = missing.next_ns();
    missing.take_due(next_ns);
    tap::ok(missing.add("another", 5, start_ns), "room again");
    missing.add("another", 0, start_ns);
    size_t others = 0;
    constexpr uint64_t later_ns = start_ns + 2 * MissingCopies::first_delay_ns;
    for (const MissingCopies::Key& one : missing.take_due(later_ns)) others += one.key != "another";
    tap::ok(others >= MissingCopies::keys_max - 2, "all others are due");
    tap::ok(missing.next_ns() > later_ns, "a key that waits keeps its time");
    missing.clear();
    tap::is(missing.next_ns(), UINT64_MAX, "cleared: none waits");
    tap::ok(missing.take_due(UINT64_MAX - 1).empty(), "and none is due");
}

}  // namespace

int main() {
    delays();
    keys();
    return tap::done();
}
