// SPDX-License-Identifier: BSD-3-Clause
// FetchPool: registered memory for values that a node READs from its proxies' memory. All threads of the node share one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "fabric/buffer_pool.h"

namespace farcached::node {

constexpr size_t fetch_pool_bytes = size_t(16) << 20;  // of large values that are READ from proxies at a time

class FetchPool {
  public:
    // bytes: as in BufferPool.
    explicit FetchPool(size_t bytes) : buffers_(bytes) {}

    // Any thread. As in BufferPool.
    uint64_t* lend(size_t bytes) {
        std::lock_guard hold(lock_);
        return buffers_.lend(bytes);
    }
    void give_back(const uint64_t* buffer) {
        std::lock_guard hold(lock_);
        buffers_.give_back(buffer);
    }

    char* data() const { return buffers_.data(); }
    size_t size() const { return buffers_.size(); }

  private:
    std::mutex lock_;
    fabric::BufferPool buffers_;
};

}  // namespace farcached::node
