// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/node_link.h"

#include <algorithm>
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

NodeLink::NodeLink(const LinkConfig& config, const Dependencies& deps)
    : deps_(deps),
      connect_timeout_ns_(config.connect_timeout_ns),
      clock_(config.host_zero_ns),
      notes_(counters_, {config.report_interval_ns, config.report_items, config.seed, deps.table, config.share_reports}),
      requests_(config, {deps.table, deps.landing, deps.lending, clock_, counters_, notes_, deps.events}),
      reports_(notes_, requests_.pointers(), counters_, config.unsent_bytes_max),
      greeting_(config.hello, clock_, config.key, deps.shortcut),
      liveness_(config.silence_ns, config.ping_ns),
      way_down_(config.reconnect, config.steady_ns, config.seed) {}

NodeLink::~NodeLink() { CHECK(state_ == LinkState::idle); }

void NodeLink::enter(LinkState next) {
    CHECK((edges[size_t(state_)] & bit(next)) != 0);
    state_ = next;
}

// ---- connecting, and going down ---------------------------------------------------------------------

void NodeLink::start(uint64_t now_ns) {
    if (deps_.shortcut != nullptr) deps_.shortcut->failed = false;
    connect(now_ns);
}

void NodeLink::connect(uint64_t now_ns) {
    greeting_.as_newest();
    deadline_ns_ = now_ns + connect_timeout_ns_;
    open_channel(now_ns);
}

void NodeLink::open_channel(uint64_t now_ns) {
    CHECK(!inside_);
    enter(LinkState::connecting);
    counters_.node_connects.add(1);
    liveness_.begin();
    auto made = deps_.make_channel(*this);
    if (auto* problem = std::get_if<Problem>(&made)) {
        break_off(LinkDown::no_channel, std::move(problem->text));
        go_down(now_ns);
        return;
    }
    channel_ = std::get<0>(std::move(made));
    channel_->count_in(counters_.channel);
    deps_.events.watch(channel_->fd());
}

void NodeLink::stop(uint64_t now_ns) noexcept {
    CHECK(!inside_);
    if (state_ == LinkState::idle) return;
    try {
        if (up()) {
            protocol::append_goodbye(requests_.small(), protocol::Goodbye::stopping, {});
            send(now_ns);
        }
    } catch (const std::bad_alloc&) {
        inside_ = false;  // the node sees the connection end
    }
    counters_.downs[size_t(LinkDown::stopped)].add(1);
    way_down_.cancel();
    enter(LinkState::idle);
    destroy_channel();
    fail_requests(AskFailure::node_down);
    if (requests_.retry_pays(told_)) deps_.events.room();
}

void NodeLink::use_key(std::shared_ptr<const protocol::AuthKey> key) {
    CHECK(state_ == LinkState::idle);
    greeting_.use_key(std::move(key));
}

void NodeLink::drop(LinkDown why, uint64_t now_ns) noexcept {
    inside_ = false;
    if (state_ == LinkState::idle || state_ == LinkState::waiting) return;
    way_down_.cancel();
    break_off(why, why == LinkDown::no_memory ? "out of memory" : "node replaced");  // too short for an allocation
    go_down(now_ns);
}

void NodeLink::break_off(LinkDown why, std::string text) {
    way_down_.begin(why, std::move(text));
    requests_.end_asking(/* broken= */ true);
    reports_.end();
}

void NodeLink::break_off(FrameError error) {
    counters_.frame_errors[size_t(error)].add(1);
    break_off(LinkDown::bad_frame,
              channel_->describe() + ": " + std::string(protocol::frame_error_help(error)));
}

void NodeLink::go_down(uint64_t now_ns) {
    CHECK(!inside_);
    Down down = way_down_.take();
    if (state_ == LinkState::greeting && greeting_.as_older(down)) {
        destroy_channel();
        return open_channel(now_ns);
    }
    down = greeting_.reason(std::move(down));
    if (leaves_shortcut(down)) {
        destroy_channel();
        deps_.events.shortcut_failed(down.text);
        return connect(now_ns);
    }
    const LinkDown why = down.why;
    const bool was_up = state_ == LinkState::up || state_ == LinkState::leaving;
    deadline_ns_ = way_down_.next_try_ns(why, was_up, now_ns);
    enter(LinkState::waiting);
    counters_.downs[size_t(why)].add(1);
    requests_lost_ = requests_.under_way();
    destroy_channel();
    fail_requests(why == LinkDown::bad_frame ? AskFailure::bad_reply : AskFailure::node_down);
    if (const Down* news = way_down_.news(std::move(down), was_up)) deps_.events.went_down(news->why, news->text);
    if (requests_.retry_pays(told_)) deps_.events.room();
}

