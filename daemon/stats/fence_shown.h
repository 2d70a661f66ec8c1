// SPDX-License-Identifier: BSD-3-Clause
// FenceShown: the rejoin fence of one node (daemon/remote/fence.h), as statistics show it.
//
// Owner: the reader, a copy. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcached::daemon {

enum class FenceState : uint8_t { in_use, leaving, out, joining, moving };
constexpr std::string_view fence_state_name(FenceState state) {
    constexpr std::string_view names[] = {"in_use", "leaving", "out", "joining", "moving"};
    return names[size_t(state)];
}

struct FenceShown {
    FenceState state = FenceState::in_use;
    uint64_t keys = 0;      // that wait for their delete, stale ones and guests
    bool all = false;       // too many: the node will be flushed
    uint64_t killed = 0;    // keys deleted
    uint64_t flushes = 0, failures = 0;
    uint64_t diverted = 0;  // mutations of its keys, sent elsewhere
    uint64_t capped = 0;    // diverted mutations with a shorter time to live
};

}  // namespace farcached::daemon
