// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/owner.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace farcached::fabric {

static_assert(owner_died_bit == FUTEX_OWNER_DIED);
static_assert(FUTEX_TID_MASK < owner_died_bit);

namespace {

int thread_id() { return int(syscall(SYS_gettid)); }

[[noreturn]] void refuse(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

// One entry; the head holds the distance from it to the futex.
struct Owner::List {
    robust_list_head head;
    robust_list entry;
};

Owner::Owner(layout::RegionHeader& header, std::unique_ptr<NameLock> name)
    : name_(std::move(name)), header_(header), thread_(thread_id()) {
    CHECK(name_ != nullptr);
    CHECK(words::load_relaxed(&header_.owner) == 0);
    void* at =
        mmap(nullptr, sizeof(List), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) refuse("mmap: cannot own the region");
    list_ = static_cast<List*>(at);
    list_->entry.next = &list_->head.list;
    list_->head.list.next = &list_->entry;
    list_->head.futex_offset =
        reinterpret_cast<char*>(&header_.owner) - reinterpret_cast<char*>(&list_->entry);
    size_t size = 0;
    long error = syscall(SYS_get_robust_list, 0, &list_before_, &size);
    if (error == 0) error = syscall(SYS_set_robust_list, &list_->head, sizeof list_->head);
    if (error != 0) {
        munmap(at, sizeof(List));
        refuse("set_robust_list: cannot own the region");
    }
    words::store_release(&header_.owner, uint64_t(thread_));
}

Owner::~Owner() {
    CHECK(thread_id() == thread_);
    words::store_release(&header_.owner, 0);
    CHECK(syscall(SYS_set_robust_list, list_before_, sizeof list_->head) == 0);
    munmap(list_, sizeof(List));
}

Result<std::unique_ptr<NameLock>> NameLock::take(const std::string& path) {
    const std::string name = path + ".lock";
    Descriptor file(open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) return system_problem(name + ": cannot open the lock file: " + std::strerror(errno));
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return system_problem(name + ": cannot lock: " + std::strerror(errno));
        char holder[32] = {};
        const ssize_t size = pread(file.get(), holder, sizeof holder - 1, 0);
        const size_t digits = size > 0 ? std::strspn(holder, "0123456789") : 0;
        return system_problem(path + ": in use by another node" +
                              (digits > 0 ? ", process " + std::string(holder, digits) : ""));
    }
    // For the error above only; the lock holds without it.
    const std::string holder = std::to_string(getpid()) + "\n";
    if (ftruncate(file.get(), 0) == 0) (void)!pwrite(file.get(), holder.data(), holder.size(), 0);
    return std::unique_ptr<NameLock>(new NameLock(path, std::move(file)));
}

}  // namespace farcached::fabric
