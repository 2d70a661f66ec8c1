// SPDX-License-Identifier: BSD-3-Clause
// NUMA: reads the host's memory nodes from the kernel's files, and binds memory to them by system call. Tests replace both.
//
// Owner: none. Threads: the one that makes the Node, before others use its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace farcached::node {

// NUMA nodes with memory that this process may use, by the kernel's numbers, ascending. Empty: unknown. Malformed files count
// as missing.
std::vector<uint32_t> read_numa_nodes(const std::string& nodes_folder = "/sys/devices/system/node",
                                      const std::string& process_status = "/proc/self/status");

// Parses "0-3,8" as written by the kernel; empty if malformed, or if a number exceeds numa_node_max.
constexpr uint32_t numa_node_max = 1023;
std::vector<uint32_t> parse_number_list(const std::string& text);

// Sets the NUMA node of memory that was not touched yet. If that node is full, memory comes from others.
class MemoryBinder {
  public:
    virtual ~MemoryBinder() = default;
    // `at` and `bytes` are multiples of the page size, bytes is not 0. False: refused, without effect.
    virtual bool prefer(void* at, size_t bytes, uint32_t node) = 0;
    // Round-robin over the nodes.
    virtual bool interleave(void* at, size_t bytes, const std::vector<uint32_t>& nodes) = 0;
};
MemoryBinder& kernel_binder();

}  // namespace farcached::node
