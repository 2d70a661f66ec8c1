// SPDX-License-Identifier: BSD-3-Clause
// Execution: executes the requests of a connection against the node, and replies in frames.
//
// Owner: a NodeService (service.h), in the connection's thread.
//
// E1  No call waits. A partition's lock is held for one operation at a time.
// E2  The clock is read after the bytes of the request that it serves have arrived (node/store/partition.h, P2).
// E3  Execution pauses, even inside a frame, while more than out_bytes_mark waits to be sent, or more than outgoing_bytes_max was
//     copied out to be sent in pieces, or many gets wait for values from a tier (gets_away.h). The unexecuted bytes stay in the
//     channel, which then stops receiving.
//     It also pauses while requests wait for the end of subleases (sublease_waits.h).
// E4  Every request gets one reply, in the order of execution; a request whose value follows executes when the value is
//     complete (values.h). A delete by prefix, and a get whose value is in a tier, are replied to in a later step.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/recorder.h"
#include "node/service/away_values.h"
#include "node/service/connection.h"
#include "node/service/gets_away.h"
#include "node/service/in_flight.h"
#include "node/service/partial_flushes.h"
#include "node/service/requests_ahead.h"
#include "node/service/sublease_waits.h"
#include "node/service/values.h"
#include "protocol/frame_request.h"

namespace farcached::node {

class Execution final : private AwayValues::Asker {
  public:
    explicit Execution(const Connection& connection)
        : connection_(connection), node_(connection.shared.node), counters_(connection.counters) {}
    Execution(const Execution&) = delete;
    Execution& operator=(const Execution&) = delete;

    // Gets the key being served; outlives this.
    void record_in(Recorder& recorder) { recorder_ = &recorder; }
    // The proxy is welcomed: it may have that many frames of requests in flight.
    void welcome(uint32_t credits) { in_flight_.welcome(credits); }

    // How a frame of requests ends the connection.
    struct Verdict {
        ServiceEnd end = ServiceEnd::count;  // count: it goes on; bad_frame; no_memory: too many values; over_budget: ousted
        protocol::FrameError error = protocol::FrameError::none;  // of a bad_frame
    };
    // Executes a frame, or the rest of the one that halted() names.
    Verdict requests(protocol::Frame frame);
    bool halted() const { return halted_.requests != 0; }
    // As in ReceivedValues; what ended is replied to.
    protocol::FrameError chunk(const protocol::Frame& frame);
    protocol::FrameError lent(const protocol::Frame& frame);
    protocol::FrameError read_done(uint64_t token, fabric::ReadStatus status);

    // E3.
    bool may_parse() const { return !waits_.halts() && sent_.may_parse() && !gets_away_.full(); }
    bool may_send() const { return sent_.may_send(); }
    // Sends one piece of a pending value, if one is.
    bool send_piece();
    // Goes on with a partial flush.
    void walk();
    // More can be sent, or walked, without another event.
    bool pending() const { return !sent_.empty() || !partial_flushes_.empty(); }
    // There was no memory for a reply outside of a step: the connection must end.
    bool starved() const { return starved_; }
    // Values from a tier made replies since the last step.
    bool take_late_replies() { return std::exchange(late_replies_, false); }
    // No request is in progress.
    bool quiet() const { return !halted() && in_flight_.empty(); }
    // The connection ends: drops what is in progress.
    void clear();

  private:
    struct Batch;  // a sequence of requests of one frame, with their replies

    bool execute_ahead(Batch& batch);
    void execute(Batch& batch, protocol::NodeRequest& request);
    // Each adds one reply, or defers it.
    void run(Batch& batch, const protocol::RequestOptions& options, protocol::GetOp& op);
    void run(Batch& batch, const protocol::RequestOptions& options, protocol::StoreOp& op);
    void run(Batch& batch, const protocol::RequestOptions& options, protocol::DeleteOp& op);
    void run(Batch& batch, const protocol::RequestOptions& options, protocol::ArithOp& op);
    void run(Batch& batch, const protocol::RequestOptions& options, protocol::ForgetOp& op);
    void run(Batch& batch, const protocol::RequestOptions& options, protocol::HoldOp& op);
    void run(Batch& batch, const protocol::RequestOptions& options, const protocol::CopiesOp& op);
    bool has_moved(Batch& batch, uint32_t tag, const protocol::Key& key, bool wrote);
    void run(Batch& batch, const protocol::RequestOptions& options, protocol::FlushOp& op);
    void run(Batch& batch, const protocol::RequestOptions& options, protocol::StatsOp& op);
    void get_over(const RequestId& id, bool want_grant, const AwayGets::Done& done);
    void value_came(const RequestId& id, bool want_grant, const AwayGets::Done& done) override;
    void sublease_ended() override;
    void starve() noexcept override { starved_ = late_replies_ = true; }
    template <class Op>
    void run_old(Batch& batch, uint32_t tag, const Op& op);
    void store(Batch& batch, uint32_t tag, protocol::StoreOp op);
    void announce(Batch& batch, const protocol::NodeRequest& request);
    void value_over(const RequestId& id, const ReceivedValues::Ended& ended);

    const Connection& connection_;
    Node& node_;
    ServiceCounters& counters_;
    Recorder* recorder_ = nullptr;  // the thread's; null: none
    RequestsAhead::Rest halted_;    // the unexecuted rest of a frame; its bytes are the channel's first
    RequestsAhead ahead_;           // used within requests()
    RequestsInFlight in_flight_;
    ReceivedValues received_{connection_};
    SentValues sent_{connection_};
    PartialFlushes partial_flushes_{connection_};
    GetsAway gets_away_{connection_, in_flight_, *this};
    bool late_replies_ = false, starved_ = false;
    SubleaseWaits waits_{connection_, *this};
};

}  // namespace farcached::node
