// SPDX-License-Identifier: BSD-3-Clause
// The frame of a datagram over UDP, as memcached's: a header, then bytes of a request or a reply. Pure. Any thread.
//
//  0            2          4                 6      8
//  | request id | number   | number of all   | 0    | bytes ...
//
// All numbers are big-endian. A request is one datagram. A reply has as many as its bytes need, numbered from 0, with the
// request's id.
//
// U1  A reply has udp_reply_max() bytes at most, frames included. Its sender may be forged, so this limits what a third host gets.
// U2  A datagram that looks like a server's reply is no request: two servers would answer each other for ever.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "protocol/binary.h"

namespace farcached::protocol {

constexpr size_t udp_header_bytes = 8;
constexpr size_t udp_datagram_max = 1400;  // of a reply: fits into an Ethernet frame
constexpr size_t udp_payload_max = udp_datagram_max - udp_header_bytes;
constexpr size_t udp_reply_total_max = 1 << 20;
static_assert(udp_reply_total_max / udp_datagram_max < UINT16_MAX, "the header counts the datagrams");

struct UdpRequest {
    uint16_t id = 0;
    std::string_view bytes;  // of the datagram; at least one
};

// Nothing: a short frame, no bytes behind it, a part of a longer request, or a reply (U2). Sequence number and reserved bytes are
// not read, as in memcached.
inline std::optional<UdpRequest> parse_udp_request(std::string_view datagram) {
    if (datagram.size() <= udp_header_bytes) return std::nullopt;
    const auto number_at = [&](size_t at) { return uint16_t(uint8_t(datagram[at]) << 8 | uint8_t(datagram[at + 1])); };
    if (number_at(4) != 1) return std::nullopt;
    const std::string_view bytes = datagram.substr(udp_header_bytes);
    if (uint8_t(bytes.front()) == binary_reply_magic) return std::nullopt;
    for (const std::string_view word : {"ERROR", "CLIENT_ERROR", "SERVER_ERROR"})
        if (bytes.starts_with(word)) return std::nullopt;
    return UdpRequest{number_at(0), bytes};
}

// Datagrams of a reply.
constexpr size_t udp_datagrams_of(size_t reply_bytes) { return (reply_bytes + udp_payload_max - 1) / udp_payload_max; }

// The bytes of all of them, frames included.
constexpr size_t udp_sent_bytes(size_t reply_bytes) { return reply_bytes + udp_datagrams_of(reply_bytes) * udp_header_bytes; }

// The most bytes that the reply to a datagram may have, frames included (U1).
constexpr size_t udp_reply_max(size_t datagram_bytes, uint32_t amplification) {
    return std::min(datagram_bytes * amplification, udp_reply_total_max);
}

// Writes the header of datagram `number` of `count`, and returns its end.
inline char* write_udp_header(char* to, uint16_t id, size_t number, size_t count) {
    to = write_big_endian(to, id);
    to = write_big_endian(to, uint16_t(number));
    to = write_big_endian(to, uint16_t(count));
    return write_big_endian(to, uint16_t(0));
}

}  // namespace farcached::protocol
