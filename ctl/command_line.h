// SPDX-License-Identifier: BSD-3-Clause
// farctl's commands and options: one table for each, the source of parsing, --help, the man page, completion and the console.
// Owner: main; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcached::ctl {

constexpr const char* socket_by_default = "/run/farcached/admin.sock";

enum class Command : uint8_t {
    status, members, top, stats, route, hotkeys, slowlog, pointers, leases, doctor, drain, undrain, reload, delete_prefix, help
};

struct Options {
    std::vector<std::string> sockets;  // never empty
    bool json = false;
    bool once = false;
    bool wide = false;
    bool dry_run = false;
    bool print_arguments = false;      // only print candidates for the next word (for shells)
    std::string plan;                  // a file; empty: none
    uint32_t interval_ms = 0;
    uint32_t timeout_ms = 0;
    Command command = Command::status;
    std::vector<std::string> words;    // after the command
};

struct CommandLine {
    Options options;
    std::optional<int> exit_status;  // set: print `out` and `err`, and exit with it
    bool has_command = false;        // false without exit_status: a console, or print_arguments
    std::string out, err;
};

enum class WithoutCommand : uint8_t { is_refused, is_console };

// argv[0] is the program's name. `standard_socket`: $FARCTL_SOCKET; may be null. Not reentrant: getopt's state is per
// process.
CommandLine parse_command_line(std::span<const char* const> argv, const char* standard_socket,
                               WithoutCommand without = WithoutCommand::is_refused);
// A line of the console: a command with its options. `given`: the options of the program; the line's override them.
CommandLine parse_console_line(std::span<const std::string> words, const Options& given);

// The kind of a word behind a command, for completion.
enum class Argument : uint8_t { none, node, node_or_self, group, command, reset };
Argument argument_of(Command command, size_t place);
std::vector<std::string_view> command_names();
std::string console_greeting(const Options& options);
// "--json"; those that fit the command, if there is one.
std::vector<std::string> option_names(std::optional<Command> command);

}  // namespace farcached::ctl
