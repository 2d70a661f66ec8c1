// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/host_addresses.h"

#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "base/check.h"

namespace farcached::daemon {

// A running lookup shares ownership.
struct HostAddresses::Shared {
    void look_again();

    std::string host;
    uint16_t port = 0;
    LookUp look_up;

    std::mutex lock;
    std::vector<fabric::SocketAddress> addresses;  // under lock, as the next two; not empty
    bool looking = false;
    uint64_t not_before_ns = 0;
};

// The body of a detached thread, which handles a lack of memory itself.
void HostAddresses::Shared::look_again() {
    Found found;
    try {
        found = look_up(host, port);
    } catch (const std::bad_alloc&) {  // it failed (A2)
    }
    std::lock_guard hold(lock);
    looking = false;
    auto* those = std::get_if<std::vector<fabric::SocketAddress>>(&found);
    if (those != nullptr && !those->empty()) addresses = std::move(*those);
}

std::variant<std::shared_ptr<HostAddresses>, std::string> HostAddresses::make(const std::string& host, uint16_t port,
                                                                              const LookUp& look_up) {
    return make(host, port, look_up(host, port), look_up);
}

std::variant<std::shared_ptr<HostAddresses>, std::string> HostAddresses::make(const std::string& host, uint16_t port,
                                                                              Found found, const LookUp& look_up) {
    if (auto* why = std::get_if<std::string>(&found)) return std::move(*why);
    auto shared = std::make_shared<Shared>();
    shared->host = host;
    shared->port = port;
    shared->look_up = look_up;
    shared->addresses = std::get<std::vector<fabric::SocketAddress>>(std::move(found));
    CHECK(!shared->addresses.empty());
    shared->looking = fabric::numeric_address(host, port).has_value();  // for ever (A3)
    return std::shared_ptr<HostAddresses>(new HostAddresses(std::move(shared)));
}

fabric::SocketAddress HostAddresses::at(size_t turn) const {
    std::lock_guard hold(shared_->lock);
    return shared_->addresses[turn % shared_->addresses.size()];
}

bool HostAddresses::refresh(uint64_t now_ns) {
    {
        std::lock_guard hold(shared_->lock);
        if (shared_->looking || now_ns < shared_->not_before_ns) return false;
        shared_->looking = true;
        shared_->not_before_ns = now_ns + pause_ns;
    }
    try {
        std::thread([shared = shared_] { shared->look_again(); }).detach();
        return true;
    } catch (const std::exception&) {  // no thread or no memory now; a later try may succeed
        std::lock_guard hold(shared_->lock);
        shared_->looking = false;
        return false;
    }
}

}  // namespace farcached::daemon
