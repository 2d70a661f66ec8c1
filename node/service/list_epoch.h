// SPDX-License-Identifier: BSD-3-Clause
// ListEpoch: the newest list of nodes that a node knows of, and which keys are its own by that list (S17). A farcached that does
// not see etcd may still choose nodes by an older list. Its requests for keys that moved away are not executed.
//
// Owner: the ServiceShared of all connections. Any thread; of requests, only those of an older list take the lock.
//
// E1  An epoch is the newest revision of etcd at which a proxy's list was the list, as far as it knows. Equal lists can have
//     several. The proxy chose this node for the requests that follow by a list; it names that list's epoch. 0: the list has none
//     (--node, DNS, or etcd lost its data), and nothing is refused.
// E2  A proxy with a newer list sends the node the keys that are its own now (`keep`), before it uses another node for the
//     keys that moved away. From then on requests of an older epoch are executed only for keys that are still the node's
//     own. Mutations are not, if a list after that epoch gave the key to another node, which may still have an old item
//     (Fleet in t/unit/node/list_epoch). Where items have copies, mutations are executed only for keys whose nodes no list
//     has changed since that epoch. `keep` names the epochs of the list before. The node executes no mutation by a list in
//     between, which the proxy may have skipped. Nor does it by a list from before those that `keep` has named. A flush by
//     an older list is not executed, because it does not go to nodes that have joined. The node deletes nothing if both
//     lists of `keep`, and the newest list that it knows, give it the same keys, and it has deleted its items of other keys
//     since. With copies these keys must also have the same nodes.
// E3  When a node registers, it does not know which keys are its own. Requests of an epoch before its record are not executed. Nor
//     is any with an epoch once the node is about to end its registration.
// E4  The node knows an epoch since which it has had the same keys. Only proxies with that one or a newer one may bring items of
//     before (daemon/steps/moved_items.h): by a list in between, other nodes may have had the keys.
// E5  A proxy that starts knows no list before its own, and the proxies that used one may have ended. So it sends its first list
//     (`first`). If the node knows that list, and has deleted what the list does not keep, it does nothing. Otherwise that is a
//     change: the node executes requests of earlier epochs for its own keys alone, or, where items have copies, gets alone, and
//     none from before the list was known (`since`). So no proxy changes an item by a list that its nodes do not know. A node
//     that joins receives its keys, too.
// E6  Where items have copies, a get of an older list is executed for a key that all lists since then give the node. The key's
//     other node may be another one now. The item here is as new as that of the key's first node (S20), for every proxy.
// E7  The node may learn that a proxy uses a newer list, but does not reach the node (daemon/farnode/unsent_lists.h). The node does
//     not know which keys are its own by that list. So it executes no request of an earlier one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/broken.h"
#include "protocol/owned_keys.h"

namespace farcached::node {

class ListEpoch {
  public:
    static constexpr uint64_t leaving = INT64_MAX;  // as a revision: newer than any
    // The node's record has this revision, since the last call with another one. It may be lower than earlier ones if etcd lost its
    // data. 0: there is none yet.
    // True: it is another one.
    bool registered(uint64_t revision) {
        std::lock_guard hold(lock_);
        if (std::exchange(record_, revision) == revision) return false;
        own_.reset();
        own_lists_.clear();
        own_since_ = revision;
        follow(nullptr);
        began_ = revision;
        other_ = revision - (revision != 0);
        oldest_ = known_ = 0;
        received_ = 0;
        forget_changes(revision);
        epoch_.store(revision, std::memory_order_release);
        note_horizon();
        return true;
    }
    // By a proxy's list of that epoch the node keeps these keys; nullptr: the node cannot read which. False: it has deleted the
    // others before (E2, E5); else deleted() follows.
    bool kept(uint64_t epoch, std::shared_ptr<const protocol::KeptKeys> keys) {
        std::lock_guard hold(lock_);
        received_ = std::max(received_, epoch);
        const bool is_known = keys != nullptr && has_deleted_ && is_last(*keys);
        if (is_known && keys->first) {
            known_ = std::max(known_, epoch);
            if (!keys->unmoved.has_value()) note_own(epoch, keys);
            if (own_ != nullptr && epoch > other_) began_ = std::min(began_, epoch);
            note_horizon();
            return false;
        }
        const bool deletes = !is_known || moves(*keys);
        if (keys == nullptr || !keys->unmoved.has_value())
            take_own(epoch, std::move(keys));
        else
            changed(epoch, std::move(keys));
        note_horizon();
        return deletes;
    }
    // The node has deleted all items that these do not keep.
    void deleted(const std::shared_ptr<const protocol::KeptKeys>& keys) {
        std::lock_guard hold(lock_);
        if (keys == last_) has_deleted_ = true;
    }
    // E7. From now on no request of an earlier epoch is executed. False: the node knows the lists up to that one. The items stay:
    // before a proxy that starts uses such a node again, it sends its list (E5).
    bool refuse_before(uint64_t epoch) {
        std::lock_guard hold(lock_);
        if (epoch <= known_to()) return false;
        take_own(epoch, nullptr);
        note_horizon();
        return true;
    }
    // Up to that epoch proxies have sent their lists, or the node has registered since, or refuses what is earlier.
    uint64_t known_to() const { return horizon_.load(std::memory_order_acquire); }
    // The newest epoch at which a proxy has sent its list since the node registered; 0: none.
    uint64_t received() const {
        std::lock_guard hold(lock_);
        return received_;
    }

