// SPDX-License-Identifier: BSD-3-Clause
// IndexGets: GETs without a pointer, answered by READing the node's published index and then the item
// (fabric/index_probe.h), so that a hit does not wake the node.
//
// Owner: a NodeLink. What every one-sided GET has in common is in Reads (G1 to G3).
//
// G7  A probe proves a hit, never a miss: whatever else comes of it, the node is asked, once (S5).
// G8  There is no lease: the item's check is always verified (S5), and what is expired by any reading that the node's
//     clock can show is left to the node (S13).
#pragma once

#include <cstdint>

#include "fabric/channel.h"
#include "fabric/index_probe.h"
#include "protocol/handshake.h"
#include "proxy/access_notes.h"
#include "proxy/far_clock.h"
#include "proxy/link_counters.h"
#include "proxy/reads.h"

namespace farcached::proxy {

class IndexGets {
  public:
    // All outlive this.
    struct Parts {
        Reads& reads;
        const FarClock& clock;
        LinkCounters& counters;
        AccessNotes& notes;
    };
    IndexGets(const Parts& parts, bool on) : parts_(parts), on_(on) {}
    IndexGets(const IndexGets&) = delete;
    IndexGets& operator=(const IndexGets&) = delete;

    // On, and the node that was greeted has an index to be READ.
    bool enabled() const { return readable_ && parts_.reads.enabled(); }

    // A new connection: nothing that was known of the region counts.
    void greeted(const protocol::Welcome& welcome);

    // Posts the first READs; false: there is no room for them. op.key.hash is under the node's seed.
    bool begin(fabric::Channel& channel, const protocol::GetOp& op, const AskOptions& options,
               ReplySink& sink);
    // Goes on with one whose READs completed before `now_ns`: answers it, posts the next, or has the node asked.
    // channel: nullptr if nothing may be posted any more.
    void judge(fabric::Channel* channel, Read& read, uint64_t now_ns);

  private:
    bool post(fabric::Channel& channel, Read& read);
    bool read_on(fabric::Channel* channel, Read& read);
    void answer(Read& read);

    Parts parts_;
    bool on_;
    bool readable_ = false;
    uint64_t check_secret_ = 0;
    fabric::FarRegion region_;
};

}  // namespace farcached::proxy
