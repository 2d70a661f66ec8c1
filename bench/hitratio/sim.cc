// SPDX-License-Identifier: BSD-3-Clause
#include "bench/hitratio/sim.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "fabric/region.h"
#include "fabric/validate.h"
#include "node/service/report_quota.h"
#include "protocol/frame_layout.h"
#include "protocol/op.h"
#include "proxy/arc.h"
#include "proxy/node_clock_estimate.h"
#include "proxy/unseen.h"

namespace farcached::bench {

namespace {

constexpr double lease_share_max = 0.9;

template <PolicyKind kind>
void policy(node::Config& config) {
    config.policy = kind;
}

template <uint32_t term_s>
void fixed(node::Config& config) {
    config.policy = PolicyKind::fixed_lease;
    config.lease.term_ms = term_s * 1000;
}

// The paper's server without C-Hint: clients keep pointers to all keys that they got, and report no use. Items with
// pointers are pinned: in the paper until they are deleted, here for the longest term. The paper can pin all of memory,
// this node its leasable share.
void original(node::Config& config) {
    config.policy = PolicyKind::original;
    config.lease.from_touches = 1;
    config.lease.share = lease_share_max;
    config.lease.dead_share = 1;
}

// In the paper all of memory may be leased, and dead items are unbounded.
void pdla_paper(node::Config& config) {
    config.policy = PolicyKind::pdla_paper;
    config.lease.share = lease_share_max;
    config.lease.dead_share = 1;
}

constexpr Contestant all_contestants[] = {
    {"lru", false, false, policy<PolicyKind::lru>},
    {"mq", false, false, policy<PolicyKind::mq>},
    {"pdla", true, true, policy<PolicyKind::pdla>},
    {"pdla_paper", true, true, pdla_paper},
    {"s3fifo", true, true, policy<PolicyKind::s3fifo>},
    {"approx_lru", true, true, policy<PolicyKind::approx_lru>},
    {"clock", true, true, policy<PolicyKind::clock>},
    {"fixed_lease_128", true, true, fixed<128>},
    {"fixed_lease_32", true, true, fixed<32>},
    {"fixed_lease_8", true, true, fixed<8>},
    {"original", true, false, original},
};

}  // namespace

std::span<const Contestant> contestants() { return all_contestants; }

node::Config policy_config(const Contestant& contestant, node::Config config) {
    config.lease.enabled = contestant.leases;
    contestant.configure(config);
    return config;
}

namespace {

constexpr uint32_t key_bytes = 23;  // "user" and 19 digits, as long as YCSB's
constexpr uint64_t item_bytes_max = 16 << 10;

constexpr uint64_t us_ns = 1000;
constexpr uint64_t other_keys = UINT64_C(1) << 40;  // more than any trace has

struct Host {
    Host(uint32_t keys, uint32_t history_items, const node::ReportQuota::Share& share, NodeSeconds now)
        : pointers(keys), history(history_items), quota(share, now) {}
    std::vector<fabric::LeasedPtr> pointers;  // by key; length 0: none
    proxy::Arc history;
    node::ReportQuota quota;
};

struct Counts {
    uint64_t gets = 0, pointer_hits = 0, twosided_hits = 0, invalid_reads = 0, sets_refused = 0;
    uint64_t report_bytes = 0, report_items = 0;
    uint64_t leased_samples = 0;
    double leased_sum = 0;
};

node::Config node_config(const SimScale& scale, const SimPoint& point) {
    node::Config config;
    config.grows = false;
    config.memory_bytes = std::max<uint64_t>(layout::page_bytes, uint64_t(data_bytes(scale) * point.cache_ratio + 0.5));
    config.item_bytes_max = item_bytes_max;
    config.partitions = scale.partitions;
    config.lease.dead_share = scale.dead_share;
    config.workers = 1;
    config.seed = mix(scale.seed) | 1;
    return policy_config(*point.contestant, config);
}

uint64_t items_in(const node::Stats& stats, uint8_t size_class) {
    return stats.pages_limit * (layout::page_bytes / stats.classes[size_class].slot_bytes);
}

class Simulation {
  public:
    Simulation(const SimScale& scale, const Popularity& popularity, const SimPoint& point)
        : scale_(scale),
          contestant_(*point.contestant),
          one_sided_(contestant_.leases),
          node_(node_config(scale, point)),
          size_class_(node_.size_class(key_bytes, scale.value_bytes)),
          trace_(*point.workload, popularity, uint64_t(scale.shift_s) * scale.rate, scale.seed),
          value_(scale.value_bytes, 'v') {
        const node::ReportQuota::Share share = node::report_share_of(node_, node::report_share_default);
        for (uint32_t i = 0; i < scale.hosts; i++)
            hosts_.push_back(std::make_unique<Host>(one_sided_ ? scale.keys : 0, scale.history_items, share, now_));
        std::copy_n("user", 4, key_text_);
        number_keys();
    }

