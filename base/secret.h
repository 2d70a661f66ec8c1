// SPDX-License-Identifier: BSD-3-Clause
// Keys, tokens and passwords as bytes: their comparison, and their text in base64.
// Owner: none; pure functions. Threads: any.
#pragma once

#include <string_view>

#include "base/function_ref.h"

namespace farcached {

// How long it takes depends on the two sizes only.
bool same_secret(std::string_view a, std::string_view b);

// Of RFC 4648, in one of its two alphabets, with its whole padding or without any. Refuses spare bits that are not zero. Adds each
// byte as it is complete; at false some were added.
bool decode_base64(std::string_view text, FunctionRef<void(unsigned char byte)> add);

}  // namespace farcached
