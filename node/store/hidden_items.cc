// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/hidden_items.h"

#include <algorithm>

#include "base/broken.h"
#include "base/check.h"
#include "protocol/words.h"

namespace farcached::node {

// ---- hidden prefixes -------------------------------------------------------------------------------------

bool HiddenPrefixes::hide(std::string_view prefix, uint64_t floor, uint64_t order) {
    const auto known = entries_.find(prefix);
    if (known != entries_.end()) {
        known->second.last = {floor, order};
    } else {
        if (entries_.size() >= prefixes_max) return false;
        lengths_.reserve(lengths_.size() + 1);
        entries_.emplace(prefix, Entry{{floor, order}, {floor, order}, 0});
        const auto at = std::lower_bound(lengths_.begin(), lengths_.end(), prefix.size(),
                                         [](const Length& length, size_t bytes) { return length.bytes < bytes; });
        if (at != lengths_.end() && at->bytes == prefix.size())
            at->prefixes++;
        else
            lengths_.insert(at, {prefix.size(), 1});
    }
    floor_ = std::max(floor_, floor);
    return true;
}

bool HiddenPrefixes::hide(const Moved& kept, uint64_t floor, uint64_t order, uint64_t epoch) {
    const auto known = std::ranges::find_if(moved_, [&](const AwayKeys& away) { return *away.kept == *kept; });
    if (known != moved_.end()) {
        known->last = {floor, order};
        known->epoch = std::min(known->epoch, epoch);
    } else if (moved_.size() < moved_max) {
        moved_.push_back({kept, {floor, order}, epoch});
    } else {
        // Many nodes join one by one: the last two become one, which hides items of both up to the later floor.
        std::optional<protocol::KeptKeys> both = protocol::kept_by_both(*moved_.back().kept, *kept);
        if (!both.has_value()) return false;
        moved_.back() = {std::make_shared<const protocol::KeptKeys>(*std::move(both)), {floor, order},
                         std::min(moved_.back().epoch, epoch)};
    }
    floor_ = std::max(floor_, floor);
    return true;
}

uint64_t HiddenPrefixes::moved_at(std::string_view key, uint64_t generation) const {
    uint64_t epoch = UINT64_MAX;
    for (const AwayKeys& away : moved_)
        if (generation < away.last.floor && !away.kept->keeps(key)) epoch = std::min(epoch, away.epoch);
    return epoch;
}

bool HiddenPrefixes::hides(std::string_view key, uint64_t generation) const {
    if (generation >= floor_) return false;
    return moved_at(key, generation) != UINT64_MAX || is_deleted(key, generation);
}

bool HiddenPrefixes::is_deleted(std::string_view key, uint64_t generation) const {
    for (const Length& length : lengths_) {
        if (length.bytes > key.size()) return false;
        const auto found = entries_.find(key.substr(0, length.bytes));
        if (found != entries_.end() && generation < found->second.last.floor) return true;
    }
    return false;
}

uint64_t* HiddenPrefixes::counter(std::string_view key, uint64_t generation) {
    if (generation >= floor_) return nullptr;
    uint64_t* counter = nullptr;
    uint64_t earliest = 0;
    for (const Length& length : lengths_) {
        if (length.bytes > key.size()) break;
        const auto found = entries_.find(key.substr(0, length.bytes));
        if (found == entries_.end() || generation >= found->second.last.floor) continue;
        Entry& entry = found->second;
        const uint64_t order = generation < entry.first.floor ? entry.first.order : entry.last.order;
        if (counter != nullptr && earliest < order) continue;
        counter = &entry.removed;
        earliest = order;
    }
    return counter;
}

std::optional<uint64_t> HiddenPrefixes::removed(std::string_view prefix) const {
    const auto found = entries_.find(prefix);
    return found == entries_.end() ? std::nullopt : std::optional<uint64_t>(found->second.removed);
}

void HiddenPrefixes::swept(uint64_t order) {
    floor_ = 0;
    for (auto at = entries_.begin(); at != entries_.end();) {
        Entry& entry = at->second;
        if (entry.last.order <= order) {
            uncount(at->first.size());
            at = entries_.erase(at);
            continue;
        }
        if (entry.first.order <= order) entry.first = entry.last;
        floor_ = std::max(floor_, entry.last.floor);
        ++at;
    }
    std::erase_if(moved_, [order](const AwayKeys& away) { return away.last.order <= order; });
    for (const AwayKeys& away : moved_) floor_ = std::max(floor_, away.last.floor);
}

void HiddenPrefixes::uncount(size_t bytes) {
    const auto at = std::find_if(lengths_.begin(), lengths_.end(), [&](const Length& length) { return length.bytes == bytes; });
    CHECK(at != lengths_.end());
    if (--at->prefixes == 0) lengths_.erase(at);
}

void HiddenPrefixes::clear() {
    entries_.clear();
    lengths_.clear();
    moved_.clear();
    floor_ = 0;
}

// ---- hidden items ----------------------------------------------------------------------------------------

void HiddenItems::attach(Arena& arena, layout::PartitionEntry& entry, uint64_t floor) {
    arena_ = &arena;
    entry_ = &entry;
    flush_floor_ = floor;
    publish();
}

void HiddenItems::flush(uint64_t floor) {
    flush_floor_ = floor;
    if (kept_floor_ != nullptr) __atomic_store_n(kept_floor_, floor, __ATOMIC_RELEASE);
    broken::step();
    prefixes_.clear();
    publish();
}

bool HiddenItems::hide_prefix(std::string_view prefix, uint64_t floor, uint64_t order) {
    if (!prefixes_.hide(prefix, floor, order)) return false;
    publish();
    return true;
}

bool HiddenItems::hide_moved(const HiddenPrefixes::Moved& kept, uint64_t floor, uint64_t order, const PartialFlush::Move& move) {
    const bool is_told = prefixes_.has(*kept);  // by another process
    if (!prefixes_.hide(kept, floor, order, move.epoch)) return false;
    publish();
    if (!is_told && move.epoch > moves_[0].epoch) {
        std::shift_right(moves_.begin(), moves_.end(), 1);
        moves_[0] = {floor, move.epoch};
        moved_until_ = move.until;
    }
    return true;
}

void HiddenItems::forget_moves() {
    moves_ = {};
    prefixes_.forget_epochs();
}

bool HiddenItems::has_moved_since(Ref ref, uint64_t epoch) const {
    if (is_flushed(ref)) return false;
    const uint64_t generation = generation_of(*arena_, ref);
    if (!is_kept_moved(ref)) {
        const uint64_t moved_at = prefixes_.moved_at(key_of(*arena_, ref), generation);
        return moved_at != UINT64_MAX && moved_at != 0 && moved_at >= epoch;
    }
    const auto move = std::ranges::find_if(moves_, [generation](const Moves& one) { return generation >= one.floor; });
    return move != moves_.end() && move->epoch >= epoch;
}

// Its new generation stands for the newest move, so it must not have moved before that one.
bool HiddenItems::may_keep_moved(Ref ref) const {
    const uint64_t generation = generation_of(*arena_, ref);
    const uint64_t moved_at = prefixes_.moved_at(key_of(*arena_, ref), generation);
    return moved_at != UINT64_MAX && moved_at != 0 && moved_at == moves_[0].epoch && !is_kept_moved(ref) && !is_flushed(ref);
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
