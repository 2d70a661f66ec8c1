// SPDX-License-Identifier: BSD-3-Clause
// Reading a TOML file of settings. Its keys are the rows of an option table that are marked in_file,
// under the same names and within the same bounds; a dot in a name is a table's.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/option.h"

namespace farcached::conf {

constexpr size_t config_bytes_max = 1 << 20;  // longer is no configuration

// Both set what they can and return all that is wrong, in the file's order, each a line
// "NAME:LINE:COLUMN: key: what was found; what is allowed" without its end. None: all is set.
// Of what is no TOML only the first error is told: the rest cannot be read.
std::vector<std::string> read_config_file(const std::string& path, std::span<const Option> table,
                                          Settings& settings);
std::vector<std::string> read_config_text(std::string_view text, const std::string& name,
                                          std::span<const Option> table, Settings& settings);

}  // namespace farcached::conf
