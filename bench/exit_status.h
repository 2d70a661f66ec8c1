// SPDX-License-Identifier: BSD-3-Clause
// Exit statuses of farbench.
#pragma once

namespace farcached::bench {

enum ExitStatus : int {
    exit_good = 0,
    exit_failed = 1,  // an error, a wrong value, a broken connection, an interrupt, or a failed start
    exit_usage = 64,  // invalid arguments
};

}  // namespace farcached::bench
