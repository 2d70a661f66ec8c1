// SPDX-License-Identifier: BSD-3-Clause
#include "bench/load/wire.h"

#include <charconv>
#include <cstring>

#include "base/check.h"
#include "base/limits.h"
#include "protocol/binary.h"

namespace farcached::bench {

namespace {

constexpr uint8_t opcode_get = 0x00, opcode_set = 0x01, opcode_delete = 0x04, opcode_noop = 0x0a, opcode_getkq = 0x0d;
constexpr uint8_t set_extras_bytes = 8;                           // flags, expiration
constexpr size_t request_bytes_max = 64 + limits::key_bytes_max;  // without a value
constexpr size_t line_bytes_max = 2048;

char* put(char* to, std::string_view bytes) {
    std::memcpy(to, bytes.data(), bytes.size());
    return to + bytes.size();
}

}  // namespace

// ---- requests ---------------------------------------------------------------------------------------

// What is before and behind the key.
struct RequestWriter::Words {
    std::string_view before, behind;
};

namespace {

// By Wire.
constexpr RequestWriter::Words get_words[] = {{"get ", "\r\n"}, {"mg ", " v\r\n"}};
constexpr RequestWriter::Words get_many_words[] = {{" ", ""}, {"mg ", " k v q\r\n"}};
constexpr RequestWriter::Words set_words[] = {{"set ", " 0 0 "}, {"ms ", " "}};
constexpr RequestWriter::Words remove_words[] = {{"delete ", "\r\n"}, {"md ", "\r\n"}};

}  // namespace

RequestWriter::RequestWriter(Wire wire, std::string key_prefix)
    : wire_(wire), prefix_(std::move(key_prefix)) {
    CHECK(prefix_.size() + 20 <= limits::key_bytes_max);
}

char* RequestWriter::write_key(char* to, uint64_t key) const {
    return write_number(put(to, prefix_), key);
}

// Writes the header, room for the extras, and the key. Returns the end of the key.
char* RequestWriter::write_packet(char* to, uint8_t opcode, uint64_t key, uint8_t extras_bytes,
                                  uint32_t value_bytes) const {
    char* key_at = to + protocol::binary_header_bytes + extras_bytes;
    char* end = opcode == opcode_noop ? key_at : write_key(key_at, key);
    uint16_t key_bytes = uint16_t(end - key_at);
    std::memset(to, 0, protocol::binary_header_bytes + extras_bytes);
    to[0] = char(protocol::binary_request_magic);
    to[1] = char(opcode);
    protocol::write_big_endian(to + 2, key_bytes);
    to[4] = char(extras_bytes);
    protocol::write_big_endian(to + 8, uint32_t(extras_bytes + key_bytes + value_bytes));
    return end;
}

char* RequestWriter::write(char* to, const Words* words, uint8_t opcode, uint64_t key, uint8_t extras_bytes,
                           uint32_t value_bytes) const {
    if (wire_ == Wire::binary) return write_packet(to, opcode, key, extras_bytes, value_bytes);
    const Words& around = words[size_t(wire_)];
    return put(write_key(put(to, around.before), key), around.behind);
}

void RequestWriter::get(OutBuffer& out, uint64_t key) const {
    char* start = out.reserve(request_bytes_max);
    out.commit(size_t(write(start, get_words, opcode_get, key) - start));
}

void RequestWriter::get_many(OutBuffer& out, std::span<const uint64_t> keys) const {
    char* start = out.reserve((keys.size() + 1) * request_bytes_max);
    char* at = start;
    if (wire_ == Wire::text) at = put(at, "get");
    for (uint64_t key : keys) at = write(at, get_many_words, opcode_getkq, key);
    at = wire_ == Wire::binary ? write_packet(at, opcode_noop, 0, 0, 0) : put(at, wire_ == Wire::text ? "\r\n" : "mn\r\n");
    out.commit(size_t(at - start));
}

void RequestWriter::set(OutBuffer& out, uint64_t key, uint32_t value_bytes,
                        FunctionRef<void(char*)> fill) const {
    char* start = out.reserve(request_bytes_max + value_bytes);
    char* at = write(start, set_words, opcode_set, key, set_extras_bytes, value_bytes);
    if (wire_ != Wire::binary) at = put(write_number(at, value_bytes), "\r\n");
    fill(at);
    at += value_bytes;
    if (wire_ != Wire::binary) at = put(at, "\r\n");
    out.commit(size_t(at - start));
}

void RequestWriter::remove(OutBuffer& out, uint64_t key) const {
    char* start = out.reserve(request_bytes_max);
    out.commit(size_t(write(start, remove_words, opcode_delete, key) - start));
}

bool RequestWriter::key_number(std::string_view key, uint64_t& number) const {
    if (!key.starts_with(prefix_)) return false;
    const char* end = key.data() + key.size();
    auto [stop, error] = std::from_chars(key.data() + prefix_.size(), end, number);
    if (error != std::errc()) return false;
    return stop == end;
}

// ---- replies ----------------------------------------------------------------------------------------

namespace {

Piece need(size_t bytes) {
    Piece piece;
    piece.bytes = bytes;
    return piece;
}

Piece plain(Piece::Kind kind, size_t bytes, std::string_view text = {}) {
    Piece piece;
    piece.kind = kind;
    piece.last = true;
    piece.bytes = bytes;
    piece.value = text;
    return piece;
}

// Takes the next word off the line.
std::string_view take_word(std::string_view& line) {
    size_t end = line.find(' ');
    std::string_view word = line.substr(0, end);
    line.remove_prefix(end == line.npos ? line.size() : end + 1);
    return word;
}

bool to_size(std::string_view word, size_t& n) {
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    if (error != std::errc()) return false;
    return end == word.data() + word.size() && n <= UINT32_MAX;
}

// The value after a line of `line_bytes`.
Piece value_behind(std::string_view input, size_t line_bytes, size_t value_bytes) {
    size_t total = line_bytes + value_bytes + 2;
    if (input.size() < total) return need(total);
    if (input.substr(total - 2, 2) != "\r\n")
        return plain(Piece::Kind::broken, 0, "the end of a value is missing");
    return plain(Piece::Kind::value, total, input.substr(line_bytes, value_bytes));
}

// "VALUE key flags bytes"
Piece text_value(std::string_view input, std::string_view line) {
    std::string_view rest = line.substr(6);
    std::string_view key = take_word(rest);
    take_word(rest);
    size_t value_bytes = 0;
    if (!to_size(take_word(rest), value_bytes)) return plain(Piece::Kind::broken, 0, line);
    Piece piece = value_behind(input, line.size() + 2, value_bytes);
    piece.last = false;
    piece.has_key = true;
    piece.key = key;
    return piece;
}

// "VA bytes" and, if requested, "kKEY"
Piece meta_value(std::string_view input, std::string_view line, RequestKind kind) {
    std::string_view rest = line.substr(3);
    size_t value_bytes = 0;
    if (!to_size(take_word(rest), value_bytes)) return plain(Piece::Kind::broken, 0, line);
    std::string_view key = take_word(rest);
    Piece piece = value_behind(input, line.size() + 2, value_bytes);
    if (kind == RequestKind::get_many) {
        if (!key.starts_with('k')) return plain(Piece::Kind::broken, 0, line);
        piece.last = false;
        piece.has_key = true;
        piece.key = key.substr(1);
    }
    return piece;
}

bool is_removed(Wire wire, std::string_view line) {
    if (wire == Wire::text) return line == "DELETED" || line == "NOT_FOUND";
    return line == "HD" || line == "NF";
}

bool is_refusal(std::string_view line) {
    return line.starts_with("SERVER_ERROR") || line.starts_with("CLIENT_ERROR") ||
           line == "ERROR" || line == "NOT_STORED" || line == "EXISTS" || line == "NOT_FOUND" ||
           line == "NS" || line == "EX" || line == "NF";
}

Piece next_line_piece(Wire wire, RequestKind kind, std::string_view input) {
    size_t end = input.substr(0, line_bytes_max).find("\r\n");
    if (end == input.npos) {
        if (input.size() >= line_bytes_max)
            return plain(Piece::Kind::broken, 0, "an unterminated line");
        return need(input.size() + 1);
    }
    std::string_view line = input.substr(0, end);
    size_t bytes = end + 2;
    const bool reading = reads(kind);
    if (kind == RequestKind::remove && is_removed(wire, line)) return plain(Piece::Kind::done, bytes);
    if (is_refusal(line)) {
        Piece piece = plain(Piece::Kind::refused, bytes, line);
        piece.last =
            wire != Wire::meta || kind != RequestKind::get_many;  // otherwise MN follows
        return piece;
    }
    if (wire == Wire::text) {
        if (reading && line.starts_with("VALUE ")) return text_value(input, line);
        if (reading && line == "END") return plain(Piece::Kind::end, bytes);
        if (kind == RequestKind::set && line == "STORED") return plain(Piece::Kind::done, bytes);
    } else {
        if (reading && line.starts_with("VA ")) return meta_value(input, line, kind);
        if (kind == RequestKind::get && line == "EN") return plain(Piece::Kind::end, bytes);
        if (kind == RequestKind::get_many && line == "MN") return plain(Piece::Kind::end, bytes);
        if (kind == RequestKind::set && line == "HD") return plain(Piece::Kind::done, bytes);
    }
    return plain(Piece::Kind::broken, 0, line);
}

template <class Number>
Number from_big_endian(const char* at) {
    Number n = 0;
    for (size_t i = 0; i < sizeof n; i++) n = Number(n << 8 | uint8_t(at[i]));
    return n;
}

Piece next_packet_piece(RequestKind kind, std::string_view input) {
    using protocol::binary_header_bytes;
    if (input.empty()) return need(binary_header_bytes);
    if (uint8_t(input[0]) != protocol::binary_reply_magic)
        return plain(Piece::Kind::broken, 0, "not a reply packet");
    if (input.size() < binary_header_bytes) return need(binary_header_bytes);
    size_t key_bytes = from_big_endian<uint16_t>(input.data() + 2);
    size_t extras_bytes = uint8_t(input[4]);
    uint16_t status = from_big_endian<uint16_t>(input.data() + 6);
    size_t body_bytes = from_big_endian<uint32_t>(input.data() + 8);
    if (body_bytes < key_bytes + extras_bytes)
        return plain(Piece::Kind::broken, 0, "a packet's lengths contradict");
    size_t total = binary_header_bytes + body_bytes;
    if (input.size() < total) return need(total);

    std::string_view value = input.substr(binary_header_bytes + extras_bytes + key_bytes,
                                          body_bytes - extras_bytes - key_bytes);
    uint8_t opcode = uint8_t(input[1]);
    constexpr uint8_t opcodes[] = {opcode_set, opcode_get, opcode_getkq, opcode_delete};  // indexed by RequestKind
    bool ends_many = kind == RequestKind::get_many && opcode == opcode_noop;
    if (opcode != opcodes[size_t(kind)] && !ends_many)
        return plain(Piece::Kind::broken, 0, "the reply of another command");
    if (ends_many) return plain(Piece::Kind::end, total);
    if (status == 1 && kind == RequestKind::get) return plain(Piece::Kind::end, total);
    if (kind == RequestKind::remove && status <= 1) return plain(Piece::Kind::done, total);
    if (status != 0) {
        Piece piece = plain(Piece::Kind::refused, total, value);
        piece.last = kind != RequestKind::get_many;
        return piece;
    }
    if (kind == RequestKind::set) return plain(Piece::Kind::done, total);
    Piece piece = plain(Piece::Kind::value, total, value);
    if (kind == RequestKind::get_many) {
        piece.last = false;
        piece.has_key = true;
        piece.key = input.substr(binary_header_bytes + extras_bytes, key_bytes);
    }
    return piece;
}

}  // namespace

Piece next_piece(Wire wire, RequestKind kind, std::string_view input) {
    if (wire == Wire::binary) return next_packet_piece(kind, input);
    return next_line_piece(wire, kind, input);
}

}  // namespace farcached::bench
