// SPDX-License-Identifier: BSD-3-Clause
// The list of nodes, from the command line (--node NAME=ADDRESS[,KEY=VALUE]...) and from a file's
// [[node]] tables. One table says what may be said of a node, for both and for their help.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "conf/option.h"
#include "conf/proxy_settings.h"

namespace farcached::conf {

using Complaints = std::vector<std::string>;  // a sentence each
using Refused = std::optional<std::string>;    // what is wrong; none: nothing

struct NodeKey {
    std::string_view name;
    Value value = Value::text;          // what a file must hold
    bool required = false;
    std::string_view allowed;           // for messages, after "allowed: "
    std::string_view help;
    // Takes the value into the spec, or says what is wrong with it; "": it is none of the allowed.
    Refused (*take)(NodeSpec& spec, std::string_view text) = nullptr;
};

std::span<const NodeKey> node_keys();
std::vector<std::string_view> node_key_names();

// Takes a value, or says why not: "weight: found '0'; allowed: ...".
void take_node_key(const NodeKey& key, std::string_view text, NodeSpec& spec, Complaints& complaints);

// NAME=ADDRESS[,KEY=VALUE]... as --node takes it. All that is wrong with it is told.
std::variant<NodeSpec, Complaints> parse_node(std::string_view text);

// 1 to limits::node_name_bytes_max letters, digits and ._-
bool is_node_name(std::string_view text);

// Can a Unix socket have this path?
bool is_socket_path(std::string_view path);
constexpr std::string_view socket_path_allowed =
    "the path of a Unix socket, 1 to 107 bytes that can be printed";

// "10.0.0.1:11300", "[::1]:11300": the host without brackets, not looked up. `channel`: what stands before it where
// it is written, "tcp:" or nothing, for messages.
Refused parse_host_and_port(std::string_view text, std::string_view channel, uint16_t port_min,
                            std::string& host, uint16_t& port);

// "shm:/run/a.sock", "tcp:[::1]:11300", "verbs:10.0.0.1:11300".
std::string address_of(const NodeSpec& spec);

// What is wrong between the nodes, and between them and the other settings: "ORIGIN: ...".
Complaints check_nodes(const ProxySettings& settings);

}  // namespace farcached::conf
