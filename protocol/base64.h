// SPDX-License-Identifier: BSD-3-Clause
// Base64 (RFC 4648, with padding), for binary keys in meta commands.
#pragma once

#include <cstddef>
#include <string_view>

namespace farcached::protocol {

constexpr size_t base64_encoded_bytes(size_t bytes) { return (bytes + 2) / 3 * 4; }

// Writes base64_encoded_bytes(bytes.size()) characters at `to`; returns the end.
char* base64_encode(std::string_view bytes, char* to);

// Decodes at most text.size() / 4 * 3 bytes to `to`. 0 if `text` is empty or not base64: a wrong length, a wrong character,
// or padding before the end.
size_t base64_decode(std::string_view text, char* to);

}  // namespace farcached::protocol
