// SPDX-License-Identifier: BSD-3-Clause
// BorrowedBytes: bytes of another owner that do not change until this object ends. Movable, not copyable.
//
// Owner: its holder, in one thread at a time. It calls `release` once, in the thread that ends it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace farcached {

class BorrowedBytes {
  public:
    using Release = void (*)(void* owner, uint64_t token);

    BorrowedBytes() = default;
    // Only `release` uses owner and token.
    BorrowedBytes(std::string_view bytes, void* owner, uint64_t token, Release release)
        : bytes_(bytes), owner_(owner), token_(token), release_(release) {}
    ~BorrowedBytes() { end(); }
    BorrowedBytes(BorrowedBytes&& other) noexcept
        : bytes_(std::exchange(other.bytes_, {})),
          owner_(other.owner_),
          token_(other.token_),
          release_(std::exchange(other.release_, nullptr)) {}
    BorrowedBytes& operator=(BorrowedBytes&& other) noexcept {
        if (this == &other) return *this;
        end();
        bytes_ = std::exchange(other.bytes_, {});
        owner_ = other.owner_;
        token_ = other.token_;
        release_ = std::exchange(other.release_, nullptr);
        return *this;
    }

    // Are bytes borrowed?
    explicit operator bool() const { return release_ != nullptr; }
    std::string_view bytes() const { return bytes_; }
    size_t size() const { return bytes_.size(); }
    void remove_prefix(size_t n) {
        CHECK(n <= bytes_.size());
        bytes_.remove_prefix(n);
    }

  private:
    void end() {
        if (release_ != nullptr) std::exchange(release_, nullptr)(owner_, token_);
    }

    std::string_view bytes_;
    void* owner_ = nullptr;
    uint64_t token_ = 0;
    Release release_ = nullptr;
};

}  // namespace farcached
