// SPDX-License-Identifier: BSD-3-Clause
// The binary protocol: from bytes to requests, and from replies to bytes. Pure: no clock, no sockets, no state
// between calls.
//
//  0      1       2        4       5         6        8        12      16           24
//  | 0x80 | opcode| key len| extras| datatype| vbucket| body   | opaque| cas        | extras, key, value |
//  | 0x81 |       |        | len   |         | status | len    |       |            |
//
// All numbers are big-endian; the body length counts extras, key and value.
//
// parse_binary() gets every byte received and not yet consumed. It parses the head of one request only: header,
// extras and key. The value after them may have any length up to 4 GiB: the caller decides on it before its first
// byte arrives.
//
// P1  The same bytes give the same requests however they arrive.
// P2  An impossible header gets its error as soon as it is whole: the parser does not wait for the bytes that it
//     announces.
// P3  need_more never asks for more than binary_head_bytes_max bytes.
// P4  The views of a request point into the input.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/limits.h"

namespace farcached::protocol {

static_assert(std::endian::native == std::endian::little, "as the layouts that others READ");

constexpr uint8_t binary_request_magic = 0x80;  // no text command begins with it
constexpr uint8_t binary_reply_magic = 0x81;
constexpr size_t binary_header_bytes = 24;
constexpr size_t binary_extras_bytes_max = 20;  // incr, decr: delta, initial, expiration
constexpr size_t binary_head_bytes_max =
    binary_header_bytes + binary_extras_bytes_max + limits::key_bytes_max;
// With this expiration incr and decr do not create an item.
constexpr uint32_t binary_no_create = 0xffffffff;

enum class BinaryStatus : uint16_t {
    ok = 0,
    not_found = 1,
    exists = 2,
    too_large = 3,
    invalid = 4,
    not_stored = 5,
    non_numeric = 6,
    auth = 0x20,
    auth_continue = 0x21,
    no_access = 0x24,  // Couchbase's; memcached has no such status
    unknown_command = 0x81,
    no_memory = 0x82,
    temporary_failure = 0x86,
};

// memcached's text for each status; empty for ok and auth_continue.
std::string_view binary_status_text(BinaryStatus status);

// Each with the fields of a request that it uses, apart from cas.
enum class BinaryVerb : uint8_t {
    unknown,  // none: refused, its body discarded
    get,      // key
    touch,    // key, exptime
    gat,      // key, exptime
    set,      // key, value, flags, exptime; add and replace, too
    add,
    replace,
    append,  // key, value; prepend, too
    prepend,
    del,    // key
    incr,   // key, delta, initial, exptime; decr, too
    decr,
    quit,   // none; noop and version, too
    noop,
    version,
    flush,  // exptime: the delay, else 0
    stat,   // key: the group, may be empty
    config_get,  // key; ElastiCache's
    sasl_list,  // none
    sasl_auth,  // key: the mechanism, value; sasl_step, too
    sasl_step,
};

struct BinaryRequest {
    BinaryVerb verb = BinaryVerb::unknown;
    bool quiet = false;     // no reply on success, or on the miss of a get
    bool with_key = false;  // get, gat: the key is part of the reply
    uint8_t opcode = 0;     // as received: replies repeat it
    uint32_t opaque = 0;    // the client's; replies repeat it
    uint64_t cas = 0;       // 0: none
    uint32_t flags = 0;
    uint32_t exptime = 0;  // never negative
    uint64_t delta = 0;
    uint64_t initial = 0;
    std::string_view key;
};

struct BinaryParse {
    enum class Status : uint8_t {
        need_more,  // of the head; head_bytes: its size, as far as known
        request,    // `request`; head_bytes of head in the input, then value_bytes follow
        error,      // answer `error`, then close; opcode and opaque of `request` are set
        close,      // these bytes are not the binary protocol
    } status = Status::need_more;
    BinaryStatus error = BinaryStatus::ok;
    bool body_too_long = false;  // error: the header announces more bytes than any request has
    size_t head_bytes = 0;
    uint32_t value_bytes = 0;  // as announced, unchecked
    BinaryRequest request;
};

BinaryParse parse_binary(std::string_view input);

// Does the command use a value? The values of others are discarded.
constexpr bool binary_takes_value(BinaryVerb verb) {
    return verb >= BinaryVerb::set && verb <= BinaryVerb::prepend;
}

constexpr bool binary_authenticates(BinaryVerb verb) { return verb >= BinaryVerb::sasl_list; }
// Can a request with a password begin anywhere in the input? True for some values, too.
bool binary_may_authenticate(std::string_view input);
// May a client send it before it has authenticated? Also of a request with an impossible header.
constexpr bool binary_precedes_authentication(uint8_t opcode) {
    return opcode == 0x0b || (opcode >= 0x20 && opcode <= 0x22);  // version, and SASL
}

// ---- replies ----------------------------------------------------------------------------------------

struct BinaryReply {
    uint8_t opcode = 0;
    BinaryStatus status = BinaryStatus::ok;
    uint16_t key_bytes = 0;
    uint8_t extras_bytes = 0;
    uint32_t value_bytes = 0;  // after extras and key
    uint32_t opaque = 0;
    uint64_t cas = 0;
};

// Write one big-endian number at `to`; return the end. Inline, as is the header: every hit calls them.
inline char* write_big_endian(char* to, uint16_t n) {
    n = __builtin_bswap16(n);
    std::memcpy(to, &n, sizeof n);
    return to + sizeof n;
}
inline char* write_big_endian(char* to, uint32_t n) {
    n = __builtin_bswap32(n);
    std::memcpy(to, &n, sizeof n);
    return to + sizeof n;
}
inline char* write_big_endian(char* to, uint64_t n) {
    n = __builtin_bswap64(n);
    std::memcpy(to, &n, sizeof n);
    return to + sizeof n;
}

// Writes binary_header_bytes at `to`; returns the end.
inline char* write_binary_header(char* to, const BinaryReply& reply) {
    *to++ = char(binary_reply_magic);
    *to++ = char(reply.opcode);
    to = write_big_endian(to, reply.key_bytes);
    *to++ = char(reply.extras_bytes);
    *to++ = 0;  // datatype
    to = write_big_endian(to, uint16_t(reply.status));
    to = write_big_endian(to, reply.extras_bytes + reply.key_bytes + reply.value_bytes);
    to = write_big_endian(to, reply.opaque);
    return write_big_endian(to, reply.cas);
}

}  // namespace farcached::protocol
