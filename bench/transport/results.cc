// SPDX-License-Identifier: BSD-3-Clause
#include "bench/transport/results.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace farcached::bench {

namespace {

constexpr std::string_view between_ways = ", ";

const char* read_rpc(std::string_view cell, std::string& rpc) {
    for (const char one : cell) {
        if (one == '+')
            rpc += between_ways;
        else
            rpc += one;
    }
    return nullptr;
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
        lines.push_back(text.substr(0, end));
        text.remove_prefix(end + 1);
    }
    return lines;
}

// Parses the fields after the parameters: the trial's number, its way of requests, and the metrics.
bool read_numbers(std::string_view rest, NumberedOutcome& trial) {
    size_t next = 0;
    const char* wrong = each_part(rest, [&](std::string_view part) -> const char* {
        const size_t field = next++;
        if (field == 0) return to_number<uint32_t>(part, 1, UINT32_MAX, trial.number);
        if (field == 1) return read_rpc(part, trial.outcome.rpc);
        if (field > metrics().size() + 1) return "is too long";
        if (part.empty()) return nullptr;
        double number = 0;
        if (const char* bad = to_number<double>(part, -1e300, 1e300, number)) return bad;
        metrics()[field - 2].in(trial.outcome.measured) = number;
        return nullptr;
    });
    return wrong == nullptr && next == metrics().size() + 2;
}

template <auto Field>
Metric metric(const char* name) {
    return {name, [](const Measured& m) -> const Number& { return m.*Field; }, [](Measured& m) -> Number& { return m.*Field; }};
}
template <auto Part, auto Field>
Metric metric(const char* name) {
    return {name, [](const Measured& m) -> const Number& { return m.*Part.*Field; },
            [](Measured& m) -> Number& { return m.*Part.*Field; }};
}

}  // namespace

const std::vector<Metric>& metrics() {
    using M = Measured;
    static const std::vector<Metric> all = {
        metric<&M::ops_per_s>("ops_per_s"),
        metric<&M::mean_us>("mean_us"),
        metric<&M::p50_us>("p50_us"),
        metric<&M::p95_us>("p95_us"),
        metric<&M::p99_us>("p99_us"),
        metric<&M::p999_us>("p999_us"),
        metric<&M::errors>("errors"),
        metric<&M::node_cpu_us_per_op>("node_cpu_us_per_op"),
        metric<&M::client_cpu_us_per_op>("client_cpu_us_per_op"),
        metric<&M::onesided_share>("onesided_share"),
        metric<&M::verbs, &VerbsMeasured::reads>("reads_per_op"),
        metric<&M::verbs, &VerbsMeasured::sends>("sends_per_op"),
        metric<&M::verbs, &VerbsMeasured::receives>("receives_per_op"),
        metric<&M::verbs, &VerbsMeasured::atomics>("atomics_per_op"),
        metric<&M::verbs, &VerbsMeasured::doorbells>("doorbells_per_op"),
        metric<&M::verbs, &VerbsMeasured::wire_bytes>("wire_bytes_per_op"),
        metric<&M::verbs, &VerbsMeasured::writes>("writes_per_op"),
        metric<&M::rfp, &RfpMeasured::wakeups>("wakeups_per_op"),
        metric<&M::rfp, &RfpMeasured::fetches>("fetches_per_op"),
        metric<&M::rfp, &RfpMeasured::fetches_early>("fetches_early_per_op"),
        metric<&M::rfp, &RfpMeasured::second_reads>("second_reads_per_op"),
        metric<&M::rfp, &RfpMeasured::switched>("switched_per_op"),
        metric<&M::rfp, &RfpMeasured::fetched>("fetched_per_op"),
        metric<&M::device, &DeviceMeasured::operations_in>("operations_in_per_op"),
        metric<&M::device, &DeviceMeasured::operations_out>("operations_out_per_op"),
        metric<&M::device, &DeviceMeasured::node_sends>("node_sends_per_op"),
        metric<&M::device, &DeviceMeasured::sends>("device_sends_per_op"),
        metric<&M::device, &DeviceMeasured::expected_sends>("expected_sends_per_op"),
        metric<&M::device, &DeviceMeasured::packets>("device_packets_per_op"),
        metric<&M::device, &DeviceMeasured::expected_packets>("expected_packets_per_op"),
        metric<&M::profile, &ProfileMeasured::begin_us>("begin_us"),
        metric<&M::profile, &ProfileMeasured::post_us>("post_us"),
        metric<&M::profile, &ProfileMeasured::wait_us>("wait_us"),
        metric<&M::profile, &ProfileMeasured::finish_us>("finish_us"),
    };
    return all;
}

