// SPDX-License-Identifier: BSD-3-Clause
// OutBuffer: bytes that leave together, such as one tick's replies to one client, so that one system call sends them. It has own
// bytes, and large values between them that are sent from their place.
//
// Owner: a worker, or a channel, for frames. One thread. Protocol engines and writers of frames borrow it for a call.
// I1  size() own bytes from data(), and pieces() between them, will be sent; reserved bytes without a commit will not.
// I2  truncate() removes bytes that a failed lock-free read has begun to write.
// Pointers from reserve() are valid until the next reserve().
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/borrowed_bytes.h"
#include "base/check.h"

namespace farcached {

// The bytes of one send: own bytes, and borrowed pieces between them.
//
//   own bytes      0 .......... at ............. size
//   sent as        [own bytes] [piece] [own bytes]

// Sent before the own byte `at`. Pieces are in the order of `at`.
struct OutPiece {
    size_t at;
    BorrowedBytes bytes;
};

// The most parts of one send; the next send takes the rest.
constexpr size_t out_parts_max = 192;

// Describes the unsent bytes, from own byte `start` on, for writev(). Returns the number of filled `parts`: all, if more
// bytes remain.
size_t describe_parts(std::string_view own, size_t start, std::span<const OutPiece> pieces, std::span<iovec> parts);

// The first `taken` of these bytes were sent: shortens pieces, and ends those sent whole. Returns the new `start`.
size_t take_front(std::vector<OutPiece>& pieces, size_t start, size_t taken);

class OutBuffer {
  public:
    OutBuffer() = default;
    ~OutBuffer() { std::free(data_); }
    OutBuffer(const OutBuffer&) = delete;
    OutBuffer& operator=(const OutBuffer&) = delete;

    const char* data() const { return data_; }
    size_t size() const { return size_; }
    size_t capacity() const { return capacity_; }  // of own bytes
    bool empty() const { return leaves() == 0; }
    std::string_view own() const { return {data_, size_}; }
    const std::vector<OutPiece>& pieces() const { return pieces_; }
    // All bytes that will be sent.
    size_t leaves() const { return size_ + borrowed_; }

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
        if (bytes.empty()) return;  // an empty view may have no address
        std::memcpy(reserve(bytes.size()), bytes.data(), bytes.size());
        size_ += bytes.size();
    }
    void append(char c) { append(std::string_view(&c, 1)); }
    // These bytes are sent from their place.
    void append(BorrowedBytes&& bytes) {
        pieces_.push_back({size_, std::move(bytes)});
        borrowed_ += pieces_.back().bytes.size();
    }
    // Takes all of another buffer, which is empty afterwards.
    void take(OutBuffer& other);
    // Moves the pieces to the caller.
    std::vector<OutPiece> take_pieces() {
        borrowed_ = 0;
        return std::exchange(pieces_, {});
    }
    // The committed byte at `offset`, to change it; valid until the next reserve().
    char* at(size_t offset) {
        CHECK(offset <= size_);
        return data_ + offset;
    }
    void truncate(size_t size) {
        CHECK(size <= size_);
        CHECK(pieces_.empty() || pieces_.back().at <= size);
        size_ = size;
    }
    // Copies the pieces to its own bytes. Throws std::bad_alloc without effect.
    void own_all();
    // Empties it; frees memory above `keep` bytes.
    void clear(size_t keep) {
        size_ = borrowed_ = 0;
        pieces_.clear();
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
        std::swap(borrowed_, other.borrowed_);
        pieces_.swap(other.pieces_);
    }

    // Appends a decimal number.
    void append_number(uint64_t n);

  private:
    void grow(size_t n);

    char* data_ = nullptr;
    size_t size_ = 0;
    size_t capacity_ = 0;
    size_t borrowed_ = 0;           // bytes of pieces_
    std::vector<OutPiece> pieces_;  // at <= size_
};

// Writes `n` in decimal at `to` (at most 20 bytes, no terminator); returns the end.
char* write_number(char* to, uint64_t n);
// `n` in this many hexadecimal digits, which suffice for it.
std::string hex_text(uint64_t n, int digits = 16);

}  // namespace farcached
