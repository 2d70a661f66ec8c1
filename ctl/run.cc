// SPDX-License-Identifier: BSD-3-Clause
// farctl, from its command line to its exit status: each command queries daemons and prints text or JSON; without a command, a
// console reads them from a terminal.
// Failures go to stderr and make the exit status 1. Available results are printed all the same.
// Owner: main; one thread.
#include "ctl/run.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "conf/program.h"
#include "ctl/arguments.h"
#include "ctl/command_line.h"
#include "ctl/console.h"
#include "ctl/doctor.h"
#include "ctl/format.h"
#include "ctl/members.h"
#include "ctl/plan.h"
#include "ctl/prefix.h"
#include "ctl/queue_pairs.h"
#include "ctl/server.h"
#include "ctl/show.h"
#include "ctl/slow_log.h"
#include "ctl/survey.h"
#include "ctl/terminal.h"
#include "ctl/top.h"
#include "ctl/wait.h"

namespace farcached::ctl {

namespace {

constexpr int exit_failed = 1;

using Servers = std::vector<Server>;

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

int complain(const std::vector<Failure>& failures) {
    for (const Failure& failure : failures) std::fprintf(stderr, "farctl: %s\n", printable(failure.text).c_str());
    return failures.empty() ? conf::exit_ok : exit_failed;
}

// The value; or none, and the failure is kept.
template <class Value>
std::optional<Value> keep(Or<Value> result, std::vector<Failure>& failures) {
    if (auto* failure = std::get_if<Failure>(&result)) {
        failures.push_back(std::move(*failure));
        return {};
    }
    return std::move(std::get<Value>(result));
}

// The answers of the daemons that a command asks.
struct Output {
    std::vector<Failure> failures;
    Json answers = Json::array();
    std::string text;

