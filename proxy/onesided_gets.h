// SPDX-License-Identifier: BSD-3-Clause
// The two ways of a one-sided GET: through a remote pointer, and through the node's index.
// Owner: a Requests, on its worker's thread. Reads has the rules for every one-sided GET (G1 to G3).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fabric/channel.h"
#include "fabric/index_probe.h"
#include "protocol/handshake.h"
#include "proxy/access_notes.h"
#include "proxy/link_counters.h"
#include "proxy/node_clock_estimate.h"
#include "proxy/pointer_table.h"
#include "proxy/reads.h"
#include "proxy/spilled_gets.h"

namespace farcached::proxy {

// PointerGets: GETs by one READ through a remote pointer. It takes pointers from replies, keeps them in the shared
// table, and drops those that fail.
//
// G4  A pointer is used only if it names the welcomed incarnation and lies in one of its regions (S9).
// G5  A READ's result is used only if the one validating function accepts it, by a clock read after the completion
//     (S4).
// G6  A lease counts from the first sending of the frame that earned it, or of the report that renewed it (S3).
// G10 An older generation, another key or impossible lengths drop a pointer. A two-sided hit without a grant forgets
//     it. A dead slot, a torn copy, a longer item and a passed expiry keep it. The slot stays with its key (S1), and
//     the node's reply corrects the pointer.
// G12 A READ, by pointer or by the index, counts only if it completed before the end of the node's serving right (S17). The
//     pointer is kept: the next reply renews the right.
class PointerGets {
  public:
    explicit PointerGets(const GetParts& parts) : parts_(parts), spilled_(parts) {}
    PointerGets(const PointerGets&) = delete;
    PointerGets& operator=(const PointerGets&) = delete;

    bool enabled() const { return parts_.table != nullptr && parts_.reads.enabled(); }

    // A new connection; keeps only the parts of the welcome that pointers need.
    void greeted(const protocol::Welcome& welcome);

    // Prefetches the entry of a key whose begin() follows soon. The hash is under the node's seed.
    void prefetch(uint64_t key_hash) const { parts_.table->prefetch(key_hash); }
    // Posts a READ if the key has a usable pointer. op.key.hash is under the node's seed.
    bool begin(fabric::Channel& channel, const protocol::GetOp& op, const AskOptions& options,
               ReplySink& sink, uint64_t now_ns);
    // Posts a READ of an item of another node, its home, for the home's link; nullptr: impossible now.
    Read* begin_for_home(fabric::Channel& channel, const protocol::GetOp& op, const AskOptions& options, ReplySink& home,
                         const ForHome& way);
    // Validates a read that completed before `now_ns`: answers it or falls back to the node.
    void judge(Read& read, uint64_t now_ns);

    // Stores the pointer that a reply granted for that key.
    void keep(const protocol::Grant& grant, const Earned& earned);
    // A report's answer leased the slot of `item` for term_ms from report_sent_ns on. True: this extended the lease of
    // its pointer.
    bool renew(const protocol::ItemAccess& item, uint32_t term_ms, uint64_t report_sent_ns, uint64_t received_ns);
    // After a reply that could have granted a pointer and did not.
    void forget(uint64_t key_hash);

    // Adds a tick's uses to the table's counts.
    void count_accesses();

  private:
    Read* post(fabric::Channel& channel, const protocol::GetOp& op, const AskOptions& options, ReplySink& sink,
               const fabric::RemotePtr& ptr);
    fabric::PointerCopy copy_of(const Read& read, const fabric::LeasedPtr& leased, uint64_t now_ns) const;
    void judge_for_home(Read& read, uint64_t now_ns);
    bool usable(const fabric::RemotePtr& ptr) const;
    const protocol::RegionFact* region(uint32_t id) const;
    uint64_t item_bytes_max(const fabric::RemotePtr& ptr) const;
    void note_access(const Read& read, uint64_t generation);

    const GetParts parts_;
    SpilledGets spilled_;
    uint64_t incarnation_ = 0;
    uint64_t check_secret_ = 0;
    std::vector<protocol::RegionFact> regions_;

    struct Uses {
        uint64_t entry = 0;
        uint64_t count = 0;
    };
    std::array<Uses, 64> uses_{};  // by entry number, modulo the size
    uint64_t used_ = 0;            // one bit for each nonzero count
};

// IndexGets: GETs without a pointer. They READ the node's published index and then the item (fabric/index_probe.h), so
// that a hit does not wake the node.
//
// G7  A probe proves a hit, never a miss: after any other outcome the node is asked, once (S5).
// G8  Without a lease, the item's check is always verified (S5). An item that may be expired by the node's clock is
//     left to the node (S13).
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