    // E4. named: as in is_old().
    bool has_had_keys_since(uint64_t named) const {
        std::lock_guard hold(lock_);
        return named >= began_;
    }

    uint64_t newest() const { return epoch_.load(std::memory_order_acquire); }
    // The node is about to end its registration (E3).
    bool is_leaving() const { return newest() == leaving; }
    // named: a proxy's.
    bool is_old(uint64_t named) const { return named != 0 && named < newest(); }
    // Has the key another home, by a newer list than the proxy's? reads: the request changes nothing.
    bool moved_away(uint64_t named, std::string_view key, bool reads) const {
        if (named == 0 || named >= horizon_.load(std::memory_order_acquire)) [[likely]] return false;
        if constexpr (broken::build)
            if (broken::s17_take_old_epoch) return false;
        std::lock_guard hold(lock_);
        if (own_ != nullptr) return !own_->owns(key) || (!reads && has_left(named, key));
        if (!is_old(named) || (reads && keeps_copy(named, key))) return false;
        if (named < oldest_) return true;
        return std::ranges::any_of(changes_, [&](const Change& one) {
            return named < one.epoch && ((named > one.last && !reads) || !one.keys->unmoved->owns(key));
        });
    }

  private:
    // Several proxies send a change to the node.
    static constexpr size_t changes_max = 64;
    struct OwnList {
        uint64_t epoch;
        std::shared_ptr<const protocol::OwnedKeys> keys;
    };
    struct Change {
        uint64_t last, epoch;  // the former list's last epoch, and one of the new list. In between its proxy knows no list
        std::shared_ptr<const protocol::KeptKeys> keys;
    };

