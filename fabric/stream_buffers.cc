// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/stream_buffers.h"

#include <algorithm>
#include <new>
#include <utility>

namespace farcached::fabric {

namespace {

struct Scratch {
    std::unique_ptr<char[]> bytes;
    size_t size = 0;
};
thread_local Scratch scratch;  // empty while a buffer of this thread uses it

}  // namespace

// Afterwards the first byte is at data_.
bool InputBuffer::move_to(size_t capacity) {
    std::unique_ptr<char[]> to(new (std::nothrow) char[capacity]);
    if (to == nullptr) return false;
    const std::string_view held = view();
    if (!held.empty()) std::memcpy(to.get(), held.data(), held.size());
    end_ = held.size();
    begin_ = 0;
    own_ = std::move(to);
    data_ = own_.get();
    capacity_ = capacity;
    return true;
}

char* InputBuffer::room(size_t& bytes) {
    bytes = 0;
    if (scratch_ == nullptr && end_ - begin_ <= copy_bytes_max && !move_to_scratch()) return nullptr;
    if (begin_ != 0) {
        std::memmove(data_, data_ + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    if (end_ > capacity_ / 2 && capacity_ < bytes_max_ && !move_to(std::min(bytes_max_, 2 * end_))) return nullptr;
    bytes = capacity_ - end_;
    return data_ + end_;
}

bool InputBuffer::move_to_scratch() {
    scratch_ = std::move(scratch.bytes);
    if (scratch_ == nullptr || scratch.size < bytes_max_) scratch_.reset(new (std::nothrow) char[bytes_max_]);
    if (scratch_ == nullptr) return false;
    const std::string_view held = view();
    if (!held.empty()) std::memcpy(scratch_.get(), held.data(), held.size());
    end_ = held.size();
    begin_ = 0;
    own_.reset();
    data_ = scratch_.get();
    capacity_ = bytes_max_;
    return true;
}

bool InputBuffer::keep() {
    const size_t held = end_ - begin_;
    const size_t least = std::min(bytes_max_, std::max(held, keep_bytes_min));
    bool kept = true;
    if (held != 0 && (scratch_ != nullptr || capacity_ / 2 > least)) kept = move_to(least);
    if (scratch_ != nullptr) {
        scratch = {std::move(scratch_), bytes_max_};
        if (own_ == nullptr) data_ = nullptr;
    }
    if (held == 0) {
        own_.reset();
        data_ = nullptr;
    }
    if (data_ == nullptr) capacity_ = begin_ = end_ = 0;
    return kept;
}

}  // namespace farcached::fabric
