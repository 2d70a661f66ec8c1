// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/own_link.h"

#include <algorithm>
#include <bitset>
#include <new>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/node_clock.h"
#include "daemon/engine/link_peer.h"

namespace farcached::daemon {

namespace {

constexpr int flushes_max = 16;  // in a row, of a connection with ever more to do

template <class Op>
proxy::SubmitResult submit(proxy::Requests& to, const Op& op, const proxy::AskOptions& options, proxy::ReplySink& sink,
                           uint64_t now_ns) {
    if constexpr (std::is_same_v<Op, protocol::GetOp>)
        return to.get(op, options, sink, now_ns);
    else
        return to.ask(op, options, sink);
}

}  // namespace

// ---- postponed requests -----------------------------------------------------------------------------

template <class Op>
void PostponedRequests::add(const Op& op, proxy::AskOptions options, proxy::ReplySink& sink) {
    const Postponed& added = list_.emplace_back(op, std::move(options), sink);
    waiting_[added.options.session % waiting_.size()]++;
    if (added.options.moved) moved_deadline_ns_ = std::min(moved_deadline_ns_, added.options.deadline_ns);
}

void PostponedRequests::send(bool holds_moved) {
    std::bitset<std::tuple_size_v<decltype(waiting_)>> put_off;  // session numbers
    for_room_ = false;
    for (Place at = list_.begin(); at != list_.end();) {
        const size_t session = at->options.session % put_off.size();
        const bool waits = put_off[session] || (holds_moved && at->options.moved);
        const proxy::SubmitResult submitted = waits ? proxy::SubmitResult::ordered : ask(*at);
        if (submitted == proxy::SubmitResult::busy) return wait_for_room();
        if (submitted == proxy::SubmitResult::ordered) {
            put_off.set(session);
            ++at;
            continue;
        }
        if (submitted == proxy::SubmitResult::down) fail(*at, proxy::AskFailure::node_down);
        at = erase(at);
    }
}

proxy::SubmitResult PostponedRequests::ask(const Postponed& request) {
    proxy::SubmitResult submitted = proxy::SubmitResult::down;
    try {
        submitted = std::visit(
            [&](const auto& op) { return submit(requests_, op, request.options, *request.sink, shared_.now()); }, request.op);
    } catch (const std::bad_alloc&) {  // L1, as in OwnLink::ask()
    }
    const bool is_own = !Courier::is_kept(request.options.ticket);
    if (submitted == proxy::SubmitResult::accepted && is_own && shared_.pool.lists_slow())
        shared_.pool.asked_at(request.options.ticket, shared_.now());
    return submitted;
}

PostponedRequests::List PostponedRequests::take(bool all) noexcept {
    List taken;
    std::bitset<std::tuple_size_v<decltype(waiting_)>> goes;  // session numbers
    for (Place at = list_.begin(); at != list_.end();) {
        const size_t session = at->options.session % goes.size();
        const bool has_key = std::visit([](const auto& op) { return requires { op.key; }; }, at->op);
        if (!has_key || !(all || at->options.moved || goes[session])) {
            ++at;
            continue;
        }
        goes.set(session);
        at = move_to(taken, at);
    }
    moved_deadline_ns_ = UINT64_MAX;
    if (empty()) for_room_ = false;
    return taken;
}

void PostponedRequests::fail(uint64_t before_ns) {
    const auto why = before_ns == UINT64_MAX ? proxy::AskFailure::node_down : proxy::AskFailure::timed_out;
    while (!empty() && deadline_of(list_.front()) <= before_ns) {
        fail(list_.front(), why);
        erase(list_.begin());
    }
    if (moved_deadline_ns_ <= before_ns) fail_moved(before_ns, why);
    if (empty()) for_room_ = false;
}

void PostponedRequests::fail_moved(uint64_t before_ns, proxy::AskFailure why) {
    moved_deadline_ns_ = UINT64_MAX;
    for (Place at = list_.begin(); at != list_.end();) {
        const Place next = std::next(at);
        if (at->options.moved && at->options.deadline_ns <= before_ns) {
            fail(*at, why);
            erase(at);
        } else if (at->options.moved) {
            moved_deadline_ns_ = std::min(moved_deadline_ns_, at->options.deadline_ns);
        }
        at = next;
    }
    if (empty()) for_room_ = false;
}

void PostponedRequests::fail(const Postponed& request, proxy::AskFailure why) {
    request.sink->failed(request.options.ticket, {why, std::nullopt});
}

PostponedRequests::Place PostponedRequests::erase(Place at) {
    List erased;
    return move_to(erased, at);
}

PostponedRequests::Place PostponedRequests::move_to(List& other, Place at) noexcept {
    waiting_[at->options.session % waiting_.size()]--;
    const Place next = std::next(at);
    other.splice(other.end(), list_, at);
    return next;
}

// ---- life -------------------------------------------------------------------------------------------

OwnLink::OwnLink(LinkShared& shared, LinkPeer& peer, const NodeOptions& options)
    : shared_(shared),
      peer_(peer),
      node_(peer.shared_node()),
      reads_mapped_(options.local_read),
      quiet_ns_(options.timeout_ns / 4),
      memory_(fabric::RegionView()),
      readiness_(shared.waits.make_readiness([this] { ready(); })),
      link_(shared.nodes.link_config(*node_, options, shared.number),
            {shared.nodes.maker(node_, {{shared.landing.data(), shared.landing.size()},
                                        {shared.lending.data(), shared.lending.size()}},
                               options.rpc, &shortcut_),
             boottime_ns, *this, shared.nodes.pointer_table(), &shared.landing, &shared.lending, &shortcut_}),
      postponed_(shared, link_.requests()) {
    shared_.own_links.reserve(shared_.own_links.size() + 1);
    shared_.nodes.add(*node_, link_.counters(), memory_.counters());
    shared_.own_links.push_back(this);
}

OwnLink::~OwnLink() {
    map(nullptr);
    leave_shortcut();
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

uint64_t OwnLink::next_tick_ns() {
    const uint64_t next = peer_.started() ? link_.next_tick_ns() : UINT64_MAX;
    return std::min(next, postponed_.deadline_ns());
}

void OwnLink::tick(uint64_t now_ns) {
    if (peer_.started()) with_memory([&] { link_.tick(now_ns); });
    postponed_.fail(now_ns);
    peer_.touch();
}

void OwnLink::publish() {
    using State = LentLink::State;
    if (!peer_.leaves()) show(link_.up() ? State::up : starting_ ? State::starting : State::down);
}

PostponedRequests::List OwnLink::withdraw() noexcept {
    show(LentLink::State::starting);
    PostponedRequests::List taken = postponed_.take(/* all= */ holds());
    fence_ = FenceState::in_use;
    retry_ = true;  // requests without a key stay
    return taken;
}

void OwnLink::follow(FenceState next) {
    fence_ = next;
    if (next == FenceState::leaving || next == FenceState::out) postponed_.fail(UINT64_MAX);
    retry_ = true;
    peer_.touch();
}

void OwnLink::follow_moving(bool lost) {
    if (lost) postponed_.fail_moved();
    retry_ = true;
    peer_.touch();
}

template <class Do>
bool OwnLink::with_memory(Do&& body) noexcept {
    try {
        body();
        return true;
    } catch (const std::bad_alloc&) {
        link_.starve(shared_.now());
        return false;
    }
}

// ---- callbacks --------------------------------------------------------------------------------------

void OwnLink::ready() {
    peer_.touch();
    with_memory([&] { link_.ready(shared_.now()); });
}

void OwnLink::watch(int fd) {
    watched_fd_ = fd;
    listen(/* writable= */ false);
}

void OwnLink::unwatch(int) {
    readiness_->stop();
    watched_fd_ = -1;
    is_listening_ = false;
}

void OwnLink::listen(bool writable) {
    if (is_listening_ && listens_to_write_ == writable) return;
    is_listening_ = true;
    listens_to_write_ = writable;
    readiness_->await(watched_fd_, writable);
}

void OwnLink::came_up() {
    starting_ = false;
    was_up_ = true;
    retry_ = true;
    shared_.links_changed = true;
    shared_.nodes.came_up(*node_, link_.welcome());
    over_shortcut_ = shortcut_.taken;
    if (over_shortcut_) shared_.nodes.shortcut_up(*node_);
    map(reads_mapped_ ? link_.mapped_region() : nullptr);
    if (mapped_ != nullptr) memory_.aim(*mapped_);
    publish();
}

void OwnLink::went_down(proxy::LinkDown why, const std::string& text) noexcept {
    starting_ = false;
    retry_ = true;
    map(nullptr);
    leave_shortcut();
    const uint64_t now_ns = shared_.now(), retry_ns = link_.next_tick_ns();
    const bool tries = retry_ns > now_ns && retry_ns != UINT64_MAX;
    const uint64_t retry_s = tries ? (retry_ns - now_ns + 999'999'999) / 1'000'000'000 : 0;
    shared_.nodes.went_down(*node_, {was_up_, why, text, link_.requests_lost(), retry_s});
    was_up_ = false;
    shared_.links_changed = true;
    publish();
}

void OwnLink::read_failed(std::string_view key, bool by_index, std::string_view why) {
    shared_.nodes.read_failed(*node_, key, by_index, why);
}

bool OwnLink::reads_from(uint64_t incarnation) const {
    if (!link_.up() || link_.welcome().incarnation != incarnation || fence_ != FenceState::in_use) return false;
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

void OwnLink::map(const fabric::RegionView* region) {
    shared_.mapped += uint32_t(region != nullptr) - uint32_t(mapped_ != nullptr);
    mapped_ = region;
}

void OwnLink::leave_shortcut() {
    if (std::exchange(over_shortcut_, false)) node_->links_shm.fetch_sub(1, std::memory_order_relaxed);
}

// ---- mapped memory ----------------------------------------------------------------------------------

proxy::LocalGet* OwnLink::mapped_memory(uint64_t hash, uint64_t session) {
    if (mapped_ == nullptr || holds() || fence_ == FenceState::moving || postponed_.any_of(session)) return nullptr;
    if (!link_.requests().read_in_order(hash, session)) return nullptr;
    if (link_.clock().may_read(shared_.now())) return &memory_;
    link_.count_right_over();
    return nullptr;
}

// Judged by a clock reading from after the copy.
bool OwnLink::has_right() {
    if (!link_.clock().right_ends() || broken::s17_skip_later_look || link_.clock().may_read(boottime_ns())) return true;
    link_.count_right_over();
    return false;
}

void OwnLink::note_access(uint64_t hash, const fabric::Found& found) {
    const uint64_t arena_offset = uint64_t(reinterpret_cast<const char*>(mapped_->arena) - mapped_->base);
    if (link_.note_access(hash, found.guard.generation(), arena_offset + found.slot.offset(), 0)) peer_.touch();
}

// ---- requests ---------------------------------------------------------------------------------------

// Links, L1: without memory a request is unavailable. If it was sent all the same, its answer finds no ticket.
template <class Op>
SubmitResult OwnLink::ask(Op& op, proxy::AskOptions options, proxy::ReplySink& sink) {
    const auto fails = [&, ticket = options.ticket](proxy::AskFailure why) {
        sink.failed(ticket, {why, std::nullopt});
        return SubmitResult::later;
    };
    try {
        constexpr bool has_key = requires { op.key; };
        if (!link_.up() || (holds() && has_key)) {
            postponed_.wait_for_room();
        } else if (!postponed_.must_queue(options.session) && !(options.moved && holds_moved())) {
            if constexpr (std::is_same_v<Op, protocol::StoreOp>)
                if (options.value == nullptr && link_.requests().value_follows(op)) options.value = own_value(op);
            const proxy::SubmitResult submitted = submit(link_.requests(), op, options, sink, shared_.now());
            peer_.touch();
            if (submitted == proxy::SubmitResult::accepted) return SubmitResult::later;
            if (submitted == proxy::SubmitResult::down) return fails(proxy::AskFailure::node_down);
            if (submitted == proxy::SubmitResult::busy) postponed_.wait_for_room();
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
        if (link_.requests().ask(op, options, sink) != proxy::SubmitResult::accepted) return false;
    } catch (const std::bad_alloc&) {
        return false;
    }
    peer_.touch();
    return true;
}

template bool OwnLink::ask_now(const protocol::DeleteOp&, const proxy::AskOptions&, proxy::ReplySink&) noexcept;
template bool OwnLink::ask_now(const protocol::FlushOp&, const proxy::AskOptions&, proxy::ReplySink&) noexcept;

void OwnLink::ask_postponed() {
    if (!retry_) return;
    retry_ = false;
    if (!reachable()) return postponed_.fail(UINT64_MAX);
    if (!holds() && link_.up()) postponed_.send(holds_moved());
}

void OwnLink::flush() {
    const bool done = with_memory([&] {
        ask_postponed();
        for (int n = 0; n < flushes_max && link_.flush(shared_.now()); n++) ask_postponed();
    });
    if (!done) ask_postponed();  // fails them
    if (watched_fd_ >= 0) listen(link_.wants_write());
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
