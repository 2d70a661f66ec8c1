// SPDX-License-Identifier: BSD-3-Clause
// Execution: executes the requests of a connection against the node, and replies in frames.
//
// Owner: a NodeService (service.h), in the connection's thread.
//
// E1  No call waits. A partition's lock is held for one operation at a time.
// E2  The clock is read after the bytes of the request that it serves have arrived (partition.h, P2).
// E3  Execution pauses, even inside a frame, while more than out_bytes_mark waits to be sent, or more than outgoing_bytes_max was
//     copied out to be sent in pieces, or from_away_max gets wait for values from a tier. The unexecuted bytes stay in the
//     channel, which then stops receiving.
//     It also pauses while requests wait for the end of subleases (sublease_waits.h).
// E4  Every request gets one reply, in the order of execution; a request whose value follows executes when the value is
//     complete (values.h). A delete by prefix, and a get whose value is in a tier, are replied to in a later step.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/recorder.h"
#include "node/service/connection.h"
#include "node/service/away_values.h"
#include "node/service/partial_flushes.h"
#include "node/service/sublease_waits.h"
#include "node/service/values.h"
#include "protocol/frame_request.h"

namespace farcached::node {

class Execution final : private AwayValues::Asker {
  public:
    explicit Execution(const Connection& connection)
        : connection_(connection), node_(connection.shared.node), counters_(connection.counters) {}
    ~Execution() { forget_gets(); }
    Execution(const Execution&) = delete;
    Execution& operator=(const Execution&) = delete;

    // Gets the key being served; outlives this.
    void record_in(Recorder& recorder) { recorder_ = &recorder; }
    // The proxy is welcomed: it may have that many frames of requests in flight.
    void welcome(uint32_t credits) { credits_ = credits; }

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
    bool may_parse() const { return !waits_.halts() && sent_.may_parse() && from_away_ < from_away_max; }
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
    // The unexecuted rest of a frame of requests; its bytes are the channel's first.
    struct Halted {
        uint16_t requests = 0;  // left; 0: none
        size_t bytes = 0;       // left of the body
    };
    // A parsed request that is not executed yet. Its views point into the frame.
    struct Ahead {
        protocol::NodeRequest request;
        protocol::Key* key = nullptr;  // of the request, hashed; nullptr: no key
        Halted from, left;             // of the frame: with this request, and behind it
    };
    static constexpr size_t ahead_max = 8;
    struct Hit;   // the reply to a get, with its value
    struct Turn;  // a sequence of requests of one frame, with their replies

    Turn turn_of(uint64_t sequence, const NodeReading& now) const;
    protocol::FrameStep look_ahead(protocol::RequestReader& reader);
    bool execute_ahead(Turn& turn);
    void execute(Turn& turn, protocol::NodeRequest& request);
    // Each adds one reply, or defers it.
    void run(Turn& turn, const protocol::RequestOptions& options, protocol::GetOp& op);
    void run(Turn& turn, const protocol::RequestOptions& options, protocol::StoreOp& op);
    void run(Turn& turn, const protocol::RequestOptions& options, protocol::DeleteOp& op);
    void run(Turn& turn, const protocol::RequestOptions& options, protocol::ArithOp& op);
    void run(Turn& turn, const protocol::RequestOptions& options, protocol::ForgetOp& op);
    void run(Turn& turn, const protocol::RequestOptions& options, protocol::HoldOp& op);
    void run(Turn& turn, const protocol::RequestOptions& options, const protocol::CopiesOp& op);
    void answer_text(Turn& turn, uint32_t tag, std::string_view text);
    bool has_moved(Turn& turn, uint32_t tag, const protocol::Key& key, bool wrote);
    void run(Turn& turn, const protocol::RequestOptions& options, protocol::FlushOp& op);
    void run(Turn& turn, const protocol::RequestOptions& options, protocol::StatsOp& op);
    static Hit hit_to(uint32_t tag, bool want_grant, bool elsewhere = false);
    char* room_for(Turn& turn, Hit& hit, uint32_t value_len);
    void reply(Turn& turn, Hit& hit, const protocol::GetReply& reply);
    void read_away(Turn& turn, const protocol::RequestOptions& options, const protocol::GetOp& op, const protocol::GetReply& got,
                   const Place& place);
    void value_came(const RequestId& id, bool want_grant, const AwayGets::Done& done) override;
    void sublease_ended() override;
    void starve() noexcept override { starved_ = late_replies_ = true; }
    void forget_gets() {
        if (std::exchange(from_away_, 0) != 0) connection_.away->forget(*this);
    }
    // Earlier versions do not know that word.
    protocol::RequestRefusal no_right() const {
        using protocol::RequestRefusal;
        return connection_.limits.version < protocol::version_with_right ? RequestRefusal::stopping : RequestRefusal::no_right;
    }
    template <class Op>
    void run_old(Turn& turn, uint32_t tag, const Op& op);
    void refuse(Turn& turn, uint32_t tag, protocol::RequestRefusal why);
    void store(Turn& turn, uint32_t tag, protocol::StoreOp op);
    void announce(Turn& turn, const protocol::NodeRequest& request);
    void value_over(const RequestId& id, const ReceivedValues::Ended& ended);
    void send_later(Turn& turn, uint32_t tag, SentValues::Value value);
    bool grants(const protocol::RequestOptions& options) const {
        return options.want_grant && connection_.reads_one_sided();
    }
    void answered(uint64_t sequence);

    const Connection& connection_;
    Node& node_;
    ServiceCounters& counters_;
    Recorder* recorder_ = nullptr;  // the thread's; null: none
    uint32_t credits_ = 0;
    Halted halted_;
    std::array<Ahead, ahead_max> ahead_;  // used within requests()
    uint32_t ahead_count_ = 0;
    std::unordered_map<uint64_t, uint32_t> in_flight_;  // unanswered requests by sequence, of frames that were read
    ReceivedValues received_{connection_};
    SentValues sent_{connection_};
    PartialFlushes partial_flushes_{connection_};
    static constexpr uint32_t from_away_max = 512;
    uint32_t from_away_ = 0;  // gets that wait for their value: connection_.away knows as many
    bool late_replies_ = false, starved_ = false;
    SubleaseWaits waits_{connection_, *this};
};

}  // namespace farcached::node
