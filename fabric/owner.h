// SPDX-License-Identifier: BSD-3-Clause
// Owner: lets other processes see at once that the owner of a region is dead (S9), and keeps a successor out until then.
//
// O1  The region header's owner word is a robust futex: the id of a thread that lives as long as its process, the main
//     thread. When that thread ends, by SIGKILL or otherwise, the kernel sets a bit in the word before it releases the
//     process's files and their locks.
// O2  A successor takes the NameLock of a node's name before it serves. So once a successor can have served a client,
//     every reader of the old memory sees that its owner is dead.
// O3  A reader loads the word after its copy.
//
// set_robust_list(2) registers the word with the kernel; pthread mutexes do the same for themselves. The word is no such
// mutex: the region holds the word alone, independent of the C library's mutex. The kernel's list lies in separate,
// shared memory: when a process dies for lack of memory, the kernel may free private pages before it reads the list.
// While an Owner lives, no pthread mutex of its thread is robust.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/broken.h"
#include "base/result.h"
#include "fabric/socket.h"
#include "protocol/layout.h"
#include "protocol/words.h"

namespace farcached::fabric {

// The right to serve under a name that is a path: a locked file beside it, PATH.lock, which is
// never removed. A process that forks shares the lock with its child until both have ended or
// executed something else.
class NameLock {
  public:
    // A problem is a sentence with the holder, or with the cause.
    static Result<std::unique_ptr<NameLock>> take(const std::string& path);
    const std::string& path() const { return path_; }

  private:
    NameLock(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
    std::string path_;
    Descriptor file_;
};

// The ownership of a region, under a name.
class Owner {
  public:
    // From here on this thread owns the region; one at a time. The header outlives this; made and
    // destroyed in one thread. Throws std::system_error.
    Owner(layout::RegionHeader& header, std::unique_ptr<NameLock> name);
    ~Owner();  // the region has no owner from here on; then the name is free (O2)
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;

    const layout::RegionHeader& header() const { return header_; }
    const std::string& path() const { return name_->path(); }

  private:
    struct List;
    std::unique_ptr<NameLock> name_;
    layout::RegionHeader& header_;
    List* list_;
    void* list_before_ = nullptr;
    int thread_ = 0;
};

// The meaning of an owner word.
constexpr uint64_t owner_died_bit = UINT64_C(1) << 30;
constexpr bool names_living_owner(uint64_t word) {
    return word != 0 && word < owner_died_bit;  // thread ids are smaller
}

// Has the region the same living owner as when `word` and `incarnation` were read?
inline bool owned_by(const layout::RegionHeader& header, uint64_t word, uint64_t incarnation) {
    if (broken::s9_ignore_owner) return true;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);  // O3
    if (words::load_acquire(&header.owner) != word) return false;
    return words::load_relaxed(&header.incarnation) == incarnation;
}

}  // namespace farcached::fabric
