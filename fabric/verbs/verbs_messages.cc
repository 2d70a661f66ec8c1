// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_messages.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/node_clock.h"

namespace farcached::fabric {

void VerbsMessages::met(const VerbsReceives& there) {
    CHECK(!credits_.has_value());
    credits_.emplace(config_.receives, there.count);
    send_bytes_max_ = std::min(there.bytes, config_.message_bytes);
}

// ---- sending ----------------------------------------------------------------------------------------

// A message with an immediate takes a receive of the other end, and pays for the owed ones.
void VerbsMessages::add_immediate(ibv_send_wr& work, uint32_t written) {
    if (work.opcode == IBV_WR_RDMA_WRITE) work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    const VerbsImmediate told{credits_->spend(), written};
    work.imm_data = htonl(told.packed());
}

// The first bytes of sends_.next_buffer().
ibv_send_wr& VerbsMessages::add_message(WorkKind kind, uint32_t bytes, uint32_t written) {
    ibv_send_wr& work = sends_.add_sent(kind, IBV_WR_SEND_WITH_IMM, bytes);
    add_immediate(work, written);
    return work;
}

ibv_send_wr& VerbsMessages::add_write(uint32_t bytes, uint64_t address, uint32_t key) {
    ibv_send_wr& work = sends_.add_sent(WorkKind::write, IBV_WR_RDMA_WRITE, bytes);
    work.wr.rdma.remote_addr = address;
    work.wr.rdma.rkey = key;
    return work;
}

size_t VerbsMessages::push(std::string_view bytes) {
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
size_t VerbsMessages::push_one(std::string_view bytes, uint64_t now_ns) {
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
    if (rpc_.proxy() != nullptr) counting_->rfp_wakeups.add(1);
    return bytes.size();
}

uint64_t VerbsMessages::next_ns() const {
    uint64_t next = never_ns;
    if (failure_.any()) return next;
    if (sends_.room_to_fetch() > 0) next = rpc_.next_read_ns();
    if (credits_.has_value() && room_to_push()) next = std::min(next, rpc_.next_wake_ns());
    return next;
}

void VerbsMessages::add_reads_and_wake() {
    if (next_ns() == never_ns) return;
    const uint64_t now_ns = boottime_ns();
    if (sends_.room_to_fetch() > 0 && rpc_.next_read_ns() <= now_ns) {
        if (rpc_.proxy()->reads().reads_rest()) counting_->rfp_second_reads.add(1);
        for (const ReplyReads::One& one : rpc_.reads_due(now_ns, sends_.room_to_fetch())) {
            ibv_send_wr& work = sends_.add_fetch(one.landing);
            work.wr.rdma.remote_addr = one.far;
            work.wr.rdma.rkey = rpc_.proxy()->reads().far_key();
            counting_->rfp_fetches.add(1);
        }
    }
    if (!room_to_push() || rpc_.next_wake_ns() > now_ns) return;
    const bool send = rpc_.proxy()->wake(now_ns);
    add_immediate(add_write(0, rpc_.far_slot(), rpc_.far_key()), send ? VerbsImmediate::slot_send : VerbsImmediate::slot);
    counting_->rfp_wakeups.add(1);
    if (send) counting_->rfp_switched.add(1);
}

ibv_send_wr& VerbsMessages::add_report(uint64_t offset, std::string_view bytes) {
    std::memcpy(sends_.next_buffer(), bytes.data(), bytes.size());
    return add_write(uint32_t(bytes.size()), reports_.far()->address + offset, reports_.far()->key);
}

// The last piece notifies the other end: every WRITE posted before it is complete by then.
bool VerbsMessages::post_report(std::string_view bytes) {
    CHECK(!bytes.empty());
    CHECK(bytes.size() <= container_bytes);
    if (failure_.any() || !credits_->may_send() || !reports_.far().has_value()) return false;  // B2, K4
    const bool tell = reports_.must_tell();
    const size_t piece = config_.message_bytes;
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

bool VerbsMessages::may_pay() const {
    return credits_->must_pay() && credits_->available() > 0 && sends_.room_to_send() > 0;
}

bool VerbsMessages::anything_due() const {
    if (inbox_.anything_to_post() || may_pay()) return true;
    const uint64_t next = next_ns();
    return next != never_ns && next <= boottime_ns();
}

void VerbsMessages::add_due() {
    if (may_pay()) add_message(WorkKind::credits, 0);
    add_reads_and_wake();
}

// ---- receiving --------------------------------------------------------------------------------------

void VerbsMessages::received(const ibv_wc& completion) {
    const uint32_t receive = uint32_t(WorkId::unpack(completion.wr_id).number);
    const bool told = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
    const VerbsImmediate said = VerbsImmediate::unpack(told ? ntohl(completion.imm_data) : 0);
    const bool written = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    const bool numbered = !written && said.written == VerbsImmediate::numbered;
    const bool slot = written && (said.written == VerbsImmediate::slot || said.written == VerbsImmediate::slot_send);
    auto corrupt = [&](const char* what) { failure_.fail(ChannelEnd::corrupt, what); };
    if (!told || !credits_->earn(said.credits) || (!written && completion.byte_len > config_.message_bytes))
        return corrupt("a message with an impossible number of credits");
    if (credits_->owed() + inbox_.count() >= config_.receives) return corrupt("a message without a credit");
    if (slot && !rpc_.woken(said.written == VerbsImmediate::slot_send)) return corrupt("a WRITE for slots that are not there");
    if (!slot && !numbered && written != (said.written != 0)) return corrupt("the immediate data of a message");
    const bool report = written && !slot;
    if (report && (said.written > container_bytes || reports_.own() == nullptr)) return corrupt("the length of a report");
    reports_.heard();
    rpc_.heard();
    counting_->rdma_receives.add(1);
    if (report) reports_.arrived(said.written);
    if (!written) counting_->rdma_receive_bytes.add(completion.byte_len);
    inbox_.put(receive, written ? 0 : completion.byte_len, numbered, *credits_);
}

// Bytes of the next message in order. sent: a SEND brought it.
std::string_view VerbsMessages::front(bool& sent, uint64_t now_ns) {
    sent = inbox_.count() > 0 && inbox_.begun();
    if (sent) return inbox_.rest();
    if (const std::string_view bytes = rpc_.front(now_ns); !bytes.empty()) return bytes;
    sent = inbox_.count() > 0 && rpc_.take_send(inbox_.whole(), inbox_.numbered(), now_ns);
    if (!sent) return {};
    if (inbox_.numbered()) inbox_.consume(sizeof(SlotHead), *credits_);
    return inbox_.rest();
}

size_t VerbsMessages::pull(char* to, size_t room) {
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
    if (rpc_.has_reads()) counting_->rfp_fetches_early.add(rpc_.proxy()->reads().take_early());
    if (!credits_->earn(rpc_.take_credits())) failure_.fail(ChannelEnd::corrupt, "a reply with an impossible number of credits");
    if (rpc_.corrupt() != nullptr) failure_.fail(ChannelEnd::corrupt, rpc_.corrupt());
    return taken;
}

}  // namespace farcached::fabric
