// SPDX-License-Identifier: BSD-3-Clause
#include "base/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>

#include "base/check.h"

namespace farcached {

namespace {

[[noreturn]] void refuse(const char* call, size_t bytes) {
    throw std::system_error(errno, std::generic_category(),
                            std::string(call) + ": cannot map " + std::to_string(bytes >> 20) + " MiB");
}

}  // namespace

Mapping::Mapping(Kind kind, size_t bytes, bool huge_pages, size_t huge_from) : bytes_(bytes) {
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
    if (!huge_pages) return;
    // Best effort: -L only tries.
    (void)madvise(at, huge_from, MADV_NOHUGEPAGE);
    (void)madvise(data_ + huge_from, bytes - huge_from, MADV_HUGEPAGE);
}

int Mapping::open_read_only() const {
    CHECK(fd_ >= 0);
    auto failed = [](const std::string& what) {
        throw std::system_error(errno, std::generic_category(), what);
    };
    constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
    if ((fcntl(fd_, F_GET_SEALS) & seals) != seals)
        if (fcntl(fd_, F_ADD_SEALS, seals | F_SEAL_SEAL) != 0)
            failed("cannot seal memory for others to read (Linux 5.1 or newer is needed)");
    // Our descriptor allows writing: only a newly opened one does not.
    const std::string path = "/proc/self/fd/" + std::to_string(fd_);
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) failed(path + ": cannot open memory for others to read");
    return fd;
}

Mapping::~Mapping() {
    munmap(data_, bytes_);
    if (fd_ >= 0) close(fd_);
}

bool populate(void* at, size_t bytes) {
    static const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
    const uintptr_t begin = reinterpret_cast<uintptr_t>(at) / page * page;
    const uintptr_t end = (reinterpret_cast<uintptr_t>(at) + bytes + page - 1) / page * page;
    return madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE) == 0 || errno == EINVAL;
}

}  // namespace farcached
