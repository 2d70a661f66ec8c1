// SPDX-License-Identifier: BSD-3-Clause
// farbench hitratio's simulator: it is deterministic, and no cache beats perfect knowledge. Faithful LRU equals a plain
// model of it; hits are one-sided or two-sided. Its options and reports.
#include <algorithm>
#include <cmath>
#include <list>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "bench/command.h"
#include "bench/hitratio/hitratio.h"
#include "t/lib/tap.h"

namespace farcached::bench {

namespace {

const WorkloadKind& workload(std::string_view name) {
    return *std::find_if(workload_kinds().begin(), workload_kinds().end(), [&](auto& one) { return one.name == name; });
}

const Contestant& contestant(std::string_view name) {
    return *std::find_if(contestants().begin(), contestants().end(), [&](auto& one) { return one.name == name; });
}

SimScale small_scale() {
    SimScale scale;
    scale.keys = 20'000;
    scale.warmup = 40'000;
    scale.operations = 40'000;
    scale.rate = scale.keys / 80;
    return scale;
}

bool same(const SimResult& a, const SimResult& b) {
    return hitratio_csv({{{&workload("scan"), 0.5, &contestant("lru")}, a}}) ==
           hitratio_csv({{{&workload("scan"), 0.5, &contestant("lru")}, b}});
}

// ---- workloads --------------------------------------------------------------------------------------

void check_popularity(Spread spread, const char* name) {
    constexpr uint32_t keys = 1000, draws = 400'000;
    const Popularity popularity(spread, keys, 0.99);
    Random random(3);
    std::vector<uint64_t> drawn(keys);
    for (uint32_t i = 0; i < draws; i++) drawn[popularity.key(random)]++;
    bool growing = true;
    double worst = 0;
    uint64_t sum = 0;
    std::vector<uint32_t> by_rank{uint32_t(std::max_element(drawn.begin(), drawn.end()) - drawn.begin())};
    for (uint32_t rank = 1; rank < keys; rank++) by_rank.push_back(popularity.behind(by_rank[0], rank));
    for (uint32_t rank = 0; rank < keys; rank++) {
        sum += drawn[by_rank[rank]];
        const double share = popularity.of_most_popular(rank + 1);
        growing &= share > popularity.of_most_popular(rank);
        const double deviation = std::sqrt(std::max(1e-9, share * (1 - share)) / draws);
        worst = std::max(worst, std::abs(double(sum) / draws - share) / std::max(deviation, 1e-6));
    }
    tap::ok(growing && std::abs(popularity.of_most_popular(keys) - 1) < 1e-9, std::string(name) + ": shares add up to 1");
    tap::ok(worst < 5, std::string(name) + ": keys come as often as their shares say");
    std::sort(by_rank.begin(), by_rank.end());
    tap::ok(std::unique(by_rank.begin(), by_rank.end()) == by_rank.end(), std::string(name) + ": a rank for each key");
}

void check_traces() {
    constexpr uint32_t keys = 8000;
    const Popularity popularity(Spread::zipf, keys, 0.99);
    auto passing = [&](const char* name) {
        Trace trace(workload(name), popularity, 1000, 1);
        uint64_t newest = keys, count = 0;
        for (uint32_t i = 0; i < keys; i++) {
            const Trace::Step step = trace.next();
            if (step.key < keys) continue;
            count++;
            if (step.key != newest++) return 0.0;
        }
        return double(count) / keys;
    };
    tap::ok(passing("scan") == Trace::passing_share, "a scan is a fifth of the steps, of keys that come once");
    tap::ok(std::abs(passing("one-hit") - Trace::passing_share) < 0.02, "so are keys that never come again");
    tap::ok(passing("zipf-95:5") == 0, "elsewhere there are none");
    Trace still(workload("zipf-95:5"), popularity, 1000, 1), moving(workload("shifting"), popularity, 1000, 1);
    uint32_t alike[3] = {0, 0, 0};
    for (uint32_t i = 0; i < 3000; i++) alike[i / 1000] += still.next().key == moving.next().key;
    tap::ok(alike[0] == 1000 && alike[1] == 0 && alike[2] == 0, "a shift moves every key, and not before its time");
    const double whole = popularity.of_most_popular(100);
    tap::ok(Trace(workload("zipf-90:10"), popularity, 1, 1).bound(100) == whole, "the bound is of GETs");
    tap::ok(std::abs(Trace(workload("scan"), popularity, 1, 1).bound(100) - whole * 0.76 / 0.96) < 1e-9,
            "GETs of keys that come once cannot hit");
}

// ---- caches -----------------------------------------------------------------------------------------

double plain_lru(const SimScale& scale, const Popularity& popularity, const WorkloadKind& kind, uint64_t items_max) {
    Trace trace(kind, popularity, uint64_t(scale.shift_s) * scale.rate, scale.seed);
    std::list<uint64_t> newest_first;
    std::unordered_map<uint64_t, std::list<uint64_t>::iterator> at;
    uint64_t gets = 0, hits = 0;
    for (uint64_t i = 0; i < scale.warmup + scale.operations; i++) {
        const Trace::Step step = trace.next();
        const auto found = at.find(step.key);
        if (!step.set && i >= scale.warmup) {
            gets++;
            hits += found != at.end();
        }
        if (found != at.end()) newest_first.erase(found->second);
        newest_first.push_front(step.key);
        at[step.key] = newest_first.begin();
        if (newest_first.size() <= items_max) continue;
        at.erase(newest_first.back());
        newest_first.pop_back();
    }
    return double(hits) / double(gets);
}

void check_lru() {
    SimScale scale = small_scale();
    const Popularity popularity(Spread::zipf, scale.keys, scale.theta);
    for (const char* name : {"zipf-100:0", "zipf-90:10", "shifting", "scan", "one-hit"}) {
        const SimResult result = simulate(scale, popularity, {&workload(name), 0.1, &contestant("lru")});
        const double plain = plain_lru(scale, popularity, workload(name), result.items_max);
        tap::ok(std::abs(result.total_hit_ratio - plain) < 0.002,
                form("%s: lru is a plain LRU of as many items: %.4f and %.4f", name, result.total_hit_ratio, plain));
        tap::ok(result.pointer_hits == 0 && result.leased_share == 0, "and reads nothing one-sided");
    }
}

void check_all() {
    const SimScale scale = small_scale();
    for (const Spread spread : {Spread::zipf, Spread::scrambled}) {
        const Popularity popularity(spread, scale.keys, scale.theta);
        for (const WorkloadKind& kind : workload_kinds()) {
            if (kind.spread != spread) continue;
            std::string above;
            bool counted = true;
            for (const Contestant& one : contestants()) {
                const SimResult result = simulate(scale, popularity, {&kind, 0.15, &one});
                const double chance = 4 * std::sqrt(0.25 / double(result.gets));
                if (result.total_hit_ratio > result.bound_hit_ratio + chance) above += " " + std::string(one.name);
                counted &= result.total_hit_ratio == double(result.pointer_hits + result.twosided_hits) / double(result.gets);
                counted &= (result.pointer_hits > 0) == one.leases;
                counted &= (result.report_items > 0) == one.reports;
                counted &= result.sets_refused == 0 && result.leased_share <= 1;
            }
            tap::is(above, std::string(), std::string(kind.name) + ": no cache beats perfect knowledge");
            tap::ok(counted, "every hit is one-sided or two-sided, no SET is refused, reports where there are any");
        }
    }
}

void check_seed() {
    SimScale scale = small_scale();
    const Popularity popularity(Spread::zipf, scale.keys, scale.theta);
    for (const Contestant& one : contestants()) {
        const SimPoint point{&workload("zipf-95:5"), 0.1, &one};
        const SimResult first = simulate(scale, popularity, point), again = simulate(scale, popularity, point);
        tap::ok(same(first, again), std::string(one.name) + ": the same seed, the same numbers");
        SimScale otherwise = scale;
        otherwise.seed = 2;
        tap::ok(!same(first, simulate(otherwise, popularity, point)), "another seed, others");
    }
}

// All is kept, no key is set, and the leases outlast the run: from its second hit on a key is read one-sided.
void check_leases_without_end() {
    SimScale scale = small_scale();
    scale.clients = scale.hosts = 1;
    scale.keys = 2000;
    scale.rate = 100'000;
    const Popularity popularity(Spread::zipf, scale.keys, scale.theta);
    Contestant longest = contestant("fixed_lease_128");
    longest.configure = [](node::Config& config) {
        config.lease.term_ms = 256'000;
        config.lease.share = 0.9;
        config.lease.from_touches = 1;
        config.memory_bytes *= 4;
    };
    const SimResult result = simulate(scale, popularity, {&workload("zipf-100:0"), 1, &longest});
    tap::is(result.invalid_reads, uint64_t(0), "without SETs and evictions no read is invalid");
    Trace trace(workload("zipf-100:0"), popularity, uint64_t(scale.shift_s) * scale.rate, scale.seed);
    std::unordered_set<uint64_t> asked;
    for (uint64_t i = 0; i < scale.warmup; i++) asked.insert(trace.next().key);
    uint64_t known = 0;
    for (uint64_t i = 0; i < scale.operations; i++) known += !asked.insert(trace.next().key).second;
    tap::is(result.pointer_hits + result.twosided_hits, known, "one-sided or two-sided, every key requested before is a hit");
    tap::ok(result.total_hit_ratio > 0.99 && result.twosided_hits < result.pointer_hits / 100,
            form("with leases without end almost all are one-sided: %llu, and %llu two-sided",
                 (unsigned long long)result.pointer_hits, (unsigned long long)result.twosided_hits));
    const SimResult changed = simulate(scale, popularity, {&workload("zipf-90:10"), 1, &longest});
    tap::is(changed.invalid_reads, uint64_t(0), "a SET keeps the pointers to what it replaces (S1, S4)");
    tap::ok(changed.twosided_hits < changed.pointer_hits / 50,
            form("and with a tenth of SETs almost all are one-sided: %llu, and %llu two-sided",
                 (unsigned long long)changed.pointer_hits, (unsigned long long)changed.twosided_hits));
    scale.rate = 1;
    longest.configure = [](node::Config& config) { config.lease.term_ms = 1000; };
    const SimResult slow = simulate(scale, popularity, {&workload("zipf-100:0"), 1, &longest});
    tap::ok(slow.pointer_hit_ratio < 0.2, form("with leases of an operation few are: %.4f", slow.pointer_hit_ratio));
}

// Where all items were loaded and fit, every GET is a hit.
void check_load() {
    SimScale scale = small_scale();
    scale.keys = 2000;
    scale.warmup = 0;
    const Popularity popularity(Spread::scrambled, scale.keys, scale.theta);
    Contestant roomy = contestant("lru");
    roomy.configure = [](node::Config& config) {
        config.policy = PolicyKind::lru;
        config.memory_bytes *= 4;
    };
    const SimPoint point{&workload("scrambled-100:0"), 1, &roomy};
    tap::ok(simulate(scale, popularity, point).total_hit_ratio < 1, "what was not loaded is missed once");
    scale.load = true;
    tap::ok(simulate(scale, popularity, point).total_hit_ratio == 1, "what was loaded is not");
}

// The paper's server without C-Hint.
void check_original() {
    SimScale scale = small_scale();
    scale.load = true;
    scale.rate = scale.keys / 20;  // no lease ends
    const Popularity popularity(Spread::scrambled, scale.keys, scale.theta);
    const auto total = [&](const char* policy) {
        return simulate(scale, popularity, {&workload("scrambled-100:0"), 0.1, &contestant(policy)});
    };
    const SimResult original = total("original"), lru = total("lru");
    tap::is(original.report_items, uint64_t(0), "original: no host reports");
    tap::ok(original.leased_share > 0.8, form("almost all of memory is pinned: %.2f", original.leased_share));
    tap::ok(original.total_hit_ratio < lru.total_hit_ratio - 0.02,
            form("by what was loaded first: %.4f, an LRU finds %.4f", original.total_hit_ratio, lru.total_hit_ratio));
    tap::ok(original.pointer_hit_ratio < 0.2, form("which is not what is popular: %.4f", original.pointer_hit_ratio));
    tap::is(original.sets_refused, uint64_t(0), "no SET is refused for it");
}

// ---- options and reports ----------------------------------------------------------------------------

std::string read(std::vector<std::string> words, HitRatioOptions& options) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    return read_hitratio_options(arguments, options);
}

void check_options() {
    HitRatioOptions options;
    tap::is(read({}, options), std::string(), "no note is necessary");
    tap::ok(options.workloads.size() == workload_kinds().size() && options.contestants.size() == contestants().size() &&
                options.ratios.size() == 6 && options.ratios[0] == 1.0 / 80,
            "all of the paper's experiment, and more");
    const SimScale usual, &scale = options.scale;
    tap::ok(scale.keys == usual.keys && scale.warmup == usual.warmup && scale.operations == usual.operations &&
                scale.rate == usual.rate && scale.report_bytes == usual.report_bytes &&
                scale.history_items == usual.history_items,
            "at the usual scale");
    std::string help;
    for (const auto& option : hitratio_options()) help += std::string(option.help) + ",";
    bool named = true;
    for (const WorkloadKind& one : workload_kinds()) named &= help.find(one.name) != help.npos;
    for (const Contestant& one : contestants()) named &= help.find(one.name) != help.npos;
    tap::ok(named, "the help names every workload and policy");
    HitRatioOptions other;
    tap::is(read({"--quick", "--ratios=5/80,0.5", "--policies", "lru,clock", "--workloads", "scan", "--seed=7", "--rate", "9"},
                 other),
            std::string(), "what stands behind --quick");
    tap::ok(other.ratios == std::vector<double>{5.0 / 80, 0.5} && other.contestants.size() == 2 &&
                other.workloads == std::vector<const WorkloadKind*>{&workload("scan")} && other.scale.seed == 7 &&
                other.scale.rate == 9 && other.scale.keys == 80'000,
            "holds its value");
    HitRatioOptions more;
    tap::ok(read({"--keys", "8000"}, more).empty() && more.scale.operations == 80'000 && more.scale.warmup == 40'000 &&
                more.scale.rate == 100,
            "operations and rate follow the keys");
    for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
             {"--policies", "best"}, {"--policies", "lru,lru"}, {"--workloads", "zipf"}, {"--ratios", "0"},
             {"--ratios", "81/80"}, {"--ratios", "1/0"}, {"--ratios", "1/80,"}, {"--keys", "10"}, {"--partitions", "3"},
             {"--load", "--servers", "a:1", "--workloads", "scan", "--policies", "lru"}, {"--load=1"}, {"--hosts", "37"},
             {"--rate", "0"}, {"--quick=1"}, {"--report-bytes", "8"}, {"--operations"}, {"plain"}}) {
        HitRatioOptions ignored;
        tap::ok(!read(wrong, ignored).empty(), "refused: " + wrong.front() + " " + wrong.back());
    }
}

