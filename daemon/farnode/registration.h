// SPDX-License-Identifier: BSD-3-Clause
// NodeRegistration: this node as a member of a fleet: its record in etcd, what the node may do by it (S17), and, where
// --discover-fence is strict, the changes of all records.
//
// Owner: main. Threads: its own two; the calls are main's.
#pragma once

#include <cstdint>
#include <memory>

#include "conf/advertise.h"
#include "conf/settings.h"
#include "daemon/discovery/etcd_client.h"
#include "daemon/discovery/etcd_registration.h"
#include "daemon/discovery/etcd_source.h"
#include "daemon/farnode/server.h"
#include "daemon/farnode/unsent_lists.h"
#include "node/service/node_stats.h"
#include "node/store/node.h"
#include "process/log.h"

namespace farcached::node {

class NodeRegistration {
  public:
    // former_incarnation: of the run that the items came from; 0: none. server and node outlive this. Throws std::system_error.
    NodeRegistration(const daemon::EtcdAccess& etcd, const conf::Settings& settings, const NodeFacts& facts, FarnodeServer& server,
                     Node& node, uint64_t former_incarnation, const conf::Advertised& addresses);

    void change_weight(uint32_t weight) { record_.change_weight(weight); }
    // As of EtcdRegistration. The server still serves.
    void stop(bool keep_record);

  private:
    bool is_fenced() const { return fence_ != conf::DiscoverFence::off; }
    bool is_strict() const { return fence_ == conf::DiscoverFence::strict; }
    bool drop_items();
    daemon::EtcdRegistration::Items items(uint64_t former_incarnation);
    daemon::EtcdRegistration::ShowRight show_right();
    void show(const daemon::RegistrationRight& right, uint64_t revision);
    void refuse_unsent(uint64_t elsewhere);

    const conf::DiscoverFence fence_;
    FarnodeServer& server_;
    Node& node_;
    UnsentLists unsent_;
    uint64_t in_use_ = 0;          // the record's thread's, as is lines_: UnsentLists, since the node registered
    process::LimitedLines lines_;
    daemon::EtcdRegistration record_;
    std::unique_ptr<daemon::EtcdSource> records_;  // nullptr: not strict. Its thread ends first
};

}  // namespace farcached::node
