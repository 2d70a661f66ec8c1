// SPDX-License-Identifier: BSD-3-Clause
// The flags of meta commands (mg ms md ma me), and the flags of their replies. Pure.
//
// memcached reads one set of flags for all commands: a flag that means nothing to a command is
// accepted and ignored. A reply repeats what was asked for in the order in which it was asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/limits.h"
#include "protocol/base64.h"
#include "protocol/op.h"
#include "protocol/text.h"

namespace farcached::protocol {

// A set of flag letters: 'A' to 'z' only, no two of which share a bit.
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

// `verb` matters for the wording of errors only. Checks the key of `b` too: it becomes `decoded`,
// which has room for key_bytes_max bytes; `key` is left alone without `b`.
MetaFlags parse_meta_flags(TextVerb verb, std::string_view words, std::string_view& key,
                           char* decoded);

// Room that the flags of any reply need: every flag once, the key in base64, numbers at their
// longest.
constexpr size_t meta_reply_bytes_max =
    3 + base64_encoded_bytes(limits::key_bytes_max) + 2 +  // " k...", " b"
    2 + limits::opaque_bytes_max +                         // " O..."
    8 * (2 + 20) +                                         // s t c f l h and two to spare
    3 * 2 + 2;                                             // W X Z, CRLF

// What a reply may show.
struct MetaShown {
    const ItemMeta* item = nullptr;  // null: nothing but O and k
    std::string_view key;
    bool key_binary = false;         // the key is printed as base64, with a b
    MetaSet show;                    // letters that this command shows
    int64_t ttl_s = -1;              // t
    int64_t idle_s = 0;              // l
};

// Writes each flag of `words` that is shown, in order, with a space before it. Returns the end.
char* write_meta_flags(char* to, std::string_view words, const MetaShown& shown);

}  // namespace farcached::protocol
