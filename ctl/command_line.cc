// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/command_line.h"

#include <getopt.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "base/check.h"
#include "base/nearest.h"
#include "conf/help.h"
#include "conf/program.h"
#include "ctl/console.h"

namespace farcached::ctl {

namespace {

struct CommandRow {
    Command command;
    std::string_view name, arguments;
    size_t words_min, words_max;
    std::string_view help;
    std::string_view legend;       // what its output means; "": it explains itself
    Argument takes[2] = {};        // completion of its words
};

constexpr CommandRow commands[] = {
    {Command::status, "status", "", 0, 0,
     "nodes: state, memory, items, hit ratio; proxies: gets by path",
     "STATE is up, down, drained, fenced, or mixed where proxies\n"
     "differ. HITS is the hit ratio since the start. LOCAL, ONE-SIDED,\n"
     "INDEX and TWO-SIDED are the shares of gets that the proxy\n"
     "answered from mapped memory, by a remote pointer, by the node's\n"
     "index, and by a request to the node."},
    {Command::members, "members", "", 0, 0,
     "the fleet: nodes and the proxies that are connected to them,\n"
     "since when, and the epochs of their lists of nodes",
     "SINCE is the start of a node, and the first connection of a\n"
     "proxy. EPOCH is a revision of etcd, at which the list was the\n"
     "newest: of a node the highest that it knows of, of a proxy what\n"
     "it named with its requests. behind: it named none as high as\n"
     "the highest: it has an older list, or has sent no request since.\n"
     "FOR CLIENTS are the farcached of `config get cluster`."},
    {Command::top, "top", "", 0, 0,
     "the same per second, live; keys select the column that nodes\n"
     "are sorted by, r reverses, q quits",
     "OF is the memory limit, USED its share in use, LEASED the memory\n"
     "of items under leases. POINTERS DENIED are shares of the replies\n"
     "that could bring a remote pointer, to gets and to stores, by the\n"
     "bound that denied it."},
    {Command::stats, "stats", "[NODE] [GROUP]", 0, 2,
     "statistics of the daemon, of one node, or of one group of\n"
     "either. NODE - is the daemon itself",
     "Without a group, the last line has the groups. farcached(1) and\n"
     "farnode(1) describe each number.",
     {Argument::node_or_self, Argument::group}},
    {Command::route, "route", "KEY", 1, 1,
     "the current route of a key, and the reason: its place on the\n"
     "ring, its node, the next nodes, its remote pointer. With --plan:\n"
     "how many of the keys in use move if the node list changes",
     "KEYS estimates the keys in use of each node that would move to\n"
     "another one, from SAMPLED of its ITEMS."},
    {Command::hotkeys, "hotkeys", "[reset]", 0, 1,
     "most requested keys, by the path on which they are answered;\n"
     "reset: clear the counts",
     "REQUESTS is an estimate, and at most TOO HIGH BY above the truth.\n"
     "Keys whose bound exceeds their estimate are hidden.",
     {Argument::reset}},
    {Command::slowlog, "slowlog", "[N]", 0, 1,
     "slow requests, newest first, at most N (default: 32)",
     "TOOK is the time from receiving the request to writing its reply:\n"
     "QUEUE until it is sent to its node, ANSWER until the node's\n"
     "reply, REPLY until it is written behind earlier replies."},
    {Command::pointers, "pointers", "", 0, 0,
     "pointer table: occupancy, remaining leases and use",
     "The histogram has the pointers whose lease runs, by the time left."},
    {Command::leases, "leases", "", 0, 0,
     "leases of each node: granted, denied by reason, and memory\n"
     "waiting for their ends",
     "TERM is the longest lease. DENIED is the sum of all reasons; YOUNG\n"
     "to SHORT are the most frequent ones. LEASED is memory of items\n"
     "under leases, PENDING of deleted ones whose lease still runs."},
    {Command::doctor, "doctor", "", 0, 0,
     "check this host and the daemons: RDMA devices, limits, memory,\n"
     "kernel settings, leases, versions; exit status 1 if anything\n"
     "is wrong",
     "ok: as it should be; note: it may be intended; WRONG: it costs\n"
     "speed or requests. Each but ok has a remedy. Without a daemon\n"
     "only the host is checked."},
    {Command::drain, "drain", "NODE", 1, 1,
     "stop routing keys to NODE: they are answered like those of a\n"
     "node that is down", "", {Argument::node}},
    {Command::undrain, "undrain", "NODE", 1, 1, "resume routing keys to NODE", "", {Argument::node}},
    {Command::delete_prefix, "delete-prefix", "PREFIX", 1, 1,
     "delete all items whose key begins with PREFIX, in all nodes,\n"
     "before any read that begins after the reply",
     "The number of items is known when the nodes have freed their\n"
     "memory; farctl waits while they make progress within --timeout.\n"
     "Items that had expired are not counted. With replicas=2 each\n"
     "copy is counted as an item."},
    {Command::reload, "reload", "", 0, 0,
     "reload the files of the daemons; reports changes, those that\n"
     "need a restart, or errors", ""},
    {Command::help, "help", "[COMMAND]", 0, 1, "print the help of a command", "", {Argument::command}},
};

const CommandRow* row_named(std::string_view name) {
    for (const CommandRow& row : commands)
        if (row.name == name) return &row;
    return nullptr;
}

const CommandRow& row_of(Command command) {
    for (const CommandRow& row : commands)
        if (row.command == command) return row;
    panic("a command has no row", __FILE__, __LINE__);
}

// Returns nullptr, or a description of valid text.
using Set = const char* (*)(Options& options, const char* text);

struct OptionRow {
    std::string_view name, argument;
    Set set;
    std::string_view help;
    std::optional<Command> only = {};  // the command that it belongs to
    char flag = 0;                     // its short form
};

constexpr const char* seconds_allowed = "a number of seconds from 0.1 to 3600";

const char* set_seconds(uint32_t& milliseconds, const char* text) {
    char* end = nullptr;
    const double seconds = std::strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= 0.1) || !(seconds <= 3600)) return seconds_allowed;
    milliseconds = uint32_t(std::lround(seconds * 1000));
    return nullptr;
}

