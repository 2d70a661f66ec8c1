// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/auth_file.h"

#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <variant>
#include <vector>

#include "fabric/socket.h"

namespace farcached::daemon {

namespace {

Problem refused_keys(const std::string& path, const std::string& why) {
    return system_problem("--auth-key-file " + path + ": " + why);
}

// The text of an open file, wiped at the end.
struct KeyText {
    std::vector<char> bytes = std::vector<char>(auth_file_bytes_max + 1);
    size_t size = 0;

    KeyText() = default;
    ~KeyText() { explicit_bzero(bytes.data(), size); }
    KeyText(const KeyText&) = delete;
    KeyText& operator=(const KeyText&) = delete;
    bool read_from(int fd) {
        while (size < bytes.size()) {
            const ssize_t got = read(fd, bytes.data() + size, bytes.size() - size);
            if (got == 0) return true;
            if (got < 0 && errno != EINTR) return false;
            size += size_t(got < 0 ? 0 : got);
        }
        return true;
    }
};

}  // namespace

Result<std::shared_ptr<const protocol::AuthKeys>> read_auth_keys(const std::string& path) {
    if (const std::optional<std::string> why = protocol::auth_unavailable()) return refused_keys(path, *why);
    const fabric::Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat found;
    if (file.get() < 0 || fstat(file.get(), &found) != 0)
        return refused_keys(path, std::string("cannot read the keys: ") + std::strerror(errno));
    if (!S_ISREG(found.st_mode)) return refused_keys(path, "it is no regular file");
    if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return refused_keys(path, "group or others may access it; only its owner may (chmod 600)");
    KeyText text;
    if (!text.read_from(file.get())) return refused_keys(path, std::string("cannot read the keys: ") + std::strerror(errno));
    if (text.size > auth_file_bytes_max) return refused_keys(path, "more than a megabyte of keys");
    protocol::AuthKeys::Parsed parsed = protocol::AuthKeys::parse({text.bytes.data(), text.size});
    if (const auto* problem = std::get_if<Problem>(&parsed)) return refused_keys(path, problem->text);
    return std::get<0>(std::move(parsed));
}

}  // namespace farcached::daemon
