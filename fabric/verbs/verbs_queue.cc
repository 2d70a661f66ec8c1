// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_queue.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/node_clock.h"

namespace farcached::fabric {

VerbsQueue::VerbsQueue(CmEvents events, CmId id, std::shared_ptr<VerbsDevice> device)
    : events_(std::move(events)),
      id_(std::move(id)),
      device_(std::move(device)),
      rpc_(device_->config()),
      sends_(device_->config(), buffers_),
      inbox_(device_->config(), buffers_) {}

Result<std::unique_ptr<VerbsQueue>> VerbsQueue::make(CmEvents events, CmId id, std::shared_ptr<VerbsDevice> device) {
    std::unique_ptr<VerbsQueue> queue(new VerbsQueue(std::move(events), std::move(id), std::move(device)));
    if (Refusal no = queue->make_queues()) return *std::move(no);
    if (Refusal no = queue->buffers_.make(*queue->device_)) return *std::move(no);
    queue->inbox_.fill();
    if (!queue->went_well("ibv_post_recv", queue->inbox_.post(queue->pair_.get())))
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

void VerbsQueue::met(const VerbsReceives& there) {
    CHECK(!credits_.has_value());
    credits_.emplace(receives().count, there.count);
    send_bytes_max_ = std::min(there.bytes, receives().bytes);
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
    if (sends_.collected() && !failure_.any()) (void)went_well("ibv_post_send", post_chain());
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

// ---- sending ----------------------------------------------------------------------------------------

// A message with an immediate takes a receive of the other end, and pays for the owed ones.
void VerbsQueue::add_immediate(ibv_send_wr& work, uint32_t written) {
    if (work.opcode == IBV_WR_RDMA_WRITE) work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    const VerbsImmediate told{credits_->spend(), written};
    work.imm_data = htonl(told.packed());
}

// The first bytes of sends_.next_buffer().
ibv_send_wr& VerbsQueue::add_message(WorkKind kind, uint32_t bytes, uint32_t written) {
    counters_->rdma_sends.add(1);
    counters_->rdma_send_bytes.add(bytes);
    ibv_send_wr& work = sends_.add_sent(kind, IBV_WR_SEND_WITH_IMM, bytes);
    add_immediate(work, written);
    return work;
}

ibv_send_wr& VerbsQueue::add_write(uint32_t bytes, uint64_t address, uint32_t key) {
    ibv_send_wr& work = sends_.add_sent(WorkKind::write, IBV_WR_RDMA_WRITE, bytes);
    work.wr.rdma.remote_addr = address;
    work.wr.rdma.rkey = key;
    counters_->rdma_writes.add(1);
    counters_->rdma_write_bytes.add(bytes);
    return work;
}

size_t VerbsQueue::push(std::string_view bytes) {
    const uint64_t now_ns = rpc_.in_use() ? boottime_ns() : 0;
    for (size_t taken = 0; taken < bytes.size();) {
        const size_t one = push_one(bytes.substr(taken), now_ns);
        if (one == 0) return taken;
        taken += one;
    }
    rpc_.send_at_once(false);
    return bytes.size();
}

// One message of the first bytes; 0: no room or no credit.
size_t VerbsQueue::push_one(std::string_view bytes, uint64_t now_ns) {
    using Way = VerbsRpc::Way;
    const Way way = rpc_.way(bytes.size(), now_ns);
    if (way == Way::here) {
        rpc_.leave_here(bytes, now_ns, uint16_t(credits_->pay()));
        return bytes.size();
    }
    if (sends_.room_to_send() == 0 || (way != Way::plain && !credits_->may_send())) return 0;
    char* to = sends_.next_buffer();
    if (way == Way::bare) {
        const size_t size = std::min<size_t>(bytes.size(), send_bytes_max_);
        std::memcpy(to, bytes.data(), size);
        add_message(WorkKind::message, uint32_t(size));
        rpc_.left_bare();
        return size;
    }
    if (way == Way::send) {
        const std::string_view some = bytes.substr(0, send_bytes_max_ - sizeof(SlotHead));
        add_message(WorkKind::message, rpc_.compose(to, way, some, now_ns), VerbsImmediate::numbered);
        return some.size();
    }
    const uint32_t size = rpc_.compose(to, way, bytes, now_ns);
    ibv_send_wr& work = add_write(size, rpc_.far_slot(), rpc_.far_key());
    if (way == Way::plain) return bytes.size();
    add_immediate(work, VerbsImmediate::slot);
    if (rpc_.choice() != nullptr) counters_->rfp_wakeups.add(1);
    return bytes.size();
}

uint64_t VerbsQueue::next_ns() const {
    uint64_t next = never_ns;
    if (failure_.any()) return next;
    if (sends_.room_to_fetch() > 0) next = rpc_.next_read_ns();
    if (credits_.has_value() && room_to_push()) next = std::min(next, rpc_.next_wake_ns());
    return next;
}

void VerbsQueue::add_reads_and_wake() {
    if (next_ns() == never_ns) return;
    const uint64_t now_ns = boottime_ns();
    if (sends_.room_to_fetch() > 0 && rpc_.next_read_ns() <= now_ns) {
        if (rpc_.reads().reads_rest()) counters_->rfp_second_reads.add(1);
        for (const ReplyReads::One& one : rpc_.reads_due(now_ns, sends_.room_to_fetch())) {
            ibv_send_wr& work = sends_.add_fetch(one.landing);
            work.wr.rdma.remote_addr = one.far;
            work.wr.rdma.rkey = rpc_.reads().far_key();
            counters_->rfp_fetches.add(1);
            counters_->rdma_reads.add(1);
            counters_->rdma_read_bytes.add(one.landing.length);
        }
    }
    if (!room_to_push() || rpc_.next_wake_ns() > now_ns) return;
    const bool send = rpc_.wake(now_ns);
    add_immediate(add_write(0, rpc_.far_slot(), rpc_.far_key()), send ? VerbsImmediate::slot_send : VerbsImmediate::slot);
    counters_->rfp_wakeups.add(1);
    if (send) counters_->rfp_switched.add(1);
}

ibv_send_wr& VerbsQueue::add_report(uint64_t offset, std::string_view bytes) {
    std::memcpy(sends_.next_buffer(), bytes.data(), bytes.size());
    return add_write(uint32_t(bytes.size()), reports_.far()->address + offset, reports_.far()->key);
}

// The last piece notifies the other end: every WRITE posted before it is complete by then.
bool VerbsQueue::post_report(std::string_view bytes) {
    CHECK(!bytes.empty());
    CHECK(bytes.size() <= container_bytes);
    if (failure_.any() || !credits_->may_send() || !reports_.far().has_value()) return false;  // B2, K4
    const bool tell = reports_.must_tell();
    const size_t piece = receives().bytes;
    if (sends_.room_to_send() < (bytes.size() + piece - 1) / piece + (tell ? 1 : 0)) return false;
    if (tell) {
        const VerbsContainer own = reports_.own()->where();
        add_report(container_bytes, {reinterpret_cast<const char*>(&own), sizeof own});
        reports_.told();
    }
    for (size_t at = 0; at < bytes.size(); at += piece) {
        ibv_send_wr& work = add_report(at, bytes.substr(at, piece));
        if (bytes.size() - at <= piece) add_immediate(work, uint32_t(bytes.size()));
    }
    return true;
}

void VerbsQueue::post_read(uint64_t* landing, uint32_t bytes, uint64_t far_offset, uint64_t token) {
    CHECK(sends_.room_to_read(/* count= */ false));
    reach_.aim_read(sends_.add_read(reach_.landing(landing, bytes), token), bytes, far_offset);
    counters_->rdma_reads.add(1);
    counters_->rdma_read_bytes.add(bytes);
}

void VerbsQueue::post_count(uint64_t far_offset) {
    CHECK(sends_.room_to_read(/* count= */ false));
    if (!reach_.counts_at(far_offset)) return;
    reach_.aim_count(sends_.add_count(), far_offset);
    counters_->rdma_atomics.add(1);
}

bool VerbsQueue::may_pay() const {
    return credits_->must_pay() && credits_->available() > 0 && sends_.room_to_send() > 0;
}

bool VerbsQueue::anything_to_post() const {
    if (failure_.any()) return false;
    if (inbox_.anything_to_post() || sends_.collected() || may_pay()) return true;
    const uint64_t next = next_ns();
    return next != never_ns && next <= boottime_ns();
}

bool VerbsQueue::ring() {
    if (failure_.any()) return !failure_.bad().has_value();
    if (!went_well("ibv_post_recv", inbox_.post(pair_.get()))) return false;
    if (may_pay()) add_message(WorkKind::credits, 0);
    add_reads_and_wake();
    return !sends_.collected() || went_well("ibv_post_send", post_chain());
}

int VerbsQueue::post_chain() {
    counters_->rdma_doorbells.add(1);
    return sends_.post(pair_.get());
}

// ---- completions ------------------------------------------------------------------------------------

void VerbsQueue::collect() {
    const bool polled = completions_.poll([&](const ibv_wc& one) {
        if (one.status != IBV_WC_SUCCESS) return completed_badly(one);
        if (failure_.any()) return;  // Q3
        completed_++;
        const WorkId id = WorkId::unpack(one.wr_id);
        if (id.kind == WorkKind::receive)
            received(one);
        else
            sends_.complete_up_to(id.number);
    });
    if (!polled) failure_.fail(ChannelEnd::system, verbs_call_failed("ibv_poll_cq", device_->name(), errno).text);
    if (const uint32_t fetched = sends_.take_fetched(); fetched != 0) rpc_.reads().landed(fetched, boottime_ns());
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
    if (post_chain() != 0) failure_.look_no_further();
}

void VerbsQueue::received(const ibv_wc& completion) {
    const uint32_t receive = uint32_t(WorkId::unpack(completion.wr_id).number);
    const bool told = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
    const VerbsImmediate said = VerbsImmediate::unpack(told ? ntohl(completion.imm_data) : 0);
    const bool written = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    const bool numbered = !written && said.written == VerbsImmediate::numbered;
    const bool slot = written && (said.written == VerbsImmediate::slot || said.written == VerbsImmediate::slot_send);
    auto corrupt = [&](const char* what) { failure_.fail(ChannelEnd::corrupt, what); };
    if (!told || !credits_->earn(said.credits) || (!written && completion.byte_len > receives().bytes))
        return corrupt("a message with an impossible number of credits");
    if (credits_->owed() + inbox_.count() >= receives().count) return corrupt("a message without a credit");
    if (slot && !rpc_.woken(said.written == VerbsImmediate::slot_send)) return corrupt("a WRITE for slots that are not there");
    if (!slot && !numbered && written != (said.written != 0)) return corrupt("the immediate data of a message");
    const bool report = written && !slot;
    if (report && (said.written > container_bytes || reports_.own() == nullptr)) return corrupt("the length of a report");
    reports_.heard();
    rpc_.heard();
    counters_->rdma_receives.add(1);
    if (report) reports_.arrived(said.written);
    if (!written) counters_->rdma_receive_bytes.add(completion.byte_len);
    inbox_.put(receive, written ? 0 : completion.byte_len, numbered, *credits_);
}

// Bytes of the next message in order. sent: a SEND brought it.
std::string_view VerbsQueue::front(bool& sent, uint64_t now_ns) {
    sent = inbox_.count() > 0 && inbox_.begun();
    if (sent) return inbox_.rest();
    if (const std::string_view bytes = rpc_.front(now_ns); !bytes.empty()) return bytes;
    sent = inbox_.count() > 0 && rpc_.take_send(inbox_.whole(), inbox_.numbered(), now_ns);
    if (!sent) return {};
    if (inbox_.numbered()) inbox_.consume(sizeof(SlotHead), *credits_);
    return inbox_.rest();
}

size_t VerbsQueue::pull(char* to, size_t room) {
    const uint64_t now_ns = rpc_.in_use() ? boottime_ns() : 0;
    size_t taken = 0;
    while (taken < room) {
        bool sent = false;
        const std::string_view bytes = front(sent, now_ns).substr(0, room - taken);
        if (bytes.empty()) break;
        std::memcpy(to + taken, bytes.data(), bytes.size());
        taken += bytes.size();
        if (sent)
            inbox_.consume(uint32_t(bytes.size()), *credits_);
        else
            rpc_.consume(bytes.size());
    }
    if (rpc_.has_reads()) counters_->rfp_fetches_early.add(rpc_.reads().take_early());
    if (!credits_->earn(rpc_.take_credits())) failure_.fail(ChannelEnd::corrupt, "a reply with an impossible number of credits");
    if (rpc_.corrupt() != nullptr) failure_.fail(ChannelEnd::corrupt, rpc_.corrupt());
    return taken;
}

bool VerbsQueue::arm() { return went_well("ibv_req_notify_cq", completions_.arm()); }

// ---- leaving ----------------------------------------------------------------------------------------

void VerbsQueue::leave(bool wait) {
    CHECK(credits_.has_value());
    CHECK(!failure_.any());
    CHECK(sends_.reads_pending() == 0);
    awaits_reads_ = wait && rpc_.replies_stand();
    if (!awaits_reads_) end_reads();
    rpc_.leave();
    counters_ = &unread_;  // another thread owns the previous ones, and counts there
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
    if (credits_.has_value()) (void)rdma_disconnect(id_.get());
    rpc_.drop_windows();
    reach_.drop_window();
}

}  // namespace farcached::fabric
