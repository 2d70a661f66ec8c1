// SPDX-License-Identifier: BSD-3-Clause
// IndexGets: GETs without a pointer. They READ the node's published index and then the item (fabric/index_probe.h), so
// that a hit does not wake the node.
//
// Owner: a NodeLink. Reads has the rules for every one-sided GET (G1 to G3).
//
// G7  A probe proves a hit, never a miss: after any other outcome the node is asked, once (S5).
// G8  Without a lease, the item's check is always verified (S5). An item that may be expired by the node's clock is
//     left to the node (S13).
#pragma once

#include <cstdint>

#include "fabric/channel.h"
#include "fabric/index_probe.h"
#include "proxy/pointer_get.h"
#include "proxy/reads.h"

namespace farcached::proxy {

class IndexGets {
  public:
    IndexGets(const GetParts& parts, bool on) : parts_(parts), on_(on) {}
    IndexGets(const IndexGets&) = delete;
    IndexGets& operator=(const IndexGets&) = delete;

    // Enabled, and the node publishes a readable index.
    bool enabled() const { return readable_ && parts_.reads.enabled(); }

    // A new connection: the region's old layout is discarded.
    void greeted(const protocol::Welcome& welcome);

    // Posts the first READs; false: no room for them. op.key.hash uses the node's seed.
    bool begin(fabric::Channel& channel, const protocol::GetOp& op, const AskOptions& options,
               ReplySink& sink);
    // Continues a read whose READs completed before `now_ns`: answers it, posts the next READs, or falls back to the
    // node. channel: nullptr if no more READs may be posted.
    void judge(fabric::Channel* channel, Read& read, uint64_t now_ns);

  private:
    bool post(fabric::Channel& channel, Read& read);
    bool read_on(fabric::Channel* channel, Read& read);
    void answer(Read& read);

    const GetParts parts_;
    bool on_;
    bool readable_ = false;
    uint64_t check_secret_ = 0;
    fabric::FarRegion region_;
};

}  // namespace farcached::proxy
