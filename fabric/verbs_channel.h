// SPDX-License-Identifier: BSD-3-Clause
// The channel over RDMA: frames in SENDs, reads one-sided in the node's registered memory.
//
// A node's address is that of a device (or one that the network leads to a device). Names are resolved by the caller, who
// may wait. How long a connection may take to be made is its owner's to decide: it closes the channel. A host that is
// gone is noticed by what is sent to it, within verbs_flight_us(); else after VerbsConfig::beat_ms more.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "fabric/channel.h"
#include "fabric/descriptor.h"
#include "fabric/region.h"
#include "fabric/socket_address.h"
#include "fabric/verbs_device.h"

namespace farcached::fabric {

struct VerbsWelcome;

// Memory that is registered, all of it, once. No bytes: there is none.
struct VerbsMemory {
    char* data = nullptr;
    size_t bytes = 0;
};

// What a proxy gives a connection of its memory. It outlives the channel.
struct VerbsMemories {
    VerbsMemory landing;  // where its READs land
    VerbsMemory lent;     // what the node may READ
};

// The longest value that a node READs from its proxies.
constexpr uint32_t fetch_bytes_most = 4 << 20;

// What a node lets proxies reach, and where what it READs from them lands.
struct VerbsOffer {
    const Region* region = nullptr;  // nullptr: nothing can be read
    uint64_t* counters = nullptr;    // of reads (protocol/layout.h), for all of its arena; nullptr: there are none
    size_t counters_bytes = 0;
    VerbsMemory landing = {};        // none: it READs nothing
};

// A proxy's side. `devices`, `events` and the memories outlive the channel. nullptr: RDMA cannot be used here;
// `error` says why and what to do. A connection that cannot be made ends as any other does, through `events`.
std::unique_ptr<Channel> connect_verbs(const SocketAddress& to, VerbsDevices& devices,
                                       const VerbsMemories& memories, ChannelEvents& events,
                                       std::string& error,
                                       size_t input_bytes_max = input_bytes_default);

// When its device is removed it lets go of it, and listens again, at the same port, when the address has a device again.
class VerbsListener final : public ChannelListener {
  public:
    // Registers what is offered, which takes the memory of all of it at once; on an address of all devices (0.0.0.0) with
    // the first connection. It and the devices outlive this and what it accepts. A device that has no atomics, of which
    // the log is told, offers no counters.
    // nullptr: `error` is a sentence with address and cause. Port 0: one is chosen.
    static std::unique_ptr<VerbsListener> listen(const SocketAddress& at, const VerbsOffer& offer,
                                                 VerbsDevices& devices, int backlog,
                                                 std::string& error,
                                                 size_t input_bytes_max = input_bytes_default);
    ~VerbsListener() override;

    int fd() const override;
    // A proxy that cannot be served is told why, and so is the devices' log.
    std::unique_ptr<Channel> accept(ChannelEvents& events) override;
    std::string describe() const override;
    const SocketAddress& address() const { return address_; }  // with the port that it has

  private:
    VerbsListener(CmEvents events, const SocketAddress& address, const VerbsOffer& offer,
                  VerbsDevices& devices, int backlog, size_t input_bytes_max);
    bool watch(std::string& why);
    bool begin(std::string& why);
    void begin_again();
    void device_removed();
    bool keep_registered(VerbsDevice& device, std::string& error);
    void keep_nothing();
    bool offer_to(VerbsQueue& queue, VerbsWelcome& welcome, std::string& error) const;
    std::unique_ptr<Channel> meet(CmEvent request, ChannelEvents& events);

    Descriptor poller_, timer_;  // of events_ and the timer, which runs while there is no device
    CmEvents events_;
    CmId id_;
    SocketAddress address_;
    const VerbsOffer offer_;
    VerbsDevices& devices_;
    int backlog_;
    size_t input_bytes_max_;
    // What keeps the offer registered while nobody is connected; released before the id.
    std::shared_ptr<VerbsDevice> device_;
    std::shared_ptr<MemoryRegion> region_registered_, counters_registered_, landing_registered_;
};

}  // namespace farcached::fabric
