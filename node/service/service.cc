// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/service.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/broken.h"
#include "base/check.h"
#include "protocol/layout.h"

namespace farcached::node {

using protocol::Frame;
using protocol::FrameError;
using protocol::FrameKind;
using protocol::FrameParse;
using protocol::Goodbye;
using protocol::Refusal;

namespace {

constexpr int rounds_per_turn_max = 8;  // of sending and continuing, before other connections run

// All of a welcome except the clock. `access`: how this connection's proxy may read the region.
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

}  // namespace

NodeService::NodeService(ServiceShared& shared, ServiceCounters& counters, OustedWaker* waker, AwayValues* away)
    : waker_(waker),
      entry_(shared.proxies),
      account_(shared.budget, *this),
      connection_{shared, counters, account_, seat_, away},
      authentication_(shared.keys),
      seat_(shared.seats, *this) {}

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

void NodeService::oust(ServiceEnd why) {
    ServiceEnd none = ServiceEnd::count;
    if (!ousted_.compare_exchange_strong(none, why, std::memory_order_relaxed)) return;
    if (waker_ != nullptr) waker_->wake_for_ousted();
}

// The goodbye is sent at the end of the step.
void NodeService::end_ousted() {
    if (ends()) return;
    const ServiceEnd why = ousted_.load(std::memory_order_relaxed);
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
        case FrameKind::hello: return state_ == State::greeting ? hello(frame) : bad(FrameError::kind_unexpected);
        case FrameKind::proof: return state_ == State::proving ? proof(frame) : bad(FrameError::kind_unexpected);
        case FrameKind::grant: error = grant(frame); break;
        case FrameKind::requests: return requests(frame);
        case FrameKind::ping:
            connection_.counters.pings.add(1);
            return protocol::append_pong(connection_.channel->out(), frame.sequence, connection_.told(connection_.shared.clock()));
        case FrameKind::chunk: error = execution_.chunk(frame); break;
        case FrameKind::lent: error = execution_.lent(frame); break;
        case FrameKind::accesses: error = may_report() ? reports_.accesses(frame) : FrameError::kind_unexpected; break;
        case FrameKind::report:
            error = state_ == State::leaving || !may_report() ? FrameError::kind_unexpected : reports_.report(frame);
            break;
        case FrameKind::pong: error = protocol::parse_pong(frame, connection_.limits, read); break;
        case FrameKind::goodbye: error = goodbye(frame); break;
        case FrameKind::epoch:
            connection_.epoch = protocol::epoch_of(frame);
            entry_.name(connection_.epoch);
            break;
        case FrameKind::lease_returns: error = lease_returns(frame); break;
        case FrameKind::welcome:
        case FrameKind::refuse:
        case FrameKind::replies:
        case FrameKind::unlent:
        case FrameKind::challenge:
        case FrameKind::reported: CHECK(!"parse_frame lets no such frame of a proxy pass");
    }
    if (error != FrameError::none) bad(error);
}

void NodeService::hello(const Frame& frame) {
    if (FrameError error = protocol::parse_hello(frame, hello_); error != FrameError::none)
        return bad(error);
    peer_ = hello_.name;
    if (!hello_.host.empty()) peer_ += "@" + hello_.host + ":" + std::to_string(hello_.pid);
    ServiceShared& shared = connection_.shared;
    auto answer = protocol::check(hello_, welcome_facts(shared.node, shared.facts, connection_.access));
    if (const auto* why = std::get_if<protocol::Refuse>(&answer)) return refuse(*why);
    const std::string node = "node " + shared.facts.name;
    if (ignores_right(std::get<protocol::Welcome>(answer).version))
        return refuse({Refusal::protocol_mismatch,
                       node + " is a member of a fleet, and its memory is for proxies of protocol version " +
                           std::to_string(protocol::version_with_right) + " or later; proxy " + hello_.name + " speaks " +
                           std::to_string(hello_.speaks.protocol) + "; update it, or run the farnode with --discover-fence off "
                           "until then"});
    if (authentication_.demanded() && !broken::s16_welcome_unproved) {
        if (demand_proof(frame, std::get<protocol::Welcome>(answer))) state_ = State::proving;
    } else if (hello_.nonce.has_value()) {
        fail_authentication(connection_.counters.auth_failed_no_key,
                            node + " has no keys, and proxy " + hello_.name + " demands authentication: set --auth-key-file of "
                                "the farnode, or remove auth_key_file of the farcached");
    } else {
        welcome();
    }
}

