// SPDX-License-Identifier: BSD-3-Clause
// PrefixCounts: numbers of items that begin with a prefix: those that recent deletes by prefix removed, and those that one count
// in the background finds. The crawler does the work; askers poll.
//
// Owner: PrefixDeletes. Threads: any. Its lock is taken after PrefixDeletes' lock and before a partition's.
//
// Q1  A delete's number is final when the sweep that began after it has ended. Deletes of one prefix that overlap are one.
// Q2  One count runs at a time, for one asker, whose token names it. Its result stays until the next count begins.
// Q3  At most deletes_kept deletes are known; the oldest leaves first.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/function_ref.h"

namespace farcached::node {

struct PrefixCount {
    enum class State : uint8_t {
        unknown,   // no such delete is known
        busy,      // a count of another asker runs
        running,
        complete,
    } state = State::unknown;
    std::optional<uint64_t> items;      // if complete; none: a flush came in between
    uint64_t order = 0;                 // of a delete: larger than that of any earlier one
    uint64_t pages_done = 0, pages = 0; // of its walk, if running
    uint64_t pages_walked = 0;          // of all walks since the start, if running: it grows while the crawler is at work
};

class PrefixCounts {
  public:
    static constexpr size_t deletes_kept = 16;

    // The sweeper's callback. A separate lock is held while it runs, after each delete and each start of a count. It must call
    // neither this nor the node. Empty: no callback. Throws std::bad_alloc.
    void when_asked(std::function<void()> told);
    void tell();

    // ---- deletes ----
    // Every partition executes it. The record of an earlier one of the prefix, or else the oldest, makes room.
    void deleted(std::string prefix, uint64_t order) noexcept;
    // Every page was swept since that order. removed: the items that were removed for a prefix.
    void swept(uint64_t order, FunctionRef<std::optional<uint64_t>(std::string_view prefix)> removed);
    PrefixCount of_delete(std::string_view prefix) const;

    // ---- counts ----
    // Starts the count of live items that the token names, or polls it. Throws std::bad_alloc without effect.
    PrefixCount count(std::string_view token, std::string_view prefix);
    // The prefix to count. Empty: none, or no memory.
    std::string to_count() const;
    void counted(uint64_t items);
    // How far the crawler's walk is. A count's walk stands still during a sweep.
    enum class Walk : uint8_t { sweep, count };
    void walked(Walk walk, uint64_t pages_done, uint64_t pages);

  private:
    struct Progress {
        uint64_t pages_done = 0, pages = 0;
    };
    PrefixCount running(PrefixCount::State state, Walk walk, uint64_t order) const;  // requires lock_

    struct Delete {
        std::string prefix;
        uint64_t order = 0;  // 0: unused
        bool complete = false;
        std::optional<uint64_t> items;
    };

    std::mutex told_lock_;  // of told_
    std::function<void()> told_;
    mutable std::mutex lock_;  // of the rest
    std::array<Delete, deletes_kept> deletes_;
    std::string token_, counting_;     // empty: none so far
    std::optional<uint64_t> counted_;  // its result
    std::array<Progress, 2> progress_;  // by Walk
    uint64_t pages_walked_ = 0;
};

}  // namespace farcached::node
