// SPDX-License-Identifier: BSD-3-Clause
// BufferPool: memory for RDMA: our READs land in it, or the other side READs from it. One piece, allocated at start,
// so that it is registered once. The pool lends buffers of a power of two bytes; without one, the caller uses another path.
//
// Owner: one thread; its connections share it. It outlives their channels.
// L1  A reader borrows a buffer, which belongs to the channel from the posting until the completion, or, if the other
//     side READs it, until its reply. Destruction of the channel ends both (S12). The caller of give_back() ensures this.
// L2  Neighbours merge as soon as both are free. One buffer of each size is kept whole for the next loan of that size,
//     until another size needs its room. So no memory stays lost to fragments.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/mapping.h"

namespace farcached::fabric {

class BufferPool {
  public:
    static constexpr uint32_t buffer_bytes_min_log2 = 9;

    // bytes: a power of two, at least one smallest buffer, at most 4 GiB.
    explicit BufferPool(size_t bytes);
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;

    // Room for `bytes`, aligned to 8 at least and not initialised, or nullptr: no such room is free now.
    uint64_t* lend(size_t bytes);
    void give_back(const uint64_t* buffer);

    char* data() const { return memory_.data(); }
    size_t size() const { return memory_.size(); }
    size_t lent_bytes() const { return lent_bytes_; }

  private:
    static constexpr uint32_t orders_max = 33 - buffer_bytes_min_log2;
    static constexpr uint32_t nil = UINT32_MAX;
    enum class Use : uint8_t { inner, free, kept, lent };  // inner: not the first block of a buffer

    // By number of the smallest block.
    struct Block {
        uint32_t next = nil;  // in the list of free buffers of its order
        uint32_t previous = nil;
        uint8_t order = 0;
        Use use = Use::inner;
    };

    void put_free(uint32_t block, uint8_t order);
    void take_free(uint32_t block);
    uint32_t split_off(uint8_t order);
    void merge(uint32_t block);
    bool let_go_of_kept();

    Mapping memory_;
    std::vector<Block> blocks_;
    std::array<uint32_t, orders_max> free_;  // head of each order's list
    std::array<uint32_t, orders_max> kept_;  // L2
    uint8_t order_top_ = 0;
    size_t lent_bytes_ = 0;
};

}  // namespace farcached::fabric
