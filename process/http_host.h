// SPDX-License-Identifier: BSD-3-Clause
// Checks an HTTP request's Host header against DNS rebinding. The owner of a foreign name can point it to this host.
// Pages of that name must not read the answers; browsers send the name. Pure functions, except own_host_names().
// Owner: none; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcached::process {

// "localhost", the kernel's name of this host, the host of --http if it is a name, and the names of --http-names.
std::vector<std::string> own_host_names(const std::string& http_host, std::string_view http_names);

// Is `host` ("name", "name:80", "192.0.2.1", "[::1]:80") an IP address or one of the names?
bool is_own_host(std::string_view host, std::span<const std::string> names);

}  // namespace farcached::process
