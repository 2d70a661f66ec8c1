// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/reads.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/broken.h"
#include "base/check.h"

namespace farcached::proxy {

// ---- slots and buffers ------------------------------------------------------------------------------

// Reserves all lists at once: after this, a read allocates memory only when the node is asked.
void Reads::have_free_slot() {
    if (!free_.empty()) return;
    const size_t most = reads_.size() + 1;
    for (std::vector<uint32_t>* list : {&free_, &landed_, &settling_})
        if (list->capacity() < most) list->reserve(2 * most);
    awaited_.have_room(most);
    reads_.emplace_back();
    reads_.back().number_ = uint32_t(reads_.size() - 1);
    free_.push_back(reads_.back().number_);
}

Read& Reads::free_slot() {
    Read& read = reads_[free_.back()];
    free_.pop_back();
    CHECK(read.state_ == Read::State::free);
    return read;
}

Read* Reads::open(const protocol::GetOp& op, const AskOptions& options, ReplySink& sink,
                  size_t bytes) {
    uint64_t* landing = nullptr;
    have_free_slot();
    if (live_ < reads_max_) landing = pool_->lend(bytes);
    if (landing == nullptr) {
        counters_.read_unposted.add(1);
        return nullptr;
    }
    Read& read = begin(op, options, sink);
    enter(read, Read::State::landed);
    read.landing = landing;
    read.landing_bytes_ = bytes;
    return &read;
}

// A free slot is there.
Read& Reads::begin(const protocol::GetOp& op, const AskOptions& options, ReplySink& sink) {
    Read& read = free_slot();
    CHECK(op.key.bytes.size() <= read.key_.size());
    read.sink_ = &sink;
    read.options = options;
    read.counted = false;
    read.op = op;
    std::memcpy(read.key_.data(), op.key.bytes.data(), op.key.bytes.size());
    read.op.key.bytes = {read.key_.data(), op.key.bytes.size()};
    live_++;
    awaited_.add({options.session, op.key.hash}, read.awaited_);
    next_deadline_ns_ = std::min(next_deadline_ns_, options.deadline_ns);
    return read;
}

void Reads::enter(Read& read, Read::State next) {
    elsewhere_ += uint32_t(next == Read::State::elsewhere) - uint32_t(read.state_ == Read::State::elsewhere);
    read.state_ = next;
}

void Reads::cancel(Read& read) {
    CHECK(read.state_ == Read::State::landed);
    read.sink_ = nullptr;
    close(read);
}

void Reads::close(Read& read) {
    CHECK(read.state_ != Read::State::free);
    CHECK(read.sink_ == nullptr);
    release_landing(read);
    awaited_.remove(read.awaited_);
    enter(read, Read::State::free);
    read.under_way_ = 0;
    live_--;
    free_.push_back(read.number_);
}

void Reads::release_landing(Read& read) {
    if (read.landing != nullptr) pool_->give_back(read.landing);
    read.landing = nullptr;
}

bool Reads::make_room(Read& read, size_t bytes) {
    CHECK(read.under_way_ == 0);
    if (bytes <= read.landing_bytes_) return true;
    release_landing(read);
    read.landing = pool_->lend(bytes);
    read.landing_bytes_ = bytes;
    if (read.landing == nullptr) counters_.read_unposted.add(1);
    return read.landing != nullptr;
}

// ---- READs ------------------------------------------------------------------------------------------

bool Reads::post(fabric::Channel& channel, Read& read, const fabric::RemotePtr& ptr, uint64_t* to) {
    return post(channel, read, {ptr, to, read.number_, false});
}

bool Reads::post_item(fabric::Channel& channel, Read& read, const fabric::RemotePtr& ptr, uint64_t* to) {
    const bool count = count_reads_ && !read.op.no_bump && channel.counts_reads();
    if (!post(channel, read, {ptr, to, read.number_, count})) return false;
    read.counted = count;
    return true;
}

bool Reads::post(fabric::Channel& channel, Read& read, const fabric::ReadRequest& request) {
    if (!channel.post_read(request)) {
        counters_.read_unposted.add(1);
        return false;
    }
    counters_.reads_posted.add(1);
    if (read.under_way_++ == 0) {
        CHECK(read.state_ == Read::State::landed);
        read.state_ = Read::State::posted;
        read.status = fabric::ReadStatus::done;
        read.refused = false;
    }
    return true;
}

void Reads::completed(uint64_t token, fabric::ReadStatus status) {
    CHECK(token < reads_.size());
    Read& read = reads_[token];
    CHECK(read.state_ == Read::State::posted);
    CHECK(read.under_way_ > 0);
    count_completion(status);
    if (status != fabric::ReadStatus::done) read.status = status;
    if (--read.under_way_ > 0) return;
    read.state_ = Read::State::landed;
    landed_.push_back(read.number_);
}

void Reads::count_completion(fabric::ReadStatus status) {
    switch (status) {
        case fabric::ReadStatus::done: counters_.reads_completed.add(1); return;
        case fabric::ReadStatus::owner_dead: counters_.reads_failed_owner.add(1); return;
        case fabric::ReadStatus::failed: counters_.reads_failed_transport.add(1); return;
    }
}

void Reads::settle(FunctionRef<void(Read&)> judge) {
    CHECK(settling_.empty());  // sinks do not call the link's ready(), flush() or tick()
    settling_.swap(landed_);
    for (uint32_t number : settling_) {
        Read& read = reads_[number];
        CHECK(read.state_ == Read::State::landed);
        if (read.sink_ != nullptr) {
            judge(read);
            CHECK(read.state_ != Read::State::landed);
            continue;
        }
        counters_.read_late.add(1);
        close(read);
    }
    settling_.clear();
}

void Reads::answer(Read& read, const fabric::PointerRead& found, uint64_t item_bytes) {
    protocol::GetReply reply;
    reply.status = protocol::GetReply::Status::hit;
    reply.why = protocol::Miss::none;
    reply.meta.cas = found.meta.cas;
    reply.meta.value_len = found.meta.value_len;
    reply.meta.flags = found.meta.flags;
    reply.meta.item_bytes = uint32_t(item_bytes);
    reply.meta.exptime = clock_.to_host(found.meta.exptime);
    reply.meta.key_binary = found.meta.key_binary;
    const protocol::ReplyOp op(reply);
    const bool by_index = std::holds_alternative<fabric::IndexProbe>(read.way);
    Answer told{op, found.value, /* one_sided= */ true, by_index, nullptr};
    ReplySink* sink = read.sink_;
    read.sink_ = nullptr;
    awaited_.remove(read.awaited_);
    sink->answered(read.options.ticket, told);
    close(read);
}

void Reads::ask_node(Read& read) {
    CHECK(read.state_ == Read::State::landed || read.state_ == Read::State::elsewhere);
    two_sided_.push_back(read.number_);
    release_landing(read);
    enter(read, Read::State::two_sided);
}

void Reads::ask_two_sided(FunctionRef<bool(const Fallback&)> ask) {
    while (!two_sided_.empty()) {
        Read& read = reads_[two_sided_.front()];
        CHECK(read.state_ == Read::State::two_sided);
        if (read.sink_ != nullptr) {
            if (!ask({read.op, read.options, *read.sink_})) return;
            read.sink_ = nullptr;
        }
        two_sided_.pop_front();
        close(read);
    }
}

// ---- through another link ---------------------------------------------------------------------------

std::optional<Ticket> Reads::next_elsewhere() {
    have_free_slot();
    if (live_ < reads_max_) return Ticket(free_.back());
    counters_.read_unposted.add(1);
    return std::nullopt;
}

void Reads::open_elsewhere(const protocol::GetOp& op, const AskOptions& options, ReplySink& sink, const Elsewhere& at) {
    Read& read = begin(op, options, sink);
    enter(read, Read::State::elsewhere);
    read.way = at;
}

const Read& Reads::elsewhere(Ticket ticket) const {
    CHECK(uint64_t(ticket) < reads_.size());
    const Read& read = reads_[uint64_t(ticket)];
    CHECK(read.state_ == Read::State::elsewhere);
    return read;
}

// Only without memory is the node not asked.
void Reads::end_elsewhere(Ticket ticket, Answer* answer) {
    Read& read = reads_[elsewhere(ticket).number_];
    elsewhere_ended_ = true;
    events_.elsewhere_ended();
    if (read.sink_ == nullptr) {
        counters_.read_late.add(1);
    } else if (answer != nullptr) {
        ReplySink* sink = read.sink_;
        read.sink_ = nullptr;
        awaited_.remove(read.awaited_);
        sink->answered(read.options.ticket, *answer);
    } else {
        try {
            return ask_node(read);
        } catch (const std::bad_alloc&) {
            fail(read, {AskFailure::no_memory, std::nullopt});
        }
    }
    close(read);
}

void Reads::leave_to_home(Read& read) {
    CHECK(read.state_ == Read::State::landed);
    fail(read, {AskFailure::node_down, std::nullopt});
    close(read);
}

// The home's link ended: this READ has no asker any more.
void Reads::abandon(uint32_t number) {
    Read& read = reads_[number];
    CHECK(std::holds_alternative<ForHome>(read.way));
    read.sink_ = nullptr;
    awaited_.remove(read.awaited_);
}

// ---- giving up --------------------------------------------------------------------------------------

void Reads::fail(Read& read, const Failed& why) {
    ReplySink* sink = read.sink_;
    read.sink_ = nullptr;
    awaited_.remove(read.awaited_);
    sink->failed(read.options.ticket, why);
}

void Reads::fail_unasked(const Failed& why) {
    while (!two_sided_.empty()) {
        Read& read = reads_[two_sided_.front()];
        two_sided_.pop_front();
        if (read.sink_ != nullptr) fail(read, why);
        close(read);
    }
}

bool Reads::expire(uint64_t now_ns, uint64_t progress_ns) {
    if (now_ns < next_deadline_ns_) return false;
    bool any = false;
    next_deadline_ns_ = UINT64_MAX;
    for (size_t i = 0; i < reads_.size(); i++) {
        Read& read = reads_[i];
        if (read.state_ == Read::State::free || read.sink_ == nullptr) continue;
        uint64_t deadline_ns = read.options.deadline_ns;
        if (read.state_ == Read::State::two_sided)
            deadline_ns = put_off(deadline_ns, read.options.patience_ns, progress_ns);
        if (deadline_ns > now_ns) {
            next_deadline_ns_ = std::min(next_deadline_ns_, deadline_ns);
            continue;
        }
        counters_.node_timeouts.add(1);
        if (broken::s12_reuse_at_timeout) release_landing(read);
        fail(read, {AskFailure::timed_out, std::nullopt});
        any = true;
    }
    return any;
}

void Reads::fail_all(const Failed& why) {
    landed_.clear();
    settling_.clear();  // non-empty if memory ran out half way
    two_sided_.clear();
    for (size_t i = 0; i < reads_.size(); i++) {
        Read& read = reads_[i];
        if (read.state_ == Read::State::free) continue;
        counters_.reads_failed_lost.add(read.under_way_);
        if (read.state_ == Read::State::elsewhere) {
            const Elsewhere& at = std::get<Elsewhere>(read.way);
            at.reads->abandon(at.number);
        }
        release_landing(read);
        if (read.sink_ != nullptr) fail(read, why);
        close(read);
    }
    next_deadline_ns_ = UINT64_MAX;
}

void Reads::forget_sink(const ReplySink& sink) {
    for (Read& read : reads_) {
        if (read.state_ == Read::State::free || read.sink_ != &sink) continue;
        read.sink_ = nullptr;
        awaited_.remove(read.awaited_);
    }
}

}  // namespace farcached::proxy
