// SPDX-License-Identifier: BSD-3-Clause
// ReportsClient: one connection that sends reports, one at a time, and nothing else. It uses a proxy's frames and
// channel. The reported items do not exist, so the node finishes them soon. The time that the node accounts for them is
// subtracted, which leaves the cost of the transport.
//
// Owner: one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/out_buffer.h"
#include "bench/histogram.h"
#include "bench/transport/node_process.h"
#include "fabric/channel.h"
#include "protocol/frame.h"
#include "protocol/handshake.h"

namespace farcached::bench {

class ReportsClient final : private fabric::ChannelEvents {
  public:
    ReportsClient(Reach& reach, bool spin, const std::atomic<bool>& interrupted);
    ~ReportsClient() override;

    // Throws std::runtime_error if the node is unreachable, takes no reports, or has no container for `write`.
    void connect(bool write);
    // Reports as many items as `bytes` bytes hold. Throws std::runtime_error if the connection is lost.
    void run(uint64_t reports, uint32_t bytes, bool measured);

    const Histogram& latency() const { return latency_; }  // ns, without the node's own time
    uint64_t node_us() const { return node_us_; }  // the node's own time for the measured reports, as it reports it
    const fabric::ChannelCounters& counters() const { return counters_; }

  private:
    void connected() override;
    size_t received(std::string_view bytes) override;
    void written(size_t bytes) override;
    void read_done(uint64_t, fabric::ReadStatus) override {}
    void ended(fabric::ChannelEnd, const std::string& text) override { trouble_ = text; }

    void take(const protocol::Frame& frame);
    void answered(const protocol::Frame& frame);
    void make_report(uint32_t bytes);
    void tell();
    template <class Until>
    void wait_until(Until&& until);

    const bool spin_;
    const std::atomic<bool>& interrupted_;
    fabric::ChannelCounters counters_;
    std::string trouble_;
    bool greeted_ = false, write_ = false;
    protocol::Hello hello_;
    protocol::FrameLimits limits_{protocol::Sender::node, false, protocol::frame_bytes_lowest, 0};
    OutBuffer report_;
    uint64_t number_ = 0, answered_ = 0;
    uint32_t left_us_ = 0;
    uint64_t answered_ns_ = 0;
    uint64_t node_us_ = 0;
    Histogram latency_;
    std::unique_ptr<fabric::Channel> channel_;
};

}  // namespace farcached::bench
