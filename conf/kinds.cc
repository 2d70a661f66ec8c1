// SPDX-License-Identifier: BSD-3-Clause
#include "conf/kinds.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "conf/addresses.h"

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

namespace {

NumberFault fault_of(const Option& option, int64_t value) {
    if (double(value) < option.kind.min) return NumberFault::too_small;
    if (double(value) > option.kind.max) return NumberFault::too_large;
    const bool wrong = option.kind.power_of_two && !std::has_single_bit(uint64_t(value));
    return wrong ? NumberFault::no_power_of_two : NumberFault::none;
}

std::string cut_warning(const Option& option, const std::string& text, const std::string& value) {
    return "WARNING: " + spelled(option) + ": '" + text + "' is read as " + value + "\n";
}

}  // namespace

NumberRead read_number(const Option& option, const std::string& text) {
    char* end = nullptr;
    errno = 0;
    NumberRead read;
    read.value = std::strtoll(text.c_str(), &end, 10);
    if (end == text.c_str()) return read;
    const bool overflows = errno == ERANGE;
    const Measured measured = measure(read.value, word_behind(end), option.kind.unit);
    read.cut = !measured.known && !only_blanks(end);
    if (overflows || (measured.known && !measured.fits)) {
        read.fault = read.value < 0 ? NumberFault::too_small : NumberFault::too_large;
        return read;
    }
    if (measured.known && !measured.whole) return read;
    if (measured.known) read.value = measured.value;
    read.fault = option.initial == text ? NumberFault::none : fault_of(option, read.value);
    return read;
}

NumberRead read_number(const Option& option, const char* text, std::string& warnings) {
    CHECK(text != nullptr);
    const NumberRead read = read_number(option, std::string(text));
    if (read.good() && read.cut) warnings += cut_warning(option, text, std::to_string(read.value));
    return read;
}

bool read_real(const Option& option, const char* text, double& value) {
    std::string warnings;
    return read_real(option, text, value, warnings) && warnings.empty();
}

