// SPDX-License-Identifier: BSD-3-Clause
#include "node/ghosts.h"

#include <bit>
#include <new>

#include "base/check.h"

namespace farcached::node {

namespace {

constexpr size_t ring_min = 64;

}  // namespace

// The slot of that tag, or slots_.size().
size_t Ghosts::find(uint32_t tag) const {
    if (slots_.empty()) return 0;
    for (size_t slot = home(tag); slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1))
        if (ring_[slots_[slot] - 1].tag == tag) return slot;
    return slots_.size();
}

// Closes the gap, so that a search can end at the first empty slot.
void Ghosts::erase(size_t slot) {
    const size_t mask = slots_.size() - 1;
    ring_[slots_[slot] - 1].touches = 0;
    size_t gap = slot;
    for (size_t at = (slot + 1) & mask; slots_[at] != 0; at = (at + 1) & mask) {
        const size_t from = home(ring_[slots_[at] - 1].tag);
        if (((at - from) & mask) < ((at - gap) & mask)) continue;  // the gap is before its home slot
        slots_[gap] = slots_[at];
        gap = at;
    }
    slots_[gap] = 0;
}

void Ghosts::drop_oldest() {
    const Ghost& oldest = ring_[first_];
    if (oldest.touches != 0) erase(find(oldest.tag));
    first_ = (first_ + 1) & (ring_.size() - 1);
    size_--;
}

// False: no memory; nothing changed.
bool Ghosts::grow() noexcept {
    std::vector<Ghost> ring;
    std::vector<uint32_t> slots;
    try {
        ring.resize(ring_.empty() ? ring_min : 2 * ring_.size());
        slots.resize(2 * ring.size());
    } catch (const std::bad_alloc&) {
        return false;
    }
    for (size_t i = 0; i < size_; i++) ring[i] = ring_[(first_ + i) & (ring_.size() - 1)];
    ring_.swap(ring);
    slots_.swap(slots);
    first_ = 0;
    shift_ = 64 - uint32_t(std::countr_zero(slots_.size()));
    for (size_t i = 0; i < size_; i++) {
        if (ring_[i].touches == 0) continue;
        size_t slot = home(ring_[i].tag);
        while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
        slots_[slot] = uint32_t(i) + 1;
    }
    return true;
}

void Ghosts::add(uint64_t hash, uint32_t touches, size_t limit) noexcept {
    CHECK(touches > 0);
    CHECK(limit > 0);
    (void)take(hash);
    while (size_ >= limit) drop_oldest();
    if (size_ == ring_.size() && !grow()) {
        if (size_ == 0) return;
        drop_oldest();
    }
    const uint32_t tag = tag_of(hash);
    const size_t place = (first_ + size_++) & (ring_.size() - 1);
    ring_[place] = {tag, touches};
    size_t slot = home(tag);
    while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = uint32_t(place) + 1;
}

uint32_t Ghosts::take(uint64_t hash) noexcept {
    const size_t slot = find(tag_of(hash));
    if (slot == slots_.size()) return 0;
    const uint32_t touches = ring_[slots_[slot] - 1].touches;
    erase(slot);
    return touches;
}

}  // namespace farcached::node
