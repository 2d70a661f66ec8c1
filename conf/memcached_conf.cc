// SPDX-License-Identifier: BSD-3-Clause
#include "conf/memcached_conf.h"

#include <utility>

namespace farcached::conf {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

// False: an unclosed quote.
bool split(std::string_view line, std::vector<std::string>& words) {
    std::string word;
    bool any = false;  // a word has begun; it may be ""
    char quote = 0;
    for (char c : line) {
        if (quote != 0) {
            if (c == quote) quote = 0;
            else word += c;
        } else if (c == '"' || c == '\'') {
            quote = c;
            any = true;
        } else if (is_blank(c)) {
            if (any) words.push_back(std::exchange(word, {}));
            any = false;
        } else {
            word += c;
            any = true;
        }
    }
    if (any) words.push_back(std::move(word));
    return quote == 0;
}

}  // namespace

std::vector<ConfLine> memcached_conf_lines(std::string_view text, const std::string& name, std::string& remarks) {
    std::vector<ConfLine> lines;
    for (size_t number = 1; !text.empty(); number++) {
        const size_t end = text.find('\n');
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(end == text.npos ? text.size() : end + 1);
        ConfLine said{number, {}};
        if (line.find('\0') != line.npos) {
            said.error = "the line contains a byte of value 0";
        } else if (!split(line.substr(0, line.find('#')), said.words)) {
            said.error = "a quote is not closed";
        } else if (said.words.empty()) {
            continue;
        } else if (const std::string& first = said.words.front(); first == "logfile") {
            remarks += "WARNING: " + name + ":" + std::to_string(number) +
                       ": logfile is ignored: messages go to stderr, or the journal\n";
            continue;
        } else if (first == "-d" || first == "-h" || first == "--daemon" || first == "--help") {
            continue;
        } else if (!first.starts_with('-')) {
            said.error = "found '" + first + "' instead of a flag such as -m 64";
        }
        lines.push_back(std::move(said));
    }
    return lines;
}

}  // namespace farcached::conf
