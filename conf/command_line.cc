// SPDX-License-Identifier: BSD-3-Clause
#include "conf/command_line.h"

#include <getopt.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/nearest.h"
#include "conf/addresses.h"
#include "conf/check_settings.h"
#include "conf/config_file.h"
#include "conf/help.h"
#include "conf/kinds.h"
#include "conf/option.h"

namespace farcached::conf {

namespace {

// The options and their program.
struct Grammar {
    std::span<const Option> table;
    const Program& program;
    std::string folder;
    std::string place = {};  // of the words in a file; empty: the command line
};

// getopt_long's result for the first row without a letter: above every character.
constexpr int first_long_answer = 256;

struct Flags {
    std::string letters;
    std::vector<std::string> names;   // owns the names that `longs` refers to
    std::vector<option> longs;
};

Flags flags_of(std::span<const Option> table) {
    Flags flags;
    flags.names.reserve(2 * table.size());  // names and old names; `longs` has their addresses
    for (size_t row = 0; row < table.size(); row++) {
        const Option& o = table[row];
        if (o.where != Where::flag) continue;
        int takes = o.argument.empty() ? no_argument : required_argument;
        if (o.flag != 0) {
            flags.letters += o.flag;
            if (takes == required_argument) flags.letters += ':';
        }
        for (std::string_view name : {o.name, o.old_name}) {
            if (name.empty()) continue;
            flags.names.emplace_back(name);
            flags.longs.push_back(
                {flags.names.back().c_str(), takes, nullptr, first_long_answer + int(row)});
        }
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

// Tokens for getsubopt: a row's name, and no_<name> if the row is negatable.
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
        for (std::string_view name : {o.name, o.old_name}) {
            if (name.empty()) continue;
            found.rows.push_back({&o, false});
            found.names.emplace_back(name);
            if (!o.negatable) continue;
            found.rows.push_back({&o, true});
            found.names.push_back("no_" + std::string(name));
        }
    }
    for (std::string& name : found.names) found.tokens.push_back(name.data());
    found.tokens.push_back(nullptr);
    return found;
}

// Files and the command line may each give such an option: the latter overrides the former. Places in files are not empty.
Refusal refuse_second(const Option& option, const Grammar& grammar, const CommandLine& line) {
    if (option.once.empty()) return {};
    const auto first = line.origins.find(key_of(option));
    if (first == line.origins.end() || first->second.empty() != grammar.place.empty()) return {};
    return Problem{option.exit_status, std::string(option.once)};
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

// The option that a misspelt one probably means: "--conn-limit", "-o idle_timeout". Empty: none is near.
std::string near_option(std::string_view name, std::span<const Option> table) {
    constexpr size_t name_bytes_max = 64;
    if (name.size() > name_bytes_max) return {};
    for (const Where where : {Where::flag, Where::suboption}) {
        std::vector<std::string_view> names;
        for (const Option& option : table)
            if (option.where == where && option.section != Section::hidden && !option.name.empty()) names.push_back(option.name);
        const std::string_view near = nearest(name, names);
        if (near == name && where == Where::flag) return {};  // it lacks a value
        if (!near.empty()) return (where == Where::flag ? "--" : "-o ") + std::string(near);
    }
    return {};
}

// A line before memcached's own.
std::string near_option_line(std::string_view name, std::span<const Option> table) {
    const std::string near = near_option(name, table);
    return near.empty() ? near : "did you mean " + near + "?\n";
}

Refusal set_suboptions(const char* list, const Grammar& grammar, CommandLine& line) {
    Suboptions known = suboptions_of(grammar.table);
    std::string writable(list);
    char* rest = writable.data();
    while (*rest != '\0') {
        char* value = nullptr;
        int found = getsubopt(&rest, known.tokens.data(), &value);
        if (found < 0) {
            const std::string given(value);
            return Problem{exit_illegal, near_option_line(given.substr(0, given.find('=')), grammar.table) +
                                             "Illegal suboption \"" + given + "\"\n"};
        }
        const Suboptions::Token& token = known.rows[size_t(found)];
        if (Refusal refusal = refuse_second(*token.option, grammar, line)) return refusal;
        if (Refusal refusal = set_suboption(token, value, line)) return refusal;
        line.origins[std::string(key_of(*token.option))] = grammar.place;
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
    if (action == Action::config_man) line.out = config_man(table);
    if (action == Action::config_sample) line.out = config_sample(table, grammar.program);
    if (action == Action::completion_bash) line.out = bash_completion(completed_program(table, grammar.program));
    if (action == Action::completion_zsh) line.out = zsh_completion(completed_program(table, grammar.program));
}

void fail(const Problem& problem, CommandLine& line) {
    line.exit_status = problem.exit_status;
    line.err += problem.text;
}

// False: parsing ends; `line` has the result.
bool take(const Option& option, const char* text, const Grammar& grammar, CommandLine& line) {
    Refusal refusal = refuse_second(option, grammar, line);
    if (refusal) {
        fail(*refusal, line);
        return false;
    }
    switch (option.action) {
        case Action::none: refusal = option.kind.set(option, line.settings, text, line.err); break;
        case Action::extended: refusal = set_suboptions(text, grammar, line); break;
        case Action::check_config:
            line.check = true;
            refusal = option.kind.set(option, line.settings, text, line.err);
            break;
        case Action::print_config: line.print = true; break;
        case Action::print_limits: line.limits = true; break;
        default: answer(option.action, grammar, line); return false;
    }
    if (refusal) fail(*refusal, line);
    else line.origins[std::string(key_of(option))] = grammar.place;
    return !refusal;
}

// Iterates over getopt_long's options.
class Words {
  public:
    // quiet: getopt prints no errors.
    Words(std::span<const char* const> argv, std::span<const Option> table, bool quiet)
        : table_(table), flags_(flags_of(table)) {
        // getopt_long reorders the pointers, never the characters.
        for (const char* word : argv) words_.push_back(const_cast<char*>(word));
        words_.push_back(nullptr);
        if (quiet) flags_.letters.insert(0, ":");
        opterr = quiet ? 0 : 1;
        optind = 0;  // restarts getopt
    }

    enum class Found : uint8_t { option, unknown, end };
    Found next(const Option*& option) {
        const int found = getopt_long(int(words_.size()) - 1, words_.data(), flags_.letters.c_str(),
                                      flags_.longs.data(), nullptr);
        if (found == -1) return Found::end;
        option = found == ':' ? nullptr : find_flag(found, table_);
        return option == nullptr ? Found::unknown : Found::option;
    }
    // The first word after all options, nullptr if there is none. memcached accepts empty words: "$EXTRA" of a script.
    const char* stray() const {
        size_t at = size_t(optind);
        while (words_[at] != nullptr && *words_[at] == '\0') at++;
        return words_[at];
    }
    // The name of the unknown long option: "prot" of "--prot=5". Empty for a short one; getopt_long() then sets optopt.
    std::string_view unknown_name() const {
        if (optopt != 0) return "";
        const std::string_view word = words_[size_t(optind) - 1];
        return word.starts_with("--") ? word.substr(2, word.find('=') - 2) : "";
    }

  private:
    std::span<const Option> table_;
    Flags flags_;
    std::vector<char*> words_;
};

// Applies the words. False: parsing ends; `line` has the result.
bool take_words(std::span<const char* const> argv, const Grammar& grammar, CommandLine& line) {
    Words words(argv, grammar.table, /* quiet= */ false);
    for (;;) {
        const Option* option = nullptr;
        const Words::Found found = words.next(option);
        if (found == Words::Found::end) break;
        if (found == Words::Found::unknown) {
            fail({exit_illegal, near_option_line(words.unknown_name(), grammar.table) + "Illegal argument \"?\"\n"}, line);
            return false;
        }
        if (!take(*option, optarg, grammar, line)) return false;
    }
    if (words.stray() == nullptr) return true;
    fail({exit_usage, "'" + std::string(words.stray()) + "' is not an option\n"}, line);
    return false;
}

// -- Files -----------------------------------------------------------------------------------------------

using Errors = std::vector<std::string>;  // without line ends

void add(Errors& errors, std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    if (std::find(errors.begin(), errors.end(), text) == errors.end()) errors.push_back(std::move(text));
}

// A file's errors have one line each.
std::string one_line(std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) text.replace(end, 1, " ");
    return text;
}

std::string unknown_flag(const std::string& word, std::span<const Option> table) {
    const std::string_view given = std::string_view(word).substr(0, word.find('='));
    const std::string near = given.starts_with("--") ? near_option(given.substr(2), table) : "";
    return "unknown option " + std::string(given) + ", or its value is missing" +
           (near.empty() ? "" : "; did you mean " + near + "?");
}

// Applies one line of /etc/memcached.conf; errors include its place.
void take_conf_line(const ConfLine& said, const Grammar& grammar, CommandLine& line, Errors& errors) {
    const std::string at = grammar.place + ": ";
    if (!said.error.empty()) return add(errors, at + said.error);
    std::vector<const char*> argv = {grammar.program.name.data()};
    for (const std::string& word : said.words) argv.push_back(word.c_str());
    Words words(argv, grammar.table, /* quiet= */ true);
    for (;;) {
        const Option* option = nullptr;
        const Words::Found found = words.next(option);
        if (found == Words::Found::end) break;
        if (found == Words::Found::unknown) return add(errors, at + unknown_flag(said.words.front(), grammar.table));
        if (option->action != Action::none && option->action != Action::extended)
            return add(errors, at + spelled(*option) + " is not allowed in a file");
        CommandLine one;
        one.settings = std::move(line.settings);
        one.origins = std::move(line.origins);
        (void)take(*option, optarg, grammar, one);
        line.settings = std::move(one.settings);
        line.origins = std::move(one.origins);
        if (one.exit_status) return add(errors, at + one_line(std::move(one.err)));
        line.err += one.err;
    }
    if (words.stray() != nullptr) add(errors, at + "'" + words.stray() + "' is not an option");
}

std::string path_in(const std::string& folder, const std::string& path) {
    return folder.empty() || path.starts_with('/') ? path : folder + "/" + path;
}

void take_memcached_conf(const std::string& text, const std::string& path, const Grammar& grammar, CommandLine& line,
                         Errors& errors) {
    Grammar in_file = grammar;
    for (const ConfLine& said : memcached_conf_lines(text, path, line.err)) {
        in_file.place = path + ":" + std::to_string(said.number);
        take_conf_line(said, in_file, line, errors);
    }
}

bool read_or_fail(const std::string& path, std::string& text, CommandLine& line) {
    Result<std::string> read = read_whole_file(path);
    if (auto* problem = std::get_if<Problem>(&read)) {
        fail({problem->exit_status, problem->text + "\n"}, line);
        return false;
    }
    text = std::get<std::string>(std::move(read));
    return true;
}

// Applies the files' options, then the words again, so that the command line overrides files. Addresses and permissions accumulate
// within files or within words, not across both. False: a file cannot be read; `line` has the error.
bool take_files(std::span<const char* const> argv, const Grammar& grammar, CommandLine& line, Errors& errors) {
    const ProcessSettings named = line.settings.process;
    if (named.memcached_conf_path.empty() && named.config_path.empty()) return true;
    line = {};
    line.settings = defaults(grammar.table);
    std::string text;
    if (!named.memcached_conf_path.empty()) {
        const std::string path = path_in(grammar.folder, named.memcached_conf_path);
        if (!read_or_fail(path, text, line)) return false;
        take_memcached_conf(text, path, grammar, line, errors);
    }
    if (!named.config_path.empty()) {
        const std::string path = path_in(grammar.folder, named.config_path);
        if (!read_or_fail(path, text, line)) return false;
        const bool auto_given = line.settings.listen.auto_given;
        for (std::string& error : read_config_text(text, path, grammar.table, line.settings, &line.origins))
            add(errors, std::move(error));
        line.settings.listen.auto_given = auto_given;  // a sample's protocol is the default
    }
    std::string interfaces = std::exchange(line.settings.listen.interfaces, {});
    PermissionSettings permissions = std::exchange(line.settings.permissions, {});
    const bool taken = take_words(argv, grammar, line);
    CHECK(taken);  // it succeeded the first time
    if (line.settings.listen.interfaces.empty()) line.settings.listen.interfaces = std::move(interfaces);
    if (line.settings.permissions.classes_of.empty()) line.settings.permissions = std::move(permissions);
    return true;
}

// Runs the checks between options.
void check_all(const Grammar& grammar, CommandLine& line, Errors& errors) {
    int status = errors.empty() ? exit_ok : exit_usage;
    for (const Conflict& conflict : grammar.program.check(line.settings)) {
        if (status == exit_ok) status = conflict.problem.exit_status;
        add(errors, conflict_text(conflict, line.origins));
    }
    for (std::string& complaint : check_nodes(line.settings.proxy)) add(errors, std::move(complaint));
    if (errors.empty()) return;
    line.exit_status = status == exit_ok ? exit_usage : status;
    for (const std::string& error : errors) line.err += error + "\n";
}

// The output of --check-config, --print-config and --print-limits, if no error was found.
void answer_of_settings(const Grammar& grammar, CommandLine& line) {
    if (line.check) line.out = line.settings.process.config_path + ": no errors\n";
    if (line.print) line.out = config_text(grammar.table, grammar.program, line.settings);
    if (line.limits) line.out = limits_text(grammar.program.limits(line.settings));
    if (line.check || line.print || line.limits) line.exit_status = exit_ok;
}

}  // namespace

Settings defaults(std::span<const Option> table) {
    Settings settings;
    // Rows for `stats settings` alone come last: other options' defaults may have set them, as given options do.
    for (bool alone : {false, true}) {
        for (const Option& o : table) {
            if ((o.where == Where::stat) != alone || o.initial.empty()) continue;
            if (o.kind.set == nullptr || o.kind.show == show_initial) continue;  // constant
            std::string initial(o.initial), warnings;
            Refusal refusal = o.kind.set(o, settings, initial.c_str(), warnings);
            CHECK(!refusal);
            CHECK(warnings.empty());
        }
    }
    settings.listen.auto_given = false;
    settings.listen.port_given = false;
    return settings;
}

Settings defaults() { return defaults(option_table()); }

CommandLine parse_command_line(std::span<const char* const> argv, std::span<const Option> table,
                               const Program& program, const std::string& folder) {
    CHECK(!argv.empty());
    const Grammar grammar{table, program, folder};
    CommandLine line;
    line.settings = defaults(table);
    if (!take_words(argv, grammar, line)) return line;
    Errors errors;
    if (!take_files(argv, grammar, line, errors)) return line;
    check_all(grammar, line, errors);
    if (line.exit_status) return line;
    line.err += program.remarks(line.settings);
    answer_of_settings(grammar, line);
    return line;
}

const Program& farcached_program() {
    static constexpr Program program{"farcached", version_text, check_settings, remarks, farcached_limits};
    return program;
}

}  // namespace farcached::conf
