// SPDX-License-Identifier: BSD-3-Clause
// A node's own looks at the list of nodes in etcd.
#include "daemon/discovery/list_looks.h"

#include <cstdint>
#include <string>

#include "t/lib/tap.h"

namespace {

using farcached::daemon::EtcdRange;
using farcached::daemon::ListLooks;

constexpr uint64_t second = 1'000'000'000, patience = ListLooks::patience_ns;

EtcdRange found(int64_t revision, int64_t count, int64_t newest, uint64_t cluster = 7) {
    EtcdRange range;
    range.revision = revision;
    range.cluster = cluster;
    range.count = count;
    if (newest != 0) range.keys.push_back({.key = "k", .value = "", .mod_revision = newest});
    return range;
}

// "3-5 ": a change after revision 3, and not after 5.
std::string due(ListLooks& looks, uint64_t now_ns) {
    std::string text;
    while (const auto one = looks.take(now_ns)) text += std::to_string(one->before) + "-" + std::to_string(one->seen) + " ";
    return text;
}

void changes() {
    ListLooks looks;
    looks.begin(10, 7);
    looks.look(found(10, 2, 10), second);
    looks.look(found(15, 2, 10), 2 * second);
    tap::is(due(looks, 2 * second + patience), "", "what is written elsewhere in etcd is no change");
    looks.look(found(20, 3, 18), 20 * second);
    looks.look(found(25, 3, 18), 21 * second);
    looks.look(found(27, 2, 18), 22 * second);
    looks.look(found(29, 2, 29), 23 * second);
    tap::is(due(looks, 20 * second + patience - 1), "", "proxies have some time to tell of it");
    tap::is(due(looks, 20 * second + patience), "15-20 ", "a record that was added");
    tap::is(due(looks, 23 * second + patience), "25-27 27-29 ", "one that was deleted, one that was replaced");
    tap::is(due(looks, 100 * second), "", "each is told once");
}

void beginnings() {
    ListLooks looks;
    looks.begin(10, 7);
    looks.look(found(12, 1, 10), second);
    tap::is(due(looks, second + patience), "10-12 ", "a record may have been deleted before the first look");
    looks.look(found(13, 2, 13), 2 * second);
    looks.begin(14, 7);
    looks.look(found(14, 3, 14), 3 * second);
    tap::is(due(looks, 100 * second), "", "a new registration forgets what was before");
    looks.look(found(20, 2, 14), 4 * second);
    looks.look(found(5, 1, 5), 5 * second);
    looks.look(found(30, 1, 5, 8), 6 * second);
    tap::is(due(looks, 100 * second), "", "so does an etcd with another history");
    looks.look(found(31, 0, 0, 8), 7 * second);
    tap::is(due(looks, 100 * second), "30-31 ", "the last record was deleted");
}

}  // namespace

int main() {
    changes();
    beginnings();
    return tap::done();
}
