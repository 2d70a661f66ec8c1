// SPDX-License-Identifier: BSD-3-Clause
// Texts about the file of --config, made from an option table: what settings come to, the annotated sample, and the
// keys for farcached.toml(5).
#pragma once

#include <span>
#include <string>

#include "conf/option.h"
#include "conf/program.h"

namespace farcached::conf {

// A file that says the same: read, it gives these settings again. What is not given stands there as a remark.
std::string config_text(std::span<const Option> table, const Program& program, const Settings& settings);

// Every key with what it means and what holds without it, and nodes where there can be some.
std::string config_sample(std::span<const Option> table, const Program& program);

// roff: .SS and .TP, to be placed under KEYS.
std::string config_man(std::span<const Option> table);

}  // namespace farcached::conf
