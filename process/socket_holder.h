// SPDX-License-Identifier: BSD-3-Clause
// Names the process that listens at an address, for messages of a start. It is found in /proc, which shows processes of other
// users to root only. No name is better than that of a process that does not hold the address.
//
// No state. Any thread; each call reads the list of processes.
#pragma once

#include <sys/socket.h>

#include <string>

namespace farcached::process {

// "memcached, process 812", or "this process". Empty: no listener, or it is not visible.
std::string tcp_holder(const sockaddr* at);
std::string unix_holder(const std::string& path);

// After "in use": " by memcached, process 812; stop it, or choose another address".
std::string holder_words(const std::string& holder);
// The error of bind() or listen(), with the holder of an address in use.
std::string bind_error(int error, const sockaddr* at);

}  // namespace farcached::process
