// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/descriptor.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

#include "fabric/socket_address.h"

namespace farcached::fabric {

Descriptor reserve_descriptor() { return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

Descriptor accept_one(int listener, Descriptor& reserve, SocketAddress* from, uint64_t& turned_away) {
    for (;;) {
        SocketAddress peer;
        peer.size = sizeof peer.storage;
        Descriptor taken(accept4(listener, peer.get(), &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (taken) {
            if (from != nullptr) *from = peer;
            if (!reserve) reserve = reserve_descriptor();
            return taken;
        }
        const bool out_of_descriptors = errno == EMFILE || errno == ENFILE;
        if (out_of_descriptors && reserve) {
            reserve.reset();
            Descriptor unwanted(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
            const int error = errno;
            const bool one_waited = bool(unwanted);
            turned_away += one_waited;
            unwanted.reset();
            reserve = reserve_descriptor();
            // The kernel allocates a descriptor before it checks the queue: the error proves no waiting connection.
            if (one_waited || error == EINTR || error == ECONNABORTED || error == EPROTO) continue;
            return Descriptor();
        }
        // A connection that died in the queue fails accept4(); the listener is sound.
        if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
        return Descriptor();
    }
}

Descriptor poller_of(int fd, unsigned events) {
    Descriptor poller(epoll_create1(EPOLL_CLOEXEC));
    if (!poller) return poller;
    epoll_event wanted{};
    wanted.events = events;
    wanted.data.fd = fd;
    if (epoll_ctl(poller.get(), EPOLL_CTL_ADD, fd, &wanted) != 0) poller.reset();
    return poller;
}

Problem no_descriptor(const std::string& channel_name) {
    return system_problem(channel_name + ": no descriptor for a connection (" + std::strerror(errno) + ")");
}

}  // namespace farcached::fabric
