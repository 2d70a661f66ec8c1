// SPDX-License-Identifier: BSD-3-Clause
// Completion of a program's words in bash and zsh, made from its table of options.
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
    bool takes = false;         // an argument
    bool is_path = false;       // which names a file
    std::vector<std::string> values;  // that the argument may have, if few; of a list, its words
    bool list = false;          // the argument is a list of such, with commas between them
    std::string help;           // a line
};

struct CompletedProgram {
    std::string name;
    std::vector<CompletedOption> options;
    std::vector<CompletedOption> commands;  // name and help; none: it has no commands
};

CompletedProgram completed_program(std::span<const Option> table, const Program& program);

std::string bash_completion(const CompletedProgram& program);
std::string zsh_completion(const CompletedProgram& program);

}  // namespace farcached::conf
