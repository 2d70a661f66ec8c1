// SPDX-License-Identifier: BSD-3-Clause
#include "bench/load/load.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <vector>

#include "bench/command.h"

namespace farcached::bench {

namespace {

// The counters of a server without one-sided GETs.
const ProxyStats no_gets = {{"get_onesided", "0"}, {"get_twosided", "0"}};

double micro(double ns) { return ns / 1e3; }

double ratio(double a, double b) { return b == 0 ? 0 : a / b; }

Histogram all_of(const Results& results) {
    Histogram all = results.total.sets;
    all.merge(results.total.gets);
    all.merge(results.total.deletes);
    return all;
}

double keys_touched(const Results& results) {
    return double(results.total.keys_read) + double(results.total.sets.count()) + double(results.total.deletes.count());
}

using Fields = nlohmann::ordered_json;

void add_latency(Fields& fields, const std::string& what, const Histogram& histogram) {
    fields[what + "_mean_us"] = micro(histogram.mean());
    for (const auto& [name, share] : {std::pair{"_p50_us", 0.5}, {"_p90_us", 0.9}, {"_p99_us", 0.99}, {"_p999_us", 0.999}})
        fields[what + name] = micro(double(histogram.quantile(share)));
    fields[what + "_max_us"] = micro(double(histogram.max()));
}

// The share among GETs that hit: a miss is never one-sided. Its sampling period differs slightly, so it is capped at 1.
double share_of_hits(const GetShares& shares, const Tally& total) {
    return std::min(1.0, ratio(shares.share() * double(total.keys_read), double(total.hits)));
}

// A server without one-sided GETs has the same fields, all 0.
void add_shares(Fields& fields, const Results& results) {
    const bool known = results.shares.has_value();
    const GetShares shares = known ? *results.shares : get_shares(no_gets, no_gets).value();
    fields["one_sided_measured"] = known ? "yes" : "no";
    fields["get_onesided"] = shares.onesided;
    fields["get_twosided"] = shares.all - shares.onesided;
    fields["get_onesided_share"] = shares.share();
    fields["get_onesided_share_of_hits"] = share_of_hits(shares, results.total);
    for (const GetShares::Rows* rows : {&shares.reasons, &shares.denials})
        for (const auto& [name, count] : *rows) fields["get_reason_" + name] = count;
}

void add_options(Fields& fields, const LoadOptions& options) {
    fields["protocol"] = wire_names[size_t(options.target.wire)];
    fields["threads"] = options.shape.threads;
    fields["connections"] = options.shape.connections;
    fields["pipeline"] = options.shape.pipeline;
    fields["multiget"] = options.shape.multiget;
    fields["rate"] = options.pace.rate;
    fields["arrivals"] = arrival_names[size_t(options.pace.arrivals)];
    fields["ratio"] = form("%u:%u", options.mix.sets, options.mix.gets);
    fields["keys"] = options.mix.keys;
    fields["distribution"] = options.mix.zipf ? form("zipf %g", options.mix.theta) : "uniform";
    fields["value_bytes"] = text_of(options.mix.values);
    fields["delete_share"] = options.mix.delete_share;
    fields["fill_misses"] = options.mix.fill_misses ? "yes" : "no";
    fields["once_share"] = options.mix.once_share;
    fields["shift_requests"] = options.mix.shift_requests;
    fields["warmup_requests"] = options.bounds.warmup_requests;
    fields["warmup_reads"] = options.mix.warmup_reads;
    fields["verify"] = options.mix.verify ? "yes" : "no";
    fields["seed"] = options.mix.seed;
}

void add_usage(Fields& fields, const std::string& whose, const Usage& usage, bool known,
               const Results& results) {
    const double operations = double(results.operations());
    fields[whose + "_measured"] = known ? "yes" : "no";
    fields[whose + "_cpu_s"] = usage.cpu_s;
    fields[whose + "_cpu_s_per_million_operations"] = ratio(usage.cpu_s * 1e6, operations);
    fields[whose + "_cpu_s_per_million_keys"] = ratio(usage.cpu_s * 1e6, keys_touched(results));
    fields[whose + "_context_switches"] = usage.context_switches;
    fields[whose + "_context_switches_per_operation"] = ratio(double(usage.context_switches), operations);
}

Fields fields_of(const LoadOptions& options, const Results& results) {
    Fields fields;
    add_options(fields, options);
    const Tally& total = results.total;
    double operations = double(results.operations());
    fields["preload_s"] = results.preload_s;
    fields["measured_s"] = results.measured_s;
    fields["operations"] = results.operations();
    fields["sets"] = total.sets.count();
    fields["gets"] = total.gets.count();
    fields["deletes"] = total.deletes.count();
    fields["keys_read"] = total.keys_read;
    fields["hits"] = total.hits;
    fields["hit_ratio"] = ratio(double(total.hits), double(total.keys_read));
    fields["operations_per_s"] = ratio(operations, results.measured_s);
    fields["keys_per_s"] = ratio(keys_touched(results), results.measured_s);
    add_latency(fields, "all", all_of(results));
    add_latency(fields, "get", total.gets);
    add_latency(fields, "set", total.sets);
    add_latency(fields, "delete", total.deletes);
    fields["late"] = total.late;
    fields["sent_after_max_us"] = micro(double(total.sent_after_max_ns));
    fields["unsent"] = total.unsent;
    fields["client_cpu_s"] = results.client_cpu_s;
    add_usage(fields, "server", results.server, !options.target.server_pids.empty(), results);
    add_usage(fields, "back", results.back, !options.target.back_pids.empty(), results);
    add_shares(fields, results);
    fields["error_replies"] = total.failures.refused;
    fields["wrong_values"] = total.failures.wrong_values;
    fields["broken_connections"] = total.failures.broken;
    fields["first_error"] = total.failures.first;
    return fields;
}

// A field of CSV.
std::string csv_text(const Fields& value) {
    if (value.is_number_float()) return form("%.9g", value.get<double>());
    if (!value.is_string()) return value.dump();
    std::string quoted = "\"";
    for (const char c : value.get<std::string>()) quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + "\"";
}

std::string latency_line(const char* what, const Histogram& h, double measured_s) {
    return form("%-7s %12llu %12.0f %10.1f %9.1f %9.1f %9.1f %9.1f %9.1f\n", what,
                (unsigned long long)h.count(), ratio(double(h.count()), measured_s),
                micro(h.mean()), micro(double(h.quantile(0.5))), micro(double(h.quantile(0.9))),
                micro(double(h.quantile(0.99))),
                micro(double(h.quantile(0.999))), micro(double(h.max())));
}

std::string usage_lines(const char* who, const Usage& usage, const Results& results) {
    double operations = double(results.operations());
    return form("%s: %.2f CPU seconds, %.3f per million operations, %.3f per million keys\n", who,
                usage.cpu_s, ratio(usage.cpu_s * 1e6, operations),
                ratio(usage.cpu_s * 1e6, keys_touched(results))) +
           form("%s: %llu context switches, %.4f per operation\n", who,
                (unsigned long long)usage.context_switches,
                ratio(double(usage.context_switches), operations));
}

std::string pace_lines(const LoadOptions& options, const Results& results) {
    const Tally& total = results.total;
    return form("open loop: %.0f requests a second due, %s; %.0f a second answered\n", options.pace.rate,
                arrival_names[size_t(options.pace.arrivals)].data(), ratio(double(results.operations()), results.measured_s)) +
           form("open loop: %llu found no connection free, at most %.1f us went by before one was sent\n",
                (unsigned long long)total.late, micro(double(total.sent_after_max_ns))) +
           (total.unsent == 0 ? ""
                              : form("open loop: THE RATE WAS NOT HELD: %llu requests were due and never sent, or not answered\n",
                                     (unsigned long long)total.unsent));
}

// The nonzero rows, most frequent first, as shares of all.
std::string rows_text(GetShares::Rows rows, uint64_t all) {
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::string text;
    for (const auto& [name, count] : rows)
        if (count > 0) text += (text.empty() ? "" : ", ") + name + form(" %.4f", ratio(double(count), double(all)));
    return text;
}

std::string share_lines(const GetShares& shares, const Results& results) {
    std::string lines = form("GETs one-sided: %.4f of all, %.4f of those that hit\n", shares.share(),
                            share_of_hits(shares, results.total));
    const std::string reasons = rows_text(shares.reasons, shares.all), denials = rows_text(shares.denials, shares.all);
    if (!reasons.empty()) lines += "GETs not one-sided: " + reasons + "\n";
    if (!denials.empty()) lines += "pointers denied to their replies: " + denials + "\n";
    return lines;
}

void add_histogram(std::string& csv, const char* what, const Histogram& histogram) {
    uint64_t seen = 0;
    histogram.each([&](uint64_t value, uint64_t count) {
        seen += count;
        csv += form("%s,%.9g,%llu,%llu,%.9g\n", what, micro(double(value)), (unsigned long long)count,
                    (unsigned long long)seen, double(seen) / double(histogram.count()));
    });
}

}  // namespace

std::string text_report(const LoadOptions& options, const Results& results) {
    const Shape& shape = options.shape;
    const Mix& mix = options.mix;
    std::string text =
        form("%s, %u threads, %u connections, pipeline %u, %u keys per get, set:get %u:%u\n",
             wire_names[size_t(options.target.wire)].data(), shape.threads, shape.connections,
             shape.pipeline, shape.multiget, mix.sets, mix.gets);
    text += form("%llu keys, %s, ", (unsigned long long)mix.keys, mix.zipf ? form("zipf %g", mix.theta).c_str() : "uniform");
    text += "values of " + text_of(mix.values) + (mix.verify ? " bytes, verified\n" : " bytes\n");
    if (options.pace.rate > 0) text += pace_lines(options, results);
    if (mix.delete_share > 0) text += form("deletes are %g of the operations\n", mix.delete_share);
    if (mix.fill_misses) text += "a get that misses is followed by a set\n";
    if (mix.preload) text += form("preloaded in %.2f s\n", results.preload_s);
    if (mix.warmup_reads > 0) text += form("every key read %u times in %.2f s\n", mix.warmup_reads, results.warmup_reads_s);
    text += form("measured for %.2f s\n\n", results.measured_s);
    text += form("%-7s %12s %12s %10s %9s %9s %9s %9s %9s\n", "", "operations", "per second", "mean us",
                 "p50 us", "p90 us", "p99 us", "p99.9 us", "max us");
    text += latency_line("sets", results.total.sets, results.measured_s);
    text += latency_line("gets", results.total.gets, results.measured_s);
    if (mix.delete_share > 0) text += latency_line("deletes", results.total.deletes, results.measured_s);
    text += latency_line("all", all_of(results), results.measured_s);
    text += form("\nkeys: %.0f read and stored per second, hit ratio %.4f\n",
                 ratio(keys_touched(results), results.measured_s),
                 ratio(double(results.total.hits), double(results.total.keys_read)));
    if (results.shares.has_value()) text += share_lines(*results.shares, results);
    if (!options.target.server_pids.empty()) text += usage_lines("server", results.server, results);
    if (!options.target.back_pids.empty()) text += usage_lines("back", results.back, results);
    text += form("client: %.2f CPU seconds\n", results.client_cpu_s);
    const Failures& failures = results.total.failures;
    text += form("failures: %llu error replies, %llu wrong values, %llu broken connections\n",
                 (unsigned long long)failures.refused, (unsigned long long)failures.wrong_values,
                 (unsigned long long)failures.broken);
    if (failures.total() > 0) text += "the first: " + failures.first + "\n";
    return text;
}

std::string json_report(const LoadOptions& options, const Results& results) {
    return fields_of(options, results).dump(2) + "\n";
}

std::string histogram_csv(const Results& results) {
    std::string csv = "kind,us,count,count_up_to,quantile\n";
    add_histogram(csv, "set", results.total.sets);
    add_histogram(csv, "get", results.total.gets);
    if (results.total.deletes.count() > 0) add_histogram(csv, "delete", results.total.deletes);
    add_histogram(csv, "all", all_of(results));
    return csv;
}

void append_csv(const std::string& path, const LoadOptions& options, const Results& results) {
    std::error_code absent;
    uintmax_t bytes = std::filesystem::file_size(path, absent);
    std::string head, line;
    const Fields fields = fields_of(options, results);
    for (const auto& [name, value] : fields.items()) {
        head += (head.empty() ? "" : ",") + name;
        line += (line.empty() ? "" : ",") + csv_text(value);
    }
    bool is_new = absent || bytes == 0;
    write_file(path, (is_new ? head + "\n" : "") + line + "\n", std::ios::app);
}

}  // namespace farcached::bench