    SimResult run() {
        if (scale_.load) load();
        for (uint64_t i = 0; i < scale_.warmup; i++) step();
        if (scale_.flush) flush();
        const node::Stats before = node_.stats(now_);
        counts_ = {};
        for (uint64_t i = 0; i < scale_.operations; i++) step();
        const node::Stats after = node_.stats(now_);
        SimResult result = summary(after);
        result.evictions = after.classes[size_class_].evicted - before.classes[size_class_].evicted;
        using protocol::LeaseDenial;
        const auto denied = [&](LeaseDenial why) { return after.leases.denied[size_t(why)] - before.leases.denied[size_t(why)]; };
        result.leases_without_room = denied(LeaseDenial::no_room_);
        result.leases_after_set = denied(LeaseDenial::dead_key_) + denied(LeaseDenial::dead_);
        return result;
    }

  private:
    // Advances to the time of the next operation. Returns its host.
    Host& advance() {
        now_us_ = at_ * 1'000'000 / scale_.rate;
        now_ = NodeSeconds(2 + now_us_ / 1'000'000);
        if (now_us_ >= report_due_us_) report();
        return *hosts_[at_++ % scale_.clients % scale_.hosts];
    }

    void load() {
        std::vector<uint32_t> order(scale_.keys);
        std::iota(order.begin(), order.end(), 0);
        Random random(scale_.seed);
        for (uint32_t left = scale_.keys; left > 1; left--) std::swap(order[left - 1], order[random.below(left)]);
        for (const uint32_t number : order) {
            Host& host = advance();
            set(host, key(number), number);
            get(host, number);
        }
    }

    void number_keys() {
        if (!one_sided_ || !contestant_.reports) return;
        for (uint32_t number = 0; number < scale_.keys; number++) number_of_[key(number).hash] = number;
    }

    // The hosts keep no pointers to old keys. They may still report accesses to them.
    void flush() {
        node_.flush_all(now_);
        first_key_ = other_keys;
        for (auto& host : hosts_) host->pointers.assign(host->pointers.size(), {});
        number_keys();
    }

    void step() {
        Host& host = advance();
        const Trace::Step step = trace_.next();
        if (step.set)
            set(host, key(step.key), step.key);
        else
            get(host, step.key);
    }

    // Valid until the next call.
    protocol::Key key(uint64_t number) {
        number += first_key_;
        for (uint32_t place = key_bytes; place > 4; place--, number /= 10)
            key_text_[place - 1] = char('0' + number % 10);
        return node_.key({key_text_, key_bytes});
    }

    void get(Host& host, uint64_t number) {
        counts_.gets++;
        const protocol::Key asked = key(number);
        if (read_one_sided(host, asked, number)) {
            counts_.pointer_hits++;
            return;
        }
        protocol::GetOp op;
        op.key = asked;
        op.lease = one_sided_;
        auto no_value = [](const protocol::ItemMeta&) -> char* { return nullptr; };
        const protocol::GetReply reply = node_.get(op, now_, no_value);
        if (reply.status != protocol::GetReply::Status::hit) return set(host, asked, number);
        counts_.twosided_hits++;
        note_pointer(host, reply.grant, number);
    }

