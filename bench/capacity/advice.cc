// SPDX-License-Identifier: BSD-3-Clause
// advice(): each sentence comes from a second assessment with one thing changed, or from a limit that the fleet exceeds.
#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/capacity/fleet.h"
#include "bench/command.h"

namespace farcached::bench {

namespace {

constexpr double worth_it = 1.02;            // throughput that is worth a sentence
constexpr double hits_good = 0.9;
constexpr uint64_t huge_page_bytes = UINT64_C(2) << 20;
constexpr uint32_t connections_default = 1024;  // farnode's --conn-limit

class Advisor {
  public:
    Advisor(const Fleet& fleet, const DeviceFile& device, const FleetResult& result, RpcMode mode)
        : fleet_(fleet), device_(device), result_(result), mode_(mode), now_(result.modes[size_t(mode)]) {}

    std::vector<std::string> sentences() {
        huge_pages();
        queue_pairs();
        modes();
        bottleneck();
        limits();
        if (found_.empty()) found_.push_back("No change of this fleet's settings makes it faster in the model.");
        return std::move(found_);
    }

  private:
    void add(std::string sentence) { found_.push_back(std::move(sentence)); }
    FleetResult changed(const Fleet& fleet) const { return assess(fleet, values_of(device_, Assumption::value)); }
    void huge_pages();
    void queue_pairs();
    void modes();
    void bottleneck();
    void limits();

    const Fleet& fleet_;
    const DeviceFile& device_;
    const FleetResult& result_;
    const RpcMode mode_;
    const ModeResult& now_;
    std::vector<std::string> found_;
};

void Advisor::huge_pages() {
    const double hits = result_.node_hits[size_t(Resource::mtt)];
    if (fleet_.page_bytes >= huge_page_bytes || hits >= hits_good) return;
    Fleet other = fleet_;
    other.page_bytes = huge_page_bytes;
    const FleetResult with = changed(other);
    add(form("Use huge pages (farnode -L, shmem_enabled = advise): translations shrink from %llu to %llu. Their cache hits "
             "rise from %.0f to %.0f %%, and a one-sided GET takes %.2f us instead of %.2f.",
             (unsigned long long)result_.counts.node_translations, (unsigned long long)with.counts.node_translations, 100 * hits,
             100 * with.node_hits[size_t(Resource::mtt)], with.get_us, result_.get_us));
    const double gain = with.modes[size_t(mode_)].mops / now_.mops;
    if (gain >= worth_it) add(form("Huge pages raise the limit of the fleet by %.0f %%.", 100 * (gain - 1)));
}

void Advisor::queue_pairs() {
    const SourcedFigure& entries = device_.at(DeviceFigure::qpc_entries);
    const uint32_t most = std::max(result_.counts.node_queue_pairs, result_.counts.proxy_queue_pairs);
    if (most <= entries.low) return;
    const bool at_node = most == result_.counts.node_queue_pairs;
    add(form("%s has %u queue pairs, %s its cache of %.0f contexts%s.", at_node ? "A node" : "A proxy", most,
             most > entries.value ? "beyond" : "perhaps beyond", entries.value,
             entries.assumed ? form(" (assumed; %.0f to %.0f)", entries.low, entries.high).c_str() : ""));
    if (fleet_.links_per_node != 0) return;
    const uint32_t per_worker = most / fleet_.workers, workers = uint32_t(entries.value) / per_worker;
    if (workers >= 1 && workers < fleet_.workers)
        add(form("With %u workers (-t %u) in each proxy it would have %u.", workers, workers, workers * per_worker));
    if (fleet_.workers > 1 && most > entries.value) {
        Fleet other = fleet_;
        other.links_per_node = 1;
        const FleetResult with = changed(other);
        const auto& before = at_node ? result_.node_hits : result_.proxy_hits;
        const auto& after = at_node ? with.node_hits : with.proxy_hits;
        add(form("If the workers of a proxy shared one link to each node (links_per_node = 1), it would have %u, and %.0f %% of "
                 "cache hits instead of %.0f.",
                 per_worker, 100 * after[size_t(Resource::qpc)], 100 * before[size_t(Resource::qpc)]));
    }
}

void Advisor::modes() {
    const ModeResult& best = *std::max_element(result_.modes.begin(), result_.modes.end(),
                                               [](const ModeResult& a, const ModeResult& b) { return a.mops < b.mops; });
    if (best.mops < now_.mops * worth_it) return;
    add(form("RPC by %s instead of %s raises the limit from %.1f to %.1f million requests/s.", rpc_mode_name(best.mode).data(),
             rpc_mode_name(mode_).data(), now_.mops, best.mops));
}

void Advisor::bottleneck() {
    const std::string& name = now_.bottleneck();
    const double next = now_.stations.size() > 1 ? now_.stations[1].mops : now_.mops;
    if (name == "proxy's CPU")
        add(form("The proxies' CPU limits the fleet: more proxies or workers help up to %.0f million requests/s, the limit of "
                 "the %s.",
                 next, now_.stations[1].name.c_str()));
    if (name.starts_with("busiest node") && fleet_.nodes > 1 && result_.counts.busiest_share > 1.2 / fleet_.nodes)
        add(form("The busiest node gets %.1f %% of the requests, and the others %.1f %% each: it has the most popular key, so "
                 "that more nodes help little.",
                 100 * result_.counts.busiest_share, 100 * (1 - result_.counts.busiest_share) / (fleet_.nodes - 1)));
    else if (name.starts_with("busiest node"))
        add("More nodes raise the limit, in proportion.");
}

void Advisor::limits() {
    if (result_.counts.node_queue_pairs > connections_default)
        add(form("Set --conn-limit of farnode to %u or more: its default is %u.", result_.counts.node_queue_pairs,
                 connections_default));
}

}  // namespace

std::vector<std::string> advice(const Fleet& fleet, const DeviceFile& device, const FleetResult& result, RpcMode mode) {
    return Advisor(fleet, device, result, mode).sentences();
}

}  // namespace farcached::bench
