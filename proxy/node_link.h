// SPDX-License-Identifier: BSD-3-Clause
// NodeLink: the connection between one worker and one node, from the proxy's side: made, greeted, lost and made again;
// what is asked over it, answered one-sided where a remote pointer allows it and two-sided else.
//
// Owner: a worker thread; everything is called from it. Nothing here waits, sleeps or reads a clock but the one given.
//
//   idle --start()--> connecting --connected--> greeting --welcome--> up --goodbye--> leaving
//                        ^  |                      |                  |                 |
//          tick(): it    |  +----------------------+------------------+-----------------+
//          is time again |                         | go_down(): everything asked fails, and is told why
//                        +------- waiting <--------+                      stop(): from anywhere to idle
//
// K1  Every request that was accepted is answered exactly once, from within ready(), flush(), tick() or stop(), and
//     never from within ask() or get() (E1, G1).
// K2  Nothing is sent twice but a GET whose one-sided read told nothing, which is asked two-sided once. A mutation
//     whose outcome is not known is a failure.
// K3  Requests take effect in the order in which they were accepted, as long as the node executes frames in order:
//     what could overtake another of its key is put off (busy) or goes the slower way (KeyOrder).
// K4  What is under way is bounded, in number, in bytes and in frames; beyond that ask() says busy. One slow node
//     bounds its own memory and holds up nobody else.
// K5  The channel is destroyed outside of its own calls, and before any landing buffer is used again (S12).
// K6  What is asked is answered within its deadline, or given up. While the node goes on answering in order, which is to
//     say the oldest frame that it owes, what stands behind has time (AskOptions::patience_ns): who asks for more than can
//     come in time gets it. A node that answers out of order, or nothing, puts nothing off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "fabric/channel.h"
#include "protocol/handshake.h"
#include "proxy/access_notes.h"
#include "proxy/ask.h"
#include "proxy/exchange.h"
#include "proxy/far_clock.h"
#include "proxy/frames_out.h"
#include "proxy/index_get.h"
#include "proxy/key_order.h"
#include "fabric/buffer_pool.h"
#include "proxy/link_counters.h"
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
    uint64_t steady_ns = 5'000'000'000;   // up for so long, the next failure is the first again
    uint64_t silence_ns = 3'000'000'000;  // asked, and heard nothing: the node is taken for dead
    uint64_t ping_ns = 30'000'000'000;    // nothing asked for so long: a ping; 0: none
    Exchanges::Limits under_way;
    uint32_t reads_max = 1024;                           // one-sided reads under way
    uint64_t large_bytes_max = UINT64_C(8) << 20;        // of values that come in pieces; and two of the largest
    uint64_t unsent_bytes_max = UINT64_C(1) << 20;       // that the transport has not taken
    bool verify_check = false;                           // the item's check also under a lease
    bool cold_index = false;                             // without a pointer, the index is read
    bool count_reads = false;                            // at the node, where the channel can: it is told of no others
    uint64_t report_interval_ns = 0;                     // of accesses that it did not see; 0: with requests
    bool share_reports = false;                          // with all who share the table, if there is one
    int64_t host_zero_ns = 0;                            // when this process's NodeSeconds read 0
    uint64_t seed = 0;                                   // chance for jitter; other for every link
};

enum class LinkState : uint8_t { idle, connecting, greeting, up, leaving, waiting };

// What a link tells its worker.
class LinkEvents : public ReadEvents {
  public:
    // There is a channel: its descriptor is to be polled. Until unwatch(), which comes before it is closed.
    virtual void watch(int fd) = 0;
    virtual void unwatch(int fd) = 0;
    virtual void came_up() = 0;
    // Told when the link was up, and else only if the reason is not the one told last.
    virtual void went_down(LinkDown why, const std::string& text) = 0;
    // ask() or get() said busy, and that may have changed; or the link is down.
    virtual void room() = 0;
    void read_failed(std::string_view, bool, std::string_view) override {}
};

class NodeLink final : private fabric::ChannelEvents {
  public:
    using MakeChannel = std::function<std::unique_ptr<fabric::Channel>(fabric::ChannelEvents&,
                                                                        std::string& error)>;
    using Clock = std::function<uint64_t()>;  // CLOCK_BOOTTIME in nanoseconds

