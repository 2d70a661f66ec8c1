// SPDX-License-Identifier: BSD-3-Clause
// What a channel over a stream keeps between two calls: bytes that came and are not consumed, bytes
// that were flushed and not taken.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"

namespace farcached::fabric {

// Received bytes in one piece, at most `bytes_max` of them. Its memory is touched as far as it is
// used.
class InputBuffer {
  public:
    explicit InputBuffer(size_t bytes_max) : data_(new char[bytes_max]), bytes_max_(bytes_max) {}

    std::string_view view() const { return {data_.get() + begin_, end_ - begin_}; }
    bool empty() const { return begin_ == end_; }
    bool full() const { return end_ - begin_ == bytes_max_; }

    // Where the next bytes go, and how many there is room for; nothing is in between what is there
    // and them.
    char* room(size_t& bytes) {
        if (begin_ != 0) {
            std::memmove(data_.get(), data_.get() + begin_, end_ - begin_);
            end_ -= begin_;
            begin_ = 0;
        }
        bytes = bytes_max_ - end_;
        return data_.get() + end_;
    }
    void commit(size_t bytes) {
        CHECK(bytes <= bytes_max_ - end_);
        end_ += bytes;
    }
    void consume(size_t bytes) {
        CHECK(bytes <= end_ - begin_);
        begin_ += bytes;
        if (begin_ == end_) begin_ = end_ = 0;
    }

  private:
    std::unique_ptr<char[]> data_;
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
