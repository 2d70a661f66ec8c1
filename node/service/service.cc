// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/service.h"

#include <utility>
#include <variant>

#include "base/check.h"

namespace farcached::node {

using protocol::Frame;
using protocol::FrameError;
using protocol::FrameKind;
using protocol::FrameParse;
using protocol::Goodbye;

namespace {

constexpr int rounds_per_turn_max = 8;  // of sending and continuing, before other connections run

FrameError count_lease_returns(const Frame& frame, ServiceCounters& counters) {
    for (uint32_t i = 0; i < frame.count; i++) {
        protocol::LeaseReturnRecord entry;
        if (FrameError error = protocol::lease_return_at(frame, i, entry); error != FrameError::none) return error;
        counters.lease_returns.add(1);
    }
    return FrameError::none;
}

}  // namespace

NodeService::NodeService(ServiceShared& shared, ServiceCounters& counters, OustedWaker* waker, AwayValues* away)
    : ousted_(waker),
      account_(shared.budget, ousted_),
      connection_{shared, counters, account_, seat_, away},
      seat_(shared.seats, ousted_) {}

NodeService::~NodeService() {
    if (connection_.channel != nullptr) connection_.counters.connections_over.add(1);
}

void NodeService::arrive(const std::string& source) {
    entered_ = true;
    seat_.enter(source);
}

void NodeService::attach(fabric::Channel& channel, protocol::RegionAccess access) {
    CHECK(connection_.channel == nullptr);
    if (!entered_) arrive(channel.source());
    connection_.channel = &channel;
    connection_.access = access;
    channel.count_in(connection_.counters.channel);
    connection_.counters.connections_opened.add(1);
}

// ---- steps ------------------------------------------------------------------------------------------

void NodeService::turn() {
    CHECK(connection_.channel != nullptr);
    if (state_ == State::over) return;
    if (execution_.starved()) return starve();
    if (is_ousted()) {
        end_ousted();
        return advance();
    }
    connection_.channel->ready();
    for (int round = 0; round < rounds_per_turn_max; round++) {
        if (state_ == State::over) return;
        while (execution_.may_send() && execution_.send_piece()) {
        }
        execution_.walk();
        connection_.channel->flush();
        if (!turn_wanted()) break;
        // Not in the last round: the replies it adds need a flush.
        if (stalled_ && round + 1 < rounds_per_turn_max) connection_.channel->ready();
    }
    unsent_.hold(connection_, connection_.channel->out_pending(), connection_.channel->bytes_sent() - sent_before_, ends());
    sent_before_ = connection_.channel->bytes_sent();
    if (is_ousted()) end_ousted();
    advance();
}

bool NodeService::turn_wanted() const {
    return !ends() && execution_.may_send() && ((stalled_ && execution_.may_parse()) || execution_.pending());
}

// Completes an ending. Does not wait until a misbehaving proxy reads the last bytes.
void NodeService::advance() {
    if (state_ == State::leaving && quiet()) end_with(ServiceEnd::peer_goodbye, "the proxy closed the connection cleanly");
    if (state_ != State::closing) return;
    connection_.channel->flush();
    state_ = State::over;
}

bool NodeService::quiet() const {
    return !stalled_ && execution_.quiet() && connection_.channel->out_pending() == 0;
}

// The proxy may await nothing, so it would not READ the goodbye from a slot.
void NodeService::say_goodbye(Goodbye why, std::string_view text) {
    protocol::append_goodbye(connection_.channel->out(), why, text);
    connection_.channel->send_at_once();
}

void NodeService::stop(Goodbye why) {
    if (connection_.stopping || ends()) return;
    connection_.stopping = true;
    if (state_ != State::open) return;
    say_goodbye(why, protocol::goodbye_text(why));
    connection_.channel->flush();
}

void NodeService::give_up() {
    if (state_ == State::over) return;
    if (state_ != State::closing) end_with(ServiceEnd::stopped, "the node stops");
    advance();
}

void NodeService::starve() noexcept {
    if (!ends()) end_with(ServiceEnd::no_memory, {});
    state_ = State::over;
}

void NodeService::greeting_is_due() {
    if (!greets()) return;
    end_with(ServiceEnd::no_greeting, (state_ == State::proving ? "no proof of a key in " : "no greeting in ") +
                                          std::to_string(connection_.shared.limits.greeting_ms) + " ms");
    state_ = State::over;
}

uint32_t NodeService::silence_is_due() {
    if (!welcomed()) return 0;
    const uint32_t silent_s = seconds_since(seat_.last_used(), connection_.shared.clock().seconds);
    const uint32_t silence_s = connection_.shared.limits.silence_s;
    if (silent_s < silence_s) return (silence_s - silent_s) * 1000;
    say_goodbye(Goodbye::idle, protocol::goodbye_text(Goodbye::idle));
    end_with(ServiceEnd::silent, "nothing came for " + std::to_string(silent_s) + " s");
    advance();
    return 0;
}

// ---- ousting ---------------------------------------------------------------------------------------------

// The goodbye is sent at the end of the step.
void NodeService::end_ousted() {
    if (ends()) return;
    const ServiceEnd why = ousted_.why();
    if (welcomed()) {
        const Goodbye said = why == ServiceEnd::over_budget ? Goodbye::no_memory : Goodbye::idle;
        say_goodbye(said, service_end_help(why));
    }
    end_with(why, std::string(service_end_help(why)));
}

// Later events do not change the first ending.
void NodeService::end_with(ServiceEnd why, std::string text) {
    CHECK(!ends());
    state_ = State::closing;
    end_ = why;
    end_text_ = std::move(text);
    connection_.counters.ends[size_t(why)].add(1);
    stalled_ = false;
    execution_.clear();
}

void NodeService::bad(FrameError error) {
    connection_.counters.frame_errors[size_t(error)].add(1);
    // Before the greeting, no common protocol version exists.
    if (!greets()) say_goodbye(Goodbye::protocol_error, protocol::frame_error_help(error));
    end_with(ServiceEnd::bad_frame, std::string(protocol::frame_error_help(error)));
}

void NodeService::ended(fabric::ChannelEnd why, const std::string& text) {
    connection_.counters.channel_ends[size_t(why)].add(1);
    if (state_ == State::leaving) {
        end_with(ServiceEnd::peer_goodbye, text);
    } else if (greets() || state_ == State::open) {
        const ServiceEnd end = why == fabric::ChannelEnd::tls ? ServiceEnd::tls : ServiceEnd::transport;
        end_with(connection_.stopping ? ServiceEnd::stopped : end, text);
    }
    state_ = State::over;
}

// ---- frames -----------------------------------------------------------------------------------------

size_t NodeService::received(std::string_view bytes) {
    const size_t used = consume(bytes);
    // The buffer of held bytes is at most twice as large (fabric/stream_channel.h).
    unconsumed_.hold(connection_, 2 * (bytes.size() - used), 2 * used, ends());
    return used;
}

size_t NodeService::consume(std::string_view bytes) {
    size_t used = 0;
    stalled_ = false;
    while (!ends()) {
        if (!execution_.may_parse()) {
            stalled_ = used < bytes.size();
            break;
        }
        const FrameParse parse = protocol::parse_frame(bytes.substr(used), connection_.limits);
        if (parse.status == FrameParse::Status::need_more) return used;
        if (parse.status == FrameParse::Status::bad) {
            bad(parse.error);
            break;
        }
        take(parse.frame);
        if (execution_.halted()) {
            stalled_ = true;
            break;
        }
        used += parse.bytes;
        if (execution_.may_send()) execution_.send_piece();
    }
    if (stalled_) connection_.counters.stalls.add(1);
    return ends() ? bytes.size() : used;
}

void NodeService::take(const Frame& frame) {
    // Execution calls it, too.
    if (!greets() && frame.kind != FrameKind::requests) seat_.used(connection_.shared.clock().seconds);
    FrameError error = FrameError::none;
    NodeReading read;
    switch (frame.kind) {
        case FrameKind::hello:
            return state_ == State::greeting ? greeted(greeting_.hello(frame)) : bad(FrameError::kind_unexpected);
        case FrameKind::proof:
            return state_ == State::proving ? greeted(greeting_.proof(frame)) : bad(FrameError::kind_unexpected);
        case FrameKind::grant: error = greeting_.grant(frame); break;
        case FrameKind::requests: return requests(frame);
        case FrameKind::ping:
            connection_.counters.pings.add(1);
            return protocol::append_pong(connection_.channel->out(), frame.sequence, connection_.told(connection_.shared.clock()));
        case FrameKind::chunk: error = execution_.chunk(frame); break;
        case FrameKind::lent: error = execution_.lent(frame); break;
        case FrameKind::accesses: error = connection_.may_report() ? reports_.accesses(frame) : FrameError::kind_unexpected; break;
        case FrameKind::report:
            error = state_ == State::leaving || !connection_.may_report() ? FrameError::kind_unexpected : reports_.report(frame);
            break;
        case FrameKind::pong: error = protocol::parse_pong(frame, connection_.limits, read); break;
        case FrameKind::goodbye: error = goodbye(frame); break;
        case FrameKind::epoch:
            connection_.epoch = protocol::epoch_of(frame);
            greeting_.name(connection_.epoch);
            break;
        case FrameKind::lease_returns: error = count_lease_returns(frame, connection_.counters); break;
        case FrameKind::welcome:
        case FrameKind::refuse:
        case FrameKind::replies:
        case FrameKind::unlent:
        case FrameKind::challenge:
        case FrameKind::reported: CHECK(!"parse_frame lets no such frame of a proxy pass");
    }
    if (error != FrameError::none) bad(error);
}

void NodeService::greeted(Greeting::Outcome outcome) {
    if (const auto* error = std::get_if<FrameError>(&outcome)) return bad(*error);
    if (auto* end = std::get_if<Greeting::End>(&outcome)) return end_with(end->why, std::move(end->text));
    const auto* welcome = std::get_if<protocol::Welcome>(&outcome);
    if (welcome == nullptr) {
        state_ = State::proving;
        return;
    }
    ServiceShared& shared = connection_.shared;
    execution_.welcome(welcome->credits);
    const ReportQuota::Share share = report_share_of(shared.node, shared.limits.report_share);
    reports_.welcome(shared.report_quotas.of(greeting_.peer(), share, welcome->now.seconds), welcome->term_ms_max);
    connection_.counters.connections_welcomed.add(1);
    state_ = State::open;
}

void NodeService::check_key() {
    if (ends() || !greeting_.is_revoked()) return;
    connection_.counters.auth_keys_removed.add(1);
    connection_.channel->revoke();
    if (welcomed()) say_goodbye(Goodbye::authentication, protocol::goodbye_text(Goodbye::authentication));
    end_with(ServiceEnd::authentication, "the " + greeting_.key()->describe() + " was removed from the node's file");
    advance();
}

void NodeService::requests(const Frame& frame) {
    if (state_ == State::leaving) return bad(FrameError::kind_unexpected);
    connection_.has_requested = true;
    if (connection_.shared.list.is_old(connection_.epoch)) [[unlikely]] connection_.name_newest_epoch();
    const Execution::Verdict verdict = execution_.requests(frame);
    if (verdict.end == ServiceEnd::bad_frame) return bad(verdict.error);
    if (verdict.end == ServiceEnd::over_budget) return end_ousted();
    if (verdict.end != ServiceEnd::no_memory) return;
    say_goodbye(Goodbye::no_memory, protocol::goodbye_text(Goodbye::no_memory));
    end_with(ServiceEnd::no_memory, "the proxy announced too many values at once");
}

FrameError NodeService::goodbye(const Frame& frame) {
    protocol::GoodbyeFrame said;
    if (FrameError error = protocol::parse_goodbye(frame, said); error != FrameError::none) return error;
    if (state_ == State::leaving) return FrameError::kind_unexpected;
    state_ = State::leaving;
    return FrameError::none;
}

void NodeService::read_done(uint64_t token, fabric::ReadStatus status) {
    if (FrameError error = execution_.read_done(token, status); error != FrameError::none) bad(error);
}

// The order of a report and a later goodbye is unknown: after the goodbye no reply is possible.
void NodeService::written(size_t bytes) {
    if (!greets() && state_ != State::open) return;
    if (!connection_.may_report()) return bad(FrameError::kind_unexpected);
    if (FrameError error = reports_.written(bytes); error != FrameError::none) bad(error);
}

}  // namespace farcached::node