constexpr OptionRow options_table[] = {
    {"socket", "<path>", [](Options& o, const char* text) -> const char* {
         if (*text == '\0') return "the path of a Unix socket";
         o.sockets.emplace_back(text);
         return nullptr;
     },
     "--admin socket of a farcached or farnode; repeat for\n"
     "several (default: $FARCTL_SOCKET, or else\n"
     "/run/farcached/admin.sock)"},
    {"json", "", [](Options& o, const char*) -> const char* { o.json = true; return nullptr; },
     "print JSON; top: a line for each interval"},
    {"wide", "", [](Options& o, const char*) -> const char* { o.wide = true; return nullptr; },
     "also the incarnations of nodes, and the keys that prove proxies to them", Command::status},
    {"interval", "<seconds>", [](Options& o, const char* text) { return set_seconds(o.interval_ms, text); },
     "interval in seconds, 0.1 to 3600 (default: 2)", Command::top},
    {"once", "", [](Options& o, const char*) -> const char* { o.once = true; return nullptr; },
     "print one screen of averages since the start, and exit", Command::top},
    {"plan", "<file>", [](Options& o, const char* text) -> const char* {
         if (*text == '\0') return "the path of a configuration";
         o.plan = text;
         return nullptr;
     },
     "a configuration of farcached with another node list, in the\n"
     "place of KEY", Command::route},
    {"dry-run", "", [](Options& o, const char*) -> const char* { o.dry_run = true; return nullptr; },
     "count what would be deleted, and delete nothing", Command::delete_prefix},
    {"timeout", "<seconds>", [](Options& o, const char* text) { return set_seconds(o.timeout_ms, text); },
     "timeout of a daemon's reply in seconds, 0.1 to 3600\n"
     "(default: 5)"},
    {"help", "", nullptr, "print this and exit; behind a command, its help", {}, 'h'},
    {"version", "", nullptr, "print the version and exit", {}, 'V'},
    {"print-man", "", nullptr, ""},
    {"print-completion-bash", "", nullptr, ""},
    {"print-completion-zsh", "", nullptr, ""},
    {"print-arguments", "", [](Options& o, const char*) -> const char* { o.print_arguments = true; return nullptr; }, ""},
};

std::string usage_of(const OptionRow& row) {
    return (row.flag == 0 ? "" : "-" + std::string(1, row.flag) + ", ") + "--" + std::string(row.name) +
           (row.argument.empty() ? "" : "=" + std::string(row.argument));
}
std::string usage_of(const CommandRow& row) {
    return std::string(row.name) + (row.arguments.empty() ? "" : " " + std::string(row.arguments));
}
// In the list of all options.
std::string help_of(const OptionRow& row) {
    return (row.only ? std::string(row_of(*row.only).name) + ": " : "") + std::string(row.help);
}

std::string version_text() { return "farctl " + std::string(conf::farcached_version()) + "\n"; }

std::string help_text() {
    std::string out = version_text() + "Usage: farctl [--socket=<path>]... [--json] <command> [<argument>]...\n";
    if (console_is_built()) out += "       farctl [--socket=<path>]...   a console, on a terminal\n";
    out += "\nCommands:\n";
    for (const CommandRow& row : commands) conf::append_help_row(usage_of(row), row.help, out);
    out += "\nOptions:\n";
    for (const OptionRow& row : options_table)
        if (!row.help.empty()) conf::append_help_row(usage_of(row), help_of(row), out);
    return out;
}

