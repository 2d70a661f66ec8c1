// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/own_link.h"

#include <algorithm>
#include <new>
#include <type_traits>
#include <utility>

#include "base/node_clock.h"
#include "daemon/engine/link_peer.h"

namespace farcached::daemon {

namespace {

constexpr int flushes_max = 16;  // in a row, of a connection with ever more to do

}  // namespace

// ---- life -------------------------------------------------------------------------------------------

OwnLink::OwnLink(LinkShared& shared, LinkPeer& peer, const NodeOptions& options)
    : shared_(shared),
      peer_(peer),
      node_(peer.shared_node()),
      reads_mapped_(options.local_read),
      quiet_ns_(options.timeout_ns / 4),
      descriptor_(shared.waits,
                  [this] {
                      peer_.touch();
                      with_memory([&] { link_.ready(shared_.now()); });
                  }),
      link_(shared.nodes.channels().link_config(*node_, options, shared.number),
            {shared.nodes.channels().maker(node_, {{shared.landing.data(), shared.landing.size()},
                                        {shared.lending.data(), shared.lending.size()}},
                               options.rpc, &shortcut_, shared.number),
             boottime_ns, *this, shared.nodes.pointer_table(), &shared.landing, &shared.lending, &shortcut_}),
      mapped_(shared, link_),
      postponed_(shared, link_.requests()) {
    shared_.own_links.reserve(shared_.own_links.size() + 1);
    shared_.nodes.add(*node_, link_.counters(), mapped_.memory().counters());
    shared_.own_links.push_back(this);
}

OwnLink::~OwnLink() {
    over_socket_.reset();
    std::erase(shared_.own_links, this);
    shared_.nodes.remove(node_, link_.counters(), was_up_);
}

void OwnLink::start() {
    with_memory([&] { link_.start(shared_.now()); });
    peer_.touch();
}

void OwnLink::stop() {
    if (peer_.started()) link_.stop(shared_.now());
    postponed_.fail(UINT64_MAX);
}

bool OwnLink::ticks() const {
    return peer_.started() && !(node_->is_found && peer_.leaves() && link_.state() == proxy::LinkState::waiting);
}

uint64_t OwnLink::next_tick_ns() {
    const uint64_t next = ticks() ? link_.next_tick_ns() : UINT64_MAX;
    return std::min(next, postponed_.deadline_ns());
}

void OwnLink::tick(uint64_t now_ns) {
    if (ticks()) with_memory([&] { link_.tick(now_ns); });
    postponed_.fail(now_ns);
    peer_.touch();
}

void OwnLink::publish() {
    using State = LentLink::State;
    if (!peer_.leaves()) node_->lent[shared_.number].show(link_.up() ? State::up : starting_ ? State::starting : State::down);
}

PostponedRequests::List OwnLink::withdraw() noexcept {
    node_->lent[shared_.number].show(LentLink::State::starting);
    return postponed_.withdraw(/* all= */ node_->is_found && !is_connected(link_.state()));  // requests without a key stay
}

void OwnLink::follow(FenceState next) {
    postponed_.follow(next);
    peer_.touch();
}

void OwnLink::drop(proxy::LinkDown why) noexcept {
    link_.drop(why, shared_.now());
    peer_.touch();
}

void OwnLink::follow_moving(bool lost) {
    postponed_.follow_moving(lost);
    peer_.touch();
}

template <class Do>
bool OwnLink::with_memory(Do&& body) noexcept {
    try {
        body();
        return true;
    } catch (const std::bad_alloc&) {
        drop(proxy::LinkDown::no_memory);
        return false;
    }
}

// ---- callbacks --------------------------------------------------------------------------------------

void OwnLink::came_up() {
    starting_ = false;
    was_up_ = true;
    postponed_.retry();
    shared_.links_changed = true;
    shared_.nodes.came_up(*node_, link_.welcome(), shared_.number);
    if (node_->is_found) peer_.hold();
    if (shortcut_.taken) over_socket_.emplace(node_->socket);
    mapped_.map(reads_mapped_ ? link_.mapped_region() : nullptr);
    publish();
}

void OwnLink::went_down(proxy::LinkDown why, const std::string& text) noexcept {
    starting_ = false;
    postponed_.retry();
    over_socket_.reset();
    const uint64_t now_ns = shared_.now(), retry_ns = link_.next_tick_ns();
    const bool tries = retry_ns > now_ns && retry_ns != UINT64_MAX;
    const uint64_t retry_s = tries ? (retry_ns - now_ns + 999'999'999) / 1'000'000'000 : 0;
    shared_.nodes.went_down(*node_, {was_up_, why, text, link_.requests_lost(), retry_s});
    was_up_ = false;
    shared_.links_changed = true;
    publish();
}

void OwnLink::read_failed(std::string_view key, bool by_index, std::string_view why) {
    shared_.nodes.log().read_failed(*node_, key, by_index, why);
}

bool OwnLink::reads_from(uint64_t incarnation) const {
    if (!link_.up() || link_.welcome().incarnation != incarnation || postponed_.fence() != FenceState::in_use) return false;
    return !peer_.leaves() && !node_->drained.load(std::memory_order_relaxed);
}

proxy::Requests* OwnLink::find_node(uint64_t incarnation) {
    for (OwnLink* link : shared_.own_links) {
        if (!link->reads_from(incarnation)) continue;
        link->peer_.touch();
        return &link->link_.requests();
    }
    return nullptr;
}

void OwnLink::elsewhere_ended() noexcept { peer_.touch(); }

// ---- mapped memory ----------------------------------------------------------------------------------

proxy::LocalGet* OwnLink::mapped_memory(uint64_t hash, uint64_t session) {
    if (!mapped_.is_mapped() || postponed_.holds() || postponed_.fence() == FenceState::moving) return nullptr;
    return postponed_.any_of(session) ? nullptr : mapped_.to_read(hash, session);
}

// ---- requests ---------------------------------------------------------------------------------------

// Links, L1: without memory a request is unavailable. If it was sent all the same, its answer finds no ticket.
template <class Op>
SubmitResult OwnLink::ask(Op& op, proxy::AskOptions options, proxy::ReplySink& sink) {
    const auto fails = [&, ticket = options.ticket](proxy::AskFailure why) {
        sink.failed(ticket, {why, std::nullopt});
        return SubmitResult::later;
    };
    // A flush of another process would leave the items of the node's own one.
    const bool is_astray = std::is_same_v<Op, protocol::FlushOp> && peer_.fence().is_elsewhere();
    if (is_astray && !postponed_.holds()) return fails(proxy::AskFailure::node_down);
    try {
        constexpr bool has_key = requires { op.key; };
        if (!link_.up() || (postponed_.holds() && (has_key || is_astray))) {
            postponed_.wait_for_room();
        } else if (!postponed_.must_queue(options.session) && !(options.moved && postponed_.holds_moved())) {
            if constexpr (std::is_same_v<Op, protocol::StoreOp>)
                if (options.value == nullptr && link_.requests().value_follows(op)) options.value = own_value(op);
            const proxy::AskResult submitted = submit_to(link_.requests(), op, options, sink, shared_.now());
            peer_.touch();
            if (submitted == proxy::AskResult::accepted) return SubmitResult::later;
            if (submitted == proxy::AskResult::down) return fails(proxy::AskFailure::node_down);
            if (submitted == proxy::AskResult::busy) postponed_.wait_for_room();
        }
        postponed_.add(op, std::move(options), sink);
    } catch (const std::bad_alloc&) {
        return fails(proxy::AskFailure::no_memory);
    }
    peer_.touch();
    return SubmitResult::crowded;
}

template SubmitResult OwnLink::ask(protocol::GetOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult OwnLink::ask(protocol::StoreOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult OwnLink::ask(protocol::DeleteOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult OwnLink::ask(protocol::ArithOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult OwnLink::ask(protocol::ForgetOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult OwnLink::ask(protocol::FlushOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult OwnLink::ask(protocol::StatsOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult OwnLink::ask(protocol::HoldOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult OwnLink::ask(protocol::CopiesOp&, proxy::AskOptions, proxy::ReplySink&);

template <class Op>
bool OwnLink::ask_now(const Op& op, const proxy::AskOptions& options, proxy::ReplySink& sink) noexcept {
    try {
        if (link_.requests().ask(op, options, sink) != proxy::AskResult::accepted) return false;
    } catch (const std::bad_alloc&) {
        return false;
    }
    peer_.touch();
    return true;
}

template bool OwnLink::ask_now(const protocol::DeleteOp&, const proxy::AskOptions&, proxy::ReplySink&) noexcept;
template bool OwnLink::ask_now(const protocol::FlushOp&, const proxy::AskOptions&, proxy::ReplySink&) noexcept;

void OwnLink::flush() {
    const auto send = [&] { postponed_.send(reachable(), link_.up()); };
    const bool done = with_memory([&] {
        send();
        for (int n = 0; n < flushes_max && link_.flush(shared_.now()); n++) send();
    });
    if (!done) send();  // fails them
    descriptor_.want_write(link_.wants_write());
}

bool OwnLink::linger() {
    bool more = false;
    with_memory([&] { more = link_.linger(); });
    if (!more) return false;
    shared_.clock_is_old();
    with_memory([&] { link_.ready(shared_.now()); });
    peer_.touch();
    return true;
}

}  // namespace farcached::daemon