    // A text of several lines, under the server's path.
    void add(const Server& server, const std::string& lines) {
        text += (text.empty() ? "" : "\n") + printable(server.path()) + "\n" + lines;
    }
    int finish(const Options& options) const {
        print(options.json ? dump(answers, false) : text);
        return complain(failures);
    }
};

// Colours are for a terminal, unless the user does not want them (https://no-color.org).
Look look_of(const Options& options) {
    const char *refused = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
    const bool is_refused = refused != nullptr && *refused != '\0';
    const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
    return {isatty(STDOUT_FILENO) != 0 && !is_refused && !is_dumb, options.wide};
}

// -- Commands ---------------------------------------------------------------------------------------------

int run_status(Servers& servers, const Options& options) {
    const Survey survey = take_survey(servers);
    const std::vector<std::string> warnings = queue_pair_warnings(survey, read_machine("").devices);
    print(options.json ? dump(json_of(survey), false) : status_text(survey, look_of(options), warnings));
    return complain(survey.failures);
}

int run_members(Servers& servers, const Options& options) {
    std::vector<Failure> failures;
    const Members members = take_members(servers, failures);
    if (members.nodes.empty() && failures.empty()) failures.push_back({"no nodes are configured, so there are no members"});
    print(options.json ? dump(json_of(members, failures), false) : members_text(members, std::time(nullptr), look_of(options)));
    return complain(failures);
}

// The groups of a daemon, or of a node: "a, b, c". Empty: it does not tell.
std::string groups_text(const Or<Stats>& groups) {
    std::string names;
    if (const auto* found = std::get_if<Stats>(&groups))
        for (const auto& [name, help] : *found) names += (names.empty() ? "" : ", ") + name;
    return names;
}

// A daemon knows the word of a group or not: clients of memcached get no more than ERROR.
std::optional<Stats> stats_of_daemon(Server& server, const std::string& group, std::vector<Failure>& failures) {
    if (!keep(server.kind(), failures)) return {};
    Or<Stats> stats = server.stats(group);
    const Failure* failure = std::get_if<Failure>(&stats);
    if (failure == nullptr || !failure->refused) return keep(std::move(stats), failures);
    const Or<Stats> groups = server.stats("groups");
    const auto* known = std::get_if<Stats>(&groups);
    if (known == nullptr || known->find(group) != nullptr) return keep(std::move(stats), failures);
    failures.push_back({server.path() + ": no group of this name; groups: " + groups_text(groups), true});
    return {};
}

int run_stats(Servers& servers, const Options& options) {
    const std::string node = options.words.empty() ? "-" : options.words[0];
    const std::string group = options.words.size() > 1 ? options.words[1] : "";
    Output out;
    if (node != "-") {
        if (const auto stats = keep(stats_of_node(servers, node, group), out.failures)) {
            out.answers.push_back({{"node", node}, {"group", group}, {"stats", json_of(*stats)}});
            out.text = stats_text(*stats);
            if (group.empty()) out.text += groups_line(node, groups_text(stats_of_node(servers, node, "groups")));
        }
        return out.finish(options);
    }
    for (Server& server : servers) {
        const auto stats = stats_of_daemon(server, group, out.failures);
        if (!stats) continue;
        out.answers.push_back({{"socket", server.path()}, {"group", group}, {"stats", json_of(*stats)}});
        std::string text = stats_text(*stats);
        if (group.empty()) text += groups_line(node, groups_text(server.stats("groups")));
        if (servers.size() > 1)
            out.add(server, text);
        else
            out.text = text;
    }
    return out.finish(options);
}

// The proxies among the servers; a failure if there are none.
std::vector<Server*> proxies_of(Servers& servers, const std::string& why, std::vector<Failure>& failures) {
    std::vector<Server*> proxies;
    for (Server& server : servers) {
        const auto kind = keep(server.kind(), failures);
        if (kind && *kind == Server::Kind::farcached) proxies.push_back(&server);
    }
    if (proxies.empty() && failures.empty()) failures.push_back({why + "; name one's socket with --socket"});
    return proxies;
}

int run_hotkeys(Servers& servers, const Options& options) {
    const bool reset = !options.words.empty();
    Output out;
    for (Server* server : proxies_of(servers, "hot keys are counted by farcached", out.failures)) {
        if (reset) {
            const auto failure = server->order("stats hotkeys " + options.words[0]);
            if (failure) out.failures.push_back(*failure);
            if (!failure) out.answers.push_back({{"socket", server->path()}, {"reset", true}});
            continue;
        }
        const auto stats = keep(server->stats("hotkeys"), out.failures);
        if (!stats) continue;
        const HotKeysFacts facts = hot_keys_of(*stats);
        out.answers.push_back({{"socket", server->path()}, {"one_in", facts.one_in}, {"keys", json_of(facts)}});
        out.add(*server, hot_keys_text(facts, look_of(options)));
    }
    return out.finish(options);
}

int run_plan(Servers& servers, const Options& options) {
    Output out;
    const auto plan = keep(plan_of_file(options.plan), out.failures);
    if (!plan) return complain(out.failures);
    for (Server* server : proxies_of(servers, "keys are routed by farcached", out.failures)) {
        const auto result = keep(make_plan(*server, *plan), out.failures);
        if (!result) continue;
        for (const std::string& node : result->silent)
            out.failures.push_back({server->path() + ": node " + node +
                                    " is unavailable, or too old to name its keys; they are left out"});
        Json& one = out.answers.emplace_back(Json{{"socket", server->path()}});
        one.update(json_of(*result));
        out.add(*server, plan_text(*result, look_of(options)));
    }
    return out.finish(options);
}

int run_route(Servers& servers, const Options& options) {
    if (!options.plan.empty()) return run_plan(servers, options);
    Output out;
    for (Server* server : proxies_of(servers, "keys are routed by farcached", out.failures)) {
        const auto stats = keep(server->stats("route " + options.words[0]), out.failures);
        if (!stats) continue;
        out.answers.push_back({{"socket", server->path()}, {"stats", json_of(*stats)}});
        out.add(*server, stats_text(*stats));
    }
    return out.finish(options);
}

int run_slowlog(Servers& servers, const Options& options) {
    constexpr size_t shown_by_default = 32;
    std::optional<uint64_t> most = shown_by_default;
    if (!options.words.empty()) most = parse_number(options.words[0]);
    if (!most || *most == 0) return complain({{"slowlog: '" + options.words[0] + "' is not a number from 1"}});
    Output out;
    for (Server* server : proxies_of(servers, "slow requests are listed by farcached", out.failures)) {
        const auto stats = keep(server->stats("slow_log"), out.failures);
        if (!stats) continue;
        const std::vector<SlowRequest> requests = slow_requests_of(*stats, size_t(*most));
        out.answers.push_back({{"socket", server->path()}, {"requests", json_of(requests)}});
        out.add(*server, slow_log_text(requests, look_of(options)));
    }
    return out.finish(options);
}

int run_doctor(Servers& servers, const Options& options) {
    const char* standard = std::getenv("FARCTL_SOCKET");
    const bool is_named = (standard != nullptr && *standard != '\0') || servers.size() != 1 ||
                          servers[0].path() != socket_by_default;
    const Case facts = consult(servers, is_named);
    if (is_interrupted()) return complain(facts.failures);
    const std::vector<Finding> findings = findings_of(facts);
    print(options.json ? dump(json_of(findings), false) : doctor_text(findings, look_of(options)));
    return is_any_wrong(findings) ? exit_failed : conf::exit_ok;
}

int run_pointers(Servers& servers, const Options& options) {
    Output out;
    for (Server* server : proxies_of(servers, "only farcached has a pointer table", out.failures)) {
        const auto table = keep(server->stats("pointers"), out.failures);
        if (!table) continue;
        const auto proxy = keep(server->stats("proxy"), out.failures);
        if (!proxy) continue;
        Stats used;
        for (const auto& [name, value] : *proxy)
            if (name.starts_with("pointer_")) used.add(name, value);
        out.answers.push_back({{"socket", server->path()}, {"table", json_of(*table)}, {"used", json_of(used)}});
        out.add(*server, pointers_text(*table, *proxy));
    }
    return out.finish(options);
}

int run_leases(Servers& servers, const Options& options) {
    Survey survey = take_survey(servers);
    std::vector<LeaseFacts> nodes;
    Json rows = Json::array();
    for (const NodeFacts& node : survey.nodes) {
        if (node.name == embedded_name || node.stats.empty()) continue;
        const auto stats = keep(stats_of_node(servers, node.name, "leases"), survey.failures);
        if (!stats) continue;
        rows.push_back({{"node", node.name}, {"stats", json_of(*stats)}});
        nodes.push_back({node.name, *stats});
    }
    if (nodes.empty() && survey.failures.empty())
        survey.failures.push_back({"no nodes are configured, so there are no leases"});
    print(options.json ? dump(rows, false) : leases_text(nodes, look_of(options)));
    return complain(survey.failures);
}

int run_drain(Servers& servers, const Options& options) {
    const bool on = options.command == Command::drain;
    const std::string& node = options.words[0];
    Output out;
    for (Server* server : proxies_of(servers, "nodes are drained by farcached", out.failures)) {
        if (auto failure = server->order((on ? "drain " : "undrain ") + node)) {
            out.failures.push_back(std::move(*failure));
            continue;
        }
        out.answers.push_back({{"socket", server->path()}, {"node", node}, {"drained", on}});
        out.text += printable(server->path() + ": " + node + (on ? " is drained" : " is undrained")) + "\n";
    }
    return out.finish(options);
}

int run_delete_prefix(Servers& servers, const Options& options) {
    const std::string& prefix = options.words[0];
    const bool is_count = options.dry_run;
    Output out;
    for (Server* server : proxies_of(servers, "keys are deleted by farcached, in all of its nodes", out.failures)) {
        const PrefixResult result = is_count ? count_prefix(*server, prefix, options.timeout_ms)
                                             : delete_prefix(*server, prefix, options.timeout_ms);
        if (result.failure) out.failures.push_back(*result.failure);
        if (result.nodes_done == 0 && result.failure) continue;
        out.answers.push_back({{"socket", server->path()}, {"prefix", prefix}, {"deleted", !is_count && !result.failure},
                               {"items", json_of(result.items)}, {"nodes", result.nodes}, {"nodes_done", result.nodes_done}});
        out.text += printable(server->path() + ": " + prefix_text(result, prefix, is_count)) + "\n";
    }
    return out.finish(options);
}

// The number of reloads attempted; none: the failure is kept.
std::optional<uint64_t> reloads_of(Server& server, Stats& stats, std::vector<Failure>& failures) {
    auto answer = keep(server.stats("config"), failures);
    if (!answer) return {};
    stats = std::move(*answer);
    return stats.number("config_reloads").value_or(0) + stats.number("config_reload_failures").value_or(0);
}

// The daemon reloads in the background; its counters show the completion.
bool reload_one(Server& server, uint32_t timeout_ms, Stats& stats, std::vector<Failure>& failures) {
    const auto before = reloads_of(server, stats, failures);
    if (!before) return false;
    if (auto failure = server.order("reload")) {
        failures.push_back(std::move(*failure));
        return false;
    }
    constexpr uint32_t look_every_ms = 20;
    for (uint32_t spent_ms = 0; spent_ms < timeout_ms; spent_ms += look_every_ms) {
        const auto now = reloads_of(server, stats, failures);
        if (!now) return false;
        if (*now != *before) return true;
        if (wait_ms(look_every_ms) == Waited::interrupted) break;
    }
    failures.push_back({server.path() + ": the reload is still running; `farctl stats - config` shows its result"});
    return false;
}

int run_reload(Servers& servers, const Options& options) {
    Output out;
    for (Server& server : servers) {
        if (!keep(server.kind(), out.failures)) continue;
        Stats stats;
        if (!reload_one(server, options.timeout_ms, stats, out.failures)) continue;
        out.answers.push_back({{"socket", server.path()}, {"stats", json_of(stats)}});
        const std::string result = stats.text("config_last_result");
        if (result != "ok") {
            const std::string what = result == "partly" ? ": applied in part: " : ": refused, nothing changed: ";
            out.failures.push_back({server.path() + what + stats.text("config_last_error")});
        }
        if (result != "ok" && result != "partly") continue;
        const std::string changed = stats.text("config_changed"), waiting = stats.text("config_needs_restart");
        const std::string what =
            changed.empty() ? "no option changed; files that options name were read again" : "changed " + changed;
        const std::string rest = waiting.empty() ? "" : "; needs a restart: " + waiting;
        out.text += printable(server.path() + ": " + what + rest) + "\n";
    }
    return out.finish(options);
}

// -- top --------------------------------------------------------------------------------------------------

std::string clock_text() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    localtime_r(&now, &parts);
    char text[32];
    return std::string(text, std::strftime(text, sizeof text, "%H:%M:%S", &parts));
}

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The last two surveys and the time between them.
struct Looks {
    Servers& servers;
    Survey now{}, before{};
    double taken_s = 0, seconds = 0;
    bool has_before = false;