    // What the link uses and does not own; all of it outlives the link.
    struct Surroundings {
        MakeChannel make_channel;  // nullptr from it: there was no descriptor or memory; the error says so
        Clock clock;               // the one that all `now_ns` come from
        LinkEvents& events;
        PointerTable* table = nullptr;   // nullptr: no remote pointers
        fabric::BufferPool* landing = nullptr;  // nullptr: no one-sided reads
        fabric::BufferPool* lending = nullptr;  // nullptr: no values that the node READs
    };
    NodeLink(const LinkConfig& config, const Surroundings& around);
    ~NodeLink() override;
    NodeLink(const NodeLink&) = delete;
    NodeLink& operator=(const NodeLink&) = delete;

    // now_ns: never less than in an earlier call; read before the call.
    void start(uint64_t now_ns);
    // Says goodbye as far as that can go at once; everything asked fails.
    void stop(uint64_t now_ns);

    // The descriptor is ready. The worker then calls flush() before it sleeps.
    void ready(uint64_t now_ns);
    // At the end of every tick in which ask(), get() or ready() was called: ends the tick's frame and sends. True:
    // answers were told meanwhile, so it is to be called again before the worker sleeps.
    bool flush(uint64_t now_ns);
    // Before the worker sleeps: looks for a moment whether something comes. True: ready() has something to do.
    bool linger() { return channel_ != nullptr && channel_->linger(); }
    // Timeouts, reconnecting, pings. Returns when it wants to be called next, UINT64_MAX for never; a call of
    // anything else may make that earlier (next_tick_ns()).
    uint64_t tick(uint64_t now_ns);
    uint64_t next_tick_ns() const;
    // Until when something waits that was asked, or is to be.
    uint64_t deadline_ns(const AskOptions& options) const {
        return put_off(options.deadline_ns, options.patience_ns, progress_ns_);
    }
    bool wants_write() const { return channel_ != nullptr && channel_->wants_write(); }

    // Room for at least one more request.
    bool can_ask() const;
    // Two-sided. Keys and values are borrowed until the call returns, but for a value that follows, which is the
    // options' from then on. A key's hash need not be set. Times are this process's NodeSeconds.
    Asked ask(const protocol::GetOp& op, const AskOptions& options, ReplySink& sink);
    Asked ask(const protocol::StoreOp& op, const AskOptions& options, ReplySink& sink);
    Asked ask(const protocol::DeleteOp& op, const AskOptions& options, ReplySink& sink);
    Asked ask(const protocol::ArithOp& op, const AskOptions& options, ReplySink& sink);
    Asked ask(const protocol::ForgetOp& op, const AskOptions& options, ReplySink& sink);
    Asked ask(const protocol::FlushOp& op, const AskOptions& options, ReplySink& sink);
    Asked ask(const protocol::StatsOp& op, const AskOptions& options, ReplySink& sink);
    // One-sided if options.one_sided, and a pointer (with op.lease) or the index (with cold_index), allow it; else
    // two-sided.
    Asked get(const protocol::GetOp& op, const AskOptions& options, ReplySink& sink, uint64_t now_ns);
    // No change of this key that was accepted is unanswered: whoever maps the node's memory may read it at once, as if
    // in its turn. The hash is under welcome().hash_seed.
    bool read_in_order(uint64_t key_hash) const { return !order_.changing(key_hash); }
    // Only while up: such a read was a hit on the item `offset` bytes behind the region's start. The node is told in
    // front of the next request, or in a report: true: there was nothing to report, and next_tick_ns() may be earlier.
    bool note_access(uint64_t key_hash, uint64_t generation, uint64_t offset, uint32_t region);
    // Only while up: must the value of this store be owned by its options?
    bool value_follows(const protocol::StoreOp& op) const;
    // The sink goes away: its requests go on, and nobody is told of them.
    void forget_sink(const ReplySink& sink);

