// SPDX-License-Identifier: BSD-3-Clause
// FetchPool: where the values land that a node READs from its proxies' memory; all its threads share one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "fabric/buffer_pool.h"

namespace farcached::node {

class FetchPool {
  public:
    // bytes: as a BufferPool's.
    explicit FetchPool(size_t bytes) : buffers_(bytes) {}

    // Any thread. As a BufferPool's.
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
