// SPDX-License-Identifier: BSD-3-Clause
// HostSocket: the Unix socket that a node of etcd has on this host (Nodes, D4), and the connections over it.
//
// Owner: OneNode. Any thread; one lock, under which no other is taken.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "conf/settings.h"

namespace farcached::daemon {

using SharedSocket = std::shared_ptr<const conf::NodeSocket>;  // nullptr: none

inline bool same_socket(const SharedSocket& a, const SharedSocket& b) { return a == nullptr || b == nullptr ? a == b : *a == *b; }

class HostSocket {
  public:
    // The set in use has this one.
    void use(SharedSocket socket) noexcept {
        std::lock_guard hold(lock_);
        if (!same_socket(socket_, socket)) is_reported_ = false;
        std::swap(socket_, socket);
        is_there_.store(socket_ != nullptr, std::memory_order_relaxed);
    }
    SharedSocket get() const {
        std::lock_guard hold(lock_);
        return socket_;
    }
    bool is_there() const { return is_there_.load(std::memory_order_relaxed); }

    // One over it, while this exists.
    class Connection {
      public:
        explicit Connection(HostSocket& socket) : socket_(socket) {  // which outlives this
            socket_.links_.fetch_add(1, std::memory_order_relaxed);
            socket_.report_failure();  // later the node may have restarted: its next record has another socket
        }
        ~Connection() { socket_.links_.fetch_sub(1, std::memory_order_relaxed); }
        Connection(const Connection&) = delete;
        Connection& operator=(const Connection&) = delete;

      private:
        HostSocket& socket_;
    };
    uint32_t links() const { return links_.load(std::memory_order_relaxed); }
    // True: the log is to have it that no connection can be made over this socket. Once.
    bool report_failure() noexcept {
        std::lock_guard hold(lock_);
        return !std::exchange(is_reported_, true);
    }

  private:
    std::atomic<bool> is_there_{false};
    std::atomic<uint32_t> links_{0};
    mutable std::mutex lock_;
    SharedSocket socket_;
    bool is_reported_ = false;
};

}  // namespace farcached::daemon
