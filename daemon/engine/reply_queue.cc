// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/reply_queue.h"

#include <algorithm>

#include "daemon/engine/engine.h"
#include "daemon/engine/session_memory.h"
#include "daemon/stats/hot_keys.h"
#include "daemon/stats/watch_hub.h"

namespace farcached::daemon {

namespace {

// A ticket is a slot's index and the generation of its use; generations wrap after 2^39 uses. The top bit is free
// (Courier::is_kept()).
constexpr unsigned index_bits = 24;
constexpr uint64_t index_mask = (UINT64_C(1) << index_bits) - 1;
constexpr uint64_t generation_mask = ~UINT64_C(0) >> (index_bits + 1);

// Capacity that a free slot's strings keep.
constexpr size_t slot_bytes_kept = 1024;
// Above this number of slots, all are freed once none is in use.
constexpr size_t slots_kept = 4096;
constexpr size_t nowhere_bytes_kept = 4096;

void shrink(std::string& string) {
    string.clear();
    if (string.capacity() > slot_bytes_kept) std::string().swap(string);
}

}  // namespace

void ReplyValue::drop() {
    shrink(copied_);
    owned_.reset();
    owned_bytes_ = 0;
}

// ---- ReplyPool --------------------------------------------------------------------------------------

ReplySlot& ReplyPool::open(Verb verb, uint64_t session) {
    if (free_ == nullptr) {
        CHECK(slots_.size() <= index_mask);
        free_ = &slots_.emplace_back();
        free_->index_ = uint32_t(slots_.size() - 1);
    }
    ReplySlot& slot = *free_;
    free_ = slot.next_;
    slot.next_ = nullptr;
    slot.state_ = ReplySlot::State::asked;
    generation_ = (generation_ + 1) & generation_mask;
    slot.generation_ = generation_;
    slot.session_ = session;
    slot.verb_ = verb;
    slot.plain_ = slot.asked_again_ = false;
    slot.received_ns_ = context_.latencies == nullptr ? 0 : context_.latencies->now_ns();
    slot.asked_ns_ = slot.answered_ns_ = 0;
    slot.node_.clear();
    slot.why_ = {};
    in_use_++;
    return slot;
}

void ReplyPool::close(ReplySlot& slot) {
    slot.state_ = ReplySlot::State::free;
    slot.queue_ = nullptr;
    slot.complete_ = nullptr;
    shrink(slot.request_);
    slot.value_.drop();
    slot.next_ = free_;
    free_ = &slot;
    in_use_--;
    if (in_use_ != 0 || slots_.size() <= slots_kept) return;
    free_ = nullptr;
    slots_.clear();
}

Ticket ReplyPool::ticket_of(const ReplySlot& slot) const {
    return Ticket(slot.generation_ << index_bits | slot.index_);
}

ReplySlot* ReplyPool::find(Ticket ticket) {
    const uint64_t index = uint64_t(ticket) & index_mask;
    if (index < slots_.size()) {
        ReplySlot& slot = slots_[index];
        const bool asked = slot.state_ == ReplySlot::State::asked;
        if (asked && slot.generation_ == uint64_t(ticket) >> index_bits) return &slot;
    }
    context_.counters.replies_unmatched.add(1);
    return nullptr;
}

void ReplyPool::answer(Ticket ticket, const protocol::ReplyOp& reply, std::string_view value,
                       std::unique_ptr<char[]> owned, Way way) {
    ReplySlot* slot = find(ticket);
    if (slot == nullptr) return;
    slot->way_ = way;
    slot->reply_ = reply;
    try {
        slot->value_.set(value, std::move(owned));
    } catch (const std::bad_alloc&) {
        return arrived(*slot, ReplySlot::State::unavailable);
    }
    arrived(*slot, ReplySlot::State::answered);
}

void ReplyPool::drop_value(ReplySlot& slot) {
    context_.counters.response_oom.add(1);
    slot.state_ = ReplySlot::State::unavailable;
    slot.why_ = "all clients' buffers have reached read_buf_mem_limit";
    slot.value_.drop();
}

void ReplyPool::unavailable(Ticket ticket, std::string_view why) {
    ReplySlot* slot = find(ticket);
    if (slot == nullptr) return;
    slot->why_ = why;
    arrived(*slot, ReplySlot::State::unavailable);
}

// Runs when the slot is the head: before that its key may be unknown.
void ReplyPool::tell_failed(const ReplySlot& slot) const {
    if (slot.available() || slot.why_.empty() || !context_.watch.wants(watch_proxyevents)) return;
    context_.watch.proxy_event(request_failed_line(slot.why_, slot.node_, slot.key(), slot.fd_));
}

// A slot without queue and completion is being submitted now: park() finds it answered.
void ReplyPool::arrived(ReplySlot& slot, ReplySlot::State how) {
    slot.state_ = how;
    slot.answered_ns_ = answers_ns_;
    if (slot.queue_ != nullptr)
        slot.queue_->arrived(slot);
    else if (slot.complete_ != nullptr)
        count_only(slot);
}

uint64_t ReplyPool::session_of(Ticket ticket) {
    const ReplySlot* slot = find(ticket);
    CHECK(slot != nullptr);
    return slot->session_;
}

std::optional<ReplyPool::PlainGet> ReplyPool::ask_again(Ticket ticket) {
    ReplySlot* const slot = find(ticket);
    if (slot == nullptr || slot->queue_ == nullptr || !slot->plain_ || slot->asked_again_) return std::nullopt;
    for (const ReplySlot* later = slot->next_; later != nullptr; later = later->next_)
        if (later->verb_ != Verb::get || !later->plain_ || later->key() == slot->key()) return std::nullopt;
    slot->asked_again_ = true;
    return PlainGet{slot->key(), slot->gets_value_};
}

bool ReplyPool::is_awaited(Ticket ticket) {
    const ReplySlot* slot = find(ticket);
    return slot != nullptr && slot->queue_ != nullptr && !slot->queue_->abandoned_;
}

bool ReplyPool::names_nodes() const { return lists_slow() || context_.watch.wants(watch_proxyevents); }

bool ReplyPool::lists_slow() const { return context_.latencies != nullptr && context_.latencies->lists_slow(); }

void ReplyPool::asked_of(Ticket ticket, const std::string& node) {
    if (ReplySlot* slot = find(ticket)) try {
            slot->node_ = node;
        } catch (const std::bad_alloc&) {  // listed without the name
        }
}

void ReplyPool::asked_at(Ticket ticket, uint64_t now_ns) {
    ReplySlot* slot = find(ticket);
    if (slot != nullptr && !slot->node_.empty()) slot->asked_ns_ = now_ns;  // of one node, not of all
}

// The completion runs for its counters, with its output discarded.
void ReplyPool::complete_nowhere(ReplySlot& slot) {
    ReplyContext carry;
    try {
        tell_failed(slot);
        slot.complete_(slot, ReplyTarget{context_, slot.fd_, nowhere_, &carry});
    } catch (const std::bad_alloc&) {
        context_.counters.replies_unmatched.add(1);
    }
    nowhere_.clear(nowhere_bytes_kept);
}

void ReplyPool::count_only(ReplySlot& slot) {
    complete_nowhere(slot);
    close(slot);
}

void ReplyPool::list(ReplyQueue& queue) {
    if (queue.listed_) return;
    queue.listed_ = true;
    queue.listed_in_ = tick_;
    ready_.push_back(&queue);
}

std::span<ReplyQueue* const> ReplyPool::take_ready() {
    auto may_wait = [&](const ReplyQueue* queue) {
        return queue->listed_in_ == tick_ && queue->patient();
    };
    const auto first = std::partition(ready_.begin(), ready_.end(), may_wait);
    taken_.assign(first, ready_.end());
    ready_.erase(first, ready_.end());
    for (ReplyQueue* queue : taken_) queue->listed_ = false;
    return taken_;
}

// ---- ReplyQueue -------------------------------------------------------------------------------------

ReplyQueue::ReplyQueue(ReplyPool& pool, int fd, Session* session, Datagram* datagram, SessionMemory* memory)
    : pool_(pool), fd_(fd), session_(session), datagram_(datagram), part_(memory), number_(++pool.sessions_) {
    for (std::vector<ReplyQueue*>* list : {&pool.ready_, &pool.taken_})
        if (list->capacity() <= pool.queues_) list->reserve(std::max<size_t>(64, 2 * pool.queues_));
    pool.queues_++;
}

ReplyQueue::~ReplyQueue() {
    pool_.queues_--;
    if (listed_) std::erase(pool_.ready_, this);
    while (head_ != nullptr) {
        ReplySlot& slot = *head_;
        head_ = slot.next_;
        slot.queue_ = nullptr;
        if (slot.state_ != ReplySlot::State::asked) pool_.count_only(slot);
    }
    discharge(0);
}

SessionMemory* ReplyQueue::memory() const { return part_ != nullptr ? part_ : pool_.context_.memory; }

bool ReplyQueue::short_of_room() const { return head_ != nullptr && memory() != nullptr && memory()->short_of_room(); }

// Q6. False: no room for `bytes` in total.
bool ReplyQueue::charge(size_t bytes) {
    if (abandoned_) return false;
    if (memory() == nullptr || bytes <= uncharged_bytes + charged_) return true;
    const size_t more = (bytes - uncharged_bytes - charged_ + charged_step - 1) / charged_step * charged_step;
    const bool has_room = datagram_ != nullptr || pool_.context_.has_room(more);
    if (!has_room || !memory()->take(more)) return false;
    charged_ += more;
    return true;
}

void ReplyQueue::abandon() {
    abandoned_ = true;
    for (ReplySlot* slot = head_; slot != nullptr; slot = slot->next_) {
        if (slot->state_ != ReplySlot::State::answered) continue;
        bytes_ -= slot->value().size();
        pool_.drop_value(*slot);
    }
    std::string().swap(text_);
    text_start_ = text_behind_ = 0;
    for (ReplySlot* slot = head_; slot != nullptr; slot = slot->next_) slot->text_before_ = 0;
    discharge(0);
}

void ReplyQueue::discard() {
    discarded_ = true;
    for (ReplySlot* slot = head_; slot != nullptr; slot = slot->next_) {
        slot->text_before_ = 0;
        if (slot->state_ == ReplySlot::State::asked) continue;
        if (slot->state_ == ReplySlot::State::answered) bytes_ -= slot->value().size();
        count_discarded(*slot);
    }
    std::string().swap(text_);
    text_start_ = text_behind_ = out_seen_ = 0;
    discharge(0);
    remind();
}

// The slot stays until it is the head.
void ReplyQueue::count_discarded(ReplySlot& slot) {
    pool_.complete_nowhere(slot);
    slot.complete_ = [](ReplySlot&, const ReplyTarget&) {};
    slot.why_ = {};
    slot.value_.drop();
}

void ReplyQueue::discharge(size_t kept) {
    if (charged_ <= kept) return;
    memory()->give_back(charged_ - kept);
    charged_ = kept;
}

void ReplyQueue::append(ReplySlot& slot, const OutBuffer& out, std::string_view key, std::string_view words) {
    try {
        slot.request_.reserve(key.size() + words.size());
    } catch (const std::bad_alloc&) {
        slot.key_bytes_ = 0;
        if (slot.state_ != ReplySlot::State::asked)
            pool_.close(slot);
        else  // the request is lost: the answer is discarded
            slot.complete_ = [](ReplySlot&, const ReplyTarget&) {};
        throw;
    }
    slot.request_.append(key).append(words);
    slot.key_bytes_ = uint16_t(key.size());
    slot.fd_ = fd_;
    slot.queue_ = this;
    slot.text_before_ = text_behind_ + out.size() - out_seen_;
    text_behind_ = 0;
    out_seen_ = out.size();
    (head_ == nullptr ? head_ : tail_->next_) = &slot;
    tail_ = &slot;
    slots_++;
    bytes_ += slot.request_.size();
    unanswered_++;
    values_asked_ += slot.gets_value_;
    crowded_ += slot.crowded_;
    if (slot.state_ != ReplySlot::State::asked) arrived(slot);
}

void ReplyQueue::park_answered(const OutBuffer& out, ReplySlot::Complete complete) {
    ReplySlot& slot = pool_.open(Verb::other, number_);
    slot.state_ = ReplySlot::State::answered;
    struct {
    } nothing;
    park(slot, out, /* crowded= */ false, /* gets_value= */ false, "", "", nothing, complete);
}

void ReplyQueue::arrived(ReplySlot& slot) {
    unanswered_--;
    values_asked_ -= slot.gets_value_;
    crowded_ -= slot.crowded_;
    if (discarded_) {
        count_discarded(slot);
        if (&slot == head_) pool_.list(*this);
        return;
    }
    const size_t size = slot.state_ == ReplySlot::State::answered ? slot.value().size() : 0;
    bytes_ += size;
    if (size != 0 && !charge(bytes()) && slot.state_ == ReplySlot::State::answered) {
        bytes_ -= size;
        pool_.drop_value(slot);
    }
    if (slot.state_ == ReplySlot::State::answered) {
        value_largest_ = std::max(value_largest_, size);
        if (size > bytes_max / slots_max)
            values_max_ = std::min(values_max_, uint32_t(std::max<size_t>(1, bytes_max / size)));
        else if (slot.gets_value_)
            values_max_ = std::min(values_max_ + 1, slots_max);
    }
    if (&slot == head_) pool_.list(*this);
}

void ReplyQueue::settle(OutBuffer& out) {
    if (empty()) return;
    if (text_start_ > text_.size() / 2) {
        text_.erase(0, text_start_);
        text_start_ = 0;
    }
    if (!charge(bytes() + out.size())) throw SessionMemorySpent();
    text_.append(out.data(), out.size());
    text_behind_ += out.size() - out_seen_;
    out_seen_ = 0;
    out.truncate(0);
    if (!patient()) return emit(out);
    remind();
}

void ReplyQueue::emit(OutBuffer& out) {
    while (head_ != nullptr && out.leaves() < pool_.context_.out_bytes_max) {
        move_text(out, head_->text_before_);
        head_->text_before_ = 0;
        if (head_->state_ == ReplySlot::State::asked) break;
        take_turn(out);
    }
    discharge(bytes() + charged_step);
    if (head_ != nullptr) return;
    move_text(out, text_behind_);
    CHECK(text_start_ == text_.size());
    CHECK(bytes_ == 0);
    std::string().swap(text_);
    text_start_ = 0;
    text_behind_ = 0;
    discharge(0);
    value_largest_ = 0;
    values_max_ = std::min(values_max_, values_at_first);
}

void ReplyQueue::remind() {
    if (ready() || (head_ != nullptr && head_->text_before_ != 0)) pool_.list(*this);
}

void ReplyQueue::move_text(OutBuffer& out, size_t bytes) {
    if (bytes == 0) return;
    out.append(std::string_view(text_).substr(text_start_, bytes));
    text_start_ += bytes;
}

void ReplyQueue::measure(const ReplySlot& slot) const {
    Latencies& latencies = *pool_.context_.latencies;
    const Latencies::Later later{slot.verb_,        slot.way_,      slot.available(),
                                 slot.received_ns_, slot.asked_ns_, slot.answered_ns_};
    latencies.answered(later);
    if (!latencies.is_slow(later) || slot.request_.empty()) return;  // END of a line: its keys were listed
    latencies.keep_slow(later, fd_, slot.node_, slot.key());
}

void ReplyQueue::take_turn(OutBuffer& out) {
    ReplySlot& slot = *head_;
    const size_t before = out.size();
    if (!slot.available()) pool_.tell_failed(slot);
    if (pool_.context_.latencies != nullptr) measure(slot);
    HotKeys* const hot_keys = pool_.context_.hot_keys;
    const bool samples = slot.verb_ != Verb::other && slot.way_ != Way::disk;  // those were sampled when they were executed
    if (hot_keys != nullptr && samples && slot.available() && hot_keys->due())
        hot_keys->sample(slot.way_, slot.key());
    slot.complete_(slot, ReplyTarget{pool_.context_, fd_, out, &carry_});
    if (pool_.context_.options.trace)
        trace_reply(fd_, std::string_view(out.data(), out.size()).substr(before));
    head_ = slot.next_;
    slots_--;
    bytes_ -= slot.request_.size();
    if (slot.state_ == ReplySlot::State::answered) bytes_ -= slot.value().size();
    pool_.close(slot);
}

}  // namespace farcached::daemon
