// SPDX-License-Identifier: BSD-3-Clause
// NodeLink: the connection between one worker and one node, from the proxy's side. It connects, greets, reconnects, and
// carries requests: one-sided where a remote pointer or the index allows it, two-sided otherwise.
//
// Owner: a worker thread; all calls come from it. The link never waits, sleeps or reads a clock but the given one.
//
//   idle --start()--> connecting --connected--> greeting --welcome--> up --goodbye--> leaving
//                        ^  |                      |                  |                 |
//          tick(): it    |  +----------------------+------------------+-----------------+
//          is time again |                         | go_down(): all requests under way fail
//                        +------- waiting <--------+                      stop(): from anywhere to idle
//   greeting --refused for its versions--> connecting: once, to be greeted as the version before (greet_as_older())
//
// K1  Every accepted request is answered exactly once, from within ready(), flush(), tick() or stop(), and never from
//     within ask() or get() (E1, G1).
// K2  No request is sent twice, except that a GET whose one-sided read proved nothing is sent two-sided, once. A
//     mutation with an unknown outcome fails.
// K3  Requests of one session (AskOptions::session) take effect in the order of their acceptance, as long as the node
//     executes frames in order. A request that could overtake another of its session and key is refused (ordered) or
//     goes two-sided (KeyOrder). Requests of different sessions are concurrent and never delay one another.
// K4  The requests under way are bounded in number, bytes and frames; at the bound, ask() returns busy. So a slow node
//     bounds its own memory and delays no request to other nodes.
// K5  The channel is never destroyed within one of its calls, and always before any landing buffer is reused (S12).
// K6  A request is answered within its deadline or fails. Each answer to the oldest frame gives the requests behind it
//     more time (AskOptions::patience_ns), so that a large batch can complete. A node that answers out of order, or not
//     at all, extends no deadline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "fabric/buffer_pool.h"
#include "fabric/channel.h"
#include "protocol/handshake.h"
#include "proxy/access_notes.h"
#include "proxy/ask.h"
#include "proxy/exchange.h"
#include "proxy/frames_out.h"
#include "proxy/index_get.h"
#include "proxy/key_order.h"
#include "proxy/link_counters.h"
#include "proxy/node_clock_estimate.h"
#include "proxy/pointer_get.h"
#include "proxy/pointer_table.h"
#include "proxy/reads.h"
#include "proxy/reconnect.h"
#include "proxy/replies_in.h"

namespace farcached::proxy {

struct LinkConfig {
    protocol::Hello hello;
    uint64_t connect_timeout_ns = 2'000'000'000;  // until the node has greeted
    ReconnectConfig reconnect;
    uint64_t steady_ns = 5'000'000'000;   // up for this long: the next failure counts as the first again
    uint64_t silence_ns = 3'000'000'000;  // no bytes for this long while replies are due: the node counts as dead
    uint64_t ping_ns = 30'000'000'000;    // idle for this long: send a ping; 0: never
    Exchanges::Limits under_way;
    uint32_t reads_max = 1024;                           // one-sided reads under way
    uint64_t large_bytes_max = UINT64_C(8) << 20;        // of values in pieces; plus two of the largest
    uint64_t unsent_bytes_max = UINT64_C(1) << 20;       // accepted by the channel and not by the transport
    bool probe_index = false;                             // without a pointer, READ the index
    bool count_reads = false;                            // READs count at the node if the channel can; others are reported
    uint64_t report_interval_ns = 0;                     // of access reports; 0: accesses travel with requests
    uint32_t report_items = limits::report_items_default;  // keys classified for reports
    bool share_reports = false;                          // with all processes that share the table
    int64_t host_zero_ns = 0;                            // when this process's NodeSeconds read 0
    uint64_t seed = 0;                                   // for jitter; differs by link
};

enum class LinkState : uint8_t { idle, connecting, greeting, up, leaving, waiting };

// Events from a link to its worker.
class LinkEvents : public ReadEvents {
  public:
    // A channel exists: poll its descriptor until unwatch(), which precedes its closing.
    virtual void watch(int fd) = 0;
    virtual void unwatch(int fd) = 0;
    virtual void came_up() = 0;
    // Called when the link was up, or when the reason differs from the last one reported.
    virtual void went_down(LinkDown why, const std::string& text) noexcept = 0;
    // After ask() or get() returned busy or ordered: a retry may succeed now, or the link is down.
    virtual void room() = 0;
    void read_failed(std::string_view, bool, std::string_view) override {}
};

class NodeLink final : private fabric::ChannelEvents {
  public:
    using MakeChannel = std::function<std::unique_ptr<fabric::Channel>(fabric::ChannelEvents&,
                                                                        std::string& error)>;
    using Clock = std::function<uint64_t()>;  // CLOCK_BOOTTIME in nanoseconds

