// SPDX-License-Identifier: BSD-3-Clause
// Models of the eviction policies (node/policy/policy.h) for t/unit/node/policy.cc. They have the same rules over std::list
// and std::map, by key, oldest first, without regard to speed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "node/policy/policy.h"

namespace models {

using Id = int;
using Ids = std::list<Id>;
constexpr int chances = 64;

inline uint64_t hash_of(Id id) { return uint64_t(id + 1) * UINT64_C(0x9e3779b97f4a7c15); }

struct Facts {  // of an item, as the test keeps them
    uint32_t touches = 1;
    uint32_t last_access = 0;
    uint32_t lease_end = 0;
};

// The state that the test sets and a model queries.
struct World {
    uint32_t now = 0;
    std::map<Id, Facts> facts;
    Facts before;  // of what is replaced
    std::function<bool(Id)> may_go;
    std::function<uint32_t(Id)> reads;  // unseen until now, and no more afterwards

    bool leased(Id id) const { return facts.at(id).lease_end != 0 && facts.at(id).lease_end >= now; }
};

inline uint32_t log_queue(uint32_t touches) { return std::min<uint32_t>(7, uint32_t(std::floor(std::log2(touches)))); }

class Model {
  public:
    explicit Model(World& world) : world_(world), queues_(8) {}
    virtual ~Model() = default;
    virtual void inserted(Id id) { queues_[0].push_back(id); }
    virtual void replaced(Id id, bool touched) = 0;
    virtual void accessed(Id id, uint32_t times) = 0;
    virtual void removed(Id id) {
        for (Ids& queue : queues_) queue.remove(id);
    }
    virtual void evicted(Id id) { removed(id); }
    virtual std::optional<Id> victim() = 0;
    size_t length(size_t queue) const { return queues_[queue].size(); }
    size_t items() const {
        size_t sum = 0;
        for (const Ids& queue : queues_) sum += queue.size();
        return sum;
    }

  protected:
    // Follows the partition when a counter has moved.
    bool was_read(Id id) {
        const uint32_t times = world_.reads(id);
        if (times == 0) return false;
        Facts& facts = world_.facts[id];
        facts.touches = uint32_t(std::min<uint64_t>(uint64_t(facts.touches) + times, 65536));
        facts.last_access = world_.now;
        accessed(id, times);
        return true;
    }
    size_t queue_of(Id id) const {
        for (size_t i = 0; i < queues_.size(); i++)
            if (std::find(queues_[i].begin(), queues_[i].end(), id) != queues_[i].end()) return i;
        return 99;
    }
    void renew(Id id, size_t queue) {
        Model::removed(id);
        queues_[queue].push_back(id);
    }
    std::optional<Id> first_that_may(const Ids& queue, int depth) const {
        for (Id id : queue) {
            if (depth-- == 0) break;
            if (world_.may_go(id)) return id;
        }
        return std::nullopt;
    }
    // Over the queues, the lowest first, until four of one stay.
    std::optional<Id> search() {
        int left = chances;
        for (size_t i = 0; i < queues_.size(); i++) {
            int stay = 0;
            const std::vector<Id> order(queues_[i].begin(), queues_[i].end());
            for (size_t at = 0; at < order.size() && stay < 4; at++) {
                if (!world_.may_go(order[at])) {
                    stay++;
                    continue;
                }
                if (left == 0) return order[at];
                if (!was_read(order[at])) return order[at];
                left--;
            }
        }
        for (const Ids& queue : queues_)
            if (auto id = first_that_may(queue, 4)) return id;
        return std::nullopt;
    }

    World& world_;
    std::vector<Ids> queues_;
};

class Clock : public Model {
  public:
    using Model::Model;
    void replaced(Id id, bool) override {
        marked_[id] = false;
        renew(id, 0);
    }
    void accessed(Id id, uint32_t) override { marked_[id] = true; }
    void removed(Id id) override {
        Model::removed(id);
        marked_.erase(id);
    }
    std::optional<Id> victim() override {
        for (int i = 0; i < chances; i++) {
            if (queues_[0].empty()) return std::nullopt;
            const Id id = queues_[0].front();
            was_read(id);
            if (!marked_[id] && world_.may_go(id)) return id;
            if (queues_[0].size() == 1) return first_that_may(queues_[0], 1);
            marked_[id] = false;
            renew(id, 0);
        }
        return first_that_may(queues_[0], chances);
    }

  private:
    std::map<Id, bool> marked_;
};

class Lru : public Model {
  public:
    using Model::Model;
    void replaced(Id id, bool) override { renew(id, 0); }
    void accessed(Id id, uint32_t) override { renew(id, 0); }
    std::optional<Id> victim() override {
        for (int i = 0; i < chances && !queues_[0].empty(); i++) {
            const Id id = queues_[0].front();
            const bool may = world_.may_go(id);
            if (may && !was_read(id)) return id;
            if (!may) renew(id, 0);
        }
        return first_that_may(queues_[0], chances);
    }
};

// The last so many that were added, less those taken.
class Remembered {
  public:
    void add(Id id, uint32_t touches, size_t limit) {
        take(id);
        while (all_.size() >= limit) all_.pop_front();
        all_.push_back({id, touches});
    }
    uint32_t take(Id id) {
        for (auto& [other, touches] : all_)
            if (other == id && touches != 0) return std::exchange(touches, 0u);
        return 0;
    }

