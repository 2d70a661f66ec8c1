// SPDX-License-Identifier: BSD-3-Clause
#include "bench/reports/reports.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "bench/command.h"

namespace farcached::bench {

namespace {

constexpr double paper_more_percent = 115;  // the extra cost of SEND over WRITE, at most


std::vector<double> known(const std::vector<ReportCost>& trials, Number ReportCost::*field) {
    std::vector<double> numbers;
    for (const ReportCost& trial : trials)
        if ((trial.*field).has_value()) numbers.push_back(*(trial.*field));
    return numbers;
}

// Extra cost of the first over the second, in percent.
std::string more(const ReportPoint& send, const ReportPoint& write, Number ReportCost::*field) {
    const Number one = send.mean(field), other = write.mean(field);
    if (!one.has_value() || !other.has_value() || *other <= 0) return form("%10s", "-");
    return form("%+9.1f%%", 100 * (*one / *other - 1));
}

std::string comparison(const std::vector<ReportPoint>& points, const char* send_name, const char* write_name) {
    std::string text;
    for (const ReportPoint& write : points) {
        if (std::string(write.way->name) != write_name) continue;
        for (const ReportPoint& send : points) {
            if (std::string(send.way->name) != send_name || send.bytes != write.bytes) continue;
            text += form("%-12s %6u %s %s %s %s\n", send_name, write.bytes, more(send, write, &ReportCost::mean_us).c_str(),
                         more(send, write, &ReportCost::p50_us).c_str(), more(send, write, &ReportCost::node_cpu_us).c_str(),
                         more(send, write, &ReportCost::client_cpu_us).c_str());
        }
    }
    return text;
}

}  // namespace

const std::vector<ReportMetric>& report_metrics() {
    using C = ReportCost;
    static const std::vector<ReportMetric> all = {
        {"mean_us", &C::mean_us},         {"p50_us", &C::p50_us},           {"p99_us", &C::p99_us},
        {"node_us", &C::node_us},         {"node_cpu_us", &C::node_cpu_us}, {"client_cpu_us", &C::client_cpu_us},
        {"writes_per_report", &C::writes}, {"sends_per_report", &C::sends},  {"doorbells_per_report", &C::doorbells},
    };
    return all;
}

Number ReportPoint::mean(Number ReportCost::*field) const { return mean_of(known(trials, field)); }

Number ReportPoint::deviation(Number ReportCost::*field) const { return deviation_of(known(trials, field)); }

std::string reports_csv(const std::vector<ReportPoint>& points) {
    std::string text = "way,bytes,trials";
    for (const ReportMetric& metric : report_metrics()) text += std::string(",") + metric.name + "," + metric.name + "_sd";
    text += "\n";
    for (const ReportPoint& one : points) {
        text += form("%s,%u,%zu", one.way->name, one.bytes, one.trials.size());
        for (const ReportMetric& metric : report_metrics())
            text += "," + csv_number(one.mean(metric.field)) + "," + csv_number(one.deviation(metric.field));
        text += "\n";
    }
    return text;
}

std::string reports_json(const std::vector<ReportPoint>& points) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const ReportPoint& one : points) {
        nlohmann::ordered_json object;
        object["way"] = one.way->name;
        object["bytes"] = one.bytes;
        object["trials"] = one.trials.size();
        for (const ReportMetric& metric : report_metrics()) {
            const Number mean = one.mean(metric.field);
            object[metric.name] = mean.has_value() ? nlohmann::ordered_json(*mean) : nlohmann::ordered_json();
        }
        list.push_back(std::move(object));
    }
    return list.dump(2) + "\n";
}

std::string reports_text(const ReportsOptions& options, const std::vector<ReportPoint>& points) {
    std::string text = form("%llu reports a trial after %llu, %u trials, clients %s; microseconds per report\n",
                            (unsigned long long)options.reports, (unsigned long long)options.warmup, options.trials,
                            options.spin ? "spin" : "sleep");
    text += "mean, p50 and p99: from the report to the reply, without the node's time (\"at node\")\n\n";
    text += form("%-12s %6s %10s %10s %10s %10s %10s %10s %8s %8s\n", "way", "bytes", "mean", "p50", "p99", "at node",
                 "node CPU", "client", "WRITEs", "SENDs");
    for (const ReportPoint& one : points) {
        text += form("%-12s %6u", one.way->name, one.bytes);
        for (const auto field : {&ReportCost::mean_us, &ReportCost::p50_us, &ReportCost::p99_us, &ReportCost::node_us,
                                 &ReportCost::node_cpu_us, &ReportCost::client_cpu_us})
            text += form(" %10s", shown(one.mean(field), "%.2f").c_str());
        text += form(" %8.2f %8.2f\n", one.mean(&ReportCost::writes).value_or(0), one.mean(&ReportCost::sends).value_or(0));
    }
    const std::string verbs = comparison(points, "verbs-send", "verbs-write");
    const std::string more_than = verbs + comparison(points, "shm-send", "shm-write");
    if (more_than.empty()) return text;
    text += form("\nFigure 10 of C-Hint (Wang et al.): cost of a SEND above a WRITE, communication only; in C-Hint up to %.0f %%\n",
                 paper_more_percent);
    text += form("%-12s %6s %10s %10s %10s %10s\n", "way", "bytes", "mean", "p50", "node CPU", "client");
    text += more_than;
    if (verbs.empty()) text += "not reproduced: over shm nothing is written by a device\n";
    if (!verbs.empty())
        text += "soft-RoCE spends the hosts' CPUs on WRITEs, too: what a NIC saves is not in its numbers; and our SENDs land in "
                "receives that are posted and large enough\n";
    return text;
}

}  // namespace farcached::bench
