// SPDX-License-Identifier: BSD-3-Clause
// LinkConnection: the connections of a NodeLink, one after the other. It owns their channel and state, and hands the frames of the
// channel to the link's parts.
//
// Owner: a NodeLink (node_link.h), which opens and closes it and draws the states. Its thread. Within a call of the channel it
// only notes why the connection must end (WayDown); the link closes it afterwards.
//
// K5  The channel is never destroyed within one of its calls, and always before any landing buffer is reused (S12).
// K7  Nothing but the greeting is taken before the state `up`, and no frame once the connection must end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "fabric/channel.h"
#include "protocol/frame.h"
#include "protocol/handshake.h"
#include "proxy/access_notes.h"
#include "proxy/link_counters.h"
#include "proxy/link_parts.h"
#include "proxy/node_clock_estimate.h"
#include "proxy/requests.h"

namespace farcached::proxy {

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
    // No connection came up over the Shortcut; the link tries without it.
    virtual void shortcut_failed(const std::string&) noexcept {}
    // The node knows a list of nodes of this epoch, and has got requests by an older one.
    virtual void knows_newer_list(uint64_t) {}
    // After ask() or get() returned busy or ordered: a retry may succeed now, or the link is down.
    virtual void room() = 0;
    void read_failed(std::string_view, bool, std::string_view) override {}
};

class LinkConnection final : private fabric::ChannelEvents {
  public:
    using MakeChannel = std::function<Result<std::unique_ptr<fabric::Channel>>(fabric::ChannelEvents&)>;
    using Clock = std::function<uint64_t()>;  // CLOCK_BOOTTIME in nanoseconds

    // Of the link; all outlive this.
    struct Parts {
        const Clock& clock;
        LinkEvents& events;
        NodeClockEstimate& node_clock;
        LinkCounters& counters;
        AccessNotes& notes;
        Requests& requests;
        AccessReports& reports;
        WayDown& way_down;
    };
    LinkConnection(const Parts& parts, Greeting greeting, Liveness liveness)
        : parts_(parts), greeting_(std::move(greeting)), liveness_(liveness) {}
    LinkConnection(const LinkConnection&) = delete;
    LinkConnection& operator=(const LinkConnection&) = delete;

    // From idle, waiting, or after close(): connects. False: it must end; no channel was made.
    bool open(const MakeChannel& make_channel);
    // Destroys the channel, if there is one.
    void close();
    // Another state; the connection takes those from greeting to leaving itself.
    void enter(LinkState next);
    // The connection must end: the reason, or that of the first such call.
    void break_off(LinkDown why, std::string text);

    // Only with a channel.
    void ready();
    void send(uint64_t now_ns);
    // Before its end.
    void say_goodbye(uint64_t now_ns) noexcept;
    // A call of the channel threw std::bad_alloc.
    void leave_call() { inside_ = false; }
    // After calls that may have answered requests: what the node still owes.
    void count_due();

    LinkState state() const { return state_; }
    bool up() const { return state_ == LinkState::up; }
    bool inside() const { return inside_; }
    // nullptr: none.
    fabric::Channel* channel() const { return channel_.get(); }
    Greeting& greeting() { return greeting_; }
    const Greeting& greeting() const { return greeting_; }
    Liveness& liveness() { return liveness_; }
    const Liveness& liveness() const { return liveness_; }

    // Sinks were called, or more can be sent, since begin_call() of the worker's call.
    void begin_call() { progressed_ = false; }
    void note_progress() { progressed_ = true; }
    bool progressed() const { return progressed_; }

  private:
    // fabric::ChannelEvents
    void connected() override;
    size_t received(std::string_view bytes) override;
    void written(size_t bytes) override;
    void read_done(uint64_t token, fabric::ReadStatus status) override;
    void ended(fabric::ChannelEnd why, const std::string& text) override;

    void break_off(protocol::FrameError error);
    // Replies in frames; those to reports are sent at once.
    bool frames_due() const { return parts_.requests.exchanges_under_way() || liveness_.pinging(); }
    protocol::FrameError take_frame(const protocol::Frame& frame, uint64_t now_ns);
    protocol::FrameError take_greeting(const protocol::Frame& frame, uint64_t now_ns);
    protocol::FrameError take_goodbye(const protocol::Frame& frame);

    const Parts parts_;
    Greeting greeting_;
    Liveness liveness_;
    LinkState state_ = LinkState::idle;
    bool inside_ = false;  // within a call of the channel
    bool progressed_ = false;
    std::unique_ptr<fabric::Channel> channel_;
};

}  // namespace farcached::proxy
