// SPDX-License-Identifier: BSD-3-Clause
#include "bench/rnic/rnic.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace farcached::bench {

namespace {

constexpr uint32_t queue_pairs_max = 1 << 20, entries_max = 1 << 24, chunks_max = 100'000'000;

using T = RnicOptions;
using S = const std::string;

constexpr std::string_view figure_words[] = {"3", "4", "5", "6", "abstract", "jakiro"};
constexpr std::string_view prefetch_words[] = {"none", "csrna", "scheduled", "software"};
constexpr std::string_view order_words[] = {"cyclic", "random", "alternating", "recent"};

const char* to_figures(T& t, S& text) {
    t.figures.clear();
    return each_part(text, [&](std::string_view part) -> const char* {
        RnicFigure one{};
        const char* wrong = to_word(part, figure_words, one, "has a word that is not 3, 4, 5, 6, abstract or jakiro");
        return keep(t.figures, one, wrong);
    });
}

// "2048" for all kinds, or "2048,2048,256,256".
const char* to_entries(T& t, S& text) {
    std::vector<uint32_t> entries;
    const char* wrong = each_part(text, [&](std::string_view part) {
        uint32_t one = 0;
        const char* bad = to_number<uint32_t>(part, 0, entries_max, one);
        entries.push_back(one);
        return bad;
    });
    if (wrong != nullptr) return wrong;
    if (entries.size() == 1) entries.resize(resource_kinds, entries[0]);
    if (entries.size() != resource_kinds) return "is neither one number nor four: of QPC, WQE, MPT and MTT";
    std::copy(entries.begin(), entries.end(), t.device.cache_entries.begin());
    return nullptr;
}

const OptionOf<T> table[] = {
    {{"figures", "LIST", nullptr,
      "print the points of these figures beside the paper's: 3, 4, 5, 6, abstract (of Ma et al.), jakiro (Figures 4 to 10 of RFP). "
      "Other options of the model are ignored. Default: one run"},
     to_figures},
    {{"json", "FILE", nullptr, "also write the points, or the run, as JSON"}, [](T& t, S& s) { return to_text(s, t.json_path); }},
    {{"queue-pairs", "N", "16384", "queue pairs"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, queue_pairs_max, t.workload.queue_pairs); }},
    {{"active", "N", "0", "queue pairs with work at once; 0: all"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 0, queue_pairs_max, t.workload.active); }},
    {{"post-messages", "N", "50", "messages of one doorbell"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, 1'000'000'000, t.workload.post_messages); }},
    {{"message-bytes", "N", "64", "bytes of one message"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, 1 << 20, t.workload.message_bytes); }},
    {{"regions", "N", "0", "memory regions used in turn; 0: one for each queue pair"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 0, entries_max, t.workload.regions); }},
    {{"workers", "N", "0",
      "software threads that share the queue pairs. A thread rings each of its queue pairs, and again when all are done. 0: an "
      "idle queue pair follows each completion"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 0, queue_pairs_max, t.workload.workers); }},
    {{"touched", "N", "0", "with --workers: queue pairs that a thread rings before it waits, at random; 0: all"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 0, queue_pairs_max, t.workload.touched); }},
    {{"between-ns", "N", "0", "with --workers: a thread's mean time before it rings again, in ns"},
     [](T& t, S& s) { return to_number<double>(s, 0, 1e9, t.workload.between_ns); }},
    {{"order", "WORD", "cyclic",
      "order of queue pairs: cyclic or random, which is that of regions, too. With --workers also alternating (direction) or "
      "recent (the one used last comes first)"},
     [](T& t, S& s) { return to_word(s, order_words, t.workload.order, "is not cyclic, random, alternating or recent"); }},
    {{"prepare-ns", "N", "0", "software's time before each doorbell, in ns"},
     [](T& t, S& s) { return to_number<double>(s, 0, 1e6, t.workload.prepare_ns); }},
    {{"prefetch", "WORD", "none",
      "none; csrna: contexts of queue pairs; scheduled: contexts, work queue elements, protection and translation entries; "
      "software: contexts, before work queue elements are built"},
     [](T& t, S& s) { return to_word(s, prefetch_words, t.prefetching.kind, "is not none, csrna, scheduled or software"); }},
    {{"window", "N", "7", "queue pairs that the prefetcher runs ahead"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 0, queue_pairs_max, t.prefetching.window); }},
    {{"chunk", "N", "20", "messages of one queue pair at a time"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, 1 << 16, t.device.chunk); }},
    {{"fetch-units", "N", "5", "chunks whose resources are fetched at once"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, 1 << 16, t.device.fetch_units); }},
    {{"cache-entries", "N,N,N,N", "2048", "entries of the caches of QPC, WQE, MPT and MTT; one number: of each"}, to_entries},
    {{"pcie-gbps", "N", "128", "bandwidth of PCIe, in Gbit/s"},
     [](T& t, S& s) { return to_number<double>(s, 1, 10'000, t.device.pcie_gbps); }},
    {{"pcie-ns", "N", "500", "round trip of PCIe, in ns"},
     [](T& t, S& s) { return to_number<double>(s, 1, 1e6, t.device.pcie_round_trip_ns); }},
    {{"link-gbps", "N", "100", "bandwidth of the link, in Gbit/s"},
     [](T& t, S& s) { return to_number<double>(s, 1, 10'000, t.device.link_gbps); }},
    {{"pipeline-mops", "N", "70", "rate of the pipeline, in million messages per second"},
     [](T& t, S& s) { return to_number<double>(s, 0.01, 10'000, t.device.pipeline_mops); }},
    {{"warmup-chunks", "N", "32768", "chunks before counting"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 0, chunks_max, t.workload.warmup_chunks); }},
    {{"chunks", "N", "32768", "chunks counted"},
     [](T& t, S& s) { return to_number<uint32_t>(s, 1, chunks_max, t.workload.chunks); }},
    {{"seed", "N", "1", "random seed; the same seed gives the same numbers"},
     [](T& t, S& s) { return to_number<uint64_t>(s, 0, UINT64_MAX, t.workload.seed); }},
};

int run(std::span<char* const> arguments) {
    RnicOptions options;
    const std::string wrong = read_rnic_options(arguments, options);
    if (!wrong.empty()) return refuse_arguments("rnic", wrong);
    std::string text, json;
    if (options.figures.empty()) {
        const RnicResult result = simulate_rnic(options.device, options.workload, options.prefetching);
        text = rnic_text(options, result);
        json = rnic_json(options, result);
    } else {
        const FigurePoints points = rnic_points(options.figures, options.workload.seed);
        text = figures_text(points);
        json = figures_json(points);
    }
    std::fputs(text.c_str(), stdout);
    if (!options.json_path.empty()) write_file(options.json_path, json, std::ios::trunc);
    return std::fflush(stdout) == 0 ? exit_good : exit_failed;
}

}  // namespace

std::span<const OptionOf<T>> rnic_options() { return table; }

std::string read_rnic_options(std::span<char* const> arguments, T& options) {
    const std::string wrong = read_options(rnic_options(), arguments, options, [](const std::string& text) {
        return "\"" + text + "\" is not an option";
    });
    if (!wrong.empty()) return wrong;
    if (options.workload.active > options.workload.queue_pairs) return "--active is more than --queue-pairs";
    if (options.workload.workers > options.workload.queue_pairs) return "--workers is more than --queue-pairs";
    if (options.workload.workers == 0 && options.workload.order > RingOrder::random)
        return "--order alternating and recent need --workers";
    return {};
}

std::string rnic_text(const T& options, const RnicResult& result) {
    std::string text;
    text += form("%u queue pairs, messages of %u bytes, prefetch %s, window %u\n", options.workload.queue_pairs,
                            options.workload.message_bytes, prefetch_words[size_t(options.prefetching.kind)].data(),
                            options.prefetching.window);
    text += form("rate      %8.2f Mop/s, pipeline busy %.1f %%, PCIe %.1f %%\n", result.mops, 100 * result.pipeline_share,
                 100 * result.pcie_share);
    if (result.latency_ns > 0)
        text += form("latency   %8.3f us from the decision to post to its completion\n", result.latency_ns / 1000);
    text += "cache hits";
    for (size_t i = 0; i < resource_kinds; i++) text += form(" %s %.1f %%", resource_names[i], 100 * result.hit_ratios[i]);
    return text + "\n";
}

std::string rnic_json(const T& options, const RnicResult& result) {
    nlohmann::ordered_json object;
    object["queue_pairs"] = options.workload.queue_pairs;
    object["prefetch"] = prefetch_words[size_t(options.prefetching.kind)];
    object["window"] = options.prefetching.window;
    object["mops"] = result.mops;
    object["latency_us"] = result.latency_ns > 0 ? nlohmann::ordered_json(result.latency_ns / 1000) : nullptr;
    object["pipeline_share"] = result.pipeline_share;
    object["pcie_share"] = result.pcie_share;
    for (size_t i = 0; i < resource_kinds; i++) object["hit_ratios"][resource_names[i]] = result.hit_ratios[i];
    return object.dump(1) + "\n";
}

Command rnic_command() {
    return {"rnic", "",
            "A model of an RDMA network interface: its caches of queue pairs and memory translations, and prefetching into them.\n"
            "The figures of two papers beside the model's.",
            {std::begin(table), std::end(table)}, run};
}

}  // namespace farcached::bench
