// SPDX-License-Identifier: BSD-3-Clause
// EventQueue: the events of a simulation by time. Times are integers, so that equal inputs give equal results on every
// machine. Pure; one thread.
//
// E1  pop() returns the earliest event; of equal times the one that was added first.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

namespace farcached::bench {

using Picoseconds = int64_t;
constexpr Picoseconds picoseconds(double ns) { return Picoseconds(ns * 1000 + 0.5); }
constexpr double nanoseconds(Picoseconds time) { return double(time) / 1000; }

enum class Happening : uint8_t {
    prefetch_register,  // software wrote a queue pair's number into the prefetch register
    doorbell,           // a queue pair has new work
    resource,           // a fetch arrived
    payload,            // the data of a chunk arrived
    sent,               // a chunk left the pipeline
    completed,          // software saw the completion of a post
};

struct RnicEvent {
    Picoseconds at;
    uint64_t order;
    Happening what;
    uint32_t subject;  // queue pair, fetch or walk
};

class EventQueue {
  public:
    void add(Picoseconds at, Happening what, uint32_t subject) { queue_.push({at, added_++, what, subject}); }
    bool empty() const { return queue_.empty(); }
    RnicEvent pop() {
        const RnicEvent first = queue_.top();
        queue_.pop();
        return first;
    }

  private:
    struct Later {
        bool operator()(const RnicEvent& a, const RnicEvent& b) const {
            return a.at != b.at ? a.at > b.at : a.order > b.order;
        }
    };
    std::priority_queue<RnicEvent, std::vector<RnicEvent>, Later> queue_;
    uint64_t added_ = 0;
};

}  // namespace farcached::bench
