// SPDX-License-Identifier: BSD-3-Clause
// ClientLink: a measurement's link to a node, with the buffers of its READs and the waiting that a worker's loop does for a worker.
// It connects, sends and receives exactly as a worker of farcached does.
//
// Owner: a thread, which calls everything.
// L1  wait() returns after an event of the link, or after at most 50 ms.
// L2  The link's clock is now_ns(): read_clock() and each wait() set it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/node_clock.h"
#include "bench/transport/node_process.h"
#include "fabric/buffer_pool.h"
#include "proxy/ask.h"
#include "proxy/node_link.h"

namespace farcached::bench {

class ClientLink final : private proxy::LinkEvents {
  public:
    // Makes the maker of channels from the pool where their READs land.
    using Maker = std::function<proxy::NodeLink::MakeChannel(fabric::BufferPool& landing)>;
    struct Dependencies {
        const Maker& maker;
        std::function<bool()> stopping;        // end waiting for a connection
        proxy::PointerTable* table = nullptr;  // nullptr: GETs are two-sided or by the index
        bool one_sided = false;                // READs are possible
        bool spin = false;                     // poll for completions without sleeping
    };
    // value_bytes: of the longest value.
    ClientLink(const proxy::LinkConfig& config, uint32_t value_bytes, const Dependencies& deps);
    ~ClientLink() override;

    // Throws std::runtime_error if the node is unreachable.
    void connect();
    // Throws as connect() if a lost connection does not return.
    void await();
    void disconnect();

    bool up() const { return link_.up(); }
    proxy::Requests& requests() { return link_.requests(); }
    const proxy::LinkCounters& counters() const { return link_.counters(); }

    uint64_t now_ns() const { return now_ns_; }
    uint64_t read_clock() { return now_ns_ = boottime_ns(); }
    // Sends, and passes replies on.
    void flush();
    void wait();

  private:
    // proxy::LinkEvents
    void watch(int fd) override { fd_ = fd; }
    void unwatch(int) override { fd_ = -1; }
    void came_up() override {}
    void went_down(proxy::LinkDown, const std::string& text) noexcept override { down_text_ = text; }
    void room() override {}

    const std::function<bool()> stopping_;
    const bool spin_;
    fabric::BufferPool landing_;
    proxy::NodeLink link_;
    int fd_ = -1;
    std::string down_text_;
    uint64_t now_ns_ = 0;  // the last clock reading
    uint64_t ticked_ns_ = 0;
};

// The channels of a client over that way; both outlive its link.
ClientLink::Maker channels_over(Reach& reach, const fabric::RpcWish& rpc);

// Why a request failed.
const char* failure_text(const proxy::Failed& failed);

// A measurement's link is patient: the machine may be busy.
proxy::LinkConfig client_link_config();

}  // namespace farcached::bench
