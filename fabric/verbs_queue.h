// SPDX-License-Identifier: BSD-3-Clause
// VerbsQueue: the datapath of one connection over RDMA: a queue pair, its completion queue, the messages that arrive
// and leave, and the READs. Bytes go in SENDs of at most a receive's size and come out in order: its owner sees a
// stream. The channel makes and ends the connection.
//
//   push(), post_read(), post_report()  collect work requests     ring()  posts them, with one doorbell
//   collect()  empties the completion queue                       pull()  copies messages out, posts receives again
//
// Q1  A message leaves only with a credit (verbs_credits.h), so no receive queue is ever empty.
// Q2  Work requests complete in the order of posting: one completion completes all before it. Every quarter of the sends
//     asks for a completion (SENDs and WRITEs), and so does the last READ or FETCH_AND_ADD of a doorbell.
// Q3  bad() holds the first work request that completes badly. The queue pair is in error from then on, and later
//     completions mean nothing. A request is flushed because of another failure, and may complete before it. Then the
//     queue posts one more request, and bad() stays empty until that failure completes or the last request is flushed.
// Q4  Memory named in a work request is not reused before the request has completed or the queue pair is destroyed (S12).
//     The message buffers live and die with the queue pair. So does the one word where FETCH_AND_ADDs put the previous
//     values, which are never read. reads_pending() counts the READs that are left.
// Q5  It belongs to one thread at a time; defer_close() hands it to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mapping.h"
#include "fabric/channel.h"
#include "fabric/verbs_config.h"
#include "fabric/verbs_container.h"
#include "fabric/verbs_credits.h"
#include "fabric/verbs_device.h"
#include "fabric/verbs_error.h"
#include "fabric/verbs_greeting.h"
#include "fabric/verbs_objects.h"

namespace farcached::fabric {

// The remote memory of READs; 0 bytes: none.
struct VerbsFarMemory {
    uint64_t address = 0, bytes = 0;
    uint32_t key = 0;
};

// The counters of reads. The first one belongs to the item `from` bytes after the start of the remote memory.
struct VerbsFarCounters {
    uint64_t address = 0, bytes = 0, from = 0;
    uint32_t key = 0;
};

class VerbsQueue {
  public:
    // A queue pair for an id that has a device, with all receives posted. nullptr: `error` has the cause.
    static std::unique_ptr<VerbsQueue> make(CmEvents events, CmId id, std::shared_ptr<VerbsDevice> device,
                                            std::string& error);
    ~VerbsQueue();  // disconnects
    VerbsQueue(const VerbsQueue&) = delete;
    VerbsQueue& operator=(const VerbsQueue&) = delete;

    rdma_cm_id* id() const { return id_.get(); }
    rdma_event_channel* events() const { return events_.get(); }
    int completion_fd() const { return completions_->fd; }
    VerbsDevice& device() const { return *device_; }
    VerbsReceives receives() const { return {config().receives, config().message_bytes}; }
    // READs land in this memory, or the other side READs it; one of each. It outlives the queue, or its leave() (S12).
    bool use_memory(const void* base, size_t bytes, VerbsAccess access, std::string& error);
    const ibv_mr* landing() const { return landing_ == nullptr ? nullptr : landing_->get(); }
    const ibv_mr* shown() const { return shown_ == nullptr ? nullptr : shown_->get(); }
    // A node's: the other side adds to these counters. False: `error` has the cause.
    bool use_counters(uint64_t* counters, size_t bytes, std::string& error);
    const ibv_mr* counters_memory() const { return counters_memory_ == nullptr ? nullptr : counters_memory_->get(); }
    // Counts in `counters` from here on, until leave(); `counters` outlives this.
    void count_in(ChannelCounters& counters) { counters_ = &counters; }
    // The other side's receives and readable memory. Once, before the first message.
    void met(const VerbsReceives& there, const VerbsFarMemory& far, const VerbsFarCounters& counters = {});
    // Gives this end a container, if the device has room for it.
    void use_container() { container_ = OwnContainer::make(*device_); }
    const OwnContainer* container() const { return container_.get(); }
    // The other end's container, if its greeting names it; then this end's first WRITE names its own. Otherwise the other
    // end's first WRITE names it (VerbsContainer).
    void met_container(const VerbsContainer& there) { far_container_ = there; }
    // The connection is made. Narrows the other side's rights to READs, atomics where there are counters, and WRITEs: empty
    // ones or into the container, since no other memory is registered for them. Binds the container's window. Checks that
    // the queue pair's timeouts are at most those of the settings, on which the grace is built (S2).
    // False: `error` has the cause.
    bool connected(std::string& error);

    // ---- sending: collected, and posted by ring() ---------------------------------------------------
    size_t push(std::string_view bytes);  // returns how many bytes it took
    bool room_to_push() const { return credits_->may_send() && sends_left() > 0; }
    bool room_to_read(bool count) const {
        return reads_pending_ + counts_pending_ + (count ? 2 : 1) <= config().reads;
    }
    void post_read(uint64_t* landing, uint32_t bytes, uint64_t far_offset, uint64_t token);
    // Has the other side counters of reads?
    bool counts_reads() const { return far_counters_.bytes > 0; }
    // Adds one to an item's counter, after all collected requests; no-op without a counter for it. Room: as for a read.
    void post_count(uint64_t far_offset);
    // WRITEs a report into the other end's container (fabric/channel.h, C7). False: no container there, or no room now.
    bool post_report(std::string_view bytes);
    // Probes the other side's device. No-op while another probe is under way.
    void post_beat();
    bool anything_to_post() const;
    bool ring();  // false: bad()

