// SPDX-License-Identifier: BSD-3-Clause
// farbench's pure parts: histogram, distributions, values, options, and replies at every split.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "bench/data.h"
#include "bench/floor.h"
#include "bench/histogram.h"
#include "bench/load/connection.h"
#include "bench/load/options.h"
#include "bench/load/server_stats.h"
#include "bench/load/wire.h"
#include "bench/load/worker.h"
#include "t/lib/tap.h"

namespace farcached::bench {

namespace {

// ---- histogram
// --------------------------------------------------------------------------------------

void check_histogram() {
    double error_max = 0;
    for (uint64_t value = 1; value < Histogram::value_max; value += 1 + value / 7) {
        Histogram h;
        h.add(value);
        h.add(Histogram::value_max);  // so that the maximum does not correct the middle
        error_max =
            std::max(error_max, std::abs(double(h.quantile(0.5)) - double(value)) / double(value));
    }
    tap::note("largest error of a quantile: %.5f", error_max);
    tap::ok(error_max < 0.004, "a quantile is off by less than 0.4 %");

    Histogram a, b;
    for (uint64_t i = 1; i <= 500; i++) a.add(i * 1000);
    for (uint64_t i = 501; i <= 1000; i++) b.add(i * 1000);
    a.merge(b);
    tap::is(a.count(), 1000u, "merged: the count");
    tap::is(a.max(), 1000000u, "the maximum");
    tap::ok(a.mean() == 500500.0, "the mean is exact");
    tap::ok(std::abs(double(a.quantile(0.99)) - 990000) < 4000, "the 99th percentile");
    uint64_t told = 0, last = 0;
    bool rising = true;
    a.each([&](uint64_t value, uint64_t count) {
        rising &= count > 0 && (told == 0 || value > last);
        last = value;
        told += count;
    });
    tap::ok(rising && told == a.count(), "each step with samples is reported, rising");
    tap::is(Histogram().quantile(0.99), 0u, "an empty histogram has quantile 0");
    Histogram beyond;
    beyond.add(UINT64_MAX / 2);
    tap::is(beyond.count(), 1u, "a value above all is counted");
}

// ---- distributions
// ----------------------------------------------------------------------------------

void check_zipf(double theta) {
    constexpr uint64_t keys = 1000;
    constexpr int draws = 400'000;
    Distribution distribution(keys, theta);
    Random random(3);
    std::vector<int> seen(keys);
    for (int i = 0; i < draws; i++) seen[distribution.rank(random)]++;
    double sum = 0, chi = 0;
    for (uint64_t r = 0; r < keys; r++) sum += std::pow(double(r + 1), -theta);
    for (uint64_t r = 0; r < keys; r++) {
        double wanted = draws * std::pow(double(r + 1), -theta) / sum;
        chi += (seen[r] - wanted) * (seen[r] - wanted) / wanted;
    }
    // 999 degrees of freedom: mean 999, standard deviation 45.
    tap::note("theta %g: chi squared %.1f", theta, chi);
    tap::ok(chi < 999 + 6 * 45, "zipf " + std::to_string(theta) + " is as it should be");
}

void check_keys() {
    for (uint64_t keys : {1u, 2u, 3u, 10u, 1000u, 65536u}) {
        Distribution distribution(keys, 0);
        std::vector<bool> seen(keys);
        for (uint64_t rank = 0; rank < keys; rank++) seen[distribution.key_of_rank(rank)] = true;
        tap::ok(std::find(seen.begin(), seen.end(), false) == seen.end(),
                "each of " + std::to_string(keys) + " keys has a rank");
    }
}

// ---- values
// -----------------------------------------------------------------------------------------

void check_values() {
    Values values(24, 200, true);
    int good = 0, accepted = 0;
    for (uint64_t sequence = 0; sequence < 200; sequence++) {
        std::string value(values.size(sequence), 0);
        values.fill(value.data(), uint32_t(value.size()), 7, sequence);
        good += values.good(value, 7);
        accepted += values.good(value, 8);
        for (size_t i = 0; i < value.size(); i++) {
            value[i] = char(value[i] ^ 1);
            accepted += values.good(value, 7);
            value[i] = char(value[i] ^ 1);
        }
        accepted += values.good(value.substr(0, value.size() - 1), 7);
        accepted += values.good(value + "x", 7);
    }
    tap::is(good, 200, "every value is recognised under its key");
    tap::is(accepted, 0, "and none with another key, another byte, another length");
    const Values shorter(1, 23, true);
    good = accepted = 0;
    for (uint32_t bytes = 1; bytes < Values::verified_bytes_min; bytes++) {
        std::string value(bytes, 0);
        shorter.fill(value.data(), bytes, 7, bytes);
        good += shorter.good(value, 7);
        accepted += bytes >= 4 && shorter.good(value, 8);
        accepted += shorter.good(value.substr(0, bytes - 1) + "x", 7) && value.back() != 'x';
        accepted += shorter.good(value + "x", 7);
    }
    tap::is(good, 23, "a short one is recognised, too");
    tap::is(accepted, 0, "and none with another key, another byte");
}

void check_value_sizes() {
    const ValueSizes sizes[] = {{64, 64, 90}, {100, 1024, 9}, {65536, 65536, 1}};
    tap::is(text_of(sizes), "64@90,100:1024@9,65536@1", "lengths as they are written");
    Values values(sizes, false);
    uint64_t small = 0, middle = 0, large = 0, others = 0;
    constexpr uint64_t draws = 200'000;
    for (uint64_t sequence = 0; sequence < draws; sequence++) {
        const uint32_t bytes = values.size(sequence);
        (bytes == 64 ? small : bytes == 65536 ? large : bytes >= 100 && bytes <= 1024 ? middle : others)++;
        if (bytes != values.size(sequence)) others++;
    }
    tap::note("%llu, %llu, %llu", (unsigned long long)small, (unsigned long long)middle, (unsigned long long)large);
    tap::is(others, 0u, "no other lengths, and a sequence number has one");
    auto near = [&](uint64_t n, double share) { return std::abs(double(n) - share * draws) < 6 * std::sqrt(share * draws); };
    tap::ok(near(small, 0.90) && near(middle, 0.09) && near(large, 0.01), "each as often as its weight");
}

// ---- schedule
// ----------------------------------------------------------------------------------------

void check_even_arrivals() {
    constexpr uint64_t start = 1'000'000'000;
    std::vector<uint64_t> of_three, of_one;
    for (uint32_t worker = 0; worker < 3; worker++) {
        Schedule schedule(start, 7000, Arrivals::even, worker, 3, 1);
        for (int i = 0; i < 7000; i++, schedule.advance()) of_three.push_back(schedule.due_ns());
    }
    std::sort(of_three.begin(), of_three.end());
    Schedule alone(start, 7000, Arrivals::even, 0, 1, 1);
    for (int i = 0; i < 21000; i++, alone.advance()) of_one.push_back(alone.due_ns());
    tap::ok(of_three == of_one, "three workers together keep the rate of one");
    tap::is(of_one[0], start, "the first is due at once");
    tap::is(of_one[7000], start + 1'000'000'000, "after a second as many were due as the rate");
    tap::is(of_one[14000] - of_one[7000], 1'000'000'000u, "and after the next: nothing adds up");
}

void check_poisson_arrivals() {
    constexpr int draws = 100'000;
    Schedule schedule(0, 1000, Arrivals::poisson, 1, 2, 5), same(0, 1000, Arrivals::poisson, 1, 2, 5);
    uint64_t before = 0, shorter = 0, differ = 0;
    for (int i = 0; i < draws; i++, schedule.advance(), same.advance()) {
        shorter += schedule.due_ns() - before < 2'000'000;
        differ += schedule.due_ns() != same.due_ns();
        before = schedule.due_ns();
    }
    tap::is(differ, 0u, "the same seed has the same arrivals");
    // One of two workers has half the rate: an interval of 2 ms in the mean.
    tap::ok(std::abs(double(before) / draws - 2e6) < 6 * 2e6 / std::sqrt(draws), "poisson: the mean is that of the rate");
    tap::ok(std::abs(double(shorter) / draws - 0.6321) < 0.01, "and intervals are exponential");
}

// ---- floor
// ----------------------------------------------------------------------------------------

void check_floor() {
    const std::string input = "get a\r\nset b 0 0 5\r\nget x\r\nget a bc\r\nversion\r\nset c 0 0 many\r\n";
    const std::string wanted =
        "VALUE a 0 3\r\nxxx\r\nEND\r\nSTORED\r\nVALUE a 0 3\r\nxxx\r\nVALUE bc 0 3\r\nxxx\r\nEND\r\nERROR\r\n"
        "CLIENT_ERROR bad data chunk\r\n";
    int bad = 0;
    for (size_t cut = 0; cut <= input.size(); cut++) {
        CannedReplies canned(3);
        std::string replies;
        const size_t done = canned.answer(std::string_view(input).substr(0, cut), replies);
        bad += done > cut;
        bad += canned.answer(std::string_view(input).substr(done), replies) != input.size() - done;
        bad += replies != wanted || canned.requests != 5;
    }
    tap::is(bad, 0, "the floor answers whole requests, at every split");
}

// ---- replies
// ----------------------------------------------------------------------------------------

std::string value_of(const Values& values, uint64_t key) {
    std::string value(values.size(key), 0);
    values.fill(value.data(), uint32_t(value.size()), key, key);
    return value;
}

std::string packet(uint8_t opcode, uint16_t status, std::string_view key, std::string_view extras,
                   std::string_view value) {
    size_t body = key.size() + extras.size() + value.size();
    std::string p(24, 0);
    p[0] = char(0x81);
    p[1] = char(opcode);
    p[3] = char(key.size());
    p[4] = char(extras.size());
    p[7] = char(status);
    p[10] = char(body >> 8);
    p[11] = char(body);
    return p.append(extras).append(key).append(value);
}

// One batch: a set, a get that hits, one that misses, a multi-get of 1..4 where 1 and 3 hit.
std::string replies(Wire wire, const Values& values) {
    std::string a = value_of(values, 1), b = value_of(values, 3), n = std::to_string(a.size());
    auto text = [&](int key, const std::string& value) {
        return "VALUE k" + std::to_string(key) + " 0 " + n + "\r\n" + value + "\r\n";
    };
    auto meta = [&](int key, const std::string& value) {
        return "VA " + n + " kk" + std::to_string(key) + "\r\n" + value + "\r\n";
    };
    std::string flags(4, 0);
    switch (wire) {
        case Wire::text:
            return "STORED\r\n" + text(1, a) + "END\r\nEND\r\n" + text(1, a) + text(3, b) +
                   "END\r\n";
        case Wire::meta:
            return "HD\r\nVA " + n + "\r\n" + a + "\r\nEN\r\n" + meta(1, a) + meta(3, b) + "MN\r\n";
        case Wire::binary:
            break;
    }
    return packet(1, 0, "", "", "") + packet(0, 0, "", flags, a) +
           packet(0, 1, "", "", "Not found") + packet(13, 0, "k1", flags, a) +
           packet(13, 0, "k3", flags, b) + packet(10, 0, "", "", "");
}

struct Heard {
    std::string answers;  // keys/hits of each
    Failures failures;
    bool broken = false;
    bool done = false;
    size_t left = 0;
};

// Feeds `input` in two parts.
Heard hear(Wire wire, const Values& values, const std::string& input, size_t cut) {
    RequestWriter writer(wire, "k");
    Batch batch(wire, writer, values);
    OutBuffer out;
    const uint64_t one[] = {1}, two[] = {2}, many[] = {1, 2, 3, 4};
    batch.add_set(out, 1, 1);
    batch.add_get(out, one);
    batch.add_get(out, two);
    batch.add_get(out, many);
    Heard heard;
    size_t at = 0;
    for (size_t end : {cut, input.size()}) {
        while (!batch.done() && !heard.broken) {
            Batch::Step step =
                batch.step(std::string_view(input).substr(at, end - at), heard.failures);
            if (step.wanted > 0) break;
            heard.broken = step.broken;
            at += step.bytes;
            if (step.answered)
                heard.answers +=
                    std::to_string(step.answer.keys) + "/" + std::to_string(step.answer.hits) + " ";
        }
    }
    heard.done = batch.done();
    heard.left = input.size() - at;
    return heard;
}

void check_replies(Wire wire, const char* name) {
    Values values(40, 40, true);
    std::string input = replies(wire, values);
    int bad = 0;
    for (size_t cut = 0; cut <= input.size(); cut++) {
        Heard heard = hear(wire, values, input, cut);
        bad += heard.answers != "1/0 1/1 1/0 4/2 " || heard.failures.total() != 0 || !heard.done ||
               heard.left != 0;
    }
    tap::is(bad, 0, std::string(name) + ": replies are understood at every split");

    int unnoticed = 0;
    for (size_t at = 0; at < input.size(); at++) {
        std::string changed = input;
        changed[at] = char(changed[at] ^ 0x10);
        Heard heard = hear(wire, values, changed, changed.size());
        bool noticed = heard.failures.total() > 0 || heard.broken || !heard.done ||
                       heard.left != 0 || heard.answers != "1/0 1/1 1/0 4/2 ";
        unnoticed += !noticed;
    }
    // Bytes that the parser ignores: client flags; in packets also data type, opaque, cas and texts of errors.
    tap::note("%s: %d of %zu changed bytes go unnoticed", name, unnoticed, input.size());
    tap::ok(unnoticed <= (wire == Wire::binary ? 6 * 18 + 3 * 4 + 9 : 3),
            std::string(name) + ": a changed byte is noticed");
}

// Two removes: one finds its key. Four gets: two miss, and one is refused.
std::string removal_replies(Wire wire, const Values& values) {
    std::string a = value_of(values, 1), n = std::to_string(a.size());
    const std::string flags(4, 0);
    switch (wire) {
        case Wire::text:
            return "DELETED\r\nNOT_FOUND\r\nEND\r\nVALUE k1 0 " + n + "\r\n" + a + "\r\nEND\r\nVALUE k1 0 " + n + "\r\n" + a +
                   "\r\nEND\r\nSERVER_ERROR no\r\n";
        case Wire::meta:
            return "HD\r\nNF\r\nEN\r\nVA " + n + "\r\n" + a + "\r\nVA " + n + " kk1\r\n" + a + "\r\nMN\r\nSERVER_ERROR no\r\n";
        case Wire::binary: break;
    }
    return packet(4, 0, "", "", "") + packet(4, 1, "", "", "Not found") + packet(0, 1, "", "", "Not found") +
           packet(0, 0, "", flags, a) + packet(13, 0, "k1", flags, a) + packet(10, 0, "", "", "") +
           packet(0, 0x84, "", "", "no");
}

void check_removals(Wire wire, const char* name) {
    const Values values(40, 40, true);
    const RequestWriter writer(wire, "k");
    const std::string input = removal_replies(wire, values);
    const uint64_t gone[] = {2}, there[] = {1}, many[] = {3, 1, 4, 5};
    int bad = 0;
    for (size_t cut = 0; cut <= input.size(); cut++) {
        Batch batch(wire, writer, values);
        OutBuffer out;
        batch.add_remove(out, 1);
        batch.add_remove(out, 2);
        for (auto keys : {std::span<const uint64_t>(gone), std::span<const uint64_t>(there), std::span<const uint64_t>(many),
                          std::span<const uint64_t>(gone)})
            batch.add_get(out, keys);
        Failures failures;
        size_t at = 0, removed = 0;
        for (size_t end : {cut, input.size()}) {
            while (!batch.done()) {
                const Batch::Step step = batch.step(std::string_view(input).substr(at, end - at), failures);
                if (step.wanted > 0 || step.broken) break;
                at += step.bytes;
                removed += step.answered && step.answer.kind == RequestKind::remove;
            }
        }
        const std::vector<uint64_t> missed(batch.missed().begin(), batch.missed().end());
        bad += !batch.done() || at != input.size() || removed != 2 || missed != std::vector<uint64_t>{2, 3, 4, 5} ||
               failures.refused != 1 || failures.total() != 1;
        if (batch.done()) batch.clear();
        bad += !batch.missed().empty();
    }
    tap::is(bad, 0, std::string(name) + ": removes are understood, and which keys gets missed, at every split");
}

void check_failures() {
    Values values(40, 40, true);
    std::string value = value_of(values, 1);
    Heard heard = hear(Wire::text, values,
                       "SERVER_ERROR out of memory storing object\r\nEND\r\nEND\r\nEND\r\n", 0);
    tap::is(heard.failures.refused, 1u, "an error reply is counted");
    tap::is(heard.failures.first, "an error reply: SERVER_ERROR out of memory storing object",
            "and kept");
    tap::ok(heard.done, "and the rest is read");
    heard = hear(Wire::text, values,
                 "STORED\r\nVALUE k2 0 40\r\n" + value + "\r\nEND\r\nEND\r\nEND\r\n", 0);
    tap::is(heard.failures.wrong_values, 1u, "a key that was not requested is a wrong value");
    heard = hear(Wire::text, values, "HELLO\r\n", 0);
    tap::ok(heard.broken, "another protocol is noticed");
    heard = hear(Wire::meta, values, std::string(5000, 'x'), 0);
    tap::ok(heard.broken, "an unterminated line is not waited for");
}

// ---- options
// ----------------------------------------------------------------------------------------

std::string read_options(std::vector<std::string> words, LoadOptions& options) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    return read_load_options(arguments, options);
}

void check_shares() {
    const ProxyStats before = {{"get_onesided", "100"}, {"get_index", "0"}, {"get_twosided", "50"}, {"pointer_misses", "40"},
                               {"get_onesided_share", "0.667"}};
    const ProxyStats after = {{"get_onesided", "160"}, {"get_index", "20"}, {"get_twosided", "70"}, {"pointer_misses", "49"},
                              {"read_invalid_lease", "2"}, {"pointer_expired", "1"}, {"lease_denied_sparse", "4"}};
    const std::optional<GetShares> shares = get_shares(before, after);
    tap::ok(shares.has_value() && shares->onesided == 80 && shares->all == 100 && shares->share() == 0.8, "GETs one-sided, of all");
    const auto count_of = [](const GetShares::Rows& rows, std::string_view name) {
        for (const auto& [row, count] : rows)
            if (row == name) return count;
        return UINT64_MAX;
    };
    tap::is(count_of(shares->reasons, "no_pointer"), 9u, "reasons are what counters grew by");
    tap::is(count_of(shares->reasons, "lease_over"), 3u, "and sums of them");
    tap::is(count_of(shares->reasons, "grown"), 0u, "a counter that an earlier version lacks is 0");
    tap::is(count_of(shares->denials, "denied_sparse"), 4u, "denials apart");
    tap::is(get_shares(after, before)->onesided, 0u, "a counter that fell has restarted");
    tap::ok(!get_shares({}, {}).has_value(), "a server without statistics of a proxy has no shares");
    tap::ok(!get_shares({{"get_local", "1"}}, {{"get_local", "2"}}).has_value(), "nor does a farcached without nodes");
}

void check_options() {
    LoadOptions options;
    tap::is(read_options({}, options), "", "no option is needed");
    tap::ok(options.bounds.seconds == 10, "and a load ends by itself");
    tap::is(options.mix.gets, 95u, "the table's values hold");
    tap::is(read_options({"--value-bytes=100:200", "--ratio", "1:0", "--verify"}, options), "",
            "both ways of writing");
    tap::is(text_of(options.mix.values), "100:200", "a range is read");
    for (const char* wrong :
         {"--port", "--nothing", "port", "--verify=1", "--pipeline=0", "--pipeline=x", "--ratio=5",
          "--ratio=0:0", "--value-bytes=9:8", "--server-pid=,", "--theta=nan", "--keys=-1",
          "--value-bytes=64@", "--value-bytes=64@1,", "--value-bytes=64@0", "--rate=0", "--rate=fast", "--arrivals=late",
          "--distribution=normal", "--delete-share=1.1", "--delete-share=-0.1", "--delete-share=some", "--warmup-reads=-1",
          "--warmup-reads=1001", "--protocol=http", "--key-prefix=a b", "--once-share=1.1", "--once-share=-0.1",
          "--warmup-requests=-1", "--shift-requests=-1", "--shift-requests=100"})
        tap::ok(!read_options({wrong}, options).empty(), std::string("refused: ") + wrong);
    tap::is(read_options({"--delete-share=0.05", "--warmup-reads=2"}, options), "", "deletes and a warm-up");
    tap::ok(options.mix.delete_share == 0.05 && options.mix.warmup_reads == 2, "as they are given");
    LoadOptions small;
    tap::ok(!read_options({"--verify", "--value-bytes", "23"}, small).empty(),
            "too short a value to verify");
    for (const Option& option : load_options())
        if (std::string_view(option.help).size() < 8)
            tap::ok(false, std::string(option.name) + " has a help text");
}

}  // namespace

}  // namespace farcached::bench

int main() {
    using namespace farcached::bench;
    check_histogram();
    for (double theta : {0.5, 0.8, 0.99, 1.0, 1.1, 2.0}) check_zipf(theta);
    check_keys();
    check_values();
    check_value_sizes();
    check_even_arrivals();
    check_poisson_arrivals();
    check_floor();
    check_replies(Wire::text, "text");
    check_replies(Wire::meta, "meta");
    check_replies(Wire::binary, "binary");
    check_removals(Wire::text, "text");
    check_removals(Wire::meta, "meta");
    check_removals(Wire::binary, "binary");
    check_failures();
    check_shares();
    check_options();
    return tap::done();
}
