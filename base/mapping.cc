// SPDX-License-Identifier: BSD-3-Clause
#include "base/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

// mmap(), from a multiple of `align` on.
void* map_aligned(size_t bytes, size_t align, int flags, int fd, off_t file_from) {
    const size_t reserved_bytes = bytes + align;
    void* reserved = mmap(nullptr, reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return reserved;
    (void)munlock(reserved, reserved_bytes);  // after mlockall() (-k) the limit would have to allow for both mappings
    const uintptr_t begin = reinterpret_cast<uintptr_t>(reserved), end = begin + reserved_bytes;
    const uintptr_t from = (begin + align - 1) / align * align;
    const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE)), to = (from + bytes + page - 1) / page * page;
    void* at = mmap(reinterpret_cast<void*>(from), bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, file_from);
    if (at == MAP_FAILED) {
        const int error = errno;
        munmap(reserved, reserved_bytes);
        errno = error;
        return at;
    }
    if (from > begin) munmap(reserved, from - begin);
    if (end > to) munmap(reinterpret_cast<void*>(to), end - to);
    return at;
}

}  // namespace

Mapping::Mapping(Kind kind, size_t bytes, bool huge_pages, size_t huge_from) : bytes_(bytes) {
    if (kind == Kind::private_memory) {
        map(MAP_PRIVATE | MAP_ANONYMOUS, 0, huge_pages, huge_from);
        return;
    }
    fd_ = memfd_create("farcached", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd_ < 0) refuse("memfd_create", bytes);
    if (ftruncate(fd_, off_t(bytes)) != 0) give_up("ftruncate");
    map(MAP_SHARED, 0, huge_pages, huge_from);
}

Mapping::Mapping(const FilePart& part, size_t bytes, bool huge_pages, size_t huge_from) : bytes_(bytes), in_file_(true) {
    fd_ = fcntl(part.fd, F_DUPFD_CLOEXEC, 0);
    if (fd_ < 0) refuse("fcntl", bytes);
    struct stat file {};
    if (fstat(fd_, &file) != 0) give_up("fstat");
    if (file.st_size < part.from + off_t(bytes) && ftruncate(fd_, part.from + off_t(bytes)) != 0) give_up("ftruncate");
    map(MAP_SHARED, part.from, huge_pages, huge_from);
}

void Mapping::give_up(const char* call) {
    const int error = errno;
    if (fd_ >= 0) close(fd_);
    errno = error;
    refuse(call, bytes_);
}

void Mapping::map(int flags, off_t from, bool huge_pages, size_t huge_from) {
    void* at = huge_pages ? map_aligned(bytes_, huge_page_bytes, flags | MAP_NORESERVE, fd_, from)
                          : mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd_, from);
    if (at == MAP_FAILED) give_up("mmap");
    data_ = static_cast<char*>(at);
    if (!huge_pages) return;
    // Best effort: -L only tries.
    if (huge_from > 0) (void)madvise(at, huge_from, MADV_NOHUGEPAGE);
    (void)madvise(data_ + huge_from, bytes_ - huge_from, MADV_HUGEPAGE);
}

int Mapping::open_read_only() const {
    CHECK(fd_ >= 0);
    auto failed = [](const std::string& what) {
        throw std::system_error(errno, std::generic_category(), what);
    };
    constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
    if (!in_file_ && (fcntl(fd_, F_GET_SEALS) & seals) != seals)
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
