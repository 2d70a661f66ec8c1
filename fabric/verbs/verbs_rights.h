// SPDX-License-Identifier: BSD-3-Clause
// VerbsAgreement: the memory that the two ends of one connection over RDMA let each other use. Greetings or grants name it. The
// agreement knows which READs of this end lie within it. VerbsQueue gives the rights (allow()) and posts the READs.
//
// Owner and thread: those of a VerbsChannel.
// M1  An end names its memory in its greeting. An end that withholds (fabric/channel.h, S16) makes and names it in grant()
//     only, and uses none of the other end's before take_grant().
// M2  A proxy uses the node's slots, and lends its memory, when both ends have their rights.
// M3  The other end's pointers and offsets pass reads() or fetches() before a work request names them (S10).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fabric/remote_ptr.h"
#include "fabric/verbs/verbs_channel.h"
#include "fabric/verbs/verbs_greeting.h"
#include "fabric/verbs/verbs_queue.h"

namespace farcached::fabric {

// Gives a node's connection its container, its slots, and its part of the offer. layout_fits: the proxy may READ the region.
// Rights are given by VerbsQueue::allow(). The landing memory is not among it.
Result<VerbsNames> name_offer(VerbsQueue& queue, const VerbsOffer& offer, bool layout_fits);

class VerbsAgreement {
  public:
    // name: the channel's, for messages. Both outlive this.
    VerbsAgreement(VerbsDevices& devices, const std::string& name) : devices_(devices), name_(name) {}

    // A proxy's start.
    void propose(const VerbsMemories& memories, const RpcWish& wish) {
        memories_ = memories;
        wish_ = wish;
        withholds_ = memories.withholds;
    }
    // The start of a node that withholds.
    void withhold(const VerbsOffer& offer, bool layout_fits) {
        withholds_ = true;
        offer_ = offer;
        layout_fits_ = layout_fits;
    }
    // The start of a node that has named its memory in its welcome: size of the proxy's memory that it may READ.
    void lent(uint64_t fetch_bytes) { fetch_bytes_ = fetch_bytes; }

    bool withholds() const { return withholds_; }
    // A proxy: registers what a new queue needs before its greeting.
    Refusal prepare(VerbsQueue& queue) const;
    // A proxy: the node has answered. Gives the node its rights, unless this end withholds.
    Refusal answered(VerbsQueue& queue, const VerbsWelcome& welcome);
    // Channel::grant() and take_grant(). queue: nullptr if the connection is not open.
    Result<std::string> grant(VerbsQueue* queue);
    Refusal take_grant(VerbsQueue* queue, std::string_view bytes);

    // A proxy: does it READ the node's region, and may it READ there? The pointers in a node's frames may exceed the size that
    // it registered.
    bool reads() const { return region_bytes_ > 0; }
    bool reads(const RemotePtr& ptr) const {
        return ptr.region == 0 && ptr.incarnation == incarnation_ && inside(ptr, region_bytes_);
    }
    // A node: may it READ there in the proxy's memory?
    bool fetches(uint64_t offset, uint32_t bytes) const { return bytes <= fetch_bytes_ && offset <= fetch_bytes_ - bytes; }
    // A proxy: the longest value that the node READs.
    uint64_t lends() const { return lends_; }

  private:
    void use_region(VerbsQueue& queue, const VerbsNames& names, bool layout_fits);
    void use_node(VerbsQueue& queue, const VerbsNames& names);
    Refusal name_own(VerbsQueue& queue, VerbsNames& names) const;

    VerbsDevices& devices_;
    const std::string& name_;
    VerbsMemories memories_;  // a proxy's
    RpcWish wish_;            // a proxy's
    std::optional<VerbsOffer> offer_;  // of a node that withholds
    bool withholds_ = false, granted_ = false, taken_ = false, layout_fits_ = false;
    VerbsNames far_names_{};  // from take_grant() on
    uint64_t incarnation_ = 0, region_bytes_ = 0;  // of the region that a proxy READs
    uint64_t lends_ = 0;
    uint64_t fetch_bytes_ = 0;  // of the memory that the proxy lends
};

}  // namespace farcached::fabric
