// SPDX-License-Identifier: BSD-3-Clause
// Mapping: an owned memory mapping, reserved at once and backed by the kernel page by page on first touch.
//
// Owner: the holder of the memory; the destructor unmaps it. Threads: one makes and ends it; it does not change in between, but the
// holder decides who uses the bytes.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace farcached {

class Mapping {
  public:
    enum class Kind : uint8_t {
        private_memory,  // anonymous, never seen by another process
        shared_memory    // a memfd, so that it can be handed to other processes
    };
    static constexpr size_t huge_page_bytes = size_t(2) << 20;
    // `bytes` of zeros. huge_pages: begins at a huge page, and requests transparent huge pages from byte huge_from on, and none
    // before; ignored where the kernel has none. Throws std::system_error with the failed call.
    Mapping(Kind kind, size_t bytes, bool huge_pages, size_t huge_from = 0);
    // A part of a file, which grows to the part's end if it is shorter. `fd` is open for reading and writing and is the
    // caller's; `from` is a multiple of the system page.
    struct FilePart {
        int fd = -1;  // -1: no file
        off_t from = 0;
    };
    Mapping(const FilePart& part, size_t bytes, bool huge_pages, size_t huge_from = 0);
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    // For shared memory and files: a descriptor with which another process can map it, for reading only; the caller closes
    // it. From the first one on shared memory has a fixed size, and only this mapping can write it (S10); a file is protected
    // by its mode alone. Throws std::system_error.
    int open_read_only() const;

    char* data() const { return data_; }
    size_t size() const { return bytes_; }

  private:
    [[noreturn]] void give_up(const char* call);  // in the constructor
    void map(int flags, off_t from, bool huge_pages, size_t huge_from);

    char* data_ = nullptr;
    size_t bytes_ = 0;
    int fd_ = -1;
    bool in_file_ = false;
};

// Populates all pages of these bytes. False: the system has no memory for them, and a write there would be a SIGBUS. A
// kernel older than Linux 5.14 cannot report that: true.
bool populate(void* at, size_t bytes);

}  // namespace farcached
