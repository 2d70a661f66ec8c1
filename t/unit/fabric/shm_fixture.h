// SPDX-License-Identifier: BSD-3-Clause
// One side of a connection over shared memory by hand, for t/unit/fabric/shm*.
#pragma once

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "fabric/shm/shm_greeting.h"
#include "protocol/layout_hash.h"
#include "t/unit/fabric/channel_fixture.h"

namespace shm_test {

using namespace channel_test;

inline sockaddr_un unix_address(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return address;
}

// A proxy by hand: sends `hello`, receives the answer.
struct RawProxy {
    Descriptor socket{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
    ShmWelcome welcome{};
    ShmDescriptors given;
    std::unique_ptr<LinkMemory> link;

    explicit RawProxy(const std::string& path) {
        const sockaddr_un address = unix_address(path);
        if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
            tap::bail_out("connect " + path);
    }
    std::optional<ShmNot> meet() {
        std::optional<ShmNot> no = receive_welcome(socket.get(), welcome, given);
        if (no) return no;
        link = value_of(LinkMemory::adopt(std::move(given.link), welcome.ring_bytes, welcome.version));
        return std::nullopt;
    }
    void wake() { (void)eventfd_write(given.wake_node.get(), 1); }
};

inline ShmHello good_hello() {
    ShmHello hello{};
    hello.magic = shm_hello_magic;
    hello.version = shm_version;
    hello.layout_version = layout::layout_version;
    hello.layout_hash = layout::layout_hash;
    return hello;
}

// A node by hand: listens at a path, and answers what the test wants.
struct RawNode {
    explicit RawNode(const std::string& path)
        : socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
        const sockaddr_un address = unix_address(path);
        if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
            listen(socket.get(), 4) != 0)
            tap::bail_out("listen " + path);
    }
    // The next proxy, which has sent its hello.
    void knocked() {
        peer.reset(accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (receive_hello(peer.get(), hello)) tap::bail_out("no hello");
    }
    void refuse(uint32_t version) { (void)send_refusal(peer.get(), ShmRefusal::handshake, "no", version); }
    // Without a link, one is made.
    void answer(ShmWelcome welcome, ShmDescriptors given) {
        knocked();
        if (!given.link) {
            link = LinkMemory::make(ring_bytes_min, welcome.version);
            given.link.reset(dup(link->fd()));
        }
        if (!given.wake_node) given.wake_node.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
        if (!given.wake_proxy) given.wake_proxy.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
        if (!send_welcome(peer.get(), welcome, given)) tap::bail_out("send_welcome");
        wake_proxy = std::move(given.wake_proxy);
    }
    void wake() { (void)eventfd_write(wake_proxy.get(), 1); }
    Descriptor socket, peer, wake_proxy;
    ShmHello hello{};
    std::unique_ptr<LinkMemory> link;
};

inline ShmWelcome good_welcome() {
    ShmWelcome welcome{};
    welcome.magic = shm_welcome_magic;
    welcome.version = shm_version;
    welcome.ring_bytes = ring_bytes_min;
    return welcome;
}

}  // namespace shm_test
