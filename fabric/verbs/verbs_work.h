// SPDX-License-Identifier: BSD-3-Clause
// The work requests of one queue pair, in both directions: VerbsSends and VerbsInbox, with the memory of their messages
// (VerbsBuffers). Sends are collected in a chain, posted with one doorbell, and kept in a ring until they complete.
//
// Owner and thread: those of a VerbsQueue.
// Q2  Work requests complete in the order of posting: one completion completes all before it. Every quarter of the sends
//     asks for a completion (SENDs and WRITEs), and so does the last READ or FETCH_AND_ADD of a doorbell.
// Q6  Each request has a number and a slot of the ring, from the collecting to the completion. A slot never holds two.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mapping.h"
#include "fabric/verbs/verbs_device.h"

namespace farcached::fabric {

// VerbsCredits: one side's account of posted receives, so that every SEND finds a posted receive. Pure.
//
// Each side posts a number of receives at the start; the other may send as many messages. A message is a SEND, or a WRITE
// with immediate data, which signals a report and also takes a receive. A side that empties a receive and posts it again
// owes a credit. It pays with its next message, in the immediate data, and without one it sends an empty message.
//
// K1  available() is at most the number of receives that the other side has posted: a higher payment is an error.
// K2  The last credit is reserved for an empty message. A side that must pay always has it. It was last spent on an empty
//     message E, which paid for half of the receives at least. Since then messages have made half of them owed again. If
//     one was sent after E had arrived, it returned the credit of E: a receive that holds no bytes (of an empty message or
//     of a WRITE) is posted again at once. Otherwise all were sent before, with all of the other half. That includes the
//     sender's reserved credit, which only leaves with a payment.
// K3  An empty message is owed for like any other. But a side sends one only when half of its receives are owed: two empty
//     messages never answer each other for ever.
// K4  A WRITE with immediate data costs a credit and pays the owed ones as a SEND does. It never takes the last credit. For
//     K2 it is one more message that is not empty: the last credit still leaves only with a payment. The receive that a
//     WRITE takes is owed again as soon as the WRITE arrives.

// The immediate data of a message, in 32 bits: | written:16 | credits:16 |.
struct VerbsImmediate {
    uint32_t credits = 0;  // paid
    uint32_t written = 0;  // of a WRITE: bytes of a report, slot or slot_send; of a SEND: 0 or numbered

    static constexpr uint32_t most = 0xffff;  // of either
    static constexpr uint32_t slot = 0xffff;       // a message may be in a slot
    static constexpr uint32_t slot_send = 0xfffe;  // the same, and replies shall be sent from now on
    static constexpr uint32_t numbered = 0xfffd;   // the SEND has a head (verbs_slots.h)

    uint32_t packed() const {
        CHECK(credits <= most);
        CHECK(written <= most);
        return written << 16 | credits;
    }
    static VerbsImmediate unpack(uint32_t word) { return {word & most, word >> 16}; }
};

class VerbsCredits {
  public:
    // Numbers of receives posted here and there; both at least 4, those here even.
    VerbsCredits(uint32_t here, uint32_t there) : here_(here), there_(there), available_(there) {
        CHECK(here >= 4);
        CHECK(there >= 4);
        CHECK(here % 2 == 0);
    }

    bool may_send() const { return available_ > 1; }
    bool must_pay() const { return owed_ >= here_ / 2; }
    // A message leaves; returns the credits that it pays.
    uint32_t spend() {
        CHECK(available_ > 0);
        available_--;
        const uint32_t paid = owed_;
        owed_ = 0;
        return paid;
    }
    // Pays without a message of its own: in a reply that the other side READs (verbs_rpc.h, X5).
    uint32_t pay() { return std::exchange(owed_, 0); }
    // A message has paid so many credits; false: impossible.
    bool earn(uint32_t paid) {
        if (paid > there_ - available_) return false;
        available_ += paid;
        return true;
    }
    // A receive was emptied and is posted again.
    void posted_again() {
        CHECK(owed_ < here_);
        owed_++;
    }
    uint32_t available() const { return available_; }
    uint32_t owed() const { return owed_; }  // posted again and not paid yet

