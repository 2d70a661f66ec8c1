// SPDX-License-Identifier: BSD-3-Clause
// KeyPass: one pass over the keys of a node's items, in portions, for the proxies that look for missing copies (replicas = 2).
// Several proxies share a pass: each portion goes to one of them.
//
// Owner: the ServiceShared of all connections. Any thread; one lock.
//
// K1  A pass visits each page once. It may miss an item that moves to another page, or that is stored during the
//     pass: that mutation has stored the copy, too.
// K2  Each proxy asks for a pass when it has had a changed list for same_change_ns (Replicas). So a pass that began later than that
//     had the proxy's list all the time: the request is one for the same change. Of an earlier pass this proxy may have taken
//     portions by its former list: it begins again at its end.
// K3  A portion has portion_keys keys at most, and visits pages_max pages at most.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/node_clock.h"
#include "node/store/node.h"
#include "protocol/key_list.h"

namespace farcached::node {

class KeyPass {
  public:
    static constexpr size_t portion_keys = 100;
    static constexpr uint64_t pages_max = 64;
    static constexpr uint64_t same_change_ns = 1'000'000'000;

    void begin(uint64_t now_ns) {
        std::lock_guard hold(lock_);
        if (!running_) return start(now_ns);
        again_ = again_ || now_ns - began_ns_ > same_change_ns;
    }
    // Appends the next keys as protocol::append_key() does. False: there are no more. Throws std::bad_alloc: keys may be left out.
    bool take(Node& node, NodeSeconds now, uint64_t now_ns, std::string& keys) {
        std::lock_guard hold(lock_);
        for (uint64_t pages = 0; running_ && rest_.size() < portion_keys && pages < pages_max; pages++) {
            if (page_ >= node.page_count()) {
                running_ = false;
                if (std::exchange(again_, false)) start(now_ns);
                continue;
            }
            node.visit_page(page_++, now, [this](const ItemView& item) { rest_.emplace_back(item.key); });
        }
        for (size_t n = 0; n < portion_keys && !rest_.empty(); n++) {
            protocol::append_key(keys, rest_.back());
            rest_.pop_back();
        }
        return running_ || !rest_.empty();
    }

  private:
    void start(uint64_t now_ns) {
        running_ = true;
        began_ns_ = now_ns;
        page_ = 0;
    }

    std::mutex lock_;
    bool running_ = false, again_ = false;
    uint64_t began_ns_ = 0;
    uint64_t page_ = 0;
    std::vector<std::string> rest_;  // of visited pages
};

}  // namespace farcached::node