bool read_real(const Option& option, const char* text, double& value, std::string& warnings) {
    CHECK(text != nullptr);
    char* end = nullptr;
    double read = std::strtod(text, &end);
    if (end == text) return false;
    if (!std::isfinite(read)) return false;
    if (read <= option.kind.min) return false;
    if (read >= option.kind.max) return false;
    if (!only_blanks(end)) warnings += cut_warning(option, text, shortest(read));
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

namespace {

Refusal keep_compat(const Option& option, Settings& settings, std::string value) {
    settings.compat[std::string(compat_name(option))] = std::move(value);
    return {};
}

}  // namespace

Refusal set_compat_toggle(const Option& option, Settings& settings, const char* text, std::string&) {
    return keep_compat(option, settings, text == nullptr ? "yes" : text);
}

Refusal set_compat_number(const Option& option, Settings& settings, const char* text,
                          std::string& warnings) {
    NumberRead read = read_number(option, text, warnings);
    if (!read.good()) return refuse(option, text);
    return keep_compat(option, settings, std::to_string(uint64_t(read.value) * option.kind.scale));
}

Refusal set_compat_real(const Option& option, Settings& settings, const char* text, std::string&) {
    double value = 0;
    if (!read_real(option, text, value)) return refuse(option, text);
    return keep_compat(option, settings, fixed(value, int(option.kind.scale)));
}

Refusal set_compat_text(const Option& option, Settings& settings, const char* text, std::string&) {
    return keep_compat(option, settings, text);
}

Refusal set_nothing(const Option&, Settings&, const char*, std::string&) { return {}; }

std::string show_compat(const Option& option, const Settings& settings) {
    return compat_value(settings, compat_name(option));
}

std::string write_compat_number(const Option& option, const Settings& settings) {
    const std::string value = compat_value(settings, compat_name(option));
    return value.empty() ? value : std::to_string(std::stoull(value) / option.kind.scale);
}

// ---- kinds of one option each -------------------------------------------------------------------------------

Refusal set_tcp_port(const Option& option, Settings& settings, const char* text, std::string& warnings) {
    const NumberRead read = read_number(option, text, warnings);
    if (!read.good()) return refuse(option, text);
    settings.listen.port = int32_t(read.value);
    settings.listen.port_given = true;
    return {};
}

// As in memcached, also the TCP port if -p is not given.
Refusal set_udp_port(const Option& option, Settings& settings, const char* text, std::string& warnings) {
    const NumberRead read = read_number(option, text, warnings);
    if (!read.good()) return refuse(option, text);
    settings.listen.udp_port = int32_t(read.value);
    if (read.value != 0 && !settings.listen.port_given) settings.listen.port = int32_t(read.value);
    return {};
}

Refusal set_interfaces(const Option& option, Settings& settings, const char* text, std::string&) {
    if (*text == '\0') return refuse(option, text);
    std::string& all = settings.listen.interfaces;
    if (!all.empty()) all += ',';
    all += text;
    return {};
}

Refusal set_unix_mode(const Option& option, Settings& settings, const char* text, std::string&) {
    if (!read_octal(option, text, settings.listen.unix_mode)) return refuse(option, text);
    return {};
}

std::string show_unix_mode(const Option&, const Settings& settings) {
    char text[16];
    std::snprintf(text, sizeof text, "%o", settings.listen.unix_mode);
    return text;
}

namespace {

struct ProtocolName {
    std::string_view given, shown;
    Protocol protocol;
};
constexpr std::array<ProtocolName, 3> protocol_names = {{
    {"auto", "auto-negotiate", Protocol::any},
    {"ascii", "ascii", Protocol::text},
    {"binary", "binary", Protocol::binary},
}};

}  // namespace

Refusal set_protocol(const Option& option, Settings& settings, const char* text, std::string&) {
    for (const ProtocolName& name : protocol_names) {
        if (name.given != text) continue;
        settings.listen.protocol = name.protocol;
        settings.listen.auto_given = name.protocol == Protocol::any;
        return {};
    }
    return refuse(option, text);
}

std::string write_protocol(const Option&, const Settings& settings) {
    return std::string(protocol_names[size_t(settings.listen.protocol)].given);
}

std::string show_protocol(const Option&, const Settings& settings) {
    return std::string(protocol_names[size_t(protocol_of(settings, settings.listen.protocol))].shown);
}

Refusal set_item_size(const Option& option, Settings& settings, const char* text, std::string& warnings) {
    const NumberRead read = read_number(option, text, warnings);
    // memcached's units are k and m: it reads 10g as 10 bytes and says that they are too few.
    const bool few_digits = std::strtoll(text, nullptr, 10) < int64_t(option.kind.min);
    if (read.fault == NumberFault::too_large && !few_digits)
        return Problem{exit_usage, "Cannot set item size limit higher than 1024 mb.\n"};
    if (!read.good()) return refuse(option, text);
    settings.memory.item_bytes_max = uint64_t(read.value);
    return {};
}

// As in memcached, giving the option starts counting at once. The default of `detail` is applied after this one's.
Refusal set_delimiter(const Option& option, Settings& settings, const char* text, std::string&) {
    if (*text == '\0') return refuse(option, text);
    settings.admin.prefix_delimiter.assign(text, 1);
    settings.admin.detail = true;
    return {};
}

// Written only while counting is on: giving the option turns it on.
std::string write_delimiter(const Option&, const Settings& settings) {
    return settings.admin.detail ? settings.admin.prefix_delimiter : std::string();
}

// As a flag: one level more; in a file: the level.
Refusal set_louder(const Option& option, Settings& settings, const char* text, std::string& warnings) {
    uint32_t& verbosity = settings.process.verbosity;
    if (text == nullptr) {
        verbosity = std::min(verbosity + 1, uint32_t(verbosity_max));
        return {};
    }
    const NumberRead read = read_number(option, text, warnings);
    if (!read.good()) return refuse(option, text);
    verbosity = uint32_t(read.value);
    return {};
}

std::string show_evictions(const Option&, const Settings& settings) {
    return settings.memory.evict ? "on" : "off";
}

std::string show_threads_per_udp(const Option&, const Settings& settings) {
    return std::to_string(udp_sockets_of_address(settings));
}

Refusal set_hash_algorithm(const Option& option, Settings& settings, const char* text, std::string&) {
    for (std::string_view name : {"jenkins", "murmur3", "xxh3"})
        if (name == text) return keep_compat(option, settings, text);
    return refuse(option, text);
}

// Without an argument: on.
Refusal set_slab_automove(const Option& option, Settings& settings, const char* text,
                          std::string& warnings) {
    std::string_view given = text == nullptr ? "1" : text;
    if (given == "no") given = "0";
    return set_compat_number(option, settings, std::string(given).c_str(), warnings);
}

// Giving it also enables the LRU of short-lived items.
Refusal set_temporary_ttl(const Option& option, Settings& settings, const char* text,
                          std::string& warnings) {
    settings.compat["temp_lru"] = "yes";
    return set_compat_number(option, settings, text, warnings);
}

std::string write_temporary_ttl(const Option& option, const Settings& settings) {
    return compat_value(settings, "temp_lru") == "yes" ? show_compat(option, settings) : std::string();
}

#ifdef FARCACHED_OPENSSL
constexpr bool has_openssl = true;
#else
constexpr bool has_openssl = false;
#endif
#ifdef FARCACHED_LIBSASL2
constexpr bool has_libsasl2 = true;
#else
constexpr bool has_libsasl2 = false;
#endif

// Refused if the library that it needs is not built in.
Refusal set_if_built(bool is_built, const Option& option, const char* text, bool& on) {
    on = text == nullptr || std::string_view(text) == "yes";
    return on && !is_built ? refuse(option, "") : Refusal();
}

Refusal set_tls(const Option& option, Settings& settings, const char* text, std::string&) {
    return set_if_built(has_openssl, option, text, settings.tls.enabled);
}

Refusal set_sasl(const Option& option, Settings& settings, const char* text, std::string&) {
    return set_if_built(has_libsasl2, option, text, settings.session.sasl);
}

std::string show_tls_version(const Option&, const Settings& settings) {
    return "tlsv1." + std::to_string(settings.tls.version_min);
}

// memcached shows the library's flags: verify 1, refuse a client without a certificate 2, verify once 4.
std::string show_tls_verification(const Option&, const Settings& settings) {
    constexpr std::array<std::string_view, 4> flags = {"0", "1", "3", "7"};
    return std::string(flags[settings.tls.verify_mode]);
}

std::string show_lru_segmented(const Option&, const Settings& settings) {
    return compat_value(settings, "lru_maintainer_thread");
}

Refusal set_no_chunked_items(const Option&, Settings& settings, const char*, std::string&) {
    settings.compat["slab_chunk_max"] = "1048576";
    return {};
}

// no_modern: the settings of memcached 1.4. `modern` equals today's defaults.
Refusal set_modern(const Option&, Settings& settings, const char* text, std::string&) {
    if (text == nullptr) return {};
    CHECK(std::string_view(text) == "no");
    settings.session.reject_over_limit = false;
    settings.crawler.enabled = false;
    settings.compat["slab_reassign"] = "no";
    settings.compat["lru_maintainer_thread"] = "no";
    settings.compat["slab_automove"] = "0";
    settings.compat["slab_chunk_max"] = "1048576";
    settings.compat["hash_algorithm"] = "jenkins";
    return {};
}

Refusal set_deprecated(const Option& option, Settings&, const char*, std::string& warnings) {
    warnings += refuse(option, "").text;
    return {};
}

Refusal set_unavailable(const Option& option, Settings&, const char* text, std::string&) {
    return refuse(option, text == nullptr ? "" : text);
}

std::string show_initial(const Option& option, const Settings&) { return std::string(option.initial); }

std::string show_or_null(const Option& option, const Settings& settings) {
    std::string text = option.kind.show(option, settings);
    return text.empty() ? "NULL" : text;
}

std::string show_or_no(const Option& option, const Settings& settings) {
    std::string text = option.kind.show(option, settings);
    return text.empty() ? "no" : text;
}

std::string show_or_bracketed_null(const Option& option, const Settings& settings) {
    std::string text = option.kind.show(option, settings);
    return text.empty() ? "(null)" : text;
}

namespace {

// PORT alone is one of 127.0.0.1.
Refusal take_http_address(const Option& option, const char* text, std::string& host, uint16_t& port) {
    const std::string_view given = text;
    const bool only_port = !given.empty() && given.find_first_not_of("0123456789") == given.npos;
    return take_listen_address(option, text, only_port ? "127.0.0.1:" + std::string(given) : std::string(given), host, port);
}

}  // namespace

Refusal set_http(const Option& option, Settings& settings, const char* text, std::string&) {
    return take_http_address(option, text, settings.admin.http_host, settings.admin.http_port);
}

Refusal set_http_health(const Option& option, Settings& settings, const char* text, std::string&) {
    return take_http_address(option, text, settings.admin.health_host, settings.admin.health_port);
}

Refusal take_listen_address(const Option& option, const char* given, std::string_view full, std::string& host, uint16_t& port) {
    const Refusal wrong = parse_host_and_port(full, "", 0, host, port);
    if (!wrong) return {};
    return Problem{option.exit_status, spelled(option) + " " + given + ": " + wrong->text + "\n"};
}

std::string show_http(const Option&, const Settings& settings) {
    return host_and_port(settings.admin.http_host, settings.admin.http_port);
}

std::string show_http_health(const Option&, const Settings& settings) {
    return host_and_port(settings.admin.health_host, settings.admin.health_port);
}

}  // namespace farcached::conf
