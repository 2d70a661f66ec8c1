// SPDX-License-Identifier: BSD-3-Clause
// Tier: a place for pages in the buffer manager of `farbench buffer`: this host (HomeTier) or a farnode (RemoteTier). Each has
// memory and, for what its memory does not hold, a file.
//
// Owner: one thread; calls wait for their end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace farcached::bench {

constexpr uint32_t page_bytes = 912;  // the paper's block

enum class From : uint8_t {
    nowhere,  // the page does not exist
    memory,   // of this process
    file,     // of this host
    node,     // memory or file of the remote node
};

// Errors throw std::runtime_error.
class Tier {
  public:
    virtual ~Tier() = default;
    virtual From get(std::string_view key, std::string& value) = 0;
    virtual void set(std::string_view key, std::string_view value) = 0;
    // A number of its disk (DISK_STATISTICS), by the name in stats.
    virtual uint64_t statistic(std::string_view name) = 0;
};

}  // namespace farcached::bench
