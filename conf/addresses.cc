// SPDX-License-Identifier: BSD-3-Clause
#include "conf/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/limits.h"
#include "base/nearest.h"
#include "conf/comma_list.h"

namespace farcached::conf {

namespace {

constexpr size_t path_bytes_max = sizeof(sockaddr_un::sun_path) - 1;
constexpr size_t host_bytes_max = 253;     // of a DNS name
constexpr size_t hash_as_bytes_max = 260;  // such a name with a port
static_assert(limits::node_weight_max == 65535, "said in the table below");
static_assert(limits::node_name_bytes_max == 63, "said in the table below");

constexpr std::array<std::string_view, 3> channel_names = {"shm", "tcp", "verbs"};

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}
bool is_control(char c) { return (c >= 0 && c < ' ') || c == 0x7f; }
bool is_printable(char c) { return c > ' ' && c < 0x7f; }
bool is_host_character(char c) { return is_printable(c) && c != ',' && c != '[' && c != ']'; }

template <class Number>
bool parse_whole(std::string_view text, uint64_t min, uint64_t max, Number& number) {
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return false;
    if (value < min || value > max) return false;
    number = Number(value);
    return true;
}

Refusal wrong(std::string text) { return Problem{exit_usage, std::move(text)}; }

bool is_ipv6(std::string_view text) {
    std::string address(text.substr(0, text.find('%')));  // a zone may follow
    in6_addr bytes;
    return inet_pton(AF_INET6, address.c_str(), &bytes) == 1;
}

}  // namespace

bool is_node_name(std::string_view text) {
    if (text.empty() || text.size() > limits::node_name_bytes_max) return false;
    return std::all_of(text.begin(), text.end(), is_name_character);
}

bool is_socket_path(std::string_view path) {
    if (path.empty() || path.size() > path_bytes_max) return false;
    return std::none_of(path.begin(), path.end(), is_control);
}

bool is_admin_path(std::string_view path) {
    const size_t colon = path.rfind(':');
    const std::string_view port = colon == path.npos ? "" : path.substr(colon + 1);
    const bool has_port = !port.empty() && port.find_first_not_of("0123456789") == port.npos;
    return is_socket_path(path) && !(has_port && path.find('/') == path.npos);
}

Refusal parse_host_and_port(std::string_view text, std::string_view channel, uint16_t port_min,
                            std::string& host, uint16_t& port) {
    const std::string prefix(channel), lead = channel.empty() ? "" : prefix + " ";
    size_t colon = text.rfind(':');
    std::string_view found = text.substr(0, colon);
    if (text.starts_with('[')) {
        size_t close = text.find(']');
        if (close == std::string_view::npos) return wrong("the bracket of " + in_quotes(text) + " is not closed");
        found = text.substr(1, close - 1);
        if (!is_ipv6(found)) return wrong(in_quotes(found) + " in brackets is not an IPv6 address");
        colon = close + 1;
        if (colon == text.size()) return wrong(lead + "needs a port after " + in_quotes(text));
        if (text[colon] != ':') {
            return wrong(in_quotes(text.substr(colon)) + " follows the bracket instead of :PORT");
        }
    } else if (is_ipv6(text) || found.find(':') != std::string_view::npos) {
        return wrong("an IPv6 address needs brackets, as in " + prefix + "[::1]:11300; found " + in_quotes(text));
    } else if (colon == std::string_view::npos) {
        return wrong(lead + "needs a host and a port, as in " + prefix + "10.0.0.1:11300; found " + in_quotes(text));
    }
    if (found.empty() || found.size() > host_bytes_max ||
        !std::all_of(found.begin(), found.end(), is_host_character)) {
        return wrong(in_quotes(found) + " is not a host");
    }
    if (!parse_whole(text.substr(colon + 1), port_min, 65535, port)) {
        return wrong(in_quotes(text.substr(colon + 1)) + " is not a port; allowed: " + std::to_string(port_min) +
                     " to 65535");
    }
    host = found;
    return {};
}

