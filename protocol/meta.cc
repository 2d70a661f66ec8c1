// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/meta.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "base/out_buffer.h"
#include "protocol/text_keys.h"

namespace farcached::protocol {

namespace {

// memcached counts the verb, the key and ms's length, too, and accepts 20 words in all.
constexpr uint32_t words_max = 20;

constexpr MetaSet plain_letters("bcfhIkLlOPqstuvx");

constexpr std::string_view bad_token = "CLIENT_ERROR bad token in command line format";

// Parses a flag's token; returns the error, or an empty string.
std::string_view take_token(MetaFlags& f, char letter, std::string_view token) {
    switch (letter) {
        case 'N': return parse_int32(token, f.vivify) ? "" : bad_token;
        case 'T': return parse_int32(token, f.ttl) ? "" : bad_token;
        case 'R': return parse_int32(token, f.recache) ? "" : bad_token;
        case 'C': return parse_u64(token, f.cas_compare) ? "" : bad_token;
        case 'E': return parse_u64(token, f.cas_set) ? "" : bad_token;
        case 'F': return parse_u32(token, f.client_flags) ? "" : bad_format;
        case 'J':
            return parse_u64(token, f.initial) ? "" : "CLIENT_ERROR invalid numeric initial value";
        case 'D':
            return parse_u64(token, f.delta) ? "" : "CLIENT_ERROR invalid numeric delta value";
        case 'M':
            f.mode = token.empty() ? ' ' : token.front();
            return "";
        default: return "";
    }
}

std::string_view mode_error(TextVerb verb, char mode) {
    if (mode == 0) return "";
    if (verb == TextVerb::ms && std::strchr("EAPRS", mode) == nullptr)
        return "CLIENT_ERROR invalid mode for ms M token";
    if (verb == TextVerb::ma && std::strchr("I+D-", mode) == nullptr)
        return "CLIENT_ERROR invalid mode for ma M token";
    return "";
}

// Reads the flags up to the first invalid one, and returns its error. After an error in a token it reads on, and returns
// the last such error.
std::string_view read_flags(MetaFlags& f, std::string_view& key, char* decoded,
                            std::string_view& too_late) {
    std::string_view error;
    std::string_view rest = f.words;
    for (std::string_view word = take_word(rest); !word.empty(); word = take_word(rest)) {
        char letter = word.front();
        if (letter < 'A') return "CLIENT_ERROR invalid flag";  // digits
        if (f.set.has(letter)) return "CLIENT_ERROR duplicate flag";
        if (!plain_letters.has(letter) && std::strchr("NTRCEFJDM", letter) == nullptr)
            return "CLIENT_ERROR invalid flag";
        f.set.add(letter);
        std::string_view wrong = take_token(f, letter, word.substr(1));
        if (letter == 'O' && word.size() > 1 + limits::opaque_bytes_max)
            too_late = "CLIENT_ERROR opaque token too long";
        if (letter == 'b') {
            size_t size = base64_decode(key, decoded);
            if (size == 0) wrong = "CLIENT_ERROR error decoding key";
            else key = std::string_view(decoded, size);
        }
        // memcached reports wrong client flags only if no error precedes them.
        const bool told_already = letter == 'F' && !error.empty();
        if (!wrong.empty() && !told_already) error = wrong;
    }
    return error;
}

uint32_t count_words(std::string_view words) {
    uint32_t count = 0;
    while (!take_word(words).empty()) count++;
    return count;
}

char* write_flag(char* to, char letter) {
    *to++ = ' ';
    *to++ = letter;
    return to;
}

char* write_bytes(char* to, std::string_view bytes) {
    std::memcpy(to, bytes.data(), bytes.size());
    return to + bytes.size();
}

char* write_signed(char* to, int64_t n) {
    if (n < 0) {
        *to++ = '-';
        n = -n;
    }
    return write_number(to, uint64_t(n));
}

char* write_key(char* to, const MetaShown& shown) {
    to = write_flag(to, 'k');
    if (!shown.key_binary) return write_bytes(to, shown.key);
    return write_flag(base64_encode(shown.key, to), 'b');
}

}  // namespace

MetaFlags parse_meta_flags(TextVerb verb, std::string_view words, std::string_view& key,
                           char* decoded) {
    MetaFlags f;
    f.words = words;
    if (words.empty()) return f;
    std::string_view too_late;
    uint32_t before = verb == TextVerb::ms ? 3 : 2;
    if (count_words(words) + before > words_max)
        f.error = "CLIENT_ERROR options flags are too long";
    else
        f.error = read_flags(f, key, decoded, too_late);
    if (verb == TextVerb::ma && !f.error.empty())
        f.error = bad_ma_flags;
    if (f.error.empty()) f.error = mode_error(verb, f.mode);
    if (f.error.empty()) f.error = too_late;
    return f;
}

char* write_meta_flags(char* to, std::string_view words, const MetaShown& shown) {
    for (std::string_view word = take_word(words); !word.empty(); word = take_word(words)) {
        char letter = word.front();
        if (letter == 'O') {
            *to++ = ' ';
            to = write_bytes(to, word);
            continue;
        }
        if (!shown.show.has(letter)) continue;
        if (letter == 'k') {
            to = write_key(to, shown);
            continue;
        }
        if (shown.item == nullptr) continue;
        to = write_flag(to, letter);
        switch (letter) {
            case 's': to = write_number(to, shown.item->value_len); break;
            case 't': to = write_signed(to, shown.ttl_s); break;
            case 'c': to = write_number(to, shown.item->cas); break;
            case 'f': to = write_number(to, shown.item->flags); break;
            case 'l': to = write_signed(to, shown.idle_s); break;
            case 'h': *to++ = shown.item->fetched ? '1' : '0'; break;
            default: break;
        }
    }
    return to;
}

// ---- base64 ----------------------------------------------------------------------------------------

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
