// SPDX-License-Identifier: BSD-3-Clause
#include "process/socket_diag.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/function_ref.h"

namespace farcached::process {

namespace {

constexpr uint32_t listening = 1U << TCP_LISTEN;
constexpr size_t answer_bytes_max = 32 << 10;  // the kernel's largest part of a dump

std::string_view payload_of(const nlmsghdr& message, size_t header_bytes) {
    const std::string_view all(reinterpret_cast<const char*>(&message), message.nlmsg_len);
    return all.substr(std::min<size_t>(NLMSG_SPACE(header_bytes), all.size()));
}

// The value of the first attribute of that type behind the header of a message. Empty: it has none.
std::string_view attribute(const nlmsghdr& message, size_t header_bytes, uint16_t type) {
    std::string_view rest = payload_of(message, header_bytes);
    rtattr head{};
    while (rest.size() >= sizeof head) {
        std::memcpy(&head, rest.data(), sizeof head);
        if (head.rta_len < sizeof head || head.rta_len > rest.size()) return {};
        if (head.rta_type == type) return rest.substr(sizeof head, head.rta_len - sizeof head);
        rest.remove_prefix(std::min<size_t>(RTA_ALIGN(head.rta_len), rest.size()));
    }
    return {};
}

// Calls each() for the messages of an answer. False: it goes on.
bool is_last(const char* bytes, size_t size, FunctionRef<void(const nlmsghdr&)> each) {
    while (size >= sizeof(nlmsghdr)) {
        const auto& message = *reinterpret_cast<const nlmsghdr*>(bytes);
        if (message.nlmsg_len < sizeof message || message.nlmsg_len > size) return true;
        if (message.nlmsg_type == NLMSG_DONE || message.nlmsg_type == NLMSG_ERROR) return true;
        each(message);
        const size_t step = std::min<size_t>(NLMSG_ALIGN(message.nlmsg_len), size);
        bytes += step;
        size -= step;
    }
    return false;
}

template <class Request>
void dump(const Request& request, FunctionRef<void(const nlmsghdr&)> each) {
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0) return;
    struct {
        nlmsghdr header;
        Request body;
    } question{};
    question.header.nlmsg_len = sizeof question;
    question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    question.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    question.body = request;
    std::vector<char> answer(answer_bytes_max);
    ssize_t got = send(fd, &question, sizeof question, 0);
    // Each recv() makes the kernel prepare the next part of the dump, so none has to wait.
    while (got > 0) {
        got = recv(fd, answer.data(), answer.size(), MSG_DONTWAIT);
        if (got > 0 && is_last(answer.data(), size_t(got), each)) break;
    }
    close(fd);
}

}  // namespace

bool accepts_ipv4(uint64_t inode) {
    inet_diag_req_v2 request{};
    request.sdiag_family = AF_INET6;
    request.sdiag_protocol = IPPROTO_TCP;
    request.idiag_states = listening;
    bool accepts = false;
    dump(request, [&](const nlmsghdr& message) {
        inet_diag_msg found{};
        if (message.nlmsg_len < NLMSG_LENGTH(sizeof found)) return;
        std::memcpy(&found, NLMSG_DATA(&message), sizeof found);
        const std::string_view only_ipv6 = attribute(message, sizeof found, INET_DIAG_SKV6ONLY);
        if (found.idiag_inode == inode) accepts = only_ipv6.size() == 1 && only_ipv6[0] == 0;
    });
    return accepts;
}

uint64_t unix_listener(const std::string& path) {
    struct stat file {};
    if (stat(path.c_str(), &file) != 0) return 0;
    std::error_code failed;
    const std::string absolute = std::filesystem::absolute(path, failed).string();
    constexpr unsigned minor_bits = 20;  // of the kernel's own device numbers
    const uint32_t device = (major(file.st_dev) << minor_bits) | minor(file.st_dev);
    unix_diag_req request{};
    request.sdiag_family = AF_UNIX;
    request.udiag_states = listening;
    request.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_VFS;
    uint64_t inode = 0;
    dump(request, [&](const nlmsghdr& message) {
        unix_diag_msg found{};
        unix_diag_vfs bound{};
        if (message.nlmsg_len < NLMSG_LENGTH(sizeof found)) return;
        std::memcpy(&found, NLMSG_DATA(&message), sizeof found);
        const std::string_view vfs = attribute(message, sizeof found, UNIX_DIAG_VFS);
        if (vfs.size() != sizeof bound) return;  // it has no file
        std::memcpy(&bound, vfs.data(), sizeof bound);
        if (bound.udiag_vfs_ino != uint32_t(file.st_ino)) return;
        // For a file of overlayfs or btrfs, stat() may show another device.
        const std::string_view name = attribute(message, sizeof found, UNIX_DIAG_NAME);
        if (bound.udiag_vfs_dev == device || name.substr(0, name.find('\0')) == absolute) inode = found.udiag_ino;
    });
    return inode;
}

}  // namespace farcached::process
