// SPDX-License-Identifier: BSD-3-Clause
// PeerAddress: the address of a client's connection, in 8 bytes, since every session has one. IPv6 allocates more memory.
// Owner: the session. It does not change while the session is in the table of connections. So any thread can read it under the
// table's lock, and a signal handler in the worker at any time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

namespace farcached {

class PeerAddress {
  public:
    struct Ip4 {
        std::array<uint8_t, 4> ip{};  // in network order
        uint16_t port = 0;
    };
    struct alignas(8) Ip6 {
        std::array<uint8_t, 16> ip{};
        uint32_t scope = 0;  // the interface of a link-local address
        uint16_t port = 0;
    };

    PeerAddress() = default;  // a client on a Unix socket has no address
    explicit PeerAddress(const Ip4& at) {
        for (uint8_t byte : at.ip) word_ = word_ << 8 | byte;
        word_ = word_ << 24 | uint64_t(at.port) << 8 | 1;
    }
    explicit PeerAddress(const Ip6& at) : word_(reinterpret_cast<uintptr_t>(new Ip6(at))) {}
    PeerAddress(PeerAddress&& other) noexcept : word_(std::exchange(other.word_, 0)) {}
    PeerAddress& operator=(PeerAddress&& other) noexcept {
        std::swap(word_, other.word_);
        return *this;
    }
    ~PeerAddress() { std::default_delete<const Ip6>()(ip6()); }

    bool is_ip4() const { return (word_ & 1) != 0; }
    Ip4 ip4() const {
        return {{uint8_t(word_ >> 48), uint8_t(word_ >> 40), uint8_t(word_ >> 32), uint8_t(word_ >> 24)}, uint16_t(word_ >> 8)};
    }
    const Ip6* ip6() const { return is_ip4() ? nullptr : reinterpret_cast<const Ip6*>(uintptr_t(word_)); }

  private:
    uint64_t word_ = 0;  // the IPv4 address, its port, and 1; or a pointer to the IPv6 one, which is an even number; or 0
};
static_assert(sizeof(PeerAddress) == 8);

}  // namespace farcached