void check_reports() {
    HitRatioPoints points;
    for (const char* policy : {"lru", "clock"}) {
        HitRatioPoint& one = points.emplace_back();
        one.point = {&workload("zipf-95:5"), 1.0 / 80, &contestant(policy)};
        one.result.bound_hit_ratio = 0.6;
        one.result.total_hit_ratio = points.size() == 1 ? 0.4 : 0.55;
        one.result.invalid_reads = 12;
    }
    tap::ok(std::abs(*gap_closed(points, points[1].point) - 0.75) < 1e-9, "how much of the gap is closed");
    tap::ok(gap_closed(points, points[0].point) == 0.0, "by LRU none of it");
    tap::ok(!gap_closed({points[1]}, points[1].point).has_value(), "without LRU no gap is reported");
    const std::string json = hitratio_json(points);
    size_t last = 0;
    for (const char* field : {"workload", "cache_ratio", "policy", "total_hit_ratio", "bound_hit_ratio", "pointer_hit_ratio",
                              "invalid_reads", "leased_share"}) {
        const size_t found = json.find(form("\"%s\": ", field));
        tap::ok(found != json.npos && found > last, form("JSON has %s in its place", field));
        last = found;
    }
    tap::ok(hitratio_json({}) == "[]\n", "a list, if an empty one");
    const std::string csv = hitratio_csv(points);
    auto commas = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
    const size_t head_end = csv.find('\n'), row_end = csv.find('\n', head_end + 1);
    tap::is(commas(csv.substr(0, head_end)), commas(csv.substr(head_end, row_end - head_end)), "CSV has a name for each column");
    tap::ok(hitratio_text(small_scale(), points).find("0.750") != std::string::npos, "the table shows the gap");
}

