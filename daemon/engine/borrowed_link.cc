// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/borrowed_link.h"

#include <algorithm>
#include <new>
#include <type_traits>
#include <utility>

#include "daemon/engine/link_peer.h"

namespace farcached::daemon {

namespace {

template <class Op>
size_t bytes_of(const Op& op) {
    if constexpr (std::is_same_v<Op, protocol::StoreOp>) return op.value.size();
    return 0;
}

}  // namespace

BorrowedLink::BorrowedLink(LinkShared& shared, LinkPeer& peer, uint32_t owner) : shared_(shared), peer_(peer), owner_(owner) {
    lent().borrowers.fetch_add(1, std::memory_order_relaxed);
}

// The owner may wait for it to end its connection (LeavingPeers, E1).
BorrowedLink::~BorrowedLink() {
    stop();
    if (lent().borrowers.fetch_sub(1, std::memory_order_acq_rel) == 1) shared_.courier.room().desk(owner_).wake();
}

LentLink& BorrowedLink::lent() const { return peer_.node().lent[owner_]; }
LentLink::State BorrowedLink::state() const { return lent().state.load(std::memory_order_relaxed); }

void BorrowedLink::start() {
    while (std::unique_ptr<Letter> letter = held_.pop()) shared_.courier.send(owner_, std::move(letter));
}

void BorrowedLink::stop() { fail_all(proxy::AskFailure::node_down); }

void BorrowedLink::fail_all(proxy::AskFailure why) {
    while (held_.pop() != nullptr) {
    }
    if (under_way_ != 0) shared_.courier.fail(*this, why);
}

uint64_t BorrowedLink::held_until_ns() const {
    return held_.empty() ? UINT64_MAX : held_.first()->request.options.deadline_ns;
}

uint64_t BorrowedLink::next_tick_ns() const { return std::min(held_until_ns(), look_at_ns_); }

// The timer is set once per timeout, not for each request.
void BorrowedLink::tick(uint64_t now_ns) {
    fail_held(now_ns);
    if (now_ns < look_at_ns_) return;
    look_at_ns_ = UINT64_MAX;
    if (under_way_ == 0) return;
    const bool runs = shared_.courier.room().desk(owner_).takes() != takes_seen_;
    runs ? watch_owner(now_ns) : fail_all(proxy::AskFailure::timed_out);
}

void BorrowedLink::watch_owner(uint64_t now_ns) {
    Desk& desk = shared_.courier.room().desk(owner_);
    takes_seen_ = desk.takes();
    desk.wake();
    look_at_ns_ = now_ns + timeout_ns_;
    peer_.touch();
}

// All have the same time limit, so the first one's deadline is the earliest.
void BorrowedLink::fail_held(uint64_t before_ns) {
    while (held_until_ns() <= before_ns && !held_.empty()) {
        const std::unique_ptr<Letter> letter = held_.pop();
        shared_.courier.fail(*letter, proxy::AskFailure::timed_out);
    }
}

bool BorrowedLink::crowded() const {
    return under_way_ > requests_max || bytes_ > bytes_max || !peer_.started() || state() != LentLink::State::up;
}

void BorrowedLink::repaid(size_t bytes) {
    under_way_--;
    bytes_ -= bytes;
}

template <class Op>
SubmitResult BorrowedLink::ask(const Op& op, proxy::AskOptions options, proxy::ReplySink& sink) {
    const proxy::Ticket ticket = options.ticket;
    const size_t bytes = bytes_of(op);
    timeout_ns_ = options.patience_ns;
    std::unique_ptr<Letter> letter;
    try {
        options.session = shared_.session_at_owner(options.session);
        letter = std::make_unique<Letter>(op, std::move(options), peer_.shared_node());
        letter->place = peer_.place();
        shared_.courier.lend(*letter, {this, ticket, &sink, bytes});
    } catch (const std::bad_alloc&) {
        sink.failed(ticket, {proxy::AskFailure::no_memory, std::nullopt});
        return SubmitResult::later;
    }
    under_way_++;
    bytes_ += bytes;
    if (look_at_ns_ == UINT64_MAX) watch_owner(shared_.now());
    if (peer_.started()) {
        shared_.courier.send(owner_, std::move(letter));
    } else {
        held_.push(std::move(letter));
        peer_.touch();  // for the timer
    }
    return crowded() ? SubmitResult::crowded : SubmitResult::later;
}

template SubmitResult BorrowedLink::ask(const protocol::GetOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult BorrowedLink::ask(const protocol::StoreOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult BorrowedLink::ask(const protocol::DeleteOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult BorrowedLink::ask(const protocol::ArithOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult BorrowedLink::ask(const protocol::ForgetOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult BorrowedLink::ask(const protocol::FlushOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult BorrowedLink::ask(const protocol::StatsOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult BorrowedLink::ask(const protocol::HoldOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult BorrowedLink::ask(const protocol::CopiesOp&, proxy::AskOptions, proxy::ReplySink&);

}  // namespace farcached::daemon
