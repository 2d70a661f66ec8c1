// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/shm/shm_greeting.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

namespace farcached::fabric {

namespace {

constexpr size_t descriptors_max = 4;

// Sends a record with descriptors, in one piece or not at all.
bool send_record(int socket, const void* record, size_t size, std::span<const int> descriptors) {
    iovec part{const_cast<void*>(record), size};
    alignas(cmsghdr) char control[CMSG_SPACE(descriptors_max * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
    }
    for (;;) {
        const ssize_t sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) return size_t(sent) == size;
        if (errno != EINTR) return false;
    }
}

struct Received {
    size_t bytes = 0;
    bool cut = false;  // the record was larger than the buffer
    size_t count = 0;
    std::array<Descriptor, descriptors_max> descriptors;
};

void take_descriptors(msghdr& message, Received& received) {
    for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(at) + i * sizeof fd, sizeof fd);
            Descriptor owned(fd);
            if (received.count < descriptors_max)
                received.descriptors[received.count++] = std::move(owned);
        }
    }
}

std::optional<ShmNot> receive_record(int socket, void* record, size_t size, Received& received) {
    iovec part{record, size};
    alignas(cmsghdr) char control[CMSG_SPACE(descriptors_max * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t got;
    do got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return ShmNot{true, {}, "", 0};
    if (got < 0) {
        const bool reset = errno == ECONNRESET || errno == EPIPE;
        return ShmNot{false, reset ? ChannelEnd::reset : ChannelEnd::system, std::strerror(errno), 0};
    }
    take_descriptors(message, received);
    if (got == 0) return ShmNot{false, ChannelEnd::peer_closed, "before its greeting", 0};
    received.bytes = size_t(got);
    received.cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    return std::nullopt;
}

// The start of both greetings.
struct Beginning {
    uint64_t magic;
    uint32_t version;
};
constexpr size_t beginning_bytes = 12;

std::optional<ShmNot> check_beginning(const void* record, const Received& received, uint64_t magic,
                                      const char* whose) {
    Beginning start{};
    std::memcpy(&start, record, std::min(received.bytes, beginning_bytes));
    if (received.bytes < beginning_bytes || start.magic != magic)
        return ShmNot{false, ChannelEnd::handshake, "the received bytes are no greeting", 0};
    if (start.version >= shm_version_lowest && start.version <= shm_version_spoken()) return std::nullopt;
    return ShmNot{false, ChannelEnd::handshake,
                  std::string(whose) + " speaks shm version " + std::to_string(start.version) +
                      ", this side " + std::to_string(shm_version_spoken()),
                  0};
}

ChannelEnd end_of(ShmRefusal refusal) {
    switch (refusal) {
        case ShmRefusal::permission:
            return ChannelEnd::permission;
        case ShmRefusal::no_memory:
            return ChannelEnd::no_memory;
        default:
            return ChannelEnd::handshake;
    }
}

const ShmNot wrong_size{false, ChannelEnd::handshake, "a greeting of the wrong size", 0};

}  // namespace

bool send_hello(int socket, const ShmHello& hello) {
    return send_record(socket, &hello, sizeof hello, {});
}

bool send_welcome(int socket, const ShmWelcome& welcome, const ShmDescriptors& descriptors) {
    const std::array<int, descriptors_max> fds = {
        descriptors.link.get(), descriptors.wake_node.get(), descriptors.wake_proxy.get(),
        descriptors.region.get()};
    const size_t count = 3 + welcome.region_count;
    return send_record(socket, &welcome, sizeof welcome, std::span(fds).first(count));
}

bool send_grant(int socket, const ShmGrant& grant, const Descriptor& region) {
    const int fd = region.get();
    return send_record(socket, &grant, sizeof grant, std::span(&fd, 1));
}

bool send_refusal(int socket, ShmRefusal reason, std::string_view text, uint32_t version) {
    ShmWelcome refusal{};
    refusal.magic = shm_welcome_magic;
    refusal.version = version;
    refusal.refused = uint32_t(reason);
    std::memcpy(refusal.text, text.data(), std::min(text.size(), sizeof refusal.text));
    return send_record(socket, &refusal, sizeof refusal, {});
}

std::optional<ShmNot> receive_hello(int socket, ShmHello& hello) {
    Received received;
    if (auto no = receive_record(socket, &hello, sizeof hello, received)) return no;
    if (auto no = check_beginning(&hello, received, shm_hello_magic, "the proxy")) return no;
    if (received.bytes != sizeof hello || received.cut || received.count != 0) return wrong_size;
    return std::nullopt;
}

std::optional<ShmNot> receive_welcome(int socket, ShmWelcome& welcome,
                                      ShmDescriptors& descriptors) {
    Received received;
    if (auto no = receive_record(socket, &welcome, sizeof welcome, received)) return no;
    if (auto no = check_beginning(&welcome, received, shm_welcome_magic, "the node")) return no;
    if (received.bytes != sizeof welcome || received.cut) return wrong_size;
    if (welcome.refused != 0) {
        std::string text(welcome.text, strnlen(welcome.text, sizeof welcome.text));
        for (char& c : text)
            if (c < 0x20 || c > 0x7e) c = '?';
        return ShmNot{false, end_of(ShmRefusal(welcome.refused)), text, welcome.version};
    }
    if (welcome.region_count > 1 || received.count != 3 + welcome.region_count)
        return ShmNot{false, ChannelEnd::handshake, "a greeting with the wrong descriptors", 0};
    descriptors.link = std::move(received.descriptors[0]);
    descriptors.wake_node = std::move(received.descriptors[1]);
    descriptors.wake_proxy = std::move(received.descriptors[2]);
    descriptors.region = std::move(received.descriptors[3]);
    return std::nullopt;
}

std::optional<ShmNot> receive_grant(int socket, ShmGrant& grant, Descriptor& region) {
    Received received;
    if (auto no = receive_record(socket, &grant, sizeof grant, received)) return no;
    if (auto no = check_beginning(&grant, received, shm_grant_magic, "the node")) return no;
    if (received.bytes != sizeof grant || received.cut || grant.reserved != 0) return wrong_size;
    if (received.count != 1) return ShmNot{false, ChannelEnd::handshake, "a grant with the wrong descriptors", 0};
    region = std::move(received.descriptors[0]);
    return std::nullopt;
}

// The kernel shows this id for every group that this process's user namespace does not map.
constexpr gid_t unmapped_group = 65534;

Refusal refuse_peer(int socket, bool group) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return system_problem("SO_PEERCRED: " + std::string(std::strerror(errno)));
    if (peer.uid == geteuid() || peer.uid == 0) return {};
    if (group && peer.gid == getegid() && peer.gid != unmapped_group) return {};
    std::string text = "it belongs to user " + std::to_string(peer.uid) + ", this side to " + std::to_string(geteuid());
    if (group) text += "; and to group " + std::to_string(peer.gid) + ", this side to " + std::to_string(getegid());
    return system_problem(std::move(text));
}

}  // namespace farcached::fabric
