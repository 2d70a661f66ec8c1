// SPDX-License-Identifier: BSD-3-Clause
// MissingCopies: when keys are tried again, how many at a time, and when they are given up.
#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "daemon/steps/missing_copies.h"
#include "daemon/steps/replicas.h"
#include "t/lib/tap.h"

using namespace farcached;
using namespace farcached::daemon;

namespace {

constexpr uint64_t start_ns = 5'000'000'000;

// Makes the next try, at its time.
MissingCopies::Try next_try(MissingCopies& missing, uint64_t& now_ns) {
    CHECK(missing.next_ns() != UINT64_MAX);
    now_ns = missing.next_ns();
    CHECK(missing.take_due(now_ns - 1).empty());
    const std::vector<MissingCopies::Try> due = missing.take_due(now_ns);
    CHECK(due.size() == 1);
    return due[0];
}

// The times of all tries until the key is given up.
std::vector<uint64_t> all_tries(uint64_t seed) {
    MissingCopies missing(seed);
    missing.lost("key", start_ns);
    std::vector<uint64_t> times;
    uint64_t now_ns = start_ns;
    while (missing.next_ns() != UINT64_MAX && times.size() < 1000) {
        const MissingCopies::Try one = next_try(missing, now_ns);
        times.push_back(now_ns);
        missing.done(one.number, /* has_copy= */ false, now_ns);
    }
    return times;
}

void delays() {
    const std::vector<uint64_t> times = all_tries(1);
    uint64_t before = start_ns, middle = MissingCopies::first_delay_ns, bad = 0;
    for (const uint64_t at : times) {
        bad += at - before < middle / 2 || at - before >= middle + middle / 2;
        before = at;
        middle = std::min(4 * middle, MissingCopies::delay_ns_max);
    }
    tap::is(bad, 0u, "each delay is around four times the one before, up to five seconds");
    tap::ok(times != all_tries(2), "two processes differ");
    tap::ok(before - start_ns > Replicas::hold_s * UINT64_C(1'000'000'000), "the last try comes after the end of any hold");
    tap::ok(times.size() < 400, "then the key is given up");
}

void successes() {
    MissingCopies missing(3);
    uint64_t now_ns = start_ns;
    missing.lost("key", now_ns);
    missing.done(next_try(missing, now_ns).number, /* has_copy= */ true, now_ns);
    tap::is(missing.next_ns(), UINT64_MAX, "a key with its copy is no longer looked for");
    missing.lost("key", now_ns);
    const MissingCopies::Try one = next_try(missing, now_ns);
    tap::is(one.key, "key", "it can lose the copy again");
    tap::ok(missing.found("key", now_ns + 1) && missing.next_ns() == UINT64_MAX, "while a try is under way no other begins");
    missing.lost("key", now_ns + 1);
    missing.done(one.number, /* has_copy= */ true, now_ns + 2);
    tap::ok(missing.next_ns() != UINT64_MAX, "if the copy was lost during the try, another one follows");
    missing.done(one.number, /* has_copy= */ true, now_ns + 3);
    tap::is(next_try(missing, now_ns).key, "key", "a try ends once");
}

void bounds() {
    MissingCopies missing(4);
    for (size_t i = 0; i < MissingCopies::keys_max; i++) missing.lost("key-" + std::to_string(i), start_ns);
    tap::ok(!missing.lost("another", start_ns) && !missing.found("another", start_ns), "no room for one more");
    tap::ok(missing.lost("key-7", start_ns), "but for a known one");
    const uint64_t later_ns = start_ns + 2 * MissingCopies::first_delay_ns;
    const std::vector<MissingCopies::Try> due = missing.take_due(later_ns);
    tap::is(due.size(), MissingCopies::under_way_max, "so many tries at a time");
    tap::is(missing.next_ns(), UINT64_MAX, "the next one waits for the end of one");
    missing.done(due[0].number, /* has_copy= */ true, later_ns);
    tap::ok(missing.next_ns() <= later_ns && missing.take_due(later_ns).size() == 1, "and begins then");
    tap::ok(missing.lost("another", start_ns), "there is room again");
    missing.clear();
    missing.done(due[1].number, /* has_copy= */ false, later_ns);
    tap::is(missing.next_ns(), UINT64_MAX, "cleared: none waits");
}

}  // namespace

int main() {
    delays();
    successes();
    bounds();
    return tap::done();
}
