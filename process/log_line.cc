// SPDX-License-Identifier: BSD-3-Clause
#include "process/log_line.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "process/json_text.h"

namespace farcached::process {

namespace {

std::string rfc3339(LogMoment at) {
    const time_t seconds = time_t(at.seconds);
    tm utc{};
    gmtime_r(&seconds, &utc);
    char text[40];
    const size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    std::snprintf(text + size, sizeof text - size, ".%03uZ", unsigned(at.ms));
    return text;
}

// Replaces control characters, so that foreign text cannot control the terminal.
std::string shown(std::string_view text) {
    std::string line(text);
    for (char& c : line)
        if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
    return line;
}

bool is_plain(char c) {
    return static_cast<unsigned char>(c) > ' ' && c != '"' && c != '=' && c != '\\' && c != 0x7f;
}

// logfmt: bare if unambiguous, otherwise quoted as in JSON.
std::string value_of(std::string_view text) {
    const bool bare = !text.empty() && std::all_of(text.begin(), text.end(), is_plain);
    return bare ? std::string(text) : json_string(text);
}

std::string pairs(LogFields fields) {
    std::string text;
    for (const LogField& field : fields) text.append(" ").append(field.name).append("=").append(value_of(field.value));
    return text;
}

}  // namespace

std::string log_line(LogFormat format, LogLevel level, LogMoment at, std::string_view sentence, LogFields fields) {
    const std::string_view level_name = log_level_names[size_t(level)];
    if (format == LogFormat::text) return shown(sentence) + pairs(fields);
    if (format == LogFormat::logfmt)
        return "ts=" + rfc3339(at) + " level=" + std::string(level_name) + " msg=" + value_of(sentence) + pairs(fields);
    JsonText line;
    line.begin('{');
    line.add("ts", rfc3339(at));
    line.add("level", level_name);
    line.add("msg", sentence);
    for (const LogField& field : fields) line.add(field.name, field.value);
    line.end('}');
    return line.text();
}

}  // namespace farcached::process
