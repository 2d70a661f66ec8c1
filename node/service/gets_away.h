// SPDX-License-Identifier: BSD-3-Clause
// GetsAway: the gets of a connection that wait for their values from a tier (away_values.h).
//
// Owner: an Execution (execution.h), which gets the values as the AwayValues::Asker. The connection's thread.
//
// X1  The thread's AwayValues knows as many gets of the Asker as count here. clear() makes it forget them all.
// X2  At most waiting_max get wait: then the connection parses no more requests.
#pragma once

#include <cstdint>
#include <new>
#include <string_view>
#include <utility>

#include "node/service/away_values.h"
#include "node/service/connection.h"
#include "node/service/in_flight.h"

namespace farcached::node {

class GetsAway {
  public:
    // All outlive this.
    GetsAway(const Connection& connection, RequestsInFlight& in_flight, AwayValues::Asker& asker)
        : connection_(connection), in_flight_(in_flight), asker_(asker) {}
    ~GetsAway() { clear(); }
    GetsAway(const GetsAway&) = delete;
    GetsAway& operator=(const GetsAway&) = delete;

    // Is there a tier?
    bool possible() const { return connection_.away != nullptr; }
    bool full() const { return waiting_ >= waiting_max; }
    // Asker::value_came() follows, and calls came(); the request is deferred. Throws std::bad_alloc without effect.
    void get(const RequestId& id, bool want_grant, std::string_view key, const protocol::GetReply& reply, const Place& place) {
        in_flight_.defer(id.sequence);
        waiting_++;
        try {
            connection_.away->get(asker_, id, want_grant, key, reply, place);
        } catch (const std::bad_alloc&) {
            waiting_--;
            in_flight_.answered(id.sequence);
            throw;
        }
    }
    void came() { waiting_--; }
    // The connection ends.
    void clear() {
        if (std::exchange(waiting_, 0) != 0) connection_.away->forget(asker_);
    }

  private:
    static constexpr uint32_t waiting_max = 512;

    const Connection& connection_;
    RequestsInFlight& in_flight_;
    AwayValues::Asker& asker_;
    uint32_t waiting_ = 0;
};

}  // namespace farcached::node
