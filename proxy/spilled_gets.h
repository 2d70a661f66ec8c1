// SPDX-License-Identifier: BSD-3-Clause
// SpilledGets: GETs of items that this link's node, their home, keeps in another node's memory (protocol/spilled.h). The
// home grants pointers to them. The link to the other node READs and judges such an item, with its own landing buffer,
// regions, secret and clock (PointerGets::begin_for_home()). This link keeps the request: its key, order and answer.
//
// Owner: a PointerGets, on its worker's thread.
//
// Z1  A pointer is kept under the key's hash mixed with the home's incarnation. So none outlives that run of the home. It
//     is used only while the home's link accepts requests, and only for a link to the run of the node that it names (S9).
// Z2  A lease counts as the home's others do (S3). It is at most spilled_term_ms_max long.
// Z3  A read that proves nothing drops the pointer, and the home is asked, once. The other node is never asked.
#pragma once

#include <cstdint>

#include "protocol/handshake.h"
#include "proxy/access_notes.h"
#include "proxy/ask.h"
#include "proxy/link_counters.h"
#include "proxy/node_clock_estimate.h"
#include "proxy/pointer_table.h"
#include "proxy/reads.h"

namespace farcached::proxy {

// The parts that each way of a one-sided GET uses; all outlive it.
struct GetParts {
    PointerTable* table;  // nullptr: no pointers
    Reads& reads;
    const NodeClockEstimate& clock;
    LinkCounters& counters;
    AccessNotes& notes;
    ReadEvents& events;
};

// How a reply earned its pointer. frame_sent_ns: of the request's frame.
struct Earned {
    uint64_t key_hash = 0;
    uint32_t key_len = 0;
    uint32_t value_len = 0;
    uint64_t frame_sent_ns = 0;
    uint64_t received_ns = 0;
};

// The end of a lease that a frame earned (S3).
uint64_t lease_end(uint32_t term_ms, uint64_t sent_ns, uint64_t received_ns);

class SpilledGets final : private ReplySink {
  public:
    explicit SpilledGets(const GetParts& parts) : parts_(parts) {}
    SpilledGets(const SpilledGets&) = delete;
    SpilledGets& operator=(const SpilledGets&) = delete;

    // A new connection.
    void greeted(const protocol::Welcome& welcome);
    // grant: of another node's memory.
    void keep(const protocol::Grant& grant, const Earned& earned);
    // Begins a READ through the link to the other node, if the key has a pointer. op.key.hash is under the home's seed.
    bool begin(const protocol::GetOp& op, const AskOptions& options, ReplySink& sink, uint64_t now_ns);

  private:
    void answered(Ticket ticket, Answer& answer) override;
    void failed(Ticket ticket, const Failed& failed) override;
    uint64_t table_key(uint64_t key_hash) const;

    const GetParts parts_;
    uint64_t incarnation_ = 0;  // the home's
    uint64_t other_ = 0;        // of the node in the last grant on this connection; 0: there was none
};

}  // namespace farcached::proxy
