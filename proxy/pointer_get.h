// SPDX-License-Identifier: BSD-3-Clause
// PointerGets: GETs by one READ through a remote pointer, and the pointers themselves: taken from replies, kept in the
// table that processes share, dropped when they fail.
//
// Owner: a NodeLink. What every one-sided GET has in common is in Reads (G1 to G3).
//
// G4  A pointer is used only if it names the incarnation that was welcomed and lies in a region of it (S9).
// G5  What was read is used only if the one validating function says so, by a clock read after the completion (S4).
// G6  A lease counts from the first sending of the frame that earned it, or of the report that renewed it (S3).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fabric/channel.h"
#include "protocol/handshake.h"
#include "proxy/access_notes.h"
#include "proxy/link_counters.h"
#include "proxy/pointer_table.h"
#include "proxy/reads.h"

namespace farcached::proxy {

class PointerGets {
  public:
    // All outlive this.
    struct Parts {
        PointerTable* table;  // nullptr: there are no pointers
        Reads& reads;
        LinkCounters& counters;
        AccessNotes& notes;
    };
    PointerGets(const Parts& parts, bool verify_check);
    PointerGets(const PointerGets&) = delete;
    PointerGets& operator=(const PointerGets&) = delete;

    bool enabled() const { return table_ != nullptr && reads_.enabled(); }

    // A new connection; of the welcome only what pointers need is kept.
    void greeted(const protocol::Welcome& welcome);

    // Posts a read if the key has a pointer that may be used. op.key.hash is under the node's seed.
    bool begin(fabric::Channel& channel, const protocol::GetOp& op, const AskOptions& options,
               ReplySink& sink, uint64_t now_ns);
    // Judges one that completed before `now_ns`: answers it or has the node asked.
    void judge(Read& read, uint64_t now_ns);

    // A reply brought a pointer to the item of that key; frame_sent_ns: of the frame that earned it.
    struct Earned {
        uint64_t key_hash = 0;
        uint32_t key_len = 0;
        uint32_t value_len = 0;
        uint64_t frame_sent_ns = 0;
        uint64_t received_ns = 0;
    };
    void keep(const protocol::Grant& grant, const Earned& earned);
    // A report was answered: the item that it told of is leased for term_ms from report_sent_ns on. True: so is the
    // pointer to it, longer than before.
    bool renew(const protocol::AccessRecord& item, uint32_t term_ms, uint64_t report_sent_ns, uint64_t received_ns);
    // After a mutation whose reply brought none.
    void forget(uint64_t key_hash);

    // Tells the table of a tick's uses.
    void count_accesses();

  private:
    static uint64_t lease_end(uint32_t term_ms, uint64_t sent_ns, uint64_t received_ns);
    bool usable(const fabric::RemotePtr& ptr) const;
    const protocol::RegionFact* region(uint32_t id) const;
    void note_access(const Read& read);
    void drop(uint64_t key_hash, const fabric::RemotePtr& ptr);

    PointerTable* table_;
    Reads& reads_;
    LinkCounters& counters_;
    AccessNotes& notes_;
    bool verify_check_;

    uint64_t incarnation_ = 0;
    uint64_t check_secret_ = 0;
    std::vector<protocol::RegionFact> regions_;

    struct Uses {
        uint64_t entry = 0;
        uint64_t count = 0;
    };
    std::array<Uses, 64> uses_{};  // by entry
    uint64_t used_ = 0;            // a bit for each of which the count is not 0
};

}  // namespace farcached::proxy