// True: the next connection is made at once, without the shortcut.
bool NodeLink::leaves_shortcut(const Down& down) {
    if (state_ != LinkState::connecting && state_ != LinkState::greeting) return false;
    if (deps_.shortcut == nullptr || !deps_.shortcut->taken || deps_.shortcut->failed) return false;
    if (down.why == LinkDown::no_memory) return false;
    deps_.shortcut->failed = true;
    return true;
}

void NodeLink::destroy_channel() {
    if (channel_ == nullptr) return;
    requests_.end_asking(/* broken= */ true);
    reports_.end();
    if (greeting_.authenticates()) channel_->revoke();
    deps_.events.unwatch(channel_->fd());
    channel_.reset();
}

void NodeLink::fail_requests(AskFailure why) {
    reports_.end();
    requests_.fail_all(why);
    notes_.drop_all();
    told_ = true;
}

// ---- events of the channel ------------------------------------------------------------------------------

void NodeLink::connected() {
    if (way_down_.begun()) return;
    enter(LinkState::greeting);
    greeting_.send(channel_->out(), deps_.clock());
    told_ = true;
}

size_t NodeLink::received(std::string_view bytes) {
    const uint64_t now_ns = deps_.clock();
    liveness_.saw_bytes(bytes.size(), now_ns);
    size_t taken = 0;
    while (!way_down_.begun()) {
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
        told_ = true;
        if (error != FrameError::none) break_off(error);
    }
    return bytes.size();  // the rest is discarded
}

// The node may change the container at any time, so the link parses a copy (C2).
void NodeLink::written(size_t bytes) {
    static_assert(protocol::report_bytes_max <= fabric::container_bytes);
    if (way_down_.begun()) return;
    const uint64_t now_ns = deps_.clock();
    liveness_.heard(now_ns);
    told_ = true;
    std::array<char, fabric::container_bytes> copy;
    channel_->copy_container(copy.data(), bytes);
    protocol::Frame frame;
    FrameError error = protocol::parse_written({copy.data(), bytes}, greeting_.limits(), frame);
    if (error == FrameError::none) {
        counters_.report_answers_written.add(1);
        error = reports_.answered(frame, now_ns);
    }
    if (error != FrameError::none) break_off(error);
}

void NodeLink::read_done(uint64_t token, fabric::ReadStatus status) {
    requests_.read_done(token, status);
}

void NodeLink::ended(fabric::ChannelEnd why, const std::string& text) {
    counters_.channel_ends[size_t(why)].add(1);
    break_off(LinkDown::channel_ended, text);
}

