// SPDX-License-Identifier: BSD-3-Clause
// RequestsInFlight: the requests of a connection that are not answered yet, counted by frame, and the proxy's credits.
//
// Owner: an Execution (execution.h). The connection's thread.
//
// F1  A frame is in flight until it is fully read and all its requests are answered; no other frame has its sequence until then.
// F2  At most as many frames are in flight as the proxy has credits.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/check.h"
#include "protocol/frame.h"

namespace farcached::node {

class RequestsInFlight {
  public:
    // The proxy is welcomed with that many credits.
    void welcome(uint32_t credits) { credits_ = credits; }

    // A frame arrived; it counts as one of its requests until it is fully read. An error: it breaks F1 or F2.
    protocol::FrameError open(uint64_t sequence) {
        if (by_sequence_.contains(sequence)) return protocol::FrameError::request_repeated;
        if (by_sequence_.size() >= credits_) return protocol::FrameError::credits_exceeded;
        defer(sequence);
        return protocol::FrameError::none;
    }
    // A request of the frame is answered later.
    void defer(uint64_t sequence) { by_sequence_[sequence]++; }
    // A deferred request is answered, or the frame is fully read.
    void answered(uint64_t sequence) {
        const auto found = by_sequence_.find(sequence);
        CHECK(found != by_sequence_.end());
        if (--found->second == 0) by_sequence_.erase(found);
    }
    bool empty() const { return by_sequence_.empty(); }

  private:
    uint32_t credits_ = 0;
    std::unordered_map<uint64_t, uint32_t> by_sequence_;
};

}  // namespace farcached::node
