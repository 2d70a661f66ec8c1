// SPDX-License-Identifier: BSD-3-Clause
// What refuses to start: told on stderr, and the exit status says of what kind it was. For main, from the one thread
// there is until something serves.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "conf/command_line.h"
#include "conf/exit_status.h"

namespace farcached::process {

[[noreturn]] void give_up(const conf::Problem& problem);
// The system refused. sentence: without an end of line.
[[noreturn]] void give_up(const std::string& sentence);

void or_give_up(const conf::Refusal& refusal);

template <class Value>
Value or_give_up(std::variant<Value, conf::Problem> result) {
    if (auto* problem = std::get_if<conf::Problem>(&result)) give_up(*problem);
    return std::move(std::get<Value>(result));
}

// What the line has to say is printed; if that is all that was asked, or it was wrong, the process ends.
conf::Settings settings_or_exit(conf::CommandLine line);

}  // namespace farcached::process
