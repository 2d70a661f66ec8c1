// SPDX-License-Identifier: BSD-3-Clause
// NUMA: which of a host's memories a node's own lies in. The kernel's facts are read from its files, and memory is bound by
// its one system call; both can be given instead, so that tests have the hosts they want.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace farcached::node {

// The NUMA nodes that have memory which this process may use, by the kernel's numbers, ascending. Empty: the kernel does
// not say. Files that are not as the kernel writes them are as if they were not there.
std::vector<uint32_t> read_numa_nodes(const std::string& nodes_folder = "/sys/devices/system/node",
                                      const std::string& process_status = "/proc/self/status");

// "0-3,8" as the kernel writes it; empty if that is no list, or a number is above numa_node_max.
constexpr uint32_t numa_node_max = 1023;
std::vector<uint32_t> parse_number_list(const std::string& text);

// Says where memory comes from that has not been touched yet. Where there is none left it comes from elsewhere.
class MemoryBinder {
  public:
    virtual ~MemoryBinder() = default;
    // `at` and `bytes` are multiples of the system's pages, bytes is not 0. False: it was refused, and nothing changed.
    virtual bool prefer(void* at, size_t bytes, uint32_t node) = 0;
    // In turns from each.
    virtual bool interleave(void* at, size_t bytes, const std::vector<uint32_t>& nodes) = 0;
};
MemoryBinder& kernel_binder();

}  // namespace farcached::node
