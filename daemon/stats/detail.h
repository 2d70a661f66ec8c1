// SPDX-License-Identifier: BSD-3-Clause
// PrefixStats: the counts of `stats detail`. A key's prefix ends before the first delimiter (-D); keys without one are not
// counted.
//
// Any thread may call. A lock is taken only while counting is on.
// I1  At most prefixes_max prefixes are kept; further ones are not counted, so memory is bounded.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/out_buffer.h"

namespace farcached::daemon {

class PrefixStats {
  public:
    static constexpr size_t prefixes_max = 1 << 16;

    explicit PrefixStats(char delimiter) : delimiter_(delimiter) {}
    PrefixStats(const PrefixStats&) = delete;
    PrefixStats& operator=(const PrefixStats&) = delete;

    void turn(bool on) { on_.store(on, std::memory_order_relaxed); }
    bool on() const { return on_.load(std::memory_order_relaxed); }

    void count_get(std::string_view key, bool hit);
    void count_set(std::string_view key);
    void count_delete(std::string_view key);

    // `PREFIX user get 1 hit 1 set 0 del 0` for each, then END.
    void dump(OutBuffer& out) const;
    void clear();

  private:
    struct Counts {
        uint64_t gets = 0, hits = 0, sets = 0, deletes = 0;
    };
    struct Hash {
        using is_transparent = void;
        size_t operator()(std::string_view text) const {
            return std::hash<std::string_view>()(text);
        }
    };

    // Under lock_. nullptr: no prefix, or no room for another.
    Counts* find(std::string_view key);

    const char delimiter_;
    std::atomic<bool> on_{false};
    mutable std::mutex lock_;
    std::unordered_map<std::string, Counts, Hash, std::equal_to<>> prefixes_;
};

}  // namespace farcached::daemon
