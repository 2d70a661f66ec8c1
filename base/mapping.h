// SPDX-License-Identifier: BSD-3-Clause
// Mapping: an owned memory mapping, reserved at once and backed by the kernel page by page on first touch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farcached {

class Mapping {
  public:
    enum class Kind : uint8_t {
        private_memory,  // anonymous, never seen by another process
        shared_memory    // a memfd, so that it can be handed to other processes
    };
    // `bytes` of zeros. huge_pages: ask for transparent huge pages from that byte on, and for none before; refused silently
    // where there are none. Throws std::system_error naming what could not be had.
    Mapping(Kind kind, size_t bytes, bool huge_pages, size_t huge_from = 0);
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    // Of shared memory: a descriptor through which it can be mapped for reading and in no other way, for another
    // process; the caller closes it. From the first one on the memory cannot change its size, nor be written but
    // through this mapping (S10). Throws std::system_error.
    int open_read_only() const;

    char* data() const { return data_; }
    size_t size() const { return bytes_; }

  private:
    char* data_ = nullptr;
    size_t bytes_ = 0;
    int fd_ = -1;
};

}  // namespace farcached
