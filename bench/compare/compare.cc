// SPDX-License-Identifier: BSD-3-Clause
// farbench compare: parses its options and runs the Python program that implements them (bench/compare/compare.py).
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "bench/command.h"

namespace farcached::bench {

namespace {

// Given or default values, checked, by option. Flags are "yes".
using C = std::map<std::string, std::string>;
using S = const std::string;

template <class Number>
const char* number(C& c, const char* name, S& text, Number low, Number high) {
    Number n{};
    if (const char* wrong = to_number<Number>(text, low, high, n)) return wrong;
    c[name] = text;
    return nullptr;
}

const char* word(C& c, const char* name, S& text) {
    c[name] = text;
    return nullptr;
}

const char* one_of(C& c, const char* name, S& text, std::initializer_list<std::string_view> words, const char* wrong) {
    const bool known = each_part(text, [&](std::string_view part) {
        return std::find(words.begin(), words.end(), part) == words.end() ? wrong : nullptr;
    }) == nullptr;
    return known ? word(c, name, text) : wrong;
}

const OptionOf<C> table[] = {
    {{"contestant", "TEXT,...", nullptr, "only contestants whose name contains one of these"},
     [](C& c, S& t) { return word(c, "contestant", t); }},
    {{"workload", "TEXT;...", nullptr, "only workloads whose name contains one of these"},
     [](C& c, S& t) { return word(c, "workload", t); }},
    {{"parts", "P,...", "direct,proxied,memory,idle,exhaustion,workers,verbs",
      "direct: servers by themselves; proxied: in front of two servers; memory: of an item; idle: with idle connections; "
      "exhaustion: with clients that hold memory; workers: one worker to several; verbs: over RDMA between two virtual "
      "machines, where contrib/vm can boot them. Not by default: tiers: look-aside caches of 1, 2 and 8 times as much data as "
      "memory, with and without a file for evicted values (ext_path), in $TMPDIR; tls: handshakes and GETs over TLS"},
     [](C& c, S& t) {
         return one_of(c, "parts", t, {"direct", "proxied", "memory", "idle", "exhaustion", "workers", "verbs", "tiers", "tls"},
                       "has a word other than direct, proxied, memory, idle, exhaustion, workers, verbs, tiers, tls");
     }},
    {{"generator", "G,...", "farbench,memtier,crusher",
      "load generators, if installed: farbench, memtier (memtier_benchmark) or crusher (mc-crusher). A failure of one "
      "affects only its own rows, and the exit status is 1"},
     [](C& c, S& t) {
         return one_of(c, "generator", t, {"farbench", "memtier", "crusher"},
                       "has a word other than farbench, memtier, crusher");
     }},
    {{"rounds", "N", "5", "measurements of each"},
     [](C& c, S& t) { return number<uint32_t>(c, "rounds", t, 1, 1000); }},
    {{"seconds", "S", "3", "duration of each measurement"}, [](C& c, S& t) { return number<double>(c, "seconds", t, 0.1, 3600); }},
    {{"warmup", "S", "0.5", "load before each measurement"}, [](C& c, S& t) { return number<double>(c, "warmup", t, 0, 3600); }},
    {{"quick", nullptr, nullptr, "one short round with little data, as a test: its numbers are meaningless"},
     [](C& c, S&) { return word(c, "quick", "yes"); }},
    {{"threads", "N", "2", "CPUs of each front server and of the client"},
     [](C& c, S& t) { return number<uint32_t>(c, "threads", t, 1, 64); }},
    {{"back-threads", "N", "1", "CPUs of each server behind a proxy"},
     [](C& c, S& t) { return number<uint32_t>(c, "back-threads", t, 1, 64); }},
    {{"connections", "N", "100", "of the client"},
     [](C& c, S& t) { return number<uint32_t>(c, "connections", t, 1, 10'000); }},
    {{"idle", "N", "10000", "idle connections; memory is measured at 1000 of them, too"},
     [](C& c, S& t) { return number<uint32_t>(c, "idle", t, 1, 50'000); }},
    {{"keys", "N", "500000", "values of 64 bytes; a fifth as many of 1 KiB"},
     [](C& c, S& t) { return number<uint32_t>(c, "keys", t, 100, 100'000'000); }},
    {{"megabytes", "N", nullptr, "-m of all servers; default: 512, and 64 in the part tiers"},
     [](C& c, S& t) { return number<uint32_t>(c, "megabytes", t, 16, 1'000'000); }},
    {{"tier-rate", "N", "4000", "requests per second of the part tiers"},
     [](C& c, S& t) { return number<uint32_t>(c, "tier-rate", t, 1, 10'000'000); }},
    {{"protocol", "P", "text", "protocol of farbench's load: text, meta or binary"},
     [](C& c, S& t) { return one_of(c, "protocol", t, {"text", "meta", "binary"}, "is not one of text, meta, binary"); }},
    {{"self", nullptr, nullptr, "add a second farcached, \"farcached again\": its difference from the first is noise"},
     [](C& c, S&) { return word(c, "self", "yes"); }},
    {{"old", "FOLDER", nullptr, "add the farcached and the farnode of this folder, another build: ratios of this build to it"},
     [](C& c, S& t) { return word(c, "old", t); }},
    {{"farcached", "PATH", nullptr, "default: in farbench's folder, else on PATH"},
     [](C& c, S& t) { return word(c, "farcached", t); }},
    {{"farnode", "PATH", nullptr, "likewise"}, [](C& c, S& t) { return word(c, "farnode", t); }},
    {{"memcached", "PATH", "memcached", "its built-in proxy is included if available"},
     [](C& c, S& t) { return word(c, "memcached", t); }},
    {{"nutcracker", "PATH", "nutcracker", "included if available"}, [](C& c, S& t) { return word(c, "nutcracker", t); }},
    {{"mcrouter", "PATH", "mcrouter", "included if available"}, [](C& c, S& t) { return word(c, "mcrouter", t); }},
    {{"aims", nullptr, nullptr, "also print the aims of farcached beside its peers, and which of them are met"},
     [](C& c, S&) { return word(c, "aims", "yes"); }},
    {{"json", "FILE", nullptr, "write a JSON list with an object for each contestant and workload"},
     [](C& c, S& t) { return word(c, "json", t); }},
    {{"csv", "FILE", nullptr, "write CSV with a line for each contestant, workload and round"},
     [](C& c, S& t) { return word(c, "csv", t); }},
    {{"svg", "FILE", nullptr, "draw the ratios"}, [](C& c, S& t) { return word(c, "svg", t); }},
    {{"charts", "FOLDER", nullptr, "folder for SVG charts of the CPU time of each workload"},
     [](C& c, S& t) { return word(c, "charts", t); }},
};

// Does not return if the Python program starts.
int run(std::span<char* const> arguments) {
    C options;
    const std::string wrong = read_options<C>(table, arguments, options);
    if (!wrong.empty()) return refuse_arguments("compare", wrong);
    std::error_code none;
    options["farbench"] = std::filesystem::read_symlink("/proc/self/exe", none).string();
    const std::string script = find_script("compare", "compare.py");
    if (script.empty()) {
        std::fprintf(stderr,
                     "farbench compare: no compare.py in ../share/farcached or bench/compare/ next to %s: install it\n",
                     options["farbench"].c_str());
        return exit_failed;
    }
    using Json = nlohmann::json;
    const std::string settings = Json(options).dump(-1, ' ', false, Json::error_handler_t::replace);
    execlp("python3", "python3", script.c_str(), settings.c_str(), static_cast<char*>(nullptr));
    std::fprintf(stderr, "farbench compare: cannot run python3: %s\n", std::strerror(errno));
    return exit_failed;
}

}  // namespace

Command compare_command() {
    return {"compare", "",
            "farcached and its peers under the same load, one after the other in rounds: throughput, latency, server CPU of\n"
            "front and back, memory. Installed peers are included. Needs python3.",
            {std::begin(table), std::end(table)}, run};
}

}  // namespace farcached::bench
