// SPDX-License-Identifier: BSD-3-Clause
// Judges the addresses that a daemon listens at. A place that other machines can reach needs authentication: farnode's, and
// --http of both daemons, are refused without it, unless --insecure is given. farcached listens for clients as memcached does,
// and logs one line. Unix sockets are local.
//
// Pure functions. Owner: none; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/program.h"
#include "conf/settings.h"

namespace farcached::conf {

// 127.0.0.0/8, ::1, both as addresses of IPv6 too, and the name localhost. host: without brackets. Other names may be
// addresses of any interface; empty and "*" are all of them.
bool is_loopback_host(std::string_view host);

// Do proxies prove who they are before a node serves them?
bool peers_authenticate(const NodeSettings& settings);

// Refuses farnode's `place` at `host`, "--tcp 0.0.0.0:11300", if other machines reach it without authentication. Over tcp,
// certificates of --peer-cert authenticate proxies, too.
Refusal check_node_place(const Settings& settings, NodeChannel channel, const std::string& place, std::string_view host);
// Of --http, whose clients need a token or not.
Refusal check_http_place(const Settings& settings);
// Whether tokens of --http cross a network readable.
bool tokens_are_readable(const AdminSettings& settings);

// A place where farcached listens for clients.
struct ClientPlace {
    std::string place, host;  // "tcp 0.0.0.0:11211"; without brackets
    bool verified = false;    // clients need certificates there
};
// One line for the log, which names the first of the places that other machines reach without authentication. Empty: none.
std::string exposure_warning(const Settings& settings, std::span<const ClientPlace> places);
// Of the options; empty with -s. Not those of addresses that listen_addresses() refuses.
std::vector<ClientPlace> client_places(const Settings& settings);

}  // namespace farcached::conf
