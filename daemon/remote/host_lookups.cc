// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/host_lookups.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace farcached::daemon {

namespace {

using Found = HostAddresses::Found;

constexpr size_t at_once_max = 32;

// State shared by all threads of one call; the last one frees it.
struct Lookups {
    Lookups(std::vector<HostAsked> hosts, const HostAddresses::LookUp& how)
        : asked(std::move(hosts)), look_up(how), found(asked.size()), left(asked.size()) {}

    void work();

    const std::vector<HostAsked> asked;
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

std::vector<Found> look_up_all(std::vector<HostAsked> asked, const HostAddresses::LookUp& look_up,
                               std::chrono::milliseconds patience) {
    const bool waits = std::any_of(asked.begin(), asked.end(), [](const HostAsked& one) {
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
            found.push_back("there was no memory to look it up");
        else
            found.push_back("no name server answered in " + std::to_string(patience.count() / 1000) + " s");
    }
    return found;
}

}  // namespace farcached::daemon
