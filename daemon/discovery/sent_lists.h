// SPDX-License-Identifier: BSD-3-Clause
// SentLists: the newest list of nodes that farcached have sent to any node, so that a node to which they did not send it learns of
// that. Each node has a key with the epoch of the last one that it has received. It reads those of the others.
//
// Owner: an EtcdRegistration, in its thread. The client is the registration's.
// T1  The key has the node's lease: it goes with the node.
// T2  Text from etcd is not trusted (S10): an epoch is a number, and no later one than etcd's revision.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "daemon/discovery/etcd_client.h"

namespace farcached::daemon {

class SentLists {
  public:
    // keys: the prefix of all nodes' keys; this node's name follows it.
    SentLists(const std::string& keys, const std::string& name, EtcdClient::Ask ask)
        : keys_(keys), own_(keys + name), ask_(std::move(ask)) {}
    SentLists(const SentLists&) = delete;
    SentLists& operator=(const SentLists&) = delete;

    // The newest epoch that another node has written; 0: none. Throws std::bad_alloc, like write().
    Result<uint64_t, EtcdFailure> read();
    // After read(): writes the epoch of the newest list that this node has received, unless it is 0, or there. A failure, if any.
    std::optional<EtcdFailure> write(uint64_t received, int64_t lease);

  private:
    const std::string keys_, own_;
    const EtcdClient::Ask ask_;
    uint64_t written_ = 0;  // as read() has found this node's key; 0: no epoch
    int64_t revision_ = 0, lease_ = 0;  // of that key; 0: none
};

}  // namespace farcached::daemon