    void look() {
        before = std::move(now);
        now = take_survey(servers);
        const double at_s = now_s();
        has_before = taken_s != 0;
        seconds = at_s - taken_s;
        taken_s = at_s;
    }
    const Survey* earlier() const { return has_before ? &before : nullptr; }
};

void show_plain(const Looks& looks, bool json) {
    const TopView view;
    const std::string time = clock_text();
    if (json) return print(dump(top_json(looks.now, looks.earlier(), looks.seconds, view, time), true));
    for (const std::string& line : top_lines(looks.now, looks.earlier(), looks.seconds, view, time)) print(line + "\n");
}

void show_live(Looks& looks, uint32_t interval_ms) {
    Terminal terminal;
    TopView view;
    constexpr size_t head_line = 3;
    for (;; looks.look()) {
        const double next_s = looks.taken_s + interval_ms / 1000.0;
        for (;;) {
            terminal.draw(top_lines(looks.now, looks.earlier(), looks.seconds, view, clock_text()), head_line);
            const double left_s = next_s - now_s();
            if (left_s <= 0) break;
            const std::optional<char> key = terminal.wait_for_key(uint32_t(left_s * 1000) + 1);
            if (is_interrupted()) return;
            if (!key) continue;
            if (press(*key, view) == TopKey::quit) return;
        }
    }
}

int run_top(Servers& servers, const Options& options) {
    Looks looks{servers};
    if (options.once) {
        looks.look();
        show_plain(looks, options.json);
        return complain(looks.now.failures);
    }
    if (options.json) {
        for (;;) {
            looks.look();
            if (is_interrupted()) return conf::exit_ok;
            show_plain(looks, true);
            if (std::fflush(stdout) != 0) return exit_failed;
            if (wait_ms(options.interval_ms) == Waited::interrupted) return conf::exit_ok;
        }
    }
    if (isatty(STDOUT_FILENO) == 0)
        return complain({{"top needs a terminal; --once prints one screen, --json a line per interval"}});
    // If no daemon answers, print the failures instead of a screen.
    looks.look();
    if (looks.now.nodes.empty() && looks.now.proxies.empty()) return complain(looks.now.failures);
    show_live(looks, options.interval_ms);
    return conf::exit_ok;
}

int run_command(const Options& options, Servers& servers) {
    switch (options.command) {
        case Command::status: return run_status(servers, options);
        case Command::members: return run_members(servers, options);
        case Command::top: return run_top(servers, options);
        case Command::stats: return run_stats(servers, options);
        case Command::route: return run_route(servers, options);
        case Command::hotkeys: return run_hotkeys(servers, options);
        case Command::slowlog: return run_slowlog(servers, options);
        case Command::pointers: return run_pointers(servers, options);
        case Command::leases: return run_leases(servers, options);
        case Command::doctor: return run_doctor(servers, options);
        case Command::reload: return run_reload(servers, options);
        case Command::delete_prefix: return run_delete_prefix(servers, options);
        case Command::help:  // answered by the parser
        case Command::drain:
        case Command::undrain: break;
    }
    return run_drain(servers, options);
}

Servers servers_of(const Options& options) {
    Servers servers;
    for (const std::string& path : options.sockets) servers.emplace_back(path, options.timeout_ms);
    return servers;
}

int run(const Options& options) {
    Servers servers = servers_of(options);
    return run_command(options, servers);
}

// For completion, which must not keep the user waiting.
std::vector<std::string> following(const CommandLine& line) {
    std::vector<std::string> words;
    if (!line.has_command) {
        for (std::string_view name : command_names()) words.emplace_back(name);
        return words;
    }
    constexpr uint32_t patience_ms = 1000;
    Options options = line.options;
    options.timeout_ms = std::min(options.timeout_ms, patience_ms);
    Servers servers = servers_of(options);
    return arguments_of(servers, options);
}

// -- The console -----------------------------------------------------------------------------------------

std::vector<std::string> following_in_console(const std::vector<std::string>& before, const Options& given) {
    std::vector<std::string> words = before;
    words.emplace_back("--print-arguments");
    const CommandLine line = parse_console_line(words, given);
    std::vector<std::string> found = following(line);
    for (std::string& option : option_names(line.has_command ? std::optional(line.options.command) : std::nullopt))
        found.push_back(std::move(option));
    if (before.empty()) found.insert(found.end(), {"quit", "exit"});
    return found;
}

// The exit status of the last command.
int run_console(const Options& given) {
    print(printable(console_greeting(given)) + "\n");
    ConsoleInterrupts interrupts;
    Console console("farctl> ", history_path(std::getenv("XDG_STATE_HOME"), std::getenv("HOME")),
                    [&](const std::vector<std::string>& before) {
                        interrupts.forget();
                        return following_in_console(before, given);
                    });
    int status = conf::exit_ok;
    while (const std::optional<std::string> text = console.next()) {
        const auto words = words_of_line(*text);
        if (!words) {
            std::fputs("farctl: a quote is open\n", stderr);
            continue;
        }
        if (words->empty()) continue;
        if ((*words)[0] == "quit" || (*words)[0] == "exit") break;
        interrupts.forget();
        const CommandLine line = parse_console_line(*words, given);
        std::fputs(line.err.c_str(), stderr);
        std::fputs(line.out.c_str(), stdout);
        status = line.exit_status ? *line.exit_status : run(line.options);
        std::fflush(stdout);
    }
    return status;
}

int run_line(const CommandLine& line) {
    if (!line.options.print_arguments) return line.has_command ? run(line.options) : run_console(line.options);
    for (const std::string& word : following(line)) std::printf("%s\n", printable(word).c_str());
    return conf::exit_ok;
}

}  // namespace

int run(int argc, char** argv) {
    const bool is_terminal = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
    const auto without = is_terminal && console_is_built() ? WithoutCommand::is_console : WithoutCommand::is_refused;
    const CommandLine line = parse_command_line({argv, size_t(argc)}, std::getenv("FARCTL_SOCKET"), without);
    std::fputs(line.err.c_str(), stderr);
    std::fputs(line.out.c_str(), stdout);
    if (line.exit_status) return *line.exit_status;
    const int status = run_line(line);
    return std::fflush(stdout) != 0 ? exit_failed : status;
}

}  // namespace farcached::ctl
