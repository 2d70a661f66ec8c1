// SPDX-License-Identifier: BSD-3-Clause
// Eviction policies as pure code with a test clock. Each runs beside a model of it (t/unit/node/policy_models.h), on
// random, Zipf and adversarial sequences. Both have the same victim, the same lengths of queues and the same counts at
// every step. Under every policy the queues hold the items and no other, an item's queue fits its count, and no leased
// item is evicted.
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "node/policy/policy.h"
#include "t/lib/tap.h"
#include "t/unit/node/policy_models.h"

using namespace farcached;
using namespace farcached::node;

namespace {

int wrong = 0;

void fault(const std::string& what) {
    if (wrong++ < 5) std::printf("# wrong: %s\n", what.c_str());
}

std::unique_ptr<models::Model> model_of(PolicyKind kind, models::World& world) {
    switch (kind) {
        case PolicyKind::clock: return std::make_unique<models::Clock>(world);
        case PolicyKind::pdla: return std::make_unique<models::Pdla>(world);
        case PolicyKind::mq: return std::make_unique<models::Mq>(world);
        case PolicyKind::s3fifo: return std::make_unique<models::S3Fifo>(world);
        case PolicyKind::pdla_paper: return std::make_unique<models::PdlaPaper>(world);
        default: return std::make_unique<models::Lru>(world);
    }
}

LeaseConfig lease_config() {
    LeaseConfig config;
    config.term_ms_min = 2000;
    config.term_ms_max = 70'000;
    return config;
}

// A cache of one size class, whose items are numbers; it imitates node::Partition.
class Cache {
  public:
    static constexpr uint8_t size_class = 7;

    Cache(PolicyKind kind, size_t capacity)
        : kind_(kind),
          descriptors_(capacity + 1),
          items_(descriptors_.data()),
          terms_(kind, lease_config()),
          model_(model_of(kind, world_)) {
        choose_policy(policy_, kind, /* private_seed= */ 1);
        for (size_t i = 0; i <= capacity; i++) free_.push_back(Ref(i));
        world_.may_go = [this](int id) { return id != pinned_ && !world_.leased(id); };
        world_.reads = [this](int id) { return std::exchange(model_unseen_[id], 0u); };
    }

    void pass(uint32_t seconds) { now_ += seconds, world_.now = now_; }
    void press(double use, double share) { terms_.press(use, share, 0); }
    bool has(int id) const { return refs_.contains(id); }
    size_t size() const { return refs_.size(); }

