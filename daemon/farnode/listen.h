// SPDX-License-Identifier: BSD-3-Clause
// Creates farnode's listeners: resolves names to addresses and listens on them. A failure is a message with an exit status.
//
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "conf/settings.h"
#include "fabric/owner.h"
#include "fabric/region.h"
#include "fabric/shm/shm_channel.h"
#include "fabric/tcp_channel.h"
#include "fabric/verbs/verbs_channel.h"
#include "process/service_manager.h"

namespace farcached::node {

using TcpListeners = std::vector<std::unique_ptr<fabric::TcpListener>>;
using VerbsListeners = std::vector<std::unique_ptr<fabric::VerbsListener>>;

// One listener for each address of the host; none if TCP is off. May wait for a name server. With port 0 the kernel chooses a
// port for each. Sockets passed by the service manager are used instead.
Result<TcpListeners> listen_tcp(const conf::NodeSettings& settings, const std::vector<process::PassedSocket>& passed);
// Registers the offered memory. The offer and the devices outlive the listeners.
Result<VerbsListeners> listen_verbs(const conf::NodeSettings& settings, const fabric::VerbsOffer& offer,
                                    fabric::VerbsDevices& devices);
// Holds the name's lock, so an existing socket of that name belongs to a dead node.
Result<std::unique_ptr<fabric::ChannelListener>> listen_shm(const conf::NodeSettings& settings, const fabric::Owner& owner,
                                                            const fabric::Region& region);

// Writes the port numbers to $FARNODE_PORT_FILENAME.
void write_ports(const TcpListeners& tcp, const VerbsListeners& verbs);

}  // namespace farcached::node