  private:
    std::deque<std::pair<Id, uint32_t>> all_;
};

class Pdla : public Model {
  public:
    using Model::Model;
    void inserted(Id id) override {
        uint32_t& touches = world_.facts[id].touches;
        touches = std::min<uint32_t>(touches + out_.take(id), 65536);
        update(id);
    }
    void evicted(Id id) override {
        out_.add(id, world_.facts[id].touches, std::max<size_t>(64, items() / 2));
        removed(id);
    }
    // The older generation is there until the newer one is, and may be demoted itself.
    void replaced(Id id, bool) override {
        const Id older = -2 - id;
        for (Ids& queue : queues_) std::replace(queue.begin(), queue.end(), id, older);
        world_.facts[older] = world_.before;
        update(id);
        removed(older);
        world_.facts.erase(older);
    }
    void accessed(Id id, uint32_t) override { update(id); }
    std::optional<Id> victim() override { return search(); }

  private:
    void update(Id id) {
        renew(id, log_queue(world_.facts[id].touches));
        if (world_.now > second_) {
            const uint32_t passed = world_.now - second_;
            const double rate = double(updates_[second_]) / passed, share = std::min(1.0, passed / 32.0);
            rate_ += (rate - rate_) * share;
            second_ = world_.now;
        }
        updates_[second_]++;
        for (size_t i = 1; i < 8; i++) look_at(i);
    }
    void look_at(size_t queue) {
        if (quiet_.contains(queue) && quiet_[queue] == world_.now) return;
        if (queues_[queue].empty()) return;
        const Id id = queues_[queue].front();
        Facts& facts = world_.facts[id];
        const double time_s = std::max(21.0, std::ceil(9.0 * double(items()) / rate_));
        if (rate_ < 1 || double(world_.now) - facts.last_access <= time_s) {
            quiet_[queue] = world_.now;
            return;
        }
        if (world_.leased(id)) return renew(id, queue);
        if (facts.touches >= 256) facts.touches = 255;
        facts.touches = std::max<uint32_t>(facts.touches / 8, 1);
        renew(id, log_queue(facts.touches));
    }

    std::map<size_t, uint32_t> quiet_;
    std::map<uint32_t, uint32_t> updates_;
    uint32_t second_ = 0;
    double rate_ = 0;
    Remembered out_;
};

class PdlaPaper : public Model {
  public:
    using Model::Model;
    // The older generation is there until the newer one is, and may be demoted itself.
    void replaced(Id id, bool touched) override {
        const size_t queue = queue_of(id);
        const Id older = -2 - id;
        for (Ids& one : queues_) std::replace(one.begin(), one.end(), id, older);
        world_.facts[older] = world_.before;
        touched ? hit(id, queue) : queues_[queue].push_back(id);
        removed(older);
        world_.facts.erase(older);
    }
    void accessed(Id id, uint32_t) override { hit(id, queue_of(id)); }
    std::optional<Id> victim() override {
        if (auto id = search()) return id;
        for (const Ids& queue : queues_)
            if (auto id = first_that_may(queue, 64)) return id;
        return std::nullopt;
    }

  private:
    void hit(Id id, size_t queue) {
        renew(id, queue + (log_queue(world_.facts[id].touches) > queue ? 1 : 0));
        for (size_t i = 1; i < 8; i++) {
            if (queues_[i].empty()) continue;
            const Id oldest = queues_[i].front();
            if (oldest != id && !world_.leased(oldest)) renew(oldest, i - 1);
        }
    }
};

class Mq : public Model {
  public:
    using Model::Model;
    void inserted(Id id) override {
        world_.facts[id].touches += out_.take(id);
        enter(id, log_queue(world_.facts[id].touches), items() + 1);
        tick();
    }
    void replaced(Id id, bool touched) override {
        // The older generation is still there.
        enter(id, touched ? log_queue(world_.facts[id].touches) : queue_of(id), items() + 1);
        if (touched) tick(1);
    }
    void accessed(Id id, uint32_t) override {
        enter(id, log_queue(world_.facts[id].touches), items());
        tick();
    }
    void evicted(Id id) override {
        out_.add(id, world_.facts[id].touches, std::max<size_t>(64, 4 * items()));
        removed(id);
    }
    std::optional<Id> victim() override { return search(); }

  private:
    void enter(Id id, size_t queue, size_t of) {
        renew(id, queue);
        ends_[id] = time_ + std::max<size_t>(64, 8 * of);
    }
    void tick(size_t more = 0) {
        time_++;
        for (size_t i = 1; i < 8; i++) {
            if (queues_[i].empty()) continue;
            const Id id = queues_[i].front();
            if (time_ > ends_[id]) enter(id, i - 1, items() + more);
        }
    }

