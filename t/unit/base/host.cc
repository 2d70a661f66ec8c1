// SPDX-License-Identifier: BSD-3-Clause
// The identity of a Unix socket at a path, also without waiting for a file system.
#include "base/host.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "t/lib/tap.h"

namespace {

using namespace farcached;

int listen_at(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    const int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    return bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? made : -1;
}

// Linux 5.12 or later.
bool kernel_has_cached() {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_CACHED;
    const int file = int(syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof how));
    if (file >= 0) close(file);
    return file >= 0;
}

}  // namespace

int main() {
    char name[] = "/tmp/farcached-test-XXXXXX";
    const std::string folder = mkdtemp(name), path = folder + "/a.sock", other = folder + "/b.sock", link = folder + "/link";
    const int a = listen_at(path), b = listen_at(other);
    tap::ok(a >= 0 && b >= 0, "two sockets");
    const std::string identity = socket_identity(path);
    tap::ok(identity.starts_with(boot_name() + ":"), "the identity begins with the boot");
    tap::is(cached_socket_identity(path), identity, "both functions see the same one");
    tap::ok(cached_socket_identity(other) != identity, "another socket differs");
    tap::ok(symlink(path.c_str(), link.c_str()) == 0, "a link");
    std::ofstream(folder + "/file") << "x";
    for (const std::string& none : {folder + "/none", folder + "/file", folder, std::string()}) {
        tap::is(socket_identity(none), "", "no socket: '" + none + "'");
        tap::is(cached_socket_identity(none), "", "nor from the cache");
    }
    for (const std::string& linked : {link, "/proc/self/root" + path}) {
        tap::is(socket_identity(linked), identity, "a link leads to its socket: " + linked);
        if (kernel_has_cached())
            tap::is(cached_socket_identity(linked), "", "and is not followed");
        else
            tap::skip(1, "the kernel is older than Linux 5.12");
    }
    const int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 100; i++) (void)cached_socket_identity(i % 2 == 0 ? path : folder + "/file");
    const int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
    tap::is(after, before + 1, "each descriptor is closed");
    for (const int one : {a, b, before, after}) close(one);
    for (const char* file : {"/a.sock", "/b.sock", "/link", "/file"}) (void)unlink((folder + file).c_str());
    (void)rmdir(folder.c_str());
    return tap::done();
}
