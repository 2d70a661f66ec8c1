// SPDX-License-Identifier: BSD-3-Clause
// NodeChannels: makes the connections to nodes: over shared memory, TCP or RDMA, and how links are configured.
//
// Owner: Nodes. Any thread. Nodes' lock is not needed, and is not taken.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "daemon/remote/node_log.h"
#include "daemon/remote/node_set.h"
#include "fabric/mapped_region.h"
#include "fabric/peer_tls.h"
#include "fabric/verbs/verbs_channel.h"
#include "proxy/node_link.h"

namespace farcached::daemon {

// How this process and its nodes know each other.
struct PeerTrust {
    const fabric::PeerTls* tls = nullptr;                    // of tcp links; outlives them; nullptr: none
    std::shared_ptr<const protocol::AuthKey> key = nullptr;  // that it proves; nullptr: none
};

class NodeChannels {
  public:
    // Fences and log outlive this. shm_group: also trust nodes of this process's group.
    NodeChannels(const Fences& fences, const NodeLog& log, bool shm_group, const PeerTrust& trust);

    // PeerTls::expires_unix(); nothing without TLS.
    std::optional<int64_t> peer_certificate_expires() const {
        return tls_ == nullptr ? std::nullopt : std::optional(tls_->expires_unix());
    }
    proxy::LinkConfig link_config(const OneNode& node, const NodeOptions& options, uint32_t worker) const;
    // memories: a worker's, for one-sided reads and for values that nodes READ. They outlive the channels.
    // shortcut: outlives them, too. nullptr: the node is reached at its address alone.
    proxy::NodeLink::MakeChannel maker(std::shared_ptr<OneNode> node, const fabric::VerbsMemories& memories,
                                       const fabric::RpcWish& rpc, proxy::Shortcut* shortcut = nullptr, uint32_t worker = 0);
    // A connection over the node's socket failed, or the socket is not there.
    void shortcut_failed(OneNode& node, std::string_view why) const noexcept;

  private:
    proxy::NodeLink::MakeChannel plain_maker(std::shared_ptr<OneNode> node, const fabric::VerbsMemories& memories,
                                             const fabric::RpcWish& rpc, uint32_t worker);
    Result<std::unique_ptr<fabric::Channel>> connect_shm(const std::string& path, fabric::ChannelEvents& events);
    std::string take_shortcut(OneNode& node, proxy::Shortcut& shortcut) const;

    const Fences& fences_;
    const NodeLog& log_;
    const fabric::PeerTls* const tls_;
    const bool authenticates_;  // both ends withhold their memory until the other has proved its key
    const bool shm_group_;
    const std::string host_;
    fabric::MappedRegions regions_;
    fabric::VerbsDevices devices_;
};

}  // namespace farcached::daemon
