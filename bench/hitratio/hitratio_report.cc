// SPDX-License-Identifier: BSD-3-Clause
#include "bench/hitratio/hitratio.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "bench/command.h"
#include "bench/hitratio/paper.h"

namespace farcached::bench {

namespace {

std::string shown(const std::optional<double>& number, const char* format) {
    char text[32];
    if (!number.has_value()) return "-";
    std::snprintf(text, sizeof text, format, *number);
    return text;
}

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

std::optional<double> quotient(std::optional<double> a, std::optional<double> b) {
    return a.has_value() && b.has_value() && *b > 0 ? std::optional(*a / *b) : std::nullopt;
}

// The results of one popularity, with this policy in the role of the paper's; none for points not simulated.
class Found {
  public:
    Found(const HitRatioPoints& points, const char* spread, const char* chint)
        : points_(points), spread_(spread), chint_(chint) {}

    using Number = std::optional<double>;
    const char* chint() const { return chint_; }
    Number total(const char* mix, double ratio, std::string_view policy) const {
        return number(mix, ratio, policy, &SimResult::total_hit_ratio);
    }
    Number bound(const char* mix, double ratio, std::string_view policy) const {
        return number(mix, ratio, policy, &SimResult::bound_hit_ratio);
    }
    Number pointer(const char* mix, double ratio, std::string_view policy) const {
        return number(mix, ratio, policy, &SimResult::pointer_hit_ratio);
    }

  private:
    Number number(const char* mix, double ratio, std::string_view policy, double SimResult::*field) const {
        const SimResult* result = find(points_, spread_ + mix, ratio, policy);
        return result == nullptr ? std::nullopt : std::optional(result->*field);
    }