std::string host_and_port(const std::string& host, uint16_t port) {
    if (host.empty()) return {};
    return (host.find(':') == host.npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

namespace {

Refusal take_name(NodeSpec& spec, std::string_view text) {
    if (!is_node_name(text)) return wrong("");
    spec.name = text;
    return {};
}

Refusal take_path(NodeSpec& spec, std::string_view path) {
    if (path.empty()) return wrong("shm: needs the path of the node's Unix socket, as in shm:/run/farnode/a.sock");
    if (path.size() > path_bytes_max) {
        return wrong("the path of a Unix socket has " + std::to_string(path_bytes_max) + " bytes at most, " +
                     in_quotes(path) + " has " + std::to_string(path.size()));
    }
    if (std::any_of(path.begin(), path.end(), is_control)) {
        return wrong("the path has a character that is not printable");
    }
    spec.channel = NodeChannel::shm;
    spec.path = path;
    return {};
}

Refusal take_host_and_port(NodeSpec& spec, NodeChannel channel, std::string_view prefix,
                           std::string_view text) {
    Refusal wrong = parse_host_and_port(text, prefix, 1, spec.host, spec.port);
    if (!wrong) spec.channel = channel;
    return wrong;
}

Refusal take_address(NodeSpec& spec, std::string_view text) {
    size_t colon = text.find(':');
    if (colon == std::string_view::npos) return wrong("");
    std::string_view channel = text.substr(0, colon), rest = text.substr(colon + 1);
    if (channel == "shm") return take_path(spec, rest);
    if (channel == "tcp") return take_host_and_port(spec, NodeChannel::tcp, "tcp:", rest);
    if (channel == "verbs") return take_host_and_port(spec, NodeChannel::verbs, "verbs:", rest);
    return wrong(unknown_word("channel", channel, channel_names));
}

Refusal take_weight(NodeSpec& spec, std::string_view text) {
    if (!parse_whole(text, 1, limits::node_weight_max, spec.weight)) return wrong("");
    return {};
}

Refusal take_hash_as(NodeSpec& spec, std::string_view text) {
    if (text.empty() || text.size() > hash_as_bytes_max) return wrong("");
    if (!std::all_of(text.begin(), text.end(), is_printable)) return wrong("");
    spec.hash_as = text;
    return {};
}

constexpr NodeKey keys[] = {
    {.name = "name", .required = true, .allowed = "1 to 63 letters, digits, and any of . _ -",
     .help = "name in messages and statistics, and for hashing", .take = take_name},
    {.name = "address", .required = true,
     .allowed = "shm:PATH, tcp:HOST:PORT or verbs:HOST:PORT, with brackets around an IPv6 address",
     .help = "shm:PATH, the node's Unix socket, when it is on this host; tcp:HOST:PORT; verbs:HOST:PORT,\n"
             "over RDMA",
     .take = take_address},
    {.name = "weight", .value = Value::integer, .allowed = "a whole number from 1 to 65535",
     .help = "its share of the keys, relative to the other nodes; default 1", .take = take_weight},
    {.name = "hash_as", .allowed = "HOST:PORT, up to 260 characters without blanks",
     .help = "hashed as this instead of by name: HOST:PORT as in clients of libmemcached or\n"
             "nutcracker, which keeps their keys in place",
     .take = take_hash_as},
};

constexpr size_t given_bytes_max = 64;  // of a value quoted in a message

std::string origin_or_name(const NodeSpec& node) {
    return node.origin.empty() ? "node " + in_quotes(node.name) : node.origin;
}

}  // namespace

std::span<const NodeKey> node_keys() { return keys; }

std::vector<std::string_view> node_key_names() {
    std::vector<std::string_view> names;
    for (const NodeKey& key : keys) names.push_back(key.name);
    return names;
}

void take_node_key(const NodeKey& key, std::string_view text, NodeSpec& spec, Complaints& complaints) {
    const Refusal why = key.take(spec, text);
    if (!why) return;
    std::string complaint = std::string(key.name) + ": ";
    complaint += why->text.empty() ? "found " + in_quotes(text.substr(0, given_bytes_max)) + "; allowed: " +
                                    std::string(key.allowed)
                              : why->text;
    complaints.push_back(std::move(complaint));
}

std::variant<NodeSpec, Complaints> parse_node(std::string_view text) {
    NodeSpec spec;
    Complaints complaints;
    size_t equals = text.find('=');
    if (equals == std::string_view::npos) {
        return Complaints{"found " + in_quotes(text.substr(0, given_bytes_max)) +
                          "; allowed: NAME=ADDRESS[,weight=N][,hash_as=HOST:PORT]"};
    }
    take_node_key(keys[0], text.substr(0, equals), spec, complaints);
    std::string_view rest = text.substr(equals + 1);
    size_t comma = rest.find(',');
    take_node_key(keys[1], rest.substr(0, comma), spec, complaints);
    const std::vector<std::string_view> all = node_key_names();
    const std::span<const std::string_view> further = std::span(all).subspan(2);
    std::vector<std::string_view> met;
    while (comma != std::string_view::npos) {
        rest.remove_prefix(comma + 1);
        comma = rest.find(',');
        std::string_view pair = rest.substr(0, comma);
        std::string_view name = pair.substr(0, pair.find('='));
        auto known = std::find_if(std::begin(keys) + 2, std::end(keys),
                                  [&](const NodeKey& key) { return key.name == name; });
        if (known == std::end(keys)) {
            complaints.push_back(unknown_word("key", name, further));
        } else if (std::find(met.begin(), met.end(), name) != met.end()) {
            complaints.push_back(std::string(name) + " is given twice");
        } else {
            std::string_view value = pair.size() > name.size() ? pair.substr(name.size() + 1) : "";
            take_node_key(*known, value, spec, complaints);
        }
        met.push_back(name);
    }
    if (!complaints.empty()) return complaints;
    spec.origin = "--node " + std::string(text);
    return spec;
}

std::vector<std::string> addresses_of(const NodeSpec& spec) {
    if (spec.channel == NodeChannel::shm) return {"shm:" + spec.path};
    const std::string channel = spec.channel == NodeChannel::verbs ? "verbs:" : "tcp:";
    if (spec.addresses.empty()) return {channel + host_and_port(spec.host, spec.port)};
    std::vector<std::string> addresses;
    for (const std::string& one : spec.addresses) addresses.push_back(channel + host_and_port(one, spec.port));
    return addresses;
}

std::string address_of(const NodeSpec& spec) {
    std::string text;
    for (const std::string& one : addresses_of(spec)) text += (text.empty() ? "" : ",") + one;
    return text;
}

Complaints check_nodes(const ProxySettings& settings) {
    Complaints complaints;
    if (settings.nodes.size() > limits::nodes_max) {
        complaints.push_back(std::to_string(settings.nodes.size()) + " nodes; allowed: up to " +
                             std::to_string(limits::nodes_max));
    }
    if (!settings.nodes.empty() && std::ranges::all_of(settings.nodes, [](const NodeSpec& node) { return node.weight == 0; }))
        complaints.push_back("every node has weight 0; at least one must have keys");
    bool weighs = settings.distribution == Distribution::ketama ||
                  settings.distribution == Distribution::ketama_weighted;
    std::map<std::string, const NodeSpec*> names, addresses;
    for (const NodeSpec& node : settings.nodes) {
        auto [named, new_name] = names.emplace(node.name, &node);
        if (!new_name) {
            complaints.push_back(origin_or_name(node) + ": the name " + in_quotes(node.name) +
                                 " is taken by " + origin_or_name(*named->second));
        }
        for (const std::string& address : addresses_of(node)) {
            auto [reached, new_address] = addresses.emplace(address, &node);
            if (new_address) continue;
            complaints.push_back(origin_or_name(node) + ": the address " + address + " is that of " +
                                 origin_or_name(*reached->second) + " already");
        }
        if (node.weight > 1 && !weighs) {
            complaints.push_back(origin_or_name(node) + ": weight " + std::to_string(node.weight) +
                                 " has no effect in distribution '" +
                                 std::string(name_of(settings.distribution)) +
                                 "'; allowed: 1, or a distribution with weights: ketama, ketama_weighted");
        }
    }
    return complaints;
}

// ---- addresses to listen on ---------------------------------------------------------------------------------
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
        std::string name = host_name_of(take_listed(list, more));
        if (name.empty()) return {};
        names.push_back(std::move(name));
    }
    return names;
}

