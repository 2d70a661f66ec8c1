// SPDX-License-Identifier: BSD-3-Clause
// MappedRegion: the region of a node in another process, mapped read-only into this one.
//
// Owner: the channels that lead to it, together; the last one unmaps it. Of MappedRegions a NodeChannels, which
// outlives the links. Threads: any; a region does not move while it is mapped.
//
// M1  Every offset and size was checked once and is kept in this process's own memory (S10). Readers check each time the
//     fields that they read from the region itself.
// M2  It has an owner, alive when it was mapped; alive() checks that this one still is (S9).
// M3  A region is mapped once per process, however many channels lead to it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/result.h"
#include "fabric/owner.h"
#include "fabric/region.h"
#include "fabric/socket.h"

namespace farcached::fabric {

class MappedRegion {
  public:
    ~MappedRegion();
    MappedRegion(const MappedRegion&) = delete;
    MappedRegion& operator=(const MappedRegion&) = delete;

    const RegionView& view() const { return view_; }
    uint64_t incarnation() const { return incarnation_; }
    bool alive() const;

  private:
    friend class MappedRegions;
    explicit MappedRegion(uint64_t bytes) : bytes_(bytes) {}
    Refusal map(int fd);

    const char* base_ = nullptr;
    uint64_t bytes_;
    uint64_t owner_ = 0, incarnation_ = 0;
    std::vector<IndexShape> shapes_;
    RegionView view_;
};

// All mapped regions of a process; any thread may call it. Outlives the channels that use it.
class MappedRegions {
  public:
    // The region behind `fd`; bytes and incarnation are those of the greeting.
    Result<std::shared_ptr<const MappedRegion>> map(const Descriptor& fd, uint64_t bytes, uint64_t incarnation);

  private:
    std::mutex lock_;
    std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<const MappedRegion>>
        mapped_;  // by device, inode
};

}  // namespace farcached::fabric
