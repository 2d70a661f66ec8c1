// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/host_addresses.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

#include "base/check.h"

namespace farcached::daemon {

// A running lookup shares ownership.
struct HostAddresses::Shared {
    void look_again();

    std::string host;
    uint16_t port = 0;
    LookUp look_up;

    std::mutex lock;
    std::vector<fabric::SocketAddress> addresses;  // under lock, as the next three
    std::string why;                               // there are none (A4)
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
    if (those != nullptr && !those->empty())
        addresses = std::move(*those);
    else if (auto* const reason = std::get_if<std::string>(&found); reason != nullptr && !reason->empty())
        why = std::move(*reason);
}

std::shared_ptr<HostAddresses> HostAddresses::make(const std::string& host, uint16_t port,
                                                   std::vector<fabric::SocketAddress> addresses, const LookUp& look_up) {
    CHECK(!addresses.empty());
    std::shared_ptr<HostAddresses> made = unknown(host, port, {}, look_up);
    made->shared_->addresses = std::move(addresses);
    return made;
}

std::shared_ptr<HostAddresses> HostAddresses::unknown(const std::string& host, uint16_t port, std::string why,
                                                      const LookUp& look_up) {
    auto shared = std::make_shared<Shared>();
    shared->host = host;
    shared->port = port;
    shared->look_up = look_up;
    shared->why = std::move(why);
    shared->looking = fabric::numeric_address(host, port).has_value();  // for ever (A3)
    return std::shared_ptr<HostAddresses>(new HostAddresses(std::move(shared)));
}

std::shared_ptr<HostAddresses> HostAddresses::of_literals(const std::vector<std::string>& addresses, uint16_t port) {
    if (addresses.empty()) return nullptr;
    std::vector<fabric::SocketAddress> found;
    for (const std::string& one : addresses) {
        const std::optional<fabric::SocketAddress> address = fabric::numeric_address(one, port);
        CHECK(address.has_value());
        found.push_back(*address);
    }
    return make(addresses.front(), port, std::move(found), {});
}

Result<fabric::SocketAddress> HostAddresses::at(size_t turn) const {
    std::lock_guard hold(shared_->lock);
    if (shared_->addresses.empty())
        return system_problem("the host " + shared_->host + " is not known (" + shared_->why + "); it is looked up again");
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

namespace {

using Found = HostAddresses::Found;

constexpr size_t at_once_max = 32;

// State shared by all threads of one call; the last one frees it.
struct Lookups {
    Lookups(std::vector<HostRequest> hosts, const HostAddresses::LookUp& how)
        : asked(std::move(hosts)), look_up(how), found(asked.size()), left(asked.size()) {}

    void work();

    const std::vector<HostRequest> asked;
    const HostAddresses::LookUp look_up;
    std::mutex lock;
    std::condition_variable all_there;
    struct Ended {
        bool has = false;
        std::optional<Found> with;
    };
    std::vector<Ended> found;  // under lock, as the rest
    size_t next = 0, left;
    bool given_up = false;
};

void Lookups::work() {
    for (;;) {
        size_t mine = 0;
        {
            std::lock_guard hold(lock);
            if (given_up || next == asked.size()) return;
            mine = next++;
        }
        std::optional<Found> answer;
        try {
            answer = look_up(asked[mine].host, asked[mine].port);
        } catch (const std::exception&) {  // no memory for the reason either
        }
        std::lock_guard hold(lock);
        found[mine] = {true, std::move(answer)};
        if (--left == 0) all_there.notify_one();
    }
}

// False: no thread could start.
bool start_thread(const std::shared_ptr<Lookups>& all) {
    try {
        std::thread([all] { all->work(); }).detach();
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

}  // namespace

std::vector<Found> look_up_all(std::vector<HostRequest> asked, const HostAddresses::LookUp& look_up,
                               std::chrono::milliseconds patience) {
    const bool waits = std::any_of(asked.begin(), asked.end(), [](const HostRequest& one) {
        return !fabric::numeric_address(one.host, one.port).has_value();
    });
    const size_t wanted = waits ? std::min(asked.size(), at_once_max) : 0;
    const auto all = std::make_shared<Lookups>(std::move(asked), look_up);
    size_t threads = 0;
    while (threads < wanted && start_thread(all)) threads++;
    if (threads == 0) all->work();
    std::unique_lock hold(all->lock);
    all->all_there.wait_for(hold, patience, [&] { return all->left == 0; });
    all->given_up = true;
    std::vector<Found> found;
    for (Lookups::Ended& one : all->found) {
        if (one.with.has_value())
            found.push_back(std::move(*one.with));
        else if (one.has)
            found.emplace_back(std::in_place_type<std::string>, "there was no memory to look it up");
        else
            found.emplace_back(std::in_place_type<std::string>,
                               "no name server answered in " + std::to_string(patience.count() / 1000) + " s");
    }
    return found;
}

}  // namespace farcached::daemon