  private:
    uint32_t here_, there_;
    uint32_t available_;
    uint32_t owed_ = 0;
};

// How a queue pair failed.
// Q3  bad() holds the first work request that completes badly. The queue pair is in error from then on, and later
//     completions mean nothing. A request is flushed because of another failure, and may complete before it. Then the
//     queue posts one more request, and bad() stays empty until that failure completes or the last request is flushed.
class VerbsFailure {
  public:
    const std::optional<VerbsBadCompletion>& bad() const { return bad_; }
    bool any() const { return bad_.has_value() || flushed_.has_value(); }
    void fail(ChannelEnd why, std::string text) {
        if (!bad_.has_value()) bad_ = VerbsBadCompletion{why, std::move(text), false};
    }
    // True: it is the first flushed request; the caller posts one more, and look_for()s it.
    bool completed_badly(WorkId id, bool flushed, VerbsBadCompletion bad) {
        if (bad_.has_value()) return false;
        if (!flushed) {
            bad_ = std::move(bad);
        } else if (!flushed_.has_value()) {
            flushed_ = std::move(bad);
            return true;
        } else if (id.kind != WorkKind::receive && id.number == last_number_) {
            look_no_further();
        }
        return false;
    }
    void look_for(uint64_t last_number) { last_number_ = last_number; }
    // Stops waiting for the cause of a flush.
    void look_no_further() {
        if (!bad_.has_value()) bad_ = flushed_;
    }

  private:
    std::optional<VerbsBadCompletion> bad_;
    std::optional<VerbsBadCompletion> flushed_;  // the first flushed request
    uint64_t last_number_ = 0;                    // of the request that was posted then
};

// The buffers of SENDs and WRITEs, of receives, and the one word where FETCH_AND_ADDs put the previous values, which are
// never read.
class VerbsBuffers {
  public:
    Refusal make(const VerbsDevice& device) {
        const VerbsConfig& config = device.config();
        sends_ = config.sends;
        receives_ = config.receives;
        each_ = config.message_bytes;
        const size_t bytes = size_t(sends_ + receives_) * each_ + sizeof(uint64_t);
        memory_.emplace(Mapping::Kind::private_memory, bytes, /* huge_pages= */ false);
        registered_.reset(ibv_reg_mr(device.domain(), memory_->data(), bytes, int(IBV_ACCESS_LOCAL_WRITE)));
        if (registered_ == nullptr) return verbs_memory_refused(device.name(), bytes, errno);
        return {};
    }
    ibv_sge send(uint32_t number, uint32_t bytes) const { return piece(number, bytes); }
    ibv_sge receive(uint32_t number) const { return piece(sends_ + number, each_); }
    ibv_sge counted() const { return piece(sends_ + receives_, sizeof(uint64_t)); }

  private:
    ibv_sge piece(uint32_t number, uint32_t bytes) const {
        return {reinterpret_cast<uint64_t>(memory_->data() + size_t(number) * each_), bytes, registered_->lkey};
    }

    std::optional<Mapping> memory_;
    MemoryRegion registered_;
    uint32_t sends_ = 0, receives_ = 0, each_ = 0;
};

inline char* bytes_of(const ibv_sge& piece) { return reinterpret_cast<char*>(piece.addr); }

// Links work requests into one list, each with its own piece, for one call. Neither vector may grow before that call.
template <class Work>
void link_works(std::vector<Work>& works, std::vector<ibv_sge>& pieces) {
    for (size_t i = 0; i < works.size(); i++) {
        works[i].sg_list = &pieces[i];
        works[i].next = i + 1 < works.size() ? &works[i + 1] : nullptr;
    }
}

// Where a connection counts its traffic: in its owner's counters, from count_in() until stop().
class VerbsCounting {
  public:
    VerbsCounting() = default;
    VerbsCounting(const VerbsCounting&) = delete;
    VerbsCounting& operator=(const VerbsCounting&) = delete;

    void count_in(ChannelCounters& counters) { counters_ = &counters; }
    void stop() { counters_ = &unread_; }
    ChannelCounters* operator->() const { return counters_; }

  private:
    ChannelCounters unread_;
    ChannelCounters* counters_ = &unread_;
};

// It counts the SENDs, WRITEs, READs and atomics that it collects, and the doorbells.
class VerbsSends {
  public:
    // All outlive this.
    VerbsSends(const VerbsConfig& config, const VerbsBuffers& buffers, const VerbsCounting& counting)
        : config_(config), buffers_(buffers), counting_(counting), posted_(config.send_queue()) {
        chain_.reserve(config.send_queue());
        pieces_.reserve(config.send_queue());
        reads_done_.reserve(config.reads);
    }
    // Each one asks for a completion, until the other end permits the WRITE that would complete all others.
    void signal_all(bool all) { signal_all_ = all; }
    // A message up to this size leaves with its work request.
    void send_inline(uint32_t bytes_max) { inline_bytes_ = bytes_max; }

