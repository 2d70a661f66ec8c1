// SPDX-License-Identifier: BSD-3-Clause
// The kinds of option values: how each is parsed, checked and shown. The templates bind a kind to one field of Settings:
// number<&Settings::session, &SessionSettings::threads>(1, 1024).
//
// Constants, and functions without state; any thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "conf/addresses.h"
#include "conf/option.h"
#include "conf/words.h"

namespace farcached::conf {

// A struct in a struct of Settings, as a module: text<in<&Settings::proxy, &ProxySettings::discovery>, &DiscoverySettings::ca>().
template <auto outer, auto inner>
struct In {};
template <auto outer, auto inner>
inline constexpr In<outer, inner> in{};

template <class Module>
auto& part(Settings& settings, Module Settings::*module) {
    return settings.*module;
}
template <auto outer, auto inner>
auto& part(Settings& settings, In<outer, inner>) {
    return (settings.*outer).*inner;
}
template <class Module>
const auto& part(const Settings& settings, Module Settings::*module) {
    return settings.*module;
}
template <auto outer, auto inner>
const auto& part(const Settings& settings, In<outer, inner>) {
    return (settings.*outer).*inner;
}

template <auto module, auto field>
auto& at(Settings& settings) {
    return part(settings, module).*field;
}
template <auto module, auto field>
const auto& at(const Settings& settings) {
    return part(settings, module).*field;
}

template <auto module, auto field>
void copy_field(const Settings& from, Settings& to) {
    at<module, field>(to) = at<module, field>(from);
}

// -- Shared functions (conf/kinds.cc) -------------------------------------------------------------------

struct NumberRead {
    NumberFault fault = NumberFault::no_number;
    int64_t value = 0;        // in the option's unit
    bool cut = false;         // other characters follow

