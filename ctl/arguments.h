// SPDX-License-Identifier: BSD-3-Clause
// The candidates for the next word of a command, for completion by shells and by the console. They come from the daemons.
// Owner: main; one thread.
#pragma once

#include <string>
#include <vector>

#include "ctl/command_line.h"
#include "ctl/server.h"

namespace farcached::ctl {

// Empty: any word is allowed, or no daemon answers.
std::vector<std::string> arguments_of(std::vector<Server>& servers, const Options& options);

}  // namespace farcached::ctl