    uint32_t room_to_send() const { return config_.sends - sends_pending_; }
    bool room_to_read(bool count) const { return reads_pending_ + counts_pending_ + (count ? 2 : 1) <= config_.reads; }
    uint32_t reads_pending() const { return reads_pending_; }
    std::vector<uint64_t>& reads_done() { return reads_done_; }  // tokens; the reader takes them out
    bool collected() const { return !chain_.empty(); }
    bool pending() const { return head_ != tail_; }  // collected, or posted and not completed
    uint64_t last_number() const { return tail_ - 1; }

    // ---- collecting ---------------------------------------------------------------------------------
    ibv_send_wr& add(WorkKind kind, ibv_wr_opcode opcode, uint64_t token = 0) {
        CHECK(tail_ - head_ < posted_.size());
        const uint64_t number = tail_++;
        posted_[number % posted_.size()] = {kind, token};
        pieces_.push_back({});
        ibv_send_wr& work = chain_.emplace_back();
        work.wr_id = WorkId{kind, number}.packed();
        work.opcode = opcode;
        return work;
    }
    // The bytes of the next SEND or WRITE. Only while there is room_to_send().
    char* next_buffer() const { return bytes_of(buffers_.send(next_send_, 0)); }
    // A SEND or a WRITE of the first bytes there.
    ibv_send_wr& add_sent(WorkKind kind, ibv_wr_opcode opcode, uint32_t bytes) {
        ibv_send_wr& work = add(kind, opcode);
        sends_pending_++;
        const bool write = kind == WorkKind::write;
        (write ? counting_->rdma_writes : counting_->rdma_sends).add(1);
        (write ? counting_->rdma_write_bytes : counting_->rdma_send_bytes).add(bytes);
        if (++unsignalled_ >= std::max(config_.sends / 4, 1U) || signal_all_) {
            work.send_flags |= IBV_SEND_SIGNALED;
            unsignalled_ = 0;
        }
        if (bytes == 0) return work;
        work.num_sge = 1;
        pieces_.back() = buffers_.send(next_send_, bytes);
        if (bytes <= inline_bytes_) work.send_flags |= IBV_SEND_INLINE;
        next_send_ = (next_send_ + 1) % config_.sends;
        return work;
    }
    // A READ of a reply; take_fetched() counts those that are done.
    ibv_send_wr& add_fetch(const ibv_sge& into) {
        return add_fetching(WorkKind::fetch, into, 0);
    }
    // Since the last call.
    uint32_t take_fetched() { return std::exchange(fetched_, 0); }
    uint32_t room_to_fetch() const { return config_.reads - reads_pending_ - counts_pending_; }
    // A READ, or a FETCH_AND_ADD. Only while there is room_to_read().
    ibv_send_wr& add_read(const ibv_sge& into, uint64_t token) {
        return add_fetching(WorkKind::read, into, token);
    }
    ibv_send_wr& add_count() {
        counts_pending_++;
        counting_->rdma_atomics.add(1);
        return add_landing(WorkKind::count, IBV_WR_ATOMIC_FETCH_AND_ADD, buffers_.counted(), 0);
    }
    // An empty WRITE needs only the acknowledgement of the other side's device, and no memory there. (Not an empty READ:
    // soft-RoCE of Linux 6.1 answers a repeated one with a wrong key.) No-op while another one is under way, unless it is
    // to complete after all collected requests.
    void add_beat(bool last) {
        if (beating_ && !last) return;
        beating_ = true;
        add(WorkKind::beat, IBV_WR_RDMA_WRITE).send_flags = IBV_SEND_SIGNALED;
    }

    // ---- posting, and completing --------------------------------------------------------------------
    // Posts what is collected. Returns an errno.
    int post(ibv_qp* to) {
        counting_->rdma_doorbells.add(1);
        if (read_last_ != SIZE_MAX) chain_[read_last_].send_flags |= IBV_SEND_SIGNALED;
        read_last_ = SIZE_MAX;
        link_works(chain_, pieces_);
        ibv_send_wr* refused = nullptr;
        const int failed = ibv_post_send(to, chain_.data(), &refused);
        chain_.clear();
        pieces_.clear();
        return failed;
    }
    void complete_up_to(uint64_t number) {
        CHECK(number < tail_);
        for (; head_ <= number; head_++) {
            const Posted& done = posted_[head_ % posted_.size()];
            switch (done.kind) {
                case WorkKind::message:
                case WorkKind::credits:
                case WorkKind::write: sends_pending_--; break;
                case WorkKind::bind: break;
                case WorkKind::read:
                    reads_pending_--;
                    reads_done_.push_back(done.token);
                    break;
                case WorkKind::fetch:
                    reads_pending_--;
                    fetched_++;
                    break;
                case WorkKind::count: counts_pending_--; break;
                case WorkKind::beat: beating_ = false; break;
                case WorkKind::receive: CHECK(done.kind != WorkKind::receive);
            }
        }
    }