    bool good() const { return fault == NumberFault::none; }
};
// Reads the leading digits, as memcached does, and a unit.
NumberRead read_number(const Option& option, const std::string& text);
// The same, and warns if other characters follow.
NumberRead read_number(const Option& option, const char* text, std::string& warnings);
bool read_real(const Option& option, const char* text, double& value);
// Reads the leading digits, as memcached's flags do, and warns if other characters follow.
bool read_real(const Option& option, const char* text, double& value, std::string& warnings);
bool read_octal(const Option& option, const char* text, uint32_t& value);

// An address to listen on. full: `given` with a host.
Refusal take_listen_address(const Option& option, const char* given, std::string_view full, std::string& host, uint16_t& port);

std::string fixed(double value, int digits);  // "%.*f"
std::string shortest(double value);           // shortest text that reads back as the same value
std::string yes_no(bool value);

// Sets the unit of the kind's numbers.
constexpr Kind counted_in(Unit unit, Kind kind) {
    kind.unit = unit;
    return kind;
}

// -- Kinds bound to a field ----------------------------------------------------------------------------

// The option sets the field to `given`. Its texts are "yes" and "no", in the default, for no_<name> and in a file; they refer
// to the option, not the field. `show` returns the field.
template <auto module, auto field, bool given = true>
constexpr Kind toggle() {
    return {.set = [](const Option&, Settings& settings, const char* text, std::string&) -> Refusal {
                const bool on = text == nullptr || std::string_view(text) == "yes";
                at<module, field>(settings) = on == given;
                return {};
            },
            .show = [](const Option&, const Settings& settings) { return yes_no(at<module, field>(settings)); },
            .value = Value::boolean,
            .write = [](const Option&, const Settings& settings) {
                return yes_no(at<module, field>(settings) == given);
            },
            .copy = copy_field<module, field>};
}

template <auto module, auto field>
constexpr Kind number(double min, double max, uint64_t scale = 1) {
    return {.set = [](const Option& option, Settings& settings, const char* text,
                      std::string& warnings) -> Refusal {
                NumberRead read = read_number(option, text, warnings);
                if (!read.good()) return refuse(option, text);
                auto& value = at<module, field>(settings);
                value = std::remove_reference_t<decltype(value)>(read.value * int64_t(option.kind.scale));
                return {};
            },
            .show = [](const Option&, const Settings& settings) {
                return std::to_string(at<module, field>(settings));
            },
            .min = min,
            .max = max,
            .scale = scale,
            .value = Value::integer,
            .write = [](const Option& option, const Settings& settings) {
                return std::to_string(int64_t(at<module, field>(settings)) / int64_t(option.kind.scale));
            },
            .copy = copy_field<module, field>};
}

// Above min and below max; shown with two decimals.
template <auto module, auto field>
constexpr Kind real(double min, double max) {
    return {.set = [](const Option& option, Settings& settings, const char* text, std::string& warnings) -> Refusal {
                double value = 0;
                if (!read_real(option, text, value, warnings)) return refuse(option, text);
                at<module, field>(settings) = value;
                return {};
            },
            .show = [](const Option&, const Settings& settings) { return fixed(at<module, field>(settings), 2); },
            .min = min,
            .max = max,
            .value = Value::real,
            .write = [](const Option&, const Settings& settings) { return shortest(at<module, field>(settings)); },
            .copy = copy_field<module, field>};
}

template <auto module, auto field>
constexpr Kind text() {
    return {.set = [](const Option&, Settings& settings, const char* value, std::string&) -> Refusal {
                at<module, field>(settings) = value;
                return {};
            },
            .show = [](const Option&, const Settings& settings) { return at<module, field>(settings); },
            .value = Value::text,
            .copy = copy_field<module, field>};
}

// A text accepted by `good`; the row describes valid texts in `allowed`.
template <auto module, auto field>
constexpr Kind checked_text(bool (*good)(std::string_view)) {
    Kind kind = text<module, field>();
    kind.good = good;
    kind.set = [](const Option& option, Settings& settings, const char* value, std::string&) -> Refusal {
        if (!option.kind.good(value)) return refuse(option, value);
        at<module, field>(settings) = value;
        return {};
    };
    return kind;
}

// Several, with commas between them or in an array.
constexpr Kind list_of(Kind kind) {
    kind.several = true;
    return kind;
}

// One of a few words; the field is an enumeration in their order.
template <auto module, auto field>
constexpr Kind choice(std::span<const std::string_view> words) {
    return {.set = [](const Option& option, Settings& settings, const char* value,
                      std::string&) -> Refusal {
                const auto words_of_it = option.kind.choices;
                auto found = std::find(words_of_it.begin(), words_of_it.end(), std::string_view(value));
                if (found == words_of_it.end()) return refuse(option, value);
                auto& chosen = at<module, field>(settings);
                chosen = std::remove_reference_t<decltype(chosen)>(found - words_of_it.begin());
                return {};
            },
            .show = [](const Option& option, const Settings& settings) {
                return std::string(option.kind.choices[size_t(at<module, field>(settings))]);
            },
            .value = Value::text,
            .choices = words,
            .copy = copy_field<module, field>};
}

template <auto module, auto field>
constexpr Kind power_of_two(double min, double max) {
    Kind kind = number<module, field>(min, max);
    kind.power_of_two = true;
    return kind;
}

// -- Kinds that only `stats settings` shows (Settings::compat) ------------------------------------------

constexpr double any_u32 = std::numeric_limits<uint32_t>::max();

Set set_compat_toggle, set_compat_number, set_compat_real, set_compat_text, set_nothing;
Show show_compat, write_compat_number;

constexpr Kind compat_toggle{.set = set_compat_toggle, .show = show_compat, .value = Value::boolean};
constexpr Kind compat_text{.set = set_compat_text, .show = show_compat, .value = Value::text};
constexpr Kind ignored{.set = set_nothing};  // any argument or none
constexpr Kind compat_number(double min, double max, uint64_t scale = 1) {
    return {.set = set_compat_number,
            .show = show_compat,
            .min = min,
            .max = max,
            .scale = scale,
            .value = Value::integer,
            .write = write_compat_number};
}
// Above min and below max; shown with `digits` decimals.
constexpr Kind compat_real(double min, double max, uint64_t digits) {
    return {.set = set_compat_real, .show = show_compat, .min = min, .max = max, .scale = digits, .value = Value::real};
}

// The name under which a row's value is stored.
std::string_view compat_name(const Option& option);
std::string compat_value(const Settings& settings, std::string_view name);
double compat_real_value(const Settings& settings, std::string_view name);

// -- Kinds of one option each (conf/kinds.cc) -----------------------------------------------------

Set set_tcp_port, set_udp_port, set_interfaces, set_unix_mode, set_protocol, set_item_size, set_delimiter, set_louder,
    set_hash_algorithm, set_slab_automove, set_temporary_ttl, set_tls, set_sasl, set_no_chunked_items,
    set_modern, set_deprecated, set_unavailable, set_http, set_http_health;
Show show_http, show_http_health, show_unix_mode, show_protocol, show_evictions, show_threads_per_udp, show_lru_segmented,
    show_initial, show_tls_version, show_tls_verification, write_protocol, write_delimiter, write_temporary_ttl;
// The result of kind.show, or memcached's word for an unset value; it has two such words.
Show show_or_no, show_or_null, show_or_bracketed_null;

constexpr Kind tcp_port = [] {
    Kind kind = number<&Settings::listen, &ListenSettings::port>(-1, 65535);
    kind.set = set_tcp_port;
    return kind;
}();
constexpr Kind udp_port = [] {
    Kind kind = number<&Settings::listen, &ListenSettings::udp_port>(-1, 65535);
    kind.set = set_udp_port;
    return kind;
}();
constexpr Kind interfaces{.set = set_interfaces,
                          .show = text<&Settings::listen, &ListenSettings::interfaces>().show,
                          .value = Value::text,
                          .several = true};
constexpr Kind unix_mode{.set = set_unix_mode, .show = show_unix_mode, .max = 0777, .value = Value::text};
constexpr Kind protocol_name{
    .set = set_protocol, .show = show_protocol, .value = Value::text, .write = write_protocol};
constexpr Kind item_size{.set = set_item_size,
                         .show = number<&Settings::memory, &MemorySettings::item_bytes_max>(0, 0).show,
                         .min = 1024,
                         .max = 1024.0 * 1024 * 1024,
                         .value = Value::size,
                         .unit = Unit::bytes};
constexpr Kind delimiter{.set = set_delimiter,
                         .show = text<&Settings::admin, &AdminSettings::prefix_delimiter>().show,
                         .value = Value::text,
                         .write = write_delimiter};
constexpr double verbosity_max = 9;
constexpr Kind louder{.set = set_louder,
                      .show = number<&Settings::process, &ProcessSettings::verbosity>(0, 0).show,
                      .max = verbosity_max,
                      .value = Value::integer,
                      .copy = copy_field<&Settings::process, &ProcessSettings::verbosity>};
constexpr Kind hash_algorithm{.set = set_hash_algorithm, .show = show_compat, .value = Value::text};
constexpr Kind slab_automove{.set = set_slab_automove,
                             .show = show_compat,
                             .max = 2,
                             .value = Value::integer,
                             .write = write_compat_number};
constexpr Kind temporary_ttl{.set = set_temporary_ttl,
                             .show = show_compat,
                             .max = any_u32,
                             .value = Value::integer,
                             .write = write_temporary_ttl,
                             .unit = Unit::seconds};
constexpr Kind shown_by(Show* show, Kind kind) {
    kind.show = show;
    return kind;
}
constexpr Kind tls_version = shown_by(show_tls_version, number<&Settings::tls, &TlsSettings::version_min>(0, 3));
constexpr Kind tls_verification = shown_by(show_tls_verification, number<&Settings::tls, &TlsSettings::verify_mode>(0, 3));
// Refused by a program without OpenSSL.
constexpr Kind tls_toggle = [] {
    Kind kind = toggle<&Settings::tls, &TlsSettings::enabled>();
    kind.set = set_tls;
    return kind;
}();
// Refused by a program without libsasl2.
constexpr Kind sasl_toggle = [] {
    Kind kind = toggle<&Settings::session, &SessionSettings::sasl>();
    kind.set = set_sasl;
    return kind;
}();
constexpr Kind no_chunked_items{.set = set_no_chunked_items};
constexpr Kind modern{.set = set_modern};
constexpr Kind deprecated{.set = set_deprecated};
// Exists in memcached, not yet in farcached; shown as `initial`.
constexpr Kind unavailable{.set = set_unavailable, .show = show_initial};
// Never set; shown as `initial`.
constexpr Kind constant{.show = show_initial};

// --http, of both daemons.
constexpr Option http_option(Section section) {
    return {.name = "http", .argument = "<[addr:]port>", .kind = {.set = set_http, .show = show_http, .value = Value::text},
            .section = section, .exit_status = exit_usage,
            .allowed = "PORT, of 127.0.0.1, or ADDR:PORT, with brackets around an IPv6 address; port 0 to 65535",
            .help = "HTTP address of /metrics (Prometheus), /healthz and /readyz;\n"
                    "of farcached also of the status page / and /status.json.\n"
                    "An address, a name, an IPv6 address in brackets, or * for\n"
                    "all; 127.0.0.1 unless given. Port 0: chosen by the kernel\n"
                    "and written to the file that $FARCACHED_HTTP_PORT_FILENAME\n"
                    "names"};
}

// --http-names, of both daemons.
constexpr Option http_names_option(Section section) {
    return {.name = "http-names", .argument = "<list>",
            .kind = checked_text<&Settings::admin, &AdminSettings::http_names>(is_host_name_list),
            .section = section, .exit_status = exit_usage, .allowed = "host names with commas between them",
            .help = "comma-separated names of this host that Host headers of HTTP\n"
                    "requests may have. IP addresses, localhost, the kernel's\n"
                    "name of the host and the name in --http are always\n"
                    "allowed; other names get status 403"};
}

// Protection of --http, and --http-health, of both daemons.
constexpr Option http_token_file_option(Section section) {
    return {.name = "http-token-file", .argument = "<path>",
            .kind = text<&Settings::admin, &AdminSettings::http_token_file>(), .section = section, .exit_status = exit_usage,
            .help = "file of 1 to 8 lines, each a token of 16 to 256 printable\n"
                    "characters; other users may not read it. Requests to --http\n"
                    "need one as `Authorization: Bearer`, or as the password of\n"
                    "any user in a browser; /healthz and /readyz need none. A\n"
                    "reload reads the file again"};
}
constexpr Option http_cert_option(Section section) {
    return {.name = "http-cert", .argument = "<path>",
            .kind = text<&Settings::admin, &AdminSettings::http_cert>(), .section = section, .exit_status = exit_usage,
            .help = "file of a certificate chain in PEM: --http then speaks TLS\n"
                    "(1.2 or later) only. A reload reads it and --http-key again"};
}
constexpr Option http_key_option(Section section) {
    return {.name = "http-key", .argument = "<path>",
            .kind = text<&Settings::admin, &AdminSettings::http_key>(), .section = section, .exit_status = exit_usage,
            .help = "file of the key of --http-cert; unless given, the key is in\n"
                    "the file of the chain"};
}
constexpr Option http_health_option(Section section) {
    return {.name = "http-health", .argument = "<addr>",
            .kind = {.set = set_http_health, .show = show_http_health, .value = Value::text},
            .section = section, .exit_status = exit_usage,
            .allowed = "PORT, of 127.0.0.1, or ADDR:PORT, with brackets around an IPv6 address; port 0 to 65535",
            .help = "another HTTP address, as in --http, for /healthz and /readyz\n"
                    "only: without token and TLS, and of any interface"};
}

// --insecure, of both daemons.
constexpr Option insecure_option(Section section, std::string_view help) {
    return {.name = "insecure", .initial = "no", .kind = toggle<&Settings::process, &ProcessSettings::insecure>(),
            .section = section, .exit_status = exit_usage, .help = help};
}

// --admin, of both daemons.
// TLS of tcp links, of both programs.
constexpr Option peer_cert_option(Section section) {
    return {.name = "peer-cert", .argument = "<path>",
            .kind = text<&Settings::peer_tls, &PeerTlsSettings::certificate_path>(), .section = section,
            .exit_status = exit_usage,
            .help = "TLS for tcp links between farcached and farnode: this\n"
                    "process's certificate with its chain, PEM. Each end demands\n"
                    "the other's. A node's must name the host in its address.\n"
                    "Needs --peer-key and --peer-ca; a reload reads all three\n"
                    "again"};
}
constexpr Option peer_key_option(Section section) {
    return {.name = "peer-key", .argument = "<path>", .kind = text<&Settings::peer_tls, &PeerTlsSettings::key_path>(),
            .section = section, .exit_status = exit_usage, .help = "key of --peer-cert, PEM, without a password"};
}
// Access to etcd, of both daemons.
inline constexpr auto in_discovery = in<&Settings::proxy, &ProxySettings::discovery>;
inline bool is_absolute_path(std::string_view path) { return path.starts_with('/'); }
constexpr std::string_view absolute_path_allowed = "a path that begins with /";
constexpr Option discover_ca_option(Section section) {
    return {.name = "discover-ca", .argument = "<path>",
            .kind = checked_text<in_discovery, &DiscoverySettings::ca>(is_absolute_path), .section = section,
            .exit_status = exit_usage, .allowed = absolute_path_allowed,
            .help = "certificates of issuers, PEM, that etcd's certificate is\n"
                    "verified with (etcds://); unless given, the system's"};
}
constexpr Option discover_user_option(Section section) {
    return {.name = "discover-user", .argument = "<name>", .kind = text<in_discovery, &DiscoverySettings::user>(),
            .section = section, .exit_status = exit_usage, .help = "user of etcd; needs --discover-password-file"};
}
constexpr Option discover_password_option(Section section) {
    return {.name = "discover-password-file", .argument = "<path>",
            .kind = checked_text<in_discovery, &DiscoverySettings::password_file>(is_absolute_path), .section = section,
            .exit_status = exit_usage, .allowed = absolute_path_allowed,
            .help = "file with the password of --discover-user in its first line;\n"
                    "only its owner may access it. It is read for each new token"};
}
constexpr Option peer_ca_option(Section section) {
    return {.name = "peer-ca", .argument = "<path>", .kind = text<&Settings::peer_tls, &PeerTlsSettings::issuers_path>(),
            .section = section, .exit_status = exit_usage,
            .help = "issuers of the certificates that peers must have, PEM"};
}

constexpr Option admin_option(Section section) {
    return {.name = "admin", .argument = "<path>",
            .kind = checked_text<&Settings::admin, &AdminSettings::socket_path>(is_admin_path),
            .section = section, .exit_status = exit_usage, .allowed = admin_path_allowed,
            .help = "Unix socket of mode 0600 for the operator: statistics and\n"
                    "administrative commands, by farctl or nc"};
}

// Logging on stderr, of both daemons.
constexpr Option log_level_option(Section section) {
    return {.name = "log-level", .argument = "<level>", .initial = "notice",
            .kind = choice<&Settings::process, &ProcessSettings::log_level>(log_level_names), .section = section, .live = true,
            .exit_status = exit_usage,
            .help = "lowest level logged on stderr: error, warning, notice, info\n"
                    "or debug. -v includes info, -vv debug"};
}
constexpr Option log_format_option(Section section) {
    return {.name = "log-format", .argument = "<form>", .initial = "text",
            .kind = choice<&Settings::process, &ProcessSettings::log_format>(log_format_names), .section = section,
            .live = true, .exit_status = exit_usage,
            .help = "format of log lines on stderr: text (a sentence, then\n"
                    "name=value), or logfmt or json with time and level. Errors\n"
                    "in options are always text"};
}

constexpr std::string_view item_size_allowed = "a number of bytes, or one with its unit, from 1k to 1024m";

// Crash reports, of both daemons.
constexpr Option crash_request_option(Section section) {
    return {.name = "crash-request", .initial = "no", .kind = toggle<&Settings::process, &ProcessSettings::crash_request>(),
            .section = section, .exit_status = exit_usage,
            .help = "include the first 64 bytes of the current request in crash\n"
                    "reports; they may hold a key and a value"};
}

constexpr Kind drop_privileges = toggle<&Settings::process, &ProcessSettings::drop_privileges>();

// Configuration files, of both daemons.
constexpr Option config_option(Section section) {
    return {.name = "config", .argument = "<file>",
            .kind = text<&Settings::process, &ProcessSettings::config_path>(), .section = section, .in_file = false,
            .help = "TOML file, read before the other options; its keys are their\n"
                    "long names and the names of -o, with - or _ between words"};
}
constexpr Option check_config_option(Section section) {
    return {.name = "check-config", .argument = "<file>",
            .kind = text<&Settings::process, &ProcessSettings::config_path>(), .action = Action::check_config,
            .section = section, .in_file = false,
            .help = "check a file as --config reads it, report errors, and exit"};
}
constexpr Option print_config_option(Section section) {
    return {.name = "print-config", .action = Action::print_config, .section = section,
            .help = "print the effective settings as a file for --config, and\n"
                    "exit"};
}
constexpr Option print_limits_option(Section section) {
    return {.name = "print-limits", .action = Action::print_limits, .section = section,
            .help = "print the MemoryMax and TasksMax that the settings need, as\n"
                    "the units set them, and exit"};
}

}  // namespace farcached::conf