    uint64_t time_ = 0;
    std::map<Id, uint64_t> ends_;
    Remembered out_;
};

// RecentlyEvicted as a list for each bucket, oldest first. An item is its bucket and tag.
class Evicted {
  public:
    // 0: small, 1: main. -1: unknown. Forgets it.
    int take(uint64_t hash) {
        if (buckets_.empty()) return -1;
        std::vector<Past>& bucket = bucket_of(hash);
        for (size_t i = bucket.size(); i-- > 0;) {
            if (bucket[i].tag != tag_of(hash)) continue;
            const int queue = bucket[i].queue;
            bucket.erase(bucket.begin() + long(i));
            counts_[queue]--;
            return queue;
        }
        return -1;
    }
    void add(uint64_t hash, int queue, size_t limit) {
        if (limit > for_ + for_ / 8 || 4 * limit < for_) {
            buckets_.assign((limit + 2) / 3, {});
            counts_[0] = counts_[1] = 0;
            for_ = limit;
        }
        std::vector<Past>& bucket = bucket_of(hash);
        if (bucket.size() == 3) {
            counts_[bucket.front().queue]--;
            bucket.erase(bucket.begin());
        }
        bucket.push_back({tag_of(hash), queue});
        counts_[queue]++;
    }
    uint64_t count(int queue) const { return counts_[queue]; }

  private:
    struct Past {
        uint32_t tag;
        int queue;
    };
    uint32_t tag_of(uint64_t hash) const { return farcached::node::RecentlyEvicted::place_of(hash, buckets_.size()).tag; }
    std::vector<Past>& bucket_of(uint64_t hash) {
        return buckets_[farcached::node::RecentlyEvicted::place_of(hash, buckets_.size()).bucket];
    }

    std::vector<std::vector<Past>> buckets_;
    size_t for_ = 0;  // the limit when the table was made
    uint64_t counts_[2] = {};
};

class S3Fifo : public Model {
  public:
    using Model::Model;
    void inserted(Id id) override {
        hits_[id] = 0;
        const int queue = evicted_.take(hash_of(id));
        if (queue >= 0) return returned(queue, id);
        put_newest(id);
    }
    // The older generation is there until the newer one is.
    void replaced(Id id, bool touched) override {
        const size_t queue = queue_of(id);
        const Id older = -2 - id;
        for (Ids& one : queues_) std::replace(one.begin(), one.end(), id, older);
        hits_[older] = hits_[id];
        if (queue == 0 && touched) hits_[id] = std::max(0, hits_[id] - 1);
        if (queue == 1 || (queue == 2 && touched)) accessed(id, 1);
        queue == 2 ? queues_[2].push_back(id) : put_newest(id);
        removed(older);
    }
    void accessed(Id id, uint32_t times) override { hits_[id] = int(std::min<int64_t>(3, hits_[id] + int64_t(times))); }
    void evicted(Id id) override {
        evicted_.add(hash_of(id), queue_of(id) == 2 ? 1 : 0, std::max<size_t>(64, items()));
        removed(id);
    }
    std::optional<Id> victim() override {
        for (int i = 0; i < chances; i++) {
            const size_t from = main_is_next() ? 2 : queues_[1].empty() ? 0 : 1;
            if (queues_[from].empty()) return std::nullopt;
            const Id id = queues_[from].front();
            was_read(id);
            if (hits_[id] <= (from == 0 ? 1 : 0) && world_.may_go(id)) return id;
            hits_[id] = from == 2 ? std::max(0, hits_[id] - 1) : 0;
            renew(id, 2);
        }
        Ids small = queues_[1];
        small.insert(small.end(), queues_[0].begin(), queues_[0].end());
        for (const bool main : {main_is_next(), false, true})
            if (auto id = first_that_may(main ? queues_[2] : small, chances)) return id;
        return std::nullopt;
    }

  private:
    void put_newest(Id id) {
        queues_[0].push_back(id);
        for (int moves = 0; moves < 2 && queues_[0].size() * 100 > items() + 100; moves++) {
            const Id oldest = queues_[0].front();
            hits_[oldest] = std::max(0, hits_[oldest] - 1);
            renew(oldest, 1);
        }
    }
    void returned(int queue, Id id) {
        const double mine = double(evicted_.count(queue) + 1), other = double(evicted_.count(1 - queue) + 1);
        const double change = 4 / double(std::max<size_t>(1, items())) * std::max(1.0, other / mine);
        share_ = std::min(0.99, std::max(0.01, share_ + (queue == 0 ? change : -change)));
        queues_[2].push_back(id);
    }
    bool main_is_next() const {
        const size_t small = queues_[0].size() + queues_[1].size();
        if (small == 0) return true;
        return !queues_[2].empty() && small * 65536 < size_t(share_ * 65536) * items();
    }

    std::map<Id, int> hits_;
    Evicted evicted_;
    double share_ = 0.5;
};

}  // namespace models
