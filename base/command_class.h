// SPDX-License-Identifier: BSD-3-Clause
// CommandClass: the classes of commands that a client identity may be permitted. The table [permissions] of a file of --config
// names them.
// Owner: the holder, a value type. Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcached {

enum class CommandClass : uint8_t { read, write, admin, stats, count };
constexpr std::array<std::string_view, size_t(CommandClass::count)> command_class_names = {"read", "write", "admin", "stats"};
static_assert(command_class_names[size_t(CommandClass::stats)] == "stats");
constexpr std::string_view command_class_name(CommandClass one) { return command_class_names.at(size_t(one)); }

// A set of them, a bit for each.
using CommandClasses = uint8_t;
constexpr CommandClasses bit_of(CommandClass one) { return CommandClasses(1u << unsigned(one)); }
constexpr CommandClasses no_command_classes = 0;
constexpr CommandClasses all_command_classes = CommandClasses((1u << unsigned(CommandClass::count)) - 1);

// Identities in the table that are no client's name.
constexpr std::string_view anonymous_identity = "anonymous";  // clients without one
constexpr std::string_view other_identities = "*";            // those that the table does not name

}  // namespace farcached
