// SPDX-License-Identifier: BSD-3-Clause
// Binary packets for the tests: written out byte by byte, without the code under test.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace packets {

// The big-endian bytes of a number.
inline std::string big(uint64_t n, size_t bytes) {
    std::string out(bytes, '\0');
    for (size_t i = 0; i < bytes; i++) out[bytes - 1 - i] = char(n >> (8 * i));
    return out;
}

struct Packet {
    uint8_t magic = 0x80;
    uint8_t opcode = 0;
    std::string extras, key, value;
    uint16_t status = 0;  // requests: the vbucket
    uint32_t opaque = 0;
    uint64_t cas = 0;
    uint8_t datatype = 0;

    std::string bytes() const { return with_lengths(key.size(), extras.size(), body_bytes()); }
    size_t body_bytes() const { return extras.size() + key.size() + value.size(); }
    // A header with possibly false fields.
    std::string with_lengths(size_t key_len, size_t extras_len, size_t body_len) const {
        std::string out;
        out += char(magic);
        out += char(opcode);
        out += big(key_len, 2);
        out += char(extras_len);
        out += char(datatype);
        out += big(status, 2);
        out += big(body_len, 4);
        out += big(opaque, 4);
        out += big(cas, 8);
        return out + extras + key + value;
    }
};

inline Packet request(uint8_t opcode, std::string_view key = "", std::string_view value = "",
                      std::string_view extras = "", uint64_t cas = 0) {
    Packet p;
    p.opcode = opcode;
    p.key = key;
    p.value = value;
    p.extras = extras;
    p.opaque = 0xdeadbe00u | opcode;
    p.cas = cas;
    return p;
}

inline Packet reply(uint8_t opcode, uint16_t status, std::string_view value = "", uint64_t cas = 0,
                    std::string_view extras = "", std::string_view key = "") {
    Packet p = request(opcode, key, value, extras, cas);
    p.magic = 0x81;
    p.status = status;
    return p;
}

inline uint64_t number_at(std::string_view bytes, size_t at, size_t size) {
    uint64_t n = 0;
    for (size_t i = 0; i < size; i++) n = n << 8 | uint8_t(bytes[at + i]);
    return n;
}

// Takes replies apart; false, with what was whole in `out`, if the bytes do not end with a packet.
inline bool split(std::string_view bytes, std::vector<Packet>& out) {
    while (!bytes.empty()) {
        if (bytes.size() < 24) return false;
        Packet p;
        p.magic = uint8_t(bytes[0]);
        p.opcode = uint8_t(bytes[1]);
        size_t key_len = number_at(bytes, 2, 2);
        size_t extras_len = uint8_t(bytes[4]);
        size_t body_len = number_at(bytes, 8, 4);
        p.datatype = uint8_t(bytes[5]);
        p.status = uint16_t(number_at(bytes, 6, 2));
        p.opaque = uint32_t(number_at(bytes, 12, 4));
        p.cas = number_at(bytes, 16, 8);
        if (key_len + extras_len > body_len) return false;
        if (bytes.size() - 24 < body_len) return false;
        p.extras = bytes.substr(24, extras_len);
        p.key = bytes.substr(24 + extras_len, key_len);
        p.value = bytes.substr(24 + extras_len + key_len, body_len - extras_len - key_len);
        out.push_back(p);
        bytes.remove_prefix(24 + body_len);
    }
    return true;
}

inline std::string set_extras(uint32_t flags, uint32_t exptime) {
    return big(flags, 4) + big(exptime, 4);
}
inline std::string arith_extras(uint64_t delta, uint64_t initial, uint32_t exptime) {
    return big(delta, 8) + big(initial, 8) + big(exptime, 4);
}

}  // namespace packets
