// SPDX-License-Identifier: BSD-3-Clause
// The CPUs that threads run on.
// Owner: none; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "conf/program.h"

namespace farcached::process {

// Refuses CPUs that this process may not use. `option`: names the option in the message.
Refusal check_cpus(std::string_view option, std::span<const uint32_t> cpus);

// Pins the calling thread, and the threads that it starts, to that CPU. If the process lost the CPU since check_cpus(),
// a warning is logged and the thread runs unpinned.
void pin_this_thread(uint32_t cpu);

}  // namespace farcached::process
