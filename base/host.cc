// SPDX-License-Identifier: BSD-3-Clause
#include "base/host.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <variant>

#include "base/out_buffer.h"

namespace farcached {

namespace {

std::optional<uint8_t> hex_digit(char c) {
    if (c >= '0' && c <= '9') return uint8_t(c - '0');
    if (c >= 'a' && c <= 'f') return uint8_t(c - 'a' + 10);
    return {};
}

std::string identity_text(dev_t device, uint64_t inode) {
    const std::string boot = boot_name();
    return boot.empty() ? boot : boot + ":" + std::to_string(device) + ":" + std::to_string(inode);
}

// A descriptor that names the file and does not open it; -1: none.
int find_cached(const char* path) {
    constexpr int tries = 4;  // another process that renames or mounts something can make one fail
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_CACHED | RESOLVE_NO_SYMLINKS;  // the time of access of a link may be due
    for (int i = 0; i < tries; i++) {
        const int file = int(syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how));
        if (file >= 0) return file;
        const bool is_unknown = errno == ENOSYS || errno == EINVAL || errno == EPERM;  // to an older kernel, or a filter
        if (is_unknown) return open(path, O_PATH | O_CLOEXEC);
        if (errno != EAGAIN) return -1;
    }
    return -1;
}

}  // namespace

Result<BootId> read_boot_id() {
    static constexpr const char* path = "/proc/sys/kernel/random/boot_id";
    char text[64];
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = file < 0 ? -1 : read(file, text, sizeof text);
    const int error = errno;
    if (file >= 0) close(file);
    const auto failed = [](const std::string& why) { return system_problem(std::string(path) + ": " + why); };
    if (got < 0) return failed(std::generic_category().message(error) + "; /proc must be mounted");
    BootId id{};
    uint32_t digits = 0;
    for (char c : std::string_view(text, size_t(got))) {
        if (std::optional<uint8_t> digit = hex_digit(c); digit && digits < 32) {
            uint64_t& word = id[digits++ / 16];
            word = word << 4 | *digit;
        }
    }
    if (digits != 32) return failed("holds no boot id; /proc must be the kernel's own");
    return id;
}

std::optional<ProcessLife> process_life(uint64_t pid) {
    constexpr int fields_between = 18;  // proc(5): the name is the 2nd field, state the 3rd, starttime the 22nd
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    if (!std::getline(file, text)) return std::nullopt;
    const size_t name_end = text.rfind(')');  // a name may contain blanks
    if (name_end == std::string::npos) return std::nullopt;
    std::istringstream fields(text.substr(name_end + 1));
    ProcessLife life;
    fields >> life.state;
    std::string skipped;
    for (int i = 0; i < fields_between; i++) fields >> skipped;
    if (!(fields >> life.started)) return std::nullopt;
    return life;
}

std::string boot_name() {
    const Result<BootId> boot = read_boot_id();
    const auto* const id = std::get_if<BootId>(&boot);
    return id == nullptr ? std::string() : hex_text((*id)[0]) + hex_text((*id)[1]);
}

std::string socket_identity(const std::string& path) {
    struct stat at{};
    if (stat(path.c_str(), &at) != 0 || !S_ISSOCK(at.st_mode)) return {};
    return identity_text(at.st_dev, at.st_ino);
}

std::string cached_socket_identity(const std::string& path) {
    const int file = find_cached(path.c_str());
    if (file < 0) return {};
    struct statx at{};
    const int failed = statx(file, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &at);
    close(file);
    if (failed != 0 || !S_ISSOCK(at.stx_mode)) return {};
    return identity_text(makedev(at.stx_dev_major, at.stx_dev_minor), at.stx_ino);
}

}  // namespace farcached