    LinkState state() const { return state_; }
    bool up() const { return state_ == LinkState::up; }
    // Of the last greeting; its secrets are for nobody's log.
    const protocol::Welcome& welcome() const { return welcome_; }
    const FarClock& clock() const { return clock_; }
    // While up, for reads of mapped regions; else nullptr.
    const fabric::Channel* channel() const { return up() ? channel_.get() : nullptr; }
    const LinkCounters& counters() const { return counters_; }
    uint32_t requests_under_way() const { return exchanges_.live() + reads_.live(); }
    // READs are answered by a device, without a process that would have to be woken: then linger() may pay.
    bool waits_for_reads_alone() const { return reads_.live() != 0 && exchanges_.live() == 0; }
    uint64_t bytes_under_way() const;
    // How many were, when the connection was lost last.
    uint32_t requests_lost() const { return requests_lost_; }

  private:
    struct Down {
        LinkDown why;
        std::string text;
    };

    // fabric::ChannelEvents
    void connected() override;
    size_t received(std::string_view bytes) override;
    void read_done(uint64_t token, fabric::ReadStatus status) override;
    void ended(fabric::ChannelEnd why, const std::string& text) override;

    void enter(LinkState next);
    void connect(uint64_t now_ns);
    void break_off(LinkDown why, std::string text);
    void break_off(protocol::FrameError error);
    void settle(uint64_t now_ns);
    void judge_reads(uint64_t now_ns);
    void go_down(uint64_t now_ns);
    void say(const Down& down, bool was_up);
    void fail_everything(AskFailure why);
    void destroy_channel();

    protocol::FrameError take_frame(const protocol::Frame& frame, uint64_t now_ns);
    void note_progress(const protocol::Frame& frame, uint64_t now_ns);
    protocol::FrameError take_welcome(const protocol::Frame& frame, uint64_t now_ns);
    protocol::FrameError take_refuse(const protocol::Frame& frame);
    protocol::FrameError take_pong(const protocol::Frame& frame, uint64_t now_ns);
    protocol::FrameError take_goodbye(const protocol::Frame& frame);
    protocol::FrameError take_reported(const protocol::Frame& frame, uint64_t now_ns);
    protocol::FrameError take_written(const protocol::Frame& notice, uint64_t now_ns);

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
    Asked ask_any(const Op& op, const AskOptions& options, ReplySink& sink);
    template <class Op>
    Asked write(const Op& op, const AskOptions& options, ReplySink& sink);
    bool pointers_possible() const;
    void ask_fallbacks();

    LinkConfig config_;
    Surroundings around_;
    LinkCounters counters_;
    KeyOrder order_;
    FarClock clock_;
    AccessNotes notes_;
    OutBuffer report_;  // while it is made
    Exchanges exchanges_;
    Reads reads_;
    PointerGets pointers_;
    IndexGets index_;
    Reconnect reconnect_;

    LinkState state_ = LinkState::idle;
    uint64_t deadline_ns_ = 0;   // connecting, greeting: to be up; waiting: to try again
    uint64_t up_since_ns_ = 0;
    uint64_t hello_sent_ns_ = 0;
    uint64_t heard_ns_ = 0;       // the last time
    size_t seen_bytes_ = 0;       // of half a frame: the channel may show them again, which is no sign of life
    uint64_t progress_ns_ = 0;    // something of the oldest frame was answered (K6)
    uint64_t asked_since_ns_ = 0;  // something was sent and is not answered; 0: nothing
    uint64_t ping_sequence_ = 0;
    uint64_t ping_sent_ns_ = 0;  // 0: none is under way

    bool inside_ = false;       // of the channel's calls
    bool told_ = false;         // a sink was told, or may be asked, since the worker called
    bool was_busy_ = false;     // room() is owed when there is room
    bool was_ordered_ = false;  // ... or when something was answered
    bool was_up_before_ = false;
    uint32_t requests_lost_ = 0;

    std::optional<Down> down_;  // to be carried out when the channel's call has returned
    std::optional<Down> said_;
    std::string goodbye_;

    protocol::Welcome welcome_;
    std::unique_ptr<fabric::Channel> channel_;
    // While up or leaving.
    std::optional<FramesOut> frames_;
    std::optional<RepliesIn> replies_;
    protocol::FrameLimits limits_;
};

}  // namespace farcached::proxy
