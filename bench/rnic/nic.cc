// SPDX-License-Identifier: BSD-3-Clause
#include "bench/rnic/nic.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "bench/data.h"
#include "bench/rnic/events.h"

namespace farcached::bench {

namespace {

constexpr uint32_t none = UINT32_MAX;
constexpr double bits = 8;

// The way from host memory into the device: a round trip, and the bytes one after the other.
class PcieReads {
  public:
    explicit PcieReads(const RnicDevice& device)
        : round_trip_(picoseconds(device.pcie_round_trip_ns)), gbps_(device.pcie_gbps) {}

    // When the data of a read that is requested now has arrived.
    Picoseconds read(Picoseconds now, uint64_t bytes) {
        const Picoseconds took = picoseconds(double(bytes) * bits / gbps_);
        busy_ += took;
        return free_at_ = std::max(now + round_trip_, free_at_) + took;
    }
    Picoseconds busy() const { return busy_; }
    Picoseconds one_way() const { return round_trip_ / 2; }

  private:
    const Picoseconds round_trip_;
    const double gbps_;
    Picoseconds free_at_ = 0, busy_ = 0;
};

// The processing of messages, one after the other.
class Pipeline {
  public:
    explicit Pipeline(Picoseconds message_time) : message_time_(message_time) {}

    // When these messages, which are ready now, have left.
    Picoseconds send(Picoseconds now, uint32_t messages) {
        const Picoseconds took = message_time_ * messages;
        busy_ += took;
        return free_at_ = std::max(now, free_at_) + took;
    }
    Picoseconds busy() const { return busy_; }

  private:
    const Picoseconds message_time_;
    Picoseconds free_at_ = 0, busy_ = 0;
};

// The results of a run: they count from the end of its warm-up.
class NicCounts {
  public:
    explicit NicCounts(uint32_t warmup_chunks) : warmup_chunks_(warmup_chunks) {}

    uint64_t chunks() const { return chunks_; }  // the warm-up's, too
    void sent(const Pipeline& pipeline, const PcieReads& pcie, Picoseconds now, uint32_t messages) {
        if (counting()) messages_ += messages;
        if (++chunks_ != warmup_chunks_) return;
        from_ = now;
        pipeline_busy_before_ = pipeline.busy();
        pcie_busy_before_ = pcie.busy();
    }
    void completed(Picoseconds latency) {
        if (!counting()) return;
        latencies_ += latency;
        posts_++;
    }
    void looked(Resource kind, bool hit) {
        if (!counting()) return;
        looks_[size_t(kind)]++;
        hits_[size_t(kind)] += hit;
    }
    RnicResult result(const Pipeline& pipeline, const PcieReads& pcie, Picoseconds now) const {
        const double elapsed = double(now - from_);
        RnicResult result;
        result.mops = double(messages_) / elapsed * 1e6;
        result.latency_ns = posts_ == 0 ? 0 : nanoseconds(latencies_) / double(posts_);
        result.pipeline_share = double(pipeline.busy() - pipeline_busy_before_) / elapsed;
        result.pcie_share = double(pcie.busy() - pcie_busy_before_) / elapsed;
        for (size_t i = 0; i < resource_kinds; i++)
            result.hit_ratios[i] = looks_[i] == 0 ? 1 : double(hits_[i]) / double(looks_[i]);
        return result;
    }

  private:
    bool counting() const { return chunks_ >= warmup_chunks_; }

    const uint32_t warmup_chunks_;
    uint64_t chunks_ = 0, messages_ = 0, posts_ = 0;
    Picoseconds latencies_ = 0, from_ = 0, pipeline_busy_before_ = 0, pcie_busy_before_ = 0;
    PerResource<uint64_t> hits_{}, looks_{};
};

// Objects by number. A number is taken again after it is given back.
template <class T>
class Numbered {
  public:
    uint32_t take() {
        if (free_.empty()) {
            all_.emplace_back();
            return uint32_t(all_.size() - 1);
        }
        const uint32_t number = free_.back();
        free_.pop_back();
        return number;
    }
    void give_back(uint32_t number) { free_.push_back(number); }
    T& operator[](uint32_t number) { return all_[number]; }

  private:
    std::vector<T> all_;
    std::vector<uint32_t> free_;
};

// A chunk of a queue pair on its way through the chain, for a fetch unit or for the prefetcher.
struct Walk {
    uint32_t queue_pair, messages;
    PerResource<uint64_t> keys;
    uint8_t step;
    bool ahead;  // the prefetcher's
};

struct QueuePair {
    uint32_t unscheduled = 0, unsent = 0;  // messages
    uint64_t visits = 0;
    uint64_t rung = 0;  // the number of its last doorbell
    Picoseconds posted_at = 0;
    bool working = false;
};

struct Worker {
    std::vector<uint32_t> own;  // queue pairs; those of the present tick come first
    uint32_t working = 0;
    bool backwards = false;
};

struct Fetch {
    Resource kind;
    uint64_t key;
    std::vector<uint32_t> waiting;  // walks
};

class Nic {
  public:
    Nic(const RnicDevice& device, const RnicWorkload& workload, const Prefetching& prefetching);
    RnicResult run();

