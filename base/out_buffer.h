// SPDX-License-Identifier: BSD-3-Clause
// OutBuffer: the bytes of one tick's replies to one client, in one piece, so that one sendmsg sends them.
//
// Owner: a worker; lent to the protocol engines for the length of a call.
// I1  size() bytes from data() are what will be sent; what is reserved and not committed is not.
// I2  truncate() takes back what a failed lock-free read had begun to write.
// Pointers from reserve() are valid until the next reserve().
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace farcached {

class OutBuffer {
  public:
    OutBuffer() = default;
    ~OutBuffer() { std::free(data_); }
    OutBuffer(const OutBuffer&) = delete;
    OutBuffer& operator=(const OutBuffer&) = delete;

    const char* data() const { return data_; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }

    // Room for `n` more bytes, uninitialised.
    char* reserve(size_t n) {
        if (capacity_ - size_ < n) [[unlikely]] grow(n);
        return data_ + size_;
    }
    void commit(size_t n) {
        CHECK(n <= capacity_ - size_);
        size_ += n;
    }
    void append(std::string_view bytes) {
        if (bytes.empty()) return;  // of nothing there need be no address
        std::memcpy(reserve(bytes.size()), bytes.data(), bytes.size());
        size_ += bytes.size();
    }
    void append(char c) { append(std::string_view(&c, 1)); }
    // To change what was committed: the byte at `offset`, valid until the next reserve().
    char* at(size_t offset) {
        CHECK(offset <= size_);
        return data_ + offset;
    }
    void truncate(size_t size) {
        CHECK(size <= size_);
        size_ = size;
    }
    // Empties it; gives memory above `keep` bytes back.
    void clear(size_t keep) {
        size_ = 0;
        if (capacity_ > keep) {
            std::free(data_);
            data_ = nullptr;
            capacity_ = 0;
        }
    }

    void swap(OutBuffer& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }

    // Appends a decimal number.
    void append_number(uint64_t n);

  private:
    void grow(size_t n);

    char* data_ = nullptr;
    size_t size_ = 0;
    size_t capacity_ = 0;
};

// Writes `n` in decimal at `to` (at most 20 bytes, no terminator); returns the end.
char* write_number(char* to, uint64_t n);

}  // namespace farcached
