// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/base64.h"

#include <array>
#include <cstdint>

namespace farcached::protocol {

namespace {

constexpr char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t not_base64 = 0xff;

constexpr std::array<uint8_t, 256> make_values() {
    std::array<uint8_t, 256> values{};
    for (uint8_t& v : values) v = not_base64;
    for (uint8_t i = 0; i < 64; i++) values[static_cast<unsigned char>(alphabet[i])] = i;
    return values;
}
constexpr std::array<uint8_t, 256> values = make_values();

}  // namespace

char* base64_encode(std::string_view bytes, char* to) {
    size_t at = 0;
    auto byte = [&](size_t i) { return uint32_t(static_cast<unsigned char>(bytes[i])); };
    for (; bytes.size() - at >= 3; at += 3) {
        uint32_t bits = byte(at) << 16 | byte(at + 1) << 8 | byte(at + 2);
        for (int shift = 18; shift >= 0; shift -= 6) *to++ = alphabet[bits >> shift & 63];
    }
    size_t rest = bytes.size() - at;
    if (rest == 0) return to;
    uint32_t bits = byte(at) << 16 | (rest == 2 ? byte(at + 1) << 8 : 0);
    *to++ = alphabet[bits >> 18 & 63];
    *to++ = alphabet[bits >> 12 & 63];
    *to++ = rest == 2 ? alphabet[bits >> 6 & 63] : '=';
    *to++ = '=';
    return to;
}

size_t base64_decode(std::string_view text, char* to) {
    if (text.empty()) return 0;
    if (text.size() % 4 != 0) return 0;
    size_t padding = text.back() != '=' ? 0 : text[text.size() - 2] != '=' ? 1 : 2;
    const char* start = to;
    for (size_t at = 0; at < text.size(); at += 4) {
        size_t digits = at + 4 == text.size() ? 4 - padding : 4;
        uint32_t bits = 0;
        for (size_t i = 0; i < 4; i++) {
            uint8_t value = i < digits ? values[static_cast<unsigned char>(text[at + i])] : 0;
            if (value == not_base64) return 0;
            bits = bits << 6 | value;
        }
        *to++ = char(bits >> 16);
        if (digits > 2) *to++ = char(bits >> 8);
        if (digits > 3) *to++ = char(bits);
    }
    return size_t(to - start);
}

}  // namespace farcached::protocol