    // A get that stores a missing item.
    void get(int id) {
        if (!has(id)) return set(id);
        bump(id, 1);
        world_.facts[id].touches = std::min<uint32_t>(world_.facts[id].touches + 1, 65536);
        world_.facts[id].last_access = now_;
        if (model_) model_->accessed(id, 1);
        check();
    }
    void set(int id, bool touched = true) {
        const bool exists = has(id);
        pinned_ = exists ? id : -1;
        if (free_.size() < (exists ? 1u : 2u) && !evict()) return;
        pinned_ = -1;
        const Ref ref = free_.back();
        free_.pop_back();
        Descriptor& item = items_[ref];
        std::memset(static_cast<void*>(&item), 0, sizeof item);
        item.last_access = now_;
        unseen_[id] = model_unseen_[id] = 0;
        const Moment at{items_, now_};
        if (exists) {
            const Ref old = refs_[id];
            models::Facts& facts = world_.facts[id];
            world_.before = facts;
            facts.lease_end = 0;
            if (touched) facts.touches = std::min<uint32_t>(facts.touches + 1, 65536);
            if (touched) facts.last_access = now_;
            item.access_count = uint16_t(std::min<uint32_t>(items_[old].access_count + (touched ? 1 : 0), UINT16_MAX));
            item.last_access = facts.last_access;
            item.queue = items_[old].queue;
            std::visit([&](auto& p) { p.replaced(at, size_class, ref, touched); }, policy_);
            if (model_) model_->replaced(id, touched);
            remove(old, id, false);
        } else {
            world_.facts[id] = {1, now_, 0};
            std::visit([&](auto& p) { p.inserted(at, size_class, ref, models::hash_of(id)); }, policy_);
            if (model_) model_->inserted(id);
        }
        refs_[id] = ref;
        ids_[ref] = id;
        check();
    }
    void erase(int id) {
        if (!has(id)) return;
        const Ref ref = refs_[id];
        if (model_) model_->removed(id);
        remove(ref, id, false);
        refs_.erase(id);
        world_.facts.erase(id);
        check();
    }
    void read_unseen(int id, uint32_t times) {
        if (!has(id)) return;
        unseen_[id] = model_unseen_[id] = std::max(times, unseen_[id]);
    }
    // As long as its popularity earns; not under the faithful policies.
    void lease(int id) {
        if (!has(id) || !may_lease(kind_)) return;
        const uint32_t term_ms = terms_.term_ms(world_.facts[id].touches, items_[refs_[id]].queue);
        if (term_ms == 0) return;
        const uint32_t end = now_ + (term_ms + 999) / 1000 + 1;
        items_[refs_[id]].lease_end = std::max(items_[refs_[id]].lease_end, end);
        world_.facts[id].lease_end = items_[refs_[id]].lease_end;
    }
    // True: something went.
    bool evict() {
        const auto may_go = [&](Ref ref) { return ids_[ref] != pinned_ && !leased(ref); };
        const auto was_read = [&](Ref ref) {
            const uint32_t times = std::exchange(unseen_[ids_[ref]], 0u);
            if (times != 0) bump(ids_[ref], times);
            return times != 0;
        };
        const Moment at{items_, now_};
        const Candidates candidates{may_go, was_read};
        const Ref ref = std::visit([&](auto& p) { return p.victim(at, size_class, candidates); }, policy_);
        const int id = ref == nil ? -1 : ids_[ref];
        if (ref != nil && leased(ref)) fault("a victim whose lease runs");
        if (model_) {
            const int same = model_->victim().value_or(-1);
            if (same != id) fault(std::string(name_of(kind_)) + ": victim " + std::to_string(id) + ", not " + std::to_string(same));
        }
        check();
        if (ref == nil) return false;
        evictions_++;
        if (model_) model_->evicted(id);
        remove(ref, id, true);
        refs_.erase(id);
        world_.facts.erase(id);
        return true;
    }
    uint64_t evictions() const { return evictions_; }
    uint32_t queue(int id) const { return items_[refs_.at(id)].queue; }
    void hold(int id, uint32_t seconds) {
        items_[refs_[id]].lease_end = world_.facts[id].lease_end = now_ + seconds;
    }
    void add_touches(int id, uint32_t touches) {
        items_[refs_[id]].access_count = uint16_t(items_[refs_[id]].access_count + touches);
        world_.facts[id].touches += touches;
    }

    // The rules of every policy.
    void check_all() {
        size_t walked = 0;
        const Moment at{items_, now_};
        std::visit([&](auto& p) {
            p.walk(at, size_class, 10'000, [&](Ref ref) {
                walked++;
                if (ids_[ref] < 0 || refs_[ids_[ref]] != ref) fault("a list shows what is no item");
                return false;
            });
        }, policy_);
        if (walked != size()) fault("not all items are in a list");
        if (!model_) return;
        for (const auto& [id, ref] : refs_) {
            if (items_[ref].access_count + 1u != world_.facts[id].touches) fault("counts differ");
            if (kind_ == PolicyKind::pdla && items_[ref].queue != models::log_queue(world_.facts[id].touches))
                fault("an item is not in the queue of its count");
        }
    }

  private:
    bool leased(Ref ref) const { return may_lease(kind_) && lease_runs(items_[ref], now_); }

