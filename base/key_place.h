// SPDX-License-Identifier: BSD-3-Clause
// KeyPlace: the number that a key has for the distribution of keys over nodes, by a function of libhashkit.
//
// Owner: any; a value. Any thread may call it.
// K1  The library is loaded with the first use, so that a process without nodes loads neither it nor libcrypto.
// K2  Proxies and nodes that have one KeyPlace agree on each key's number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/placement_words.h"

namespace farcached {

struct KeyPlace {
    KeyHash hash = KeyHash::one_at_a_time;  // not automatic
    char tag_open = 0, tag_close = 0;       // both 0: no tag. If a key has both, only the part between them is hashed

    // The hashed part of the key: all of it, or the inside of a hash tag.
    std::string_view hashed_part(std::string_view key) const;
    // After hashkit_error() was empty.
    uint32_t of(std::string_view key) const;

    bool operator==(const KeyPlace&) const = default;
};

// Why libhashkit cannot be used; empty if it can.
const std::string& hashkit_error();
bool has_hash(KeyHash hash);
// What `automatic` stands for.
constexpr KeyHash resolved(KeyHash hash, Distribution distribution) {
    if (hash != KeyHash::automatic) return hash;
    return distribution == Distribution::ketama_weighted ? KeyHash::md5 : KeyHash::one_at_a_time;
}
uint32_t hash_of(KeyHash hash, std::string_view text);
// text's 16 bytes of md5.
void md5_of(std::string_view text, unsigned char* to);

}  // namespace farcached
