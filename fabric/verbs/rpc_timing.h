// SPDX-License-Identifier: BSD-3-Clause
// Times of a connection whose messages travel in slots (verbs_slots.h). FetchPlan: when the proxy READs a reply, and how many
// bytes. NodeAwake: does the node look at its slots? LookWindow: for how long the node does. RpcChoice: `rpc = auto`. Pure:
// every time is an argument, in nanoseconds of one monotonic clock.
//
// Owner and thread: those of a VerbsQueue.
// H1  While replies are due, FetchPlan::next_ns() is finite: a reply in a slot is always READ.
// H2  A plain request that was not seen is followed by wakes: the first one is enough, since it arrives after the request. They
//     repeat NodeAwake::wakes_max times.
// H3  The proxy counts the node's awake time from before it posted the request whose reply had it (S3). The node counts it from
//     the reply, and looks for LookWindow::margin_ns longer.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/broken.h"
#include "base/check.h"
#include "base/rpc_mode.h"
#include "fabric/verbs/verbs_slots.h"

namespace farcached::fabric {

constexpr uint64_t never_ns = UINT64_MAX;

// A mean that follows its samples by an eighth of the difference.
inline uint64_t smoothed(uint64_t mean, uint64_t sample) { return mean == 0 ? sample : mean - mean / 8 + sample / 8; }

class FetchPlan {
  public:
    // fixed_bytes: of each READ, head included; 0: as many as 19 of the last 20 replies needed.
    FetchPlan(uint32_t slot_bytes, uint32_t fixed_bytes)
        : slot_bytes_(slot_bytes),
          fixed_(fixed_bytes),
          bytes_(std::min(slot_bytes, fixed_bytes != 0 ? std::max(fixed_bytes, uint32_t(sizeof(SlotHead))) : 256)) {}

    uint32_t bytes() const { return bytes_; }
    // The next READ's time; never_ns: no reply is due, or a READ is under way.
    uint64_t next_ns() const { return due_ && !under_way_ ? next_ns_ : never_ns; }
    bool under_way() const { return under_way_; }
    // Are the node's replies fetched? False: service is slow, and the node sends them.
    bool fetches() const { return !slow_; }

    // Requests left; their replies may be in slots.
    void asked(uint64_t now_ns) {
        const uint64_t at_ns = now_ns + (slow_ ? backed_off() : wait_ns_);
        next_ns_ = due_ ? std::min(next_ns_, at_ns) : at_ns;  // an earlier reply does not wait longer for it
    }
    // Replies are due, or no more. Until the first call they are.
    void due(bool any, uint64_t now_ns) {
        if (any && !due_ && !under_way_ && next_ns_ == never_ns) next_ns_ = now_ns + wait_ns_;
        if (!any) {
            early_ = 0;
            next_ns_ = never_ns;
            unwanted_ = true;
        }
        due_ = any;
    }
    void posted(uint64_t now_ns) {
        under_way_ = true;
        unwanted_ = false;
        posted_ns_ = now_ns;
    }
    // It has completed; brought() or found_none() follows, or posted() again for the rest of a long reply.
    void landed(uint64_t now_ns) {
        CHECK(under_way_);
        under_way_ = false;
        read_ns_ = smoothed(read_ns_, now_ns - posted_ns_);
    }
    // A READ brought this reply. more: others may be ready, too. asked_ns: when its request left; 0: unknown.
    void brought(const SlotHead& head, uint64_t now_ns, bool more, uint64_t asked_ns = 0) {
        if (early_ == 0)
            wait_ns_ -= wait_ns_ / shorter;
        else
            learn_wait(asked_ns, posted_ns_);
        early_ = 0;
        note_length(uint32_t(sizeof head) + head.length);
        next_ns_ = more ? now_ns : now_ns + wait_ns_;
    }
    // A READ found no reply. True: the second time in a row; the node shall send its replies from now on.
    bool found_none(uint64_t now_ns) {
        if (unwanted_) {
            next_ns_ = due_ ? now_ns : never_ns;
            return false;
        }
        early_++;
        next_ns_ = now_ns + backed_off();
        if (early_ != early_max || slow_ || broken::faults.fetch_always) return false;
        slow_ = true;
        fast_ = 0;
        return true;
    }
    // The node sent a reply. Fetching pays again when service takes no longer than a READ, several times in a row, and a READ may
    // wait for all of the reply's time.
    void sent(const SlotHead& head, uint64_t now_ns, uint64_t asked_ns = 0) {
        early_ = 0;
        next_ns_ = now_ns + backed_off();
        note_length(uint32_t(sizeof head) + head.length);
        learn_wait(asked_ns, now_ns - std::min(now_ns, read_ns_ / 2));
        if (!slow_) return;
        const bool soon = asked_ns == 0 || now_ns - std::min(now_ns, asked_ns) <= wait_ns_max;
        fast_ = soon && uint64_t(head.service_us) * 1000 <= read_ns_ ? fast_ + 1 : 0;
        if (fast_ < fast_min) return;
        slow_ = false;
    }

