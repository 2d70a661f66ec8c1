// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/link_peer.h"

#include <algorithm>
#include <bitset>
#include <cstring>

#include "base/check.h"
#include "base/node_clock.h"

namespace farcached::daemon {

namespace {

constexpr int flushes_max = 16;  // in a row, of a connection with ever more to do

// Copies a key, and a store's value, so that they outlive the call.
template <class Op>
void own_key(Op& op, std::string& bytes) {
    if constexpr (requires { op.key; }) {
        bytes = op.key.bytes;
        op.key.bytes = bytes;
    }
    if constexpr (requires { op.group; }) {
        bytes = op.group;
        op.group = bytes;
    }
    if constexpr (requires { op.prefix; }) {
        bytes = op.prefix;
        op.prefix = bytes;
    }
}

std::shared_ptr<const void> own_value(protocol::StoreOp& op) {
    if (op.value.empty()) return nullptr;
    std::shared_ptr<char[]> bytes(new char[op.value.size()]);
    std::memcpy(bytes.get(), op.value.data(), op.value.size());
    op.value = {bytes.get(), op.value.size()};
    return bytes;
}

template <class Op>
proxy::SubmitResult submit(proxy::Requests& to, const Op& op, const proxy::AskOptions& options, proxy::ReplySink& sink,
                           uint64_t now_ns) {
    if constexpr (std::is_same_v<Op, protocol::GetOp>)
        return to.get(op, options, sink, now_ns);
    else
        return to.ask(op, options, sink);
}

}  // namespace

LinkShared::LinkShared(Nodes& its_nodes, uint32_t worker, Waits& its_waits, ReplyPool& its_pool)
    : nodes(its_nodes), number(worker), waits(its_waits), pool(its_pool), landing(landing_bytes), lending(lending_bytes) {}

uint64_t LinkShared::now() {
    if (now_is_old_) {
        now_ns_ = boottime_ns();
        now_is_old_ = false;
        pool.answers_at(now_ns_);
    }
    return now_ns_;
}

// ---- postponed requests -----------------------------------------------------------------------------

template <class Op>
void PostponedRequests::add(const Op& op, proxy::AskOptions options, proxy::ReplySink& sink) {
    Postponed& added = list_.emplace_back(Postponed{op, std::string(), std::move(options), &sink});
    Op& kept = std::get<Op>(added.op);
    try {
        own_key(kept, added.bytes);
        if constexpr (std::is_same_v<Op, protocol::StoreOp>)
            if (added.options.value == nullptr) added.options.value = own_value(kept);
    } catch (const std::bad_alloc&) {
        list_.pop_back();
        throw;
    }
    waiting_[added.options.session % waiting_.size()]++;
}

void PostponedRequests::send() {
    std::bitset<std::tuple_size_v<decltype(waiting_)>> put_off;  // session numbers
    for_room_ = false;
    for (Place at = list_.begin(); at != list_.end();) {
        const size_t session = at->options.session % put_off.size();
        const proxy::SubmitResult submitted = put_off[session] ? proxy::SubmitResult::ordered : ask(*at);
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
    } catch (const std::bad_alloc&) {  // L1, as in LinkPeer::ask()
    }
    if (submitted == proxy::SubmitResult::accepted && shared_.pool.lists_slow())
        shared_.pool.asked_at(request.options.ticket, shared_.now());
    return submitted;
}

void PostponedRequests::fail(uint64_t before_ns) {
    const auto why = before_ns == UINT64_MAX ? proxy::AskFailure::node_down : proxy::AskFailure::timed_out;
    while (!empty() && deadline_ns() <= before_ns) {
        fail(list_.front(), why);
        erase(list_.begin());
    }
    if (empty()) for_room_ = false;
}

void PostponedRequests::fail(const Postponed& request, proxy::AskFailure why) {
    request.sink->failed(request.options.ticket, {why, std::nullopt});
}

PostponedRequests::Place PostponedRequests::erase(Place at) {
    waiting_[at->options.session % waiting_.size()]--;
    return list_.erase(at);
}

// ---- life -------------------------------------------------------------------------------------------

LinkPeer::LinkPeer(LinkShared& shared, std::shared_ptr<OneNode> node, const NodeOptions& options)
    : shared_(shared),
      node_(std::move(node)),
      reads_mapped_(options.local_read),
      memory_(fabric::RegionView()),
      readiness_(shared.waits.make_readiness([this] { ready(); })),
      link_(shared.nodes.link_config(*node_, options, shared.number),
            {shared.nodes.maker(node_, {{shared.landing.data(), shared.landing.size()},
                                        {shared.lending.data(), shared.lending.size()}},
                               options.rpc),
             boottime_ns, *this, shared.nodes.pointer_table(), &shared.landing, &shared.lending}),
      postponed_(shared, link_.requests()) {
    shared_.nodes.add(*node_, link_.counters(), memory_.counters());
}

LinkPeer::~LinkPeer() {
    map(nullptr);
    shared_.nodes.remove(node_, link_.counters(), was_up_);
}

void LinkPeer::start() {
    CHECK(!started_);
    started_ = true;
    with_memory([&] { link_.start(shared_.now()); });
    touch();
}

void LinkPeer::stop() {
    if (started_) link_.stop(shared_.now());
    postponed_.fail(UINT64_MAX);
}

uint64_t LinkPeer::next_tick_ns() {
    const uint64_t next = started_ ? std::min(link_.next_tick_ns(), leaves_by_ns_) : UINT64_MAX;
    return std::min(next, postponed_.deadline_ns());
}

void LinkPeer::tick(uint64_t now_ns) {
    if (started_) with_memory([&] { link_.tick(now_ns); });
    postponed_.fail(now_ns);
    touch();
}

void LinkPeer::touch() {
    if (is_touched_) return;
    is_touched_ = true;
    shared_.touched.push_back(this);
}

template <class Do>
bool LinkPeer::with_memory(Do&& body) noexcept {
    try {
        body();
        return true;
    } catch (const std::bad_alloc&) {
        link_.starve(shared_.now());
        return false;
    }
}

// ---- callbacks --------------------------------------------------------------------------------------

void LinkPeer::ready() {
    touch();
    with_memory([&] { link_.ready(shared_.now()); });
}

void LinkPeer::watch(int fd) {
    watched_fd_ = fd;
    listen(/* writable= */ false);
}

void LinkPeer::unwatch(int) {
    readiness_->stop();
    watched_fd_ = -1;
    is_listening_ = false;
}

void LinkPeer::listen(bool writable) {
    if (is_listening_ && listens_to_write_ == writable) return;
    is_listening_ = true;
    listens_to_write_ = writable;
    readiness_->await(watched_fd_, writable);
}

void LinkPeer::came_up() {
    starting_ = false;
    was_up_ = true;
    retry_ = true;
    shared_.nodes.came_up(*node_, link_.welcome());
    map(reads_mapped_ ? link_.mapped_region() : nullptr);
    if (mapped_ != nullptr) memory_.aim(*mapped_);
}

void LinkPeer::went_down(proxy::LinkDown why, const std::string& text) noexcept {
    starting_ = false;
    retry_ = true;
    map(nullptr);
    const uint64_t now_ns = shared_.now(), retry_ns = link_.next_tick_ns();
    const bool tries = retry_ns > now_ns && retry_ns != UINT64_MAX;
    const uint64_t retry_s = tries ? (retry_ns - now_ns + 999'999'999) / 1'000'000'000 : 0;
    shared_.nodes.went_down(*node_, {was_up_, why, text, link_.requests_lost(), retry_s});
    was_up_ = false;
}

void LinkPeer::read_failed(std::string_view key, bool by_index, std::string_view why) {
    shared_.nodes.read_failed(*node_, key, by_index, why);
}

void LinkPeer::map(const fabric::RegionView* region) {
    shared_.mapped += uint32_t(region != nullptr) - uint32_t(mapped_ != nullptr);
    mapped_ = region;
}

// ---- mapped memory ----------------------------------------------------------------------------------

proxy::LocalGet* LinkPeer::mapped_memory(uint64_t hash, uint64_t session) {
    if (mapped_ == nullptr || postponed_.any_of(session) || !link_.requests().read_in_order(hash, session)) return nullptr;
    return &memory_;
}

void LinkPeer::note_access(uint64_t hash, const fabric::Found& found) {
    const uint64_t arena_offset = uint64_t(reinterpret_cast<const char*>(mapped_->arena) - mapped_->base);
    if (link_.note_access(hash, found.guard.generation(), arena_offset + found.slot.offset(), 0)) touch();
}

// ---- requests ---------------------------------------------------------------------------------------

// Links, L1: without memory a request is unavailable. If it was sent all the same, its answer finds no ticket.
template <class Op>
SubmitResult LinkPeer::ask(Op& op, proxy::AskOptions options, proxy::ReplySink& sink) {
    const auto fails = [&, ticket = options.ticket](proxy::AskFailure why) {
        sink.failed(ticket, {why, std::nullopt});
        return SubmitResult::later;
    };
    try {
        if (!link_.up()) {
            postponed_.wait_for_room();
        } else if (!postponed_.must_queue(options.session)) {
            if constexpr (std::is_same_v<Op, protocol::StoreOp>)
                if (link_.requests().value_follows(op)) options.value = own_value(op);
            const proxy::SubmitResult submitted = submit(link_.requests(), op, options, sink, shared_.now());
            touch();
            if (submitted == proxy::SubmitResult::accepted) return SubmitResult::later;
            if (submitted == proxy::SubmitResult::down) return fails(proxy::AskFailure::node_down);
            if (submitted == proxy::SubmitResult::busy) postponed_.wait_for_room();
        }
        postponed_.add(op, std::move(options), sink);
    } catch (const std::bad_alloc&) {
        return fails(proxy::AskFailure::no_memory);
    }
    touch();
    return SubmitResult::crowded;
}

template SubmitResult LinkPeer::ask(protocol::GetOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult LinkPeer::ask(protocol::StoreOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult LinkPeer::ask(protocol::DeleteOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult LinkPeer::ask(protocol::ArithOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult LinkPeer::ask(protocol::ForgetOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult LinkPeer::ask(protocol::FlushOp&, proxy::AskOptions, proxy::ReplySink&);
template SubmitResult LinkPeer::ask(protocol::StatsOp&, proxy::AskOptions, proxy::ReplySink&);

void LinkPeer::ask_postponed() {
    if (!retry_) return;
    retry_ = false;
    if (!reachable()) return postponed_.fail(UINT64_MAX);
    postponed_.send();
}

void LinkPeer::flush() {
    const bool done = with_memory([&] {
        ask_postponed();
        for (int n = 0; n < flushes_max && link_.flush(shared_.now()); n++) ask_postponed();
    });
    if (!done) ask_postponed();  // fails them
    if (watched_fd_ >= 0) listen(link_.wants_write());
    is_touched_ = false;
}

bool LinkPeer::linger() {
    bool more = false;
    with_memory([&] { more = link_.linger(); });
    if (!more) return false;
    shared_.clock_is_old();
    with_memory([&] { link_.ready(shared_.now()); });
    touch();
    return true;
}

}  // namespace farcached::daemon