  private:
    // -- software
    void post(uint32_t queue_pair, Picoseconds delay = 0);
    void start();
    void tick(Worker& worker);
    uint32_t next_idle();
    void complete(uint32_t queue_pair);
    uint32_t post_size(uint32_t queue_pair);
    // -- scheduling
    void schedule();
    void prefetch();
    void prefetch_context(uint32_t queue_pair);
    void take_stream();
    void prefill();
    // -- the chain
    Walk walk_of(uint32_t queue_pair, bool ahead) const;
    Walk walk_of_stream();
    uint32_t new_walk(const Walk& walk);
    void advance(uint32_t number);
    void wait_for(Resource kind, uint64_t key, uint32_t walk);
    void arrived(uint32_t fetch);
    void chunk_made(uint32_t number);
    void send(uint32_t number);
    void sent(uint32_t number);
    void count(Resource kind, bool hit);
    void handle(const RnicEvent& event);

    const RnicDevice device_;
    const RnicWorkload workload_;
    const Prefetching prefetching_;
    Pipeline pipeline_;
    PcieReads pcie_;
    EventQueue events_;
    Random random_;
    std::optional<Distribution> items_;
    Picoseconds now_ = 0;

    std::vector<QueuePair> queue_pairs_;
    std::vector<Worker> workers_;
    uint64_t rings_ = 0;
    uint32_t next_post_ = 0, units_free_;
    std::deque<uint32_t> scheduling_;  // with its copy: the prefetch queue is its part from ahead_ on
    size_t ahead_ = 0;                 // queue pairs at the head of the scheduling queue that are prefetched

    Numbered<Walk> walks_;
    Numbered<Fetch> fetches_;
    std::vector<ResourceCache> caches_;
    PerResource<std::unordered_map<uint64_t, uint32_t>> under_way_;  // key -> fetch

