// SPDX-License-Identifier: BSD-3-Clause
// Generates texts from an option table: --help, the options of the man page, the sample of the file of --config, and the
// completion of bash and zsh; also versions and licenses.
//
// Pure functions; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/option.h"
#include "conf/program.h"

namespace farcached::conf {

std::string help_text(std::span<const Option> table, const Program& program = farcached_program());
std::string license_text();
std::string version_text();
std::string full_version_text();
// A section's rows in help order: flags before suboptions, flags by letter.
std::vector<const Option*> rows_of(Section section, std::span<const Option> table);
// Escapes text for roff: '-' would print as a hyphen, not a minus; '.' at a line's start would be a request.
std::string roff(std::string_view text);
// A row of --help: the lines of `help` in a column beside the usage.
void append_help_row(const std::string& usage, std::string_view help, std::string& out);
std::string options_man(std::span<const Option> table);  // roff: .SS and .TP, to be placed under OPTIONS

// Generates texts about the file of --config from an option table: the resulting settings, the annotated sample, and the keys
// for farcached.toml(5).
// A file that yields these settings when read. Unset keys are comments.
std::string config_text(std::span<const Option> table, const Program& program, const Settings& settings);

// Every key with its help and default, and a sample node if the program has nodes.
std::string config_sample(std::span<const Option> table, const Program& program);

// roff: .SS and .TP, to be placed under KEYS.
std::string config_man(std::span<const Option> table);

struct CompletedOption {
    char flag = 0;              // 0: only long
    std::string name;           // 'extended' or "": only short
    bool takes = false;         // takes an argument
    bool is_path = false;       // the argument names a file
    std::vector<std::string> values;  // possible arguments, if few; of a list, its words
    bool list = false;          // the argument is a comma-separated list of these
    std::string help;           // one line
};

struct CompletedProgram {
    std::string name;
    std::vector<CompletedOption> options;
    std::vector<CompletedOption> commands;  // name and help; empty: no commands
    bool prints_arguments = false;          // of a command: with --print-arguments and the words so far, one a line
};

CompletedProgram completed_program(std::span<const Option> table, const Program& program);

std::string bash_completion(const CompletedProgram& program);
std::string zsh_completion(const CompletedProgram& program);

}  // namespace farcached::conf
