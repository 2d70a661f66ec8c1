// SPDX-License-Identifier: BSD-3-Clause
#include "conf/kinds.h"

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "base/check.h"

namespace farcached::conf {

namespace {

bool only_blanks(const char* text) {
    while (*text == ' ') text++;
    return *text == '\0';
}

// The word after a number: its unit, if valid.
std::string_view word_behind(const char* text) {
    std::string_view word(text);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    return word;
}

}  // namespace

NumberRead read_number(const Option& option, const char* text, std::string& warnings) {
    CHECK(text != nullptr);
    char* end = nullptr;
    errno = 0;
    long long value = std::strtoll(text, &end, 10);
    if (end == text) return {};
    if (errno == ERANGE) return {};
    const Measured measured = measure(value, word_behind(end), option.kind.unit);
    if (measured.known && !measured.whole) return {};
    if (measured.known) value = measured.value;
    bool in_range = double(value) >= option.kind.min && double(value) <= option.kind.max;
    if (!in_range && option.initial != text) return {};
    if (option.kind.power_of_two && !std::has_single_bit(uint64_t(value))) return {};
    if (!measured.known && !only_blanks(end)) {
        warnings += "WARNING: " + spelled(option) + ": '" + text + "' is read as " +
                    std::to_string(value) + "\n";
    }
    return {true, value};
}

bool read_real(const Option& option, const char* text, double& value) {
    CHECK(text != nullptr);
    char* end = nullptr;
    double read = std::strtod(text, &end);
    if (end == text || !only_blanks(end)) return false;
    if (!std::isfinite(read)) return false;
    if (read <= option.kind.min) return false;
    if (read >= option.kind.max) return false;
    value = read;
    return true;
}

bool read_octal(const Option& option, const char* text, uint32_t& value) {
    CHECK(text != nullptr);
    char* end = nullptr;
    errno = 0;
    long read = std::strtol(text, &end, 8);
    if (end == text || !only_blanks(end) || errno != 0) return false;
    if (double(read) < option.kind.min || double(read) > option.kind.max) return false;
    value = uint32_t(read);
    return true;
}

bool read_size(const char* text, uint64_t& bytes) {
    CHECK(text != nullptr);
    char* end = nullptr;
    errno = 0;
    long long read = std::strtoll(text, &end, 10);
    if (end == text || read < 0 || errno != 0) return false;
    if (const Measured measured = measure(read, word_behind(end), Unit::bytes); measured.known) {
        bytes = uint64_t(measured.value);
        return measured.whole;
    }
    uint64_t unit = 1;
    if (*end == 'k' || *end == 'K') unit = 1024;
    if (*end == 'm' || *end == 'M') unit = 1024 * 1024;
    if (unit != 1) end++;
    if (!only_blanks(end)) return false;
    if (uint64_t(read) > UINT64_MAX / unit) return false;
    bytes = uint64_t(read) * unit;
    return true;
}

std::string fixed(double value, int digits) {
    char text[400];  // holds the largest double
    int length = std::snprintf(text, sizeof text, "%.*f", digits, value);
    CHECK(length > 0);
    CHECK(size_t(length) < sizeof text);
    return text;
}

std::string shortest(double value) {
    char text[64];
    const auto [end, error] = std::to_chars(text, text + sizeof text, value);
    CHECK(error == std::errc());
    return {text, end};
}

std::string yes_no(bool value) { return value ? "yes" : "no"; }

std::string_view compat_name(const Option& option) {
    return option.stat.empty() ? option.name : option.stat;
}

std::string compat_value(const Settings& settings, std::string_view name) {
    auto found = settings.compat.find(name);
    return found == settings.compat.end() ? std::string() : found->second;
}

double compat_real_value(const Settings& settings, std::string_view name) {
    return std::strtod(compat_value(settings, name).c_str(), nullptr);
}

Refusal set_compat_toggle(const Option& option, Settings& settings, const char* text, std::string&) {
    settings.compat[std::string(compat_name(option))] = text == nullptr ? "yes" : text;
    return {};
}

Refusal set_compat_number(const Option& option, Settings& settings, const char* text,
                          std::string& warnings) {
    NumberRead read = read_number(option, text, warnings);
    if (!read.good) return refuse(option, text);
    settings.compat[std::string(compat_name(option))] =
        std::to_string(uint64_t(read.value) * option.kind.scale);
    return {};
}

Refusal set_compat_real(const Option& option, Settings& settings, const char* text, std::string&) {
    double value = 0;
    if (!read_real(option, text, value)) return refuse(option, text);
    settings.compat[std::string(compat_name(option))] = fixed(value, int(option.kind.scale));
    return {};
}

Refusal set_compat_text(const Option& option, Settings& settings, const char* text, std::string&) {
    settings.compat[std::string(compat_name(option))] = text;
    return {};
}

Refusal set_nothing(const Option&, Settings&, const char*, std::string&) { return {}; }

std::string show_compat(const Option& option, const Settings& settings) {
    return compat_value(settings, compat_name(option));
}

std::string write_compat_number(const Option& option, const Settings& settings) {
    const std::string value = compat_value(settings, compat_name(option));
    return value.empty() ? value : std::to_string(std::stoull(value) / option.kind.scale);
}

}  // namespace farcached::conf