    // Objects that the link uses and does not own; all outlive the link.
    struct Dependencies {
        MakeChannel make_channel;  // returns nullptr and `error` without a descriptor or memory
        Clock clock;               // the source of every `now_ns`
        LinkEvents& events;
        PointerTable* table = nullptr;   // nullptr: no remote pointers
        fabric::BufferPool* landing = nullptr;  // nullptr: no one-sided reads
        fabric::BufferPool* lending = nullptr;  // nullptr: no values that the node READs
    };
    NodeLink(const LinkConfig& config, const Dependencies& deps);
    ~NodeLink() override;
    NodeLink(const NodeLink&) = delete;
    NodeLink& operator=(const NodeLink&) = delete;

    // now_ns: read before the call; never decreases between calls.
    void start(uint64_t now_ns);
    // Sends a goodbye if the transport takes it at once; all requests under way fail.
    void stop(uint64_t now_ns) noexcept;
    // Called after any call but ask() and get() threw std::bad_alloc: ends the connection and fails the requests under
    // way. ask() and get() change nothing when they throw.
    void starve(uint64_t now_ns) noexcept;

    // The descriptor is ready. The worker calls flush() afterwards, before it sleeps.
    void ready(uint64_t now_ns);
    // Ends and sends the tick's frame. Called at the end of every tick with a call of ask(), get() or ready(). True:
    // sinks were called or more can be sent, so the worker calls it again before it sleeps.
    bool flush(uint64_t now_ns);
    // Before the worker sleeps: polls for completions for a moment. True: ready() has work to do.
    bool linger() { return channel_ != nullptr && channel_->linger(); }
    // Handles timeouts, reconnects and pings. Returns the time of the next call, UINT64_MAX for never; other calls may
    // make that earlier (next_tick_ns()).
    uint64_t tick(uint64_t now_ns);
    uint64_t next_tick_ns() const;
    // The current deadline of a request, sent or not (K6).
    uint64_t deadline_ns(const AskOptions& options) const {
        return put_off(options.deadline_ns, options.patience_ns, progress_ns_);
    }
    bool wants_write() const { return channel_ != nullptr && channel_->wants_write(); }

    // Is there room for at least one more request?
    bool can_ask() const;
    // Two-sided. Keys and values are borrowed until the call returns, except a value that follows, which options.value
    // owns. A key's hash need not be set. Times are this process's NodeSeconds.
    SubmitResult ask(const protocol::GetOp& op, const AskOptions& options, ReplySink& sink);
    SubmitResult ask(const protocol::StoreOp& op, const AskOptions& options, ReplySink& sink);
    SubmitResult ask(const protocol::DeleteOp& op, const AskOptions& options, ReplySink& sink);
    SubmitResult ask(const protocol::ArithOp& op, const AskOptions& options, ReplySink& sink);
    SubmitResult ask(const protocol::ForgetOp& op, const AskOptions& options, ReplySink& sink);
    SubmitResult ask(const protocol::FlushOp& op, const AskOptions& options, ReplySink& sink);
    SubmitResult ask(const protocol::StatsOp& op, const AskOptions& options, ReplySink& sink);
    // One-sided if options.one_sided is set and a pointer (with op.lease) or the index (with probe_index) allows it;
    // otherwise two-sided.
    SubmitResult get(const protocol::GetOp& op, const AskOptions& options, ReplySink& sink, uint64_t now_ns);
    // Prefetches the pointer table's entry of this key, for a get() that follows soon.
    void expect(std::string_view key) const;
    // True: this session has no mutation of the key under way, so it may read mapped memory at once. The hash is under
    // welcome().hash_seed.
    bool read_in_order(uint64_t key_hash, uint64_t session) const { return !order_.changing({session, key_hash}); }
    // Only while up: records a hit in mapped memory, on the item `offset` bytes behind the region's start. The access
    // travels before the next requests or in a report. True: reports had nothing due, and next_tick_ns() may be
    // earlier.
    bool note_access(uint64_t key_hash, uint64_t generation, uint64_t offset, uint32_t region);
    // Only while up: must the options own the value of this store?
    bool value_follows(const protocol::StoreOp& op) const;
    // Detaches the sink: its requests continue, and their answers are discarded.
    void forget_sink(const ReplySink& sink);

    LinkState state() const { return state_; }
    bool up() const { return state_ == LinkState::up; }
    // From the last greeting; never log its secrets.
    const protocol::Welcome& welcome() const { return welcome_; }
    const NodeClockEstimate& clock() const { return clock_; }
    // The region mapped into this process, while up; nullptr if the node does not share its memory or is older (S18).
    const fabric::RegionView* mapped_region() const { return up() && one_sided_ ? channel_->mapped_region(0) : nullptr; }
    // nullptr unless up.
    const fabric::Channel* channel() const { return up() ? channel_.get() : nullptr; }
    const LinkCounters& counters() const { return counters_; }
    uint32_t requests_under_way() const { return exchanges_.live() + reads_.live(); }
    // Only READs are under way, which a device answers without waking a process, so linger() may pay.
    bool waits_for_reads_alone() const { return reads_.live() != 0 && exchanges_.live() == 0; }
    uint64_t bytes_under_way() const;
    // Requests under way when the connection was last lost.
    uint32_t requests_lost() const { return requests_lost_; }

