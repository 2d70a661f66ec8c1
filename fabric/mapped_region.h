// SPDX-License-Identifier: BSD-3-Clause
// MappedRegion: the region of a node in another process, mapped read-only into this one.
//
// M1  Everything that says where something is was checked once, and a copy of it is in this
// process's own memory (S10).
//     What readers look at in the region itself, they check each time.
// M2  It has an owner, alive when it was mapped; alive() tells whether that one still is (S9).
// M3  A region is mapped once per process, however many channels lead to it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fabric/descriptor.h"
#include "fabric/owner.h"
#include "fabric/region_view.h"

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
    // `error`: why not, else empty.
    MappedRegion(int fd, uint64_t bytes, std::string& error);
    void check(std::string& error);

    const char* base_ = nullptr;
    uint64_t bytes_;
    uint64_t owner_ = 0, incarnation_ = 0;
    std::vector<IndexShape> shapes_;
    RegionView view_;
};

// All that a process has mapped; any thread may ask. Outlives the channels that use it.
class MappedRegions {
  public:
    // The region behind `fd`, which was said to be of `bytes` bytes and of that incarnation.
    // nullptr: `error` says what is wrong with it.
    std::shared_ptr<const MappedRegion> map(const Descriptor& fd, uint64_t bytes,
                                            uint64_t incarnation, std::string& error);

  private:
    std::mutex lock_;
    std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<const MappedRegion>>
        mapped_;  // by device, inode
};

}  // namespace farcached::fabric
