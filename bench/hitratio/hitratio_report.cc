// SPDX-License-Identifier: BSD-3-Clause
#include "bench/hitratio/hitratio.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <map>

#include "bench/command.h"

namespace farcached::bench {

namespace {

double per_second(uint64_t count, const SimScale& scale) {
    return double(count) * scale.rate / double(std::max<uint64_t>(1, scale.operations));
}

std::string head(const SimScale& scale) {
    return form("%u keys of 23 bytes, values of %u, zipf %g; %llu operations a point after %llu\n", scale.keys,
                scale.value_bytes, scale.theta, (unsigned long long)scale.operations,
                (unsigned long long)scale.warmup) +
           form("%u clients on %u hosts, %u operations/s: %.0f s a point; reports every %u s, of %u bytes at "
                "most; seed %llu\n",
                scale.clients, scale.hosts, scale.rate, double(scale.operations) / scale.rate, scale.report_interval_s,
                scale.report_bytes, (unsigned long long)scale.seed) +
           (scale.load ? "before, each key was stored and asked for once\n" : "") +
           (scale.flush ? "after flush_all, of other keys\n" : "");
}

std::string rows(const SimScale& scale, const HitRatioPoints& points) {
    std::string text;
    const WorkloadKind* workload = nullptr;
    for (const auto& [point, result] : points) {
        if (point.workload != workload) {
            workload = point.workload;
            text += form("\n%s: %s\n", workload->name.data(), workload->help.data());
            text += form("%5s  %-16s %8s %8s %6s %8s %8s %7s %9s %9s %9s %8s %8s\n", "ratio", "policy", "total", "bound",
                         "gap", "pointer", "invalid", "leased", "evicted", "no room", "after set", "refused", "reports");
            text += form("%5s  %-16s %8s %8s %6s %8s %8s %7s %9s %9s %9s %8s %8s\n", "x 80", "", "", "", "closed", "", "/1000",
                         "%", "/s", "leases/s", "leases/s", "sets", "bytes/s");
        }
        text += form("%5.3g  %-16s %8.4f %8.4f %6s %8.4f %8.3f %7.2f %9.1f %9.1f %9.1f %8llu %8.0f\n",
                     point.cache_ratio * 80, point.contestant->name.data(), result.total_hit_ratio, result.bound_hit_ratio,
                     shown(gap_closed(points, point), "%.3f").c_str(), result.pointer_hit_ratio,
                     1000.0 * double(result.invalid_reads) / double(std::max<uint64_t>(1, result.gets)),
                     100 * result.leased_share, per_second(result.evictions, scale),
                     per_second(result.leases_without_room, scale), per_second(result.leases_after_set, scale),
                     (unsigned long long)result.sets_refused, result.report_bytes_per_s);
    }
    return text;
}

// ---- comparison with the paper ----------------------------------------------------------------------
// The hit ratios in the text of the paper (hitratio.h): Figures 5 and 6, and the share of GETs by remote pointer in Figure 7. Its
// 1 GB of cache is 1/80 of its data. Its C-Hint is pdla_paper.

constexpr const char* paper_mixes[] = {"100:0", "95:5", "90:10"};

Number quotient(Number a, Number b) { return a.has_value() && b.has_value() && *b > 0 ? Number(*a / *b) : Number(); }

// The results of one popularity, with this policy in the role of the paper's; none for points not simulated.
class Found {
  public:
    Found(const HitRatioPoints& points, const char* spread, const char* chint)
        : points_(points), spread_(spread), chint_(chint) {}

    const char* chint() const { return chint_; }
    Number total(const char* mix, double ratio, std::string_view policy) const {
        return number(mix, ratio, policy, &SimResult::total_hit_ratio);
    }
    Number number(const char* mix, double ratio, std::string_view policy, double SimResult::*field) const {
        const SimResult* result = find(points_, spread_ + mix, ratio, policy);
        return result == nullptr ? Number() : Number(result->*field);
    }

