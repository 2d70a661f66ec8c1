// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/link_parts.h"

#include <string_view>

#include "base/broken.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/random_word.h"

namespace farcached::proxy {

namespace {

using protocol::FrameError;

constexpr protocol::FrameLimits greeting_limits{protocol::Sender::node, /* greeted= */ false,
                                                protocol::frame_bytes_lowest, 0};

LinkDown down_of(const protocol::Refuse& refuse) {
    const bool versions = refuse.reason == protocol::Refusal::protocol_mismatch ||
                          refuse.reason == protocol::Refusal::layout_mismatch;
    if (refuse.reason == protocol::Refusal::authentication) return LinkDown::authentication;
    return versions ? LinkDown::mismatch : LinkDown::refused;
}

bool agrees(const protocol::Welcome& welcome, const fabric::Channel& channel) {
    return std::ranges::all_of(welcome.regions, [&](const protocol::RegionFact& fact) {
        const fabric::RegionView* mapped = channel.mapped_region(fact.id);
        return mapped == nullptr || mapped->region_bytes == fact.bytes;
    });
}

}  // namespace

// ---- Greeting ---------------------------------------------------------------------------------------

void Greeting::as_newest() {
    refused_.reset();
    limits_ = greeting_limits;
}

bool Greeting::as_older(const Down& down) {
    if (down.why != LinkDown::mismatch || refused_.has_value()) return false;
    if (newest_.speaks.layout <= protocol::versions_two_sided.layout) return false;
    if (authenticates()) return false;  // W4
    refused_ = down;
    limits_ = greeting_limits;
    return true;
}

Down Greeting::reason(Down down) {
    return down.why == LinkDown::mismatch && refused_.has_value() ? std::move(*refused_) : std::move(down);
}

protocol::Hello Greeting::hello() const {
    protocol::Hello hello = newest_;
    if (refused_.has_value()) hello.speaks = protocol::versions_two_sided;
    return hello;
}

void Greeting::send(OutBuffer& out, uint64_t now_ns) {
    sent_ns_ = now_ns;
    protocol::Hello said = hello();
    if (!authenticates()) return protocol::append_hello(out, said);
    fill_random(said.nonce.emplace().data(), said.nonce->size());
    OutBuffer frame;
    protocol::append_hello(frame, said);
    hello_frame_ = frame.own();
    challenge_frame_.clear();
    proof_frame_.clear();
    out.append(frame.own());
}

FrameError Greeting::take_challenge(const protocol::Frame& frame, fabric::Channel& channel, std::optional<Down>& down) {
    protocol::AuthNonce nonce;
    if (FrameError error = protocol::parse_challenge(frame, nonce); error != FrameError::none) return error;
    if (!challenge_frame_.empty()) return FrameError::kind_unexpected;
    if (!authenticates()) {
        down = Down{LinkDown::authentication, channel.describe() + ": the node demands authentication: set auth_key_file"};
        return FrameError::none;
    }
    challenge_frame_ = protocol::whole_frame(frame);
    OutBuffer proof;
    if (!protocol::append_proof(proof, *key_, hello_frame_, challenge_frame_)) {
        down = Down{LinkDown::authentication, channel.describe() + ": no proof of the key can be computed"};
        return FrameError::none;
    }
    proof_frame_ = proof.own();
    channel.out().append(proof.own());
    return FrameError::none;
}

// W4
FrameError Greeting::take_welcome(const protocol::Frame& frame, fabric::Channel& channel, protocol::Welcome& welcome,
                                  std::string_view& grant, std::optional<Down>& down) const {
    if (!authenticates()) return protocol::parse_welcome(frame, welcome);
    const auto unproved = [&](const std::string& why) {
        down = Down{LinkDown::authentication, channel.describe() + ": " + why};
        return FrameError::none;
    };
    if (proof_frame_.empty())
        return unproved("the node asks for no proof of a key: it has no --auth-key-file, or is older. Set it there, or remove "
                        "auth_key_file here");
    if (!protocol::welcome_is_proved(frame, *key_, hello_frame_, challenge_frame_, proof_frame_) &&
        !broken::s16_trust_any_node)
        return unproved("the node did not prove that it holds the " + key_->describe());
    return protocol::parse_proved_welcome(frame, welcome, grant);
}

// Nothing: done.
std::optional<Down> Greeting::exchange_grants(fabric::Channel& channel, std::string_view of_node) {
    if (of_node.size() > fabric::grant_bytes_max)
        return Down{LinkDown::refused, channel.describe() + ": the node grants its memory in too many words"};
    if (farcached::Refusal refused = channel.take_grant(of_node)) return Down{LinkDown::refused, std::move(refused->text)};
    Result<std::string> own = channel.grant();
    if (auto* problem = std::get_if<Problem>(&own)) return Down{LinkDown::no_channel, std::move(problem->text)};
    if (!std::get<0>(own).empty()) protocol::append_grant(channel.out(), std::get<0>(own));
    return std::nullopt;
}

FrameError Greeting::take(const protocol::Frame& frame, fabric::Channel& channel, uint64_t now_ns,
                          std::optional<Down>& down) {
    FrameError error;
    if (frame.kind == protocol::FrameKind::challenge) return take_challenge(frame, channel, down);
    if (frame.kind == protocol::FrameKind::refuse) {
        protocol::Refuse refuse;
        if ((error = protocol::parse_refuse(frame, refuse)) != FrameError::none) return error;
        const bool silent = refuse.text.empty();
        down = Down{down_of(refuse), silent ? std::string(protocol::refusal_help(refuse.reason)) : refuse.text};
        return FrameError::none;
    }
    protocol::Welcome welcome;
    std::string_view grant;
    if ((error = take_welcome(frame, channel, welcome, grant, down)) != FrameError::none || down.has_value()) return error;
    if (auto refuse = protocol::check_welcome(welcome, hello())) {
        down = Down{down_of(*refuse), refuse->text};
        return FrameError::none;
    }
    if (shortcut_ != nullptr && shortcut_->taken && !shortcut_->leads_to(welcome)) {
        down = Down{LinkDown::refused, channel.describe() + ": another node, or another run of it, listens there"};
        return FrameError::none;
    }
    if (authenticates()) down = exchange_grants(channel, grant);
    if (down.has_value()) return FrameError::none;
    if (!agrees(welcome, channel)) {
        down = Down{LinkDown::refused,
                    "node " + welcome.name + " announces a region size that differs from the mapped one"};
        return FrameError::none;
    }
    one_sided_ = protocol::reads_one_sided(welcome.version);
    if (!one_sided_) protocol::make_two_sided(welcome);
    welcome_ = std::move(welcome);
    limits_ = protocol::agreed_limits(welcome_, protocol::Sender::node);
    clock_.greeted(welcome_.now, sent_ns_, now_ns);
    return FrameError::none;
}

// ---- Liveness ---------------------------------------------------------------------------------------

void Liveness::begin() {
    kept_bytes_ = 0;
    heard_ns_ = asked_since_ns_ = ping_sent_ns_ = 0;
}

uint64_t Liveness::silent_at_ns() const {
    if (asked_since_ns_ == 0) return UINT64_MAX;
    return std::max(asked_since_ns_, heard_ns_) + silence_ns_;
}

uint64_t Liveness::ping_at_ns() const {
    return ping_ns_ != 0 && asked_since_ns_ == 0 ? heard_ns_ + ping_ns_ : UINT64_MAX;
}

void Liveness::ping(OutBuffer& out, uint64_t now_ns) {
    ping_sent_ns_ = now_ns;
    protocol::append_ping(out, ++ping_sequence_);
}

FrameError Liveness::pong(const protocol::Frame& frame, const protocol::FrameLimits& limits, uint64_t now_ns,
                          NodeClockEstimate& clock) {
    NodeReading now;
    const FrameError error = protocol::parse_pong(frame, limits, now);
    if (error != FrameError::none) return error;
    if (!pinging() || frame.sequence != ping_sequence_) return FrameError::reply_stranger;
    clock.saw(now, ping_sent_ns_, now_ns);
    ping_sent_ns_ = 0;
    return FrameError::none;
}

// ---- AccessReports ----------------------------------------------------------------------------------

void AccessReports::begin(fabric::Channel& channel, OutBuffer& frames, uint32_t term_ms_max) {
    channel_ = &channel;
    frames_ = &frames;
    term_ms_max_ = term_ms_max;
    report_.clear(protocol::report_bytes_max);  // memory ran out halfway
}

void AccessReports::send_due(uint64_t now_ns) {
    if (now_ns < due_ns()) return;
    notes_.report(report_, now_ns, room());
    send();
}

void AccessReports::send() {
    if (report_.empty()) return;
    const std::string_view bytes(report_.data(), report_.size());
    if (channel_->post_report(bytes))
        counters_.reports_written.add(1);
    else
        frames_->append(bytes);
    report_.clear(protocol::report_bytes_max);
}

FrameError AccessReports::answered(const protocol::Frame& frame, uint64_t now_ns) {
    const auto renewed = [&](const AccessNotes::Renewed& by) {
        if (by.term_ms != 0 && pointers_.renew(by.item, by.term_ms, by.sent_ns, now_ns)) counters_.report_renewed.add(1);
    };
    const FrameError error = notes_.reported(frame, term_ms_max_, renewed);
    if (error != FrameError::none || channel_ == nullptr || !room()) return error;
    notes_.report_more(report_, now_ns);
    send();
    return error;
}

// ---- the way down -----------------------------------------------------------------------------------

bool WayDown::came_up(uint64_t now_ns) {
    up_since_ns_ = now_ns;
    told_.reset();
    return std::exchange(was_up_before_, true);
}

Down WayDown::take() {
    Down down = std::move(*reason_);
    reason_.reset();
    return down;
}

uint64_t WayDown::next_try_ns(LinkDown why, bool was_up, uint64_t now_ns) {
    if (was_up && now_ns >= up_since_ns_ + steady_ns_) reconnect_.recovered();
    if (why == LinkDown::mismatch) return now_ns + reconnect_.mismatched();
    return now_ns + (why == LinkDown::no_memory ? reconnect_.soon() : reconnect_.failed());
}

const Down* WayDown::news(Down down, bool was_up) noexcept {
    const bool news = was_up || !told_.has_value() || told_->why != down.why || told_->text != down.text;
    told_ = std::move(down);
    return news ? &*told_ : nullptr;
}

Reconnect::Reconnect(const ReconnectConfig& config, uint64_t seed) : config_(config), random_(seed) {
    CHECK(config.first_ns >= 2);
    CHECK(config.first_ns <= config.longest_ns);
    CHECK(config.mismatch_ns >= 2);
}

uint64_t Reconnect::failed() {
    constexpr uint32_t doublings_max = 30;
    const uint32_t doublings = std::min(failures_, doublings_max);
    if (failures_ != UINT32_MAX) failures_++;
    const bool longest = config_.first_ns > config_.longest_ns >> doublings;
    return jittered(longest ? config_.longest_ns : config_.first_ns << doublings);
}

uint64_t Reconnect::mismatched() {
    failed();
    return jittered(config_.mismatch_ns);
}

uint64_t Reconnect::jittered(uint64_t ns) {
    random_ = hash_bytes(&random_, sizeof random_, /* seed= */ 0x7ec0);
    return ns - random_ % (ns / 2 + 1);
}

}  // namespace farcached::proxy
