// SPDX-License-Identifier: BSD-3-Clause
// NodeService: greeting, frames, endings, back-pressure. service_ops.cc executes requests; service_reports.cc handles accesses
// that the node did not see.
#include "node/service.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "base/check.h"
#include "protocol/layout.h"

namespace farcached::node {

using protocol::Frame;
using protocol::FrameError;
using protocol::FrameKind;
using protocol::FrameParse;
using protocol::Goodbye;
using protocol::Refusal;
using protocol::RequestRefusal;

namespace {

constexpr int rounds_per_turn_max = 8;  // of sending and continuing, before other connections run

}  // namespace

protocol::Welcome welcome_facts(const Node& node, const NodeFacts& facts, protocol::RegionAccess access) {
    const Config& config = node.config();
    const layout::RegionHeader& header = *node.view().header;
    protocol::Welcome welcome;
    welcome.name = facts.name;
    welcome.incarnation = header.incarnation;
    // A proxy without read access probes no index, keeps no pointers and verifies no check. It still hashes keys.
    const bool reads = access != protocol::RegionAccess::none;
    welcome.hash_seed = reads ? header.hash_seed : node.seed_of_peers();
    if (reads) welcome.check_secret = node.check_secret();
    welcome.started_unix = facts.started_unix;
    welcome.item_bytes_max = config.item_bytes_max;
    welcome.frame_bytes_max = facts.frame_bytes_max;
    welcome.credits = facts.credits;
    if (config.lease.enabled) {
        const LeaseConfig lease = node.lease_config();
        const LeaseTerms terms(config.policy, lease);
        welcome.term_ms_min = std::min(lease_term_ms_min, terms.shortest_ms());
        welcome.term_ms_max = terms.longest_ms();
        welcome.grace_ms = lease.grace_ms;
    }
    welcome.regions = {{0, header.region_bytes, access}};
    return welcome;
}

NodeService::NodeService(ServiceShared& shared, ServiceCounters& counters, OustedWaker* waker)
    : shared_(shared), counters_(counters), waker_(waker), account_(shared.budget, *this), seat_(shared.seats, *this) {}

NodeService::~NodeService() {
    for (const auto& [token, fetch] : fetches_) shared_.fetches->give_back(fetch.landing);
    if (channel_ != nullptr) counters_.connections_over.add(1);
}

void NodeService::arrive(const std::string& source) {
    entered_ = true;
    seat_.enter(source);
}

void NodeService::attach(fabric::Channel& channel, protocol::RegionAccess access) {
    CHECK(channel_ == nullptr);
    if (!entered_) arrive(channel.source());
    channel_ = &channel;
    access_ = access;
    counters_.connections_opened.add(1);
}

// ---- steps ------------------------------------------------------------------------------------------

void NodeService::turn() {
    CHECK(channel_ != nullptr);
    if (state_ == State::over) return;
    if (is_ousted()) {
        end_ousted();
        return advance();
    }
    channel_->ready();
    for (int round = 0; round < rounds_per_turn_max; round++) {
        if (state_ == State::over) return;
        while (may_go_on_sending() && send_piece()) {
        }
        walk();
        channel_->flush();
        if (!turn_wanted()) break;
        // Not in the last round: the replies it adds need a flush.
        if (stalled_ && round + 1 < rounds_per_turn_max) channel_->ready();
    }
    hold(unsent_, channel_->out_pending(), channel_->bytes_sent() - sent_before_);
    sent_before_ = channel_->bytes_sent();
    if (is_ousted()) end_ousted();
    advance();
}

bool NodeService::turn_wanted() const {
    if (state_ == State::closing || state_ == State::over) return false;
    if (channel_->out_pending() >= out_mark()) return false;
    return stalled_ || !outgoing_.empty() || !walks_.empty();
}

bool NodeService::may_go_on() const {
    const ServiceLimits& limits = shared_.limits;
    const uint64_t most = shared_.budget.tight() ? std::min(limits.outgoing_bytes_max, limits.outgoing_bytes_max_tight)
                                                 : limits.outgoing_bytes_max;
    return may_go_on_sending() && outgoing_bytes_ < most;
}

bool NodeService::may_go_on_sending() const {
    return channel_->out_pending() < out_mark();
}

// Completes an ending. Does not wait until a misbehaving proxy reads the last bytes.
void NodeService::advance() {
    if (state_ == State::leaving && quiet()) end_with(ServiceEnd::peer_goodbye, "the proxy closed the connection cleanly");
    if (state_ != State::closing) return;
    channel_->flush();
    state_ = State::over;
}

bool NodeService::quiet() const {
    if (stalled_ || halted_.requests != 0) return false;
    return in_flight_.empty() && channel_->out_pending() == 0;
}

void NodeService::stop(Goodbye why) {
    if (stopping_ || state_ == State::closing || state_ == State::over) return;
    stopping_ = why;
    if (state_ != State::open) return;
    protocol::append_goodbye(channel_->out(), why, protocol::goodbye_text(why));
    channel_->flush();
}

void NodeService::give_up() {
    if (state_ == State::over) return;
    if (state_ != State::closing) end_with(ServiceEnd::stopped, "the node stops");
    advance();
}

void NodeService::starve() noexcept {
    if (state_ != State::closing && state_ != State::over) end_with(ServiceEnd::no_memory, {});
    state_ = State::over;
}

void NodeService::greeting_is_due() {
    if (state_ != State::greeting) return;
    end_with(ServiceEnd::no_greeting, "no greeting in " + std::to_string(shared_.limits.greeting_ms) + " ms");
    state_ = State::over;
}

uint32_t NodeService::silence_is_due() {
    if (state_ != State::open && state_ != State::leaving) return 0;
    const uint32_t silent_s = seconds_since(seat_.last_used(), shared_.clock().seconds);
    const uint32_t silence_s = shared_.limits.silence_s;
    if (silent_s < silence_s) return (silence_s - silent_s) * 1000;
    protocol::append_goodbye(channel_->out(), Goodbye::idle, protocol::goodbye_text(Goodbye::idle));
    end_with(ServiceEnd::silent, "nothing came for " + std::to_string(silent_s) + " s");
    advance();
    return 0;
}

// ---- ousting ---------------------------------------------------------------------------------------------

void NodeService::oust(ServiceEnd why) {
    ServiceEnd none = ServiceEnd::count;
    if (!ousted_.compare_exchange_strong(none, why, std::memory_order_relaxed)) return;
    if (waker_ != nullptr) waker_->wake_for_ousted();
}

// The goodbye is sent at the end of the step.
void NodeService::end_ousted() {
    if (state_ == State::closing || state_ == State::over) return;
    const ServiceEnd why = ousted_.load(std::memory_order_relaxed);
    if (state_ == State::open || state_ == State::leaving) {
        const Goodbye said = why == ServiceEnd::over_budget ? Goodbye::no_memory : Goodbye::idle;
        protocol::append_goodbye(channel_->out(), said, service_end_help(why));
    }
    end_with(why, std::string(service_end_help(why)));
}

// `moved`: bytes through the stream since the last call. The time restarts when as many bytes have moved as are held.
void NodeService::hold(Held& held, uint64_t bytes, uint64_t moved) {
    if (bytes <= shared_.limits.free_bytes) bytes = 0;
    if (bytes == 0 && held.bytes == 0) return;
    held.moved += moved;
    if (held.moved >= held.bytes) {
        account_.give_back(held.bytes, held.since_ms);
        held = {0, now_ms(), 0};
    }
    if (bytes < held.bytes) {
        account_.give_back(held.bytes - bytes, held.since_ms);
        held.bytes = bytes;
    }
    if (bytes == held.bytes || state_ == State::closing || state_ == State::over) return;
    if (account_.take(bytes - held.bytes, held.since_ms, now_ms(), PeerBudget::For::frame)) held.bytes = bytes;
}

size_t NodeService::out_mark() const {
    const ServiceLimits& limits = shared_.limits;
    return shared_.budget.tight() ? std::min(limits.out_bytes_mark, limits.out_bytes_mark_tight) : limits.out_bytes_mark;
}

// Later events do not change the first ending.
void NodeService::end_with(ServiceEnd why, std::string text) {
    CHECK(state_ != State::closing);
    CHECK(state_ != State::over);
    state_ = State::closing;
    end_ = why;
    end_text_ = std::move(text);
    counters_.ends[size_t(why)].add(1);
    stalled_ = false;
    for (const Outgoing& one : outgoing_) account_.give_back(one.size, one.since_ms);
    outgoing_.clear();
    for (auto& [address, one] : incoming_) uncharge(one);
    incoming_.clear();
    walks_.clear();
}

void NodeService::bad(FrameError error) {
    counters_.frame_errors[size_t(error)].add(1);
    // Before the greeting, no common protocol version exists.
    if (state_ != State::greeting)
        protocol::append_goodbye(channel_->out(), Goodbye::protocol_error,
                                 protocol::frame_error_help(error));
    end_with(ServiceEnd::bad_frame, std::string(protocol::frame_error_help(error)));
}

void NodeService::ended(fabric::ChannelEnd why, const std::string& text) {
    counters_.channel_ends[size_t(why)].add(1);
    if (state_ == State::leaving) {
        end_with(ServiceEnd::peer_goodbye, text);
    } else if (state_ == State::greeting || state_ == State::open) {
        end_with(stopping_ ? ServiceEnd::stopped : ServiceEnd::transport, text);
    }
    state_ = State::over;
}

// ---- frames -----------------------------------------------------------------------------------------

size_t NodeService::received(std::string_view bytes) {
    const size_t used = consume(bytes);
    // The buffer of held bytes is at most twice as large (fabric/stream_buffers.h).
    hold(unconsumed_, 2 * (bytes.size() - used), 2 * used);
    return used;
}

size_t NodeService::consume(std::string_view bytes) {
    size_t used = 0;
    stalled_ = false;
    while (state_ != State::closing && state_ != State::over) {
        if (!may_go_on()) {
            stalled_ = used < bytes.size();
            break;
        }
        const FrameParse parse = protocol::parse_frame(bytes.substr(used), limits_);
        if (parse.status == FrameParse::Status::need_more) return used;
        if (parse.status == FrameParse::Status::bad) {
            bad(parse.error);
            break;
        }
        take(parse.frame);
        if (halted_.requests != 0) {
            stalled_ = true;
            break;
        }
        used += parse.bytes;
        if (may_go_on_sending()) send_piece();
    }
    if (stalled_) counters_.stalls.add(1);
    return state_ == State::closing || state_ == State::over ? bytes.size() : used;
}

void NodeService::take(const Frame& frame) {
    NodeReading now;
    const bool greets = frame.kind == FrameKind::hello;
    if (!greets && frame.kind != FrameKind::requests) seat_.used(shared_.clock().seconds);  // requests() calls it too
    switch (frame.kind) {
        case FrameKind::hello:
            return hello(frame);
        case FrameKind::requests:
            return requests(frame);
        case FrameKind::chunk:
            return chunk(frame);
        case FrameKind::ping:
            counters_.pings.add(1);
            return protocol::append_pong(channel_->out(), frame.sequence, told(shared_.clock()));
        case FrameKind::pong:
            if (FrameError error = protocol::parse_pong(frame, limits_, now); error != FrameError::none) bad(error);
            return;
        case FrameKind::goodbye:
            return goodbye(frame);
        case FrameKind::lease_returns:
            return lease_returns(frame);
        case FrameKind::accesses:
            return accesses(frame);
        case FrameKind::report:
            return report(frame);
        case FrameKind::lent:
            return lent(frame);
        case FrameKind::welcome:
        case FrameKind::refuse:
        case FrameKind::replies:
        case FrameKind::unlent:
        case FrameKind::reported:
            break;
    }
    CHECK(!"parse_frame lets no such frame of a proxy pass");
}

void NodeService::hello(const Frame& frame) {
    protocol::Hello hello;
    if (FrameError error = protocol::parse_hello(frame, hello); error != FrameError::none)
        return bad(error);
    peer_ = hello.name;
    if (!hello.host.empty()) peer_ += "@" + hello.host + ":" + std::to_string(hello.pid);
    auto refuse = [&](const protocol::Refuse& why) {
        counters_.refusals[size_t(why.reason)].add(1);
        protocol::append_refuse(channel_->out(), why);
        end_with(ServiceEnd::refused, why.text);
    };
    const NodeFacts& facts = shared_.facts;
    auto answer = protocol::check(hello, welcome_facts(shared_.node, facts, access_));
    if (const auto* why = std::get_if<protocol::Refuse>(&answer)) return refuse(*why);
    if (stopping_) return refuse({Refusal::stopping, "node " + facts.name + " stops"});
    if (!seat_.sit(shared_.clock().seconds, facts.connections_max)) {
        return refuse({Refusal::full, "node " + facts.name + " has the " +
                                          std::to_string(facts.connections_max) +
                                          " connections that it may have"});
    }
    protocol::Welcome& welcome = std::get<protocol::Welcome>(answer);
    welcome.now = shared_.clock();
    if (!protocol::reads_one_sided(welcome.version)) {
        access_ = protocol::RegionAccess::none;
        welcome.hash_seed = shared_.node.seed_of_peers();
        two_sided_ = true;
        counters_.connections_two_sided.add(1);
    }
    protocol::append_welcome(channel_->out(), welcome);
    limits_ = protocol::agreed_limits(welcome, protocol::Sender::proxy);
    credits_ = welcome.credits;
    quota_ = shared_.report_quotas.of(peer_, report_share_of(shared_.node, shared_.limits.report_share), welcome.now.seconds);
    term_ms_max_ = welcome.term_ms_max;
    counters_.connections_welcomed.add(1);
    state_ = State::open;
}

void NodeService::goodbye(const Frame& frame) {
    protocol::GoodbyeFrame said;
    if (FrameError error = protocol::parse_goodbye(frame, said); error != FrameError::none)
        return bad(error);
    if (state_ == State::leaving) return bad(FrameError::kind_unexpected);
    state_ = State::leaving;
}

void NodeService::lease_returns(const Frame& frame) {
    for (uint32_t i = 0; i < frame.count; i++) {
        protocol::LeaseReturnRecord entry;
        if (FrameError error = protocol::lease_return_at(frame, i, entry); error != FrameError::none)
            return bad(error);
        counters_.lease_returns.add(1);
    }
}

// ---- values in pieces ---------------------------------------------------------------------------------

void NodeService::chunk(const Frame& frame) {
    protocol::Chunk piece;
    FrameError error = protocol::parse_chunk(frame, piece);
    if (error != FrameError::none) return bad(error);
    const Address address(frame.sequence, piece.tag);
    auto found = incoming_.find(address);
    if (found == incoming_.end()) return bad(FrameError::chunk_stranger);
    Incoming& incoming = found->second;
    error = incoming.fetching ? FrameError::chunk_order : incoming.progress.accept(piece);
    if (error != FrameError::none) return bad(error);
    if (!piece.abandoned && incoming.admitted) {
        if (incoming.value == nullptr) incoming.value = take_memory(incoming.progress.total);
        const uint64_t size = piece.bytes.size();
        if (incoming.value == nullptr || !account_.take(size, incoming.since_ms, now_ms(), PeerBudget::For::value))
            drop_value(incoming);
        else
            incoming.charged += size;
    }
    if (!piece.abandoned && incoming.admitted)
        std::memcpy(incoming.value.get() + piece.offset, piece.bytes.data(), piece.bytes.size());
    if (piece.abandoned || incoming.progress.whole())
        value_over(found, piece.abandoned, {incoming.value.get(), incoming.value ? incoming.progress.total : 0});
}

// No room for the value: its pieces are discarded, and it is refused at the end.
void NodeService::drop_value(Incoming& incoming) {
    if (incoming.value != nullptr) counters_.values_over_budget.add(1);
    account_.give_back(incoming.charged, incoming.since_ms);
    incoming.charged = 0;
    incoming.value.reset();
    incoming.admitted = false;
    incoming_bytes_ -= incoming.progress.total;
}

// ---- values that the proxy lends ----------------------------------------------------------------------

void NodeService::lent(const Frame& frame) {
    protocol::LentRecord record;
    const FrameError error = protocol::parse_lent(frame, record);
    if (error != FrameError::none) return bad(error);
    const auto found = incoming_.find({frame.sequence, record.tag});
    if (found == incoming_.end()) return bad(FrameError::chunk_stranger);
    const Incoming& incoming = found->second;
    if (incoming.fetching || incoming.progress.received != 0) return bad(FrameError::chunk_order);
    if (!incoming.admitted) return value_over(found, /* abandoned= */ false, {});
    if (fetch(found, record)) return;
    counters_.values_unfetched.add(1);
    protocol::append_unlent(channel_->out(), frame.sequence, record.tag);
}

// False: no buffer, or the channel takes no READ now.
bool NodeService::fetch(Incomings::iterator found, const protocol::LentRecord& record) {
    Incoming& incoming = found->second;
    const uint64_t bytes = incoming.progress.total;
    if (shared_.fetches == nullptr || bytes > shared_.fetches->size()) return false;
    uint64_t* landing = shared_.fetches->lend(bytes);
    if (landing == nullptr) return false;
    if (!channel_->post_fetch({record.offset, uint32_t(bytes), landing, next_fetch_})) {
        shared_.fetches->give_back(landing);
        return false;
    }
    fetches_[next_fetch_++] = {found->first, landing, record.check};
    incoming.fetching = true;
    return true;
}

void NodeService::read_done(uint64_t token, fabric::ReadStatus status) {
    const auto place = fetches_.find(token);
    CHECK(place != fetches_.end());
    const Fetch fetch = place->second;
    fetches_.erase(place);
    const auto found = incoming_.find(fetch.address);
    if (found != incoming_.end()) {  // otherwise the connection is ending
        const std::string_view value(reinterpret_cast<const char*>(fetch.landing), found->second.progress.total);
        found->second.fetching = false;
        if (status != fabric::ReadStatus::done) {
            counters_.values_unfetched.add(1);
            protocol::append_unlent(channel_->out(), fetch.address.first, fetch.address.second);
        } else if (protocol::lent_check(value) != fetch.check) {
            bad(FrameError::lent_mismatch);
        } else {
            counters_.values_fetched.add(1);
            value_over(found, /* abandoned= */ false, value);
        }
    }
    shared_.fetches->give_back(fetch.landing);
}

// Sends one more piece of a pending value, round-robin. False: none is pending.
bool NodeService::send_piece() {
    if (outgoing_.empty()) return false;
    Outgoing next = std::move(outgoing_.front());
    outgoing_.pop_front();
    const uint32_t size = protocol::chunk_size(next.size - next.sent, limits_.frame_bytes_max);
    OutBuffer& out = channel_->out();
    char* to = out.reserve(protocol::chunk_head_bytes + size);
    to = protocol::write_chunk_head(to, next.sequence, next.tag, next.sent, size);
    std::memcpy(to, next.value.get() + next.sent, size);
    out.commit(protocol::chunk_head_bytes + size);
    next.sent += size;
    seat_.used(shared_.clock().seconds);
    if (next.sent < next.size) {
        outgoing_.push_back(std::move(next));
        return true;
    }
    outgoing_bytes_ -= next.size;
    account_.give_back(next.size, next.since_ms);
    counters_.values_sent.add(1);
    answered(next.sequence);
    return true;
}

// The clock reading as the agreed version transmits it.
NodeReading NodeService::told(NodeReading now) const {
    if (limits_.version < protocol::version_with_now_us) now.us.reset();
    return now;
}

void NodeService::in_flight(uint64_t sequence) { in_flight_[sequence]++; }

void NodeService::answered(uint64_t sequence) {
    auto found = in_flight_.find(sequence);
    CHECK(found != in_flight_.end());
    if (--found->second == 0) in_flight_.erase(found);
}

}  // namespace farcached::node
