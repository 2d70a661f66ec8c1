// SPDX-License-Identifier: BSD-3-Clause
// The cas uniques that a node leaves out when the list of nodes changes (Node::raise_cas()). Built again with S20_UNIQUES broken
// (t/faulty/broken_rules.py), it must see that a partition leaves out none.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "base/broken.h"
#include "base/check.h"
#include "node/store/node.h"
#include "t/lib/tap.h"
#include "t/unit/node/restart_fixture.h"

using namespace farcached;
using namespace farcached::node;
using namespace farcached::node::restart_tests;

namespace {

constexpr uint32_t partitions = 4;  // of small()
constexpr uint64_t skipped = (UINT64_C(1) << 20) * partitions;

using Keys = std::array<std::string, partitions>;
using Uniques = std::array<uint64_t, partitions>;

// A key of each partition. The remainder of a unique is its partition's number.
Keys keys_of(Node& node) {
    Keys keys;
    for (int i = 0; i < 1000; i++) {
        const std::string key = "k" + std::to_string(i);
        keys[set(node, key, "v") % partitions] = key;
    }
    for (const std::string& key : keys) CHECK(!key.empty());
    return keys;
}

// Of one set of each key.
Uniques issued(Node& node, const Keys& keys) {
    Uniques found{};
    for (uint32_t i = 0; i < partitions; i++) found[i] = set(node, keys[i], "v");
    return found;
}

// The number of partitions whose unique is above the earlier one by more than `least`.
uint32_t above(const Uniques& later, const Uniques& earlier, uint64_t least) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < partitions; i++) count += later[i] > earlier[i] + least;
    return count;
}

uint64_t beyond(const Uniques& uniques) { return *std::ranges::max_element(uniques) + skipped + partitions; }

Config started_late() {
    Config config = small();
    config.cas_above = UINT64_C(1'700'000'000'000'000);
    return config;
}

uint32_t partitions_that_skip() {
    Node node(started_late());
    const Keys keys = keys_of(node);
    const Uniques before = issued(node, keys);
    node.raise_cas(beyond(before));
    return above(issued(node, keys), before, skipped);
}

void in_a_run() {
    Node node(started_late());
    const Keys keys = keys_of(node);
    const Uniques first = issued(node, keys), second = issued(node, keys);
    tap::ok(above(second, first, 0) == partitions && above(second, first, partitions) == 0, "uniques follow one another");
    const uint64_t raised = beyond(second);
    node.raise_cas(raised);
    node.raise_cas(raised - skipped);
    const Uniques third = issued(node, keys);
    tap::ok(above(third, second, skipped) == partitions && above(third, Uniques{raised, raised, raised, raised}, skipped) == 0,
            "each partition goes on where it was told, and not below that");
    tap::is(above(issued(node, keys), third, partitions), 0U, "and then they follow one another again");
    Config config = small();
    config.cas = false;
    Node without(config);
    without.raise_cas(skipped);
    tap::is(set(without, "k", "v"), uint64_t{0}, "without uniques there is nothing to leave out");
}

void over_a_restart(bool stopped) {
    const std::string how = stopped ? "a stop" : "a kill";
    Folder folder;
    Uniques before{}, after{};
    Keys keys;
    {
        Run run(folder.file());
        keys = keys_of(*run.node);
        before = issued(*run.node, keys);
        run.node->raise_cas(beyond(before));
        if (stopped) run.stop();
    }
    {
        Run run(folder.file());  // its hash seed is the same, so the keys' partitions are
        after = issued(*run.node, keys);
        tap::is(above(after, before, skipped), partitions, "after " + how + " what was left out stays so");
        run.node->raise_cas(beyond(after));
        after = issued(*run.node, keys);
        if (stopped) run.stop();
    }
    Run run(folder.file());
    tap::is(above(issued(*run.node, keys), after, 0), partitions, "after " + how + " uniques are above those behind a gap");
}

}  // namespace

int main() {
    const uint32_t skip = partitions_that_skip();
    if (broken::must_catch()) {
        tap::ok(skip < partitions, "the rule that was broken on purpose is caught");
        return tap::done();
    }
    tap::is(skip, partitions, "each partition leaves out uniques");
    in_a_run();
    over_a_restart(/* stopped= */ true);
    over_a_restart(/* stopped= */ false);
    return tap::done();
}
