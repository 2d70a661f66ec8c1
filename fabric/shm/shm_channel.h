// SPDX-License-Identifier: BSD-3-Clause
// The channel between processes of one host: frames through rings in shared memory, a wake-up only for a side that
// sleeps, and the node's region mapped read-only in the proxy. A Unix socket makes the connection and signals its end.
//
// post_read() copies at once; the next ready() reports it, as over any other fabric. Reading through
// mapped_region() is cheaper, where the caller can use it.
//
// revoke() does nothing here: a region that the proxy has mapped stays mapped, until the proxy ends or unmaps it. So only
// processes of users that refuse_peer() admits get it. Containers and rings are memory of the connection alone, there at once.
//
// Owner and threads: as of any channel and listener (fabric/channel.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "fabric/channel.h"
#include "fabric/mapped_region.h"
#include "fabric/owner.h"
#include "fabric/region.h"
#include "fabric/shm/shm_ring.h"
#include "fabric/socket.h"

namespace farcached::fabric {

struct ShmOptions {
    uint32_t ring_bytes =
        ring_bytes_default;    // each way; a power of two. 0 at a proxy: the node chooses
    uint32_t spins_max = 200;  // most polls of the ring by one linger(); 0: none
    size_t input_bytes_max = input_bytes_default;
    bool group = false;  // also accept a peer of another user, if its primary group is this process's
    bool withholds = false;  // a node: no proxy gets its region until Channel::grant(). A proxy: it expects that
};

// Counts of linger() and of wake-ups.
struct ShmCounters {
    uint64_t rung = 0;           // system calls made to wake the other side
    uint64_t woken = 0;          // system calls made to find out why this side woke
    uint64_t spins = 0;          // polls of the ring by linger()
    uint64_t lingered = 0;       // calls of linger() that polled
    uint64_t lingered_paid = 0;  // and found something
};

// A proxy's side. `events` and `regions` outlive the channel. A problem: the process has no free descriptor, or the path is
// too long. A connection that fails ends through `events`, as any other does.
Result<std::unique_ptr<Channel>> connect_shm(const std::string& path, MappedRegions& regions,
                                             ChannelEvents& events, const ShmOptions& options = {});

// The counters of a channel made here; any other channel is a bug.
const ShmCounters& shm_counters(const Channel& channel);

class ShmListener final : public ChannelListener {
  public:
    // At owner.path(); replaces a socket left there, since its owner is dead. `region` belongs to the owner; nullptr:
    // proxies get none. All outlive the listener and its channels. A problem is a sentence with path and cause.
    static Result<std::unique_ptr<ShmListener>> listen(const Owner& owner, const Region* region,
                                                       const ShmOptions& options, int backlog);
    ~ShmListener() override;  // removes the socket

    int fd() const override { return socket_.get(); }
    std::unique_ptr<Channel> accept(ChannelEvents& events) override;
    std::string describe() const override;
    uint64_t turned_away() const override { return turned_away_; }

    struct Offer;  // what a connection gets

  private:
    ShmListener(Descriptor socket, std::shared_ptr<const Offer> offer);
    Descriptor socket_;
    Descriptor reserve_;
    uint64_t turned_away_ = 0;
    std::shared_ptr<const Offer> offer_;
    uint64_t device_ = 0, inode_ = 0;  // of the socket, to remove no other
};

}  // namespace farcached::fabric
