// SPDX-License-Identifier: BSD-3-Clause
// VerbsMessages: the messages of one connection over RDMA, both ways. They carry a stream: bytes go in SENDs of at most a
// receive's size, or in slots where both ends have them (verbs_rpc.h), and come out in order. Reports are messages, too.
//
// It collects work requests, and a VerbsQueue posts them.
//
// Owner and thread: those of a VerbsQueue.
// Q1  A message leaves only with a credit (verbs_work.h), so no receive queue is ever empty.
// Q7  A message of the other end is checked before it counts (S10). An impossible one is the queue's failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "fabric/channel.h"
#include "fabric/verbs/verbs_device.h"
#include "fabric/verbs/verbs_greeting.h"
#include "fabric/verbs/verbs_reach.h"
#include "fabric/verbs/verbs_rpc.h"
#include "fabric/verbs/verbs_work.h"

namespace farcached::fabric {

class VerbsMessages {
  public:
    // Parts of one queue, which all outlive this.
    VerbsMessages(const VerbsConfig& config, const VerbsBuffers& buffers, VerbsRpc& rpc, VerbsReports& reports, VerbsSends& sends,
                  VerbsFailure& failure, const VerbsCounting& counting)
        : config_(config),
          rpc_(rpc),
          reports_(reports),
          sends_(sends),
          failure_(failure),
          counting_(counting),
          inbox_(config, buffers) {}

    // The start, when the buffers are registered: all receives are to be posted.
    void begin() { inbox_.fill(); }
    // The other side's receives. Once, before the first message.
    void met(const VerbsReceives& there);
    bool has_met() const { return credits_.has_value(); }

    // ---- sending --------------------------------------------------------------------------------------
    size_t push(std::string_view bytes);  // returns how many bytes it took
    bool room_to_push() const { return credits_->may_send() && sends_.room_to_send() > 0; }
    // WRITEs a report into the other end's container (fabric/channel.h, C7). False: no container there, or no room now.
    bool post_report(std::string_view bytes);
    // The time when a READ of a reply or a wake is to be posted; UINT64_MAX: none.
    uint64_t next_ns() const;
    // Are there receives to be posted, or has add_due() work?
    bool anything_due() const;
    // Posts the emptied receives again. Returns an errno.
    int post_receives(ibv_qp* to) { return inbox_.post(to); }
    // Collects what is due by itself: credits to be paid, READs of replies, and a wake.
    void add_due();

    // ---- receiving ------------------------------------------------------------------------------------
    void received(const ibv_wc& completion);
    // Has pull() work? Not if the next message is still to be READ.
    bool anything_came() const {
        if (rpc_.anything_here()) return true;
        return inbox_.count() > 0 && (inbox_.begun() || rpc_.is_next(inbox_.whole(), inbox_.numbered()));
    }
    // Copies bytes out, and owes their receives.
    size_t pull(char* to, size_t room);

  private:
    ibv_send_wr& add_message(WorkKind kind, uint32_t bytes, uint32_t written = 0);
    ibv_send_wr& add_write(uint32_t bytes, uint64_t address, uint32_t key);
    ibv_send_wr& add_report(uint64_t offset, std::string_view bytes);
    void add_immediate(ibv_send_wr& work, uint32_t written);
    void add_reads_and_wake();
    size_t push_one(std::string_view bytes, uint64_t now_ns);
    bool may_pay() const;
    std::string_view front(bool& sent, uint64_t now_ns);

    const VerbsConfig& config_;
    VerbsRpc& rpc_;
    VerbsReports& reports_;
    VerbsSends& sends_;
    VerbsFailure& failure_;
    const VerbsCounting& counting_;
    std::optional<VerbsCredits> credits_;  // from met() on
    VerbsInbox inbox_;
    uint32_t send_bytes_max_ = 0;
};

}  // namespace farcached::fabric
