// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farnode/listen.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "conf/program.h"
#include "fabric/socket.h"
#include "process/process.h"

namespace farcached::node {

namespace {

using fabric::SocketAddress;

constexpr int backlog = 1024;

Problem problem(const std::string& sentence) { return {conf::exit_system, sentence + "\n"}; }

// The addresses of a host name; "*": all addresses of this host.
Result<std::vector<SocketAddress>> addresses_of(const std::string& option, const std::string& host, uint16_t port) {
    auto found = fabric::look_up(host == "*" ? "" : host, port);
    if (auto* why = std::get_if<std::string>(&found))
        return problem(option + " " + host + ":" + std::to_string(port) + ": the host is not known (" + *why + ")");
    return std::get<std::vector<SocketAddress>>(std::move(found));
}

// Listens on as many addresses as possible, at least one.
template <class Listener, class Listen>
Result<std::vector<std::unique_ptr<Listener>>> listen_at_each(const std::vector<SocketAddress>& addresses, Listen listen) {
    std::vector<std::unique_ptr<Listener>> listeners;
    std::string error;
    for (const SocketAddress& address : addresses) {
        Result<std::unique_ptr<Listener>> listener = listen(address);
        if (auto* made = std::get_if<0>(&listener)) {
            listeners.push_back(std::move(*made));
        } else {
            error = std::get<Problem>(listener).text;
            // Other errors may mean an address family that this host lacks.
            if (error.ends_with(std::strerror(EADDRINUSE))) return problem(error);
        }
    }
    if (listeners.empty()) return problem(error);
    return listeners;
}

}  // namespace

Result<TcpListeners> listen_tcp(const conf::NodeSettings& settings, const std::vector<process::PassedSocket>& passed) {
    TcpListeners adopted;
    for (const process::PassedSocket& socket : passed) {
        if (socket.is_unix())
            return problem(process::describe(socket) + " is a Unix socket: proxies connect over TCP, or at the path of --shm, " +
                           "which the node creates itself");
        adopted.push_back(fabric::TcpListener::adopt(fabric::Descriptor(socket.fd)));
    }
    if (!adopted.empty()) return adopted;
    if (settings.tcp_host.empty()) return TcpListeners();
    auto found = addresses_of("--tcp", settings.tcp_host, settings.tcp_port);
    if (auto* unknown = std::get_if<Problem>(&found)) return *unknown;
    return listen_at_each<fabric::TcpListener>(
        std::get<0>(found), [](const SocketAddress& address) { return fabric::TcpListener::listen(address, backlog); });
}

Result<VerbsListeners> listen_verbs(const conf::NodeSettings& settings, const fabric::VerbsOffer& offer,
                                    fabric::VerbsDevices& devices) {
    if (settings.verbs_host.empty()) return VerbsListeners();
    auto found = addresses_of("--verbs", settings.verbs_host, settings.verbs_port);
    if (auto* unknown = std::get_if<Problem>(&found)) return *unknown;
    return listen_at_each<fabric::VerbsListener>(std::get<0>(found), [&](const SocketAddress& address) {
        return fabric::VerbsListener::listen(address, offer, devices, backlog);
    });
}

Result<std::unique_ptr<fabric::ChannelListener>> listen_shm(const conf::NodeSettings& settings, const fabric::Owner& owner,
                                                            const fabric::Region& region) {
    fabric::ShmOptions options;
    options.group = settings.shm_group;
    auto listener = fabric::ShmListener::listen(owner, &region, options, backlog);
    if (const auto* no = std::get_if<Problem>(&listener)) return problem(no->text);
    return std::get<0>(std::move(listener));
}

void write_ports(const TcpListeners& tcp, const VerbsListeners& verbs) {
    std::vector<process::BoundPort> ports;
    auto add = [&](const SocketAddress& address, const char* transport) {
        ports.push_back({address.storage.ss_family == AF_INET6, address.port(), transport});
    };
    for (const auto& one : tcp) add(one->address(), "TCP");
    for (const auto& one : verbs) add(one->address(), "VERBS");
    process::write_port_file(std::getenv("FARNODE_PORT_FILENAME"), ports);
}

}  // namespace farcached::node
