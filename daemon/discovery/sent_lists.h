// SPDX-License-Identifier: BSD-3-Clause
// SentLists: the newest list of nodes that farcached have sent to any node, so that a node to which they did not send it learns of
// that. Each node writes the epoch of the last one that it has received under a key of its own, and reads those of the others.
//
// Owner: an EtcdRegistration, in its thread. The client is the registration's.
// T1  The key has the node's lease: it goes with the node.
// T2  Text from etcd is not trusted (S10): an epoch is a number, and no later one than etcd's revision.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "daemon/discovery/etcd_client.h"

namespace farcached::daemon {

class SentLists {
  public:
    using Ask = std::function<EtcdClient::Reply(const std::string& path, const std::string& body)>;
    // keys: the prefix of all nodes' keys. own: the key of this node.
    SentLists(const std::string& keys, const std::string& own, Ask ask) : keys_(keys), own_(own), ask_(std::move(ask)) {}
    SentLists(const SentLists&) = delete;
    SentLists& operator=(const SentLists&) = delete;

    // The newest epoch that another node has written; 0: none. Writes `received`, unless it is 0, or there. Throws std::bad_alloc.
    Result<uint64_t, EtcdFailure> exchange(uint64_t received, int64_t lease);

  private:
    const std::string keys_, own_;
    const Ask ask_;
};

}  // namespace farcached::daemon
