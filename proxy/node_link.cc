// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/node_link.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "base/check.h"

namespace farcached::proxy {

namespace {

using protocol::FrameError;

constexpr uint8_t bit(LinkState state) { return uint8_t(1u << unsigned(state)); }

// Allowed next states, by current state.
constexpr std::array<uint8_t, 6> edges = {
    /* idle       -> */ bit(LinkState::connecting),
    /* connecting -> */ uint8_t(bit(LinkState::greeting) | bit(LinkState::waiting) | bit(LinkState::idle)),
    /* greeting   -> */
    uint8_t(bit(LinkState::up) | bit(LinkState::connecting) | bit(LinkState::waiting) | bit(LinkState::idle)),
    /* up         -> */ uint8_t(bit(LinkState::leaving) | bit(LinkState::waiting) | bit(LinkState::idle)),
    /* leaving    -> */ uint8_t(bit(LinkState::waiting) | bit(LinkState::idle)),
    /* waiting    -> */ uint8_t(bit(LinkState::connecting) | bit(LinkState::idle)),
};

constexpr protocol::FrameLimits greeting_limits{protocol::Sender::node, /* greeted= */ false,
                                                protocol::frame_bytes_lowest, 0};

LinkDown down_of(const protocol::Refuse& refuse) {
    const bool versions = refuse.reason == protocol::Refusal::protocol_mismatch ||
                          refuse.reason == protocol::Refusal::layout_mismatch;
    return versions ? LinkDown::mismatch : LinkDown::refused;
}

// A node sends the size of its region twice: for the channel's mapping, and in its welcome. The link requires both to
// agree, so that no pointer checked against one size reads the other (S10).
bool agrees(const protocol::Welcome& welcome, const fabric::Channel& channel) {
    return std::ranges::all_of(welcome.regions, [&](const protocol::RegionFact& fact) {
        const fabric::RegionView* mapped = channel.mapped_region(fact.id);
        return mapped == nullptr || mapped->region_bytes == fact.bytes;
    });
}

}  // namespace

NodeLink::NodeLink(const LinkConfig& config, const Dependencies& deps)
    : config_(config),
      deps_(deps),
      clock_(config.host_zero_ns),
      notes_(counters_, {config.report_interval_ns, config.report_items, config.seed, deps.table, config.share_reports}),
      exchanges_(config.under_way),
      reads_(deps.landing, order_, clock_, counters_, deps.events, config.reads_max, config.count_reads),
      pointers_({deps.table, reads_, clock_, counters_, notes_}),
      index_({reads_, clock_, counters_, notes_}, config.probe_index),
      reconnect_(config.reconnect, config.seed) {}

NodeLink::~NodeLink() { CHECK(state_ == LinkState::idle); }

void NodeLink::enter(LinkState next) {
    CHECK((edges[size_t(state_)] & bit(next)) != 0);
    state_ = next;
}

// ---- connecting, and going down ---------------------------------------------------------------------

void NodeLink::start(uint64_t now_ns) { connect(now_ns); }

void NodeLink::connect(uint64_t now_ns) {
    refused_.reset();
    deadline_ns_ = now_ns + config_.connect_timeout_ns;
    open_channel(now_ns);
}

void NodeLink::open_channel(uint64_t now_ns) {
    CHECK(!inside_);
    enter(LinkState::connecting);
    counters_.node_connects.add(1);
    limits_ = greeting_limits;
    seen_bytes_ = 0;
    heard_ns_ = progress_ns_ = asked_since_ns_ = ping_sent_ns_ = 0;
    std::string error;
    channel_ = deps_.make_channel(*this, error);
    if (channel_ == nullptr) {
        break_off(LinkDown::no_channel, std::move(error));
        go_down(now_ns);
        return;
    }
    channel_->count_in(counters_.channel);
    deps_.events.watch(channel_->fd());
}

void NodeLink::stop(uint64_t now_ns) noexcept {
    CHECK(!inside_);
    if (state_ == LinkState::idle) return;
    try {
        if (up()) {
            protocol::append_goodbye(frames_->small(), protocol::Goodbye::stopping, {});
            send(now_ns);
        }
    } catch (const std::bad_alloc&) {
        inside_ = false;  // the node sees the connection end
    }
    counters_.downs[size_t(LinkDown::stopped)].add(1);
    down_.reset();
    enter(LinkState::idle);
    destroy_channel();
    fail_everything(AskFailure::node_down);
    tell_room();
}

void NodeLink::starve(uint64_t now_ns) noexcept {
    inside_ = false;
    if (state_ == LinkState::idle || state_ == LinkState::waiting) return;
    down_.reset();
    break_off(LinkDown::no_memory, std::string(no_memory_text));
    go_down(now_ns);
}

void NodeLink::break_off(LinkDown why, std::string text) {
    if (!down_.has_value()) down_ = Down{why, std::move(text)};
}

void NodeLink::break_off(FrameError error) {
    counters_.frame_errors[size_t(error)].add(1);
    break_off(LinkDown::bad_frame,
              channel_->describe() + ": " + std::string(protocol::frame_error_help(error)));
}

void NodeLink::go_down(uint64_t now_ns) {
    CHECK(!inside_);
    Down down = std::move(*down_);
    down_.reset();
    if (greet_as_older(down, now_ns)) return;
    if (down.why == LinkDown::mismatch && refused_.has_value()) down = std::move(*refused_);
    const bool was_up = state_ == LinkState::up || state_ == LinkState::leaving;
    if (was_up && now_ns >= up_since_ns_ + config_.steady_ns) reconnect_.recovered();
    deadline_ns_ = now_ns + until_next_try_ns(down.why);
    enter(LinkState::waiting);
    counters_.downs[size_t(down.why)].add(1);
    requests_lost_ = requests_under_way();
    destroy_channel();
    fail_everything(down.why == LinkDown::bad_frame ? AskFailure::bad_reply : AskFailure::node_down);
    say(std::move(down), was_up);
    tell_room();
}

uint64_t NodeLink::until_next_try_ns(LinkDown why) {
    if (why == LinkDown::mismatch) return reconnect_.mismatched();
    return why == LinkDown::no_memory ? reconnect_.soon() : reconnect_.failed();
}

// A node of the version before refuses ours; greeted as an older proxy, it serves us two-sided (S18). Each new
// connection tries the newest version first, since the node may have been replaced.
bool NodeLink::greet_as_older(const Down& down, uint64_t now_ns) {
    if (state_ != LinkState::greeting || down.why != LinkDown::mismatch || refused_.has_value()) return false;
    if (config_.hello.speaks.layout <= protocol::versions_two_sided.layout) return false;
    refused_ = down;
    destroy_channel();
    open_channel(now_ns);
    return true;
}

void NodeLink::say(Down down, bool was_up) noexcept {
    const bool news = !said_.has_value() || said_->why != down.why || said_->text != down.text;
    said_ = std::move(down);
    if (was_up || news) deps_.events.went_down(said_->why, said_->text);
}

void NodeLink::destroy_channel() {
    if (channel_ == nullptr) return;
    deps_.events.unwatch(channel_->fd());
    channel_.reset();
}

void NodeLink::fail_everything(AskFailure why) {
    const Failed failed{why, std::nullopt};
    reads_.fail_all(failed);
    exchanges_.for_each([&](Exchange& exchange) {
        if (!exchange.late()) counters_.node_failures.add(1);
        replies_->fail(exchange, failed);
        frames_->take_back(exchange);
        exchanges_.close(exchange);
    });
    CHECK(exchanges_.live() == 0);
    CHECK(reads_.live() == 0);
    for (uint32_t kind = 0; kind < KeyOrder::kinds; kind++)
        CHECK(order_.all(KeyOrder::Kind(kind)) == 0);
    notes_.drop_all();
    replies_.reset();
    frames_.reset();
    told_ = true;
}

// ---- events of the channel ------------------------------------------------------------------------------

protocol::Hello NodeLink::hello() const {
    protocol::Hello hello = config_.hello;
    if (refused_.has_value()) hello.speaks = protocol::versions_two_sided;
    return hello;
}

void NodeLink::connected() {
    if (down_.has_value()) return;
    enter(LinkState::greeting);
    hello_sent_ns_ = deps_.clock();
    protocol::append_hello(channel_->out(), hello());
    told_ = true;
}

size_t NodeLink::received(std::string_view bytes) {
    const uint64_t now_ns = deps_.clock();
    if (bytes.size() > seen_bytes_) heard_ns_ = now_ns;
    size_t taken = 0;
    while (!down_.has_value()) {
        const protocol::FrameParse parse = protocol::parse_frame(bytes.substr(taken), limits_);
        if (parse.status == protocol::FrameParse::Status::need_more) {
            seen_bytes_ = bytes.size() - taken;
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
    if (down_.has_value()) return;
    const uint64_t now_ns = deps_.clock();
    heard_ns_ = now_ns;
    told_ = true;
    std::array<char, fabric::container_bytes> copy;
    channel_->copy_container(copy.data(), bytes);
    protocol::Frame frame;
    FrameError error = protocol::parse_written({copy.data(), bytes}, limits_, frame);
    if (error == FrameError::none) {
        counters_.report_answers_written.add(1);
        error = take_reported(frame, now_ns);
    }
    if (error != FrameError::none) break_off(error);
}

void NodeLink::read_done(uint64_t token, fabric::ReadStatus status) {
    reads_.completed(token, status);
}

void NodeLink::ended(fabric::ChannelEnd why, const std::string& text) {
    counters_.channel_ends[size_t(why)].add(1);
    break_off(LinkDown::channel_ended, text);
}

FrameError NodeLink::take_frame(const protocol::Frame& frame, uint64_t now_ns) {
    using protocol::FrameKind;
    switch (frame.kind) {
        case FrameKind::welcome: return take_welcome(frame, now_ns);
        case FrameKind::refuse: return take_refuse(frame);
        case FrameKind::replies: note_progress(frame, now_ns); return replies_->replies(frame, now_ns);
        case FrameKind::chunk: note_progress(frame, now_ns); return replies_->chunk(frame);
        case FrameKind::unlent: note_progress(frame, now_ns); return replies_->unlent(frame);
        case FrameKind::ping:
            protocol::append_pong(frames_->small(), frame.sequence, {});
            return FrameError::none;
        case FrameKind::pong: return take_pong(frame, now_ns);
        case FrameKind::reported: return take_reported(frame, now_ns);
        case FrameKind::goodbye: return take_goodbye(frame);
        case FrameKind::hello:
        case FrameKind::requests:
        case FrameKind::lease_returns:
        case FrameKind::accesses:
        case FrameKind::report:
        case FrameKind::lent: break;  // parse_frame() accepts none of these from a node
    }
    return FrameError::kind_unexpected;
}

void NodeLink::note_progress(const protocol::Frame& frame, uint64_t now_ns) {
    if (frame.sequence == frames_->oldest_sequence()) progress_ns_ = now_ns;
}

FrameError NodeLink::take_welcome(const protocol::Frame& frame, uint64_t now_ns) {
    if (state_ != LinkState::greeting) return FrameError::kind_unexpected;
    protocol::Welcome welcome;
    const FrameError error = protocol::parse_welcome(frame, welcome);
    if (error != FrameError::none) return error;
    if (auto refuse = protocol::check_welcome(welcome, hello())) {
        break_off(down_of(*refuse), refuse->text);
        return FrameError::none;
    }
    if (!agrees(welcome, *channel_)) {
        break_off(LinkDown::refused, "node " + welcome.name + " announces a region size that differs from the mapped one");
        return FrameError::none;
    }
    one_sided_ = protocol::reads_one_sided(welcome.version);
    if (!one_sided_) protocol::make_two_sided(welcome);
    welcome_ = std::move(welcome);
    limits_ = protocol::agreed_limits(welcome_, protocol::Sender::node);
    clock_.greeted(welcome_.now, hello_sent_ns_, now_ns);
    frames_.emplace(welcome_.frame_bytes_max, welcome_.credits);
    if (deps_.lending != nullptr && channel_->lends() > 0) frames_->lend(*deps_.lending, channel_->lends());
    replies_.emplace(RepliesIn::Parts{exchanges_, *frames_, pointers_, order_, clock_, counters_},
                     limits_, config_.large_bytes_max + 2 * welcome_.item_bytes_max);
    pointers_.greeted(welcome_);
    index_.greeted(welcome_);
    notes_.greeted(now_ns, welcome_.incarnation, welcome_.frame_bytes_max,
                   limits_.version >= protocol::version_with_in_place);
    enter(LinkState::up);
    up_since_ns_ = now_ns;
    if (was_up_before_) counters_.node_reconnects.add(1);
    was_up_before_ = true;
    said_.reset();
    deps_.events.came_up();
    return FrameError::none;
}

FrameError NodeLink::take_refuse(const protocol::Frame& frame) {
    if (state_ != LinkState::greeting) return FrameError::kind_unexpected;
    protocol::Refuse refuse;
    const FrameError error = protocol::parse_refuse(frame, refuse);
    if (error != FrameError::none) return error;
    const bool silent = refuse.text.empty();
    break_off(down_of(refuse),
              silent ? std::string(protocol::refusal_help(refuse.reason)) : refuse.text);
    return FrameError::none;
}

FrameError NodeLink::take_pong(const protocol::Frame& frame, uint64_t now_ns) {
    NodeReading now;
    const FrameError error = protocol::parse_pong(frame, limits_, now);
    if (error != FrameError::none) return error;
    if (ping_sent_ns_ == 0) return FrameError::reply_stranger;
    if (frame.sequence != ping_sequence_) return FrameError::reply_stranger;
    clock_.saw(now, ping_sent_ns_, now_ns);
    ping_sent_ns_ = 0;
    return FrameError::none;
}

FrameError NodeLink::take_goodbye(const protocol::Frame& frame) {
    protocol::GoodbyeFrame goodbye;
    const FrameError error = protocol::parse_goodbye(frame, goodbye);
    if (error != FrameError::none) return error;
    if (state_ != LinkState::up) return FrameError::kind_unexpected;
    const std::string_view why = protocol::goodbye_text(goodbye.reason);
    goodbye_ = channel_->describe() + ": " + std::string(why);
    if (!goodbye.text.empty() && goodbye.text != why) goodbye_ += ": " + std::string(goodbye.text);
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
    pointers_.count_accesses();
    return told_;
}

void NodeLink::send(uint64_t now_ns) {
    CHECK(!inside_);
    inside_ = true;
    uint32_t count = 0;
    if (frames_.has_value() && frames_->anything_to_send()) {
        if (frames_->requests_to_send())
            notes_.before_requests(channel_->out());
        count = frames_->send(channel_->out(), now_ns);
        counters_.node_frames.add(count);
    }
    const bool asks = count > 0 || ping_sent_ns_ != 0 || notes_.unanswered();
    if (asks && asked_since_ns_ == 0) asked_since_ns_ = now_ns;
    do {
        feed_values();
        channel_->flush();
    } while (!down_.has_value() && feed_values());
    inside_ = false;
}

bool NodeLink::feed_values() {
    if (!frames_.has_value() || !frames_->anything_follows()) return false;
    OutBuffer& out = channel_->out();
    const uint64_t lent = frames_->values_lent();
    const bool fed = frames_->feed(out, channel_->out_pending() - out.size());
    counters_.values_lent.add(frames_->values_lent() - lent);
    return fed;
}

// The work that waited for the channel's calls to return.
void NodeLink::settle(uint64_t now_ns) {
    if (reads_.anything_completed()) {
        judge_reads(deps_.clock());
        told_ = true;
    }
    if (exchanges_.live() == 0 && ping_sent_ns_ == 0 && !notes_.unanswered()) asked_since_ns_ = 0;
    if (!down_.has_value()) ask_fallbacks();
    if (state_ == LinkState::leaving && requests_under_way() == 0)
        break_off(LinkDown::goodbye, goodbye_);
    if (down_.has_value()) {
        go_down(now_ns);
        return;
    }
    if ((was_busy_ && can_ask()) || (was_ordered_ && told_)) tell_room();
}

void NodeLink::judge_reads(uint64_t now_ns) {
    fabric::Channel* more = down_.has_value() ? nullptr : channel_.get();
    reads_.settle([&](Read& read) {
        if (std::holds_alternative<ByPointer>(read.way))
            pointers_.judge(read, now_ns);
        else
            index_.judge(more, read, now_ns);
    });
}

void NodeLink::tell_room() {
    if (!was_busy_ && !was_ordered_) return;
    was_busy_ = was_ordered_ = false;
    deps_.events.room();
}

uint64_t NodeLink::tick(uint64_t now_ns) {
    CHECK(!inside_);
    told_ = false;
    switch (state_) {
        case LinkState::idle: break;
        case LinkState::waiting:
            if (now_ns >= deadline_ns_) connect(now_ns);
            break;
        case LinkState::connecting:
        case LinkState::greeting:
            if (now_ns >= deadline_ns_)
                break_off(LinkDown::connect_timeout, channel_->describe() + ": no greeting in time");
            settle(now_ns);
            break;
        case LinkState::up:
        case LinkState::leaving:
            expire(now_ns);
            look_for_life(now_ns);
            report(now_ns);
            settle(now_ns);
            if (frames_.has_value() && (frames_->anything_to_send() || notes_.unanswered())) flush(now_ns);
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
    return std::min({exchanges_.next_deadline_ns(), reads_.next_deadline_ns(), silent_at_ns(),
                     ping_at_ns(), up() ? notes_.due_ns() : UINT64_MAX});
}

void NodeLink::expire(uint64_t now_ns) {
    exchanges_.expire(now_ns, progress_ns_, [&](Exchange& exchange) {
        counters_.node_timeouts.add(1);
        frames_->stop_following(exchange);
        told_ = true;
        replies_->fail(exchange, {AskFailure::timed_out, std::nullopt});
    });
    if (reads_.expire(now_ns, progress_ns_)) told_ = true;
}

uint64_t NodeLink::silent_at_ns() const {
    if (asked_since_ns_ == 0) return UINT64_MAX;
    return std::max(asked_since_ns_, heard_ns_) + config_.silence_ns;
}

uint64_t NodeLink::ping_at_ns() const {
    if (config_.ping_ns == 0 || !up()) return UINT64_MAX;
    return asked_since_ns_ == 0 ? heard_ns_ + config_.ping_ns : UINT64_MAX;
}

void NodeLink::look_for_life(uint64_t now_ns) {
    if (now_ns >= silent_at_ns()) {
        break_off(LinkDown::silent, channel_->describe() + ": the node does not respond");
        return;
    }
    if (now_ns < ping_at_ns()) return;
    ping_sent_ns_ = now_ns;
    protocol::append_ping(frames_->small(), ++ping_sequence_);
}

void NodeLink::report(uint64_t now_ns) {
    if (!up() || down_.has_value() || now_ns < notes_.due_ns()) return;
    notes_.report(report_, now_ns, room_for_reports());
    send_report();
}

// By WRITE into the node's container, if there is one. The report before was read by then, since it was answered.
void NodeLink::send_report() {
    if (report_.empty()) return;
    const std::string_view bytes(report_.data(), report_.size());
    if (channel_->post_report(bytes))
        counters_.reports_written.add(1);
    else
        frames_->small().append(bytes);
    report_.clear(protocol::report_bytes_max);
}

bool NodeLink::room_for_reports() const { return channel_->out_pending() < config_.unsent_bytes_max; }

// Further reports leave after `now_ns`, like the first.
FrameError NodeLink::take_reported(const protocol::Frame& frame, uint64_t now_ns) {
    const auto renewed = [&](const AccessNotes::Renewed& by) {
        if (by.term_ms != 0 && pointers_.renew(by.item, by.term_ms, by.sent_ns, now_ns)) counters_.report_renewed.add(1);
    };
    const FrameError error = notes_.reported(frame, welcome_.term_ms_max, renewed);
    if (error != FrameError::none || !up() || !room_for_reports()) return error;
    notes_.report_more(report_, now_ns);
    send_report();
    return error;
}

}  // namespace farcached::proxy