  private:
    const HitRatioPoints& points_;
    const std::string spread_;
    const char* chint_;
};

// Folds the known values over `ratios` (in 80ths).
enum class Fold : uint8_t { least, most, mean };
template <class Value>
Number over(std::initializer_list<int> ratios, Fold fold, Value&& value) {
    std::vector<double> known;
    for (const int ratio : ratios)
        if (const Number one = value(ratio / 80.0); one.has_value()) known.push_back(*one);
    if (known.empty() || fold == Fold::mean) return mean_of(known);
    const auto [least, most] = std::minmax_element(known.begin(), known.end());
    return fold == Fold::least ? *least : *most;
}

Number original_best(const Found& found) {
    Number best;
    for (const char* mix : paper_mixes)
        if (auto one = found.total(mix, 1.0 / 80, "original"); one.has_value()) best = std::max(best.value_or(0), *one);
    return best;
}

Number lru_over_original(const Found& found, Fold fold) {
    Number folded;
    for (const char* mix : paper_mixes) {
        const Number one = over({1, 5, 10, 20, 30}, fold, [&](double ratio) {
            return quotient(found.total(mix, ratio, "lru"), found.total(mix, ratio, "original"));
        });
        if (!one.has_value()) continue;
        const bool better = fold == Fold::least ? *one < folded.value_or(INFINITY) : *one > folded.value_or(0);
        if (better) folded = one;
    }
    return folded;
}

Number bound_over_lru(const Found& found) {
    return quotient(found.number("100:0", 1.0 / 80, "lru", &SimResult::bound_hit_ratio), found.total("100:0", 1.0 / 80, "lru"));
}

Number smallest_over(const Found& found, const char* mix, const char* than) {
    return quotient(found.total(mix, 1.0 / 80, found.chint()), found.total(mix, 1.0 / 80, than));
}

Number kept_with_sets(const Found& found, const char* policy) {
    return quotient(found.total("90:10", 1.0 / 80, policy), found.total("100:0", 1.0 / 80, policy));
}

Number pointers(const Found& found, double ratio, const char* policy) {
    return found.number("95:5", ratio, policy, &SimResult::pointer_hit_ratio);
}

Number mean_pointers(const Found& found, const char* policy) {
    return over({10, 20, 30, 50}, Fold::mean, [&](double ratio) { return pointers(found, ratio, policy); });
}

Number pointers_over(const Found& found, const char* than) {
    return over({10, 20, 30, 50}, Fold::most, [&](double ratio) {
        return quotient(pointers(found, ratio, found.chint()), pointers(found, ratio, than));
    });
}

// Reasons for differences from the paper.
constexpr const char* why_loaded =
    "in the paper what a client has a pointer to stays for ever, so that the cache holds what was loaded first.\n"
    "    Here a tenth of memory is never leased, and is an LRU of its own; a lease ends after 256 s; and the trace fills the\n"
    "    cache. With --load and ten times the --rate no lease ends, and what is hit by pointer are keys that were loaded";
constexpr const char* why_skewed =
    "the paper gives neither skew nor hit ratios. The row of perfect knowledge is the most that any policy\n"
    "    reaches here";
constexpr const char* why_set_keys =
    "SETs go to keys by the popularity that GETs have, and count for it. The paper's are uniformly distributed";
constexpr const char* why_rate =
    "how often a key is asked for during its lease decides, and the paper gives no rate. Here it is an\n"
    "    operation a second for every 80 keys, and SETs keep pointers, which in the paper they end";

// Columns name the policy that is the paper's own.
struct PaperRow {
    const char* what;
    const char* text;  // from the paper
    double low, high;  // range that agrees with it
    const char* why;   // nullptr: the paper has no such number
    Number (*ours)(const Found& found);
};
constexpr double paper_tolerance = 0.1;
constexpr PaperRow about(const char* what, const char* text, double number, const char* why, Number (*ours)(const Found&)) {
    return {what, text, number * (1 - paper_tolerance), number * (1 + paper_tolerance), why, ours};
}
constexpr PaperRow paper_rows[] = {
    {"total of original, 1/80, the best of three mixes", "< 0.02", 0, 0.02, why_loaded, original_best},
    about("total of lru / of original, 1/80 to 30/80, least", "1.5", 1.5, why_loaded,
          [](const Found& found) { return lru_over_original(found, Fold::least); }),
    about("the same, most", "3.8", 3.8, why_loaded, [](const Found& found) { return lru_over_original(found, Fold::most); }),
    about("total of C-Hint / of lru, 1/80, 100:0", "1.541", 1.541, why_skewed,
          [](const Found& found) { return smallest_over(found, "100:0", "lru"); }),
    {"perfect knowledge / total of lru, 1/80, 100:0", "-", 0, 0, nullptr, bound_over_lru},
    about("total of C-Hint / of approx_lru, 1/80, 100:0", "1.546", 1.546, why_skewed,
          [](const Found& found) { return smallest_over(found, "100:0", "approx_lru"); }),
    about("total of C-Hint / of mq, 1/80, 95:5", "0.92", 0.92, why_set_keys,
          [](const Found& found) { return smallest_over(found, "95:5", "mq"); }),
    about("total of mq, 90:10 / 100:0, 1/80", "0.80", 0.80, why_set_keys,
          [](const Found& found) { return kept_with_sets(found, "mq"); }),
    about("total of C-Hint, 90:10 / 100:0, 1/80", "0.847", 0.847, why_set_keys,
          [](const Found& found) { return kept_with_sets(found, found.chint()); }),
    about("pointer hits of C-Hint, 95:5, mean of 10/80 to 50/80", "0.474", 0.474, why_rate,
          [](const Found& found) { return mean_pointers(found, found.chint()); }),
    about("pointer hits of approx_lru, 95:5, likewise (Figure 7)", "0.242", 0.242, why_rate,
          [](const Found& found) { return mean_pointers(found, "approx_lru"); }),
    about("pointer hits of C-Hint / of fixed_lease_128, 10/80 to 50/80, most", "2.6", 2.6, why_rate,
          [](const Found& found) { return pointers_over(found, "fixed_lease_128"); }),
    about("the same over fixed_lease_32", "3.8", 3.8, why_rate,
          [](const Found& found) { return pointers_over(found, "fixed_lease_32"); }),
    about("the same over fixed_lease_8", "6.1", 6.1, why_rate,
          [](const Found& found) { return pointers_over(found, "fixed_lease_8"); }),
};

bool agrees(const PaperRow& row, const Number& number) {
    return number.has_value() && *number >= row.low && *number <= row.high;
}

// The paper's rows beside the results here. If neither spread agrees under the paper's own policy, the row's reason
// follows.
std::string beside_paper(const HitRatioPoints& points) {
    const Found found[] = {{points, "zipf-", "pdla_paper"}, {points, "scrambled-", "pdla_paper"},
                           {points, "zipf-", "pdla"}, {points, "scrambled-", "pdla"}};
    std::string text, whys;
    std::vector<const char*> given;
    for (const PaperRow& row : paper_rows) {
        Number numbers[4];
        for (size_t i = 0; i < 4; i++) numbers[i] = row.ours(found[i]);
        const bool as_paper = numbers[0].has_value() || numbers[1].has_value();
        if (!as_paper && !numbers[2].has_value() && !numbers[3].has_value()) continue;
        std::string mark;
        if (as_paper && row.why != nullptr && !agrees(row, numbers[0]) && !agrees(row, numbers[1])) {
            auto place = std::find(given.begin(), given.end(), row.why);
            if (place == given.end()) {
                whys += "[" + std::to_string(given.size() + 1) + "] not reproduced: " + row.why + "\n";
                place = given.insert(given.end(), row.why);
            }
            mark = form(" [%zu]", size_t(place - given.begin()) + 1);
        }
        text += form("%-70s %7s |", row.what, row.text);
        for (const auto& number : numbers) text += form(" %9s", shown(number, "%.3f").c_str());
        text += mark + "\n";
    }
    if (text.empty()) return text;
    return "\nFigures 5 and 6 of C-Hint (Wang et al.), what its text says, beside ours: C-Hint as pdla_paper, and as pdla\n" +
           form("%-70s %7s | %9s %9s %9s %9s\n", "", "C-Hint", "zipf", "scrambled", "zipf", "scrambled") + text + whys;
}

}  // namespace

const SimResult* find(const HitRatioPoints& points, std::string_view workload, double ratio, std::string_view policy) {
    for (const auto& [point, result] : points) {
        if (point.workload->name != workload || point.contestant->name != policy) continue;
        if (std::abs(point.cache_ratio - ratio) < 1e-9) return &result;
    }
    return nullptr;
}

Number gap_closed(const HitRatioPoints& points, const SimPoint& point) {
    const SimResult* lru = find(points, point.workload->name, point.cache_ratio, "lru");
    const SimResult* own = find(points, point.workload->name, point.cache_ratio, point.contestant->name);
    if (lru == nullptr || own == nullptr) return std::nullopt;
    const double gap = lru->bound_hit_ratio - lru->total_hit_ratio;
    if (gap <= 0) return std::nullopt;
    return (own->total_hit_ratio - lru->total_hit_ratio) / gap;
}

namespace {

// One of the two fields is set.
struct Column {
    const char* name;
    double SimResult::*number;
    uint64_t SimResult::*count;
    bool in_json = true;
};
using R = SimResult;
constexpr Column columns[] = {
    {"total_hit_ratio", &R::total_hit_ratio, nullptr},
    {"bound_hit_ratio", &R::bound_hit_ratio, nullptr},
    {"pointer_hit_ratio", &R::pointer_hit_ratio, nullptr},
    {"invalid_reads", nullptr, &R::invalid_reads},
    {"leased_share", &R::leased_share, nullptr},
    {"gets", nullptr, &R::gets},
    {"pointer_hits", nullptr, &R::pointer_hits, false},
    {"twosided_hits", nullptr, &R::twosided_hits, false},
    {"evictions", nullptr, &R::evictions},
    {"sets_refused", nullptr, &R::sets_refused},
    {"leases_without_room", nullptr, &R::leases_without_room},
    {"leases_after_set", nullptr, &R::leases_after_set},
    {"report_items", nullptr, &R::report_items, false},
    {"report_bytes_per_s", &R::report_bytes_per_s, nullptr},
    {"items_max", nullptr, &R::items_max, false},
};

}  // namespace

std::string hitratio_csv(const HitRatioPoints& points) {
    std::string text = "workload,cache_ratio,policy";
    for (const Column& column : columns) text += std::string(",") + column.name;
    text += "\n";
    for (const auto& [point, result] : points) {
        text += form("%s,%.9g,%s", point.workload->name.data(), point.cache_ratio, point.contestant->name.data());
        for (const Column& column : columns)
            text += "," + (column.number != nullptr ? csv_number(result.*column.number) : std::to_string(result.*column.count));
        text += "\n";
    }
    return text;
}

std::string hitratio_json(const HitRatioPoints& points) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& [point, result] : points) {
        nlohmann::ordered_json object;
        object["workload"] = point.workload->name;
        object["cache_ratio"] = point.cache_ratio;
        object["policy"] = point.contestant->name;
        for (const Column& column : columns) {
            if (!column.in_json) continue;
            if (column.number != nullptr)
                object[column.name] = result.*column.number;
            else
                object[column.name] = result.*column.count;
        }
        list.push_back(std::move(object));
    }
    return list.dump(2) + "\n";
}

