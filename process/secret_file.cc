// SPDX-License-Identifier: BSD-3-Clause
#include "process/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace farcached::process {

SecretFile::SecretFile(const char* path, size_t bytes_max, mode_t exposing) : bytes_(bytes_max + 1) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return;
    status_ = read_from(fd, exposing);
    const int reason = errno;
    close(fd);
    errno = reason;
}

SecretFile::~SecretFile() { explicit_bzero(bytes_.data(), size_); }

SecretFile::Status SecretFile::read_from(int fd, mode_t exposing) {
    struct stat about {};
    if (fstat(fd, &about) != 0) return Status::unreadable;
    if (!S_ISREG(about.st_mode)) return Status::irregular;
    const mode_t accepted = about.st_uid == 0 ? S_IRGRP : 0;
    if ((about.st_mode & exposing & ~accepted) != 0) return Status::exposed;
    while (size_ < bytes_.size()) {
        const ssize_t got = read(fd, bytes_.data() + size_, bytes_.size() - size_);
        if (got == 0) return Status::whole;
        if (got < 0 && errno != EINTR) return Status::unreadable;
        size_ += size_t(got < 0 ? 0 : got);
    }
    return Status::too_long;
}

}  // namespace farcached::process
