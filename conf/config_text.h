// SPDX-License-Identifier: BSD-3-Clause
// Generates texts about the file of --config from an option table: the resulting settings, the annotated sample, and the keys
// for farcached.toml(5).
#pragma once

#include <span>
#include <string>

#include "conf/option.h"
#include "conf/program.h"

namespace farcached::conf {

// A file that yields these settings when read. Unset keys are comments.
std::string config_text(std::span<const Option> table, const Program& program, const Settings& settings);

// Every key with its help and default, and a sample node if the program has nodes.
std::string config_sample(std::span<const Option> table, const Program& program);

// roff: .SS and .TP, to be placed under KEYS.
std::string config_man(std::span<const Option> table);

}  // namespace farcached::conf
