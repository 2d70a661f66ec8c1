// SPDX-License-Identifier: BSD-3-Clause
#include "process/fatal.h"

#include <cstdio>
#include <cstdlib>

#include "process/log.h"

namespace farcached::process {

void fatal(const Problem& problem) {
    say(Level::error, problem.text);
    std::exit(problem.exit_status);
}

void fatal(const std::string& sentence) { fatal(Problem{conf::exit_system, sentence + "\n"}); }

void or_fatal(const Refusal& refusal) {
    if (refusal) fatal(*refusal);
}

conf::Settings settings_or_exit(conf::CommandLine line) {
    std::fputs(line.err.c_str(), stderr);
    std::fputs(line.out.c_str(), stdout);
    if (line.exit_status) std::exit(*line.exit_status);
    return std::move(line.settings);
}

}  // namespace farcached::process
