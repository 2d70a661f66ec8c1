// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/password_file.h"

#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace farcached::daemon {

namespace {

Problem refused_password(const std::string& path, const std::string& why) {
    return system_problem("--discover-password-file " + path + ": " + why);
}

// Also the bytes behind its end.
void wipe(std::string& text) noexcept {
    text.resize(text.capacity());  // takes no memory
    explicit_bzero(text.data(), text.size());
}

struct OpenFile {
    explicit OpenFile(const std::string& path) : fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
    ~OpenFile() {
        if (fd >= 0) close(fd);
    }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    const int fd;
};

}  // namespace

SecretText::SecretText(SecretText&& other) noexcept : text(std::move(other.text)) {
    wipe(other.text);
    other.text.clear();
}
SecretText::~SecretText() { wipe(text); }

Result<Password> read_password(const std::string& path) {
    const OpenFile file(path);
    struct stat found;
    if (file.fd < 0 || fstat(file.fd, &found) != 0) return refused_password(path, std::strerror(errno));
    if (!S_ISREG(found.st_mode)) return refused_password(path, "it is no regular file");
    if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return refused_password(path, "group or others may access it; only its owner may (chmod 600)");
    SecretText text{std::string(Password::bytes_max + 2, '\0')};
    const ssize_t got = read(file.fd, text.text.data(), text.text.size());
    if (got < 0) return refused_password(path, std::strerror(errno));
    std::string_view line = std::string_view(text.text).substr(0, size_t(got));
    line = line.substr(0, line.find('\n'));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.size() > Password::bytes_max)
        return refused_password(path, "its first line must have 1 to " + std::to_string(Password::bytes_max) + " characters");
    return Password(std::string(line));
}

}  // namespace farcached::daemon