    static constexpr uint32_t early_max = 2;  // READs in a row without a reply
    static constexpr uint32_t fast_min = 8;   // sent replies in a row
    static constexpr uint64_t back_off_ns_min = 1000, back_off_ns_max = 1'000'000, wait_ns_max = 20'000'000;
    static constexpr uint64_t shorter = 256;  // part of the wait that each READ with a reply takes off

  private:
    uint64_t backed_off() const {
        const uint64_t first = std::max(wait_ns_ / 2, back_off_ns_min);
        return std::min(first << std::min(early_, 10U), back_off_ns_max);
    }
    // The reply to a request of asked_ns was there at ready_ns, and not much earlier.
    void learn_wait(uint64_t asked_ns, uint64_t ready_ns) {
        if (asked_ns == 0) return;
        const uint64_t waited_ns = std::min(ready_ns - std::min(ready_ns, asked_ns), wait_ns_max);
        wait_ns_ = waited_ns > wait_ns_ ? wait_ns_ + (waited_ns - wait_ns_) / 4 : smoothed(wait_ns_, waited_ns);
    }
    void note_length(uint32_t bytes) {
        if (fixed_ != 0) return;
        lengths_[noted_++ % lengths_.size()] = bytes;
        if (noted_ % lengths_.size() != 0) return;
        std::array<uint32_t, 20> sorted = lengths_;
        std::sort(sorted.begin(), sorted.end());
        bytes_ = std::min(slot_bytes_, (sorted[18] + 63) / 64 * 64);
    }

    const uint32_t slot_bytes_, fixed_;
    uint32_t bytes_;
    bool due_ = true, under_way_ = false, slow_ = false;
    bool unwanted_ = false;  // no reply was due any more, after the last READ was posted
    uint32_t early_ = 0, fast_ = 0;
    uint64_t next_ns_ = never_ns, posted_ns_ = 0;
    // From a request to the READ of its reply: flight, wake and service. It shrinks until a READ is early, so that one in 60 is.
    uint64_t wait_ns_ = 5000;
    uint64_t read_ns_ = 5000;  // smoothed
    std::array<uint32_t, 20> lengths_{};
    uint32_t noted_ = 0;
};

// A proxy's view of a node that looks at its slots for a limited time.
class NodeAwake {
  public:
    // Request `number` leaves. plain: without an immediate, which wakes the node.
    void asked(uint32_t number, uint64_t now_ns, bool plain) {
        asked_ns_[number % asked_ns_.size()] = now_ns;
        last_ = number;
        if (plain) plain_ = number;
        if (plain && wake_ns_ == never_ns) wake_ns_ = now_ns + patience_ns_;
    }
    // A reply: the node has taken the requests up to `seen`, and looks for awake_us.
    void told(uint32_t seen, uint32_t awake_us, uint64_t now_ns) {
        if (uint32_t(last_ - seen) < asked_ns_.size()) {
            const uint64_t since = asked_ns_[seen % asked_ns_.size()];
            until_ns_ = since + uint64_t(awake_us) * 1000;
            patience_ns_ = std::clamp(4 * smoothed(patience_ns_ / 4, now_ns - since), patience_ns_min, patience_ns_max);
        }
        wakes_ = 0;
        const bool unseen = wake_ns_ != never_ns && int32_t(plain_ - seen) > 0;
        wake_ns_ = unseen ? now_ns + patience_ns_ : never_ns;
    }
    // Does it notice a plain WRITE?
    bool awake(uint64_t now_ns) const { return now_ns < until_ns_; }
    // The next empty wake; never_ns: each request was seen, or woke the node.
    uint64_t wake_ns() const { return wake_ns_; }
    void woken(uint64_t now_ns) {
        until_ns_ = 0;
        wake_ns_ = ++wakes_ < wakes_max ? now_ns + (patience_ns_ << wakes_) : never_ns;
    }