    void set(Host& host, const protocol::Key& to, uint64_t number) {
        protocol::StoreOp op;
        op.key = to;
        op.value = value_;
        op.lease = one_sided_;
        const protocol::StoreReply reply = node_.store(op, now_);
        const bool stored = reply.status == protocol::StoreReply::Status::stored;
        counts_.sets_refused += !stored;
        if (stored) note_pointer(host, reply.grant, number);
    }

    // A reply that could have carried a grant and has none forgets the pointer.
    void note_pointer(Host& host, const std::optional<protocol::Grant>& grant, uint64_t number) {
        if (grant.has_value())
            keep(host, *grant, number);
        else
            forget(host, number);
    }

    bool read_one_sided(Host& host, const protocol::Key& asked, uint64_t number) {
        if (number >= host.pointers.size()) return false;
        const fabric::LeasedPtr& leased = host.pointers[number];
        if (leased.valid_until_ns <= now_ns()) return false;
        const fabric::PointerRead read =
            fabric::judge_copy({reinterpret_cast<const uint64_t*>(node_.view().base + leased.ptr.offset), leased, now_ns(),
                                UINT64_MAX, now_},
                               asked.bytes, /* tokens_matter= */ false, node_.check_secret());
        if (read.outcome == fabric::Outcome::hit) {
            host.history.access({asked.hash, leased.ptr.offset, 1, 0, layout::generation_tag(read.generation)});
            return true;
        }
        counts_.invalid_reads++;
        if (read.outcome == fabric::Outcome::key) host.history.forget(asked.hash);
        if (!fabric::keeps_pointer(read.outcome)) forget(host, number);
        return false;
    }

    uint64_t now_ns() const { return now_us_ * us_ns; }

    uint64_t lease_end_ns(uint32_t term_ms) const {
        const uint64_t term_ns = uint64_t(term_ms) * 1'000'000;
        return now_ns() + term_ns - term_ns / uint64_t(proxy::clock_rate_error);
    }

    // Matches by place, as proxy::PointerTable::extend().
    void extend(Host& host, const protocol::ItemAccess& item, uint32_t term_ms) {
        fabric::LeasedPtr& known = host.pointers[number_of_.at(item.hash)];
        if (known.ptr.length != 0 && known.ptr.offset == item.offset)
            known.valid_until_ns = std::max(known.valid_until_ns, lease_end_ns(term_ms));
    }

    // As proxy::PointerGets::keep().
    void keep(Host& host, const protocol::Grant& grant, uint64_t number) {
        if (number >= host.pointers.size()) return;
        fabric::LeasedPtr told;
        told.ptr.offset = grant.offset;
        told.ptr.generation = grant.generation;
        told.ptr.length = fabric::read_length(grant.length, grant.capacity);
        told.valid_until_ns = lease_end_ns(grant.term_ms);
        fabric::LeasedPtr& known = host.pointers[number];
        known = known.valid_until_ns > now_ns() ? fabric::merged(known, told) : told;
    }

    void forget(Host& host, uint64_t number) {
        if (number < host.pointers.size()) host.pointers[number] = {};
    }