void summarise(const std::vector<const Measured*>& trials, Measured& mean, Measured& deviation) {
    for (const Metric& metric : metrics()) {
        std::vector<double> known;
        for (const Measured* trial : trials)
            if (const Number& number = metric.of(*trial); number.has_value()) known.push_back(*number);
        metric.in(mean) = mean_of(known);
        metric.in(deviation) = deviation_of(known);
    }
    if (mean.errors.has_value()) mean.errors = *mean.errors * double(trials.size());
}

// ---- CSV --------------------------------------------------------------------------------------------

std::string rpc_cell(const std::string& rpc) {
    std::string cell;
    for (size_t i = 0; i < rpc.size(); i++) {
        const bool between = std::string_view(rpc).substr(i).starts_with(between_ways);
        cell += between ? '+' : rpc[i];
        if (between) i += between_ways.size() - 1;
    }
    return cell;
}

std::string trials_head(std::string_view parameters) {
    std::string head = std::string(parameters) + ",trial,rpc_at_end";
    for (const Metric& metric : metrics()) head += std::string(",") + metric.name;
    return head + "\n";
}

std::string trial_row(const std::string& parameters, uint32_t number, const Outcome& outcome) {
    std::string row = parameters + "," + std::to_string(number) + "," + rpc_cell(outcome.rpc);
    for (const Metric& metric : metrics()) row += "," + csv_number(metric.of(outcome.measured));
    return row + "\n";
}

std::vector<NumberedOutcome> read_trial_rows(std::string_view csv, const std::string& parameters, uint32_t trials_max) {
    std::vector<NumberedOutcome> trials;
    for (const std::string_view line : lines_of(csv)) {
        NumberedOutcome trial;
        if (!line.starts_with(parameters + ",") || !read_numbers(line.substr(parameters.size() + 1), trial)) continue;
        const bool known = std::any_of(trials.begin(), trials.end(), [&](const auto& one) { return one.number == trial.number; });
        if (trial.number <= trials_max && !known) trials.push_back(std::move(trial));
    }
    return trials;
}

std::string mean_names() {
    std::string text;
    for (const Metric& metric : metrics()) text += std::string(",") + metric.name + "," + metric.name + "_sd";
    return text;
}

std::string mean_cells(const Measured& mean, const Measured& deviation) {
    std::string text;
    for (const Metric& metric : metrics())
        text += "," + csv_number(metric.of(mean)) + "," + csv_number(metric.of(deviation));
    return text;
}

// ---- JSON, and the end of a text --------------------------------------------------------------------------

nlohmann::ordered_json or_null(const Number& number) {
    return number.has_value() ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

void add_numbers(nlohmann::ordered_json& object, const Measured& mean) {
    object["ops_per_s"] = or_null(mean.ops_per_s);
    object["mean_us"] = or_null(mean.mean_us);
    object["p50_us"] = or_null(mean.p50_us);
    object["p99_us"] = or_null(mean.p99_us);
    object["p999_us"] = or_null(mean.p999_us);
    object["errors"] = uint64_t(mean.errors.value_or(0));
    object["node_cpu_us_per_op"] = or_null(mean.node_cpu_us_per_op);
    object["client_cpu_us_per_op"] = or_null(mean.client_cpu_us_per_op);
}

std::string errors_text(double errors, const std::string& first) {
    return form("\nerrors: %.0f\n", errors) + (first.empty() ? "" : "the first: " + first + "\n");
}

}  // namespace farcached::bench
