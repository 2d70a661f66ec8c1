// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/buffer_pool.h"

#include <bit>
#include <utility>

#include "base/check.h"

namespace farcached::fabric {

namespace {

constexpr size_t block_bytes = size_t(1) << BufferPool::buffer_bytes_min_log2;
constexpr size_t pool_bytes_max = size_t(1) << 32;

}  // namespace

BufferPool::BufferPool(size_t bytes)
    : memory_(Mapping::Kind::private_memory, bytes, /* huge_pages= */ false) {
    CHECK(std::has_single_bit(bytes));
    CHECK(bytes >= block_bytes);
    CHECK(bytes <= pool_bytes_max);
    blocks_.resize(bytes / block_bytes);
    free_.fill(nil);
    kept_.fill(nil);
    order_top_ = uint8_t(std::countr_zero(bytes) - int(buffer_bytes_min_log2));
    put_free(0, order_top_);
}

void BufferPool::put_free(uint32_t number, uint8_t order) {
    Block& block = blocks_[number];
    block = {free_[order], nil, order, Use::free};
    if (block.next != nil) blocks_[block.next].previous = number;
    free_[order] = number;
}

void BufferPool::take_free(uint32_t number) {
    Block& block = blocks_[number];
    CHECK(block.use == Use::free);
    if (block.previous != nil) blocks_[block.previous].next = block.next;
    if (block.previous == nil) free_[block.order] = block.next;
    if (block.next != nil) blocks_[block.next].previous = block.previous;
    block.use = Use::inner;
}

// A buffer of that order out of the smallest free one that holds it; nil: no free buffer is large enough.
uint32_t BufferPool::split_off(uint8_t wanted) {
    uint8_t order = wanted;
    while (order <= order_top_ && free_[order] == nil) order++;
    if (order > order_top_) return nil;
    const uint32_t number = free_[order];
    take_free(number);
    while (order > wanted) {  // the upper half goes back
        order--;
        put_free(number + (UINT32_C(1) << order), order);
    }
    blocks_[number].order = wanted;
    return number;
}

void BufferPool::merge(uint32_t number) {
    uint8_t order = blocks_[number].order;
    blocks_[number].use = Use::inner;
    for (; order < order_top_; order++) {
        const uint32_t buddy = number ^ UINT32_C(1) << order;
        if (blocks_[buddy].use != Use::free || blocks_[buddy].order != order) break;
        take_free(buddy);
        number &= ~(UINT32_C(1) << order);
    }
    put_free(number, order);
}

bool BufferPool::let_go_of_kept() {
    bool any = false;
    for (uint32_t& kept : kept_) {
        const uint32_t number = std::exchange(kept, nil);
        if (number == nil) continue;
        merge(number);
        any = true;
    }
    return any;
}

uint64_t* BufferPool::lend(size_t bytes) {
    CHECK(bytes > 0);
    if (bytes > memory_.size()) return nullptr;
    const uint8_t order = uint8_t(std::bit_width((bytes - 1) / block_bytes));
    uint32_t number = std::exchange(kept_[order], nil);
    if (number == nil) number = split_off(order);
    if (number == nil && let_go_of_kept()) number = split_off(order);
    if (number == nil) return nullptr;
    blocks_[number].use = Use::lent;
    lent_bytes_ += block_bytes << order;
    return reinterpret_cast<uint64_t*>(memory_.data() + size_t(number) * block_bytes);
}

void BufferPool::give_back(const uint64_t* buffer) {
    const size_t offset = size_t(reinterpret_cast<const char*>(buffer) - memory_.data());
    CHECK(offset < memory_.size());
    CHECK(offset % block_bytes == 0);
    const uint32_t number = uint32_t(offset / block_bytes);
    Block& block = blocks_[number];
    CHECK(block.use == Use::lent);
    lent_bytes_ -= block_bytes << block.order;
    if (kept_[block.order] != nil) return merge(number);
    block.use = Use::kept;
    kept_[block.order] = number;
}

}  // namespace farcached::fabric
