// SPDX-License-Identifier: BSD-3-Clause
#include "conf/exposure.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <variant>
#include <vector>

#include "conf/addresses.h"

namespace farcached::conf {

bool is_loopback_host(std::string_view host) {
    const std::string text(host);
    in_addr four{};
    if (inet_pton(AF_INET, text.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
    in6_addr six{};
    if (inet_pton(AF_INET6, text.c_str(), &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == IN_LOOPBACKNET);
    return host_name_of(host) == "localhost";
}

bool peers_authenticate(const NodeSettings& settings) { return !settings.auth_key_file.empty(); }

Refusal check_node_place(const Settings& settings, NodeChannel channel, const std::string& place, std::string_view host) {
    if (channel == NodeChannel::tcp && !settings.peer_tls.certificate_path.empty()) return {};
    if (settings.process.insecure || peers_authenticate(settings.node) || is_loopback_host(host)) return {};
    return Problem{exit_usage, place +
                                   " can be reached from other machines, and peers need no key there: set --auth-key-file FILE, "
                                   "or --insecure if the network is trusted\n"};
}

Refusal check_http_place(const Settings& settings) {
    const AdminSettings& admin = settings.admin;
    if (admin.http_host.empty() || is_loopback_host(admin.http_host)) return {};
    if (settings.process.insecure || !admin.http_token_file.empty()) return {};
    return Problem{exit_usage, "--http " + host_and_port(admin.http_host, admin.http_port) +
                                   " can be reached from other machines, and its clients need no token there: set "
                                   "--http-token-file FILE, or --insecure if the network is trusted\n"};
}

bool tokens_are_readable(const AdminSettings& settings) {
    return !settings.http_token_file.empty() && settings.http_cert.empty() && !settings.http_host.empty() &&
           !is_loopback_host(settings.http_host);
}

std::vector<ClientPlace> client_places(const Settings& settings) {
    std::vector<ClientPlace> places;
    const auto add = [&](const Result<std::vector<ListenAddress>>& addresses, const char* transport) {
        const auto* all = std::get_if<std::vector<ListenAddress>>(&addresses);
        if (all == nullptr) return;
        for (const ListenAddress& one : *all) {
            const bool demanded = one.tls == TlsMode::configured && settings.tls.verify_mode >= 2;
            const std::string host = one.host.empty() ? "*" : one.host;
            places.push_back({transport + host_and_port(host, one.port), host, demanded || one.tls == TlsMode::verified});
        }
    };
    add(listen_addresses(settings.listen, settings.tls.enabled), "tcp:");
    add(udp_addresses(settings.listen), "udp:");
    return places;
}

namespace {

// With all items; empty: nothing.
std::string what_anybody_may(CommandClasses classes) {
    const auto may = [classes](CommandClass one) { return (classes & bit_of(one)) != 0; };
    const bool reads = may(CommandClass::read);
    if (may(CommandClass::write)) return reads ? "read, change and delete" : "change and delete";
    if (may(CommandClass::admin)) return reads ? "read and delete" : "delete";
    return reads ? "read" : "";
}

}  // namespace

std::string exposure_warning(const Settings& settings, std::span<const ClientPlace> places) {
    const SessionSettings& session = settings.session;
    if (settings.process.insecure || session.sasl || !session.auth_file.empty()) return {};
    const auto is_open = [](const ClientPlace& one) { return !one.verified && !is_loopback_host(one.host); };
    const auto first = std::ranges::find_if(places, is_open);
    if (first == places.end()) return {};
    const std::string may = what_anybody_may(settings.permissions.of(anonymous_identity));
    if (may.empty()) return {};
    const auto others = std::ranges::count_if(places, is_open) - 1;
    return first->place + (others == 0 ? "" : " and " + std::to_string(others) + " more") +
           " can be reached from other machines, and clients need no authentication there: any of them can " + may +
           " all items; listen at 127.0.0.1 (-l), set -Y, -S, or -Z with ssl_verify_mode=2, or --insecure if the network "
           "is trusted";
}

}  // namespace farcached::conf
