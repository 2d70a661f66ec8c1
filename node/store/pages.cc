// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/pages.h"

#include "node/store/partitions.h"

namespace farcached::node {

uint64_t Pages::count() const { return arena_.pool().limit_pages(); }
uint64_t Pages::most() const { return arena_.pool().most_pages(); }

void Pages::visit(uint64_t page, NodeSeconds now, FunctionRef<void(const ItemView&)> visit) {
    partitions_.with_owner(page, [&](Partition& partition) {
        if (arena_.page(page).run_head == page) partition.visit_page(page, partition.latest(now), visit);
    });
}

SweptPage Pages::sweep(uint64_t page, NodeSeconds now, bool tails) {
    SweptPage swept;
    partitions_.with_owner(page, [&](Partition& partition) {
        if (arena_.page(page).run_head == page) swept = partition.sweep_page(page, partition.latest(now), tails);
    });
    return swept;
}

}  // namespace farcached::node
