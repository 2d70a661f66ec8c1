// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/command_line.h"

#include <getopt.h>

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "base/nearest.h"
#include "conf/help.h"
#include "conf/program.h"

namespace farcached::ctl {

namespace {

constexpr const char* socket_by_default = "/run/farcached/admin.sock";

struct CommandRow {
    Command command;
    std::string_view name, arguments;
    size_t words_min, words_max;
    std::string_view help;
};

constexpr CommandRow commands[] = {
    {Command::status, "status", "", 0, 0,
     "nodes: state, incarnation, memory, items, hit ratio;\n"
     "proxies: gets by path"},
    {Command::top, "top", "", 0, 0,
     "the same per second, live; keys select the column that nodes\n"
     "are sorted by, r reverses, q quits"},
    {Command::stats, "stats", "[NODE] [GROUP]", 0, 2,
     "statistics of the daemon, of one node, or of one group of\n"
     "either. NODE - is the daemon itself"},
    {Command::route, "route", "KEY", 1, 1,
     "the current route of a key, and the reason: its place on the\n"
     "ring, its node, the next nodes, its remote pointer"},
    {Command::hotkeys, "hotkeys", "[reset]", 0, 1,
     "most requested keys, by the path on which they are answered;\n"
     "reset: clear the counts"},
    {Command::pointers, "pointers", "", 0, 0,
     "pointer table: occupancy, remaining leases and use\n"
     "their leases last, how it was used"},
    {Command::leases, "leases", "", 0, 0,
     "leases of each node: granted, denied by reason, and memory\n"
     "waiting for their ends"},
    {Command::drain, "drain", "NODE", 1, 1,
     "stop routing keys to NODE: they are answered like those of a\n"
     "node that is down"},
    {Command::undrain, "undrain", "NODE", 1, 1, "resume routing keys to NODE"},
    {Command::delete_prefix, "delete-prefix", "PREFIX", 1, 1,
     "delete all items whose key begins with PREFIX, in all nodes,\n"
     "before any read that begins after the reply"},
    {Command::reload, "reload", "", 0, 0,
     "reload the files of the daemons; reports changes, those that\n"
     "need a restart, or errors"},
};

// Returns nullptr, or a description of valid text.
using Set = const char* (*)(Options& options, const char* text);

struct OptionRow {
    std::string_view name, argument;
    Set set;
    std::string_view help;
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
    {"interval", "<seconds>", [](Options& o, const char* text) { return set_seconds(o.interval_ms, text); },
     "top: interval in seconds, 0.1 to 3600 (default: 2)"},
    {"once", "", [](Options& o, const char*) -> const char* { o.once = true; return nullptr; },
     "top: print one screen of averages since the start, and exit"},
    {"timeout", "<seconds>", [](Options& o, const char* text) { return set_seconds(o.timeout_ms, text); },
     "timeout of a daemon's reply in seconds, 0.1 to 3600\n"
     "(default: 5)"},
    {"help", "", nullptr, "print this and exit"},
    {"version", "", nullptr, "print the version and exit"},
    {"print-man", "", nullptr, ""},
    {"print-completion-bash", "", nullptr, ""},
    {"print-completion-zsh", "", nullptr, ""},
};

std::string usage_of(const OptionRow& row) {
    return "--" + std::string(row.name) + (row.argument.empty() ? "" : "=" + std::string(row.argument));
}
std::string usage_of(const CommandRow& row) {
    return std::string(row.name) + (row.arguments.empty() ? "" : " " + std::string(row.arguments));
}

std::string version_text() { return "farctl " + std::string(conf::farcached_version()) + "\n"; }

std::string help_text() {
    std::string out = version_text() + "Usage: farctl [--socket=<path>]... [--json] <command> [<argument>]...\n";
    out += "\nCommands:\n";
    for (const CommandRow& row : commands) conf::append_help_row(usage_of(row), row.help, out);
    out += "\nOptions:\n";
    for (const OptionRow& row : options_table)
        if (!row.help.empty()) conf::append_help_row(usage_of(row), row.help, out);
    return out;
}

template <class Row>
void append_man_row(const Row& row, std::string& out) {
    out += ".TP\n.B " + conf::roff(usage_of(row)) + "\n" + conf::roff(row.help) + "\n";
}

std::string man_text() {
    std::string out = ".SH COMMANDS\n";
    for (const CommandRow& row : commands) append_man_row(row, out);
    out += ".SH OPTIONS\n";
    for (const OptionRow& row : options_table)
        if (!row.help.empty()) append_man_row(row, out);
    return out;
}

conf::CompletedProgram completed() {
    conf::CompletedProgram program{"farctl", {}, {}};
    const auto first_line = [](std::string_view help) { return std::string(help.substr(0, help.find('\n'))); };
    for (const OptionRow& row : options_table) {
        if (row.help.empty()) continue;
        conf::CompletedOption& option = program.options.emplace_back();
        option.name = row.name;
        option.takes = !row.argument.empty();
        option.is_path = row.argument == "<path>";
        option.help = first_line(row.help);
    }
    for (const CommandRow& row : commands) {
        conf::CompletedOption& command = program.commands.emplace_back();
        command.name = row.name;
        command.help = first_line(row.help);
    }
    return program;
}

std::string printed(std::string_view name) {
    if (name == "help") return help_text();
    if (name == "version") return version_text();
    if (name == "print-completion-bash") return conf::bash_completion(completed());
    if (name == "print-completion-zsh") return conf::zsh_completion(completed());
    return man_text();
}

void refuse(CommandLine& line, const std::string& sentence) {
    line.exit_status = conf::exit_usage;
    line.err += "farctl: " + sentence + "; see farctl --help\n";
}

// False: `line` has the result that ends the parsing.
bool take(const OptionRow& row, const char* text, CommandLine& line) {
    if (row.set != nullptr) {
        const char* allowed = row.set(line.options, text);
        if (allowed == nullptr) return true;
        refuse(line, "--" + std::string(row.name) + ": '" + text + "' is not " + allowed);
        return false;
    }
    line.exit_status = conf::exit_ok;
    line.out = printed(row.name);
    return false;
}

bool take_options(std::vector<char*>& words, CommandLine& line) {
    std::vector<std::string> names;
    names.reserve(std::size(options_table));
    std::vector<option> longs;
    for (const OptionRow& row : options_table) {
        names.emplace_back(row.name);
        longs.push_back({names.back().c_str(), row.argument.empty() ? no_argument : required_argument, nullptr,
                         int(longs.size()) + 1});
    }
    longs.push_back({nullptr, 0, nullptr, 0});
    optind = 0;  // restart the scan
    opterr = 0;
    for (;;) {
        const int at = optind == 0 ? 1 : optind;
        const int found = getopt_long(int(words.size()) - 1, words.data(), ":", longs.data(), nullptr);
        if (found == -1) return true;
        if (found == '?' || found == ':') {
            const std::string word = words[size_t(optind > at ? optind - 1 : at)];
            refuse(line, found == '?' ? "unknown option " + word : word + " needs a value");
            return false;
        }
        if (!take(options_table[found - 1], optarg, line)) return false;
    }
}

void take_command(std::span<char* const> words, CommandLine& line) {
    std::vector<std::string_view> names;
    for (const CommandRow& row : commands) names.push_back(row.name);
    if (words.empty()) return refuse(line, "no command given; commands: " + listed(names));
    const std::string_view given = std::string_view(words[0]).substr(0, 100);
    for (const CommandRow& row : commands) {
        if (row.name != given) continue;
        const size_t count = words.size() - 1;
        if (count < row.words_min || count > row.words_max) return refuse(line, "usage: farctl " + usage_of(row));
        line.options.command = row.command;
        line.options.words.assign(words.begin() + 1, words.end());
        return;
    }
    refuse(line, unknown_word("command", given, names));
}

// Could the word break the request's one line?
bool has_control(std::string_view word) {
    for (unsigned char c : word)
        if (c <= ' ' || c == 0x7f) return true;
    return word.empty();
}

}  // namespace

CommandLine parse_command_line(std::span<const char* const> argv, const char* standard_socket) {
    CommandLine line;
    line.options.interval_ms = 2000;
    line.options.timeout_ms = 5000;
    // getopt_long reorders the pointers and leaves the characters unchanged.
    std::vector<char*> words;
    for (const char* word : argv) words.push_back(const_cast<char*>(word));
    words.push_back(nullptr);
    if (!take_options(words, line)) return line;
    take_command({words.data() + optind, words.size() - 1 - size_t(optind)}, line);
    if (line.exit_status) return line;
    for (const std::string& word : line.options.words)
        if (has_control(word)) refuse(line, "keys, prefixes, and names of nodes and groups contain no blanks");
    if (!line.options.sockets.empty()) return line;
    const bool is_set = standard_socket != nullptr && *standard_socket != '\0';
    line.options.sockets.emplace_back(is_set ? standard_socket : socket_by_default);
    return line;
}

}  // namespace farcached::ctl
