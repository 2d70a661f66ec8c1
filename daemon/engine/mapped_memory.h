// SPDX-License-Identifier: BSD-3-Clause
// MappedMemory: the memory of a link's node, if it is mapped into this process. Gets read it without a request (links.h, M4).
//
// Owner: an OwnLink. The worker's thread.
//
// A1  It is mapped only while the link is up.
// A2  A hit in to_read() counts only if confirms() after the copy. Then the memory's owner lives (S9), and its serving right runs
//     on a clock that is read after the copy (S17).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/node_clock.h"
#include "daemon/engine/link_shared.h"
#include "proxy/local_get.h"
#include "proxy/node_link.h"

namespace farcached::daemon {

class MappedMemory {
  public:
    // Both outlive this.
    MappedMemory(LinkShared& shared, proxy::NodeLink& link) : shared_(shared), link_(link), memory_(fabric::RegionView()) {}
    ~MappedMemory() { map(nullptr); }
    MappedMemory(const MappedMemory&) = delete;
    MappedMemory& operator=(const MappedMemory&) = delete;

    // nullptr: none. The link unmaps it when it goes down.
    void map(const fabric::RegionView* region) {
        shared_.mapped += uint32_t(region != nullptr) - uint32_t(mapped_ != nullptr);
        mapped_ = region;
        if (region != nullptr) memory_.aim(*region);
    }
    bool is_mapped() const { return mapped_ != nullptr; }
    const proxy::LocalGet& memory() const { return memory_; }
    uint64_t hash(std::string_view key) const { return memory_.hash(key); }
    NodeSeconds node_seconds() const { return link_.clock().latest(shared_.now()); }

    // The following only if is_mapped().
    // nullptr: an earlier request of the session could change the answer, or the node has no right to serve now.
    proxy::LocalGet* to_read(uint64_t hash, uint64_t session) {
        if (!link_.requests().read_in_order(hash, session)) return nullptr;
        if (link_.clock().may_read(shared_.now())) return &memory_;
        link_.count_right_over();
        return nullptr;
    }
    // After a hit.
    bool confirms() const { return link_.channel()->owner_alive() && has_right(); }
    // Reports the access of a hit that counts. True: the link is to be flushed.
    bool note_access(uint64_t hash, const fabric::Found& found) const;

  private:
    bool has_right() const;

    LinkShared& shared_;
    proxy::NodeLink& link_;
    const fabric::RegionView* mapped_ = nullptr;
    proxy::LocalGet memory_;
};

}  // namespace farcached::daemon
