// SPDX-License-Identifier: BSD-3-Clause
#include "conf/host_names.h"

#include <algorithm>

namespace farcached::conf {

namespace {

bool is_name_character(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'; }

}  // namespace

std::string host_name_of(std::string_view text) {
    constexpr size_t name_bytes_max = 253;
    if (text.ends_with('.')) text.remove_suffix(1);
    std::string name(text);
    for (char& c : name)
        if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
    const bool good = name.size() <= name_bytes_max && std::all_of(name.begin(), name.end(), is_name_character);
    return good ? name : std::string();
}

std::vector<std::string> host_names_of(std::string_view list) {
    std::vector<std::string> names;
    for (bool more = true; more;) {
        const size_t comma = list.find(',');
        more = comma != list.npos;
        std::string name = host_name_of(list.substr(0, comma));
        if (name.empty()) return {};
        names.push_back(std::move(name));
        if (more) list.remove_prefix(comma + 1);
    }
    return names;
}

}  // namespace farcached::conf
