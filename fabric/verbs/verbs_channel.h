// SPDX-License-Identifier: BSD-3-Clause
// The channel over RDMA: frames in SENDs, reads one-sided in the node's registered memory.
//
// A node's address is that of an RDMA device (or leads to one). The caller resolves names, and may wait for that. The
// owner limits the time to make a connection: it closes the channel. A send to a dead host fails within verbs_flight_us().
// An idle connection sends a heartbeat after VerbsConfig::beat_ms to twice as long. Threads: as any channel.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "fabric/channel.h"
#include "fabric/region.h"
#include "fabric/socket.h"
#include "fabric/verbs/verbs_device.h"
#include "fabric/verbs/verbs_reach.h"
#include "fabric/verbs/verbs_rpc.h"

namespace farcached::fabric {

struct VerbsHello;
struct VerbsWelcome;

// A proxy's memory for a connection. It outlives the channel.
struct VerbsMemories {
    VerbsMemory landing;  // for the proxy's READs to land in
    VerbsMemory lent;     // for the node to READ
    bool withholds = false;  // no right and no key for the node until Channel::grant(); uses nothing of the node's before
};

// The longest value that a node READs from its proxies.
constexpr uint32_t fetch_bytes_most = 4 << 20;

// The memory that a node lets proxies reach, and the memory for its own READs to land in.
struct VerbsOffer {
    const Region* region = nullptr;  // nullptr: proxies READ nothing
    uint64_t* counters = nullptr;    // of reads (protocol/layout.h), for all of its arena; nullptr: none
    size_t counters_bytes = 0;
    VerbsMemory landing = {};        // none: the node READs nothing
    bool withholds = false;          // no right and no key for a proxy until Channel::grant(); uses nothing of its before
};

// A proxy's side. `devices`, `events` and the memories outlive the channel. A problem: RDMA is unusable here, with the cause
// and the remedy. A connection that fails ends through `events`, as any other does.
Result<std::unique_ptr<Channel>> connect_verbs(const SocketAddress& to, VerbsDevices& devices,
                                               const VerbsMemories& memories, ChannelEvents& events,
                                               const RpcWish& wish = {}, size_t input_bytes_max = input_bytes_default);

// When its device is removed, it releases the device. It listens again, at the same port, when the address has a device.
class VerbsListener final : public ChannelListener {
  public:
    // Registers the offer, which allocates all of its memory at once; on an address of all devices (0.0.0.0) with the
    // first connection. The offer and the devices outlive this and its channels. On a device without atomics it offers no
    // counters, and logs that.
    // A problem is a sentence with address and cause. Port 0: it chooses one.
    static Result<std::unique_ptr<VerbsListener>> listen(const SocketAddress& at, const VerbsOffer& offer,
                                                         VerbsDevices& devices, int backlog,
                                                         size_t input_bytes_max = input_bytes_default);
    ~VerbsListener() override;

    int fd() const override;
    // A proxy that it cannot serve gets a refusal with the reason; the devices' log gets the cause.
    std::unique_ptr<Channel> accept(ChannelEvents& events) override;
    std::string describe() const override;
    const SocketAddress& address() const { return address_; }  // with the actual port

  private:
    VerbsListener(CmEvents events, const SocketAddress& address, const VerbsOffer& offer,
                  VerbsDevices& devices, int backlog, size_t input_bytes_max);
    Refusal watch();
    Refusal begin();
    void begin_again();
    void device_removed();
    Refusal keep_registered(VerbsDevice& device);
    Refusal offer_to(VerbsQueue& queue, const VerbsHello& hello, VerbsWelcome& welcome, uint64_t& fetch_bytes) const;
    std::unique_ptr<Channel> meet(CmEvent request, ChannelEvents& events);

    Descriptor poller_, timer_;  // poller_ holds events_ and the timer, which runs while there is no device
    CmEvents events_;
    CmId id_;
    SocketAddress address_;
    const VerbsOffer offer_;
    VerbsDevices& devices_;
    int backlog_;
    size_t input_bytes_max_;
    // Keeps the offer registered between connections; released before the id.
    std::shared_ptr<VerbsDevice> device_;
    VerbsReach kept_;
};

}  // namespace farcached::fabric
