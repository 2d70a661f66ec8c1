// SPDX-License-Identifier: BSD-3-Clause
// The node of --spill-to and the link to it, as a map, for t/unit/node/peer and t/unit/daemon/farnode_subleases.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "fabric/remote_ptr.h"
#include "node/peer/peer_store.h"
#include "node/store/node.h"
#include "protocol/spilled.h"

namespace far_peer {

using namespace farcached;
using namespace farcached::node;

inline Config config_with(PeerStore& store) {
    Config config;
    config.memory_bytes = 1 << 20;
    config.partitions = 1;
    config.workers = 1;
    config.peer = &store;
    config.spill.drop_unread = false;
    config.spill.recache_rate = 0;
    config.seed = 1;
    return config;
}

inline std::string value_of(int i) { return std::string(3000, char('a' + i % 26)) + std::to_string(i); }
inline std::string key_of(int i) { return "key" + std::to_string(i); }

inline fabric::LeasedPtr lease_of(uint64_t until_ns) {
    fabric::LeasedPtr leased;
    leased.ptr = {77, 4096, 9, 0, 4096};
    leased.valid_until_ns = until_ns;
    return leased;
}

struct FarPeer {
    // All that the link has to do.
    void link() {
        PeerStore::Work work;
        store.take(work);
        for (const auto& record : work.puts) {
            peer[std::string(protocol::view_of(record->key))] = std::string(record->view());
            store.stored(*record);
        }
        store.take(work);
        for (const auto& key : work.forgets) deletes += peer.erase(std::string(protocol::view_of(key)));
        for (const auto& read : work.reads) {
            const auto found = peer.find(std::string(protocol::view_of(read.key)));
            found == peer.end() ? store.lost(read) : store.found(read, found->second, lease.value_or(fabric::LeasedPtr()));
        }
        for (const auto& wait : work.waits) {
            if (store.alive(wait.place)) peer.erase(std::string(protocol::view_of(wait.key)));
            PeerStore::ended(wait);
        }
    }

    PeerStore store;
    std::map<std::string, std::string> peer;  // what it stores
    std::optional<fabric::LeasedPtr> lease;   // of each read there
    uint32_t deletes = 0;
};

}  // namespace far_peer
