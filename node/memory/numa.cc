// SPDX-License-Identifier: BSD-3-Clause
#include "node/memory/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>

namespace farcached::node {

namespace {

// The rest of the line behind `prefix`; empty: no such line.
std::string line_of(const std::string& path, const std::string& prefix) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(prefix)) return line.substr(prefix.size());
    return "";
}

class KernelBinder : public MemoryBinder {
  public:
    bool prefer(void* at, size_t bytes, uint32_t node) override { return bind(at, bytes, MPOL_PREFERRED, {node}); }
    bool interleave(void* at, size_t bytes, const std::vector<uint32_t>& nodes) override {
        return bind(at, bytes, MPOL_INTERLEAVE, nodes);
    }

  private:
    static constexpr size_t word_bits = 8 * sizeof(unsigned long);

    static bool bind(void* at, size_t bytes, int policy, const std::vector<uint32_t>& nodes) {
        std::array<unsigned long, (numa_node_max + 1) / word_bits> mask{};
        for (const uint32_t node : nodes) mask[node / word_bits] |= 1ul << (node % word_bits);
        // mbind() reads one bit less than maxnode.
        return syscall(SYS_mbind, at, bytes, policy, mask.data(), mask.size() * word_bits + 1, 0) == 0;
    }
};

}  // namespace

std::vector<uint32_t> parse_number_list(const std::string& text) {
    std::vector<uint32_t> numbers;
    const char* at = text.data();
    const char* const end = at + (text.find_last_not_of(" \t\n") + 1);
    at += std::min(text.find_first_not_of(" \t"), size_t(end - at));
    while (at != end) {
        uint32_t first = 0, last = 0;
        const auto [behind_first, first_error] = std::from_chars(at, end, first);
        if (first_error != std::errc()) return {};
        at = behind_first;
        last = first;
        if (at != end && *at == '-') {
            const auto [behind_last, last_error] = std::from_chars(at + 1, end, last);
            if (last_error != std::errc()) return {};
            at = behind_last;
        }
        if (last < first || last > numa_node_max) return {};
        for (uint32_t number = first; number <= last; number++) numbers.push_back(number);
        if (at == end) break;
        if (*at != ',' || ++at == end) return {};
    }
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return numbers;
}

std::vector<uint32_t> read_numa_nodes(const std::string& nodes_folder, const std::string& process_status) {
    const std::vector<uint32_t> there = parse_number_list(line_of(nodes_folder + "/has_memory", ""));
    const std::vector<uint32_t> allowed = parse_number_list(line_of(process_status, "Mems_allowed_list:"));
    std::vector<uint32_t> usable;
    std::set_intersection(there.begin(), there.end(), allowed.begin(), allowed.end(), std::back_inserter(usable));
    return usable;
}

MemoryBinder& kernel_binder() {
    static KernelBinder binder;
    return binder;
}

}  // namespace farcached::node
