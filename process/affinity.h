// SPDX-License-Identifier: BSD-3-Clause
// Which CPUs threads run on.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "conf/exit_status.h"

namespace farcached::process {

// Refused: one of them is not among those that this process may use. `option`: which asked for them.
conf::Refusal check_cpus(std::string_view option, std::span<const uint32_t> cpus);

// The calling thread runs there only, and so do those that it starts. Where that fails, which takes that the CPU was taken from
// the process since check_cpus(), it runs on, where it may, and a warning says so.
void pin_this_thread(uint32_t cpu);

}  // namespace farcached::process