std::string help_of(const CommandRow& row) {
    std::string out = "Usage: farctl [<option>]... " + usage_of(row) + "\n\n" + std::string(row.help) + ".\n";
    if (!row.legend.empty()) out += "\n" + std::string(row.legend) + "\n";
    out += "\nOptions:\n";
    for (const OptionRow& option : options_table)
        if (!option.help.empty() && (!option.only || *option.only == row.command))
            conf::append_help_row(usage_of(option), option.help, out);
    return out;
}

std::string man_text() {
    std::string out = ".SH COMMANDS\n";
    for (const CommandRow& row : commands) {
        out += ".TP\n.B " + conf::roff(usage_of(row)) + "\n" + conf::roff(row.help) + "\n";
        if (!row.legend.empty()) out += ".IP\n" + conf::roff(row.legend) + "\n";
    }
    out += ".SH OPTIONS\n";
    for (const OptionRow& row : options_table)
        if (!row.help.empty()) out += ".TP\n.B " + conf::roff(usage_of(row)) + "\n" + conf::roff(help_of(row)) + "\n";
    return out;
}

conf::CompletedProgram completed() {
    conf::CompletedProgram program{"farctl", {}, {}, /* prints_arguments= */ true};
    const auto first_line = [](std::string_view help) { return std::string(help.substr(0, help.find('\n'))); };
    for (const OptionRow& row : options_table) {
        if (row.help.empty()) continue;
        conf::CompletedOption& option = program.options.emplace_back();
        option.name = row.name;
        option.flag = row.flag;
        option.takes = !row.argument.empty();
        option.is_path = row.argument == "<path>" || row.argument == "<file>";
        option.help = first_line(help_of(row));
    }
    for (const CommandRow& row : commands) {
        conf::CompletedOption& command = program.commands.emplace_back();
        command.name = row.name;
        command.help = first_line(row.help);
    }
    return program;
}

std::string printed(std::string_view name) {
    if (name == "version") return version_text();
    if (name == "print-completion-bash") return conf::bash_completion(completed());
    if (name == "print-completion-zsh") return conf::zsh_completion(completed());
    return man_text();
}

void refuse(CommandLine& line, const std::string& sentence) {
    line.exit_status = conf::exit_usage;
    line.err += "farctl: " + sentence + "; see farctl --help\n";
}

void print_and_end(CommandLine& line, std::string text) {
    line.exit_status = conf::exit_ok;
    line.out = std::move(text);
}

// The options that were given, for checks once the command is known.
using Given = std::vector<const OptionRow*>;

// False: `line` has the result that ends the parsing.
bool take(const OptionRow& row, const char* text, CommandLine& line) {
    if (row.set != nullptr) {
        const char* allowed = row.set(line.options, text);
        if (allowed == nullptr) return true;
        refuse(line, "--" + std::string(row.name) + ": '" + text + "' is not " + allowed);
        return false;
    }
    if (row.name == "help") return true;  // of the command, which may follow
    print_and_end(line, printed(row.name));
    return false;
}

bool take_options(std::vector<char*>& words, Given& given, CommandLine& line) {
    std::vector<std::string> names;
    names.reserve(std::size(options_table));
    std::vector<option> longs;
    std::string flags = ":";
    constexpr int long_from = 256;  // behind every character
    for (const OptionRow& row : options_table) {
        names.emplace_back(row.name);
        longs.push_back({names.back().c_str(), row.argument.empty() ? no_argument : required_argument, nullptr,
                         int(longs.size()) + long_from});
        if (row.flag != 0) flags += row.flag;
    }
    longs.push_back({nullptr, 0, nullptr, 0});
    optind = 0;  // restart the scan
    opterr = 0;
    for (;;) {
        const int at = optind == 0 ? 1 : optind;
        const int found = getopt_long(int(words.size()) - 1, words.data(), flags.c_str(), longs.data(), nullptr);
        if (found == -1) return true;
        if (found == '?' || found == ':') {
            const std::string word = words[size_t(optind > at ? optind - 1 : at)];
            refuse(line, found == '?' ? "unknown option " + word : word + " needs a value");
            return false;
        }
        const OptionRow* row = std::ranges::find(options_table, char(found), &OptionRow::flag);
        if (found >= long_from) row = &options_table[found - long_from];
        given.push_back(row);
        if (!take(*row, optarg, line)) return false;
    }
}

bool wants_help(const Given& given) {
    return std::ranges::any_of(given, [](const OptionRow* one) { return one->name == "help"; });
}

std::string belongs_to(const OptionRow& option) {
    return "--" + std::string(option.name) + " is an option of " + std::string(row_of(*option.only).name);
}

