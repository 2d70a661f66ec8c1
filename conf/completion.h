// SPDX-License-Identifier: BSD-3-Clause
// Generates bash and zsh completion of a program from its option table.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "conf/option.h"
#include "conf/program.h"

namespace farcached::conf {

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
};

CompletedProgram completed_program(std::span<const Option> table, const Program& program);

std::string bash_completion(const CompletedProgram& program);
std::string zsh_completion(const CompletedProgram& program);

}  // namespace farcached::conf
