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

// Where the READs of a proxy land: all of it is registered, once. No bytes: nothing is read.
struct LandingMemory {
    char* data = nullptr;
    size_t bytes = 0;
};

// A proxy's side. `devices`, `events` and the landing memory outlive the channel. nullptr: RDMA cannot be used here;
// `error` says why and what to do. A connection that cannot be made ends as any other does, through `events`.
std::unique_ptr<Channel> connect_verbs(const SocketAddress& to, VerbsDevices& devices,
                                       const LandingMemory& landing, ChannelEvents& events,
                                       std::string& error,
                                       size_t input_bytes_max = input_bytes_default);

// When its device is removed it lets go of it, and listens again, at the same port, when the address has a device again.
class VerbsListener final : public ChannelListener {
  public:
    // Registers the region, which takes the memory of all of it at once; on an address of all devices (0.0.0.0) with the
    // first connection. nullptr region: none can be read. Region and devices outlive this and what it accepts.
    // nullptr: `error` is a sentence with address and cause. Port 0: one is chosen.
    static std::unique_ptr<VerbsListener> listen(const SocketAddress& at, const Region* region,
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
    VerbsListener(CmEvents events, const SocketAddress& address, const Region* region,
                  VerbsDevices& devices, int backlog, size_t input_bytes_max);
    bool watch(std::string& why);
    bool begin(std::string& why);
    void begin_again();
    void device_removed();
    bool keep_region(VerbsDevice& device, std::string& error);
    std::unique_ptr<Channel> meet(CmEvent request, ChannelEvents& events);

    Descriptor poller_, timer_;  // of events_ and the timer, which runs while there is no device
    CmEvents events_;
    CmId id_;
    SocketAddress address_;
    const Region* region_;
    VerbsDevices& devices_;
    int backlog_;
    size_t input_bytes_max_;
    // What keeps the region registered while nobody is connected; released before the id.
    std::shared_ptr<VerbsDevice> device_;
    std::shared_ptr<MemoryRegion> registered_;
};

}  // namespace farcached::fabric
