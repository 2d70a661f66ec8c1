// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/postponed_requests.h"

#include <bitset>
#include <iterator>
#include <new>
#include <optional>
#include <tuple>
#include <variant>

namespace farcached::daemon {

void PostponedRequests::send(bool reachable, bool up) {
    if (!retry_) return;
    retry_ = false;
    if (!reachable) return fail(UINT64_MAX);
    if (up && !holds()) send_all();
}

void PostponedRequests::send_all() {
    std::bitset<std::tuple_size_v<decltype(waiting_)>> put_off;  // session numbers
    for_room_ = false;
    for (Place at = list_.begin(); at != list_.end();) {
        const size_t session = at->options.session % put_off.size();
        const bool waits = put_off[session] || (at->options.moved && holds_moved());
        const proxy::AskResult submitted = waits ? proxy::AskResult::ordered : ask(*at);
        if (submitted == proxy::AskResult::busy) return wait_for_room();
        if (submitted == proxy::AskResult::ordered) {
            put_off.set(session);
            ++at;
            continue;
        }
        if (submitted == proxy::AskResult::down) fail(*at, proxy::AskFailure::node_down);
        at = erase(at);
    }
}

proxy::AskResult PostponedRequests::ask(const Postponed& request) {
    proxy::AskResult submitted = proxy::AskResult::down;
    try {
        submitted = std::visit(
            [&](const auto& op) { return submit_to(requests_, op, request.options, *request.sink, shared_.now()); }, request.op);
    } catch (const std::bad_alloc&) {  // L1, as in OwnLink::ask()
    }
    const bool is_own = !Courier::is_kept(request.options.ticket);
    if (submitted == proxy::AskResult::accepted && is_own && shared_.pool.lists_slow())
        shared_.pool.asked_at(request.options.ticket, shared_.now());
    return submitted;
}

void PostponedRequests::follow(FenceState next) {
    fence_ = next;
    if (next == FenceState::leaving || next == FenceState::out) fail(UINT64_MAX);
    retry();
}

void PostponedRequests::follow_moving(bool lost) {
    if (lost) fail_moved(UINT64_MAX, proxy::AskFailure::node_down);
    retry();
}

PostponedRequests::List PostponedRequests::withdraw(bool all) noexcept {
    List taken = take(all || holds());
    fence_ = FenceState::in_use;
    retry();
    return taken;
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

}  // namespace farcached::daemon