    const HitRatioPoints& points_;
    const std::string spread_;
    const char* chint_;
};

// Folds the known values over `ratios` (in 80ths).
enum class Fold : uint8_t { least, most, mean };
template <class Value>
std::optional<double> over(std::initializer_list<int> ratios, Fold fold, Value&& value) {
    double least = INFINITY, most = -INFINITY, sum = 0;
    int known = 0;
    for (const int ratio : ratios) {
        const std::optional<double> one = value(ratio / 80.0);
        if (!one.has_value()) continue;
        known++;
        sum += *one;
        least = std::min(least, *one);
        most = std::max(most, *one);
    }
    if (known == 0) return std::nullopt;
    return fold == Fold::mean ? sum / known : fold == Fold::least ? least : most;
}

std::optional<double> original_best(const Found& found) {
    std::optional<double> best;
    for (const char* mix : paper_mixes)
        if (auto one = found.total(mix, 1.0 / 80, "original"); one.has_value()) best = std::max(best.value_or(0), *one);
    return best;
}

std::optional<double> lru_over_original(const Found& found, Fold fold) {
    std::optional<double> folded;
    for (const char* mix : paper_mixes) {
        auto one = over({1, 5, 10, 20, 30}, fold, [&](double ratio) {
            return quotient(found.total(mix, ratio, "lru"), found.total(mix, ratio, "original"));
        });
        if (!one.has_value()) continue;
        const bool better = fold == Fold::least ? *one < folded.value_or(INFINITY) : *one > folded.value_or(0);
        if (better) folded = one;
    }
    return folded;
}

std::optional<double> smallest_over(const Found& found, const char* mix, const char* than) {
    return quotient(found.total(mix, 1.0 / 80, found.chint()), found.total(mix, 1.0 / 80, than));
}

std::optional<double> kept_with_sets(const Found& found, const char* policy) {
    return quotient(found.total("90:10", 1.0 / 80, policy), found.total("100:0", 1.0 / 80, policy));
}

std::optional<double> mean_pointers(const Found& found, const char* policy) {
    return over({10, 20, 30, 50}, Fold::mean, [&](double ratio) { return found.pointer("95:5", ratio, policy); });
}

std::optional<double> pointers_over(const Found& found, const char* than) {
    return over({10, 20, 30, 50}, Fold::most, [&](double ratio) {
        return quotient(found.pointer("95:5", ratio, found.chint()), found.pointer("95:5", ratio, than));
    });
}

std::optional<double> ours(PaperValue value, const Found& found) {
    switch (value) {
        case PaperValue::original_smallest: return original_best(found);
        case PaperValue::lru_over_original_least: return lru_over_original(found, Fold::least);
        case PaperValue::lru_over_original_most: return lru_over_original(found, Fold::most);
        case PaperValue::pdla_over_lru: return smallest_over(found, "100:0", "lru");
        case PaperValue::bound_over_lru:
            return quotient(found.bound("100:0", 1.0 / 80, "lru"), found.total("100:0", 1.0 / 80, "lru"));
        case PaperValue::pdla_over_approx_lru: return smallest_over(found, "100:0", "approx_lru");
        case PaperValue::pdla_over_mq: return smallest_over(found, "95:5", "mq");
        case PaperValue::mq_with_sets: return kept_with_sets(found, "mq");
        case PaperValue::pdla_with_sets: return kept_with_sets(found, found.chint());
        case PaperValue::pdla_pointers: return mean_pointers(found, found.chint());
        case PaperValue::approx_lru_pointers: return mean_pointers(found, "approx_lru");
        case PaperValue::pdla_over_fixed_128: return pointers_over(found, "fixed_lease_128");
        case PaperValue::pdla_over_fixed_32: return pointers_over(found, "fixed_lease_32");
        case PaperValue::pdla_over_fixed_8: return pointers_over(found, "fixed_lease_8");
    }
    return std::nullopt;
}

bool agrees(const PaperRow& row, const std::optional<double>& number) {
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
        std::optional<double> numbers[4];
        for (size_t i = 0; i < 4; i++) numbers[i] = ours(row.value, found[i]);
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
    return "\nFigures 5 and 6 of the C-Hint paper, what its text says, beside ours: C-Hint as pdla_paper, and as pdla\n" +
           form("%-70s %7s | %9s %9s %9s %9s\n", "", "paper", "zipf", "scrambled", "zipf", "scrambled") + text + whys;
}

}  // namespace

const SimResult* find(const HitRatioPoints& points, std::string_view workload, double ratio, std::string_view policy) {
    for (const auto& [point, result] : points) {
        if (point.workload->name != workload || point.contestant->name != policy) continue;
        if (std::abs(point.cache_ratio - ratio) < 1e-9) return &result;
    }
    return nullptr;
}

std::optional<double> gap_closed(const HitRatioPoints& points, const SimPoint& point) {
    const SimResult* lru = find(points, point.workload->name, point.cache_ratio, "lru");
    const SimResult* own = find(points, point.workload->name, point.cache_ratio, point.contestant->name);
    if (lru == nullptr || own == nullptr) return std::nullopt;
    const double gap = lru->bound_hit_ratio - lru->total_hit_ratio;
    if (gap <= 0) return std::nullopt;
    return (own->total_hit_ratio - lru->total_hit_ratio) / gap;
}

std::string hitratio_csv(const HitRatioPoints& points) {
    std::string text =
        "workload,cache_ratio,policy,total_hit_ratio,bound_hit_ratio,pointer_hit_ratio,invalid_reads,leased_share,gets,"
        "pointer_hits,twosided_hits,evictions,sets_refused,leases_without_room,leases_after_set,report_items,"
        "report_bytes_per_s,items_max\n";
    for (const auto& [point, result] : points) {
        text += form("%s,%.9g,%s,%.9g,%.9g,%.9g,%llu,%.9g", point.workload->name.data(), point.cache_ratio,
                     point.contestant->name.data(), result.total_hit_ratio, result.bound_hit_ratio, result.pointer_hit_ratio,
                     (unsigned long long)result.invalid_reads, result.leased_share);
        for (const uint64_t count :
             {result.gets, result.pointer_hits, result.twosided_hits, result.evictions, result.sets_refused,
              result.leases_without_room, result.leases_after_set, result.report_items})
            text += "," + std::to_string(count);
        text += form(",%.9g,%llu\n", result.report_bytes_per_s, (unsigned long long)result.items_max);
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
        object["total_hit_ratio"] = result.total_hit_ratio;
        object["bound_hit_ratio"] = result.bound_hit_ratio;
        object["pointer_hit_ratio"] = result.pointer_hit_ratio;
        object["invalid_reads"] = result.invalid_reads;
        object["leased_share"] = result.leased_share;
        object["gets"] = result.gets;
        object["evictions"] = result.evictions;
        object["sets_refused"] = result.sets_refused;
        object["leases_without_room"] = result.leases_without_room;
        object["leases_after_set"] = result.leases_after_set;
        object["report_bytes_per_s"] = result.report_bytes_per_s;
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
