// SPDX-License-Identifier: BSD-3-Clause
#include "conf/command_line.h"

#include <getopt.h>

#include <cstdlib>
#include <vector>

#include "base/check.h"
#include "conf/check_settings.h"
#include "conf/config_file.h"
#include "conf/help.h"
#include "conf/kinds.h"
#include "conf/nodes.h"
#include "conf/option.h"

namespace farcached::conf {

namespace {

// What is written in: the options, and whose they are.
struct Grammar {
    std::span<const Option> table;
    const Program& program;
};

// What getopt_long answers for a row without a letter: above every character.
constexpr int first_long_answer = 256;

struct Flags {
    std::string letters;
    std::vector<std::string> names;   // owns what `longs` points to
    std::vector<option> longs;
};

Flags flags_of(std::span<const Option> table) {
    Flags flags;
    flags.names.reserve(table.size());
    for (size_t row = 0; row < table.size(); row++) {
        const Option& o = table[row];
        if (o.where != Where::flag) continue;
        int takes = o.argument.empty() ? no_argument : required_argument;
        if (o.flag != 0) {
            flags.letters += o.flag;
            if (takes == required_argument) flags.letters += ':';
        }
        if (o.name.empty()) continue;
        flags.names.emplace_back(o.name);
        flags.longs.push_back(
            {flags.names.back().c_str(), takes, nullptr, first_long_answer + int(row)});
    }
    flags.longs.push_back({nullptr, 0, nullptr, 0});
    return flags;
}

const Option* find_flag(int answer, std::span<const Option> table) {
    if (answer >= first_long_answer) return &table[size_t(answer - first_long_answer)];
    for (const Option& o : table) {
        if (o.where == Where::flag && o.flag == answer) return &o;
    }
    return nullptr;
}

// The tokens of getsubopt: a row's name, and no_<name> where there is one.
struct Suboptions {
    struct Token {
        const Option* option;
        bool negated;
    };
    std::vector<Token> rows;
    std::vector<std::string> names;
    std::vector<char*> tokens;
};

Suboptions suboptions_of(std::span<const Option> table) {
    Suboptions found;
    for (const Option& o : table) {
        if (o.where != Where::suboption) continue;
        found.rows.push_back({&o, false});
        found.names.emplace_back(o.name);
        if (!o.negatable) continue;
        found.rows.push_back({&o, true});
        found.names.push_back("no_" + std::string(o.name));
    }
    for (std::string& name : found.names) found.tokens.push_back(name.data());
    found.tokens.push_back(nullptr);
    return found;
}

Refusal set_suboption(const Suboptions::Token& token, const char* value, CommandLine& line) {
    const Option& o = *token.option;
    if (token.negated) return o.kind.set(o, line.settings, "no", line.err);
    if (o.argument.empty()) return o.kind.set(o, line.settings, nullptr, line.err);
    if (value == nullptr && !o.argument_optional) {
        return Problem{exit_illegal, "Missing " + std::string(o.name) + " argument\n"};
    }
    return o.kind.set(o, line.settings, value, line.err);
}

Refusal set_suboptions(const char* list, std::span<const Option> table, CommandLine& line) {
    Suboptions known = suboptions_of(table);
    std::string writable(list);
    char* rest = writable.data();
    while (*rest != '\0') {
        char* value = nullptr;
        int found = getsubopt(&rest, known.tokens.data(), &value);
        if (found < 0) {
            return Problem{exit_illegal, "Illegal suboption \"" + std::string(value) + "\"\n"};
        }
        if (Refusal refusal = set_suboption(known.rows[size_t(found)], value, line)) return refusal;
    }
    return {};
}

void answer(Action action, const Grammar& grammar, CommandLine& line) {
    const std::span<const Option> table = grammar.table;
    line.exit_status = exit_ok;
    if (action == Action::help) line.out = help_text(table, grammar.program);
    if (action == Action::license) line.out = license_text();
    if (action == Action::version) line.out = grammar.program.version();
    if (action == Action::version_full) line.out = full_version_text();
    if (action == Action::options_man) line.out = options_man(table);
}

void fail(const Problem& problem, CommandLine& line) {
    line.exit_status = problem.exit_status;
    line.err += problem.text;
}

// False: what ends the parsing is in the line.
bool take(const Option& option, const char* text, const Grammar& grammar, CommandLine& line) {
    if (option.action != Action::none && option.action != Action::extended) {
        answer(option.action, grammar, line);
        return false;
    }
    Refusal refusal = option.action == Action::extended
                          ? set_suboptions(text, grammar.table, line)
                          : option.kind.set(option, line.settings, text, line.err);
    if (refusal) fail(*refusal, line);
    return !refusal;
}

// Sets what the words say. False: what ends the parsing is in the line.
bool take_words(std::span<const char* const> argv, const Grammar& grammar, CommandLine& line) {
    Flags flags = flags_of(grammar.table);
    // getopt_long reorders the pointers, never the characters.
    std::vector<char*> words;
    for (const char* word : argv) words.push_back(const_cast<char*>(word));
    words.push_back(nullptr);
    optind = 0;  // start anew
    for (;;) {
        int found = getopt_long(int(argv.size()), words.data(), flags.letters.c_str(),
                                flags.longs.data(), nullptr);
        if (found == -1) return true;
        const Option* option = find_flag(found, grammar.table);
        if (option == nullptr) {
            fail({exit_illegal, "Illegal argument \"?\"\n"}, line);
            return false;
        }
        if (!take(*option, optarg, grammar, line)) return false;
    }
}

// The file's keys under the words, which are taken a second time: a word says otherwise than the file.
bool take_file(std::span<const char* const> argv, const Grammar& grammar, CommandLine& line) {
    const std::string path = line.settings.process.config_path;
    line = {defaults(grammar.table), {}, {}, {}};
    std::string lines;
    for (const std::string& error : read_config_file(path, grammar.table, line.settings)) lines += error + "\n";
    if (lines.empty()) return take_words(argv, grammar, line);
    fail({exit_usage, lines}, line);
    return false;
}

Refusal check_nodes_of(const Settings& settings) {
    std::string lines;
    for (const std::string& complaint : check_nodes(settings.proxy)) lines += complaint + "\n";
    if (lines.empty()) return {};
    return Problem{exit_usage, lines};
}

}  // namespace

Settings defaults(std::span<const Option> table) {
    Settings settings;
    // Rows for `stats settings` alone come last: they hold what options imply when they are given.
    for (bool alone : {false, true}) {
        for (const Option& o : table) {
            if ((o.where == Where::stat) != alone || o.initial.empty()) continue;
            if (o.kind.set == nullptr || o.kind.show == show_initial) continue;  // always as in the row
            std::string initial(o.initial), warnings;
            Refusal refusal = o.kind.set(o, settings, initial.c_str(), warnings);
            CHECK(!refusal);
            CHECK(warnings.empty());
        }
    }
    return settings;
}

Settings defaults() { return defaults(option_table()); }

CommandLine parse_command_line(std::span<const char* const> argv, std::span<const Option> table,
                               const Program& program) {
    CHECK(!argv.empty());
    const Grammar grammar{table, program};
    CommandLine line;
    line.settings = defaults(table);
    if (!take_words(argv, grammar, line)) return line;
    if (!line.settings.process.config_path.empty() && !take_file(argv, grammar, line)) return line;
    if (Refusal refusal = program.check(line.settings)) fail(*refusal, line);
    if (Refusal refusal = check_nodes_of(line.settings)) fail(*refusal, line);
    if (!line.exit_status) line.err += program.remarks(line.settings);
    return line;
}

const Program& farcached_program() {
    static constexpr Program program{"farcached", version_text, check_settings, remarks};
    return program;
}

}  // namespace farcached::conf