    void bump(int id, uint32_t times) {
        Descriptor& item = items_[refs_[id]];
        item.last_access = now_;
        item.access_count = uint16_t(std::min<uint64_t>(uint64_t(item.access_count) + times, UINT16_MAX));
        const Moment at{items_, now_};
        std::visit([&](auto& p) { p.accessed(at, size_class, refs_[id], times); }, policy_);
    }
    void remove(Ref ref, int id, bool evicted) {
        const Moment at{items_, now_};
        std::visit([&](auto& p) {
            if constexpr (std::remove_reference_t<decltype(p)>::remembers)
                if (evicted) return p.evicted(at, size_class, ref, models::hash_of(id));
            p.removed(at, size_class, ref);
        }, policy_);
        ids_[ref] = -1;
        free_.push_back(ref);
    }
    void check() {
        uint64_t sum = 0;
        for (uint32_t queue = 0; queue < popularity_queues; queue++) {
            const uint64_t length = std::visit([&](auto& p) { return p.length(size_class, queue); }, policy_);
            sum += length;
            if (model_ && length != model_->length(queue))
                fault(std::string(name_of(kind_)) + ": queue " + std::to_string(queue) + " has " + std::to_string(length) +
                      ", not " + std::to_string(model_->length(queue)));
        }
        if (sum != refs_.size()) fault("the queues hold " + std::to_string(sum) + " of " + std::to_string(refs_.size()));
        const Ref next = std::visit([&](auto& p) { return p.next_to_go(size_class); }, policy_);
        if ((next == nil) != refs_.empty()) fault("next to go: none, or one of nothing");
    }

    const PolicyKind kind_;
    std::vector<Descriptor> descriptors_;
    const Descriptors items_;
    LeaseTerms terms_;
    Policy policy_;
    models::World world_;
    std::unique_ptr<models::Model> model_;
    std::vector<Ref> free_;
    std::map<int, Ref> refs_;
    std::map<Ref, int> ids_;
    std::map<int, uint32_t> unseen_, model_unseen_;
    uint32_t now_ = 0;
    int pinned_ = -1;
    uint64_t evictions_ = 0;
};

class Zipf {
  public:
    explicit Zipf(int keys) {
        double sum = 0;
        for (int i = 1; i <= keys; i++) sums_.push_back(sum += 1 / std::pow(i, 0.99));
    }
    int operator()(std::mt19937_64& dice) const {
        const double at = double(dice() >> 11) * 0x1p-53 * sums_.back();
        return int(std::lower_bound(sums_.begin(), sums_.end(), at) - sums_.begin());
    }

  private:
    std::vector<double> sums_;
};

// Returns the item of each step of a sequence.
using Next = std::function<int(int step, std::mt19937_64&)>;

void run(PolicyKind kind, uint64_t seed, size_t capacity, int steps, const Next& next) {
    std::mt19937_64 dice(seed);
    Cache cache(kind, capacity);
    cache.pass(1000);
    for (int i = 0; i < steps; i++) {
        const int id = next(i, dice);
        switch (dice() % 32) {
            case 0: cache.pass(uint32_t(dice() % 3)); break;
            case 1: cache.set(id); break;
            case 2: cache.set(id, /* touched= */ !cache.has(id)); break;
            case 3: cache.erase(id); break;
            case 4: cache.read_unseen(id, 1 + uint32_t(dice() % 3)); break;
            case 5: cache.lease(id); break;
            case 6:
                if (dice() % 200 == 0) cache.pass(uint32_t(dice() % 300));
                if (dice() % 50 == 0) cache.read_unseen(id, UINT32_MAX);
                if (dice() % 50 == 0) cache.press(double(dice() % 5) / 4, double(dice() % 5) / 4);
                break;
            default:
                cache.get(id);
                if (dice() % 4 == 0) cache.lease(id);
        }
        if (i % 64 == 0) cache.check_all();
    }
    cache.check_all();
    if (cache.evictions() == 0) fault("a sequence without an eviction");
}

