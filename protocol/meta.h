// SPDX-License-Identifier: BSD-3-Clause
// The flags of meta commands (mg ms md ma me), and the flags of their replies. Pure.
//
// memcached reads one set of flags for all commands: a command ignores flags without a meaning for it. A reply repeats the
// requested flags in the order of the request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/limits.h"
#include "protocol/op.h"
#include "protocol/text.h"

namespace farcached::protocol {

// Base64 (RFC 4648, with padding), for binary keys.
constexpr size_t base64_encoded_bytes(size_t bytes) { return (bytes + 2) / 3 * 4; }

// Writes base64_encoded_bytes(bytes.size()) characters at `to`; returns the end.
char* base64_encode(std::string_view bytes, char* to);

// Decodes at most text.size() / 4 * 3 bytes to `to`. 0 if `text` is empty or not base64: a wrong length, a wrong character,
// or padding before the end.
size_t base64_decode(std::string_view text, char* to);

// A set of flag letters: 'A' to 'z' only, one bit each.
class MetaSet {
  public:
    constexpr MetaSet() = default;
    constexpr explicit MetaSet(std::string_view letters) {
        for (char c : letters) add(c);
    }
    constexpr void add(char letter) { bits_ |= bit(letter); }
    constexpr bool has(char letter) const { return (bits_ & bit(letter)) != 0; }
    constexpr bool within(MetaSet other) const { return (bits_ & ~other.bits_) == 0; }

  private:
    static constexpr uint64_t bit(char letter) {
        return UINT64_C(1) << (static_cast<unsigned char>(letter) & 63);
    }
    uint64_t bits_ = 0;
};

struct MetaFlags {
    MetaSet set;
    char mode = 0;               // M; 0: not given
    uint32_t client_flags = 0;   // F
    int64_t vivify = 0;          // N, T, R: exptimes
    int64_t ttl = 0;
    int64_t recache = 0;
    uint64_t cas_compare = 0;    // C
    uint64_t cas_set = 0;        // E
    uint64_t initial = 0;        // J
    uint64_t delta = 1;          // D
    std::string_view words;      // all of them, for the reply
    std::string_view error;      // not empty: the reply is this

    bool has(char letter) const { return set.has(letter); }
};

// `verb` matters for the wording of errors only. With flag `b` it decodes `key` into `decoded`, which has room for
// key_bytes_max bytes, and checks the result; without `b` it leaves `key` alone.
MetaFlags parse_meta_flags(TextVerb verb, std::string_view words, std::string_view& key,
                           char* decoded);

// Room for the flags of any reply: every flag once, the key in base64, numbers at their longest.
constexpr size_t meta_reply_bytes_max =
    3 + base64_encoded_bytes(limits::key_bytes_max) + 2 +  // " k...", " b"
    2 + limits::opaque_bytes_max +                         // " O..."
    8 * (2 + 20) +                                         // s t c f l h and two to spare
    3 * 2 + 2;                                             // W X Z, CRLF

// The values for a reply's flags.
struct MetaShown {
    const ItemMeta* item = nullptr;  // null: only O and k
    std::string_view key;
    bool key_binary = false;         // the key is printed as base64, with a b
    MetaSet show;                    // letters that this command shows
    int64_t ttl_s = -1;              // t
    int64_t idle_s = 0;              // l
};

// Writes each flag of `words` that is shown, in order, with a space before it. Returns the end.
char* write_meta_flags(char* to, std::string_view words, const MetaShown& shown);

}  // namespace farcached::protocol
