// SPDX-License-Identifier: BSD-3-Clause
// What to tell somebody who wrote a word that is not known: the words there are, and the one
// probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace farcached {

// The word that `given` is most likely a misspelling of: the fewest letters wrong, left out, put in
// or swapped with their neighbour, and no more than a third of them; of equals the one that begins
// alike; case does not count. Empty: none is near. For messages: its cost is the product of the
// lengths, so callers bound what they pass.
std::string_view nearest(std::string_view given, std::span<const std::string_view> words);

// "a, b, c".
std::string listed(std::span<const std::string_view> words);

// "unknown WHAT 'given', did you mean 'b'? Allowed: a, b, c"; without the question when none is
// near.
std::string unknown_word(std::string_view what, std::string_view given,
                         std::span<const std::string_view> words);

}  // namespace farcached
