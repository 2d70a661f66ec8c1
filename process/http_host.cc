// SPDX-License-Identifier: BSD-3-Clause
#include "process/http_host.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>

#include "conf/host_names.h"

namespace farcached::process {

namespace {

bool is_address(int family, std::string_view text) {
    unsigned char bytes[16];
    return inet_pton(family, std::string(text).c_str(), bytes) == 1;
}

bool is_port(std::string_view text) { return text.find_first_not_of("0123456789") == text.npos; }

}  // namespace

std::vector<std::string> own_host_names(const std::string& http_host, std::string_view http_names) {
    std::vector<std::string> names = {"localhost"};
    const auto add = [&](std::string_view list) {
        for (std::string& name : conf::host_names_of(list)) names.push_back(std::move(name));
    };
    char own[256] = "";
    if (gethostname(own, sizeof own - 1) == 0) add(own);
    add(http_host);
    add(http_names);
    return names;
}

bool is_own_host(std::string_view host, std::span<const std::string> names) {
    if (host.starts_with('[')) {
        const size_t end = host.find(']');
        if (end == host.npos) return false;
        const std::string_view behind = host.substr(end + 1);
        if (!behind.empty() && !(behind.starts_with(':') && is_port(behind.substr(1)))) return false;
        return is_address(AF_INET6, host.substr(1, end - 1));
    }
    if (const size_t colon = host.find(':'); colon != host.npos) {
        if (!is_port(host.substr(colon + 1))) return false;
        host = host.substr(0, colon);
    }
    if (is_address(AF_INET, host)) return true;
    const std::string asked = conf::host_name_of(host);
    return !asked.empty() && std::find(names.begin(), names.end(), asked) != names.end();
}

}  // namespace farcached::process
