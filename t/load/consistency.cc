// SPDX-License-Identifier: BSD-3-Clause
// The consistency load: threads of mixed operations, in text, meta and binary, against a running daemon that is short
// of memory. Every reply goes through the checks of consistency_load.h.
//
//     consistency PORT[,PORT...] [--seed N] [--seconds N] [--threads N] [--keys N] [--value-bytes N]
//                 [--ttl-keys N]     of each thread: keys with a time to live
//                 [--reads N]        more gets behind each operation
//                 [--round N]        operations of a thread between two checks of the histories
//                 [--rest N]         after each round all threads rest N times as long as it took, at most a second
//                 [--mutations N]    go on until so many were made, for at most six more times the seconds
//                 [--operations N]   the same for all operations
//                 [--admin PATH[,PATH...]]  the operators' sockets: deletes by prefix, too
//                 [--mix NAME]      the shares of the operations (consistency_mix.h); default: everything
//                 [--outages 1]      nodes behind the ports may not answer
//                 [--failover 1]     and others then answer for them
//                 [--disk 1]         values are on a disk
//     consistency --self     the checks themselves, on values and histories wrong on purpose
//
// Started by consistency.py, which starts the daemon. The seed determines each thread's operations.
#include <algorithm>
#include <barrier>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "t/lib/tap.h"
#include "t/load/consistency_load.h"

namespace consistency {
namespace {

constexpr int64_t late_factor_max = 6;   // of the seconds asked for
constexpr int64_t rest_max_ms = 1000;
constexpr size_t tries_max = 2'000'000;  // of one history's search

struct Checked {
    uint64_t histories = 0, operations = 0, undecided = 0;
};

// The history of one key, with the flushes that touch its time, each operation on a line.
std::string told(const std::vector<Operation>& history) {
    static constexpr const char* kinds[] = {"get",    "set", "add",   "append",
                                            "delete", "cas", "touch", "flush"};
    static constexpr const char* outcomes[] = {"done", "refused", "absent", "unknown"};
    std::string text;
    for (const Operation& op : history) {
        char line[160];
        std::snprintf(line, sizeof line, "\n#   %llu-%llu %s %s record %llx value %llx",
                      (unsigned long long)op.sent, (unsigned long long)op.answered,
                      kinds[size_t(op.kind)], outcomes[size_t(op.outcome)],
                      (unsigned long long)mix(0, op.record), (unsigned long long)op.expected);
        text += line;
    }
    return text;
}

void check_histories(Shared& shared, Checked& checked) {
    const std::lock_guard hold(shared.lock);
    for (auto& [key, history] : shared.histories) {
        uint64_t first = UINT64_MAX, last = 0;
        for (const Operation& op : history) {
            first = std::min(first, op.sent);
            last = std::max(last, op.outcome == Outcome::unknown ? op.sent : op.answered);
        }
        for (const auto& [prefix, op] : shared.flushes) {
            if (!key_name(shared, key).starts_with(prefix)) continue;
            if (op.answered > first && op.sent < last) history.push_back(op);
        }
        condense(history, shared.observed);
        const Verdict verdict = Linearizer(history).run(tries_max);
        checked.histories++;
        checked.operations += history.size();
        if (verdict == Verdict::undecided) checked.undecided++;
        if (verdict == Verdict::not_linearizable) {
            shared.faults.add(Fault::history, "the history of " + key_name(shared, key) +
                                                  " is not linearizable:" + told(history));
        }
    }
    shared.histories.clear();
    shared.flushes.clear();
    shared.observed.clear();
}

uint64_t operations(const Shared& shared) { return shared.gets + shared.mutations; }

// The time has passed, and the requested number of operations was made. A machine too slow for that stops at a later
// limit.
bool is_over(const Shared& shared) {
    const int64_t now = now_ms();
    if (now < shared.end_ms) return false;
    const Options& wanted = shared.options;
    if (shared.mutations >= wanted.mutations_min && operations(shared) >= wanted.operations_min)
        return true;
    return now >= shared.end_ms + int64_t(shared.options.seconds) * 1000 * late_factor_max;
}

// With --rest, leaves the machine to others for a while.
void rest(const Shared& shared, int64_t round_ms) {
    const int64_t rest_ms = std::min(round_ms * int64_t(shared.options.rest), rest_max_ms);
    if (rest_ms > 0 && !shared.over()) std::this_thread::sleep_for(std::chrono::milliseconds(rest_ms));
}

// Each round: all threads run their operations; thread 0 then judges the histories, and rests, while the others wait.
void run_thread(Shared& shared, uint32_t index, std::barrier<>& gate, Checked& checked) {
    std::unique_ptr<Worker> worker;
    for (uint32_t round = 0; !shared.over(); round++) {
        const int64_t began_ms = now_ms();
        try {
            if (!worker) worker = std::make_unique<Worker>(shared, index);
            worker->round(round);
        } catch (const std::exception& e) {
            shared.faults.add(Fault::reply,
                              std::string("thread ") + std::to_string(index) + ": " + e.what());
            shared.stop = true;
        }
        gate.arrive_and_wait();
        if (index == 0) {
            check_histories(shared, checked);
            if (is_over(shared)) shared.stop = true;
            rest(shared, now_ms() - began_ms);
        }
        gate.arrive_and_wait();
    }
    gate.arrive_and_drop();  // others may be in a round that was begun before
}

void tell_outages(const Shared& shared) {
    std::printf("# %llu changes of unknown outcome, %llu of their values seen after newer ones\n",
                (unsigned long long)shared.unavailable, (unsigned long long)shared.doubts_seen);
    if (!shared.options.failover) return;
    std::printf("# seen older than acknowledged: %llu values, %llu histories, %llu counters\n",
                (unsigned long long)shared.faults.of(Fault::stale),
                (unsigned long long)shared.faults.of(Fault::history),
                (unsigned long long)shared.faults.of(Fault::counter));
}

int run(const Options& options) {
    std::printf("# seed %llu: %u threads, %u seconds, %u keys, values to %u bytes, %s\n",
                (unsigned long long)options.seed, options.threads, options.seconds, options.keys,
                options.value_bytes_max, std::string(options.mix->name).c_str());
    std::fflush(stdout);
    Shared shared(options);
    Checked checked;
    Client(options.ports.front(), "").flush_all(Wire::text);
    std::printf("# flushed\n");
    std::fflush(stdout);
    std::barrier<> gate(std::ptrdiff_t(options.threads));
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < options.threads; i++) {
        threads.emplace_back([&, i] { run_thread(shared, i, gate, checked); });
    }
    for (std::thread& t : threads) t.join();

