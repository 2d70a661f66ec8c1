// SPDX-License-Identifier: BSD-3-Clause
// Exit statuses of farbench.
#pragma once

namespace farcached::bench {

enum ExitStatus : int {
    exit_good = 0,
    exit_failed = 1,  // an error, a wrong value or a broken connection, an interrupt, or it could not begin
    exit_usage = 64,  // arguments that it does not understand
};

}  // namespace farcached::bench