std::string hitratio_text(const SimScale& scale, const HitRatioPoints& points) {
    return head(scale) + rows(scale, points) + beside_paper(points);
}

std::string hitratio_line(const HitRatioPoint& one) {
    return form("%s, %.3g/80, %s: total %.4f of %.4f, by pointer %.4f", one.point.workload->name.data(),
                one.point.cache_ratio * 80, one.point.contestant->name.data(), one.result.total_hit_ratio,
                one.result.bound_hit_ratio, one.result.pointer_hit_ratio);
}

namespace {

constexpr uint32_t interval_bits = 4;  // highest bits kept of a latency: eight intervals to a power of two

struct Kind {
    const char* name;
    Histogram Latencies::*of;
};
constexpr Kind kinds[] = {{"hit", &Latencies::hits}, {"miss", &Latencies::misses}, {"set", &Latencies::sets}};

uint32_t shift_of(uint64_t ns) {
    const uint32_t bits = uint32_t(std::bit_width(ns));
    return bits > interval_bits ? bits - interval_bits : 0;
}

}  // namespace

std::string latency_csv(const SimScale& scale, const SimPoint& point, const Latencies& latencies) {
    std::string text = "workload,cache_ratio,policy,report_interval_s,kind,from_us,to_us,count,share\n";
    for (const Kind& kind : kinds) {
        const Histogram& all = latencies.*kind.of;
        std::map<uint64_t, uint64_t> counts;  // by the lower bound of the interval
        all.each([&](uint64_t ns, uint64_t count) { counts[ns >> shift_of(ns) << shift_of(ns)] += count; });
        for (const auto& [from_ns, count] : counts) {
            const uint64_t to_ns = from_ns + (UINT64_C(1) << shift_of(from_ns));
            text += form("%s,%.9g,%s,%u,%s,%.3f,%.3f,%llu,%.9g\n", point.workload->name.data(), point.cache_ratio,
                         point.contestant->name.data(), scale.report_interval_s, kind.name, double(from_ns) / 1e3,
                         double(to_ns) / 1e3, (unsigned long long)count, double(count) / double(all.count()));
        }
    }
    return text;
}

std::string latency_text(const Latencies& latencies) {
    std::string text = form("\n%-8s %10s %10s %10s %10s %10s\n", "us", "count", "mean", "p50", "p90", "p99");
    for (const Kind& kind : kinds) {
        const Histogram& all = latencies.*kind.of;
        text += form("%-8s %10llu %10.1f %10.1f %10.1f %10.1f\n", kind.name, (unsigned long long)all.count(), all.mean() / 1e3,
                     double(all.quantile(0.5)) / 1e3, double(all.quantile(0.9)) / 1e3, double(all.quantile(0.99)) / 1e3);
    }
    return text;
}

}  // namespace farcached::bench
