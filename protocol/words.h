// SPDX-License-Identifier: BSD-3-Clause
// Copies between shared memory, which others may read or write, and private memory, by word-sized relaxed atomics. A plain
// memcpy that races is undefined in C++. A race of atomics only tears the copy, and the caller detects that (S5). Shared
// addresses are 8-byte aligned words.
//
// No state; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace farcached::words {

inline uint64_t load_relaxed(const uint64_t* word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
inline uint64_t load_acquire(const uint64_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
inline void store_relaxed(uint64_t* word, uint64_t v) { __atomic_store_n(word, v, __ATOMIC_RELAXED); }
inline void store_release(uint64_t* word, uint64_t v) { __atomic_store_n(word, v, __ATOMIC_RELEASE); }

// Are the `size` bytes at byte offset `from` (a multiple of 8) of `shared` equal to `bytes`?
inline bool equal(const uint64_t* shared, size_t from, const char* bytes, size_t size) {
    const uint64_t* at = shared + from / 8;
    for (; size >= 8; size -= 8, bytes += 8, at++) {
        uint64_t want;
        std::memcpy(&want, bytes, 8);
        if (load_relaxed(at) != want) return false;
    }
    if (size == 0) return true;
    uint64_t got = load_relaxed(at);
    return std::memcmp(&got, bytes, size) == 0;
}

// Copies `size` bytes at byte offset `from` (any) of `shared` to `to`. Calls `step` after each word.
template <class Step>
inline void copy_out(char* to, const uint64_t* shared, size_t from, size_t size, Step&& step) {
    const uint64_t* at = shared + from / 8;
    size_t skip = from % 8;
    if (skip != 0) {
        if (size == 0) return;
        uint64_t word = load_relaxed(at++);
        size_t n = 8 - skip < size ? 8 - skip : size;
        std::memcpy(to, reinterpret_cast<const char*>(&word) + skip, n);
        to += n;
        size -= n;
        step();
    }
    for (; size >= 8; size -= 8, to += 8) {
        uint64_t word = load_relaxed(at++);
        std::memcpy(to, &word, 8);
        step();
    }
    if (size == 0) return;
    uint64_t word = load_relaxed(at);
    std::memcpy(to, &word, size);
    step();
}

// The opposite of copy_out(): writes `size` bytes at byte offset `to` (any) of `shared` and keeps the other bytes of its
// words. The writer owns the words; others may be reading them.
inline void copy_in(uint64_t* shared, size_t to, const char* from, size_t size) {
    uint64_t* at = shared + to / 8;
    const auto put = [&](size_t skip, size_t n) {
        uint64_t word = load_relaxed(at);
        std::memcpy(reinterpret_cast<char*>(&word) + skip, from, n);
        store_relaxed(at++, word);
        from += n;
        size -= n;
    };
    if (const size_t skip = to % 8; skip != 0 && size != 0) put(skip, 8 - skip < size ? 8 - skip : size);
    for (; size >= 8; size -= 8, from += 8) {
        uint64_t word;
        std::memcpy(&word, from, 8);
        store_relaxed(at++, word);
    }
    if (size != 0) put(0, size);
}

// Writes a byte string of several parts into shared words, one store per word, and pads the last word with zeros. The
// writer owns the words; others may be reading them.
class Writer {
  public:
    explicit Writer(uint64_t* at) : at_(at) {}

    void append(const char* bytes, size_t size) {
        for (; size >= 8; size -= 8, bytes += 8) {
            uint64_t word;
            std::memcpy(&word, bytes, 8);
            put(word);
        }
        if (size == 0) return;
        uint64_t word = 0;
        std::memcpy(&word, bytes, size);
        unsigned bits = unsigned(size) * 8;
        if (filled_bits_ + bits < 64) {
            pending_ |= word << filled_bits_;
            filled_bits_ += bits;
            return;
        }
        unsigned free_bits = 64 - filled_bits_;
        store_relaxed(at_++, pending_ | word << filled_bits_);
        pending_ = free_bits == 64 ? 0 : word >> free_bits;
        filled_bits_ = bits - free_bits;
    }
    void finish() {
        if (filled_bits_ != 0) store_relaxed(at_++, pending_);
        filled_bits_ = 0;
        pending_ = 0;
    }

  private:
    void put(uint64_t word) {
        if (filled_bits_ == 0) {
            store_relaxed(at_++, word);
            return;
        }
        store_relaxed(at_++, pending_ | word << filled_bits_);
        pending_ = word >> (64 - filled_bits_);
    }

    uint64_t* at_;
    uint64_t pending_ = 0;
    unsigned filled_bits_ = 0;  // 0 to 63
};

}  // namespace farcached::words
