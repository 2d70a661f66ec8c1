// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/source_reply.h"

#include <algorithm>
#include <charconv>

#include "base/limits.h"
#include "protocol/meta.h"

namespace farcached::protocol {

namespace {

using Status = SourceReply::Status;

constexpr size_t line_bytes_max = 2048;

template <class Number>
bool read(std::string_view text, Number& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

// Takes the first word off `line`.
std::string_view take_word(std::string_view& line) {
    const size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    return word;
}

// The words behind the length of a value.
Status read_flags(std::string_view words, SourceReply& reply) {
    bool flags = false, ttl = false, cas = false;
    while (!words.empty()) {
        const std::string_view word = take_word(words);
        if (word.empty()) continue;
        const std::string_view token = word.substr(1);
        switch (word.front()) {
            case 'f': flags = read(token, reply.flags); break;
            case 't': ttl = read(token, reply.ttl_s) && reply.ttl_s >= -1; break;
            case 'c': cas = read(token, reply.cas); break;
            case 'W':
            case 'X':
            case 'Z': reply.ttl_s = 0; return Status::absent;
            default: break;
        }
    }
    if (!flags || !ttl || !cas) return Status::invalid;
    return reply.ttl_s == 0 ? Status::absent : Status::item;
}

void read_value(std::string_view input, std::string_view words, uint64_t value_bytes_max, SourceReply& reply) {
    uint64_t size = 0;
    constexpr uint64_t size_highest = UINT64_C(1) << 40;
    reply.status = Status::invalid;
    if (!read(take_word(words), size) || size > size_highest) return;
    if (size > value_bytes_max) {
        reply.status = Status::too_large;
        reply.skip = size + 2;
        return;
    }
    if (input.size() - reply.bytes < size + 2) {
        reply.status = Status::need_more;
        return;
    }
    if (input.substr(reply.bytes + size, 2) != "\r\n") return;
    reply.value = input.substr(reply.bytes, size);
    reply.bytes += size + 2;
    reply.status = read_flags(words, reply);
}

bool is_word(std::string_view key) {
    return std::ranges::all_of(key, [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7f; });
}

void append_key(std::string& to, std::string_view command, std::string_view key) {
    to.append(command);
    if (is_word(key)) {
        to.append(key);
        return;
    }
    char encoded[limits::key_bytes_max * 2];
    to.append(encoded, size_t(base64_encode(key, encoded) - encoded));
    to.append(" b");
}

}  // namespace

SourceReply parse_source_reply(std::string_view input, uint64_t value_bytes_max) {
    SourceReply reply;
    const size_t end = input.substr(0, line_bytes_max).find('\n');
    if (end == input.npos) {
        if (input.size() >= line_bytes_max) reply.status = Status::invalid;
        return reply;
    }
    reply.bytes = end + 1;
    std::string_view line = input.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string_view word = take_word(line);
    if (word == "VA")
        read_value(input, line, value_bytes_max, reply);
    else if (word == "EN" || word == "NF")
        reply.status = Status::absent;
    else if (word == "HD" || word == "OK" || word == "MN")
        reply.status = Status::done;
    else if (word == "ERROR" || word == "SERVER_ERROR" || word == "CLIENT_ERROR")
        reply.status = Status::refused;
    else
        reply.status = Status::invalid;
    return reply;
}

void append_source_get(std::string& to, std::string_view key) {
    append_key(to, "mg ", key);
    to.append(" v f t c\r\n");
}

void append_source_delete(std::string& to, std::string_view key) {
    append_key(to, "md ", key);
    to.append("\r\n");
}

}  // namespace farcached::protocol
