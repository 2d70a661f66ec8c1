// SPDX-License-Identifier: BSD-3-Clause
// Replaces process/system_calls.cc in a build without libseccomp.
#include "process/system_calls.h"

namespace farcached::process {

Refusal check_system_calls() {
    return Problem{conf::exit_system,
                         "drop_privileges: this program was built without libseccomp, so every system call would stay allowed; "
                         "build it with libseccomp, or leave the option out\n"};
}

Refusal limit_system_calls(SystemCallUse) { return check_system_calls(); }

bool system_calls_cover(SystemCallUse) { return true; }

}  // namespace farcached::process