    // True if the lease would end before a later report could renew it, as in proxy::AccessNotes.
    bool lease_ends_soon(const Host& host, const protocol::ItemAccess& item) const {
        const fabric::LeasedPtr& known = host.pointers[number_of_.at(item.hash)];
        const uint64_t intervals_ns = proxy::AccessNotes::urgent_intervals * UINT64_C(1'000'000'000) * scale_.report_interval_s;
        return known.ptr.length != 0 && known.ptr.offset == item.offset && known.valid_until_ns <= now_ns() + intervals_ns;
    }

    // Sends every host's report, and samples the leased share.
    void report() {
        report_due_us_ += uint64_t(scale_.report_interval_s) * 1'000'000;
        const node::Stats stats = node_.stats(now_);
        counts_.leased_samples++;
        counts_.leased_sum +=
            double(stats.leases.bytes + stats.leases.dead_bytes) / double(stats.memory_limit_bytes);
        if (contestant_.reports)
            for (auto& host : hosts_)
                for (uint32_t i = 0; i < proxy::AccessNotes::reports_per_interval_max; i++) report(*host, i != 0);
    }

    void report(Host& host, bool again) {
        accesses_.clear();
        const uint32_t items_max = proxy::AccessFrames::records_in(scale_.report_bytes, scale_.report_bytes);
        host.history.pick(items_max, [&](const protocol::ItemAccess& item) { accesses_.push_back(item); }, again,
                          [&](const protocol::ItemAccess& item) { return lease_ends_soon(host, item); });
        if (accesses_.empty()) return;
        counts_.report_items += accesses_.size();
        counts_.report_bytes += sizeof(protocol::FrameHeader) + accesses_.size() * sizeof(protocol::AccessRecord);
        for (const protocol::ItemAccess& item : accesses_) {
            const node::Renewal renewal = node_.renew(access(item), now_, host.quota.left(now_));
            if (renewal.outcome != node::Renewal::Outcome::renewed) continue;
            host.quota.spend(renewal.byte_s);
            extend(host, item, renewal.term_ms);
        }
    }

    // Converts a frame's record as the node's service does.
    node::Access access(const protocol::ItemAccess& item) const {
        const uint64_t offset = item.offset - node_.view().header->arena_offset;
        return {layout::Slot::make(layout::tag_of(item.hash), size_class_, offset).word, 0, item.hash, item.count,
                item.generation_tag};
    }

    SimResult summary(const node::Stats& stats) const {
        auto one_of = [](uint64_t count) { return double(std::max<uint64_t>(1, count)); };
        SimResult result;
        result.items_max = items_in(stats, size_class_);
        result.bound_hit_ratio = trace_.bound(result.items_max);
        result.gets = counts_.gets;
        result.pointer_hits = counts_.pointer_hits;
        result.twosided_hits = counts_.twosided_hits;
        result.total_hit_ratio = double(counts_.pointer_hits + counts_.twosided_hits) / one_of(counts_.gets);
        result.pointer_hit_ratio = double(counts_.pointer_hits) / one_of(counts_.gets);
        result.invalid_reads = counts_.invalid_reads;
        result.leased_share = counts_.leased_sum / one_of(counts_.leased_samples);
        result.sets_refused = counts_.sets_refused;
        result.report_items = counts_.report_items;
        result.report_bytes_per_s = double(counts_.report_bytes) * scale_.rate / one_of(scale_.operations);
        return result;
    }

    const SimScale& scale_;
    const Contestant& contestant_;
    const bool one_sided_;
    node::Node node_;
    const uint8_t size_class_;
    Trace trace_;
    const std::string value_;
    std::vector<std::unique_ptr<Host>> hosts_;
    std::vector<protocol::ItemAccess> accesses_;
    std::unordered_map<uint64_t, uint64_t> number_of_;  // key number by hash
    uint64_t first_key_ = 0;  // number of key 0
    char key_text_[key_bytes];
    Counts counts_;
    uint64_t at_ = 0, now_us_ = 0, report_due_us_ = 0;
    NodeSeconds now_ = 2;
};

}  // namespace

double data_bytes(const SimScale& scale) { return double(scale.keys) * (key_bytes + scale.value_bytes); }

uint64_t items_in(const SimScale& scale, uint64_t memory_bytes) {
    node::Config config;
    config.grows = false;
    config.memory_bytes = memory_bytes;
    config.item_bytes_max = item_bytes_max;
    const node::Node node(config);
    return items_in(node.stats(1), node.size_class(key_bytes, scale.value_bytes));
}

SimResult simulate(const SimScale& scale, const Popularity& popularity, const SimPoint& point) {
    CHECK(scale.hosts > 0);
    CHECK(scale.hosts <= scale.clients);
    CHECK(scale.rate > 0);
    return Simulation(scale, popularity, point).run();
}

}  // namespace farcached::bench
