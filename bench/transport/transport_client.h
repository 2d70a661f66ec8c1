// SPDX-License-Identifier: BSD-3-Clause
// TransportClient: one client of `farbench transport`: a link to the node and a closed loop of operations over it, one
// at a time while measured. It uses the link exactly as a worker of farcached does.
//
// Owner: a thread, which calls everything but done(). The link belongs to the client.
// C1  Values are verified. A wrong or missing value or a failure is an error, and counts as an operation.
// C2  On a stop request, run() ends as soon as the requests under way are answered.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "base/counters.h"
#include "bench/data.h"
#include "bench/histogram.h"
#include "bench/transport/client_link.h"
#include "bench/transport/transport.h"

namespace farcached::bench {

// Nanoseconds by part of an operation (Sweep::profile).
struct TransportParts {
    uint64_t begin_ns = 0;   // look up the pointer, or write the frame
    uint64_t post_ns = 0;    // submit to the transport
    uint64_t wait_ns = 0;    // wait for a completion
    uint64_t finish_ns = 0;  // receive, validate, pass on
};

class TransportClient final : private proxy::ReplySink {
  public:
    struct Dependencies {
        const Sweep& sweep;
        const Distribution& distribution;
        const Values& values;
        const std::atomic<bool>& interrupted;
        const std::atomic<bool>& given_up;
        proxy::PointerTable* table;  // nullptr: GETs are two-sided or by the index
        std::string key_prefix;
        bool one_sided;
    };
    TransportClient(const Dependencies& deps, const proxy::LinkConfig& config, const ClientLink::Maker& maker, uint64_t seed);
    ~TransportClient() override { link_.disconnect(); }  // which may call failed()

    // As of ClientLink.
    void connect() { link_.connect(); }
    void disconnect() { link_.disconnect(); }
    // Stores the keys of [first, end), and gets each often enough to earn a lease.
    void prefill(uint64_t first, uint64_t end);
    // Throws std::runtime_error if the connection is lost for good.
    void run(uint64_t operations, uint32_t sets_percent, bool measured);

    const proxy::LinkCounters& counters() const { return link_.counters(); }
    const Histogram& latency() const { return latency_; }
    const TransportParts& parts() const { return parts_; }
    uint64_t errors() const { return errors_; }
    uint64_t gets() const { return gets_; }
    const std::string& first_error() const { return first_error_; }
    const Counter& done() const { return done_; }  // operations so far; any thread

  private:
    // proxy::ReplySink
    void answered(proxy::Ticket ticket, proxy::Answer& answer) override;
    void failed(proxy::Ticket ticket, const proxy::Failed& failed) override;

    bool ask_get(uint64_t key);
    bool ask_set(uint64_t key);
    proxy::AskOptions options(uint64_t key, bool set);
    // Prepares a request's key and value.
    void prepare(uint64_t key, bool set);
    void draw(uint32_t sets_percent);
    void error(const std::string& text);
    bool stopping() const {
        return deps_.interrupted.load(std::memory_order_relaxed) || deps_.given_up.load(std::memory_order_relaxed);
    }
    template <class Issue>
    void keep_busy(uint64_t operations, uint32_t depth, Issue&& issue);

    uint64_t asked_ = 0;
    Dependencies deps_;
    ClientLink link_;
    Random random_;
    struct Draw {
        uint64_t key;
        bool set;
    };
    std::array<Draw, 256> draws_{};
    uint64_t sequence_;  // for the next value stored
    std::string key_;
    std::string value_;

    uint32_t under_way_ = 0;
    uint64_t answered_ns_ = 0;
    Histogram latency_;
    TransportParts parts_;
    uint64_t errors_ = 0, gets_ = 0;
    std::string first_error_;
    Counter done_;
};

}  // namespace farcached::bench