  private:
    struct Posted {
        WorkKind kind;
        uint64_t token;
    };
    ibv_send_wr& add_fetching(WorkKind kind, const ibv_sge& into, uint64_t token) {
        reads_pending_++;
        counting_->rdma_reads.add(1);
        counting_->rdma_read_bytes.add(into.length);
        return add_landing(kind, IBV_WR_RDMA_READ, into, token);
    }
    ibv_send_wr& add_landing(WorkKind kind, ibv_wr_opcode opcode, const ibv_sge& into, uint64_t token) {
        ibv_send_wr& work = add(kind, opcode, token);
        work.num_sge = 1;
        pieces_.back() = into;
        read_last_ = chain_.size() - 1;
        return work;
    }

    const VerbsConfig& config_;
    const VerbsBuffers& buffers_;
    const VerbsCounting& counting_;
    uint32_t inline_bytes_ = 0;
    std::vector<ibv_send_wr> chain_;  // collected, not posted
    std::vector<ibv_sge> pieces_;
    size_t read_last_ = SIZE_MAX;  // last READ or FETCH_AND_ADD of chain_; SIZE_MAX: none
    std::vector<Posted> posted_;   // ring by number
    uint64_t head_ = 0, tail_ = 0;
    uint32_t sends_pending_ = 0, reads_pending_ = 0, counts_pending_ = 0, unsignalled_ = 0, fetched_ = 0;
    uint32_t next_send_ = 0;
    bool beating_ = false, signal_all_ = false;
    std::vector<uint64_t> reads_done_;
};

// The receives: those with bytes that were not pulled yet, in order, and those that are to be posted again. Each emptied
// receive is owed as a credit (VerbsCredits). A receive is posted, or in the inbox, or waits for posting.
class VerbsInbox {
  public:
    // `buffers` outlives this.
    VerbsInbox(const VerbsConfig& config, const VerbsBuffers& buffers) : buffers_(buffers), messages_(config.receives) {
        again_.reserve(config.receives);
        pieces_.reserve(config.receives);
    }
    // The start, when the buffers are registered: all receives wait for posting.
    void fill() {
        for (uint32_t i = 0; i < messages_.size(); i++) post_later(i);
    }

    uint32_t count() const { return count_; }
    // A message of so many bytes lies in this receive; without bytes the receive is emptied already.
    void put(uint32_t receive, uint32_t bytes, bool numbered, VerbsCredits& credits) {
        if (bytes == 0) return emptied(receive, credits);
        CHECK(count_ < messages_.size());
        messages_[(first_ + count_) % messages_.size()] = {receive, bytes, 0, numbered};
        count_++;
    }
    // Of the oldest message. Only while count() > 0.
    bool begun() const { return messages_[first_].taken != 0; }
    bool numbered() const { return messages_[first_].numbered; }
    std::string_view whole() const { return {bytes_of(buffers_.receive(messages_[first_].receive)), messages_[first_].bytes}; }
    // Its bytes that are not taken yet; then consume(), with the head in the first one.
    std::string_view rest() const { return whole().substr(messages_[first_].taken); }
    void consume(uint32_t bytes, VerbsCredits& credits) {
        Message& first = messages_[first_];
        first.taken += bytes;
        CHECK(first.taken <= first.bytes);
        if (first.taken < first.bytes) return;
        emptied(first.receive, credits);
        first_ = (first_ + 1) % uint32_t(messages_.size());
        count_--;
    }
    bool anything_to_post() const { return !again_.empty(); }
    // Posts the waiting receives. Returns an errno.
    int post(ibv_qp* to) {
        if (again_.empty()) return 0;
        link_works(again_, pieces_);
        ibv_recv_wr* refused = nullptr;
        const int failed = ibv_post_recv(to, again_.data(), &refused);
        again_.clear();
        pieces_.clear();
        return failed;
    }

  private:
    struct Message {
        uint32_t receive, bytes, taken;
        bool numbered;
    };
    void post_later(uint32_t receive) {
        pieces_.push_back(buffers_.receive(receive));
        again_.push_back({});
        again_.back().wr_id = WorkId{WorkKind::receive, receive}.packed();
        again_.back().num_sge = 1;
    }
    void emptied(uint32_t receive, VerbsCredits& credits) {
        post_later(receive);
        credits.posted_again();
    }

    const VerbsBuffers& buffers_;
    std::vector<Message> messages_;  // ring
    uint32_t first_ = 0, count_ = 0;
    std::vector<ibv_recv_wr> again_;
    std::vector<ibv_sge> pieces_;
};

}  // namespace farcached::fabric
