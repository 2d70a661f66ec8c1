// SPDX-License-Identifier: BSD-3-Clause
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "fabric/descriptor.h"
#include "fabric/shm/shm_channel.h"
#include "fabric/shm/shm_internal.h"
#include "protocol/layout_hash.h"

namespace farcached::fabric {

namespace {

constexpr mode_t socket_mode = 0600;  // its user and root, as in the greeting
constexpr mode_t socket_mode_of_group = 0660;

bool address_of(const std::string& path, sockaddr_un& address) {
    address = {};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) return false;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return true;
}

}  // namespace

Descriptor shm_socket() {
    return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool ShmListener::Offer::fits(const ShmHello& hello) const {
    if (!region) return false;
    return layout::may_read({hello.layout_version, hello.layout_hash});
}

Result<std::unique_ptr<Channel>> connect_shm(const std::string& path, MappedRegions& regions,
                                             ChannelEvents& events, const ShmOptions& options) {
    const std::string name = "shm:" + path;
    sockaddr_un address;
    if (!address_of(path, address)) return system_problem(name + ": a path of 1 to 107 bytes is needed");
    Descriptor fd = shm_socket();
    Descriptor poller;
    if (fd) poller = poller_of(fd.get(), EPOLLIN | EPOLLRDHUP);
    if (!poller) return no_descriptor(name);
    auto channel = std::make_unique<ShmChannel>(ShmChannel::Side::proxy, std::move(fd),
                                                std::move(poller), name, events, options);
    channel->connect(address, regions);
    return channel;
}

ShmListener::ShmListener(Descriptor socket, std::shared_ptr<const Offer> offer)
    : socket_(std::move(socket)), reserve_(reserve_descriptor()), offer_(std::move(offer)) {
    struct stat made {};
    if (lstat(offer_->path.c_str(), &made) != 0) return;
    device_ = made.st_dev;
    inode_ = made.st_ino;
}

ShmListener::~ShmListener() {
    struct stat there {};
    if (lstat(offer_->path.c_str(), &there) != 0) return;
    if (there.st_dev == device_ && there.st_ino == inode_) unlink(offer_->path.c_str());
}

Result<std::unique_ptr<ShmListener>> ShmListener::listen(const Owner& owner, const Region* region,
                                                         const ShmOptions& options, int backlog) {
    auto offer = std::make_shared<Offer>();
    offer->path = owner.path();
    offer->name = "shm:" + offer->path;
    offer->options = options;
    auto refuse = [&](const char* call, int reason) {
        return system_problem(std::string(call) + ": cannot listen at " + offer->name + ": " + std::strerror(reason));
    };
    CHECK(ring_bytes_valid(options.ring_bytes));
    if (region != nullptr) {
        CHECK(region->view().header == &owner.header());
        try {
            offer->region.reset(region->open_read_only());
        } catch (const std::system_error& failed) {
            return system_problem(failed.what());
        }
        offer->region_bytes = region->view().region_bytes;
        offer->incarnation = region->view().header->incarnation;
    }
    sockaddr_un address;
    if (!address_of(offer->path, address)) return refuse("bind", ENAMETOOLONG);
    Descriptor fd = shm_socket();
    if (!fd) return refuse("socket", errno);
    struct stat old {};
    if (lstat(offer->path.c_str(), &old) == 0 && S_ISSOCK(old.st_mode)) unlink(offer->path.c_str());
    if (fchmod(fd.get(), socket_mode) != 0)
        return refuse("fchmod", errno);  // bind() gives this mode to the file
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        return refuse("bind", errno);
    // Not by fchmod(): bind() applies the umask, which removes the group's bits.
    if (options.group && chmod(address.sun_path, socket_mode_of_group) != 0)
        return refuse("chmod", errno);
    if (::listen(fd.get(), backlog) != 0) return refuse("listen", errno);
    return std::unique_ptr<ShmListener>(new ShmListener(std::move(fd), std::move(offer)));
}

std::unique_ptr<Channel> ShmListener::accept(ChannelEvents& events) {
    for (;;) {
        Descriptor fd = accept_one(socket_.get(), reserve_, nullptr, turned_away_);
        if (!fd) return nullptr;
        Descriptor poller = poller_of(fd.get(), EPOLLIN | EPOLLRDHUP);
        if (!poller) {
            turned_away_++;
            continue;
        }
        ucred peer{};
        socklen_t size = sizeof peer;
        (void)getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size);
        auto channel = std::make_unique<ShmChannel>(
            ShmChannel::Side::node, std::move(fd), std::move(poller),
            offer_->name + " from process " + std::to_string(peer.pid), events, offer_->options);
        channel->set_source("process " + std::to_string(peer.pid));
        channel->accepted(offer_);
        return channel;
    }
}

std::string ShmListener::describe() const { return offer_->name; }

}  // namespace farcached::fabric
