// SPDX-License-Identifier: BSD-3-Clause
// The host's boot and its processes, as /proc shows them: for memory that outlives its process.
//
// Owner: none. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace farcached {

// The kernel's random number of this boot. The problem's text begins with the file's name.
using BootId = std::array<uint64_t, 2>;
Result<BootId> read_boot_id();

struct ProcessLife {
    char state = 'X';      // proc(5): R, S, Z (its files are closed), ...
    uint64_t started = 0;  // clock ticks (sysconf(_SC_CLK_TCK)) after the boot
};
// None: there is no such process, or no /proc.
std::optional<ProcessLife> process_life(uint64_t pid);

// This boot of this host, as 32 hexadecimal digits; empty: it is not known.
std::string boot_name();
// "BOOT:DEVICE:INODE" of the Unix socket at a path. Two sockets that exist at the same time differ, on any hosts. A later one can
// have the number of one that is gone. Empty: nothing is there, this process cannot reach it, or the boot is not
// known.
std::string socket_identity(const std::string& path);
// The same for threads that must not wait, at a path that others chose. Empty, too, if a part of the path is a symbolic link, or is
// not in the kernel's cache. The server of a file system may not answer. The folders of a socket in use are in the
// cache. Before Linux 5.12 all paths are followed, and it may wait.
std::string cached_socket_identity(const std::string& path);

}  // namespace farcached
