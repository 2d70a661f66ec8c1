// SPDX-License-Identifier: BSD-3-Clause
#include "node/hidden_items.h"

#include <algorithm>

#include "protocol/words.h"

namespace farcached::node {

void HiddenItems::attach(Arena& arena, layout::PartitionEntry& entry, uint64_t floor) {
    arena_ = &arena;
    entry_ = &entry;
    flush_floor_ = floor;
    publish();
}

void HiddenItems::flush(uint64_t floor) {
    flush_floor_ = floor;
    prefixes_.clear();
    publish();
}

bool HiddenItems::hide_prefix(std::string_view prefix, uint64_t floor, uint64_t order) {
    if (!prefixes_.hide(prefix, floor, order)) return false;
    publish();
    return true;
}

void HiddenItems::swept(uint64_t order) {
    prefixes_.swept(order);
    publish();
}

void HiddenItems::publish() {
    words::store_release(&entry_->flush_floor, std::max(flush_floor_, prefixes_.floor()));
}

void HiddenItems::add_stats(Stats& sum) const {
    sum.prefix_items += prefix_items_;
    sum.prefixes_pending = std::max<uint64_t>(sum.prefixes_pending, prefixes_.size());
}

}  // namespace farcached::node
