// SPDX-License-Identifier: BSD-3-Clause
// Result: what a call returns that the world may refuse: the operator's configuration, the system, a peer. It is the value or
// the error, and the caller cannot read a value that is not there. What only our own code can get wrong is a CHECK.
//
// Owner: the caller; a value type.
// E1  The function that meets an error words it once, for the operator. Its callers pass it on unchanged, or put their
//     subject before it.
// E2  std::bad_alloc is thrown at any time. At the start of a program, std::system_error and std::length_error are, too. No
//     other error is an exception.
#pragma once

#include <sysexits.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace farcached {

// An error, and the status (conf/program.h) of a program that cannot start for it.
struct Problem {
    int exit_status;
    std::string text;  // whole lines; a part of a sentence where the caller completes it
};

// The system, a device or a peer refused (conf::exit_system); `text` is a sentence without its end of line.
inline Problem system_problem(std::string text) { return {EX_OSERR, std::move(text)}; }

// Why: another type only where the caller must know more of an error than its text.
template <class Value, class Why = Problem>
using Result = std::variant<Value, Why>;

// Of a call without a value; empty: no error.
using Refusal = std::optional<Problem>;

}  // namespace farcached
