// SPDX-License-Identifier: BSD-3-Clause
// KeyPass: one pass over the keys of a node's items, in portions, for the proxies that look for missing copies (replicas = 2).
// Several proxies share a pass: each portion goes to one of them. A pass gives recently used items first. It has a round for each
// of ages_s, and a last one.
//
// Owner: the ServiceShared of all connections. Any thread; one lock.
//
// K1  A pass gives each item once or twice. The first round visits each page, and notes the rounds of its items. An item that is
//     not accessed later keeps its round. An access after that visit sets last_access to the begin or later: the last round visits
//     each page, and gives such items again. The rounds between visit the noted pages only.
//     A pass may miss an item that is stored during the pass, or moves to another page: that mutation has stored the copy, too.
// K2  A proxy begins a pass same_change_ns after its list of nodes has changed (Replicas). A pass that began less than that before
//     serves this change, too: the proxy took all its portions by the new list. After an older pass another one follows.
// K3  A portion has at most portion_keys keys. It visits no further page after steps_max pages and items.
// K4  However many proxies share a pass, a portion begins portion_ns after the one before at earliest: 5,000 keys a second. A proxy
//     that asks earlier receives no key, and asks again after a pause (KeyPasses).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/node_clock.h"
#include "node/store/node.h"
#include "node/store/pages.h"
#include "protocol/key_list.h"

namespace farcached::node {

class KeyPass {
  public:
    static constexpr size_t portion_keys = 100;
    static constexpr uint64_t portion_ns = 20'000'000;
    // The 64 million items of a 64 GB node are 4,000 portions, 80 s, for a round that visits them and gives none.
    static constexpr uint64_t steps_max = 16'384;
    static constexpr uint64_t same_change_ns = 1'000'000'000;
    // By round: the longest time from an item's last access to the begin of the pass. The last round has no limit.
    static constexpr std::array<uint32_t, 4> ages_s{10, 100, 1000, 10'000};

    void begin(NodeSeconds now, uint64_t now_ns) {
        std::lock_guard hold(lock_);
        if (!running_) return start(now, now_ns);
        again_ = again_ || now_ns - began_ns_ > same_change_ns;
    }
    // Appends the next keys as protocol::append_key() does, or none before the time (K4). False: there are no more. Throws
    // std::bad_alloc: keys may be left out.
    bool take(Node& node, NodeSeconds now, uint64_t now_ns, std::string& keys) {
        std::lock_guard hold(lock_);
        if (!goes_on()) return false;
        if (now_ns < next_ns_) return true;
        next_ns_ = now_ns + portion_ns;
        const uint64_t pages = node.pages().count();
        for (uint64_t steps = 0; running_ && rest_.size() < portion_keys && steps < steps_max; steps++) {
            if (page_ >= pages)
                end_round(now, now_ns);
            else if (const uint64_t page = page_++; is_due(page))
                steps += visit(node, page, now);
        }
        for (size_t n = 0; n < portion_keys && !rest_.empty(); n++) {
            protocol::append_key(keys, rest_.front());
            rest_.pop_front();
        }
        return goes_on();
    }

  private:
    static constexpr size_t last_round = ages_s.size();
    static_assert(last_round < 8, "noted_ has a bit for each round");

    bool goes_on() const { return running_ || !rest_.empty(); }
    void start(NodeSeconds now, uint64_t now_ns) {
        running_ = true;
        began_ = now;
        began_ns_ = now_ns;
        round_ = page_ = 0;
    }
    void end_round(NodeSeconds now, uint64_t now_ns) {
        page_ = 0;
        if (round_++ < last_round) return;
        running_ = false;
        if (std::exchange(again_, false)) start(now, now_ns);
    }
    size_t round_of(NodeSeconds last_access) const {
        return size_t(std::ranges::lower_bound(ages_s, seconds_since(last_access, began_)) - ages_s.begin());
    }
    bool is_due(uint64_t page) const {
        if (round_ == 0 || round_ == last_round) return true;
        return page < noted_.size() && (noted_[page] >> round_ & 1) != 0;
    }
    // Returns the number of items. No later access of them sets an earlier time: the page's partition keeps the latest `now` (K1).
    uint64_t visit(Node& node, uint64_t page, NodeSeconds now) {
        if (noted_.size() <= page) noted_.resize(page + 1);
        uint64_t items = 0;
        uint8_t rounds = 0;
        node.pages().visit(page, std::max(now, began_), [&](const ItemView& item) {
            items++;
            const size_t round = round_of(item.meta.last_access);
            rounds |= uint8_t(1 << round);
            const bool is_again = round_ == last_round && item.meta.last_access >= began_;
            if (round == round_ || is_again) rest_.emplace_back(item.key);
        });
        if (round_ == 0) noted_[page] = rounds;
        return items;
    }

    std::mutex lock_;
    bool running_ = false, again_ = false;
    NodeSeconds began_ = 0;
    uint64_t began_ns_ = 0;
    uint64_t next_ns_ = 0;           // K4
    uint64_t round_ = 0, page_ = 0;  // the next visit
    std::vector<uint8_t> noted_;     // by page: a bit for each round
    std::deque<std::string> rest_;   // of visited pages
};

}  // namespace farcached::node
