// SPDX-License-Identifier: BSD-3-Clause
// farbench buffer's pure parts, and its buffer manager over tiers that count.
#include "bench/buffer/buffer.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/buffer/buffer_manager.h"
#include "bench/buffer/tiers.h"
#include "t/lib/tap.h"

namespace farcached::bench {

namespace {

CallSeries series(uint32_t figure, const char* operation, const char* place, Via via, const std::vector<double>& times_us) {
    CallSeries made;
    made.figure = figure;
    made.operation = operation;
    made.place = place;
    made.via = via;
    made.how = "get";
    for (const double us : times_us) made.calls.push_back({uint32_t(made.calls.size() + 1), us});
    return made;
}

void check_summary() {
    const CallSeries one = series(11, "FReadF", "remote", Via::shm, {0.2, 0.1, 0.25, 0.05});
    const Summary us = summary_of(one);
    tap::ok(us.min == 0.05 && us.median == 0.1 && us.max == 0.25 && us.mean == 0.15, "minimum, mean, median and maximum");
    const Summary* paper = paper_of(one);
    tap::ok(paper != nullptr && paper->min == 459 && paper->mean == 495 && paper->median == 668 && paper->max == 922,
            "the paper's, as it prints them");
    tap::ok(paper_of(series(14, "fix", "remote, new", Via::shm, {})) == nullptr, "it has no numbers of Figure 14");
}

void check_best() {
    std::vector<BestSeries> best;
    keep_best(best, series(11, "FReadF", "local", Via::none, {0.1, 0.2, 0.9}));
    keep_best(best, series(11, "FReadF", "local", Via::none, {0.3, 0.1, 0.1}));
    keep_best(best, series(11, "FReadF", "local", Via::none, {0.15, 0.15, 0.15}));
    keep_best(best, series(11, "FReadF", "remote", Via::shm, {0.1}));
    keep_best(best, series(11, "FReadF", "remote", Via::tcp, {0.2}));
    tap::is(best.size(), size_t(3), "rounds of one kind of calls are one row; places and transports differ");
    const BestSeries& local = best.front();
    tap::ok(local.rounds == 3 && local.series.calls.front().us == 0.3 && local.median_low == 0.1 && local.median_high == 0.2,
            "the round with the lowest median, and the extremes of medians");
}

void check_output() {
    std::vector<BestSeries> best;
    CallSeries local = series(11, "FReadF", "local", Via::none, {0.1, 0.1});
    local.in_file = 2;
    keep_best(best, std::move(local));
    keep_best(best, series(14, "fix", "home, new", Via::tcp, {0.2}));
    keep_best(best, series(14, "unfix", "home, before the restart", Via::tcp, {0.1}));
    const std::string points = buffer_points_csv(best);
    tap::ok(points.find("\n11,FReadF,\"local\",,\"get\",2,2,1,0.100,0.100,0.100,0.100,0.100,0.100,21,22,22,47\n") != points.npos,
            "a row with the paper's numbers");
    tap::ok(points.find("\n14,fix,\"home, new\",tcp,\"get\",1,0,1,0.200,0.200,0.200,0.200,0.200,0.200,,,,\n") != points.npos,
            "and one without");
    const std::string calls = buffer_calls_csv(best);
    tap::ok(calls.find("\n11,FReadF,\"local\",,\"get\",2,0.100\n14,fix,\"home, new\",tcp,\"get\",1,0.200\n") != calls.npos,
            "each call has a row");
    BufferOptions options;
    options.transports = {Via::tcp};
    const std::string text = buffer_text(options, best);
    tap::ok(text.find("FPrintF remote, the paper                       27192.0    34801.0    38531.0    55404.0\n") != text.npos,
            "the paper's row is there without ours");
    const std::string ours = "        0.1        0.1        0.1        0.1      220.0    100 %\n";
    tap::ok(text.find("  get" + std::string(39, ' ') + ours) != text.npos, "ours has a ratio, and the share in the file");
    tap::ok(text.find("fix takes longer than unfix, local, new pages            2.00\n") != text.npos, "ratios of Figure 14");
    tap::ok(text.find("a remote fix is a peak") == text.npos, "but none of what was not measured");
    tap::is(buffer_json({}), std::string("[]\n"), "a list, if an empty one");
}

class MapTier final : public Tier {
  public:
    From get(std::string_view key, std::string& value) override {
        const auto found = pages.find(std::string(key));
        if (found == pages.end()) return From::nowhere;
        value = found->second;
        return From::memory;
    }
    void set(std::string_view key, std::string_view value) override {
        pages[std::string(key)] = value;
        sets++;
    }
    uint64_t statistic(std::string_view) override { return 0; }

    std::map<std::string, std::string> pages;
    int sets = 0;
};

void check_manager() {
    MapTier home, remote;
    BufferManager manager(home, remote);
    for (uint32_t number = 0; number < PageId::numbers; number++) {
        BufferManager::Frame& frame = manager.fix({3, number});
        tap::ok(frame.from == From::nowhere && frame.bytes == std::string(page_bytes, '\0'), "a new page is all zeros");
        frame.bytes[0] = char('A' + number);
        manager.unfix({3, number}, /* dirty= */ true);
    }
    tap::ok(home.pages.size() == 30 && remote.pages.size() == 30, "half of them are at home");
    tap::ok(home.sets == 60 && remote.sets == 60, "each is stored when it is new, and when it has changed");
    BufferManager other(home, remote);
    const BufferManager::Frame& frame = other.fix({3, 59});
    tap::ok(frame.from == From::memory && frame.bytes[0] == char('A' + 59), "another manager finds them");
    other.unfix({3, 59}, /* dirty= */ false);
    tap::is(remote.sets, 60, "a clean page is not stored");
}

}  // namespace

}  // namespace farcached::bench

int main() {
    using namespace farcached::bench;
    check_summary();
    check_best();
    check_output();
    check_manager();
    return tap::done();
}