    // ---- completions --------------------------------------------------------------------------------
    void collect();
    bool arm();   // the next completion makes completion_fd() readable; false: bad()
    bool disarm();    // consumes the event that made completion_fd() readable; false: there was none
    const std::optional<VerbsBadCompletion>& bad() const { return bad_; }
    bool broken() const { return bad_.has_value() || flushed_.has_value(); }
    void look_no_further() { if (!bad_.has_value()) bad_ = flushed_; }  // stops waiting for the cause of a flush (Q3)
    bool anything_came() const { return inbox_count_ > 0; }
    size_t pull(char* to, size_t room);
    // The bytes of the last report not taken yet; 0: none.
    uint32_t take_written() { return std::exchange(written_, 0); }
    uint32_t written() const { return written_; }
    std::vector<uint64_t>& reads_done() { return reads_done_; }  // tokens; the owner takes them out
    uint32_t reads_pending() const { return reads_pending_; }
    uint64_t completed() const { return completed_; }            // successfully, of both queues

    // ---- leaving --------------------------------------------------------------------------------------
    // Ends sending and reading. Only while connected, not broken() and without READs under way.
    void leave();
    // Collects; true: each message has arrived, or never will.
    bool quiet();

  private:
    struct Posted {
        WorkKind kind;
        uint64_t token;
    };
    struct Message {
        uint32_t buffer, bytes, taken;
    };

    VerbsQueue(CmEvents events, CmId id, std::shared_ptr<VerbsDevice> device);
    bool make_queues(std::string& error);
    bool make_buffers(std::string& error);
    const VerbsConfig& config() const { return device_->config(); }
    char* send_buffer(uint32_t number) const {
        return buffers_->data() + size_t(number) * config().message_bytes;
    }
    char* receive_buffer(uint32_t number) const { return send_buffer(config().sends + number); }
    char* counted_buffer() const { return receive_buffer(config().receives); }  // one word, never read
    uint32_t sends_left() const { return config().sends - sends_pending_; }
    ibv_send_wr& add(WorkKind kind, uint64_t token);
    void add_message(WorkKind kind, uint32_t bytes);
    void add_sent(ibv_send_wr& work, uint32_t bytes);
    ibv_send_wr& add_write(uint64_t offset, std::string_view bytes);
    bool may_pay() const;
    void complete_up_to(uint64_t number);
    void completed_well(const ibv_wc& completion);
    void completed_badly(const ibv_wc& completion);
    void received(const ibv_wc& completion);
    void post_receive_later(uint32_t buffer);
    bool post_receives();
    void post_last();
    bool post_chain();
    void fail(ChannelEnd why, std::string text);
    void fail_call(const char* call, int error);

    // In this order: the last is destroyed first.
    CmEvents events_;
    CmId id_;
    std::shared_ptr<VerbsDevice> device_;
    std::shared_ptr<MemoryRegion> landing_, shown_, counters_memory_;
    std::unique_ptr<Mapping> buffers_;
    MemoryRegion buffers_registered_;
    CompletionChannel completions_;
    CompletionQueue completion_queue_;
    QueuePair queue_pair_;
    std::unique_ptr<OwnContainer> container_;  // B3

    std::optional<VerbsCredits> credits_;
    VerbsFarMemory far_;
    VerbsFarCounters far_counters_;
    std::optional<VerbsContainer> far_container_;
    bool told_container_ = false;
    bool heard_ = false;  // a message has arrived
    uint32_t written_ = 0;
    uint32_t send_bytes_max_ = 0, inline_bytes_ = 0;
    bool connected_ = false;  // or about to be

    std::vector<ibv_send_wr> chain_;  // collected, not posted
    std::vector<ibv_sge> pieces_;
    size_t chain_read_last_ = SIZE_MAX;  // last READ or FETCH_AND_ADD of chain_; SIZE_MAX: none
    std::vector<Posted> posted_;  // ring by number; a slot for each work request of the send queue
    uint64_t posted_head_ = 0, posted_tail_ = 0;
    uint32_t sends_pending_ = 0, reads_pending_ = 0, counts_pending_ = 0, unsignalled_ = 0;
    uint32_t next_send_ = 0;
    bool beating_ = false;

    std::vector<Message> inbox_;  // ring
    uint32_t inbox_first_ = 0, inbox_count_ = 0;
    std::vector<ibv_recv_wr> again_;  // receives to post again
    std::vector<ibv_sge> again_pieces_;
    std::vector<uint64_t> reads_done_;
    std::optional<VerbsBadCompletion> bad_;
    std::optional<VerbsBadCompletion> flushed_;  // the first flushed request
    uint64_t last_number_ = 0;                    // of the request that was posted then
    uint64_t completed_ = 0;
    ChannelCounters unread_;  // used without count_in() and after leave()
    ChannelCounters* counters_ = &unread_;
};

}  // namespace farcached::fabric
