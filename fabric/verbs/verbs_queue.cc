// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_queue.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/node_clock.h"

namespace farcached::fabric {

VerbsQueue::VerbsQueue(CmEvents events, CmId id, std::shared_ptr<VerbsDevice> device)
    : events_(std::move(events)),
      id_(std::move(id)),
      device_(std::move(device)),
      rpc_(device_->config()),
      sends_(device_->config(), buffers_, counting_),
      messages_(device_->config(), buffers_, rpc_, reports_, sends_, failure_, counting_) {}

Result<std::unique_ptr<VerbsQueue>> VerbsQueue::make(CmEvents events, CmId id, std::shared_ptr<VerbsDevice> device) {
    std::unique_ptr<VerbsQueue> queue(new VerbsQueue(std::move(events), std::move(id), std::move(device)));
    if (Refusal no = queue->make_queues()) return *std::move(no);
    if (Refusal no = queue->buffers_.make(*queue->device_)) return *std::move(no);
    queue->messages_.begin();
    if (!queue->went_well("ibv_post_recv", queue->messages_.post_receives(queue->pair_.get())))
        return system_problem(queue->failure_.bad()->text);
    return queue;
}

Refusal VerbsQueue::make_queues() {
    const VerbsConfig& config = device_->config();
    if (Refusal no = completions_.make(*device_, config.send_queue() + config.receives)) return no;
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = completions_.get();
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap.max_send_wr = config.send_queue();
    wanted.cap.max_recv_wr = config.receives;
    wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
    wanted.cap.max_inline_data = config.inline_bytes;
    ibv_qp_init_attr without_inline = wanted;
    without_inline.cap.max_inline_data = 0;
    // Only a try shows how much a device can send inline.
    if (pair_.make(*device_, id_.get(), wanted) == 0) {
        sends_.send_inline(std::min(config.inline_bytes, wanted.cap.max_inline_data));
        return {};
    }
    const int failed = pair_.make(*device_, id_.get(), without_inline);
    return failed == 0 ? Refusal() : verbs_call_failed("ibv_create_qp", device_->name(), failed);
}

Refusal VerbsQueue::allow() {
    unsigned rights = IBV_ACCESS_REMOTE_WRITE;
    if (reach_.lends() || rpc_.lends_replies()) rights |= IBV_ACCESS_REMOTE_READ;
    if (reach_.own(VerbsAccess::counters) != nullptr) rights |= IBV_ACCESS_REMOTE_ATOMIC;
    if (const int failed = pair_.allow(rights); failed != 0) return verbs_call_failed("ibv_modify_qp", device_->name(), failed);
    if (const OwnContainer* own = reports_.own(); own != nullptr) bind_window(own->memory());
    bind_window(reach_);
    bind_slots();
    return {};
}

template <class Memory>
void VerbsQueue::bind_window(const Memory& memory) {
    if (memory.windowed()) memory.bind(sends_.add(WorkKind::bind, IBV_WR_BIND_MW));
}

void VerbsQueue::bind_slots() {
    rpc_.each_slots([&](const OwnSlots& slots) { bind_window(slots.memory()); });
}

// B3
void VerbsQueue::drop_windows() {
    dropped_ = true;
    if (sends_.collected() && !failure_.any()) (void)went_well("ibv_post_send", sends_.post(pair_.get()));
    rpc_.drop_windows();
    reach_.drop_window();
    if (const OwnContainer* own = reports_.own(); own != nullptr) own->memory().drop_window();
}

void VerbsQueue::revoke() {
    if (std::exchange(revoked_, true)) return;
    if (pair_.allow(0) != 0 || !device_->windows()) pair_.stop();
    drop_windows();
}

void VerbsQueue::await_permission() {
    permitted_ = false;
    sends_.signal_all(true);
}

void VerbsQueue::permitted() {
    permitted_ = true;
    sends_.signal_all(false);
}

bool VerbsQueue::went_well(const char* call, int error) {
    if (error != 0) failure_.fail(ChannelEnd::system, verbs_call_failed(call, device_->name(), error).text);
    return error == 0;
}

// ---- READs, and posting -----------------------------------------------------------------------------

void VerbsQueue::post_read(uint64_t* landing, uint32_t bytes, uint64_t far_offset, uint64_t token) {
    CHECK(sends_.room_to_read(/* count= */ false));
    reach_.aim_read(sends_.add_read(reach_.landing(landing, bytes), token), bytes, far_offset);
}

void VerbsQueue::post_count(uint64_t far_offset) {
    CHECK(sends_.room_to_read(/* count= */ false));
    if (!reach_.counts_at(far_offset)) return;
    reach_.aim_count(sends_.add_count(), far_offset);
}

bool VerbsQueue::anything_to_post() const {
    return !failure_.any() && (sends_.collected() || messages_.anything_due());
}

bool VerbsQueue::ring() {
    if (failure_.any()) return !failure_.bad().has_value();
    if (!went_well("ibv_post_recv", messages_.post_receives(pair_.get()))) return false;
    messages_.add_due();
    return !sends_.collected() || went_well("ibv_post_send", sends_.post(pair_.get()));
}

// ---- completions ------------------------------------------------------------------------------------

void VerbsQueue::collect() {
    const bool polled = completions_.poll([&](const ibv_wc& one) {
        if (one.status != IBV_WC_SUCCESS) return completed_badly(one);
        if (failure_.any()) return;  // Q3
        completed_++;
        const WorkId id = WorkId::unpack(one.wr_id);
        if (id.kind == WorkKind::receive)
            messages_.received(one);
        else
            sends_.complete_up_to(id.number);
    });
    if (!polled) failure_.fail(ChannelEnd::system, verbs_call_failed("ibv_poll_cq", device_->name(), errno).text);
    if (const uint32_t fetched = sends_.take_fetched(); fetched != 0) rpc_.proxy()->reads().landed(fetched, boottime_ns());
}

// Q3. A queue pair in error flushes all posted requests, in order.
void VerbsQueue::completed_badly(const ibv_wc& completion) {
    if (failure_.bad().has_value()) return;
    const WorkId id = WorkId::unpack(completion.wr_id);
    const bool flushed = completion.status == IBV_WC_WR_FLUSH_ERR;
    if (id.kind == WorkKind::bind && !flushed && !dropped_) device_->set_windowless();
    if (!failure_.completed_badly(id, flushed, verbs_completed_badly(device_->name(), id.kind, completion.status))) return;
    sends_.add_beat(/* last= */ true);
    failure_.look_for(sends_.last_number());
    if (sends_.post(pair_.get()) != 0) failure_.look_no_further();
}

bool VerbsQueue::arm() { return went_well("ibv_req_notify_cq", completions_.arm()); }

// ---- leaving ----------------------------------------------------------------------------------------

void VerbsQueue::leave(bool wait) {
    CHECK(messages_.has_met());
    CHECK(!failure_.any());
    CHECK(sends_.reads_pending() == 0);
    awaits_reads_ = wait && rpc_.replies_stand();
    if (!awaits_reads_) end_reads();
    rpc_.leave();
    counting_.stop();  // another thread owns the previous ones, and counts there
    if (!sends_.pending()) return;
    if (permitted_) sends_.add_beat(/* last= */ true);
    (void)ring();
}

// The landing memory may be freed before the queue, and memory that the other side might still READ may be reused (S12).
void VerbsQueue::end_reads() {
    if (reach_.lends()) (void)pair_.allow(0);
    if (reach_.windowed()) drop_windows();
    reach_.release();
}

bool VerbsQueue::peer_left() {
    rdma_cm_event* next = nullptr;
    while (rdma_get_cm_event(id_->channel, &next) == 0) {
        const CmEvent event(next);
        if (event->event == RDMA_CM_EVENT_DISCONNECTED) return true;
    }
    return false;
}

bool VerbsQueue::quiet() {
    collect();
    if (failure_.any()) return true;
    if (awaits_reads_ && peer_left()) awaits_reads_ = false;
    return !awaits_reads_ && !sends_.pending();
}

VerbsQueue::~VerbsQueue() {
    if (messages_.has_met()) (void)rdma_disconnect(id_.get());
    rpc_.drop_windows();
    reach_.drop_window();
}

}  // namespace farcached::fabric
