// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/link_connection.h"

#include <array>
#include <new>
#include <optional>
#include <utility>

#include "base/check.h"

namespace farcached::proxy {

namespace {

using protocol::FrameError;

constexpr uint8_t bit(LinkState state) { return uint8_t(1u << unsigned(state)); }

// Allowed next states, by current state.
constexpr std::array<uint8_t, 6> edges = {
    /* idle       -> */ bit(LinkState::connecting),
    /* connecting -> */
    uint8_t(bit(LinkState::greeting) | bit(LinkState::connecting) | bit(LinkState::waiting) | bit(LinkState::idle)),
    /* greeting   -> */
    uint8_t(bit(LinkState::up) | bit(LinkState::connecting) | bit(LinkState::waiting) | bit(LinkState::idle)),
    /* up         -> */ uint8_t(bit(LinkState::leaving) | bit(LinkState::waiting) | bit(LinkState::idle)),
    /* leaving    -> */ uint8_t(bit(LinkState::waiting) | bit(LinkState::idle)),
    /* waiting    -> */ uint8_t(bit(LinkState::connecting) | bit(LinkState::idle)),
};

}  // namespace

void LinkConnection::enter(LinkState next) {
    CHECK((edges[size_t(state_)] & bit(next)) != 0);
    state_ = next;
}

// ---- opening, and ending --------------------------------------------------------------------------------

bool LinkConnection::open(const MakeChannel& make_channel) {
    CHECK(!inside_);
    enter(LinkState::connecting);
    parts_.counters.node_connects.add(1);
    liveness_.begin();
    auto made = make_channel(*this);
    if (auto* problem = std::get_if<Problem>(&made)) {
        break_off(LinkDown::no_channel, std::move(problem->text));
        return false;
    }
    channel_ = std::get<0>(std::move(made));
    channel_->count_in(parts_.counters.channel);
    parts_.events.watch(channel_->fd());
    return true;
}

void LinkConnection::close() {
    if (channel_ == nullptr) return;
    parts_.requests.end_asking(/* broken= */ true);
    parts_.reports.end();
    if (greeting_.authenticates()) channel_->revoke();
    parts_.events.unwatch(channel_->fd());
    channel_.reset();
}

void LinkConnection::break_off(LinkDown why, std::string text) {
    parts_.way_down.begin(why, std::move(text));
    parts_.requests.end_asking(/* broken= */ true);
    parts_.reports.end();
}

void LinkConnection::break_off(FrameError error) {
    parts_.counters.frame_errors[size_t(error)].add(1);
    break_off(LinkDown::bad_frame,
              channel_->describe() + ": " + std::string(protocol::frame_error_help(error)));
}

void LinkConnection::say_goodbye(uint64_t now_ns) noexcept {
    try {
        protocol::append_goodbye(parts_.requests.small(), protocol::Goodbye::stopping, {});
        send(now_ns);
    } catch (const std::bad_alloc&) {
        inside_ = false;  // the node sees the connection end
    }
}

// ---- events of the channel ------------------------------------------------------------------------------

void LinkConnection::connected() {
    if (parts_.way_down.begun()) return;
    enter(LinkState::greeting);
    greeting_.send(channel_->out(), parts_.clock());
    progressed_ = true;
}

size_t LinkConnection::received(std::string_view bytes) {
    const uint64_t now_ns = parts_.clock();
    liveness_.saw_bytes(bytes.size(), now_ns);
    size_t taken = 0;
    while (!parts_.way_down.begun()) {
        const protocol::FrameParse parse = protocol::parse_frame(bytes.substr(taken), greeting_.limits());
        if (parse.status == protocol::FrameParse::Status::need_more) {
            liveness_.kept_bytes(bytes.size() - taken);
            return taken;
        }
        FrameError error = parse.error;
        if (parse.status == protocol::FrameParse::Status::frame) {
            error = take_frame(parse.frame, now_ns);
            taken += parse.bytes;
        }
        progressed_ = true;
        if (error != FrameError::none) break_off(error);
    }
    return bytes.size();  // the rest is discarded
}

// The node may change the container at any time, so the link parses a copy (C2).
void LinkConnection::written(size_t bytes) {
    static_assert(protocol::report_bytes_max <= fabric::container_bytes);
    if (parts_.way_down.begun()) return;
    const uint64_t now_ns = parts_.clock();
    liveness_.heard(now_ns);
    progressed_ = true;
    std::array<char, fabric::container_bytes> copy;
    channel_->copy_container(copy.data(), bytes);
    protocol::Frame frame;
    FrameError error = protocol::parse_written({copy.data(), bytes}, greeting_.limits(), frame);
    if (error == FrameError::none) {
        parts_.counters.report_answers_written.add(1);
        error = parts_.reports.answered(frame, now_ns);
    }
    if (error != FrameError::none) break_off(error);
}

void LinkConnection::read_done(uint64_t token, fabric::ReadStatus status) {
    parts_.requests.read_done(token, status);
}

void LinkConnection::ended(fabric::ChannelEnd why, const std::string& text) {
    parts_.counters.channel_ends[size_t(why)].add(1);
    break_off(LinkDown::channel_ended, text);
}

FrameError LinkConnection::take_frame(const protocol::Frame& frame, uint64_t now_ns) {
    using protocol::FrameKind;
    switch (frame.kind) {
        case FrameKind::challenge:
        case FrameKind::welcome:
        case FrameKind::refuse: return take_greeting(frame, now_ns);
        case FrameKind::replies:
        case FrameKind::chunk:
        case FrameKind::unlent: return parts_.requests.take(frame, now_ns);
        case FrameKind::ping:
            protocol::append_pong(parts_.requests.small(), frame.sequence, {});
            return FrameError::none;
        case FrameKind::pong: return liveness_.pong(frame, greeting_.limits(), now_ns, parts_.node_clock);
        case FrameKind::reported: return parts_.reports.answered(frame, now_ns);
        case FrameKind::goodbye: return take_goodbye(frame);
        case FrameKind::epoch: parts_.events.knows_newer_list(protocol::epoch_of(frame)); return FrameError::none;
        case FrameKind::hello:
        case FrameKind::requests:
        case FrameKind::lease_returns:
        case FrameKind::accesses:
        case FrameKind::report:
        case FrameKind::proof:
        case FrameKind::grant:
        case FrameKind::lent: break;  // parse_frame() accepts none of these from a node
    }
    return FrameError::kind_unexpected;
}

FrameError LinkConnection::take_greeting(const protocol::Frame& frame, uint64_t now_ns) {
    if (state_ != LinkState::greeting) return FrameError::kind_unexpected;
    std::optional<Down> down;
    const FrameError error = greeting_.take(frame, *channel_, now_ns, down);
    if (error != FrameError::none) return error;
    if (down.has_value()) {
        break_off(down->why, std::move(down->text));
        return FrameError::none;
    }
    if (frame.kind == protocol::FrameKind::challenge) return FrameError::none;  // the welcome follows
    const protocol::Welcome& welcome = greeting_.welcome();
    parts_.requests.open(welcome, *channel_);
    parts_.notes.greeted(now_ns, welcome.incarnation, welcome.frame_bytes_max,
                         welcome.version >= protocol::version_with_in_place);
    parts_.reports.begin(*channel_, parts_.requests.small(), welcome.term_ms_max);
    enter(LinkState::up);
    if (parts_.way_down.came_up(now_ns)) parts_.counters.node_reconnects.add(1);
    parts_.events.came_up();
    return FrameError::none;
}

FrameError LinkConnection::take_goodbye(const protocol::Frame& frame) {
    protocol::GoodbyeFrame goodbye;
    const FrameError error = protocol::parse_goodbye(frame, goodbye);
    if (error != FrameError::none) return error;
    if (state_ != LinkState::up) return FrameError::kind_unexpected;
    const std::string_view why = protocol::goodbye_text(goodbye.reason);
    std::string text = channel_->describe() + ": " + std::string(why);
    if (!goodbye.text.empty() && goodbye.text != why) text += ": " + std::string(goodbye.text);
    parts_.way_down.heard_goodbye(std::move(text));
    parts_.requests.end_asking(/* broken= */ false);
    parts_.reports.end();
    enter(LinkState::leaving);
    return FrameError::none;
}

// ---- calls of the channel -------------------------------------------------------------------------------

void LinkConnection::ready() {
    CHECK(!inside_);
    inside_ = true;
    channel_->ready();
    inside_ = false;
}

void LinkConnection::send(uint64_t now_ns) {
    CHECK(!inside_);
    inside_ = true;
    const uint32_t frames = parts_.requests.send(channel_->out(), now_ns);
    if (frames > 0 || liveness_.pinging() || parts_.notes.unanswered()) liveness_.asked(now_ns);
    channel_->expect_replies(frames_due());
    do {
        parts_.requests.feed_values(*channel_);
        channel_->flush();
    } while (!parts_.way_down.begun() && parts_.requests.feed_values(*channel_));
    inside_ = false;
}

void LinkConnection::count_due() {
    if (!frames_due() && !parts_.notes.unanswered()) liveness_.all_answered();
    if (channel_ != nullptr && !parts_.way_down.begun()) channel_->expect_replies(frames_due());
    parts_.counters.rpc = up() ? channel_->rpc() : RpcMode::count;
}

}  // namespace farcached::proxy
