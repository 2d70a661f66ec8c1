// SPDX-License-Identifier: BSD-3-Clause
// The buffers of a channel over a stream: bytes received but not consumed, and bytes flushed but not sent.
// Owner: the channel; one thread.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"

namespace farcached::fabric {

// Received bytes in one piece, at most `bytes_max` of them.
//
// I1  A channel receives into the thread's scratch buffer, after a copy of the bytes held. keep() stores the unconsumed
//     bytes. So an idle connection, or one whose frames arrive whole, has no memory here. When more than copy_bytes_max
//     bytes are held, the channel receives into the buffer's own memory.
// I2  After keep() that memory is at most twice its contents, and keep_bytes_min at least.
class InputBuffer {
  public:
    explicit InputBuffer(size_t bytes_max) : bytes_max_(bytes_max) {}

    std::string_view view() const { return {data_ + begin_, end_ - begin_}; }
    bool empty() const { return begin_ == end_; }
    bool full() const { return end_ - begin_ == bytes_max_; }

    // The place for the next bytes, right after those held, and its size. nullptr: out of memory. Until keep() this buffer
    // has the thread's scratch; the thread's other buffers then allocate memory of their own.
    char* room(size_t& bytes);
    void commit(size_t bytes) {
        CHECK(bytes <= capacity_ - end_);
        end_ += bytes;
    }
    void consume(size_t bytes) {
        CHECK(bytes <= end_ - begin_);
        begin_ += bytes;
        if (begin_ == end_) begin_ = end_ = 0;
    }
    // At the end of receiving: moves the bytes held to memory of the buffer's own. False: out of memory.
    bool keep();

  private:
    static constexpr size_t keep_bytes_min = 1024, copy_bytes_max = 16 * 1024;
    bool move_to(size_t capacity);
    bool move_to_scratch();

    std::unique_ptr<char[]> own_, scratch_;  // at most one of them
    char* data_ = nullptr;                   // in it
    size_t capacity_ = 0;
    size_t bytes_max_;
    size_t begin_ = 0, end_ = 0;
};

// Bytes that wait to be sent; empty unless the other side is slow.
class UnsentBytes {
  public:
    std::string_view view() const { return std::string_view(bytes_).substr(from_); }
    size_t size() const { return bytes_.size() - from_; }
    bool empty() const { return size() == 0; }
    void append(std::string_view bytes) { bytes_.append(bytes); }
    void consume(size_t bytes) {
        CHECK(bytes <= size());
        from_ += bytes;
        if (from_ == bytes_.size()) {
            bytes_ = std::string();
            from_ = 0;
        } else if (from_ > bytes_.size() / 2) {
            bytes_.erase(0, from_);
            from_ = 0;
        }
    }

  private:
    std::string bytes_;
    size_t from_ = 0;
};

}  // namespace farcached::fabric