    static constexpr uint32_t wakes_max = 8;
    static constexpr uint64_t patience_ns_min = 100'000, patience_ns_max = 10'000'000;

  private:
    std::array<uint64_t, slots_most> asked_ns_{};
    uint32_t last_ = 0, plain_ = 0;  // requests; the last one, and the last plain one
    uint32_t wakes_ = 0;
    uint64_t until_ns_ = 0, wake_ns_ = never_ns, patience_ns_ = 1'000'000;
};

// How long the node looks at the slots of a connection after a reply: a few times the usual gap between its requests.
class LookWindow {
  public:
    // us_max: longest; 0: never.
    explicit LookWindow(uint32_t us_max) : max_ns_(uint64_t(us_max) * 1000) {}

    void took_request(uint64_t now_ns) {
        if (took_ns_ != 0) gap_ns_ = smoothed(gap_ns_, std::min(now_ns - took_ns_, 16 * max_ns_ + 1));
        took_ns_ = now_ns;
    }
    // For a reply that leaves now, in microseconds. The node looks for at least so long.
    uint32_t announce(uint64_t now_ns) {
        const uint64_t wanted = 4 * gap_ns_;
        const uint64_t for_ns = gap_ns_ != 0 && wanted <= max_ns_ ? wanted : 0;
        if (for_ns != 0) until_ns_ = std::max(until_ns_, now_ns + for_ns + margin_ns);
        return uint32_t(for_ns / 1000);
    }
    // A WRITE is under way: its head is there.
    void expect(uint64_t now_ns) { until_ns_ = std::max(until_ns_, now_ns + margin_ns); }
    uint32_t service_us(uint64_t now_ns) const { return uint32_t(std::min<uint64_t>((now_ns - took_ns_) / 1000, UINT32_MAX)); }
    bool open(uint64_t now_ns) const { return now_ns < until_ns_; }

    static constexpr uint64_t margin_ns = 20'000;  // flight of a WRITE that the proxy posted at the last moment

  private:
    const uint64_t max_ns_;
    uint64_t gap_ns_ = 0, took_ns_ = 0, until_ns_ = 0;
};

// Which of the three ways the requests of one link take. Automatic: it measures one after the other, then uses the fastest.
class RpcChoice {
  public:
    // last: the last of the modes that are possible here.
    RpcChoice(RpcMode wanted, RpcMode last)
        : automatic_(wanted == RpcMode::automatic), last_(last), now_(automatic_ ? RpcMode::send : wanted) {}

    RpcMode now() const { return now_; }
    bool automatic() const { return automatic_; }
    // A reply came; the round trip of its request, which left in mode `of`.
    void measured(RpcMode of, uint64_t round_trip_ns) {
        if (!automatic_ || of != now_) return;
        uint64_t& mean = mean_ns_[size_t(of)];
        mean = smoothed(count_ == 0 ? 0 : mean, round_trip_ns);
        if (++count_ < (trial_ ? trial_replies : settled_replies)) return;
        count_ = 0;
        if (trial_ && now_ != last_) {
            now_ = RpcMode(uint8_t(now_) + 1);
        } else if (trial_) {
            trial_ = false;
            for (const RpcMode mode : {RpcMode::send, RpcMode::write})
                if (mode < last_ && mean_ns_[size_t(mode)] < mean_ns_[size_t(now_)]) now_ = mode;
        } else {
            trial_ = true;
            now_ = RpcMode::send;
        }
    }

    static constexpr uint32_t trial_replies = 64, settled_replies = 16384;

  private:
    const bool automatic_;
    const RpcMode last_;
    RpcMode now_;
    bool trial_ = true;
    uint32_t count_ = 0;
    std::array<uint64_t, size_t(RpcMode::count)> mean_ns_{};
};

}  // namespace farcached::fabric
