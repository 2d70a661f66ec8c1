// SPDX-License-Identifier: BSD-3-Clause
#include "conf/listen_address.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace farcached::conf {

namespace {

bool is_listener_character(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'; }

}  // namespace

std::string host_name_of(std::string_view text) {
    constexpr size_t name_bytes_max = 253;
    if (text.ends_with('.')) text.remove_suffix(1);
    std::string name(text);
    for (char& c : name)
        if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
    const bool good = name.size() <= name_bytes_max && std::all_of(name.begin(), name.end(), is_listener_character);
    return good ? name : std::string();
}

std::vector<std::string> host_names_of(std::string_view list) {
    std::vector<std::string> names;
    for (bool more = true; more;) {
        const size_t comma = list.find(',');
        more = comma != list.npos;
        std::string name = host_name_of(list.substr(0, comma));
        if (name.empty()) return {};
        names.push_back(std::move(name));
        if (more) list.remove_prefix(comma + 1);
    }
    return names;
}

namespace {

// As memcached: first the error, then the failed action, with the text of errno.
Problem cannot_listen(const std::string& why, const ListenSettings& settings) {
    return {exit_system, why + "\nfailed to listen on one of interface(s) " + settings.interfaces +
                             ": Invalid argument\n"};
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
}

// "name]:rest": the name; text becomes the rest.
bool take_bracketed(std::string_view& text, std::string_view& name) {
    size_t end = text.find("]:");
    if (end == std::string_view::npos) return false;
    name = text.substr(0, end);
    text.remove_prefix(end + 2);
    return true;
}

// Removes the prefixes before the address, in any order.
Refusal take_prefixes(std::string_view& text, ListenAddress& address, const ListenSettings& settings) {
    std::string_view name;
    for (;;) {
        std::string_view before = text;
        if (take_prefix(text, "notls:")) continue;
        if (take_prefix(text, "btls:") || take_prefix(text, "mtls:")) {
            return Problem{exit_usage, "-l " + std::string(before) + ": TLS is not implemented.\n"};
        }
        if (take_prefix(text, "tag[")) {
            if (!take_bracketed(text, name)) {
                return cannot_listen("Invalid tag: \"" + std::string(before) + "\"", settings);
            }
            address.tag = name;
            continue;
        }
        if (!take_prefix(text, "proto[")) return {};
        bool good = take_bracketed(text, name);
        if (good && name == "ascii") {
            address.protocol = Protocol::text;
        } else if (good && name == "binary") {
            address.protocol = Protocol::binary;
        } else {
            return cannot_listen("Invalid protocol: \"" + std::string(before) +
                                     "\" (proto[ascii]: or proto[binary]:)", settings);
        }
    }
}

bool parse_port(std::string_view text, uint16_t& port) {
    int value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return false;
    if (value < 0 || value > 65535) return false;
    port = uint16_t(value);
    return true;
}

// An address with more than one colon and no brackets is IPv6 without a port.
Refusal take_host_and_port(std::string_view text, ListenAddress& address,
                           const ListenSettings& settings) {
    std::string_view host = text, port;
    if (take_prefix(text, "[")) {
        size_t end = text.find(']');
        std::string_view after = end == std::string_view::npos ? "" : text.substr(end + 1);
        if (end == std::string_view::npos || !(after.empty() || after.starts_with(":"))) {
            return cannot_listen("Invalid IPV6 address: \"[" + std::string(text) + "\"", settings);
        }
        host = text.substr(0, end);
        port = after;
    } else if (size_t colon = text.find(':'); colon != std::string_view::npos &&
                                              text.find(':', colon + 1) == std::string_view::npos) {
        host = text.substr(0, colon);
        port = text.substr(colon);
    }
    if (!port.empty() && !parse_port(port.substr(1), address.port)) {
        return cannot_listen("Invalid port number: \"" + std::string(port.substr(1)) + "\"", settings);
    }
    if (host != "*") address.host = host;
    return {};
}

}  // namespace

Result<std::vector<ListenAddress>> listen_addresses(const ListenSettings& settings) {
    std::vector<ListenAddress> addresses;
    if (!settings.unix_path.empty() || settings.port == 0) return addresses;
    ListenAddress fallback;
    fallback.port = settings.port == -1 ? 0 : uint16_t(settings.port);
    fallback.protocol = settings.protocol;
    std::string_view rest = settings.interfaces;
    while (!rest.empty()) {
        size_t end = rest.find_first_of(",;");
        std::string_view one = rest.substr(0, end);
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
        if (one.empty()) continue;
        ListenAddress address = fallback;
        if (Refusal refusal = take_prefixes(one, address, settings)) return *refusal;
        if (Refusal refusal = take_host_and_port(one, address, settings)) return *refusal;
        addresses.push_back(std::move(address));
    }
    if (settings.interfaces.empty()) addresses.push_back(fallback);
    if (addresses.empty()) return cannot_listen("No address to listen on", settings);
    return addresses;
}

}  // namespace farcached::conf
