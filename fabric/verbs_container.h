// SPDX-License-Identifier: BSD-3-Clause
// This end's container of one connection over RDMA (fabric/channel.h, C7): memory that the other end WRITEs.
//
// Owner: a VerbsQueue. It lies in separate memory, registered for this connection alone.
// B1  Where the device has memory windows of type 2, no memory is registered for WRITEs of others: only the window bound to
//     the queue pair admits them, and it ends with the connection. Elsewhere the memory is registered under its own key.
// B2  A window admits no WRITE before its binding is carried out, which is posted ahead of this end's first SEND. The other
//     end writes only after a message from here has arrived.
// B3  A window is destroyed before its queue pair: soft-RoCE's queue pair waits for that.
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
    // Copies out its first bytes.
    void copy(char* to, size_t bytes) const;
    // The other end's container, from its first WRITE; nothing: no such WRITE, or an impossible place.
    std::optional<VerbsContainer> other() const;

  private:
    OwnContainer();
    Mapping memory_;
    MemoryRegion registered_;
    MemoryWindow window_;
};

}  // namespace farcached::fabric
