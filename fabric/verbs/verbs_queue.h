// SPDX-License-Identifier: BSD-3-Clause
// VerbsQueue: the datapath of one connection over RDMA: a queue pair, its completion queue, the rights and windows of the other
// end, and the READs. VerbsMessages has the messages. The channel makes and ends the connection.
//
//   messages(), post_read(), post_count()  collect work requests     ring()  posts them, with one doorbell
//   collect()  empties the completion queue
//
// Owner: the channel; and the thread of deferred closes, after defer_close().
// Q1  is VerbsMessages' (verbs_messages.h), Q2 VerbsSends', Q3 VerbsFailure's (verbs_work.h).
// Q4  Memory named in a work request is not reused before the request has completed or the queue pair is destroyed (S12).
//     The message buffers live and die with the queue pair.
// Q5  It belongs to one thread at a time; defer_close() hands it to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fabric/channel.h"
#include "fabric/verbs/verbs_completions.h"
#include "fabric/verbs/verbs_device.h"
#include "fabric/verbs/verbs_greeting.h"
#include "fabric/verbs/verbs_messages.h"
#include "fabric/verbs/verbs_pair.h"
#include "fabric/verbs/verbs_reach.h"
#include "fabric/verbs/verbs_rpc.h"
#include "fabric/verbs/verbs_work.h"

namespace farcached::fabric {

class VerbsQueue {
  public:
    // A queue pair for an id that has a device, with all receives posted.
    static Result<std::unique_ptr<VerbsQueue>> make(CmEvents events, CmId id, std::shared_ptr<VerbsDevice> device);
    ~VerbsQueue();  // disconnects

    rdma_cm_id* id() const { return id_.get(); }  // its channel has this connection's events alone
    VerbsPair& pair() { return pair_; }
    VerbsCompletions& completions() { return completions_; }
    VerbsDevice& device() const { return *device_; }
    VerbsReceives receives() const { return {device_->config().receives, device_->config().message_bytes}; }
    VerbsReach& reach() { return reach_; }
    VerbsReports& reports() { return reports_; }
    VerbsRpc& rpc() { return rpc_; }
    VerbsMessages& messages() { return messages_; }
    const VerbsSends& sends() const { return sends_; }
    const VerbsFailure& failure() const { return failure_; }
    void look_no_further() { failure_.look_no_further(); }  // Q3
    // Counts in `counters` from here on, until leave(); `counters` outlives this.
    void count_in(ChannelCounters& counters) { counting_.count_in(counters); }
    // Gives the other side its rights. It may READ if this side lends memory or has replies to be READ. It may use atomics if
    // there are counters. It may WRITE nothing, or into container and slots: no other memory is registered for WRITEs. Binds
    // the windows of all of these. Once, when pair() is ready().
    Refusal allow();
    // Slots of this side that were made since.
    void bind_slots();
    // Takes all rights back, and destroys the windows. Without windows the queue pair ends. Any number of times.
    void revoke();
    // The other side withholds its rights until permitted(): no WRITE leaves, not even an empty one.
    void await_permission();
    void permitted();

    // ---- READs: collected, and posted by ring(), as the messages are ----------------------------------
    // Only while sends().room_to_read().
    void post_read(uint64_t* landing, uint32_t bytes, uint64_t far_offset, uint64_t token);
    // Adds one to an item's counter, after all collected requests; no-op without a counter for it. Room: as for a read.
    void post_count(uint64_t far_offset);
    // Probes the other side's device. No-op while another probe is under way.
    void post_beat() {
        if (permitted_) sends_.add_beat(/* last= */ false);
    }
    bool anything_to_post() const;
    bool ring();  // false: failed

    // ---- completions --------------------------------------------------------------------------------
    void collect();
    bool arm();  // completions(); false: failed
    std::vector<uint64_t>& reads_done() { return sends_.reads_done(); }
    uint64_t completed() const { return completed_; }  // successfully, of both queues

    // ---- leaving --------------------------------------------------------------------------------------
    // Ends sending and reading. Only while connected, without a failure and without READs under way. wait: if replies stand in
    // slots, quiet() waits until the proxy has left. Until then it may READ, the region, too: leases and grace go on.
    void leave(bool wait);
    // Collects; true: each message has arrived, or never will, and no proxy is waited for. Its caller limits the time
    // (verbs_device.h, D3).
    bool quiet();

  private:
    VerbsQueue(CmEvents events, CmId id, std::shared_ptr<VerbsDevice> device);
    Refusal make_queues();
    template <class Memory>
    void bind_window(const Memory& memory);
    void drop_windows();
    void end_reads();
    bool peer_left();
    void completed_badly(const ibv_wc& completion);
    bool went_well(const char* call, int error);

    // In this order: the last is destroyed first.
    CmEvents events_;
    CmId id_;
    std::shared_ptr<VerbsDevice> device_;
    VerbsReach reach_;
    VerbsBuffers buffers_;
    VerbsRpc rpc_;  // its windows go before the queue pair (B3)
    VerbsCompletions completions_;
    VerbsPair pair_;
    VerbsReports reports_;  // B3

    VerbsCounting counting_;
    VerbsSends sends_;
    VerbsFailure failure_;
    VerbsMessages messages_;
    uint64_t completed_ = 0;
    bool awaits_reads_ = false;  // after leave(): the proxy may still READ replies
    bool permitted_ = true, revoked_ = false;
    bool dropped_ = false;  // the windows: a binding that has not run yet may fail
};

}  // namespace farcached::fabric
