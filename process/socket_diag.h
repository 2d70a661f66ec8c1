// SPDX-License-Identifier: BSD-3-Clause
// Facts of listening sockets that /proc/net does not show, by netlink: sock_diag(7).
//
// No state. Any thread; a call neither waits nor fails: without an answer of the kernel, the fact is unknown.
#pragma once

#include <cstdint>
#include <string>

namespace farcached::process {

// Does the IPv6 listener with this inode accept IPv4, too? False: no, or unknown.
bool accepts_ipv4(uint64_t inode);

// The inode of the socket that listens at this file; its own path may differ. 0: none, or unknown.
uint64_t unix_listener(const std::string& path);

}  // namespace farcached::process