    NicCounts counts_;
};

Nic::Nic(const RnicDevice& device, const RnicWorkload& workload, const Prefetching& prefetching)
    : device_(device),
      workload_(workload),
      prefetching_(prefetching),
      pipeline_(std::max(picoseconds(1000 / device.pipeline_mops),
                         picoseconds((workload.message_bytes + device.packet_bytes) * bits / device.link_gbps))),
      pcie_(device),
      random_(workload.seed),
      queue_pairs_(workload.queue_pairs),
      units_free_(device.fetch_units),
      counts_(workload.warmup_chunks) {
    CHECK(workload.queue_pairs > 0);
    CHECK(device.chunk > 0);
    CHECK(device.fetch_units > 0);
    CHECK(workload.post_messages > 0);
    CHECK(workload.workers <= workload.queue_pairs);
    CHECK(workload.workers > 0 || workload.order <= RingOrder::random);
    for (const uint32_t entries : device.cache_entries) caches_.emplace_back(entries);
    if (workload.items > 0) items_.emplace(workload.items, workload.skew);
    if (workload.stream) prefill();
}

// delay: until software begins with it.
void Nic::post(uint32_t number, Picoseconds delay) {
    QueuePair& queue_pair = queue_pairs_[number];
    queue_pair.working = true;
    queue_pair.posted_at = now_ + delay;
    if (prefetching_.kind == PrefetchKind::software)
        events_.add(queue_pair.posted_at + pcie_.one_way(), Happening::prefetch_register, number);
    events_.add(queue_pair.posted_at + picoseconds(workload_.prepare_ns) + pcie_.one_way(), Happening::doorbell, number);
}

void Nic::start() {
    if (workload_.stream) return take_stream();
    if (workload_.workers == 0) {
        const uint32_t active = workload_.active == 0 ? workload_.queue_pairs : std::min(workload_.active, workload_.queue_pairs);
        for (uint32_t i = 0; i < active; i++) post(next_idle());
        return;
    }
    workers_.resize(workload_.workers);
    for (uint32_t i = 0; i < workload_.queue_pairs; i++) workers_[i % workload_.workers].own.push_back(i);
    for (Worker& worker : workers_) tick(worker);
}

void Nic::tick(Worker& worker) {
    std::vector<uint32_t>& own = worker.own;
    const auto count = uint32_t(own.size());
    worker.working = workload_.touched == 0 ? count : std::min(count, workload_.touched);
    for (uint32_t i = 0; i < worker.working; i++) std::swap(own[i], own[i + random_.below(count - i)]);
    const auto rung = [&](uint32_t number) { return queue_pairs_[number].rung; };
    if (workload_.order != RingOrder::random) std::sort(own.begin(), own.begin() + worker.working);
    if (workload_.order == RingOrder::recent)
        std::stable_sort(own.begin(), own.begin() + worker.working, [&](uint32_t a, uint32_t b) { return rung(a) > rung(b); });
    if (workload_.order == RingOrder::alternating && std::exchange(worker.backwards, !worker.backwards))
        std::reverse(own.begin(), own.begin() + worker.working);
    const Picoseconds begins = picoseconds(2 * workload_.between_ns * random_.unit());
    for (uint32_t i = 0; i < worker.working; i++) {
        queue_pairs_[own[i]].rung = ++rings_;
        post(own[i], begins + i * picoseconds(workload_.prepare_ns));
    }
}

uint32_t Nic::next_idle() {
    uint32_t number = workload_.order == RingOrder::random ? uint32_t(random_.below(workload_.queue_pairs)) : next_post_;
    while (queue_pairs_[number].working) number = (number + 1) % workload_.queue_pairs;
    next_post_ = (number + 1) % workload_.queue_pairs;
    return number;
}

void Nic::complete(uint32_t number) {
    QueuePair& queue_pair = queue_pairs_[number];
    queue_pair.working = false;
    counts_.completed(now_ - queue_pair.posted_at);
    if (workload_.workers == 0) return post(next_idle());
    Worker& worker = workers_[number % workload_.workers];
    if (--worker.working == 0) tick(worker);
}

// The first post of a queue pair has a random length, so that posts do not end all at once.
uint32_t Nic::post_size(uint32_t number) {
    const bool first = queue_pairs_[number].visits == 0;
    return first ? 1 + uint32_t(random_.below(workload_.post_messages)) : workload_.post_messages;
}

void Nic::schedule() {
    if (workload_.stream) return take_stream();
    while (units_free_ > 0 && !scheduling_.empty()) {
        const uint32_t number = scheduling_.front();
        scheduling_.pop_front();
        if (ahead_ > 0) ahead_--;
        units_free_--;
        advance(new_walk(walk_of(number, false)));
    }
    prefetch();
}

void Nic::prefetch() {
    if (prefetching_.kind != PrefetchKind::csrna && prefetching_.kind != PrefetchKind::scheduled) return;
    while (ahead_ < prefetching_.window && ahead_ < scheduling_.size()) {
        const uint32_t number = scheduling_[ahead_++];
        advance(new_walk(walk_of(number, true)));
    }
}

void Nic::prefetch_context(uint32_t number) {
    const uint32_t busy = uint32_t(scheduling_.size()) + device_.fetch_units - units_free_;
    if (busy < prefetching_.window) advance(new_walk(walk_of(number, true)));
}

void Nic::take_stream() {
    while (units_free_ > 0) {
        units_free_--;
        advance(new_walk(walk_of_stream()));
    }
}

void Nic::prefill() {
    for (uint32_t i = 0; i < workload_.prefill; i++) {
        const Walk walk = walk_of_stream();
        for (size_t kind = 0; kind < resource_kinds; kind++)
            if (workload_.needed[kind]) caches_[kind].insert(walk.keys[kind]);
    }
}

Walk Nic::walk_of(uint32_t number, bool ahead) const {
    const QueuePair& queue_pair = queue_pairs_[number];
    const uint64_t visit = queue_pair.visits * workload_.queue_pairs + number;
    uint64_t region = number;
    const bool random = workload_.order == RingOrder::random;
    if (workload_.regions > 0) region = (random ? mix(visit + workload_.seed) : visit) % workload_.regions;
    return {number, std::min(device_.chunk, queue_pair.unscheduled), {number, visit, region, region}, 0, ahead};
}

Walk Nic::walk_of_stream() {
    const uint32_t number = uint32_t(random_.below(workload_.queue_pairs));
    const uint64_t visit = queue_pairs_[number].visits++ * workload_.queue_pairs + number;
    const uint64_t region = workload_.regions > 0 ? random_.below(workload_.regions) : number;
    uint64_t page = workload_.pages > 0 ? random_.below(workload_.pages) : region;
    if (items_.has_value()) page = items_->key(random_) / workload_.items_per_page;
    return {number, 1, {number, visit, region, page}, 0, false};
}

uint32_t Nic::new_walk(const Walk& walk) {
    const uint32_t number = walks_.take();
    walks_[number] = walk;
    return number;
}

void Nic::count(Resource kind, bool hit) {
    if (workload_.needed[size_t(kind)]) counts_.looked(kind, hit);
}

// Goes on until a resource is missing or the chain ends.
void Nic::advance(uint32_t number) {
    const bool whole = !walks_[number].ahead || prefetching_.kind == PrefetchKind::scheduled;
    const uint8_t steps = whole ? resource_kinds : 1;
    while (walks_[number].step < steps) {
        const Walk& walk = walks_[number];
        const Resource kind = resource_chain[walk.step];
        const uint64_t key = walk.keys[size_t(kind)];
        const bool hit = !workload_.needed[size_t(kind)] || caches_[size_t(kind)].look(key);
        if (!walk.ahead) count(kind, hit);
        if (!hit) return wait_for(kind, key, number);
        walks_[number].step++;
    }
    if (walks_[number].ahead) {
        walks_.give_back(number);
    } else {
        chunk_made(number);
    }
}

void Nic::wait_for(Resource kind, uint64_t key, uint32_t walk) {
    const auto [place, is_new] = under_way_[size_t(kind)].try_emplace(key, none);
    if (!is_new) {
        fetches_[place->second].waiting.push_back(walk);
        return;
    }
    const uint32_t number = fetches_.take();
    place->second = number;
    fetches_[number].kind = kind;
    fetches_[number].key = key;
    fetches_[number].waiting.assign(1, walk);
    const uint64_t entries = kind == Resource::wqe ? walks_[walk].messages : 1;
    events_.add(pcie_.read(now_, entries * device_.fetch_bytes[size_t(kind)]), Happening::resource, number);
}

void Nic::arrived(uint32_t number) {
    const Resource kind = fetches_[number].kind;
    caches_[size_t(kind)].insert(fetches_[number].key);
    under_way_[size_t(kind)].erase(fetches_[number].key);
    const std::vector<uint32_t> waiting = std::move(fetches_[number].waiting);
    fetches_.give_back(number);
    for (const uint32_t walk : waiting) {
        walks_[walk].step++;
        advance(walk);
    }
}

void Nic::chunk_made(uint32_t number) {
    const Walk& walk = walks_[number];
    events_.add(pcie_.read(now_, uint64_t(walk.messages) * workload_.message_bytes), Happening::payload, number);
    if (workload_.stream) return;
    QueuePair& queue_pair = queue_pairs_[walk.queue_pair];
    queue_pair.unscheduled -= walk.messages;
    queue_pair.visits++;
    if (queue_pair.unscheduled > 0) scheduling_.push_back(walk.queue_pair);
}

void Nic::send(uint32_t number) {
    events_.add(pipeline_.send(now_, walks_[number].messages), Happening::sent, number);
}

void Nic::sent(uint32_t number) {
    const Walk walk = walks_[number];
    walks_.give_back(number);
    units_free_++;
    counts_.sent(pipeline_, pcie_, now_, walk.messages);
    if (workload_.stream) return;
    QueuePair& queue_pair = queue_pairs_[walk.queue_pair];
    queue_pair.unsent -= walk.messages;
    if (queue_pair.unsent > 0) return;
    // The other device processes the last message, writes it to memory and acknowledges; this one processes that and
    // writes the completion.
    const Picoseconds pass = picoseconds(1000 / device_.pipeline_mops);
    const Picoseconds acknowledged = picoseconds(device_.packet_bytes * bits / device_.link_gbps);
    const Picoseconds there = picoseconds(device_.wire_ns) + pass + pcie_.one_way();
    const Picoseconds back = pass + acknowledged + picoseconds(device_.wire_ns) + pass + pcie_.one_way();
    events_.add(now_ + there + back, Happening::completed, walk.queue_pair);
}

void Nic::handle(const RnicEvent& event) {
    now_ = event.at;
    switch (event.what) {
        case Happening::prefetch_register: prefetch_context(event.subject); break;
        case Happening::doorbell:
            queue_pairs_[event.subject].unscheduled = queue_pairs_[event.subject].unsent = post_size(event.subject);
            scheduling_.push_back(event.subject);
            break;
        case Happening::resource: arrived(event.subject); break;
        case Happening::payload: send(event.subject); break;
        case Happening::sent: sent(event.subject); break;
        case Happening::completed: complete(event.subject); break;
    }
    schedule();
}

RnicResult Nic::run() {
    start();
    const uint64_t last = uint64_t(workload_.warmup_chunks) + workload_.chunks;
    while (counts_.chunks() < last) handle(events_.pop());
    return counts_.result(pipeline_, pcie_, now_);
}

}  // namespace

RnicResult simulate_rnic(const RnicDevice& device, const RnicWorkload& workload, const Prefetching& prefetching) {
    return Nic(device, workload, prefetching).run();
}

}  // namespace farcached::bench
