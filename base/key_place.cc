// SPDX-License-Identifier: BSD-3-Clause
#include "base/key_place.h"

#include <libhashkit/hashkit.h>

#include <array>

#include "base/check.h"
#include "base/loaded_library.h"

namespace farcached {

namespace {

struct HashkitLibrary {
    decltype(&libhashkit_digest) digest;
    decltype(&libhashkit_has_algorithm) has_algorithm;
    decltype(&libhashkit_md5_signature) md5_signature;

    HashkitLibrary() : library_("libhashkit.so.2") {
        library_.find("libhashkit_digest", digest);
        library_.find("libhashkit_has_algorithm", has_algorithm);
        library_.find("libhashkit_md5_signature", md5_signature);
    }
    // Why the functions cannot be called; empty if they can.
    const std::string& error() const { return library_.error(); }

  private:
    LoadedLibrary library_;
};

const HashkitLibrary& hashkit() {
    static const HashkitLibrary library;
    return library;
}

// In the order of KeyHash, without its first, which is no function.
constexpr std::array algorithms = {
    HASHKIT_HASH_DEFAULT,  HASHKIT_HASH_MD5,     HASHKIT_HASH_CRC,      HASHKIT_HASH_FNV1_64,
    HASHKIT_HASH_FNV1A_64, HASHKIT_HASH_FNV1_32, HASHKIT_HASH_FNV1A_32, HASHKIT_HASH_HSIEH,
    HASHKIT_HASH_MURMUR,   HASHKIT_HASH_JENKINS, HASHKIT_HASH_MURMUR3,
};
static_assert(algorithms.size() + 1 == key_hash_names.size());

hashkit_hash_algorithm_t algorithm_of(KeyHash hash) {
    CHECK(hash != KeyHash::automatic);
    return algorithms[size_t(hash) - 1];
}

}  // namespace

const std::string& hashkit_error() { return hashkit().error(); }

bool has_hash(KeyHash hash) { return hashkit().has_algorithm(algorithm_of(hash)); }

uint32_t hash_of(KeyHash hash, std::string_view text) {
    return hashkit().digest(text.data(), text.size(), algorithm_of(hash));
}

void md5_of(std::string_view text, unsigned char* to) {
    hashkit().md5_signature(reinterpret_cast<const unsigned char*>(text.data()), text.size(), to);
}

std::string_view KeyPlace::hashed_part(std::string_view key) const {
    if (tag_open == 0) return key;
    const size_t open = key.find(tag_open);
    const size_t close = open == std::string_view::npos ? open : key.find(tag_close, open + 1);
    if (close == std::string_view::npos || close == open + 1) return key;
    return key.substr(open + 1, close - open - 1);
}

uint32_t KeyPlace::of(std::string_view key) const { return hash_of(hash, hashed_part(key)); }

}  // namespace farcached
