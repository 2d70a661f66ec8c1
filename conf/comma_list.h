// SPDX-License-Identifier: BSD-3-Clause
// The words of a list with commas between them, one after the other. Pure. Owner: none; any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace farcached::conf {

// Takes the word before the first comma, and the comma. more: was there one? An empty list has one empty word.
inline std::string_view take_listed(std::string_view& list, bool& more) {
    const size_t comma = list.find(',');
    const std::string_view word = list.substr(0, comma);
    more = comma != list.npos;
    list.remove_prefix(more ? comma + 1 : list.size());
    return word;
}

}  // namespace farcached::conf
