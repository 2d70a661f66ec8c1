// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/name_lookup.h"

#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace farcached::fabric {

std::variant<std::vector<SocketAddress>, std::string> look_up(const std::string& host, uint16_t port) {
    addrinfo hints{};
    hints.ai_flags = AI_PASSIVE;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int failure =
        getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &list);
    if (failure != 0) return std::string(failure == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(failure));
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> free_later(list, &freeaddrinfo);
    std::vector<SocketAddress> found;
    for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
        SocketAddress address;
        if (at->ai_addrlen > sizeof address.storage) continue;
        std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
        address.size = at->ai_addrlen;
        // A name may list one address twice, as when /etc/hosts has it on two lines.
        if (std::find(found.begin(), found.end(), address) == found.end()) found.push_back(address);
    }
    if (found.empty()) return std::string("it has no address");
    return found;
}

}  // namespace farcached::fabric