FrameError NodeLink::take_frame(const protocol::Frame& frame, uint64_t now_ns) {
    using protocol::FrameKind;
    switch (frame.kind) {
        case FrameKind::challenge:
        case FrameKind::welcome:
        case FrameKind::refuse: return take_greeting(frame, now_ns);
        case FrameKind::replies:
        case FrameKind::chunk:
        case FrameKind::unlent: return requests_.take(frame, now_ns);
        case FrameKind::ping:
            protocol::append_pong(requests_.small(), frame.sequence, {});
            return FrameError::none;
        case FrameKind::pong: return liveness_.pong(frame, greeting_.limits(), now_ns, clock_);
        case FrameKind::reported: return reports_.answered(frame, now_ns);
        case FrameKind::goodbye: return take_goodbye(frame);
        case FrameKind::epoch: deps_.events.knows_newer_list(protocol::epoch_of(frame)); return FrameError::none;
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

FrameError NodeLink::take_greeting(const protocol::Frame& frame, uint64_t now_ns) {
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
    requests_.open(welcome, *channel_);
    notes_.greeted(now_ns, welcome.incarnation, welcome.frame_bytes_max,
                   welcome.version >= protocol::version_with_in_place);
    reports_.begin(*channel_, requests_.small(), welcome.term_ms_max);
    enter(LinkState::up);
    if (way_down_.came_up(now_ns)) counters_.node_reconnects.add(1);
    deps_.events.came_up();
    return FrameError::none;
}

FrameError NodeLink::take_goodbye(const protocol::Frame& frame) {
    protocol::GoodbyeFrame goodbye;
    const FrameError error = protocol::parse_goodbye(frame, goodbye);
    if (error != FrameError::none) return error;
    if (state_ != LinkState::up) return FrameError::kind_unexpected;
    const std::string_view why = protocol::goodbye_text(goodbye.reason);
    std::string text = channel_->describe() + ": " + std::string(why);
    if (!goodbye.text.empty() && goodbye.text != why) text += ": " + std::string(goodbye.text);
    way_down_.heard_goodbye(std::move(text));
    requests_.end_asking(/* broken= */ false);
    reports_.end();
    enter(LinkState::leaving);
    return FrameError::none;
}

// ---- ticks ------------------------------------------------------------------------------------------

void NodeLink::ready(uint64_t now_ns) {
    if (channel_ == nullptr) return;
    CHECK(!inside_);
    told_ = false;
    inside_ = true;
    channel_->ready();
    inside_ = false;
    settle(now_ns);
}

bool NodeLink::flush(uint64_t now_ns) {
    if (channel_ == nullptr) return false;
    told_ = false;
    send(now_ns);
    settle(now_ns);
    requests_.count_accesses();
    return told_;
}

void NodeLink::send(uint64_t now_ns) {
    CHECK(!inside_);
    inside_ = true;
    const uint32_t frames = requests_.send(channel_->out(), now_ns);
    if (frames > 0 || liveness_.pinging() || notes_.unanswered()) liveness_.asked(now_ns);
    channel_->expect_replies(frames_due());
    do {
        requests_.feed_values(*channel_);
        channel_->flush();
    } while (!way_down_.begun() && requests_.feed_values(*channel_));
    inside_ = false;
}

// The work that waited for the channel's calls to return.
void NodeLink::settle(uint64_t now_ns) {
    if (requests_.anything_read()) {
        requests_.judge_reads(deps_.clock());
        told_ = true;
    }
    if (requests_.take_elsewhere_ended()) told_ = true;
    if (!replies_due()) liveness_.all_answered();
    if (channel_ != nullptr && !way_down_.begun()) channel_->expect_replies(frames_due());
    counters_.rpc = up() ? channel_->rpc() : RpcMode::count;
    if (!way_down_.begun() && requests_.ask_fallbacks()) told_ = true;
    if (state_ == LinkState::leaving && requests_.under_way() == 0) way_down_.begin_goodbye();
    if (way_down_.begun()) return go_down(now_ns);
    if (requests_.retry_pays(told_)) deps_.events.room();
}

uint64_t NodeLink::tick(uint64_t now_ns) {
    CHECK(!inside_);
    told_ = false;
    switch (state_) {
        case LinkState::idle: break;
        case LinkState::waiting:
            if (now_ns >= deadline_ns_) start(now_ns);
            break;
        case LinkState::connecting:
        case LinkState::greeting:
            if (now_ns >= deadline_ns_)
                break_off(LinkDown::connect_timeout, channel_->describe() + ": no greeting in time");
            settle(now_ns);
            break;
        case LinkState::up:
        case LinkState::leaving:
            if (requests_.expire(now_ns)) told_ = true;
            if (now_ns >= liveness_.silent_at_ns())
                break_off(LinkDown::silent, channel_->describe() + ": the node does not respond");
            else if (up() && now_ns >= liveness_.ping_at_ns())
                liveness_.ping(requests_.small(), now_ns);
            reports_.send_due(now_ns);
            settle(now_ns);
            if (requests_.anything_to_send() || notes_.unanswered()) flush(now_ns);
            break;
    }
    return next_tick_ns();
}

uint64_t NodeLink::next_tick_ns() const {
    switch (state_) {
        case LinkState::idle: return UINT64_MAX;
        case LinkState::waiting:
        case LinkState::connecting:
        case LinkState::greeting: return deadline_ns_;
        case LinkState::up:
        case LinkState::leaving: break;
    }
    return std::min({requests_.next_deadline_ns(), liveness_.silent_at_ns(),
                     up() ? liveness_.ping_at_ns() : UINT64_MAX, reports_.due_ns()});
}

}  // namespace farcached::proxy
