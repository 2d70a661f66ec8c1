// SPDX-License-Identifier: BSD-3-Clause
#include "bench/transport/trial.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/command.h"

namespace farcached::bench {

namespace {

// Tables 3 and 4 of the paper (trial.h): two hosts of CloudLab with Mellanox devices, means of three trials.
// Also Table 1 and Figure 2 of the C-Hint paper: hosts with ConnectX-3.
struct PaperRow {
    Transport transport;
    Workload workload;
    uint32_t clients;
    double kops, mean_us, p99_us;
};
constexpr PaperRow paper_table_3[] = {
    {Transport::tcp, Workload::mixed, 1, 8.9, 106.4, 153},
    {Transport::tcp, Workload::mixed, 2, 18.5, 100.3, 132},
    {Transport::tcp, Workload::mixed, 4, 31.7, 110.9, 164},
    {Transport::tcp, Workload::mixed, 8, 72.9, 95.3, 157},
    {Transport::twosided, Workload::mixed, 1, 117.3, 6.2, 6},
    {Transport::twosided, Workload::mixed, 2, 115.1, 11.2, 6},
    {Transport::twosided, Workload::mixed, 4, 233.9, 13.7, 7},
    {Transport::twosided, Workload::mixed, 8, 403.8, 15.2, 8},
    {Transport::onesided, Workload::get, 1, 160.5, 4.8, 12},
    {Transport::onesided, Workload::get, 2, 285.9, 4.8, 12},
    {Transport::onesided, Workload::get, 4, 607.6, 4.8, 12},
    {Transport::onesided, Workload::get, 8, 974.3, 4.8, 12},
};

struct PaperMetadata {
    uint32_t clients;
    double mean_increase_us, p99_increase_us, p99_us;
};
constexpr PaperMetadata paper_table_4[] = {
    {1, 3.0, 3.0, 15.0}, {2, 3.1, 3.7, 15.7}, {4, 3.1, 4.0, 16.0}, {8, 3.2, 4.0, 16.0}};

// Throughput of one-sided over these, at 8 clients; and the mean latency of a one-sided read.
constexpr double paper_over_tcp = 13.4, paper_over_twosided = 2.4;
constexpr double paper_read_mean_us = 4.8;

struct PaperCheck {
    uint32_t value_bytes;
    double crc64_us, read_us, insert_us;
};
constexpr PaperCheck paper_table_1[] = {{1 << 10, 5.2, 4.3, 33.8},
                                        {10 << 10, 40.3, 8.1, 45.4},
                                        {100 << 10, 641.1, 26, 259.2},
                                        {1000 << 10, 5122.7, 230.4, 1539.5}};

// Figure 2, from its text: for values below 1 KB, a READ takes up to a tenth of a request's time. With 32 clients,
// values of 24 bytes and 1 % SETs, throughput was 16.2 times as high. GETs by READ took no CPU time of the server.
constexpr double paper_request_over_read = 10, paper_read_throughput = 16.2;
constexpr uint32_t paper_figure_2_bytes = 1024;

std::string_view name_of(Transport transport) { return transport_names[size_t(transport)]; }
std::string_view name_of(Workload workload) { return workload_names[size_t(workload)]; }

// ---- CSV --------------------------------------------------------------------------------------------

constexpr const char* parameter_names =
    "transport,mix,clients,reached,operations,warmup,keys,value_bytes,zipf,seed,wait,profile";

std::string parameters(const Sweep& sweep, const Point& point, std::string_view reached) {
    std::string text(name_of(point.transport));
    text += "," + std::string(name_of(point.workload)) + "," + std::to_string(point.clients) + "," + std::string(reached);
    text += form(",%llu,%llu,%llu,%u,%g,%llu,%s,%s", (unsigned long long)sweep.operations,
                 (unsigned long long)sweep.warmup, (unsigned long long)sweep.keys, sweep.value_bytes, sweep.zipf,
                 (unsigned long long)sweep.seed, sweep.spin ? "spin" : "sleep", sweep.profile ? "yes" : "no");
    return text;
}

std::vector<Point> points_of(const Sweep& sweep) {
    std::vector<Point> points;
    for (Workload workload : sweep.workloads)
        for (Transport transport : sweep.transports)
            for (uint32_t clients : sweep.clients) points.push_back({transport, workload, clients});
    return points;
}

// ---- tables -----------------------------------------------------------------------------------------

Number in_percent(const Number& share) { return share.has_value() ? Number(*share * 100) : share; }

// The first columns of a row.
std::string columns(const Point& point) {
    return form("%-16s %-5s %7u", name_of(point.transport).data(), name_of(point.workload).data(), point.clients);
}

std::string table_3(const std::vector<PointResult>& points) {
    std::string text =
        "Throughput and latency; behind |, those of Table 3 in McGuinness, Evaluating RDMA for Distributed Cache Reads and\n"
        "Metadata Updates\n";
    text += form("%-16s %-5s %7s %9s %9s %9s %9s %9s  | %8s %8s %6s\n", "transport", "mix", "clients", "kops/s", "mean us",
                 "p50 us", "p99 us", "p99.9 us", "kops/s", "mean us", "p99 us");
    for (const PointResult& one : points) {
        const Measured& m = one.mean;
        text += columns(one.point) + form(" %9.1f %9.1f %9.1f %9.1f %9.1f  |", *m.ops_per_s / 1e3, *m.mean_us, *m.p50_us,
                                          *m.p99_us, *m.p999_us);
        for (const PaperRow& row : paper_table_3)
            if (Point{row.transport, row.workload, row.clients} == one.point)
                text += form(" %8.1f %8.1f %6.0f", row.kops, row.mean_us, row.p99_us);
        text += "\n";
    }
    return text;
}

std::string table_4(const std::vector<PointResult>& points) {
    std::string text;
    for (const PointResult& with : points) {
        if (with.point.transport != Transport::atomic) continue;
        const PointResult* without = find_point(points, Point{Transport::onesided, with.point.workload, with.point.clients});
        if (without == nullptr) continue;
        text += form("%-5s %7u %12.1f %11.1f %11.1f  |", name_of(with.point.workload).data(), with.point.clients,
                     *with.mean.mean_us - *without->mean.mean_us, *with.mean.p99_us - *without->mean.p99_us,
                     *with.mean.p99_us);
        for (const PaperMetadata& row : paper_table_4)
            if (row.clients == with.point.clients && with.point.workload == Workload::get)
                text += form(" %12.1f %11.1f %11.1f", row.mean_increase_us, row.p99_increase_us, row.p99_us);
        text += "\n";
    }
    if (text.empty()) return text;
    return "\nLatency that a metadata atomic behind each READ adds, in microseconds; behind |, that of Table 4 in McGuinness\n" +
           form("%-5s %7s %12s %11s %11s  | %12s %11s %11s\n", "mix", "clients", "mean more", "p99 more", "p99 with",
                "mean more", "p99 more", "p99 with") +
           text;
}

std::string costs(const std::vector<PointResult>& points) {
    std::string text = "\nPer operation: CPU in microseconds, and what went over the link, by our own counters\n";
    text += form("%-16s %-5s %7s %9s %9s %9s %7s %7s %8s %7s %9s\n", "transport", "mix", "clients", "node CPU", "client",
                 "onesided%", "READs", "SENDs", "received", "atomics", "bytes");
    for (const PointResult& one : points) {
        const Measured& m = one.mean;
        text += columns(one.point) + form(" %9s %9s %9s %7s %7s %8s %7s %9s\n", shown(m.node_cpu_us_per_op, "%.2f").c_str(),
                                          shown(m.client_cpu_us_per_op, "%.2f").c_str(),
                                          shown(in_percent(m.onesided_share), "%.1f").c_str(), shown(m.verbs.reads, "%.3f").c_str(),
                                          shown(m.verbs.sends, "%.3f").c_str(), shown(m.verbs.receives, "%.3f").c_str(),
                                          shown(m.verbs.atomics, "%.3f").c_str(), shown(m.verbs.wire_bytes, "%.1f").c_str());
    }
    return text;
}

std::string device_check(const std::vector<PointResult>& points) {
    std::string text;
    for (const PointResult& one : points) {
        const Measured& m = one.mean;
        if (!m.device.sends.has_value() || !m.device.expected_sends.has_value()) continue;
        text += columns(one.point) + form(" %10.4f %10.4f %11.4f  %10.4f %10.4f %11.4f\n", *m.device.sends,
                                          *m.device.expected_sends, *m.device.sends - *m.device.expected_sends,
                                          *m.device.packets, *m.device.expected_packets,
                                          *m.device.packets - *m.device.expected_packets);
    }
    if (text.empty()) return text;
    return "\nPer operation, by the RDMA device's counters, and what ours make of it\n" +
           form("%-16s %-5s %7s %10s %10s %11s  %10s %10s %11s\n", "transport", "mix", "clients", "SENDs", "ours",
                "difference", "packets", "ours", "difference") +
           text;
}

std::string parts(const std::vector<PointResult>& points) {
    std::string text;
    for (const PointResult& one : points) {
        const Measured& m = one.mean;
        if (!m.profile.begin_us.has_value()) continue;
        text += columns(one.point) + form(" %9.2f %9.2f %9.2f %9.2f\n", *m.profile.begin_us, *m.profile.post_us,
                                          *m.profile.wait_us, *m.profile.finish_us);
    }
    if (text.empty()) return text;
    return "\nParts of an operation, mean microseconds: begin (key to work request), post (to the transport), wait, finish "
           "(validate, answer)\n" +
           form("%-16s %-5s %7s %9s %9s %9s %9s\n", "transport", "mix", "clients", "begin", "post", "wait", "finish") + text;
}

// One-sided GETs beside another transport, at the most clients that both have; null: none.
using Pair = std::pair<const PointResult*, const PointResult*>;
Pair beside_onesided(const std::vector<PointResult>& points, Transport other, Workload mix) {
    Pair most{nullptr, nullptr};
    for (const PointResult& one : points) {
        if (one.point.transport != Transport::onesided || one.point.workload != Workload::get) continue;
        const PointResult* beside = find_point(points, Point{other, mix, one.point.clients});
        if (beside == nullptr || (most.first != nullptr && most.first->point.clients > one.point.clients)) continue;
        most = {&one, beside};
    }
    return most;
}

// One-sided throughput over another transport's.
std::string ratio_line(const std::vector<PointResult>& points, Transport over, Workload their_mix, double paper) {
    const auto [best, other] = beside_onesided(points, over, their_mix);
    if (best == nullptr) return {};
    std::string text = form("one-sided GETs over %s %s, %u clients: %.2f x the throughput", name_of(over).data(),
                            their_mix == Workload::get ? "GETs" : "95:5", best->point.clients,
                            *best->mean.ops_per_s / *other->mean.ops_per_s);
    if (their_mix == Workload::mixed) text += form(" (McGuinness, Table 3, 8 clients: %.1f x)", paper);
    return text + "\n";
}

constexpr double onesided_share_min = 0.99;

// The C-Hint paper's Table 1: the cost of a check beside READs and SETs of the same value sizes, with one client.
std::string table_1(const Sweep& sweep, const std::vector<PointResult>& points, const CheckCosts& checks) {
    if (checks.empty()) return {};
    std::string text = "\nTable 1 of C-Hint (Wang et al.) beside ours: microseconds by the size of values; one client\n";
    text += form("%10s %9s %9s  | %9s %9s  | %11s %9s\n", "bytes", "CRC64", "our check", "RDMA Get", "one-sided", "Verb Insert",
                 "SET");
    for (const CheckCost& check : checks) {
        Number read, set;
        if (check.value_bytes == sweep.value_bytes) {
            const PointResult* by_read = find_point(points, Point{Transport::onesided, Workload::get, 1});
            const PointResult* by_request = find_point(points, Point{Transport::twosided, Workload::set, 1});
            const bool all_read = by_read != nullptr && by_read->mean.onesided_share.value_or(0) >= onesided_share_min;
            if (all_read) read = by_read->mean.mean_us;
            if (by_request != nullptr) set = by_request->mean.mean_us;
        }
        const auto row = std::find_if(std::begin(paper_table_1), std::end(paper_table_1),
                                      [&](const PaperCheck& one) { return one.value_bytes == check.value_bytes; });
        const bool known = row != std::end(paper_table_1);
        const auto paper = [&](double PaperCheck::*field) { return known ? Number((*row).*field) : Number(); };
        text += form("%10u %9s %9.2f  | %9s %9s  | %11s %9s\n", check.value_bytes,
                     shown(paper(&PaperCheck::crc64_us), "%.1f").c_str(), check.us,
                     shown(paper(&PaperCheck::read_us), "%.1f").c_str(), shown(read, "%.1f").c_str(),
                     shown(paper(&PaperCheck::insert_us), "%.1f").c_str(), shown(set, "%.1f").c_str());
    }
    return text + "READs and SETs are measured at one --value-bytes, SETs by --mix set, READs where 99 % of GETs were one-sided\n";
}

std::string device_note(Via reached) {
    if (reached == Via::shm) return "not reproduced: over shm a READ is a copy in this host's memory, and a request no RDMA\n";
    return "a device that is made in software (soft-RoCE) spends the CPU of both hosts on READs: its ratios are not a NIC's\n";
}

// The C-Hint paper's Figure 2: GETs by READ beside GETs by request.
std::string figure_2(const Sweep& sweep, const std::vector<PointResult>& points, Via reached) {
    const auto [read, request] = beside_onesided(points, Transport::twosided, Workload::get);
    if (read == nullptr) return {};
    const Measured &a = read->mean, &b = request->mean;
    std::string text = form("\nFigure 2 of C-Hint, what its text says, beside ours: GETs of %u bytes, %u clients\n",
                            sweep.value_bytes, read->point.clients);
    text += form("%-52s %6.2f (C-Hint: %s)\n", "mean latency by request / by READ", *b.mean_us / *a.mean_us,
                 sweep.value_bytes < paper_figure_2_bytes ? form("up to %.0f", paper_request_over_read).c_str() : "-");
    text += form("%-52s %6.2f (C-Hint, 32 clients, 99:1: up to %.1f)\n", "operations a second by READ / by request",
                 *a.ops_per_s / *b.ops_per_s, paper_read_throughput);
    if (a.node_cpu_us_per_op.has_value() && b.node_cpu_us_per_op.has_value())
        text += form("%-52s %6.2f and %.2f (C-Hint: a busy core and none)\n", "the node's CPU by request and by READ, us",
                     *b.node_cpu_us_per_op, *a.node_cpu_us_per_op);
    return text + device_note(reached);
}

std::string ratios(const std::vector<PointResult>& points) {
    std::string text;
    for (Workload mix : {Workload::mixed, Workload::get}) {
        text += ratio_line(points, Transport::tcp, mix, paper_over_tcp);
        text += ratio_line(points, Transport::twosided, mix, paper_over_twosided);
    }
    const PointResult* read = find_point(points, Point{Transport::onesided, Workload::get, 1});
    const PointResult* counted = find_point(points, Point{Transport::atomic, Workload::get, 1});
    if (read != nullptr && counted != nullptr)
        text += form("an atomic behind a READ, 1 client: %+.1f us on %.1f us, %+.0f %% "
                     "(McGuinness, Table 4: +3.0 us on %.1f us, +63 %%)\n",
                     *counted->mean.mean_us - *read->mean.mean_us, *read->mean.mean_us,
                     100 * (*counted->mean.mean_us / *read->mean.mean_us - 1), paper_read_mean_us);
    return text.empty() ? text : "\n" + text;
}

}  // namespace

std::vector<uint32_t> table_1_sizes() {
    std::vector<uint32_t> sizes;
    for (const PaperCheck& row : paper_table_1) sizes.push_back(row.value_bytes);
    return sizes;
}

std::string trials_csv_head() { return trials_head(parameter_names); }

std::string trials_csv_row(const Sweep& sweep, Via reached, const Trial& trial) {
    return trial_row(parameters(sweep, trial.point, via_names[size_t(reached)]), trial.number, trial);
}

std::string points_csv(const Sweep& sweep, const std::vector<PointResult>& points) {
    std::string text = "transport,mix,clients,trials,operations,value_bytes,wait" + mean_names() + "\n";
    for (const PointResult& one : points) {
        text += form("%s,%s,%u,%u,%llu,%u,%s", name_of(one.point.transport).data(), name_of(one.point.workload).data(),
                     one.point.clients, one.trials, (unsigned long long)sweep.operations, sweep.value_bytes,
                     sweep.spin ? "spin" : "sleep");
        text += mean_cells(one.mean, one.deviation) + "\n";
    }
    return text;
}

std::vector<Trial> read_trials(std::string_view csv, const Sweep& sweep, const TestedNode& node) {
    return read_trials_of(csv, trials_csv_head(), points_of(sweep), sweep.trials, [&](const Point& point) {
        const auto found = place_for(point.transport, node);
        const auto* place = std::get_if<NodePlace>(&found);
        return place == nullptr ? std::string() : parameters(sweep, point, via_names[size_t(place->via)]);
    });
}

std::string transport_json(const std::vector<PointResult>& points) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const PointResult& one : points) {
        nlohmann::ordered_json object;
        object["transport"] = name_of(one.point.transport);
        object["mix"] = name_of(one.point.workload);
        object["clients"] = one.point.clients;
        add_numbers(object, one.mean);
        list.push_back(std::move(object));
    }
    return list.dump(2) + "\n";
}

std::string transport_text(const Sweep& sweep, Via reached, const std::vector<PointResult>& points, const CheckCosts& checks) {
    std::string text = form("%llu operations a trial after %llu, %u trials, %llu keys, zipf %g, values of %u bytes, clients %s\n\n",
                            (unsigned long long)sweep.operations, (unsigned long long)sweep.warmup, sweep.trials,
                            (unsigned long long)sweep.keys, sweep.zipf, sweep.value_bytes, sweep.spin ? "spin" : "sleep");
    text += table_3(points) + table_4(points) + costs(points) + device_check(points) + parts(points) + ratios(points);
    text += table_1(sweep, points, checks) + figure_2(sweep, points, reached);
    return text + errors_text(points);
}

std::string trial_line(const Trial& trial) {
    const Measured& m = trial.measured;
    return form("%s %s, %u clients, trial %u: %.0f operations/s, median %.1f us, p99 %.1f us, %.0f errors",
                name_of(trial.point.transport).data(), name_of(trial.point.workload).data(), trial.point.clients,
                trial.number, *m.ops_per_s, *m.p50_us, *m.p99_us, *m.errors);
}

}  // namespace farcached::bench
