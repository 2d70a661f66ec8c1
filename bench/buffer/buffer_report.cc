// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/buffer/buffer.h"
#include "bench/buffer/tiers.h"
#include "bench/command.h"
#include "bench/histogram.h"

namespace farcached::bench {

namespace {

struct PaperRow {
    const char* operation;
    const char* place;
    Summary us;
};
// Table 3, as printed: the mean of the remote FReadF is below its median.
constexpr PaperRow table_3[] = {
    {"FReadF", "local", {21, 22, 22, 47}},
    {"FReadF", "remote", {459, 495, 668, 922}},
    {"FPrintF", "local", {70, 114, 106, 198}},
    {"FPrintF", "remote", {27192, 34801, 38531, 55404}},
};

constexpr uint32_t pages_figure = 14;

struct SummaryField {
    const char* name;
    double Summary::*field;
};
constexpr SummaryField summary_fields[] = {
    {"min_us", &Summary::min}, {"mean_us", &Summary::mean}, {"median_us", &Summary::median}, {"max_us", &Summary::max}};

std::string via_text(const CallSeries& one) {
    return one.via == Via::none ? std::string() : std::string(via_names[size_t(one.via)]);
}

std::string numbers(const Summary& us) {
    return form(" %10.1f %10.1f %10.1f %10.1f", us.min, us.mean, us.median, us.max);
}

constexpr const char* heads[] = {"min", "mean", "median", "max"};

std::string head(const char* first) {
    std::string text = form("%-44s", first);
    for (const char* one : heads) text += form(" %10s", one);
    return text;
}

double percent_in_file(const CallSeries& one) {
    return one.calls.empty() ? 0 : 100 * double(one.in_file) / double(one.calls.size());
}

std::string table_3_text(const std::vector<BestSeries>& best) {
    std::string text =
        "Table 3 of the paper, in microseconds. paper/ours: of the medians. in file: values read from the file, or written to it\n"
        "during the calls, of their number\n";
    text += head("") + form(" %10s %8s\n", "paper/ours", "in file");
    for (const PaperRow& row : table_3) {
        text += form("%-44s%s\n", form("%s %s, the paper", row.operation, row.place).c_str(), numbers(row.us).c_str());
        for (const BestSeries& one : best) {
            if (one.series.operation != row.operation || one.series.place != row.place) continue;
            const Summary us = summary_of(one.series);
            const std::string via = via_text(one.series);
            text += form("%-44s%s", ("  " + one.series.how + (via.empty() ? "" : ", " + via)).c_str(), numbers(us).c_str());
            text += form(" %10.1f %6.0f %%\n", us.median > 0 ? row.us.median / us.median : 0.0, percent_in_file(one.series));
        }
    }
    return text;
}

bool is_of_pages(const BestSeries& one) { return one.series.figure == pages_figure; }

// Of the operation over these places; 0: there are none.
double median_of(const std::vector<BestSeries>& best, Via via, std::string_view operation, std::string_view place) {
    for (const BestSeries& one : best)
        if (is_of_pages(one) && one.series.via == via && one.series.operation == operation && one.series.place == place)
            return summary_of(one.series).median;
    return 0;
}

struct Observation {
    const char* paper;  // what the paper observes
    const char* operation;
    const char* place;
    const char* other_operation;
    const char* other_place;
};
constexpr Observation observations[] = {
    {"a remote fix is a peak: over a local one, new pages", "fix", "remote, new", "fix", "home, new"},
    {"a new page takes less than one from the file, local", "fix", "home, new", "fix", "home, from its file"},
    {"fix takes longer than unfix, local, new pages", "fix", "home, new", "unfix", "home, before the restart"},
    {"the same, pages from the file", "fix", "home, from its file", "unfix", "home, after the restart"},
};

std::string observations_text(const std::vector<BestSeries>& best, Via via) {
    std::string text;
    for (const Observation& one : observations) {
        const double left = median_of(best, via, one.operation, one.place);
        const double right = median_of(best, via, one.other_operation, one.other_place);
        if (left > 0 && right > 0) text += form("  %-52s %8.2f\n", one.paper, left / right);
    }
    return text.empty() ? text : "  the paper's observations, and the ratio of our medians\n" + text;
}

std::string figure_14_text(const BufferOptions& options, const std::vector<BestSeries>& best) {
    if (std::none_of(best.begin(), best.end(), is_of_pages)) return {};
    std::string text =
        "\nFigure 14 of the paper, which states no numbers. Of 5 segments of 60 pages, half are at home and half at the remote\n"
        "node. All are fixed and unfixed; both restart; all are fixed and unfixed again\n";
    for (const Via via : options.transports) {
        text += head(form("remote over %s", via_names[size_t(via)].data()).c_str()) + form(" %10s %8s\n", "calls", "in file");
        for (const BestSeries& one : best) {
            if (!is_of_pages(one) || one.series.via != via) continue;
            text += form("%-44s%s", form("  %-6s %s", one.series.operation.c_str(), one.series.place.c_str()).c_str(),
                         numbers(summary_of(one.series)).c_str());
            text += form(" %10zu", one.series.calls.size());
            text += one.series.operation == "fix" ? form(" %6.0f %%\n", percent_in_file(one.series)) : std::string("\n");
        }
        text += observations_text(best, via);
    }
    return text;
}

constexpr const char* differences =
    "\nThe paper: two Xeon E5-2660 v2 on ConnectX-3, 56 Gbit/s, with an SSD. It opens the file in each call, and connects a queue\n"
    "pair in each remote one. Here both ends are on this host, and the file stays open. Reads come from the page cache.\n"
    "A set does not wait for the file. A flush waits for the device, which the paper's FPrintF does not.\n";

}  // namespace

Summary summary_of(const CallSeries& series) {
    Histogram ns;
    for (const Call& call : series.calls) ns.add(uint64_t(call.us * 1e3 + 0.5));
    return {double(ns.quantile(0)) / 1e3, ns.mean() / 1e3, double(ns.quantile(0.5)) / 1e3, double(ns.max()) / 1e3};
}

const Summary* paper_of(const CallSeries& series) {
    const auto found = std::find_if(std::begin(table_3), std::end(table_3), [&](const PaperRow& row) {
        return series.operation == row.operation && series.place == row.place;
    });
    return found == std::end(table_3) ? nullptr : &found->us;
}

void keep_best(std::vector<BestSeries>& best, CallSeries one) {
    const double median = summary_of(one).median;
    const auto found = std::find_if(best.begin(), best.end(), [&](const BestSeries& other) {
        const CallSeries& it = other.series;
        return it.figure == one.figure && it.operation == one.operation && it.place == one.place && it.via == one.via &&
               it.how == one.how;
    });
    if (found == best.end()) {
        best.push_back({std::move(one), 1, median, median});
        return;
    }
    if (median < found->median_low) found->series = std::move(one);
    found->rounds++;
    found->median_low = std::min(found->median_low, median);
    found->median_high = std::max(found->median_high, median);
}

std::string buffer_points_csv(const std::vector<BestSeries>& best) {
    std::string text = "figure,operation,place,transport,how,calls,in_file,rounds,median_us_low,median_us_high";
    for (const SummaryField& one : summary_fields) text += std::string(",") + one.name;
    for (const SummaryField& one : summary_fields) text += std::string(",paper_") + one.name;
    text += "\n";
    for (const BestSeries& one : best) {
        const CallSeries& it = one.series;
        text += form("%u,%s,\"%s\",%s,\"%s\",%zu,%llu,%u", it.figure, it.operation.c_str(), it.place.c_str(), via_text(it).c_str(),
                     it.how.c_str(), it.calls.size(), (unsigned long long)it.in_file, one.rounds);
        text += form(",%.3f,%.3f", one.median_low, one.median_high);
        const Summary us = summary_of(it);
        const Summary* paper = paper_of(it);
        for (const SummaryField& field : summary_fields) text += form(",%.3f", us.*field.field);
        for (const SummaryField& field : summary_fields) text += paper != nullptr ? form(",%g", paper->*field.field) : ",";
        text += "\n";
    }
    return text;
}

std::string buffer_calls_csv(const std::vector<BestSeries>& best) {
    std::string text = "figure,operation,place,transport,how,call,us\n";
    for (const BestSeries& one : best) {
        const CallSeries& it = one.series;
        const std::string name = form("%u,%s,\"%s\",%s,\"%s\"", it.figure, it.operation.c_str(), it.place.c_str(),
                                      via_text(it).c_str(), it.how.c_str());
        for (const Call& call : it.calls) text += name + form(",%u,%.3f\n", call.number, call.us);
    }
    return text;
}

std::string buffer_json(const std::vector<BestSeries>& best) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const BestSeries& one : best) {
        const CallSeries& it = one.series;
        nlohmann::ordered_json object;
        object["figure"] = it.figure;
        object["operation"] = it.operation;
        object["place"] = it.place;
        object["transport"] = it.via == Via::none ? nlohmann::ordered_json() : nlohmann::ordered_json(via_text(it));
        object["how"] = it.how;
        object["calls"] = it.calls.size();
        object["in_file"] = it.in_file;
        object["rounds"] = one.rounds;
        object["median_us_low"] = one.median_low;
        object["median_us_high"] = one.median_high;
        const Summary us = summary_of(it);
        const Summary* paper = paper_of(it);
        for (const SummaryField& field : summary_fields) object[field.name] = us.*field.field;
        for (const SummaryField& field : summary_fields)
            object[std::string("paper_") + field.name] =
                paper != nullptr ? nlohmann::ordered_json(paper->*field.field) : nlohmann::ordered_json();
        list.push_back(std::move(object));
    }
    return list.dump(2) + "\n";
}

std::string buffer_text(const BufferOptions& options, const std::vector<BestSeries>& best) {
    std::string text = "\"One Buffer Manager to Rule Them All\", on the tiers of farcached's nodes\n";
    text += form("%u calls of %u bytes a round, %u rounds: of each row the one with the lowest median; clients %s\n\n",
                 options.calls, page_bytes, options.rounds, options.spin ? "spin" : "sleep");
    return text + table_3_text(best) + figure_14_text(options, best) + differences;
}

}  // namespace farcached::bench