void take_help(std::span<char* const> words, const std::vector<std::string_view>& names, CommandLine& line) {
    if (words.empty()) return print_and_end(line, help_text());
    const std::string_view name = std::string_view(words[0]).substr(0, 100);
    const CommandRow* row = row_named(name);
    if (row == nullptr) return refuse(line, unknown_word("command", name, names));
    print_and_end(line, help_of(*row));
}

void take_words(const CommandRow& row, std::span<char* const> words, const Given& given, CommandLine& line) {
    for (const OptionRow* option : given)
        if (option->only && *option->only != row.command)
            return refuse(line, belongs_to(*option));
    const bool is_plan = !line.options.plan.empty();
    const size_t words_min = is_plan ? 0 : row.words_min, words_max = is_plan ? 0 : row.words_max;
    const bool fits = words.size() >= words_min && words.size() <= words_max;
    if (!fits && !line.options.print_arguments)
        return refuse(line, "usage: farctl " + (is_plan ? "route --plan=<file>" : usage_of(row)));
    line.options.command = row.command;
    line.options.words.assign(words.begin(), words.end());
    line.has_command = true;
}

void take_command(std::span<char* const> words, const Given& given, WithoutCommand without, CommandLine& line) {
    const std::vector<std::string_view> names = command_names();
    if (wants_help(given)) return take_help(words, names, line);
    const bool may_lack = line.options.print_arguments || (without == WithoutCommand::is_console && !line.options.json);
    if (words.empty() && !line.options.print_arguments)
        for (const OptionRow* option : given)
            if (option->only) return refuse(line, belongs_to(*option));
    if (words.empty() && may_lack) return;
    if (words.empty()) return refuse(line, "no command given; commands: " + listed(names));
    const std::string_view name = std::string_view(words[0]).substr(0, 100);
    const CommandRow* row = row_named(name);
    if (row == nullptr) return refuse(line, unknown_word("command", name, names));
    const bool fits_help = words.size() - 1 <= row->words_max && !line.options.print_arguments;
    if (row->command == Command::help && fits_help) return take_help(words.subspan(1), names, line);
    take_words(*row, words.subspan(1), given, line);
}

// Could the word break the request's one line?
bool has_control(std::string_view word) {
    for (unsigned char c : word)
        if (c <= ' ' || c == 0x7f) return true;
    return word.empty();
}

void parse(std::vector<char*>& words, WithoutCommand without, CommandLine& line) {
    words.push_back(nullptr);
    Given given;
    if (!take_options(words, given, line)) return;
    take_command({words.data() + optind, words.size() - 1 - size_t(optind)}, given, without, line);
    if (line.exit_status) return;
    for (const std::string& word : line.options.words)
        if (has_control(word)) return refuse(line, "keys, prefixes, and names of nodes and groups contain no blanks");
}

}  // namespace

CommandLine parse_command_line(std::span<const char* const> argv, const char* standard_socket, WithoutCommand without) {
    CommandLine line;
    line.options.interval_ms = 2000;
    line.options.timeout_ms = 5000;
    // getopt_long reorders the pointers and leaves the characters unchanged.
    std::vector<char*> words;
    for (const char* word : argv) words.push_back(const_cast<char*>(word));
    parse(words, without, line);
    if (line.exit_status || !line.options.sockets.empty()) return line;
    const bool is_set = standard_socket != nullptr && *standard_socket != '\0';
    line.options.sockets.emplace_back(is_set ? standard_socket : socket_by_default);
    return line;
}

CommandLine parse_console_line(std::span<const std::string> line_words, const Options& given) {
    CommandLine line;
    line.options = given;
    line.options.sockets.clear();
    std::string name = "farctl";
    std::vector<char*> words = {name.data()};
    for (const std::string& word : line_words) words.push_back(const_cast<char*>(word.c_str()));
    parse(words, WithoutCommand::is_refused, line);
    if (line.options.sockets.empty()) line.options.sockets = given.sockets;
    return line;
}

Argument argument_of(Command command, size_t place) {
    const CommandRow& row = row_of(command);
    return place < std::size(row.takes) ? row.takes[place] : Argument::none;
}

std::vector<std::string_view> command_names() {
    std::vector<std::string_view> names;
    for (const CommandRow& row : commands) names.push_back(row.name);
    return names;
}

std::string console_greeting(const Options& options) {
    return "farctl " + std::string(conf::farcached_version()) + " at " + options.sockets[0] +
        "; help lists the commands, quit ends";
}

std::vector<std::string> option_names(std::optional<Command> command) {
    std::vector<std::string> names;
    for (const OptionRow& row : options_table) {
        const bool fits = !row.only || row.only == command;
        if (!row.help.empty() && fits) names.push_back("--" + std::string(row.name));
    }
    return names;
}

}  // namespace farcached::ctl
