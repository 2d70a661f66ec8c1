// SPDX-License-Identifier: BSD-3-Clause
// Reading a TOML file of settings. Its keys are the rows of an option table that are marked in_file,
// under the same names and within the same bounds; a dot in a name is a table's.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "conf/option.h"

namespace farcached::conf {

constexpr size_t config_bytes_max = 1 << 20;  // longer is no configuration

// The file's bytes, or why not: "PATH: cannot be opened: ...".
std::variant<std::string, Problem> read_whole_file(const std::string& path);

// Sets what it can and returns all that is wrong, in the text's order, each a line
// "NAME:LINE:COLUMN: key: what was found; what is allowed" without its end. None: all is set.
// Of what is no TOML only the first error is told: the rest cannot be read.
std::vector<std::string> read_config_text(std::string_view text, const std::string& name,
                                          std::span<const Option> table, Settings& settings);

}  // namespace farcached::conf
