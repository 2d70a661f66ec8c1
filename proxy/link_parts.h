// SPDX-License-Identifier: BSD-3-Clause
// What a NodeLink is made of beside its requests: the greeting, the signs of life, the reports of accesses, and the way
// down. Each gets the events, and decides nothing for the others.
// Owner: a NodeLink; of the greeting and the signs of life its LinkConnection. The link's thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/out_buffer.h"
#include "fabric/channel.h"
#include "protocol/handshake.h"
#include "proxy/access_notes.h"
#include "proxy/link_counters.h"
#include "proxy/node_clock_estimate.h"
#include "proxy/onesided_gets.h"

namespace farcached::proxy {

// Why a connection ends, and the sentence about it.
struct Down {
    LinkDown why;
    std::string text;
};

// Shortcut: a way to a node that make_channel (node_link.h) prefers to the node's address. Another node may listen there by now.
// make_channel looks its path up in the kernel's cache alone. The connect() that follows looks it up again, and can wait if the
// node's own socket is on a file system that stops answering at that moment.
// Owner: the link's owner; make_channel fills it in.
struct Shortcut {
    bool taken = false;        // by the last channel
    bool failed = false;       // since the last call of start(): the next channel goes to the node's address
    std::string name;          // of the node that must answer there
    uint64_t incarnation = 0;  // and of its memory

    bool leads_to(const protocol::Welcome& welcome) const { return welcome.name == name && welcome.incarnation == incarnation; }
};

// Greeting: the first frames of a connection: this side's, and the node's answer.
//
// W1  Each connection first speaks the newest version, since the node may have been replaced. A node of the version
//     before refuses it; greeted once more as by an older proxy, it serves us two-sided (S18).
// W2  welcome() changes only for a welcome that passed every check; limits() are those of a greeting until then, in each
//     connection. One of the checks: the node sends the size of its region twice, for the channel's mapping and in its
//     welcome. Both must agree, so that no pointer checked against one size reads the other (S10).
// W4  With a key, the node must prove that it holds it (protocol/auth.h). Before, nothing of its welcome is used, and this side
//     grants nothing; and the node is not greeted as by an older version, which could prove nothing (S16).
// W3  Of an older node's welcome nothing remains that allows a one-sided read (S18).
// W5  Over a shortcut, no other run of a node than the expected one is used, nor is its memory.
class Greeting {
  public:
    // key: nullptr: the node need not authenticate. shortcut: nullptr: the link has none.
    Greeting(const protocol::Hello& hello, NodeClockEstimate& clock, std::shared_ptr<const protocol::AuthKey> key,
             const Shortcut* shortcut = nullptr)
        : newest_(hello), clock_(clock), key_(std::move(key)), shortcut_(shortcut) {}

    // The next connection is greeted as the newest version.
    void as_newest();
    // True: the node refused the newest version for the first time, and the next connection is greeted as an older one.
    bool as_older(const Down& down);
    // Of two refusals, the first: it names the newest version.
    Down reason(Down down);
    void send(OutBuffer& out, uint64_t now_ns);
    // Takes a challenge, a welcome or a refusal. `down`: set if the connection ends for it.
    protocol::FrameError take(const protocol::Frame& frame, fabric::Channel& channel, uint64_t now_ns,
                              std::optional<Down>& down);
    bool authenticates() const { return key_ != nullptr; }
    // Of the next connections.
    void use_key(std::shared_ptr<const protocol::AuthKey> key) { key_ = std::move(key); }

    // From the last welcome; never log its secrets.
    const protocol::Welcome& welcome() const { return welcome_; }
    // Of frames from the node, before and after its welcome.
    const protocol::FrameLimits& limits() const { return limits_; }
    bool one_sided() const { return one_sided_; }

  private:
    protocol::Hello hello() const;
    protocol::FrameError take_challenge(const protocol::Frame& frame, fabric::Channel& channel, std::optional<Down>& down);
    protocol::FrameError take_welcome(const protocol::Frame& frame, fabric::Channel& channel, protocol::Welcome& welcome,
                                      std::string_view& grant, std::optional<Down>& down) const;
    static std::optional<Down> exchange_grants(fabric::Channel& channel, std::string_view of_node);

    const protocol::Hello newest_;
    NodeClockEstimate& clock_;
    std::shared_ptr<const protocol::AuthKey> key_;
    const Shortcut* const shortcut_;
    std::string hello_frame_, challenge_frame_, proof_frame_;  // of this connection; empty without a key
    std::optional<Down> refused_;  // as the newest version
    uint64_t sent_ns_ = 0;
    protocol::Welcome welcome_;
    protocol::FrameLimits limits_;
    bool one_sided_ = false;
};

// Liveness: does the node respond? A node that owes an answer and sends no byte for silence_ns counts as dead. An idle one
// is asked by a ping.
//
// V1  Only new bytes are a sign of life: the channel may show those of an incomplete frame again.
// V2  At most one ping is under way, and only its own pong is accepted.
class Liveness {
  public:
    // ping_ns: 0: never.
    Liveness(uint64_t silence_ns, uint64_t ping_ns) : silence_ns_(silence_ns), ping_ns_(ping_ns) {}

    // A new connection.
    void begin();
    void heard(uint64_t now_ns) { heard_ns_ = now_ns; }
    void saw_bytes(size_t bytes, uint64_t now_ns) {
        if (bytes > kept_bytes_) heard_ns_ = now_ns;
    }
    // The channel will show these bytes again.
    void kept_bytes(size_t bytes) { kept_bytes_ = bytes; }
    // Something left that the node must answer.
    void asked(uint64_t now_ns) {
        if (asked_since_ns_ == 0) asked_since_ns_ = now_ns;
    }
    // The node owes nothing.
    void all_answered() { asked_since_ns_ = 0; }

