// SPDX-License-Identifier: BSD-3-Clause
// Where farnode listens: names become addresses, addresses listeners. What cannot be is a sentence and an exit status.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "conf/exit_status.h"
#include "conf/node_settings.h"
#include "fabric/owner.h"
#include "fabric/region.h"
#include "fabric/shm_channel.h"
#include "fabric/tcp_channel.h"
#include "fabric/verbs_channel.h"
#include "process/passed_sockets.h"

namespace farcached::node {

using TcpListeners = std::vector<std::unique_ptr<fabric::TcpListener>>;
using VerbsListeners = std::vector<std::unique_ptr<fabric::VerbsListener>>;

// One listener for each address that the host means; none, if none is wanted. May wait for a name server. A port that
// the kernel chooses is another one for each. Sockets that the service manager passed are listened at instead.
std::variant<TcpListeners, conf::Problem> listen_tcp(const conf::NodeSettings& settings,
                                                     const std::vector<process::PassedSocket>& passed);
// Registers what is offered. It and the devices outlive the listeners.
std::variant<VerbsListeners, conf::Problem> listen_verbs(const conf::NodeSettings& settings, const fabric::VerbsOffer& offer,
                                                         fabric::VerbsDevices& devices);
// Under the name's lock, so that the socket that may lie there is a dead node's.
std::variant<std::unique_ptr<fabric::ChannelListener>, conf::Problem> listen_shm(const fabric::Owner& owner,
                                                                                 const fabric::Region& region);

// $FARNODE_PORT_FILENAME: which ports they are.
void write_ports(const TcpListeners& tcp, const VerbsListeners& verbs);

}  // namespace farcached::node