// Such a proxy would read without a right. Refused, it greets as a version that reads nothing (H5).
bool NodeService::ignores_right(uint32_t version) const {
    const bool reads = connection_.access != protocol::RegionAccess::none && protocol::reads_one_sided(version);
    return reads && version < protocol::version_with_right && connection_.shared.right.is_limited();
}

// False: the proxy cannot prove anything, and is refused.
bool NodeService::demand_proof(const Frame& frame, const protocol::Welcome& agreed) {
    const std::string node = "node " + connection_.shared.facts.name;
    if (agreed.version < protocol::version_with_auth) {
        fail_authentication(connection_.counters.auth_failed_version,
                            node + " demands authentication, and proxy " + hello_.name + " of protocol version " +
                                std::to_string(agreed.version) + " cannot prove a key: update it");
        return false;
    }
    if (!hello_.nonce.has_value()) {
        fail_authentication(connection_.counters.auth_failed_no_key,
                            node + " demands authentication, and proxy " + hello_.name + " has no key: set its auth_key_file");
        return false;
    }
    authentication_.challenge(frame, connection_.channel->out());
    return true;
}

void NodeService::proof(const Frame& frame) {
    using Outcome = Authentication::Outcome;
    ServiceCounters& counters = connection_.counters;
    FrameError error = FrameError::none;
    const std::string text = "node " + connection_.shared.facts.name + " does not accept the key that proxy " + hello_.name +
                             " names: its file has no key of this name, or another key or role for it";
    switch (authentication_.take(frame, error)) {
        case Outcome::bad: return bad(error);
        case Outcome::key_unknown: return fail_authentication(counters.auth_failed_unknown, text);
        case Outcome::proof_wrong: return fail_authentication(counters.auth_failed_proof, text);
        case Outcome::role_wrong: return fail_authentication(counters.auth_failed_role, text);
        case Outcome::proved: break;
    }
    connection_.role = key()->role();
    counters.authentications.add(1);
    welcome();
}

void NodeService::fail_authentication(Counter& why, std::string text) {
    why.add(1);
    connection_.counters.refusals[size_t(Refusal::authentication)].add(1);
    protocol::append_refuse(connection_.channel->out(), {Refusal::authentication, text});
    end_with(ServiceEnd::authentication, std::move(text));
}

// After its greeting, and after its proof if one is demanded.
void NodeService::welcome() {
    ServiceShared& shared = connection_.shared;
    const NodeFacts& facts = shared.facts;
    if (connection_.role == protocol::AuthRole::operating) connection_.access = protocol::RegionAccess::none;
    auto answer = protocol::check(hello_, welcome_facts(shared.node, facts, connection_.access));
    protocol::Welcome& welcome = std::get<protocol::Welcome>(answer);
    if (connection_.stopping) return refuse({Refusal::stopping, "node " + facts.name + " stops"});
    const uint32_t copies = connection_.role == protocol::AuthRole::reader ? 0 : hello_.copies;  // it changes nothing
    if (!entry_.enter(peer_, shared.clock().seconds, copies))
        return refuse({Refusal::copies, "proxy " + hello_.name + " keeps each item on " + std::to_string(hello_.copies) +
                                            " of the nodes, and another one that node " + facts.name +
                                            " serves does not: their copies would be old; set the same replicas in all farcached"});
    if (!seat_.sit(shared.clock().seconds, facts.connections_max)) {
        return refuse({Refusal::full, "node " + facts.name + " has the " +
                                          std::to_string(facts.connections_max) +
                                          " connections that it may have"});
    }
    welcome.now = connection_.told(shared.clock(), welcome.version);
    if (!protocol::reads_one_sided(welcome.version)) {
        connection_.access = protocol::RegionAccess::none;
        welcome.hash_seed = shared.node.seed_of_peers();
        two_sided_ = true;
        connection_.counters.connections_two_sided.add(1);
    }
    if (!send_welcome(welcome)) return;
    hello_ = {};
    connection_.limits = protocol::agreed_limits(welcome, protocol::Sender::proxy);
    execution_.welcome(welcome.credits);
    const ReportQuota::Share share = report_share_of(shared.node, shared.limits.report_share);
    reports_.welcome(shared.report_quotas.of(peer_, share, welcome.now.seconds), welcome.term_ms_max);
    connection_.counters.connections_welcomed.add(1);
    state_ = State::open;
}