    uint64_t silent_at_ns() const;
    // For how long the node has owed a reply, and sent nothing.
    uint64_t quiet_ns(uint64_t now_ns) const {
        const uint64_t since_ns = std::max(asked_since_ns_, heard_ns_);
        return asked_since_ns_ == 0 || now_ns < since_ns ? 0 : now_ns - since_ns;
    }
    uint64_t ping_at_ns() const;
    bool pinging() const { return ping_sent_ns_ != 0; }
    void ping(OutBuffer& out, uint64_t now_ns);
    protocol::FrameError pong(const protocol::Frame& frame, const protocol::FrameLimits& limits, uint64_t now_ns,
                              NodeClockEstimate& clock);

  private:
    uint64_t silence_ns_, ping_ns_;
    uint64_t heard_ns_ = 0;  // when bytes last arrived
    size_t kept_bytes_ = 0;
    uint64_t asked_since_ns_ = 0;  // 0: nothing is owed
    uint64_t ping_sequence_ = 0;
    uint64_t ping_sent_ns_ = 0;  // 0: no ping is under way
};

// AccessReports: sends the reports of an AccessNotes when they are due, and renews pointers by their answers.
//
// P1  A report leaves by WRITE into the node's container, if there is one. The report before was read by then, since it was
//     answered (N4).
// P2  No report leaves before begin(), after end(), or while the transport is full.
class AccessReports {
  public:
    AccessReports(AccessNotes& notes, PointerGets& pointers, LinkCounters& counters, uint64_t unsent_bytes_max)
        : notes_(notes), pointers_(pointers), counters_(counters), unsent_bytes_max_(unsent_bytes_max) {}

    // Reports go to this channel, or into `frames`.
    void begin(fabric::Channel& channel, OutBuffer& frames, uint32_t term_ms_max);
    void end() { channel_ = nullptr; }
    uint64_t due_ns() const { return channel_ != nullptr ? notes_.due_ns() : UINT64_MAX; }
    void send_due(uint64_t now_ns);
    // Further reports leave after `now_ns`, like the first.
    protocol::FrameError answered(const protocol::Frame& frame, uint64_t now_ns);

  private:
    bool room() const { return channel_->out_pending() < unsent_bytes_max_; }
    void send();

    AccessNotes& notes_;
    PointerGets& pointers_;
    LinkCounters& counters_;
    uint64_t unsent_bytes_max_;
    OutBuffer report_;                    // empty between calls
    fabric::Channel* channel_ = nullptr;  // nullptr: no reports
    OutBuffer* frames_ = nullptr;         // valid while channel_ is set
    uint32_t term_ms_max_ = 0;
};

// Reconnect: the delay before a failed or lost connection is tried again. It doubles with each failure up to a bound,
// with jitter, so that links that fail together do not reconnect together.
struct ReconnectConfig {
    uint64_t first_ns = 50'000'000;         // after the first failure
    uint64_t longest_ns = 2'000'000'000;    // upper bound
    uint64_t mismatch_ns = 60'000'000'000;  // after the node refused our versions
};

class Reconnect {
  public:
    // seed: for the jitter; differs by link.
    Reconnect(const ReconnectConfig& config, uint64_t seed);

    // Delay after a failure: between half and all of first_ns * 2^(failures before), at most longest_ns.
    uint64_t failed();
    // Between half and all of first_ns, for a failure that neither the node nor the network caused.
    uint64_t soon() { return jittered(config_.first_ns); }
    // As failed(), for a failure that lasts: between half and all of mismatch_ns.
    uint64_t mismatched();
    // The link was up for a while: the next failure counts as the first again.
    void recovered() { failures_ = 0; }

  private:
    uint64_t jittered(uint64_t ns);

    ReconnectConfig config_;
    uint64_t random_;
    uint32_t failures_ = 0;
};

// WayDown: why the connection ends, what of it is news, and when the next connection is made.
//
// D1  The first reason counts. It waits here until the channel's call has returned (K5).
// D2  The end of a link that was up is news, and so is a reason that differs from the last one since then.
// D3  A node's goodbye is a reason only once nothing is under way.
class WayDown {
  public:
    // steady_ns: up for this long: the next failure counts as the first again.
    WayDown(const ReconnectConfig& reconnect, uint64_t steady_ns, uint64_t seed)
        : reconnect_(reconnect, seed), steady_ns_(steady_ns) {}

    // True: it was up before.
    bool came_up(uint64_t now_ns);
    void begin(LinkDown why, std::string text) {
        if (!reason_.has_value()) reason_ = Down{why, std::move(text)};
    }
    bool begun() const { return reason_.has_value(); }
    void cancel() { reason_.reset(); }
    Down take();
    void heard_goodbye(std::string text) { goodbye_ = std::move(text); }
    void begin_goodbye() { begin(LinkDown::goodbye, goodbye_); }
    uint64_t next_try_ns(LinkDown why, bool was_up, uint64_t now_ns);
    // nullptr: it is no news.
    const Down* news(Down down, bool was_up) noexcept;

  private:
    Reconnect reconnect_;
    uint64_t steady_ns_;
    uint64_t up_since_ns_ = 0;
    bool was_up_before_ = false;
    std::optional<Down> reason_;  // of the end that is due
    std::optional<Down> told_;    // the last one, since the link was up
    std::string goodbye_;
};

}  // namespace farcached::proxy
