// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/source_reply.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/limits.h"
#include "protocol/meta.h"
#include "protocol/text_keys.h"

namespace farcached::protocol {

namespace {

using SourceStatus = SourceReply::Status;

constexpr size_t line_bytes_max = 2048;
constexpr uint64_t size_highest = UINT64_C(1) << 30;  // memcached stores no larger value

template <class Number>
bool read(std::string_view text, Number& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

// The words behind the status, and of an item behind the length of its value.
bool read_flags(std::string_view words, SourceReply& reply, bool& complete) {
    bool flags = false, ttl = false;
    bool fine = true;
    while (!words.empty()) {
        const std::string_view word = take_word(words);
        if (word.empty()) continue;
        const std::string_view token = word.substr(1);
        uint64_t number = 0;
        switch (word.front()) {
            case 'f': flags = read(token, reply.flags); break;
            case 't': ttl = read(token, reply.ttl_s) && reply.ttl_s >= -1; break;
            case 'O':
                fine = fine && read(token, number);
                reply.opaque = number;
                break;
            case 'W':
            case 'X':
            case 'Z': reply.status = SourceStatus::unusable; break;
            default: break;
        }
    }
    complete = flags && ttl;
    return fine;
}

void read_value(std::string_view input, std::string_view words, uint64_t value_bytes_max, SourceReply& reply) {
    uint64_t size = 0;
    if (!read(take_word(words), size) || size > size_highest) {
        reply.status = SourceStatus::invalid;
        return;
    }
    reply.status = SourceStatus::item;
    bool complete = false;
    if (!read_flags(words, reply, complete) || !complete) {
        reply.status = SourceStatus::invalid;
        return;
    }
    if (reply.ttl_s == 0) reply.status = SourceStatus::unusable;
    if (size > value_bytes_max) {
        reply.status = SourceStatus::too_large;
        reply.skip = size + 2;
        return;
    }
    if (input.size() - reply.bytes < size + 2) {
        reply.status = SourceStatus::need_more;
        return;
    }
    reply.value = input.substr(reply.bytes, size);
    reply.bytes += size + 2;
    if (!input.substr(0, reply.bytes).ends_with("\r\n")) reply.status = SourceStatus::invalid;
}

bool is_word(std::string_view key) {
    return std::ranges::all_of(key, [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7f; });
}

bool append_command(std::string& to, std::string_view command, std::string_view key, uint64_t number, std::string_view flags) {
    char encoded[limits::key_bytes_max * 2];
    const bool plain = is_word(key);
    if (!plain) {
        key = {encoded, size_t(base64_encode(key, encoded) - encoded)};
        if (key.size() > limits::key_bytes_max) return false;
    }
    to.append(command).append(key).append(plain ? "" : " b").append(flags).append(" O").append(std::to_string(number));
    to.append("\r\n");
    return true;
}

struct SourceWord {
    std::string_view text;
    SourceStatus status;
};
constexpr SourceWord source_words[] = {
    {"MN", SourceStatus::version},   {"EN", SourceStatus::miss},
    {"HD", SourceStatus::deleted},   {"NF", SourceStatus::not_found},
    {"OK", SourceStatus::ok},        {"SERVER_ERROR", SourceStatus::refused},
    {"ERROR", SourceStatus::refused}, {"CLIENT_ERROR", SourceStatus::refused},
};

}  // namespace

SourceReply parse_source_reply(std::string_view input, uint64_t value_bytes_max) {
    SourceReply reply;
    const size_t end = input.substr(0, line_bytes_max).find('\n');
    if (end == input.npos) {
        if (input.size() >= line_bytes_max) reply.status = SourceStatus::invalid;
        return reply;
    }
    reply.bytes = end + 1;
    std::string_view line = input.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string_view first = take_word(line);
    if (first == "VA") {
        read_value(input, line, value_bytes_max, reply);
        return reply;
    }
    const auto* word = std::ranges::find(source_words, first, &SourceWord::text);
    reply.status = word == std::end(source_words) ? SourceStatus::invalid : word->status;
    bool complete = false;
    if (reply.status != SourceStatus::refused && reply.status != SourceStatus::invalid && !read_flags(line, reply, complete))
        reply.status = SourceStatus::invalid;
    return reply;
}

bool append_source_get(std::string& to, std::string_view key, uint64_t number) {
    return append_command(to, "mg ", key, number, " v f t");
}

bool append_source_delete(std::string& to, std::string_view key, uint64_t number) {
    return append_command(to, "md ", key, number, "");
}

}  // namespace farcached::protocol
