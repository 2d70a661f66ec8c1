// SPDX-License-Identifier: BSD-3-Clause
#include "base/nearest.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace farcached {

namespace {

constexpr size_t given_bytes_max =
    64;  // a longer word misspells none of ours, and is not repeated in full

char lower(char c) { return char(std::tolower(static_cast<unsigned char>(c))); }

// Edits from one word to the other. Three rows of the usual table: a swap needs the row before the previous one.
size_t distance(std::string_view a, std::string_view b) {
    std::vector<size_t> older(b.size() + 1), old(b.size() + 1), now(b.size() + 1);
    for (size_t j = 0; j <= b.size(); j++) old[j] = j;
    for (size_t i = 1; i <= a.size(); i++) {
        now[0] = i;
        for (size_t j = 1; j <= b.size(); j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            now[j] = std::min({old[j] + 1, now[j - 1] + 1, old[j - 1] + (same ? 0 : 1)});
            if (i < 2 || j < 2) continue;
            bool swapped = lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
            if (swapped) now[j] = std::min(now[j], older[j - 2] + 1);
        }
        older.swap(old);
        old.swap(now);
    }
    return old[b.size()];
}

size_t common_prefix(std::string_view a, std::string_view b) {
    size_t n = 0;
    while (n < a.size() && n < b.size() && lower(a[n]) == lower(b[n])) n++;
    return n;
}

}  // namespace

std::string_view nearest(std::string_view given, std::span<const std::string_view> words) {
    std::string_view best;
    if (given.size() > given_bytes_max) return best;
    size_t least = given_bytes_max;
    for (std::string_view word : words) {
        size_t wrong = distance(given, word);
        size_t allowed = std::max(given.size(), word.size()) / 3;
        if (wrong > allowed || wrong > least) continue;
        if (wrong == least && common_prefix(given, word) <= common_prefix(given, best)) continue;
        least = wrong;
        best = word;
    }
    return best;
}

std::string listed(std::span<const std::string_view> words) {
    std::string text;
    for (std::string_view word : words) {
        if (!text.empty()) text += ", ";
        text += word;
    }
    return text;
}

std::string unknown_word(std::string_view what, std::string_view given,
                         std::span<const std::string_view> words) {
    std::string text =
        "unknown " + std::string(what) + " '" + std::string(given.substr(0, given_bytes_max)) + "'";
    std::string_view meant = nearest(given, words);
    text += meant.empty() ? ". " : ", did you mean '" + std::string(meant) + "'? ";
    return text + "Allowed: " + listed(words);
}

}  // namespace farcached
