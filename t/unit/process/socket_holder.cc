// SPDX-License-Identifier: BSD-3-Clause
// The holder of an address in use. A bug: the holder of an address was invisible, and a process that listens at the same port of
// other addresses was named.
#include "process/socket_holder.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/check.h"
#include "t/lib/tap.h"

using farcached::process::tcp_holder;
using farcached::process::unix_holder;
using tap::is;

namespace {

struct Address {
    union {
        sockaddr base;
        sockaddr_in v4;
        sockaddr_in6 v6;
    };
    socklen_t size;
};

Address address(const std::string& text, uint16_t port) {
    Address at{};
    if (text.find(':') == text.npos) {
        at.v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
        CHECK(inet_pton(AF_INET, text.c_str(), &at.v4.sin_addr) == 1);
        at.size = sizeof at.v4;
    } else {
        at.v6.sin6_family = AF_INET6;
        at.v6.sin6_port = htons(port);
        CHECK(inet_pton(AF_INET6, text.c_str(), &at.v6.sin6_addr) == 1);
        at.size = sizeof at.v6;
    }
    return at;
}

// A listener of this process.
class Listener {
  public:
    Listener(const std::string& text, uint16_t port, bool v6_only = true, bool listening = true) {
        const Address at = address(text, port);
        fd_ = socket(at.base.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int on = 1, only = v6_only;
        if (fd_ < 0 || setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) return;
        if (at.base.sa_family == AF_INET6) (void)setsockopt(fd_, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
        listens_ = bind(fd_, &at.base, at.size) == 0 && listening && listen(fd_, 1) == 0;
    }
    ~Listener() {
        for (int fd : {fd_, mail_[0], mail_[1]})
            if (fd >= 0) close(fd);
    }
    Listener(const Listener&) = delete;

    bool listens() const { return listens_; }
    uint16_t port() const {
        sockaddr_storage at{};
        socklen_t size = sizeof at;
        CHECK(getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
        return ntohs(reinterpret_cast<const sockaddr_in&>(at).sin_port);
    }
    // The socket goes on listening, as a message that no process has received: no process shows it.
    void hide() {
        CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, mail_) == 0);
        char byte = 0;
        iovec data{&byte, 1};
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd_)] = {};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        cmsghdr* rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof fd_);
        std::memcpy(CMSG_DATA(rights), &fd_, sizeof fd_);
        CHECK(sendmsg(mail_[0], &message, 0) == 1);
        close(fd_);
        fd_ = -1;
    }

  private:
    int fd_ = -1;
    int mail_[2] = {-1, -1};
    bool listens_ = false;
};

std::string holder(const std::string& text, uint16_t port) {
    const Address at = address(text, port);
    return tcp_holder(&at.base);
}

void of_one_listener() {
    Listener local("127.0.0.1", 0);
    CHECK(local.listens());
    const uint16_t port = local.port();
    is(holder("127.0.0.1", port), "this process", "a listener at the address");
    is(holder("0.0.0.0", port), "this process", "it is in the way of all addresses");
    is(holder("::", port), "this process", "of both families");
    is(holder("127.0.0.2", port), "", "but not of another address");
    is(holder("::1", port), "", "and of no other of IPv6");
    local.hide();
    is(holder("127.0.0.1", port), "", "no process shows it");
}

void of_an_invisible_listener() {
    Listener local("127.0.0.1", 0);
    CHECK(local.listens());
    const uint16_t port = local.port();
    Listener everywhere("::", port), other("127.0.0.2", port);
    if (!everywhere.listens()) return tap::skip(3, "no IPv6, or its port is in use");
    CHECK(other.listens());
    is(holder("127.0.0.1", port), "this process", "it is visible");
    local.hide();
    is(holder("127.0.0.1", port), "", "the listeners at [::] and 127.0.0.2 are not its holders");
    is(holder("::", port), "this process", "only of their own addresses");
}

void of_both_families() {
    Listener everywhere("::", 0, /* v6_only= */ false);
    if (!everywhere.listens()) return tap::skip(4, "no IPv6");
    const uint16_t port = everywhere.port();
    is(holder("127.0.0.1", port), "this process", "[::] is in the way of IPv4");
    is(holder("::1", port), "this process", "and of IPv6");

    Listener six("::1", 0);
    if (!six.listens()) return tap::skip(2, "no ::1");
    is(holder("0.0.0.0", six.port()), "", "::1 is in the way of no address of IPv4");
    is(holder("::", six.port()), "this process", "but of [::]");
}

void of_ipv4_beside_ipv6() {
    Listener mapped("::ffff:127.0.0.1", 0, /* v6_only= */ false);
    if (!mapped.listens()) return tap::skip(4, "no IPv6");
    const uint16_t port = mapped.port();
    is(holder("127.0.0.1", port), "this process", "a listener at the IPv4 address as one of IPv6");
    is(holder("::ffff:127.0.0.1", port), "this process", "in both spellings");
    is(holder("127.0.0.2", port), "", "and of no other");
    Listener six("::", port);
    if (!six.listens()) return tap::skip(1, "the port of [::] is in use");
    mapped.hide();
    is(holder("127.0.0.1", port), "", "a listener at [::] for IPv6 only is not its holder");
}

void of_a_socket_that_does_not_listen() {
    Listener bound("127.0.0.1", 0, true, /* listening= */ false);
    const uint16_t port = bound.port();
    Listener six("::", port);
    if (!six.listens()) return tap::skip(1, "no IPv6, or its port is in use");
    is(holder("127.0.0.1", port), "", "a listener at [::] for IPv6 only does not hold the address of a socket of IPv4");
}

// A Unix socket of this process, bound to that path.
int unix_socket(const std::string& path, bool listening) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    CHECK(path.size() < sizeof at.sun_path);
    std::memcpy(at.sun_path, path.c_str(), path.size() + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    if (listening) CHECK(listen(fd, 1) == 0);
    return fd;
}

// Bugs: a path was compared, not its file.
void of_files() {
    char folder[] = "/tmp/socket-holder-XXXXXX";
    CHECK(mkdtemp(folder) != nullptr);
    CHECK(chdir(folder) == 0);
    CHECK(mkdir("other", 0700) == 0);
    const std::string path = std::string(folder) + "/s";
    const int one = unix_socket("s", true), other = unix_socket("other/s", false);
    is(unix_holder(path), "this process", "a listener with a relative path");
    is(unix_holder("./other/../s"), "this process", "under another path");
    is(unix_holder("other/s"), "", "a socket that does not listen");
    CHECK(chdir("other") == 0);
    is(unix_holder("s"), "", "the same relative path is another file in another folder");
    const int absolute = unix_socket(path + "2", true);
    CHECK(unlink((path + "2").c_str()) == 0);
    is(unix_holder(path + "2"), "", "no file");
    const int second = unix_socket(path + "2", false);
    is(unix_holder(path + "2"), "", "a file that replaced the listener's");
    for (int fd : {one, other, absolute, second}) close(fd);
    CHECK(chdir("/") == 0);
    std::filesystem::remove_all(folder);
}

}  // namespace

int main() {
    of_one_listener();
    of_an_invisible_listener();
    of_both_families();
    of_ipv4_beside_ipv6();
    of_a_socket_that_does_not_listen();
    of_files();
    return tap::done();
}
