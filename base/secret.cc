// SPDX-License-Identifier: BSD-3-Clause
#include "base/secret.h"

#ifdef FARCACHED_OPENSSL
#include <openssl/crypto.h>
#endif

#include <cstddef>
#include <cstdint>

namespace farcached {

namespace {

int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+' || c == '-') return 62;
    if (c == '/' || c == '_') return 63;
    return -1;
}

}  // namespace

bool same_secret(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
#ifdef FARCACHED_OPENSSL
    return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
#else
    volatile unsigned difference = 0;  // a compiler may end another loop at the first difference
    for (size_t i = 0; i < a.size(); i++) difference = difference | unsigned(uint8_t(a[i]) ^ uint8_t(b[i]));
    return difference == 0;
#endif
}

bool decode_base64(std::string_view text, FunctionRef<void(unsigned char byte)> add) {
    if (text.ends_with('=') && text.size() % 4 != 0) return false;
    for (int padding = 0; padding < 2 && text.ends_with('='); padding++) text.remove_suffix(1);
    unsigned bits = 0, count = 0;
    bool standard = false, for_urls = false;  // the alphabets found
    for (const char c : text) {
        const int digit = base64_digit(c);
        if (digit < 0) return false;
        standard |= c == '+' || c == '/';
        for_urls |= c == '-' || c == '_';
        bits = (bits << 6 | unsigned(digit)) & 0xffff;
        count += 6;
        if (count < 8) continue;
        count -= 8;
        add(static_cast<unsigned char>(bits >> count & 0xff));
    }
    const unsigned spare_bits = bits & ((1u << count) - 1);
    return count < 6 && spare_bits == 0 && !(standard && for_urls);
}

}  // namespace farcached