// The paper's results beside the simulated ones, and the reasons for differences.
void check_paper() {
    HitRatioPoints points;
    const auto add = [&](const char* policy, double total, double pointer = 0) {
        HitRatioPoint& one = points.emplace_back();
        one.point = {&workload("zipf-100:0"), 1.0 / 80, &contestant(policy)};
        one.result.bound_hit_ratio = 0.6;
        one.result.total_hit_ratio = total;
        one.result.pointer_hit_ratio = pointer;
    };
    const auto line = [&](const char* what) {
        const std::string text = hitratio_text(small_scale(), points);
        const size_t begin = text.find(what);
        return begin == text.npos ? std::string() : text.substr(begin, text.find('\n', begin) - begin);
    };
    add("lru", 0.4);
    tap::is(line("total of C-Hint / of lru"), std::string(), "no row of what was not simulated");
    tap::ok(line("perfect knowledge").ends_with("-"), "nothing where it was not scrambled");
    add("pdla_paper", 0.61);
    add("pdla", 0.5);
    const std::string agrees = line("total of C-Hint / of lru");
    tap::ok(agrees.find("1.541 |     1.525         -     1.250         -") != agrees.npos,
            "the paper's number, pdla_paper and pdla beside it");
    tap::ok(!agrees.ends_with("]") && hitratio_text(small_scale(), points).find("not reproduced") == std::string::npos,
            "within a tenth they agree");
    points[1].result.total_hit_ratio = 0.5;
    tap::ok(line("total of C-Hint / of lru").ends_with(" [1]"), "otherwise they do not");
    tap::ok(!line("[1] not reproduced: ").empty(), "with the reason");
    add("original", 0.3);
    tap::ok(line("total of original").ends_with(" [1]") && line("total of C-Hint / of lru").ends_with(" [2]"), "each row its own");
    tap::ok(!line("[2] not reproduced: ").empty() && line("[3]").empty(), "each reason once");
}

}  // namespace

}  // namespace farcached::bench

int main() {
    using namespace farcached::bench;
    check_popularity(Spread::zipf, "zipf");
    check_popularity(Spread::scrambled, "scrambled");
    check_traces();
    check_lru();
    check_all();
    check_seed();
    check_leases_without_end();
    check_load();
    check_original();
    check_options();
    check_reports();
    check_paper();
    return tap::done();
}
