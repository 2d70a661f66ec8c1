// SPDX-License-Identifier: BSD-3-Clause
#include "base/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace farcached {

namespace {

[[noreturn]] void refuse(const char* call, size_t bytes) {
    throw std::system_error(errno, std::generic_category(),
                            std::string(call) + ": cannot map " + std::to_string(bytes >> 20) + " MiB");
}

}  // namespace

Mapping::Mapping(Kind kind, size_t bytes, bool huge_pages) : bytes_(bytes) {
    int flags = MAP_NORESERVE;
    if (kind == Kind::shared_memory) {
        fd_ = memfd_create("farcached", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd_ < 0) refuse("memfd_create", bytes);
        if (ftruncate(fd_, off_t(bytes)) != 0) {
            int error = errno;
            close(fd_);
            errno = error;
            refuse("ftruncate", bytes);
        }
        flags |= MAP_SHARED;
    } else {
        flags |= MAP_PRIVATE | MAP_ANONYMOUS;
    }
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd_, 0);
    if (at == MAP_FAILED) {
        int error = errno;
        if (fd_ >= 0) close(fd_);
        errno = error;
        refuse("mmap", bytes);
    }
    data_ = static_cast<char*>(at);
    if (huge_pages) (void)madvise(at, bytes, MADV_HUGEPAGE);  // best effort: -L says "try"
}

Mapping::~Mapping() {
    munmap(data_, bytes_);
    if (fd_ >= 0) close(fd_);
}

}  // namespace farcached
