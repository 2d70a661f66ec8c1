// SPDX-License-Identifier: BSD-3-Clause
// Parses the addresses of the configuration: the list of nodes, from the command line (--node NAME=ADDRESS[,KEY=VALUE]...) and
// from a file's [[node]] tables, where one table describes the keys of a node for both and for their help; and those to listen
// on, from -l, -p and -B.
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "conf/option.h"
#include "conf/program.h"
#include "conf/settings.h"

namespace farcached::conf {

using Complaints = std::vector<std::string>;  // one sentence each

struct NodeKey {
    std::string_view name;
    Value value = Value::text;          // type in a file
    bool required = false;
    std::string_view allowed;           // for messages, after "allowed: "
    std::string_view help;
    // Stores the value in the spec, or returns an error; text "": the value is not allowed.
    Refusal (*take)(NodeSpec& spec, std::string_view text) = nullptr;
};

std::span<const NodeKey> node_keys();
std::vector<std::string_view> node_key_names();

// Stores a value, or adds the error: "weight: found '0'; allowed: ...".
void take_node_key(const NodeKey& key, std::string_view text, NodeSpec& spec, Complaints& complaints);

// Parses NAME=ADDRESS[,KEY=VALUE]... as in --node. Returns all errors.
std::variant<NodeSpec, Complaints> parse_node(std::string_view text);

// 1 to limits::node_name_bytes_max letters, digits and ._-
bool is_node_name(std::string_view text);

// Whether a Unix socket can have this path.
bool is_socket_path(std::string_view path);
constexpr std::string_view socket_path_allowed =
    "the path of a Unix socket, 1 to 107 printable bytes";

// The same, and no address, which would become a file of that name: "127.0.0.1:9000" without a slash.
bool is_admin_path(std::string_view path);
constexpr std::string_view admin_path_allowed =
    "the path of a Unix socket, 1 to 107 printable bytes; it listens at no address (./NAME:NUMBER for a file of such a name)";

// "10.0.0.1:11300", "[::1]:11300": the host without brackets, not looked up. `channel`: the prefix as written, "tcp:" or empty,
// for messages.
Refusal parse_host_and_port(std::string_view text, std::string_view channel, uint16_t port_min,
                            std::string& host, uint16_t& port);

inline bool is_warm_source(std::string_view text) {
    std::string host;
    uint16_t port = 0;
    return !parse_host_and_port(text, "", 1, host, port) && !host.empty();
}

// The inverse; empty for an empty host.
std::string host_and_port(const std::string& host, uint16_t port);

// "shm:/run/a.sock", "tcp:[::1]:11300", "verbs:10.0.0.1:11300". Several only if the source of the list found several.
std::vector<std::string> addresses_of(const NodeSpec& spec);
// The same, with commas between.
std::string address_of(const NodeSpec& spec);

// Errors between the nodes, and between them and the other settings: "ORIGIN: ...".
Complaints check_nodes(const ProxySettings& settings);

// Parses a list of host names: "cache.example.org,cache-1".
// In lower case and without a final dot; empty if `text` is no host name.
std::string host_name_of(std::string_view text);

// In list order; empty if `list` is empty or malformed.
std::vector<std::string> host_names_of(std::string_view list);

inline bool is_host_name_list(std::string_view list) { return !host_names_of(list).empty(); }

// How clients reach a farcached.
struct ClientAddress {
    std::string host;   // a name or an address, without brackets
    uint16_t port = 0;  // 0: not given
};

// "cache-1.example:11211,[::1]:11212", in list order; empty if `list` is empty or malformed, or names one twice.
std::vector<ClientAddress> cluster_members_of(std::string_view list);

// Beginnings of keys, with commas between; empty: one cannot be the beginning of a key.
std::vector<std::string> key_prefixes_of(std::string_view list);
inline bool is_prefix_list(std::string_view list) { return !key_prefixes_of(list).empty(); }

inline bool is_cluster_list(std::string_view list) { return !cluster_members_of(list).empty(); }

// "cache-1.example", "[::1]:11211"; nothing if malformed.
std::optional<ClientAddress> advertised_of(std::string_view text);

inline bool is_advertised(std::string_view text) { return advertised_of(text).has_value(); }

struct ListenAddress {
    std::string host;        // empty: all interfaces
    uint16_t port = 0;       // 0: chosen by the kernel
    Protocol protocol = Protocol::any;
    TlsMode tls = TlsMode::plain;
    std::string tag;         // as given; not used yet
};

// The protocol of clients, if the options of a listener choose that one: with -S the default is binary, with -Y text.
Protocol protocol_of(const Settings& settings, Protocol chosen);

// Empty with -s or -p 0. tls: -Z is given.
Result<std::vector<ListenAddress>> listen_addresses(const ListenSettings& settings, bool tls);
// Of UDP: the same, with -U in the place of -p. Empty with -s or -U 0.
Result<std::vector<ListenAddress>> udp_addresses(const ListenSettings& settings);
// Sockets of UDP at each address: one for each worker, or one with several addresses in -l, as in memcached.
uint32_t udp_sockets_of_address(const Settings& settings);

}  // namespace farcached::conf
