// SPDX-License-Identifier: BSD-3-Clause
#include "bench/hitratio/latency.h"

#include <bit>
#include <map>

#include "bench/form.h"

namespace farcached::bench {

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
