// SPDX-License-Identifier: BSD-3-Clause
// LoopInbox: what other threads want of a Loop: to take connections, to end ousted ones, to stop, to show that it runs.
//
// Owner: a Loop. Any thread may call what stands above "the loop's thread".
// B1  The take() after a wake-up returns all that other threads put in before it.
// B2  pass() returns only after a later take(): by then each step of a connection that began before has ended.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fabric/channel.h"
#include "node/service/service.h"
#include "process/supervisor.h"

namespace farcached::node {

// A connection on its way to a loop.
struct Arrival {
    std::unique_ptr<NodeService> service;  // made for the loop that receives it
    std::unique_ptr<fabric::Channel> channel;
    protocol::RegionAccess access = protocol::RegionAccess::none;
};

class LoopInbox final : public OustedWaker {
  public:
    struct StopOrder {
        protocol::Goodbye why;
        uint32_t patience_ms;
    };
    struct Orders {
        std::vector<Arrival> arriving;
        std::optional<StopOrder> stop;
    };

    void give(Arrival arrival);
    // Sends a goodbye to every proxy; the loop ends when all have disconnected, or after patience_ms.
    void stop(protocol::Goodbye why, uint32_t patience_ms);
    // Returns when each step of a connection that began before has ended (B2). After Loop::start(), from any thread but the loop's.
    void pass();
    // The node's keys have changed (KeyRing).
    void keys_changed();
    void wake_for_ousted() override;
    process::Watched watched(std::string name) { return waker_.watched(std::move(name)); }

    // ---- the loop's thread -------------------------------------------------------------------------------
    // Readable after a wake-up: the loop calls take().
    int fd() const { return waker_.fd(); }
    Orders take();
    // Since the last call: must a connection be ended? Have the keys changed?
    bool take_ousted() { return ousted_.exchange(false); }
    bool take_keys_changed() { return keys_changed_.exchange(false); }
    // The loop makes no further step: pass() returns at once.
    void shut();

  private:
    process::LoopWaker waker_;
    std::atomic<bool> ousted_{false};
    std::atomic<bool> keys_changed_{false};
    std::mutex lock_;
    Orders orders_;               // this and the next two under lock_
    uint64_t passes_wanted_ = 0;
    uint64_t passes_ = 0;
    std::condition_variable passed_;
};

}  // namespace farcached::node
