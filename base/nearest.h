// SPDX-License-Identifier: BSD-3-Clause
// The answer to an unknown word: the known words, and the one probably meant. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace farcached {

// The word that `given` most likely misspells: the one with the fewest letters wrong, missing, extra or swapped with a
// neighbour, and at most a third of them. Among equals, the longest common beginning wins. Case does not count. Empty: no
// word is near. For messages: the cost is the product of the lengths, so callers bound their input.
std::string_view nearest(std::string_view given, std::span<const std::string_view> words);

// "a, b, c".
std::string listed(std::span<const std::string_view> words);

// "unknown WHAT 'given', did you mean 'b'? Allowed: a, b, c"; without the question if no word is near.
std::string unknown_word(std::string_view what, std::string_view given,
                         std::span<const std::string_view> words);

}  // namespace farcached
