// SPDX-License-Identifier: BSD-3-Clause
// Exchanges: the two-sided requests under way to one node, from the request to its answer.
//
// Owner: a Requests, in the link's thread. Slots are allocated on demand and reused.
//
//            open()             reply                      close()
//   free ------------> asked ------------------------------------> free
//                        |  head of a reply in pieces        ^
//                        +----------------------> receiving -+
//
// E1  Each exchange calls its sink exactly once: take_sink() is the only access to the sink, and makes the exchange
//     `late`.
// E2  A late exchange keeps its slot, its tag and its value's bytes until its whole reply arrived or the connection is
//     destroyed. Until then the node may read the bytes (S12), and no other request may use the tag.
// E3  A slot's tag and sequence together name one request of one connection. This is the only place that maps them to its
//     ticket.
// E4  At most exchanges_max requests are under way, with at most bytes_max bytes plus one request.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/function_ref.h"
#include "protocol/frame.h"
#include "protocol/layout.h"
#include "proxy/ask.h"
#include "proxy/key_order.h"

namespace farcached::proxy {

struct Exchange {
    enum class State : uint8_t { free, asked, receiving };

    uint32_t tag = 0;  // its slot; the request's name on the wire
    State state = State::free;
    protocol::RequestKind kind = protocol::RequestKind::get;
    bool no_value = false;       // the answer may omit the value
    bool wants_grant = false;
    uint16_t key_len = 0;
    std::optional<KeyOrder::Kind> order;
    KeyOrder::Of order_of;       // valid if `order` is set
    uint64_t key_hash = 0;
    uint64_t sequence = 0;
    uint32_t frame = 0;          // number in FramesOut
    uint32_t bytes = 0;          // counted as under way
    Ticket ticket{};
    uint64_t deadline_ns = 0;
    uint64_t patience_ns = 0;

    // For a value that follows its request.
    std::shared_ptr<const void> value_owner;
    std::string_view value;
    uint64_t value_sent = 0;
    uint64_t* lent = nullptr;    // the buffer that the node READs
    bool unlent = false;         // the node did not READ it; the value follows in chunks

    // For a value that follows its reply. `received` is allocated with the first piece, unless the exchange is late.
    protocol::ReplyOp head;
    protocol::ValueProgress progress;
    std::unique_ptr<char[]> received;

    bool late() const { return sink_ == nullptr; }

  private:
    friend class Exchanges;
    ReplySink* sink_ = nullptr;
};

class Exchanges {
  public:
    struct Limits {
        uint32_t exchanges_max = 4096;  // multi-gets of 50 keys from 100 clients, half of the keys on this node
        uint64_t bytes_max = UINT64_C(8) << 20;  // of requests and their values
    };
    explicit Exchanges(const Limits& limits) : limits_(limits) {}
    Exchanges(const Exchanges&) = delete;
    Exchanges& operator=(const Exchanges&) = delete;

    bool room() const { return live_ < limits_.exchanges_max && bytes_ < limits_.bytes_max; }
    uint32_t live() const { return live_; }
    uint64_t bytes() const { return bytes_; }

    // Tag of the slot that the next open() takes; the request is written with it first.
    uint32_t next_tag();
    Exchange& open(const AskOptions& options, ReplySink& sink, uint32_t bytes);
    // The exchange with that tag and sequence, or nullptr.
    Exchange* find(uint32_t tag, uint64_t sequence);
    void close(Exchange& exchange);

    struct Sink {
        ReplySink* sink = nullptr;
        Ticket ticket{};
    };
    // The caller must call the sink. nullptr: the exchange is late (E1).
    Sink take_sink(Exchange& exchange);

    // Calls `expired` for each exchange past its deadline that is not late. The call may close exchanges and open
    // others. progress_ns: when the node last answered in order (AskOptions::patience_ns).
    void expire(uint64_t now_ns, uint64_t progress_ns, FunctionRef<void(Exchange&)> expired);
    // A time no later than the next deadline.
    uint64_t next_deadline_ns() const { return next_deadline_ns_; }
    // Visits all live exchanges. The visit may close exchanges but not open any.
    void for_each(FunctionRef<void(Exchange&)> visit);
    void forget_sink(const ReplySink& sink);

  private:
    Limits limits_;
    std::deque<Exchange> slots_;  // grows; addresses stay valid
    std::vector<uint32_t> free_;
    uint32_t live_ = 0;
    uint64_t bytes_ = 0;
    uint64_t next_deadline_ns_ = UINT64_MAX;
};

}  // namespace farcached::proxy