  private:
    static constexpr std::string_view no_memory_text = "out of memory";  // short enough for a string without allocation
    struct Down {
        LinkDown why;
        std::string text;
    };

    // fabric::ChannelEvents
    void connected() override;
    size_t received(std::string_view bytes) override;
    void written(size_t bytes) override;
    void read_done(uint64_t token, fabric::ReadStatus status) override;
    void ended(fabric::ChannelEnd why, const std::string& text) override;

    void enter(LinkState next);
    void connect(uint64_t now_ns);
    void open_channel(uint64_t now_ns);
    protocol::Hello hello() const;
    bool greet_as_older(const Down& down, uint64_t now_ns);
    void break_off(LinkDown why, std::string text);
    void break_off(protocol::FrameError error);
    void settle(uint64_t now_ns);
    void judge_reads(uint64_t now_ns);
    void go_down(uint64_t now_ns);
    uint64_t until_next_try_ns(LinkDown why);
    void say(Down down, bool was_up) noexcept;
    void fail_everything(AskFailure why);
    void destroy_channel();

    protocol::FrameError take_frame(const protocol::Frame& frame, uint64_t now_ns);
    void note_progress(const protocol::Frame& frame, uint64_t now_ns);
    protocol::FrameError take_welcome(const protocol::Frame& frame, uint64_t now_ns);
    protocol::FrameError take_refuse(const protocol::Frame& frame);
    protocol::FrameError take_pong(const protocol::Frame& frame, uint64_t now_ns);
    protocol::FrameError take_goodbye(const protocol::Frame& frame);
    protocol::FrameError take_reported(const protocol::Frame& frame, uint64_t now_ns);

    void send(uint64_t now_ns);
    bool feed_values();
    void expire(uint64_t now_ns);
    void look_for_life(uint64_t now_ns);
    uint64_t silent_at_ns() const;
    uint64_t ping_at_ns() const;
    void report(uint64_t now_ns);
    void send_report();
    bool room_for_reports() const;
    void tell_room();

    template <class Op>
    SubmitResult ask_any(const Op& op, const AskOptions& options, ReplySink& sink);
    template <class Op>
    SubmitResult write(const Op& op, const AskOptions& options, ReplySink& sink);
    void follow(Exchange& exchange) noexcept;
    bool reads_possible() const;
    bool pointers_possible() const;
    void ask_fallbacks();

    LinkConfig config_;
    Dependencies deps_;
    LinkCounters counters_;
    KeyOrder order_;
    NodeClockEstimate clock_;
    AccessNotes notes_;
    OutBuffer report_;  // empty between reports
    Exchanges exchanges_;
    Reads reads_;
    PointerGets pointers_;
    IndexGets index_;
    Reconnect reconnect_;

    LinkState state_ = LinkState::idle;
    uint64_t deadline_ns_ = 0;   // connecting, greeting: give up then; waiting: reconnect then
    uint64_t up_since_ns_ = 0;
    uint64_t hello_sent_ns_ = 0;
    uint64_t heard_ns_ = 0;       // when bytes last arrived
    size_t seen_bytes_ = 0;       // of an incomplete frame; the channel may show them again, which is no sign of life
    uint64_t progress_ns_ = 0;    // the node last answered from its oldest frame (K6)
    uint64_t asked_since_ns_ = 0;  // when requests without an answer left; 0: none
    uint64_t ping_sequence_ = 0;
    uint64_t ping_sent_ns_ = 0;  // 0: no ping is under way

    bool one_sided_ = false;    // from the last greeting (S18)
    bool inside_ = false;       // within a call of the channel
    bool told_ = false;         // sinks were called, or more can be sent, since the worker's call began
    bool was_busy_ = false;     // call room() once there is room
    bool was_ordered_ = false;  // ... or once a request was answered
    bool was_up_before_ = false;
    uint32_t requests_lost_ = 0;

    std::optional<Down> down_;  // takes effect when the channel's call has returned
    std::optional<Down> said_;
    std::optional<Down> refused_;  // the newest versions were refused; the node is greeted as an older one
    std::string goodbye_;

    protocol::Welcome welcome_;
    std::unique_ptr<fabric::Channel> channel_;
    // Valid while up or leaving.
    std::optional<FramesOut> frames_;
    std::optional<RepliesIn> replies_;
    protocol::FrameLimits limits_;
};

}  // namespace farcached::proxy
