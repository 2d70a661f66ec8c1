// SPDX-License-Identifier: BSD-3-Clause
// The channel between processes of one host: frames through rings in shared memory, a wake-up only
// for who sleeps, and the node's region mapped read-only in the proxy. A Unix socket makes the
// connection and tells of its end.
//
// A read that is posted is copied at once and told from the next ready() on, as over any other
// fabric; more than that costs nothing, so whoever may reads through mapped_region() instead.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fabric/channel.h"
#include "fabric/descriptor.h"
#include "fabric/mapped_region.h"
#include "fabric/owner.h"
#include "fabric/region.h"
#include "fabric/shm_ring.h"

namespace farcached::fabric {

struct ShmOptions {
    uint32_t ring_bytes =
        ring_bytes_default;    // each way; a power of two. 0 at a proxy: as the node likes
    uint32_t spins_max = 200;  // looks at the ring that linger() takes at most; 0: none
    size_t input_bytes_max = input_bytes_default;
};

// What linger() and the wake-ups came to.
struct ShmCounters {
    uint64_t rung = 0;           // system calls made to wake the other side
    uint64_t woken = 0;          // system calls made to see why this side was woken
    uint64_t spins = 0;          // looks at the ring by linger()
    uint64_t lingered = 0;       // calls of linger() that looked
    uint64_t lingered_paid = 0;  // and found something
};

// A proxy's side. `events` and `regions` outlive the channel. nullptr: the process can have no more
// descriptors, or the path is too long; `error` says so. A connection that cannot be made ends as
// any other does, through `events`.
std::unique_ptr<Channel> connect_shm(const std::string& path, MappedRegions& regions,
                                     ChannelEvents& events, const ShmOptions& options,
                                     std::string& error);

// Of a channel that was made here; any other is a bug.
const ShmCounters& shm_counters(const Channel& channel);

class ShmListener final : public ChannelListener {
  public:
    // At owner.path(); a socket that was left there is replaced, since its owner is dead. `region`
    // is the one that the owner owns; nullptr: none is given out. All outlive this and what it
    // accepts. nullptr: `error` is a sentence with path and cause.
    static std::unique_ptr<ShmListener> listen(const Owner& owner, const Region* region,
                                               const ShmOptions& options, int backlog,
                                               std::string& error);
    ~ShmListener() override;  // removes the socket

    int fd() const override { return socket_.get(); }
    std::unique_ptr<Channel> accept(ChannelEvents& events) override;
    std::string describe() const override;
    uint64_t turned_away() const override { return turned_away_; }

    struct Offer;  // what every connection is given

  private:
    ShmListener(Descriptor socket, std::shared_ptr<const Offer> offer);
    Descriptor socket_;
    Descriptor reserve_;
    uint64_t turned_away_ = 0;
    std::shared_ptr<const Offer> offer_;
    uint64_t device_ = 0, inode_ = 0;  // of the socket, to remove no other
};

}  // namespace farcached::fabric
