// SPDX-License-Identifier: BSD-3-Clause
// The cas uniques of nodes in a fleet (CasUniques::next()): what a node issues is above all that another one has issued before.
// Built again with S20_UNIQUES broken (t/faulty/broken_rules.py), it must see that they are not.
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/broken.h"
#include "base/check.h"
#include "base/node_clock.h"
#include "node/store/node.h"
#include "t/lib/tap.h"
#include "t/unit/node/restart_fixture.h"

using namespace farcached;
using namespace farcached::node;
using namespace farcached::node::restart_tests;

namespace {

Config by_clock(uint64_t above = 0) {
    Config config = small();
    config.cas_above = above;
    config.cas_by_clock = true;
    return config;
}

// The largest and the smallest unique of some sets of many keys.
struct Issued {
    uint64_t most = 0, least = UINT64_MAX;
};
Issued issued(Node& node, int sets) {
    Issued found;
    for (int i = 0; i < sets; i++) {
        const uint64_t cas = set(node, "k" + std::to_string(i % 64), "v");
        found = {std::max(found.most, cas), std::min(found.least, cas)};
    }
    return found;
}

uint64_t count_lower() {
    Node first(by_clock()), second(by_clock());
    uint64_t lower = 0, last = 0;
    for (int turn = 0; turn < 20; turn++) {
        Node& node = turn % 2 == 0 ? first : second;
        const Issued found = issued(node, turn % 3 == 0 ? 1 : 200);
        lower += found.least <= last;
        last = found.most;
        const uint64_t until_us = realtime_us() + 2000;  // as long as it takes to change the list of nodes
        while (realtime_us() < until_us) {
        }
    }
    return lower;
}

void in_a_run() {
    Node node(by_clock());
    const uint64_t before = realtime_us(), cas = set(node, "k", "v"), after = realtime_us();
    tap::ok(cas + 1000 > before && cas < after + 1000, "a unique is about the time of day in microseconds");
    tap::ok(set(node, "k", "v") > cas, "and the next one is larger");
    Node ahead(by_clock(after + 3'600'000'000));
    const uint64_t first = set(ahead, "k", "v");
    tap::ok(first > after + 3'600'000'000 && set(ahead, "k", "v") > first, "a node whose uniques are ahead goes on with them");
    Config config = by_clock();
    config.cas = false;
    Node without(config);
    tap::is(set(without, "k", "v"), uint64_t{0}, "without uniques there is no time");
    Config alone = small();
    Node counts(alone);
    tap::ok(set(counts, "k", "v") < 1'000'000, "a node alone counts");
}

void over_a_restart() {
    Folder folder;
    uint64_t before = 0;
    {
        Run run(folder.file());
        before = set(*run.node, "k", "v");
        run.stop();
    }
    Run run(folder.file());
    tap::ok(set(*run.node, "k", "v") > before, "after a restart uniques go on");
}

}  // namespace

int main() {
    const uint64_t lower = count_lower();
    if (broken::must_catch()) {
        tap::ok(lower != 0, "the rule that was broken on purpose is caught");
        return tap::done();
    }
    tap::is(lower, uint64_t{0}, "no node issues a unique below one that another has issued before");
    in_a_run();
    over_a_restart();
    return tap::done();
}
