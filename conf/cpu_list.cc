// SPDX-License-Identifier: BSD-3-Clause
#include "conf/cpu_list.h"

#include <charconv>

namespace farcached::conf {

namespace {

// Removes a number from the front. False: no number, or it is too large.
bool take_number(std::string_view& text, uint32_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number > cpu_number_max) return false;
    text.remove_prefix(size_t(end - text.data()));
    return true;
}

}  // namespace

std::vector<uint32_t> cpus_of(std::string_view list) {
    std::vector<uint32_t> cpus;
    while (true) {
        uint32_t first = 0;
        if (!take_number(list, first)) return {};
        uint32_t last = first;
        if (list.starts_with('-')) {
            list.remove_prefix(1);
            if (!take_number(list, last) || last < first) return {};
        }
        for (uint32_t cpu = first; cpu <= last; cpu++) cpus.push_back(cpu);
        if (list.empty()) return cpus;
        if (list.front() != ',') return {};
        list.remove_prefix(1);
    }
}

}  // namespace farcached::conf
