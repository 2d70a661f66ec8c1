// SPDX-License-Identifier: BSD-3-Clause
// farctl's commands and options: one table for each, the source of parsing, --help and the man page.
// Owner: main; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace farcached::ctl {

enum class Command : uint8_t { status, top, stats, route, hotkeys, pointers, leases, drain, undrain, reload, delete_prefix };

struct Options {
    std::vector<std::string> sockets;  // never empty
    bool json = false;
    bool once = false;
    uint32_t interval_ms = 0;
    uint32_t timeout_ms = 0;
    Command command = Command::status;
    std::vector<std::string> words;    // after the command
};

struct CommandLine {
    Options options;
    std::optional<int> exit_status;  // set: print `out` and `err`, and exit with it
    std::string out, err;
};

// argv[0] is the program's name. `standard_socket`: $FARCTL_SOCKET; may be null. Not reentrant: getopt's state is per
// process.
CommandLine parse_command_line(std::span<const char* const> argv, const char* standard_socket);

}  // namespace farcached::ctl
