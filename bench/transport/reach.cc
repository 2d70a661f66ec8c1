// SPDX-License-Identifier: BSD-3-Clause
#include "bench/transport/reach.h"

#include <ctime>
#include <stdexcept>
#include <utility>
#include <variant>

#include "fabric/name_lookup.h"
#include "fabric/shm_channel.h"
#include "fabric/tcp_channel.h"

namespace farcached::bench {

namespace {

fabric::VerbsConfig verbs_config(bool spin) {
    fabric::VerbsConfig config;
    if (spin) config.sleeps = false;
    return config;
}

}  // namespace

Reach::Reach(const NodePlace& to, bool spin) : place_(to), devices_(verbs_config(spin)) {
    if (place_.via == Via::shm) return;
    auto found = fabric::look_up(place_.host, place_.port);
    if (auto* why = std::get_if<std::string>(&found))
        throw std::runtime_error("the host " + place_.host + " is not known: " + *why);
    addresses_ = std::get<std::vector<fabric::SocketAddress>>(std::move(found));
}

std::unique_ptr<fabric::Channel> Reach::connect(const fabric::VerbsMemories& memories, fabric::ChannelEvents& events,
                                                size_t turn, std::string& error) {
    if (place_.via == Via::shm) return fabric::connect_shm(place_.host, regions_, events, fabric::ShmOptions(), error);
    const fabric::SocketAddress& to = addresses_[turn % addresses_.size()];
    if (place_.via == Via::verbs) return fabric::connect_verbs(to, devices_, memories, events, error);
    return fabric::connect_tcp(to, events, error);
}

double thread_cpu_s() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

}  // namespace farcached::bench
