// SPDX-License-Identifier: BSD-3-Clause
#include "process/kernel_tls.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#ifdef FARCACHED_OPENSSL
#include <openssl/ssl.h>
#endif

namespace farcached::process {

// With TLS the kernel refuses a socket that has no connection by ENOTCONN, without TLS by ENOENT.
std::string kernel_tls_missing() {
#if !defined(FARCACHED_OPENSSL) || defined(OPENSSL_NO_KTLS)
    return "OpenSSL is built without it";
#else
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return std::strerror(errno);
    const int result = setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof "tls");
    const int error = errno;
    close(fd);
    if (result == 0 || error == ENOTCONN) return {};
    return error == ENOENT ? "the kernel has no TLS" : std::string("the kernel: ") + std::strerror(error);
#endif
}

}  // namespace farcached::process
