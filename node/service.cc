// SPDX-License-Identifier: BSD-3-Clause
// The connection as such: greeting, frames, endings, back-pressure. What is done for a request: service_ops.cc; for
// accesses that the node did not see: service_reports.cc.
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

constexpr int rounds_per_turn_max = 8;  // of sending and going on, before other connections have their turn

}  // namespace

protocol::Welcome welcome_facts(const Node& node, const NodeFacts& facts, protocol::RegionAccess access) {
    const Config& config = node.config();
    const layout::RegionHeader& header = *node.view().header;
    protocol::Welcome welcome;
    welcome.name = facts.name;
    welcome.incarnation = header.incarnation;
    welcome.hash_seed = header.hash_seed;
    welcome.check_secret = node.check_secret();
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

NodeService::NodeService(ServiceShared& shared, ServiceCounters& counters)
    : shared_(shared), counters_(counters) {}

NodeService::~NodeService() {
    for (const auto& [token, fetch] : fetches_) shared_.fetches->give_back(fetch.landing);
    if (seated_) shared_.welcomed.fetch_sub(1, std::memory_order_relaxed);
    if (channel_ != nullptr) counters_.connections_over.add(1);
}

void NodeService::attach(fabric::Channel& channel, protocol::RegionAccess access) {
    CHECK(channel_ == nullptr);
    channel_ = &channel;
    access_ = access;
    counters_.connections_opened.add(1);
}

// ---- turns ------------------------------------------------------------------------------------------

void NodeService::turn() {
    CHECK(channel_ != nullptr);
    if (state_ == State::over) return;
    channel_->ready();
    for (int round = 0; round < rounds_per_turn_max; round++) {
        if (state_ == State::over) return;
        while (may_go_on_sending() && send_piece()) {
        }
        walk();
        channel_->flush();
        if (!turn_wanted()) break;
        // Whatever this makes is to be flushed: so not in the last round.
        if (stalled_ && round + 1 < rounds_per_turn_max) channel_->ready();
    }
    advance();
}

bool NodeService::turn_wanted() const {
    if (state_ == State::closing || state_ == State::over) return false;
    if (channel_->out_pending() >= shared_.limits.out_bytes_mark) return false;
    return stalled_ || !outgoing_.empty() || !walks_.empty();
}

bool NodeService::may_go_on() const {
    return may_go_on_sending() && outgoing_bytes_ < shared_.limits.outgoing_bytes_max;
}

bool NodeService::may_go_on_sending() const {
    return channel_->out_pending() < shared_.limits.out_bytes_mark;
}

// Ends what has come to its end. What a bad proxy leaves unread of our last words is not waited for.
void NodeService::advance() {
    if (state_ == State::leaving && quiet()) end_with(ServiceEnd::peer_goodbye, "the proxy said goodbye");
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

void NodeService::greeting_is_due() {
    if (state_ != State::greeting) return;
    end_with(ServiceEnd::no_greeting, "no greeting in " + std::to_string(shared_.limits.greeting_ms) + " ms");
    state_ = State::over;
}

// What is told after the first ending does not change it.
void NodeService::end_with(ServiceEnd why, std::string text) {
    CHECK(state_ != State::closing);
    CHECK(state_ != State::over);
    state_ = State::closing;
    end_ = why;
    end_text_ = std::move(text);
    counters_.ends[size_t(why)].add(1);
    stalled_ = false;
    outgoing_.clear();
    incoming_.clear();
    walks_.clear();
}

void NodeService::bad(FrameError error) {
    counters_.frame_errors[size_t(error)].add(1);
    // Before the greeting there is nothing that the other end would understand.
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
        case FrameKind::report_written:
            return report_written(frame);
        case FrameKind::lent:
            return lent(frame);
        case FrameKind::welcome:
        case FrameKind::refuse:
        case FrameKind::replies:
        case FrameKind::unlent:
        case FrameKind::reported:
        case FrameKind::reported_written:
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
    if (shared_.welcomed.fetch_add(1, std::memory_order_relaxed) >= facts.connections_max) {
        shared_.welcomed.fetch_sub(1, std::memory_order_relaxed);
        return refuse({Refusal::full, "node " + facts.name + " has the " +
                                          std::to_string(facts.connections_max) +
                                          " connections that it may have"});
    }
    seated_ = true;
    protocol::Welcome& welcome = std::get<protocol::Welcome>(answer);
    welcome.now = shared_.clock();
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
    if (!piece.abandoned && incoming.admitted && incoming.value == nullptr) {
        incoming.value = take_memory(incoming.progress.total);
        incoming.admitted = incoming.value != nullptr;
        if (!incoming.admitted) incoming_bytes_ -= incoming.progress.total;
    }
    if (!piece.abandoned && incoming.admitted)
        std::memcpy(incoming.value.get() + piece.offset, piece.bytes.data(), piece.bytes.size());
    if (piece.abandoned || incoming.progress.whole())
        value_over(found, piece.abandoned, {incoming.value.get(), incoming.value ? incoming.progress.total : 0});
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

// False: there is no buffer for it, or the channel takes no READ now.
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
    if (found != incoming_.end()) {  // else the connection ends
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

// One more piece of a value that is being sent, of another one each time. False: there is none.
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
    if (next.sent < next.size) {
        outgoing_.push_back(std::move(next));
        return true;
    }
    outgoing_bytes_ -= next.size;
    counters_.values_sent.add(1);
    answered(next.sequence);
    return true;
}

// As much of it as is said in the version that was agreed.
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
