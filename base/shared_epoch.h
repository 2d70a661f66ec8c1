// SPDX-License-Identifier: BSD-3-Clause
// The epoch of a list of nodes, shared by those who use the list: a revision of etcd, which rises while the list is the newest.
//
// Owner: its source writes it. Any thread reads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace farcached {

using SharedEpoch = std::shared_ptr<const std::atomic<uint64_t>>;  // nullptr: the list has none

inline uint64_t epoch_now(const SharedEpoch& epoch) { return epoch == nullptr ? 0 : epoch->load(std::memory_order_acquire); }

}  // namespace farcached
