// SPDX-License-Identifier: BSD-3-Clause
#include "conf/discover.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <utility>

#include "conf/addresses.h"
#include "conf/etcd_url.h"

namespace farcached::conf {

namespace {

constexpr size_t label_bytes_max = 63;

// Each label has 1 to 63 characters.
bool has_good_labels(std::string_view name) {
    for (bool more = true; more;) {
        const size_t dot = name.find('.');
        const std::string_view label = name.substr(0, dot);
        if (label.empty() || label.size() > label_bytes_max) return false;
        more = dot != name.npos;
        if (more) name.remove_prefix(dot + 1);
    }
    return true;
}

bool take(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
}

using Parsed = Result<DiscoverPlace, std::string>;

Parsed parse_dns(std::string_view text) {
    DiscoverPlace place;
    std::string host;
    if (const Refusal refused = parse_host_and_port(text, "dns+", 1, host, place.port)) return refused->text;
    place.name = host_name_of(host);
    if (!has_good_labels(place.name))
        return "'" + host + "' is not a name of DNS; dns+ needs one, as in dns+nodes.example.org:11300";
    return place;
}

Parsed parse_srv(std::string_view text) {
    DiscoverPlace place;
    place.kind = DiscoverKind::dns_srv;
    place.name = host_name_of(text);
    const size_t dot = place.name.find("._");
    if (!place.name.starts_with('_') || dot == place.name.npos || place.name.find('.', dot + 1) == place.name.npos ||
        !has_good_labels(place.name))
        return "'" + std::string(text) + "' is not a service; dnssrv+ needs one, as in dnssrv+_farnode._tcp.nodes.example.org";
    return place;
}

}  // namespace

Parsed parse_discover(std::string_view text) {
    if (take(text, "dns+")) return parse_dns(text);
    if (take(text, "dnssrv+")) return parse_srv(text);
    if (is_etcd_url(text)) {
        if (const Refusal refused = check_etcd(text)) return refused->text;
        return DiscoverPlace{DiscoverKind::etcd, {}, 0};
    }
    return "'" + std::string(text) +
           "' is not a source of nodes; allowed: dns+NAME:PORT, dnssrv+_SERVICE._PROTO.NAME, or "
           "etcd://HOST:PORT[,HOST:PORT]/PREFIX";
}

bool is_dns_server(std::string_view text) {
    std::string host;
    uint16_t port = 0;
    if (parse_host_and_port(text, "", 1, host, port)) return false;
    in6_addr address;
    return inet_pton(AF_INET, host.c_str(), &address) == 1 || inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace farcached::conf