// False: the connection ends.
bool NodeService::send_welcome(const protocol::Welcome& welcome) {
    OutBuffer& out = connection_.channel->out();
    if (key() == nullptr) {
        protocol::append_welcome(out, welcome);
        return true;
    }
    if (key()->role() == protocol::AuthRole::operating) {
        protocol::Welcome without_items = welcome;
        protocol::make_two_sided(without_items);
        without_items.hash_seed = 0;
        return authentication_.welcome(out, without_items, {}) || (end_with(ServiceEnd::no_memory, "no proof was computed"), false);
    }
    const Result<std::string> grant = connection_.channel->grant();
    if (const auto* problem = std::get_if<Problem>(&grant)) {
        end_with(ServiceEnd::no_memory, problem->text);
        return false;
    }
    if (authentication_.welcome(out, welcome, std::get<std::string>(grant))) return true;
    end_with(ServiceEnd::no_memory, "no proof was computed");
    return false;
}

bool NodeService::may_report() const { return connection_.role != protocol::AuthRole::operating; }

// The proxy's grant of its memory: once, from one that may have the node's memory.
FrameError NodeService::grant(const Frame& frame) {
    if (key() == nullptr || !may_report() || std::exchange(grant_taken_, true)) return FrameError::kind_unexpected;
    return connection_.channel->take_grant(frame.body).has_value() ? FrameError::facts_invalid : FrameError::none;
}

void NodeService::check_key() {
    if (ends() || !authentication_.is_revoked()) return;
    connection_.counters.auth_keys_removed.add(1);
    connection_.channel->revoke();
    if (welcomed()) say_goodbye(Goodbye::authentication, protocol::goodbye_text(Goodbye::authentication));
    end_with(ServiceEnd::authentication, "the " + key()->describe() + " was removed from the node's file");
    advance();
}

void NodeService::refuse(const protocol::Refuse& why) {
    connection_.counters.refusals[size_t(why.reason)].add(1);
    protocol::append_refuse(connection_.channel->out(), why);
    end_with(ServiceEnd::refused, why.text);
}

void NodeService::requests(const Frame& frame) {
    if (state_ == State::leaving) return bad(FrameError::kind_unexpected);
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

FrameError NodeService::lease_returns(const Frame& frame) {
    for (uint32_t i = 0; i < frame.count; i++) {
        protocol::LeaseReturnRecord entry;
        if (FrameError error = protocol::lease_return_at(frame, i, entry); error != FrameError::none) return error;
        connection_.counters.lease_returns.add(1);
    }
    return FrameError::none;
}

void NodeService::read_done(uint64_t token, fabric::ReadStatus status) {
    if (FrameError error = execution_.read_done(token, status); error != FrameError::none) bad(error);
}

// The order of a report and a later goodbye is unknown: after the goodbye no reply is possible.
void NodeService::written(size_t bytes) {
    if (!greets() && state_ != State::open) return;
    if (!may_report()) return bad(FrameError::kind_unexpected);
    if (FrameError error = reports_.written(bytes); error != FrameError::none) bad(error);
}

}  // namespace farcached::node
