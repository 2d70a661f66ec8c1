// SPDX-License-Identifier: BSD-3-Clause
// The classes that each command needs (base/command_class.h): of the text, meta and binary protocols, in one table. An engine asks
// once for each request, after its parse and before its execution.
//
// Owner: none; pure functions of a request. Threads: any.
// N1  Every TextVerb and every BinaryVerb has a row, so no command is without an answer.
// N2  A command with several effects needs the classes of all of them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/command_class.h"
#include "protocol/binary.h"
#include "protocol/text.h"

namespace farcached::protocol {

struct CommandNeeds {
    std::string_view command;  // its name, for logs: no key, no value
    CommandClasses classes = no_command_classes;
};

// The names point into the request, or are constants.
CommandNeeds needs_of(const TextRequest& request);
CommandNeeds needs_of(const BinaryRequest& request);

}  // namespace farcached::protocol
