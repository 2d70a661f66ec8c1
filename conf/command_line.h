// SPDX-License-Identifier: BSD-3-Clause
// Parses the command line. getopt_long and getsubopt split it, because scripts rely on their rules: abbreviated long flags,
// -vv, -p11211, options after arguments.
//
// Threads: main's alone, at the start and at a reload: the state of getopt is the process's.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "conf/option.h"
#include "conf/program.h"
#include "conf/settings.h"

namespace farcached::conf {

struct CommandLine {
    Settings settings;
    // Set: do not run; print both texts and exit with it. (getopt has already printed its own errors to stderr.)
    std::optional<int> exit_status;
    std::string out;  // for stdout
    std::string err;  // for stderr; warnings when running
    Origins origins;
    bool check = false;  // --check-config: only report errors
    bool print = false;  // --print-config: only print the resulting settings
    bool limits = false; // --print-limits: only print the resource limits
};

// argv[0] is the program's name. Not reentrant: getopt's state is global.
// The options are the rows of the table. Settings from --memcached-conf and --config apply first, in this order; the command
// line overrides them. The list of nodes has those of all three. All errors in the files, and between options, are reported at
// once. folder: base of relative file names; empty: the working directory.
CommandLine parse_command_line(std::span<const char* const> argv,
                               std::span<const Option> table = option_table(),
                               const Program& program = farcached_program(), const std::string& folder = {});

}  // namespace farcached::conf
