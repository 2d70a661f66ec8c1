// SPDX-License-Identifier: BSD-3-Clause
// The datapath of a VerbsQueue, while its connection is up.
#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "fabric/verbs_queue.h"
#include "protocol/layout.h"

namespace farcached::fabric {

namespace {

constexpr int completions_at_once = 32;

// Links work requests into one list, each with its own piece, for one call. Neither vector may grow before that call.
template <class Work>
void link(std::vector<Work>& works, std::vector<ibv_sge>& pieces) {
    for (size_t i = 0; i < works.size(); i++) {
        works[i].sg_list = &pieces[i];
        works[i].next = i + 1 < works.size() ? &works[i + 1] : nullptr;
    }
}

}  // namespace

void VerbsQueue::fail(ChannelEnd why, std::string text) {
    if (!bad_.has_value()) bad_ = VerbsBadCompletion{why, std::move(text), false};
}

void VerbsQueue::fail_call(const char* call, int error) {
    fail(ChannelEnd::system, verbs_call_failed(call, device_->name(), error));
}

// ---- sending ----------------------------------------------------------------------------------------

ibv_send_wr& VerbsQueue::add(WorkKind kind, uint64_t token) {
    CHECK(posted_tail_ - posted_head_ < posted_.size());
    const uint64_t number = posted_tail_++;
    posted_[number % posted_.size()] = {kind, token};
    pieces_.push_back({});
    ibv_send_wr& work = chain_.emplace_back();
    work.wr_id = WorkId{kind, number}.packed();
    return work;
}

void VerbsQueue::add_message(WorkKind kind, uint32_t bytes) {
    ibv_send_wr& work = add(kind, 0);
    work.opcode = IBV_WR_SEND_WITH_IMM;
    const VerbsImmediate told{.credits = credits_->spend()};
    work.imm_data = htonl(told.packed());
    counters_->rdma_sends.add(1);
    counters_->rdma_send_bytes.add(bytes);
    add_sent(work, bytes);
}

// A SEND or a WRITE, from the next buffer.
void VerbsQueue::add_sent(ibv_send_wr& work, uint32_t bytes) {
    sends_pending_++;
    if (++unsignalled_ >= std::max(config().sends / 4, 1U)) {
        work.send_flags |= IBV_SEND_SIGNALED;
        unsignalled_ = 0;
    }
    if (bytes == 0) return;
    work.num_sge = 1;
    pieces_.back() = {reinterpret_cast<uint64_t>(send_buffer(next_send_)), bytes, buffers_registered_->lkey};
    if (bytes <= inline_bytes_) work.send_flags |= IBV_SEND_INLINE;
    next_send_ = (next_send_ + 1) % config().sends;
}

size_t VerbsQueue::push(std::string_view bytes) {
    size_t taken = 0;
    while (taken < bytes.size() && room_to_push()) {
        const size_t size = std::min<size_t>(bytes.size() - taken, send_bytes_max_);
        std::memcpy(send_buffer(next_send_), bytes.data() + taken, size);
        add_message(WorkKind::message, uint32_t(size));
        taken += size;
    }
    return taken;
}

ibv_send_wr& VerbsQueue::add_write(uint64_t offset, std::string_view bytes) {
    std::memcpy(send_buffer(next_send_), bytes.data(), bytes.size());
    ibv_send_wr& work = add(WorkKind::write, 0);
    work.opcode = IBV_WR_RDMA_WRITE;
    work.wr.rdma.remote_addr = far_container_->address + offset;
    work.wr.rdma.rkey = far_container_->key;
    counters_->rdma_writes.add(1);
    counters_->rdma_write_bytes.add(bytes.size());
    add_sent(work, uint32_t(bytes.size()));
    return work;
}

// The last piece notifies the other end: every WRITE posted before it is complete by then.
bool VerbsQueue::post_report(std::string_view bytes) {
    CHECK(!bytes.empty());
    CHECK(bytes.size() <= container_bytes);
    if (container_ == nullptr || !heard_ || broken() || !credits_->may_send()) return false;  // B2, K4
    const bool tell = far_container_.has_value() && !told_container_;
    if (!far_container_.has_value()) {
        far_container_ = container_->other();
        if (!far_container_.has_value()) return false;
        told_container_ = true;  // by this end's greeting
    }
    const size_t piece = config().message_bytes;
    if (sends_left() < (bytes.size() + piece - 1) / piece + (tell ? 1 : 0)) return false;
    if (tell) {
        const VerbsContainer own = container_->where();
        add_write(container_bytes, {reinterpret_cast<const char*>(&own), sizeof own});
        told_container_ = true;
    }
    for (size_t at = 0; at < bytes.size(); at += piece) {
        ibv_send_wr& work = add_write(at, bytes.substr(at, piece));
        if (bytes.size() - at > piece) continue;
        work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        const VerbsImmediate told{credits_->spend(), uint32_t(bytes.size())};
        work.imm_data = htonl(told.packed());
    }
    return true;
}

void VerbsQueue::post_read(uint64_t* landing, uint32_t bytes, uint64_t far_offset, uint64_t token) {
    CHECK(room_to_read(/* count= */ false));
    CHECK(bytes <= far_.bytes);
    CHECK(far_offset <= far_.bytes - bytes);
    const ibv_mr& registered = **landing_;
    const char* to = reinterpret_cast<const char*>(landing);
    const char* begin = static_cast<const char*>(registered.addr);
    CHECK(to >= begin);
    CHECK(to + bytes <= begin + registered.length);
    ibv_send_wr& work = add(WorkKind::read, token);
    work.opcode = IBV_WR_RDMA_READ;
    work.num_sge = 1;
    work.wr.rdma.remote_addr = far_.address + far_offset;
    work.wr.rdma.rkey = far_.key;
    pieces_.back() = {reinterpret_cast<uint64_t>(landing), bytes, registered.lkey};
    chain_read_last_ = chain_.size() - 1;
    reads_pending_++;
    counters_->rdma_reads.add(1);
    counters_->rdma_read_bytes.add(bytes);
}

void VerbsQueue::post_count(uint64_t far_offset) {
    CHECK(room_to_read(/* count= */ false));
    if (far_offset < far_counters_.from) return;
    const uint64_t number = layout::counter_of(far_offset - far_counters_.from);
    if (number >= far_counters_.bytes / layout::counter_bytes) return;
    ibv_send_wr& work = add(WorkKind::count, 0);
    work.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    work.num_sge = 1;
    work.wr.atomic.remote_addr = far_counters_.address + number * layout::counter_bytes;
    work.wr.atomic.rkey = far_counters_.key;
    work.wr.atomic.compare_add = 1;
    pieces_.back() = {reinterpret_cast<uint64_t>(counted_buffer()), sizeof(uint64_t), buffers_registered_->lkey};
    chain_read_last_ = chain_.size() - 1;
    counts_pending_++;
    counters_->rdma_atomics.add(1);
}

// An empty WRITE needs only the acknowledgement of the other side's device, and no memory there. (Not an empty READ:
// soft-RoCE of Linux 6.1 answers a repeated one with a wrong key.)
void VerbsQueue::post_beat() {
    if (beating_) return;
    beating_ = true;
    ibv_send_wr& work = add(WorkKind::beat, 0);
    work.opcode = IBV_WR_RDMA_WRITE;
    work.send_flags = IBV_SEND_SIGNALED;
}

bool VerbsQueue::may_pay() const {
    return credits_->must_pay() && credits_->available() > 0 && sends_left() > 0;
}

bool VerbsQueue::anything_to_post() const {
    return !broken() && (!again_.empty() || !chain_.empty() || may_pay());
}

bool VerbsQueue::ring() {
    if (broken()) return !bad_.has_value();
    if (!post_receives()) return false;
    if (may_pay()) add_message(WorkKind::credits, 0);
    return chain_.empty() || post_chain();
}

bool VerbsQueue::post_chain() {
    if (chain_read_last_ != SIZE_MAX) chain_[chain_read_last_].send_flags |= IBV_SEND_SIGNALED;
    chain_read_last_ = SIZE_MAX;
    link(chain_, pieces_);
    counters_->rdma_doorbells.add(1);
    ibv_send_wr* refused = nullptr;
    const int failed = ibv_post_send(id_->qp, chain_.data(), &refused);
    chain_.clear();
    pieces_.clear();
    if (failed != 0) fail_call("ibv_post_send", failed);
    return failed == 0;
}

// ---- completions ------------------------------------------------------------------------------------

void VerbsQueue::collect() {
    std::array<ibv_wc, completions_at_once> completions;
    for (;;) {
        const int count = ibv_poll_cq(completion_queue_.get(), completions_at_once, completions.data());
        if (count < 0) fail_call("ibv_poll_cq", errno);
        for (int i = 0; i < count; i++) {
            const ibv_wc& one = completions[size_t(i)];
            if (one.status != IBV_WC_SUCCESS)
                completed_badly(one);
            else if (!broken())  // Q3
                completed_well(one);
        }
        if (count < completions_at_once) return;
    }
}

void VerbsQueue::completed_well(const ibv_wc& completion) {
    completed_++;
    const WorkId id = WorkId::unpack(completion.wr_id);
    if (id.kind == WorkKind::receive)
        received(completion);
    else
        complete_up_to(id.number);
}

// Q3
void VerbsQueue::completed_badly(const ibv_wc& completion) {
    if (bad_.has_value()) return;
    const WorkId id = WorkId::unpack(completion.wr_id);
    if (id.kind == WorkKind::bind && completion.status != IBV_WC_WR_FLUSH_ERR) device_->set_windowless();
    VerbsBadCompletion bad = verbs_completed_badly(device_->name(), id.kind, completion.status);
    if (completion.status != IBV_WC_WR_FLUSH_ERR) {
        bad_ = std::move(bad);
    } else if (!flushed_.has_value()) {
        flushed_ = std::move(bad);
        post_last();
    } else if (id.kind != WorkKind::receive && id.number == last_number_) {
        look_no_further();
    }
}

// A queue pair in error flushes all posted requests, in order.
void VerbsQueue::post_last() {
    beating_ = false;
    post_beat();
    last_number_ = posted_tail_ - 1;
    if (!post_chain()) bad_ = flushed_;
}

void VerbsQueue::complete_up_to(uint64_t number) {
    CHECK(number < posted_tail_);
    for (; posted_head_ <= number; posted_head_++) {
        const Posted& done = posted_[posted_head_ % posted_.size()];
        switch (done.kind) {
            case WorkKind::message:
            case WorkKind::credits:
            case WorkKind::write: sends_pending_--; break;
            case WorkKind::bind: break;
            case WorkKind::read:
                reads_pending_--;
                reads_done_.push_back(done.token);
                break;
            case WorkKind::count: counts_pending_--; break;
            case WorkKind::beat: beating_ = false; break;
            case WorkKind::receive: CHECK(done.kind != WorkKind::receive);
        }
    }
}

void VerbsQueue::received(const ibv_wc& completion) {
    const uint32_t buffer = uint32_t(WorkId::unpack(completion.wr_id).number);
    const bool told = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
    const VerbsImmediate said = VerbsImmediate::unpack(told ? ntohl(completion.imm_data) : 0);
    const bool written = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    if (!told || !credits_->earn(said.credits) || (!written && completion.byte_len > config().message_bytes))
        return fail(ChannelEnd::corrupt, "a message with an impossible number of credits");
    if (credits_->owed() + inbox_count_ >= config().receives)
        return fail(ChannelEnd::corrupt, "a message without a credit");
    if (written != (said.written != 0) || said.written > container_bytes || (written && container_ == nullptr))
        return fail(ChannelEnd::corrupt, "the length of a report");
    heard_ = true;
    counters_->rdma_receives.add(1);
    if (written)
        written_ = said.written;
    else
        counters_->rdma_receive_bytes.add(completion.byte_len);
    if (written || completion.byte_len == 0) {
        post_receive_later(buffer);
        credits_->posted_again();
        return;
    }
    CHECK(inbox_count_ < inbox_.size());
    inbox_[(inbox_first_ + inbox_count_) % inbox_.size()] = {buffer, completion.byte_len, 0};
    inbox_count_++;
}

size_t VerbsQueue::pull(char* to, size_t room) {
    size_t taken = 0;
    while (taken < room && inbox_count_ > 0) {
        Message& first = inbox_[inbox_first_];
        const size_t size = std::min<size_t>(room - taken, first.bytes - first.taken);
        std::memcpy(to + taken, receive_buffer(first.buffer) + first.taken, size);
        taken += size;
        first.taken += uint32_t(size);
        if (first.taken < first.bytes) break;
        post_receive_later(first.buffer);
        credits_->posted_again();
        inbox_first_ = (inbox_first_ + 1) % uint32_t(inbox_.size());
        inbox_count_--;
    }
    return taken;
}

void VerbsQueue::post_receive_later(uint32_t buffer) {
    again_pieces_.push_back({reinterpret_cast<uint64_t>(receive_buffer(buffer)), config().message_bytes,
                             buffers_registered_->lkey});
    again_.push_back({});
    again_.back().wr_id = WorkId{WorkKind::receive, buffer}.packed();
    again_.back().num_sge = 1;
}

bool VerbsQueue::post_receives() {
    if (again_.empty()) return true;
    link(again_, again_pieces_);
    ibv_recv_wr* refused = nullptr;
    const int failed = ibv_post_recv(id_->qp, again_.data(), &refused);
    again_.clear();
    again_pieces_.clear();
    if (failed != 0) fail_call("ibv_post_recv", failed);
    return failed == 0;
}

bool VerbsQueue::arm() {
    const int failed = ibv_req_notify_cq(completion_queue_.get(), /* solicited_only= */ 0);
    if (failed != 0) fail_call("ibv_req_notify_cq", failed);
    return failed == 0;
}

// One arming causes one event.
bool VerbsQueue::disarm() {
    ibv_cq* of = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(completions_.get(), &of, &context) != 0) return false;
    ibv_ack_cq_events(completion_queue_.get(), 1);
    return true;
}

}  // namespace farcached::fabric
