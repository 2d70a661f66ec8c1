// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/slow_log.h"

#include <algorithm>
#include <cstdio>

#include "ctl/format.h"

namespace farcached::ctl {

namespace {

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// %XX becomes a byte.
std::string decoded(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); i++) {
        const bool is_code = text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
        out += is_code ? char(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])) : text[i];
        if (is_code) i += 2;
    }
    return out;
}

std::string encoded(std::string_view bytes) {
    std::string out;
    for (char c : bytes) {
        char code[8];
        std::snprintf(code, sizeof code, "%%%02X", unsigned(static_cast<unsigned char>(c)));
        out += c > ' ' && c <= '~' && c != '%' ? std::string(1, c) : code;
    }
    return out;
}

// Of a binary request: a header of 24 bytes has the lengths of the extras, then the key.
std::string_view binary_key(std::string_view bytes) {
    constexpr size_t header_bytes = 24;
    if (bytes.size() < header_bytes) return {};
    const auto at = [&](size_t i) { return size_t(static_cast<unsigned char>(bytes[i])); };
    const size_t key_bytes = at(2) * 256 + at(3), begin = header_bytes + at(4);
    if (begin + key_bytes > bytes.size()) return {};
    return bytes.substr(begin, key_bytes);
}

std::string_view word_of(std::string_view line, size_t number) {
    for (;; number--) {
        line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
        const std::string_view word = line.substr(0, line.find(' '));
        if (number == 0) return word;
        line.remove_prefix(word.size());
    }
}

std::string ms_text(uint64_t us) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f ms", double(us) / 1000);
    return text;
}

std::string ms_or_dash(const std::optional<uint64_t>& us) { return us ? ms_text(*us) : "-"; }

SlowRequest request_of(std::string_view text) {
    Stats words;
    while (!text.empty()) {
        const std::string_view word = text.substr(0, text.find(' '));
        const size_t equals = std::min(word.find('='), word.size());
        words.add(std::string(word.substr(0, equals)), std::string(word.substr(std::min(equals + 1, word.size()))));
        text.remove_prefix(std::min(word.size() + 1, text.size()));
    }
    SlowRequest one;
    one.ago_ms = words.count("ago_ms");
    one.took_us = words.count("took_us");
    one.requests = words.count("requests");
    one.op = words.text("op");
    one.path = words.text("path");
    one.node = words.text("node");
    one.key = words.text("key");
    if (one.node != "-") {
        one.queue_us = words.number("queue_us");
        one.answer_us = words.number("answer_us");
        one.reply_us = words.number("reply_us");
    } else if (one.path == "local") {
        one.key = key_of_batch(one.key);
    }
    return one;
}

}  // namespace

std::string key_of_batch(std::string_view text) {
    const std::string bytes = decoded(text);
    if (bytes.starts_with('\x80')) return encoded(binary_key(bytes));
    const std::string_view verb = word_of(bytes, 0);
    const bool has_time = verb == "gat" || verb == "gats";
    return encoded(word_of(bytes, has_time ? 2 : 1));
}

std::vector<SlowRequest> slow_requests_of(const Stats& stats, size_t most) {
    std::vector<SlowRequest> requests;
    for (const auto& [name, value] : stats)
        if (name.starts_with("slow:")) requests.push_back(request_of(value));
    std::reverse(requests.begin(), requests.end());  // the daemon sorts by time
    requests.resize(std::min(requests.size(), most));
    return requests;
}

std::string slow_log_text(const std::vector<SlowRequest>& requests, Look look) {
    const bool any_node = std::ranges::any_of(requests, [](const SlowRequest& one) { return one.node != "-"; });
    std::vector<std::string> columns = {">AGO", ">TOOK", "OP", "PATH"};
    if (any_node)
        for (const char* column : {">QUEUE", ">ANSWER", ">REPLY", "NODE"}) columns.emplace_back(column);
    columns.emplace_back(">REQUESTS");
    columns.emplace_back("KEY");
    TextTable table(std::move(columns));
    for (const SlowRequest& one : requests) {
        std::vector<std::string> cells = {duration(one.ago_ms / 1000), ms_text(one.took_us), one.op, one.path};
        if (any_node)
            for (std::string cell : {ms_or_dash(one.queue_us), ms_or_dash(one.answer_us), ms_or_dash(one.reply_us), one.node})
                cells.push_back(std::move(cell));
        cells.push_back(std::to_string(one.requests));
        cells.push_back(or_dash(one.key));
        table.add(std::move(cells));
    }
    return requests.empty() ? "no slow requests\n" : table.text(look.colour);
}

Json json_of(const std::vector<SlowRequest>& requests) {
    Json rows = Json::array();
    for (const SlowRequest& one : requests)
        rows.push_back({{"ago_ms", one.ago_ms},
                        {"took_us", one.took_us},
                        {"queue_us", json_of(one.queue_us)},
                        {"answer_us", json_of(one.answer_us)},
                        {"reply_us", json_of(one.reply_us)},
                        {"op", one.op},
                        {"path", one.path},
                        {"node", one.node == "-" ? Json(nullptr) : Json(one.node)},
                        {"requests", one.requests},
                        {"key", one.key}});
    return rows;
}

}  // namespace farcached::ctl
