// SPDX-License-Identifier: BSD-3-Clause
// This end's container of one connection over RDMA (fabric/channel.h, C7): memory that the other end WRITEs.
//
// Owner: a VerbsQueue. It lies in memory of its own, which is registered for this connection alone.
// B1  Where the device has memory windows of type 2, nothing is registered for WRITEs of others: the window that is bound
//     to the queue pair is the only way, and ends with the connection. Else the memory is, under a key of its own.
// B2  A window admits nobody before its binding was carried out, which is posted in front of this end's first SEND. So
//     the other end writes only when something has come from here.
// B3  A window goes before its queue pair: soft-RoCE's queue pair waits for it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "base/mapping.h"
#include "fabric/verbs_device.h"
#include "fabric/verbs_greeting.h"
#include "fabric/verbs_objects.h"

namespace farcached::fabric {

class OwnContainer {
  public:
    // nullptr: the device has no room for one.
    static std::unique_ptr<OwnContainer> make(const VerbsDevice& device);

    VerbsContainer where() const;
    bool windowed() const { return window_ != nullptr; }
    void bind(ibv_send_wr& work) const;  // B2; only if windowed()
    // Copies out what was written there first.
    void copy(char* to, size_t bytes) const;
    // Where the other end said that its own is; nothing: it did not, or it cannot be.
    std::optional<VerbsContainer> other() const;

  private:
    OwnContainer();
    Mapping memory_;
    MemoryRegion registered_;
    MemoryWindow window_;
};

}  // namespace farcached::fabric
