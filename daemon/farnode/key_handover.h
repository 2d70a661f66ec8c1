// SPDX-License-Identifier: BSD-3-Clause
// KeyHandover: the key that the thread of a link proves, as another thread changes it.
//
// Owner: the link (spill_link.h). put(): any thread. changed() and take(): the link's thread.
//
// H1  A key that differs from the last one is taken once. Of several changes the last one counts.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "daemon/remote/nodes.h"
#include "protocol/auth.h"

namespace farcached::node {

class KeyHandover {
  public:
    explicit KeyHandover(std::shared_ptr<const protocol::AuthKey> key) : key_(std::move(key)) {}
    KeyHandover(const KeyHandover&) = delete;
    KeyHandover& operator=(const KeyHandover&) = delete;

    // False: it is the same key.
    bool put(std::shared_ptr<const protocol::AuthKey> key) {
        std::lock_guard hold(lock_);
        if (daemon::same_key(key_, key)) return false;
        key_ = std::move(key);
        changed_ = true;
        return true;
    }
    // True once after each change: take() has the new key.
    bool changed() { return changed_.exchange(false); }
    std::shared_ptr<const protocol::AuthKey> take() const {
        std::lock_guard hold(lock_);
        return key_;
    }

  private:
    mutable std::mutex lock_;
    std::shared_ptr<const protocol::AuthKey> key_;  // under lock_
    std::atomic<bool> changed_{false};
};

}  // namespace farcached::node
