// SPDX-License-Identifier: BSD-3-Clause
#include "base/out_buffer.h"

#include <charconv>
#include <new>

namespace farcached {

void OutBuffer::grow(size_t n) {
    size_t capacity = capacity_ == 0 ? 4096 : capacity_;
    while (capacity - size_ < n) capacity *= 2;
    char* data = static_cast<char*>(std::realloc(data_, capacity));
    if (data == nullptr) throw std::bad_alloc();
    data_ = data;
    capacity_ = capacity;
}

void OutBuffer::take(OutBuffer& other) {
    pieces_.reserve(pieces_.size() + other.pieces_.size());
    const size_t behind = size_;
    append(other.own());
    for (OutPiece& piece : other.pieces_) pieces_.push_back({behind + piece.at, std::move(piece.bytes)});
    borrowed_ += other.borrowed_;
    other.clear(SIZE_MAX);
}

void OutBuffer::append_number(uint64_t n) {
    char* at = reserve(20);
    commit(size_t(write_number(at, n) - at));
}

char* write_number(char* to, uint64_t n) { return std::to_chars(to, to + 20, n).ptr; }

}  // namespace farcached
