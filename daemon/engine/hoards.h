// SPDX-License-Identifier: BSD-3-Clause
// Hoards: the bytes that the largest session of each worker holds. A worker without room compares them with its own sessions,
// and may ask the worker with the largest session to end it.
//
// Owner: SessionMemory. Workers join before any of them runs. A Hoard's worker notes and takes; any worker may call ask(). No
// worker touches another one's sessions, and none waits: this request is refused, and later ones find room.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

namespace farcached::daemon {

// The kinds of shortage: of room for a client's buffer, and for a large value in a reply, lent or copied.
enum class Lack : uint8_t { buffer, value };
constexpr std::array lacks = {Lack::buffer, Lack::value};

// Room for `bytes` is wanted, at the expense of sessions that hold at least `from`.
struct RoomWanted {
    uint64_t bytes = 0, from = 0;
};

class Hoard {
  public:
    explicit Hoard(std::function<void()> wake) : wake_(std::move(wake)) {}

    // A session holds `held` bytes now. Between two scans of all sessions the maximum only rises.
    void note(Lack lack, uint64_t held) {
        if (held > of(lack).most.load(std::memory_order_relaxed)) looked(lack, held);
    }
    // After a scan of all sessions.
    void looked(Lack lack, uint64_t most) { of(lack).most.store(most, std::memory_order_relaxed); }
    // True: another worker wants room. At most once per ask().
    bool take(Lack lack, RoomWanted& wanted) {
        if (of(lack).bytes.load(std::memory_order_relaxed) == 0) [[likely]] return false;
        wanted.bytes = of(lack).bytes.exchange(0, std::memory_order_acquire);
        wanted.from = of(lack).from.load(std::memory_order_relaxed);
        return wanted.bytes != 0;
    }

  private:
    friend class Hoards;
    struct One {
        std::atomic<uint64_t> most{0}, bytes{0}, from{0};
    };
    One& of(Lack lack) { return ones_[size_t(lack)]; }

    alignas(64) std::array<One, lacks.size()> ones_;
    const std::function<void()> wake_;
};

class Hoards {
  public:
    // wake: any thread may call it while workers run.
    Hoard& join(std::function<void()> wake) { return all_.emplace_back(std::move(wake)); }

    // The sum of the largest session of each other worker.
    uint64_t of_others(const Hoard& own, Lack lack) {
        uint64_t sum = 0;
        for (Hoard& one : all_)
            if (&one != &own) sum += one.of(lack).most.load(std::memory_order_relaxed);
        return sum;
    }
    // Asks the worker with the largest session, if it is another one and the session holds at least wanted.from. False: no such
    // worker.
    bool ask(const Hoard& own, Lack lack, RoomWanted wanted) {
        Hoard* largest = nullptr;
        uint64_t most = std::max<uint64_t>(wanted.from, 1);
        for (Hoard& one : all_) {
            const uint64_t held = one.of(lack).most.load(std::memory_order_relaxed);
            if (&one == &own || held < most) continue;
            largest = &one;
            most = held;
        }
        if (largest == nullptr) return false;
        largest->of(lack).from.store(wanted.from, std::memory_order_relaxed);
        if (largest->of(lack).bytes.exchange(wanted.bytes, std::memory_order_release) == 0) largest->wake_();
        return true;
    }

  private:
    std::deque<Hoard> all_;
};

}  // namespace farcached::daemon
