// SPDX-License-Identifier: BSD-3-Clause
// Limits the process to a list of system calls (-o drop_privileges, --drop-privileges), by a seccomp filter.
//
// Owner: main. check_system_calls() before anything is started; limit_system_calls() once, when the threads of the start run.
// Y1  The filter holds for every thread (TSYNC) and for all threads started later; it cannot be removed.
// Y2  A call outside the list fails with EPERM and the process continues, so that a library that tries a new call gets
//     an error. The kernel's audit log names each call. clone3 fails with ENOSYS: its flags are in memory that a filter
//     cannot read, and the C library then uses clone.
// Y3  The process cannot execute a program, create a process, or trace one. It can send signals only to itself. No
//     mapping is writable and executable at the same time, and none becomes executable. This does not stop an
//     intruder's code that already runs in the process. Such code can write a file or a memfd and map it executable, as
//     name services and RDMA libraries are loaded after the start. It can also write code through /proc/self/mem.
// Y4  Calls that only one use needs (SystemCallUse) are in the list only with that use; a reload that needs more is
//     refused.
#pragma once

#include "conf/program.h"

namespace farcached::process {

struct SystemCallUse {
    bool ring = false;  // clients' sockets by io_uring
    bool rdma = false;  // queue pairs, by the devices of /dev/infiniband
};

// Why a filter is impossible: the build or the kernel lacks support.
Refusal check_system_calls();
// Installs the filter; it is permanent.
Refusal limit_system_calls(SystemCallUse use);
// Any thread: does the filter allow all calls of this use?
bool system_calls_cover(SystemCallUse use);
}  // namespace farcached::process
