// SPDX-License-Identifier: BSD-3-Clause
// Generates texts from an option table: --help and the options of the man page; also versions and licenses.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/option.h"
#include "conf/program.h"

namespace farcached::conf {

std::string help_text(std::span<const Option> table, const Program& program = farcached_program());
std::string license_text();
std::string version_text();
std::string full_version_text();
// A section's rows in help order: flags before suboptions, flags by letter.
std::vector<const Option*> rows_of(Section section, std::span<const Option> table);
std::string roff(std::string_view text);
std::string options_man(std::span<const Option> table);  // roff: .SS and .TP, to be placed under OPTIONS

// Generates texts about the file of --config from an option table: the resulting settings, the annotated sample, and the keys
// for farcached.toml(5).
// A file that yields these settings when read. Unset keys are comments.
std::string config_text(std::span<const Option> table, const Program& program, const Settings& settings);

// Every key with its help and default, and a sample node if the program has nodes.
std::string config_sample(std::span<const Option> table, const Program& program);

// roff: .SS and .TP, to be placed under KEYS.
std::string config_man(std::span<const Option> table);

}  // namespace farcached::conf