// ---- what clients learn -------------------------------------------------------------------------------------
std::vector<ClientAddress> cluster_members_of(std::string_view list) {
    std::vector<ClientAddress> members;
    std::set<std::string> known;
    for (bool more = true; more;) {
        const std::optional<ClientAddress> member = advertised_of(take_listed(list, more));
        if (!member.has_value() || member->port == 0) return {};
        if (!known.insert(host_and_port(member->host, member->port)).second) return {};
        members.push_back(*member);
    }
    return members;
}

std::vector<std::string> key_prefixes_of(std::string_view list) {
    std::vector<std::string> prefixes;
    const auto is_impossible = [](char c) { return uint8_t(c) <= ' ' || c == 0x7f; };
    for (bool more = true; more;) {
        const std::string_view prefix = take_listed(list, more);
        if (prefix.empty() || prefix.size() > limits::key_bytes_max || std::ranges::any_of(prefix, is_impossible)) return {};
        prefixes.emplace_back(prefix);
    }
    return prefixes;
}

std::optional<ClientAddress> advertised_of(std::string_view text) {
    if (text.find('|') != text.npos) return {};  // it separates the columns of the list that clients get
    ClientAddress address;
    if (!parse_host_and_port(text, "", 1, address.host, address.port)) return address;
    if (parse_host_and_port(std::string(text) + ":1", "", 1, address.host, address.port)) return {};
    address.port = 0;
    return address;
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

struct TlsPrefix {
    std::string_view text;
    TlsMode mode;
};
constexpr TlsPrefix tls_prefixes[] = {
    {"notls:", TlsMode::plain}, {"btls:", TlsMode::unverified}, {"mtls:", TlsMode::verified}};

// False: none, or `refusal` has the error.
bool take_tls(std::string_view& text, ListenAddress& address, const ListenSettings& settings, bool tls, Refusal& refusal) {
    const auto found = std::ranges::find_if(tls_prefixes, [&](const TlsPrefix& one) { return text.starts_with(one.text); });
    if (found == std::end(tls_prefixes)) return false;
    const std::string_view word = found->text.substr(0, found->text.size() - 1);
    if (!tls) {
        refusal = cannot_listen(in_quotes(word) + " option is valid only when SSL is enabled", settings);
        return false;
    }
    if (address.tls != TlsMode::configured) {
        refusal = cannot_listen("Second TLS prefix: \"" + std::string(text) + "\" (one of notls:, btls: and mtls:)", settings);
        return false;
    }
    text.remove_prefix(found->text.size());
    address.tls = found->mode;
    return true;
}

// Removes the prefixes before the address, in any order.
Refusal take_prefixes(std::string_view& text, ListenAddress& address, const ListenSettings& settings, bool tls) {
    std::string_view name;
    for (;;) {
        std::string_view before = text;
        Refusal refusal;
        if (take_tls(text, address, settings, tls, refusal)) continue;
        if (refusal) return refusal;
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
    if (!port.empty() && !parse_whole(port.substr(1), 0, 65535, address.port)) {
        return cannot_listen("Invalid port number: \"" + std::string(port.substr(1)) + "\"", settings);
    }
    if (host != "*") address.host = host;
    return {};
}

// port: of an address without one.
Result<std::vector<ListenAddress>> addresses_of(const ListenSettings& settings, int32_t port, bool tls) {
    std::vector<ListenAddress> addresses;
    if (!settings.unix_path.empty() || port == 0) return addresses;
    ListenAddress fallback;
    fallback.port = port == -1 ? 0 : uint16_t(port);
    fallback.protocol = settings.protocol;
    fallback.tls = tls ? TlsMode::configured : TlsMode::plain;
    std::string_view rest = settings.interfaces;
    while (!rest.empty()) {
        size_t end = rest.find_first_of(",;");
        std::string_view one = rest.substr(0, end);
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
        if (one.empty()) continue;
        ListenAddress address = fallback;
        if (Refusal refusal = take_prefixes(one, address, settings, tls)) return *refusal;
        if (Refusal refusal = take_host_and_port(one, address, settings)) return *refusal;
        addresses.push_back(std::move(address));
    }
    if (settings.interfaces.empty()) addresses.push_back(fallback);
    if (addresses.empty()) return cannot_listen("No address to listen on", settings);
    return addresses;
}

}  // namespace

Protocol protocol_of(const Settings& settings, Protocol chosen) {
    if (chosen != Protocol::any) return chosen;
    if (settings.session.sasl) return Protocol::binary;
    return settings.session.auth_file.empty() ? Protocol::any : Protocol::text;
}

Result<std::vector<ListenAddress>> listen_addresses(const ListenSettings& settings, bool tls) {
    return addresses_of(settings, settings.port, tls);
}

Result<std::vector<ListenAddress>> udp_addresses(const ListenSettings& settings) {
    return addresses_of(settings, settings.udp_port, /* tls= */ false);
}

uint32_t udp_sockets_of_address(const Settings& settings) {
    const bool several = settings.listen.interfaces.find(',') != std::string::npos;
    return several ? 1 : settings.session.threads;
}

}  // namespace farcached::conf
