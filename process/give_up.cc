// SPDX-License-Identifier: BSD-3-Clause
#include "process/give_up.h"

#include <cstdio>
#include <cstdlib>

#include "process/log.h"

namespace farcached::process {

void give_up(const conf::Problem& problem) {
    say(Level::error, problem.text);
    std::exit(problem.exit_status);
}

void give_up(const std::string& sentence) { give_up(conf::Problem{conf::exit_system, sentence + "\n"}); }

void or_give_up(const conf::Refusal& refusal) {
    if (refusal) give_up(*refusal);
}

conf::Settings settings_or_exit(conf::CommandLine line) {
    std::fputs(line.err.c_str(), stderr);
    std::fputs(line.out.c_str(), stdout);
    if (line.exit_status) std::exit(*line.exit_status);
    return std::move(line.settings);
}

}  // namespace farcached::process