void all_sequences(PolicyKind kind) {
    const std::string name(name_of(kind));
    const Zipf zipf(600);
    const int before = wrong;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        run(kind, seed, 10 + 30 * seed, 6000, [](int, std::mt19937_64& dice) { return int(dice() % 200); });
        run(kind, seed, 20 * seed * seed, 6000, [&](int, std::mt19937_64& dice) { return zipf(dice); });
    }
    tap::is(wrong, before, name + ": random and Zipf");
    // One more than there is room for, round and round.
    run(kind, 4, 50, 4000, [](int step, std::mt19937_64&) { return step % 51; });
    // A hot set, and scans of keys that never come again.
    run(kind, 5, 100, 8000, [](int step, std::mt19937_64& dice) {
        return step % 1000 < 300 ? 1000 + step : int(dice() % 60);
    });
    // The hot set moves.
    run(kind, 6, 100, 8000, [&](int step, std::mt19937_64& dice) { return zipf(dice) + step / 1000 * 50; });
    // Each several times in turn, so that all climb.
    run(kind, 7, 40, 8000, [](int step, std::mt19937_64&) { return step / 20 % 60; });
    // One item in 99 of 100 steps: its count has no bound.
    run(kind, 8, 8, 8000, [](int step, std::mt19937_64&) { return step % 100 == 0 ? step / 100 % 50 : 1'000'000; });
    tap::is(wrong, before, name + ": loops, scans, a hot set that moves, steps, and one item for ever");
}

// Under leases, all of it.
void all_leased(PolicyKind kind) {
    Cache cache(kind, 30);
    cache.pass(10);
    for (int i = 0; i < 30; i++)
        for (int k = 0; k < 3; k++) {
            cache.get(i);
            cache.lease(i);
        }
    for (int i = 100; i < 200; i++) cache.set(i);
    const std::string name(name_of(kind));
    int left = 0;
    for (int i = 0; i < 30; i++) left += cache.has(i) ? 1 : 0;
    if (may_lease(kind)) tap::is(left, 30, name + ": what is leased stays");
    if (!may_lease(kind)) tap::ok(left < 30, name + ": nothing is leased");
    cache.pass(400);
    for (int i = 300; i < 1000; i++) cache.set(i);
    left = 0;
    for (int i = 0; i < 30; i++) left += cache.has(i) ? 1 : 0;
    tap::ok(left < 30, name + ": until the leases end");
}

// The rules of the paper one by one, without a model.
void promoted_by_one() {
    Cache cache(PolicyKind::pdla_paper, 20);
    cache.pass(10);
    cache.get(1);
    tap::is(cache.queue(1), 0u, "pdla_paper: what is new is in the lowest queue");
    cache.get(1);
    tap::is(cache.queue(1), 1u, "a second touch takes it to the next");
    cache.get(2);
    cache.get(2);
    tap::is(cache.queue(1), 0u, "another's hit takes it down again where no lease runs");
    cache.get(1);
    cache.hold(1, 100);
    cache.get(2);
    tap::is(cache.queue(1), 1u, "under a lease it stays");
    cache.add_touches(1, 200);
    cache.get(1);
    tap::is(cache.queue(1), 2u, "a hit takes it one queue higher, however many touches it has");
    cache.pass(200);
    cache.get(2);
    tap::is(cache.queue(1), 1u, "after its lease another's hit takes it one lower");
    cache.get(1);
    tap::is(cache.queue(1), 2u, "and its touches are what they were");
}

}  // namespace

int main() {
    for (size_t i = 0; i < policy_names.size(); i++) {
        all_sequences(PolicyKind(i));
        all_leased(PolicyKind(i));
    }
    promoted_by_one();
    tap::is(wrong, 0, "each did what its model did");
    return tap::done();
}