    // Of a list as new as any before.
    void follow(std::shared_ptr<const protocol::KeptKeys> keys) {
        has_deleted_ = has_deleted_ && keys != nullptr && is_last(*keys);
        last_ = std::move(keys);
    }
    // E6
    bool keeps_copy(uint64_t named, std::string_view key) const {
        if (named < oldest_ || last_ == nullptr || !last_->unmoved.has_value() || !last_->keeps(key)) return false;
        return std::ranges::all_of(changes_, [&](const Change& one) { return named >= one.epoch || one.keys->keeps(key); });
    }
    bool is_last(const protocol::KeptKeys& keys) const {
        if (last_ == nullptr || last_->unmoved.has_value() != keys.unmoved.has_value()) return false;
        if (keys.unmoved.has_value()) return keys.identity != 0 && last_->identity == keys.identity;
        return !keys.lists.back().none() && last_->lists.back() == keys.lists.back();  // "none" may stand for any keys
    }
    // May the node gain or lose keys by the new list, or, with copies, have keys with other nodes? With copies one list alone may
    // stand for both.
    static bool moves(const protocol::KeptKeys& keys) {
        if (keys.lists.front() != keys.lists.back()) return true;
        return keys.unmoved.has_value() && (keys.lists.size() == 1 || *keys.unmoved != keys.lists.front());
    }
    void take_own(uint64_t epoch, std::shared_ptr<const protocol::KeptKeys> keys) {
        // A proxy sends "none" for any keys that take too long to describe.
        const bool same = keys != nullptr && own_ != nullptr && !own_->none() && keys->lists.back() == *own_;
        if (same && epoch > other_) began_ = std::min(began_, epoch);
        note_own(epoch, keys);
        const bool is_before = epoch < known_ && (keys == nullptr || !is_last(*keys));
        if (is_before) epoch_.store(std::max(known_, newest()), std::memory_order_release);
        if (epoch < newest()) {
            if (!same && epoch > other_) other_ = epoch;
            if (!same && epoch >= began_) began_ = newest();
            return;
        }
        if (!same) {
            if (newest() != record_) other_ = newest();  // else no list has come since it registered
            began_ = epoch;
        }
        follow(keys);
        forget_changes(epoch);
        own_.reset();
        if (keys != nullptr) own_ = {keys, &keys->lists.back()};
        epoch_.store(epoch, std::memory_order_release);
    }
    // Without copies.
    void note_own(uint64_t epoch, const std::shared_ptr<const protocol::KeptKeys>& keys) {
        if (keys == nullptr) return (void)(own_since_ = std::max(own_since_, epoch));
        const auto same = std::ranges::find_if(own_lists_, [&](const OwnList& one) { return *one.keys == keys->lists.back(); });
        if (same != own_lists_.end()) return (void)(same->epoch = std::max(same->epoch, epoch));
        own_lists_.push_back({epoch, {keys, &keys->lists.back()}});
        if (own_lists_.size() <= changes_max) return;
        const auto first = std::ranges::min_element(own_lists_, {}, &OwnList::epoch);
        own_since_ = std::max(own_since_, first->epoch);
        own_lists_.erase(first);
    }
    // Without copies. Did a list after that epoch give the key to another node?
    bool has_left(uint64_t named, std::string_view key) const {
        return named < own_since_ || std::ranges::any_of(own_lists_, [&](const OwnList& one) {
                   return named < one.epoch && !one.keys->owns(key);
               });
    }
    // With copies.
    void changed(uint64_t epoch, std::shared_ptr<const protocol::KeptKeys> keys) {
        if (epoch < known_ && !is_last(*keys)) epoch = known_;
        else if (epoch >= newest()) follow(keys);
        const uint64_t known = newest();
        began_ = other_ = std::max(epoch, known);
        own_lists_.clear();
        own_since_ = began_;
        if (own_ != nullptr || keys->since > known) forget_changes(keys->since);  // what changed before that is not known
        own_.reset();
        const auto is_same = [&](const Change& one) {
            return one.epoch == epoch && one.last <= keys->last && one.keys->unmoved == keys->unmoved;
        };
        if (std::ranges::none_of(changes_, is_same)) {
            if (changes_.size() == changes_max) {
                oldest_ = std::max(oldest_, changes_.front().epoch);
                changes_.pop_front();
            }
            changes_.push_back({keys->last, epoch, std::move(keys)});
        }
        epoch_.store(std::max(epoch, known), std::memory_order_release);
    }
    void note_horizon() { horizon_.store(std::max(known_, newest()), std::memory_order_release); }
    void forget_changes(uint64_t epoch) {
        changes_.clear();
        oldest_ = std::max(oldest_, epoch);
    }

    std::atomic<uint64_t> epoch_{0}, horizon_{0};  // horizon_: requests of no later epoch may be of another list
    mutable std::mutex lock_;
    uint64_t received_ = 0;
    uint64_t record_ = 0;
    std::shared_ptr<const protocol::OwnedKeys> own_;  // without copies; nullptr: not known (E3)
    std::vector<OwnList> own_lists_;                  // without copies, each different one, with the newest epoch of it
    uint64_t own_since_ = 0;                          // own_lists_ has all lists from then on
    uint64_t began_ = 0, other_ = 0;                  // E4; the last epoch by which it had other keys
    std::deque<Change> changes_;                      // with copies
    uint64_t oldest_ = 0;                             // earlier changes are not known
    // E5: of the newest list; nullptr: not known; and the newest epoch at which a proxy sent it again. Another list of an epoch
    // before that is an old one.
    std::shared_ptr<const protocol::KeptKeys> last_;
    bool has_deleted_ = false;
    uint64_t known_ = 0;
};

}  // namespace farcached::node
