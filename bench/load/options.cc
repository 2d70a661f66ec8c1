// SPDX-License-Identifier: BSD-3-Clause
#include "bench/load/options.h"

#include <algorithm>
#include <string_view>

#include "base/limits.h"
#include "bench/data.h"

namespace farcached::bench {

namespace {

// Bounds on memory and time of a run.
constexpr uint32_t threads_max = 64;
constexpr uint32_t connections_max = 50'000;
constexpr uint32_t pipeline_max = 10'000;
constexpr uint32_t multiget_max = 10'000;
constexpr uint32_t value_bytes_max = 1u << 30;
constexpr size_t value_sizes_max = 64;
constexpr uint32_t warmup_reads_max = 1000;
constexpr double rate_max = 1e9;
constexpr double seconds_max = 24 * 3600;
constexpr double seconds_if_requests = 3600;

// "a:b", or "a" for both values.
const char* to_pair(std::string_view text, uint32_t high, uint32_t& a, uint32_t& b) {
    size_t colon = text.find(':');
    if (const char* wrong = to_number<uint32_t>(text.substr(0, colon), 0, high, a)) return wrong;
    b = a;
    if (colon == text.npos) return nullptr;
    return to_number<uint32_t>(text.substr(colon + 1), 0, high, b);
}

const char* to_pids(std::string_view text, std::vector<int>& pids) {
    pids.clear();
    if (text.size() > 1 && text.ends_with(',')) text.remove_suffix(1);
    const auto take = [&](std::string_view part) { return to_number<int>(part, 1, 1 << 30, pids.emplace_back()); };
    return text.empty() ? "is not a process" : each_part(text, take);
}

const char* to_ratio(const std::string& text, Mix& mix) {
    if (text.find(':') == text.npos) return "is not set:get, as in 5:95";
    if (const char* wrong = to_pair(text, 1'000'000, mix.sets, mix.gets)) return wrong;
    return mix.sets + mix.gets == 0 ? "leaves no operations" : nullptr;
}

const char* to_value_bytes(const std::string& text, Mix& mix) {
    mix.values.clear();
    uint64_t weights = 0;
    const char* wrong = each_part(text, [&](std::string_view part) -> const char* {
        ValueSizes& one = mix.values.emplace_back();
        const size_t at = part.find('@');
        if (const char* no = to_pair(part.substr(0, at), value_bytes_max, one.bytes_min, one.bytes_max)) return no;
        if (one.bytes_min > one.bytes_max) return "is a range whose end is before its start";
        if (at != part.npos)
            if (const char* no = to_number<uint32_t>(part.substr(at + 1), 0, 1'000'000, one.weight)) return no;
        weights += one.weight;
        return mix.values.size() > value_sizes_max ? "has too many lengths" : nullptr;
    });
    if (wrong != nullptr) return wrong;
    return weights == 0 ? "has no length with a weight" : nullptr;
}

const char* to_prefix(const std::string& text, Mix& mix) {
    constexpr size_t digits_max = 20;
    if (text.size() > limits::key_bytes_max - digits_max) return "is too long";
    for (char c : text)
        if (c <= ' ' || c == 127) return "contains a blank or a control character";
    mix.key_prefix = text;
    return nullptr;
}

constexpr std::string_view distribution_names[] = {"uniform", "zipf"};

using L = LoadOptions;
using S = const std::string;

const Option table[] = {
    {{"host", "NAME", "127.0.0.1", "name or address of the server"},
     [](L& l, S& t) { return to_any_text(t, l.target.host); }},
    {{"port", "PORT", "11211", "port of the server"},
     [](L& l, S& t) { return to_any_text(t, l.target.port); }},
    {{"unix", "PATH", nullptr, "a Unix socket instead"},
     [](L& l, S& t) { return to_any_text(t, l.target.unix_path); }},
    {{"protocol", "P", "text", "text, meta or binary"},
     [](L& l, S& t) { return to_word(t, wire_names, l.target.wire, "is not one of text, meta, binary"); }},
    {{"server-pid", "PID[,PID]", nullptr,
     "report the CPU time and context switches of these processes"},
     [](L& l, S& t) { return to_pids(t, l.target.server_pids); }},
    {{"back-pid", "PID[,PID]", nullptr,
     "the same, separately, for these processes, the server's nodes"},
     [](L& l, S& t) { return to_pids(t, l.target.back_pids); }},
    {{"threads", "N", "2", "number of threads, each with its own connections"},
     [](L& l, S& t) { return to_number<uint32_t>(t, 1, threads_max, l.shape.threads); }},
    {{"connections", "N", "50", "total number of connections"},
     [](L& l, S& t) { return to_number<uint32_t>(t, 1, connections_max, l.shape.connections); }},
    {{"pipeline", "N", "1", "requests per write; the next batch starts when all are answered"},
     [](L& l, S& t) { return to_number<uint32_t>(t, 1, pipeline_max, l.shape.pipeline); }},
    {{"multiget", "K", "1", "keys per get"},
     [](L& l, S& t) { return to_number<uint32_t>(t, 1, multiget_max, l.shape.multiget); }},
    {{"rate", "N", nullptr,
      "open loop: N requests per second are due by a schedule, independent of replies. Latency counts from the time a "
      "request was due. A due request is sent on an idle connection; without one it is counted as waiting "
      "and sent with other due requests, up to --pipeline of them"},
     [](L& l, S& t) { return to_number<double>(t, 0.001, rate_max, l.pace.rate); }},
    {{"arrivals", "A", "even", "schedule of --rate: even or poisson"},
     [](L& l, S& t) { return to_word(t, arrival_names, l.pace.arrivals, "is not even or poisson"); }},
    {{"seconds", "S", nullptr, "duration of the measurement; default 10 without --requests"},
     [](L& l, S& t) { return to_number<double>(t, 0.01, seconds_max, l.bounds.seconds); }},
    {{"requests", "N", nullptr, "number of requests to measure, within --seconds or an hour"},
     [](L& l, S& t) { return to_number<uint64_t>(t, 1, UINT64_C(1) << 50, l.bounds.requests); }},
    {{"warmup", "S", "0", "seconds of load before the measurement"},
     [](L& l, S& t) { return to_number<double>(t, 0, seconds_max, l.bounds.warmup_s); }},
    {{"warmup-requests", "N", "0", "requests before --warmup and the measurement, without counting"},
     [](L& l, S& t) { return to_number<uint64_t>(t, 0, UINT64_C(1) << 50, l.bounds.warmup_requests); }},
    {{"stall", "S", "10", "abort after this long without a reply"},
     [](L& l, S& t) { return to_number<double>(t, 0.1, seconds_max, l.bounds.stall_s); }},
    {{"ratio", "SET:GET", "5:95", "ratio of sets to gets"},
     [](L& l, S& t) { return to_ratio(t, l.mix); }},
    {{"keys", "N", "10000", "number of keys"},
     [](L& l, S& t) { return to_number<uint64_t>(t, 1, UINT64_C(1) << 40, l.mix.keys); }},
    {{"key-prefix", "TEXT", "farbench-", "prefix of keys; a number follows"},
     [](L& l, S& t) { return to_prefix(t, l.mix); }},
    {{"value-bytes", "N[:M][@W],...", "64",
      "length of values; N:M: each from N to M; several with weights, as in 64@90,100:1024@9,65536@1"},
     [](L& l, S& t) { return to_value_bytes(t, l.mix); }},
    {{"distribution", "D", "uniform", "distribution of keys: uniform or zipf"},
     [](L& l, S& t) { return to_word(t, distribution_names, l.mix.zipf, "is not uniform or zipf"); }},
    {{"theta", "X", "0.99", "exponent of zipf"},
     [](L& l, S& t) { return to_number<double>(t, 0.01, 10, l.mix.theta); }},
    {{"shift-requests", "N", "0",
      "the popular keys of zipf change when a thread has drawn N keys: every rank moves by an eighth of --keys; 0: never"},
     [](L& l, S& t) { return to_number<uint64_t>(t, 0, UINT64_C(1) << 50, l.mix.shift_requests); }},
    {{"once-share", "X", "0", "share of the keys of gets, from 0 to 1, that are beyond --keys and requested once only"},
     [](L& l, S& t) { return to_number<double>(t, 0, 1, l.mix.once_share); }},
    {{"preload", nullptr, nullptr, "store every key once before the load"},
     [](L& l, S&) { return to_flag(l.mix.preload); }},
    {{"warmup-reads", "N", "0", "read every key N times after --preload and before the load, without counting"},
     [](L& l, S& t) { return to_number<uint32_t>(t, 0, warmup_reads_max, l.mix.warmup_reads); }},
    {{"delete-share", "X", "0",
      "share of the operations that are deletes, from 0 to 1; --ratio divides the others. Implies --fill-misses"},
     [](L& l, S& t) { return to_number<double>(t, 0, 1, l.mix.delete_share); }},
    {{"fill-misses", nullptr, nullptr,
      "store a key that a get misses at once, over the same connection and beyond --requests: the server is a look-aside cache"},
     [](L& l, S&) { return to_flag(l.mix.fill_misses); }},
    {{"verify", nullptr, nullptr,
     "values carry key, sequence number and checksum, and gets check them"},
     [](L& l, S&) { return to_flag(l.mix.verify); }},
    {{"seed", "N", "1", "random seed"},
     [](L& l, S& t) { return to_number<uint64_t>(t, 0, UINT64_MAX, l.mix.seed); }},
    {{"json", "FILE", nullptr, "also write the results as JSON"},
     [](L& l, S& t) { return to_any_text(t, l.output.json_path); }},
    {{"csv", "FILE", nullptr, "append the results as a line of CSV, with a header if the file is new"},
     [](L& l, S& t) { return to_any_text(t, l.output.csv_path); }},
    {{"histogram", "FILE", nullptr,
      "write all latencies as CSV: histograms of sets, gets and all, and quantiles"},
     [](L& l, S& t) { return to_any_text(t, l.output.histogram_path); }},
    {{"progress", nullptr, nullptr, "a line per second on stderr, even if it is not a terminal"},
     [](L& l, S&) { return to_flag(l.output.progress); }},
};

// Derives and checks settings that depend on several options.
std::string settle(LoadOptions& options) {
    Bounds& bounds = options.bounds;
    if (bounds.seconds == 0) bounds.seconds = bounds.requests == 0 ? 10 : seconds_if_requests;
    Shape& shape = options.shape;
    shape.threads = std::min(shape.threads, shape.connections);
    if (options.mix.delete_share > 0) options.mix.fill_misses = true;
    if (options.mix.shift_requests != 0 && (!options.mix.zipf || options.mix.keys < Mix::shift_parts))
        return "--shift-requests needs --distribution zipf and --keys of at least " + std::to_string(Mix::shift_parts);
    for (const ValueSizes& one : options.mix.values)
        if (options.mix.verify && one.bytes_min < Values::verified_bytes_min)
            return "--verify needs --value-bytes of at least " + std::to_string(Values::verified_bytes_min);
    return {};
}

}  // namespace

std::span<const Option> load_options() { return table; }

std::string read_load_options(std::span<char* const> arguments, LoadOptions& options) {
    const std::string wrong = read_options(load_options(), arguments, options);
    return wrong.empty() ? settle(options) : wrong;
}

}  // namespace farcached::bench