    const auto none = [&](Fault kind, const char* name) {
        if (!shared.faults.forgiven(kind)) tap::ok(shared.faults.of(kind) == 0, name);
    };
    std::printf(
        "# %llu gets, %llu hits, %llu mutations; %llu histories of %llu operations, %llu "
        "undecided\n",
        (unsigned long long)shared.gets, (unsigned long long)shared.hits,
        (unsigned long long)shared.mutations, (unsigned long long)checked.histories,
        (unsigned long long)checked.operations, (unsigned long long)checked.undecided);
    if (!options.admins.empty()) {
        std::printf("# %llu deletes by prefix\n", (unsigned long long)shared.prefix_deletes);
        // Where nodes end, some rounds have none that is known to be carried out.
        if (!options.outages) tap::ok(shared.prefix_deletes > 0, "there were deletes by prefix");
    }
    if (options.outages || options.failover) tell_outages(shared);
    none(Fault::reply, "every request is answered properly");
    none(Fault::torn, "no get returns a byte that was not stored under its key");
    none(Fault::stale, "nobody sees what is older than an acknowledged mutation or flush");
    none(Fault::expired, "nothing is seen long after its expiry");
    none(Fault::counter, "no two increments return the same number");
    none(Fault::history, "the histories of shared keys are linearizable");
    tap::ok(shared.hits > 0 && shared.hits < shared.gets, "some gets hit and some missed");
    tap::ok(checked.histories > 0 && checked.undecided * 20 <= checked.histories,
            "the histories were decided");
    return tap::done();
}

bool reads_as(std::string value, uint32_t key, const char* wrong) {
    return read_chain(value, key).wrong.find(wrong) != std::string::npos;
}

void test_values() {
    std::string one;
    append_record(one, {0, 7, 3, 10, 0, 0, 1000, 0});
    std::string two = one;
    append_record(two, {0, 7, 3, 11, 10, 0, 0, 0});
    tap::ok(read_chain(two, 7).wrong.empty() && broken_link(read_chain(two, 7)).empty(),
            "a chain of two reads back");
    tap::ok(read_chain(two, 7).newest() == 11, "its newest is the second");
    tap::ok(reads_as(two, 8, "record of key"), "a value of another key is seen");
    int unseen = 0;
    for (size_t i = 0; i < two.size(); i++) {
        std::string bad = two;
        bad[i] = char(bad[i] ^ 0x40);
        if (read_chain(bad, 7).wrong.empty()) unseen++;
    }
    tap::ok(unseen == 0, "each changed byte is seen");
    for (size_t n = 1; n < two.size(); n++) {
        if (n != one.size() && read_chain(two.substr(0, n), 7).wrong.empty()) unseen++;
    }
    tap::ok(unseen == 0, "each cut is seen");
    std::string mixture = one, other;
    append_record(other, {0, 7, 3, 12, 0, 0, 1000, 0});
    mixture.replace(500, 64, other.substr(500, 64));
    tap::ok(reads_as(mixture, 7, "torn body"), "a line of a newer value in an older one is seen");
    std::string lost = one;
    append_record(lost, {0, 7, 3, 12, 11, 0, 5, 0});
    tap::ok(!broken_link(read_chain(lost, 7)).empty(), "a lost append is seen");
}

Verdict judge(std::vector<Operation> history) {
    std::set<uint64_t> observed;  // the histories below name a record's identity by what a get returned
    for (const Operation& get : history) {
        for (const Operation& op : history) {
            const bool whole = get.expected == mix(0, op.record), added = get.expected == mix(mix(0, 1), op.record);
            if (get.kind == Kind::get && (whole || added)) observed.insert(op.record);
        }
    }
    condense(history, observed);
    return Linearizer(history).run(tries_max);
}

void test_histories() {
    const uint64_t a = mix(0, 1), b = mix(0, 2);
    const Outcome done = Outcome::done, refused = Outcome::refused, absent = Outcome::absent;
    const Verdict yes = Verdict::linearizable, no = Verdict::not_linearizable;
    const auto is = [](const char* name, Verdict want, std::vector<Operation> history) {
        tap::ok(judge(std::move(history)) == want, name);
    };
    is("an empty history", yes, {});
    is("set, get", yes, {{Kind::set, done, 1, 0, 1, 2}, {Kind::get, done, 0, a, 3, 4}});
    is("set, forgotten, get", yes,
       {{Kind::set, done, 1, 0, 1, 2}, {Kind::get, absent, 0, 0, 3, 4}});
    is("a value that was never set", no,
       {{Kind::set, done, 1, 0, 1, 2}, {Kind::get, done, 0, b, 3, 4}});
    is("an old value after a new one", no,
       {{Kind::set, done, 1, 0, 1, 2},
        {Kind::set, done, 2, 0, 3, 4},
        {Kind::get, done, 0, a, 5, 6}});
    is("an old value while the new one is stored", yes,
       {{Kind::set, done, 1, 0, 1, 2},
        {Kind::set, done, 2, 0, 3, 8},
        {Kind::get, done, 0, a, 4, 6}});
    is("two readers that disagree on the order", no,
       {{Kind::set, done, 1, 0, 1, 2},
        {Kind::set, done, 2, 0, 3, 20},
        {Kind::get, done, 0, b, 4, 5},
        {Kind::get, done, 0, a, 6, 7}});
    is("back after it was absent", no,
       {{Kind::set, done, 1, 0, 1, 2},
        {Kind::get, absent, 0, 0, 3, 4},
        {Kind::get, done, 0, a, 5, 6}});
    is("back after a delete", no,
       {{Kind::set, done, 1, 0, 1, 2},
        {Kind::remove, done, 0, 0, 3, 4},
        {Kind::get, done, 0, a, 5, 6}});
    is("back after a flush", no,
       {{Kind::set, done, 1, 0, 1, 2},
        {Kind::flush, done, 0, 0, 3, 4},
        {Kind::get, done, 0, a, 5, 6}});
    is("deleted twice", no,
       {{Kind::set, done, 1, 0, 1, 2},
        {Kind::remove, done, 0, 0, 3, 6},
        {Kind::remove, done, 0, 0, 4, 7}});
    is("two cas with one unique", no,
       {{Kind::set, done, 1, 0, 1, 2},
        {Kind::cas, done, 2, a, 3, 6},
        {Kind::cas, done, 3, a, 4, 7}});
    is("one of two cas", yes,
       {{Kind::set, done, 1, 0, 1, 2},
        {Kind::cas, done, 2, a, 3, 6},
        {Kind::cas, refused, 3, a, 4, 7}});
    is("cas refused for nothing", no,
       {{Kind::set, done, 1, 0, 1, 2}, {Kind::cas, refused, 2, a, 3, 4}});
    is("add refused where nothing is", no,
       {{Kind::set, done, 1, 0, 1, 2},
        {Kind::remove, done, 0, 0, 3, 4},
        {Kind::add, refused, 2, 0, 5, 6}});
    is("append, seen whole", yes,
       {{Kind::set, done, 1, 0, 1, 2},
        {Kind::append, done, 2, 0, 3, 4},
        {Kind::get, done, 0, mix(a, 2), 5, 6}});
    is("append lost", no,
       {{Kind::set, done, 1, 0, 1, 2},
        {Kind::append, done, 2, 0, 3, 4},
        {Kind::get, done, 0, a, 5, 6}});
}

// Operations that a node may have carried out without an answer.
void test_unknown() {
    const uint64_t a = mix(0, 1), b = mix(0, 2), never = UINT64_MAX;
    const Outcome done = Outcome::done, refused = Outcome::refused, unknown = Outcome::unknown;
    const Verdict yes = Verdict::linearizable, no = Verdict::not_linearizable;
    const auto is = [](const char* name, Verdict want, std::vector<Operation> history) {
        tap::ok(judge(std::move(history)) == want, name);
    };
    const Operation set_a{Kind::set, done, 1, 0, 1, 2}, set_b{Kind::set, unknown, 2, 0, 3, never};
    is("an unknown set that never happened", yes, {set_a, set_b, {Kind::get, done, 0, a, 5, 6}});
    is("one that did", yes, {set_a, set_b, {Kind::get, done, 0, b, 5, 6}});
    is("one that happened later", yes,
       {set_a, set_b, {Kind::get, done, 0, a, 5, 6}, {Kind::get, done, 0, b, 7, 8}});
    is("one after what was acknowledged since", yes,
       {set_a, set_b, {Kind::set, done, 3, 0, 5, 6}, {Kind::get, done, 0, b, 7, 8}});
    is("but one only once", no,
       {set_a, set_b, {Kind::get, done, 0, b, 5, 6}, {Kind::set, done, 3, 0, 7, 8}, {Kind::get, done, 0, b, 9, 10}});
    is("and not before it was sent", no, {{Kind::get, done, 0, b, 1, 2}, {Kind::set, unknown, 2, 0, 3, never}});
    is("nor does it bring back what it replaced", no,
       {set_a, set_b, {Kind::get, done, 0, b, 5, 6}, {Kind::get, done, 0, a, 7, 8}});
    is("an unknown append, seen", yes,
       {set_a, {Kind::append, unknown, 2, 0, 3, never}, {Kind::get, done, 0, mix(a, 2), 5, 6}});
    is("an unseen operation can have refused a cas", yes,
       {set_a, set_b, {Kind::cas, refused, 3, a, 5, 6}, {Kind::cas, refused, 4, a, 7, 8}});
    is("but not before it was sent", no,
       {set_a, {Kind::cas, refused, 3, a, 3, 4}, {Kind::set, unknown, 2, 0, 5, never}});
    is("and not what a get returned since", no,
       {set_a, {Kind::set, unknown, 2, 0, 3, never}, {Kind::cas, refused, 4, a, 5, 6}, {Kind::get, done, 0, a, 7, 8}});
    std::vector<Operation> many{set_a};
    for (uint64_t i = 0; i < 60; i++) many.push_back({Kind::set, unknown, 10 + i, 0, 3 + i, never});
    many.push_back({Kind::get, done, 0, a, 100, 101});
    is("sixty unseen operations are decided", yes, many);
    many.push_back({Kind::get, done, 0, b, 102, 103});
    is("also where the answer is no", no, many);
}

int run_self() {
    test_values();
    test_histories();
    test_unknown();
    return tap::done();
}

bool parse(int argc, char** argv, Options& options) {
    const auto number_of = [](const char* text, auto& out) {
        const char* end = text + std::strlen(text);
        const auto [at, error] = std::from_chars(text, end, out);
        return error == std::errc() && at == end;
    };
    const auto flag_of = [&](const char* text, bool& out) {
        unsigned n = 0;
        if (!number_of(text, n) || n > 1) return false;
        out = n == 1;
        return true;
    };
    const auto paths_of = [](std::string_view left, std::vector<std::string>& out) {
        while (!left.empty()) {
            out.emplace_back(left.substr(0, left.find(',')));
            left.remove_prefix(std::min(out.back().size() + 1, left.size()));
        }
        return !out.empty();
    };
    if (argc < 2) return false;
    for (std::string_view left = argv[1]; !left.empty();) {
        const std::string word(left.substr(0, left.find(',')));
        left.remove_prefix(std::min(word.size() + 1, left.size()));
        if (!number_of(word.c_str(), options.ports.emplace_back())) return false;
    }
    if (options.ports.empty()) return false;
    for (int i = 2; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        const bool good = name == "--seed"      ? number_of(argv[i + 1], options.seed)
                          : name == "--seconds" ? number_of(argv[i + 1], options.seconds)
                          : name == "--threads" ? number_of(argv[i + 1], options.threads)
                          : name == "--keys"    ? number_of(argv[i + 1], options.keys)
                          : name == "--ttl-keys" ? number_of(argv[i + 1], options.ttl_keys)
                          : name == "--round"   ? number_of(argv[i + 1], options.round)
                          : name == "--reads"   ? number_of(argv[i + 1], options.reads)
                          : name == "--rest"    ? number_of(argv[i + 1], options.rest)
                          : name == "--mutations" ? number_of(argv[i + 1], options.mutations_min)
                          : name == "--operations" ? number_of(argv[i + 1], options.operations_min)
                          : name == "--mix"        ? (options.mix = mix_of(argv[i + 1])) != nullptr
                          : name == "--outages"    ? flag_of(argv[i + 1], options.outages)
                          : name == "--failover"   ? flag_of(argv[i + 1], options.failover)
                          : name == "--disk"       ? flag_of(argv[i + 1], options.disk)
                          : name == "--admin"      ? paths_of(argv[i + 1], options.admins)
                          : name == "--value-bytes"
                              ? number_of(argv[i + 1], options.value_bytes_max)
                              : false;
        if (!good) return false;
    }
    return argc % 2 == 0 && options.threads > 0 && options.ttl_keys > 0 && options.keys >= 4 * options.threads;
}

}  // namespace
}  // namespace consistency

int main(int argc, char** argv) {
    if (argc == 2 && std::string(argv[1]) == "--self") return consistency::run_self();
    consistency::Options options;
    if (!consistency::parse(argc, argv, options)) {
        std::fprintf(stderr,
                     "usage: consistency PORT[,PORT...] [--seed N] [--seconds N] [--threads N] [--keys N] "
                     "[--value-bytes N] [--ttl-keys N] [--reads N] [--round N] [--rest N] [--mutations N] "
                     "[--operations N] [--admin PATH[,PATH]] [--mix NAME] [--outages 1] "
                     "[--failover 1] [--disk 1] | --self\n");
        return 64;
    }
    return consistency::run(options);
}
