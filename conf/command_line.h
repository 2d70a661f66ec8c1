// SPDX-License-Identifier: BSD-3-Clause
// Reading the command line. getopt_long and getsubopt do the cutting, since what scripts write was tried
// against them: abbreviated long flags, -vv, -p11211, options after arguments.
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
    // Set: do not run; print both and exit with it. (getopt prints its own complaints to stderr before.)
    std::optional<int> exit_status;
    std::string out;  // for stdout
    std::string err;  // for stderr; warnings when running
    bool check = false;  // --check-config: only say what is wrong
    bool print = false;  // --print-config: only say what it comes to
};

// argv[0] is the program's name. Not reentrant: getopt's state is the process's.
// The options are the rows of the table. With --memcached-conf and --config the files' options are settings first, in
// this order, and the words of the command line then say otherwise; nodes of all are in the list. All that is wrong in
// the files, and between the options, is told at once. folder: where files are that are named without a leading slash;
// empty: where the process is.
CommandLine parse_command_line(std::span<const char* const> argv,
                               std::span<const Option> table = option_table(),
                               const Program& program = farcached_program(), const std::string& folder = {});

}  // namespace farcached::conf
