// SPDX-License-Identifier: BSD-3-Clause
#include "base/out_buffer.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <new>

namespace farcached {

size_t describe_parts(std::string_view own, size_t start, std::span<const OutPiece> pieces, std::span<iovec> parts) {
    size_t count = 0;
    const auto add = [&](std::string_view bytes) {
        if (bytes.empty()) return true;
        if (count == parts.size()) return false;
        parts[count++] = {const_cast<char*>(bytes.data()), bytes.size()};
        return true;
    };
    for (const OutPiece& piece : pieces) {
        if (!add(own.substr(start, piece.at - start)) || !add(piece.bytes.bytes())) return count;
        start = piece.at;
    }
    add(own.substr(start));
    return count;
}

size_t take_front(std::vector<OutPiece>& pieces, size_t start, size_t taken) {
    size_t gone = 0;
    for (OutPiece& piece : pieces) {
        const size_t own = std::min(taken, piece.at - start);
        start += own;
        taken -= own;
        if (start < piece.at) break;
        const size_t borrowed = std::min(taken, piece.bytes.size());
        piece.bytes.remove_prefix(borrowed);
        taken -= borrowed;
        if (piece.bytes.size() != 0) break;
        gone++;
    }
    pieces.erase(pieces.begin(), pieces.begin() + ptrdiff_t(gone));
    return start + taken;
}

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

void OutBuffer::own_all() {
    if (pieces_.empty()) return;
    OutBuffer whole;
    whole.reserve(leaves());
    size_t at = 0;
    for (const OutPiece& piece : pieces_) {
        whole.append(own().substr(at, piece.at - at));
        whole.append(piece.bytes.bytes());
        at = piece.at;
    }
    whole.append(own().substr(at));
    swap(whole);
}

void OutBuffer::append_number(uint64_t n) {
    char* at = reserve(20);
    commit(size_t(write_number(at, n) - at));
}

char* write_number(char* to, uint64_t n) { return std::to_chars(to, to + 20, n).ptr; }

std::string hex_text(uint64_t n, int digits) {
    char text[17];
    std::snprintf(text, sizeof text, "%0*llx", digits, static_cast<unsigned long long>(n));
    return text;
}

}  // namespace farcached
