// SPDX-License-Identifier: BSD-3-Clause
#include "conf/advertise.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <utility>
#include <variant>

#include "conf/addresses.h"
#include "conf/comma_list.h"
#include "conf/etcd_url.h"
#include "conf/program.h"

namespace farcached::conf {

namespace {

constexpr std::string_view advertised_form = "tcp:HOST:PORT[,verbs:HOST:PORT]";

bool take_transport(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
}

Refusal refuse_usage(std::string text) { return Problem{exit_usage, std::move(text)}; }

// Of a node whose own addresses are of no use to others.
Refusal refuse_address(const std::string& option, const std::string& host, uint16_t port) {
    return refuse_usage("--discover: " + option + " " + host_and_port(host, port) +
                  " is no address that a proxy can connect to; give one that proxies reach, as in --advertise " +
                  option.substr(2) + ":10.0.0.2:11300\n");
}

}  // namespace

bool is_wildcard_host(std::string_view host) {
    const std::string text(host);
    in_addr four{};
    if (inet_pton(AF_INET, text.c_str(), &four) == 1) return four.s_addr == htonl(INADDR_ANY);
    in6_addr six{};
    if (inet_pton(AF_INET6, text.c_str(), &six) == 1) return IN6_IS_ADDR_UNSPECIFIED(&six);
    return host.empty() || host == "*";
}

Result<Advertised, std::string> parse_advertised(std::string_view text) {
    Advertised found;
    for (bool more = true; more;) {
        std::string_view one = take_listed(text, more);
        const bool over_rdma = take_transport(one, "verbs:");
        if (!over_rdma && !take_transport(one, "tcp:"))
            return "'" + std::string(one) + "' is not an address; allowed: " + std::string(advertised_form);
        std::string host;
        uint16_t port = 0;
        if (const Refusal refused = parse_host_and_port(one, over_rdma ? "verbs:" : "tcp:", 1, host, port)) return refused->text;
        if (is_wildcard_host(host)) return "'" + host + "' stands for all addresses, and a proxy needs one";
        std::string& to = over_rdma ? found.verbs : found.tcp;
        if (!to.empty()) return std::string(over_rdma ? "verbs" : "tcp") + " is there twice; give one address of each transport";
        to = host_and_port(host, port);
    }
    return found;
}

Advertised advertised_of(const NodeSettings& settings, uint16_t tcp_port, uint16_t verbs_port) {
    Advertised found;
    if (!settings.registration.advertise.empty()) {
        auto parsed = parse_advertised(settings.registration.advertise);
        if (auto* const own = std::get_if<Advertised>(&parsed)) found = std::move(*own);
        return found;
    }
    if (tcp_port != 0) found.tcp = host_and_port(settings.tcp_host, tcp_port);
    if (verbs_port != 0) found.verbs = host_and_port(settings.verbs_host, verbs_port);
    return found;
}

Refusal check_discover_access(const ProxySettings& settings, std::string_view source) {
    const bool none = settings.discovery.user.empty() && settings.discovery.password_file.empty();
    if (!none && (settings.discovery.user.empty() || settings.discovery.password_file.empty()))
        return refuse_usage(
            "--discover-user and --discover-password-file belong together, and one is missing; give both, or none\n");
    if ((!none || !settings.discovery.ca.empty()) && !is_etcd_url(source))
        return refuse_usage("--discover-user, --discover-password-file and --discover-ca are for etcd; give --discover "
                      "etcd://HOST:PORT/PREFIX, or leave them out\n");
    if (!settings.discovery.ca.empty() && !source.starts_with("etcds://"))
        return refuse_usage("--discover-ca needs TLS: give --discover etcds://HOST:PORT/PREFIX\n");
    return {};
}

Refusal check_registration(const Settings& settings) {
    const NodeSettings& node = settings.node;
    if (node.registration.source.empty() && !node.registration.advertise.empty())
        return refuse_usage("--advertise needs a place where the node announces itself: give --discover, too\n");
    if (Refusal refused = check_discover_access(settings.proxy, node.registration.source)) return refused;
    if (node.registration.source.empty() || !node.registration.advertise.empty()) return {};
    if (!node.tcp_host.empty() && is_wildcard_host(node.tcp_host)) return refuse_address("--tcp", node.tcp_host, node.tcp_port);
    if (!node.verbs_host.empty() && is_wildcard_host(node.verbs_host))
        return refuse_address("--verbs", node.verbs_host, node.verbs_port);
    if (node.tcp_host.empty() && node.verbs_host.empty())
        return refuse_usage("--discover: the node has no address that it can announce; give --tcp or --verbs, or --advertise\n");
    return {};
}

}  // namespace farcached::conf
