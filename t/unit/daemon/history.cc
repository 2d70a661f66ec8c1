// SPDX-License-Identifier: BSD-3-Clause
// HistoryRing: differences of readings, empty points for readings that were left out, and a bounded number of points.
#include <string>
#include <string_view>

#include "daemon/http/history.h"
#include "t/lib/tap.h"

using namespace farcached;

namespace {

constexpr uint64_t second_ns = UINT64_C(1'000'000'000);
constexpr uint64_t start_ns = 77 * second_ns;

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

size_t points_of(const std::string& json) {
    const size_t begin = json.find("\"requests_per_s\":[");
    const std::string_view series = std::string_view(json).substr(begin, json.find(']', begin) - begin);
    size_t points = 1;
    for (char c : series.substr(series.find('['))) points += c == ',' ? 1 : 0;
    return points;
}

void test_points() {
    http::HistoryRing ring;
    ring.add(start_ns, {.requests = 1'000'000, .gets = 500, .hits = 400});
    tap::ok(has(ring.json(), "\"every_s\":2,\"points_max\":300,\"requests_per_s\":[],"), "one reading makes no point");
    ring.add(start_ns + 2 * second_ns, {.requests = 1'000'300, .gets = 800, .hits = 500, .p99_us = 250});
    ring.add(start_ns + 4 * second_ns,
             {.requests = 1'000'301, .gets = 800, .hits = 500, .gets_one_sided = 2, .gets_through_links = 8});
    tap::is(ring.json(),
            std::string("{\"every_s\":2,\"points_max\":300,\"requests_per_s\":[150.0,0.5],\"hit_ratio\":[0.333,null],"
                        "\"one_sided_share\":[null,0.25],\"p99_us\":[250.0,null]}\n"),
            "rates and ratios of what happened between two readings; null without any");
}

void test_left_out() {
    http::HistoryRing ring;
    ring.add(start_ns, {});
    ring.add(start_ns + 8 * second_ns, {.requests = 80});
    tap::ok(has(ring.json(), "\"requests_per_s\":[null,null,null,10.0]"), "readings that were left out are empty points");
    ring.add(start_ns + 11 * second_ns, {.requests = 110});
    tap::ok(has(ring.json(), "null,10.0,null,10.0]"), "a late reading is at its time");
    ring.add(start_ns + 11 * second_ns, {.requests = 111});
    ring.add(start_ns + 13 * second_ns, {.requests = 90});
    tap::ok(has(ring.json(), "null,10.0,null,10.0,0.0]"), "no time and no rise: no rate below zero");
}

void test_bounds() {
    http::HistoryRing ring;
    for (uint64_t i = 0; i <= 1000; i++) ring.add(start_ns + 2 * i * second_ns, {.requests = i * i});
    const std::string json = ring.json();
    tap::is(points_of(json), http::HistoryRing::points_max, "ten minutes are kept, and no more");
    tap::ok(has(json, "\"requests_per_s\":[700.5,701.5,") && has(json, "998.5,999.5],"), "the latest, oldest first");
    ring.add(start_ns + 100'000 * second_ns, {});
    tap::is(points_of(ring.json()), http::HistoryRing::points_max, "a day without readings makes no more points");
}

}  // namespace

int main() {
    test_points();
    test_left_out();
    test_bounds();
    return tap::done();
}
