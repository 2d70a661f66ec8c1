// SPDX-License-Identifier: BSD-3-Clause
// Exchanges: the two-sided requests under way to one node, from being asked to being answered.
//
// Owner: a NodeLink. Slots are taken as they are needed and used again.
//
//            open()             reply                      close()
//   free ------------> asked ------------------------------------> free
//                        |  head of a reply in pieces        ^
//                        +----------------------> receiving -+
//
// E1  Each exchange tells its sink exactly once: take_sink() is the only way to it, and after that it is `late`.
// E2  A late exchange keeps its slot, its tag and its value's bytes until its reply has come whole or the connection
//     is destroyed: the node may still be reading them (S12), and a tag is never used for two.
// E3  A slot's tag and sequence together name one request of one connection.
// E4  No more than exchanges_max slots and, beyond one request, bytes_max bytes are under way.
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

    uint32_t tag = 0;  // its slot
    State state = State::free;
    protocol::RequestKind kind = protocol::RequestKind::get;
    bool mutation = false;       // may change what is stored under its key
    bool no_value = false;       // the answer need not bring one
    bool wants_grant = false;
    uint16_t key_len = 0;
    std::optional<KeyOrder::Kind> order;
    uint64_t key_hash = 0;
    uint64_t sequence = 0;
    uint32_t frame = 0;          // FramesOut's
    uint32_t bytes = 0;          // counted as under way
    uint64_t cookie = 0;
    uint64_t deadline_ns = 0;
    uint64_t patience_ns = 0;

    // A value that follows its request.
    std::shared_ptr<const void> value_owner;
    std::string_view value;
    uint64_t value_sent = 0;
    uint64_t* lent = nullptr;    // where the node READs it
    bool unlent = false;         // the node does not: it goes in chunks

    // A value that follows its reply. Unless it is late, `received` is made when the first piece comes.
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
        uint32_t exchanges_max = 4096;  // a multi-get of fifty keys from each of a hundred clients, half of them here
        uint64_t bytes_max = UINT64_C(8) << 20;  // of requests and their values
    };
    explicit Exchanges(const Limits& limits) : limits_(limits) {}
    Exchanges(const Exchanges&) = delete;
    Exchanges& operator=(const Exchanges&) = delete;

    bool room() const { return live_ < limits_.exchanges_max && bytes_ < limits_.bytes_max; }
    uint32_t live() const { return live_; }
    uint64_t bytes() const { return bytes_; }

    // The slot that the next open() takes; its tag goes into the request before.
    uint32_t next_tag();
    Exchange& open(const AskOptions& options, ReplySink& sink, uint32_t bytes);
    // The exchange of that name, or nullptr.
    Exchange* find(uint32_t tag, uint64_t sequence);
    void close(Exchange& exchange);

    struct Sink {
        ReplySink* sink = nullptr;
        uint64_t cookie = 0;
    };
    // Whoever takes it tells it; nullptr: it was told (E1).
    Sink take_sink(Exchange& exchange);

    // Calls for each whose deadline has passed and that is not late. They may be closed, others opened, meanwhile.
    // progress_ns: when the node answered last, in order (AskOptions::patience_ns).
    void expire(uint64_t now_ns, uint64_t progress_ns, FunctionRef<void(Exchange&)> expired);
    // A moment no later than the next deadline.
    uint64_t next_deadline_ns() const { return next_deadline_ns_; }
    // Calls for all that are live; they may be closed meanwhile, none may be opened.
    void for_each(FunctionRef<void(Exchange&)> visit);
    void forget_sink(const ReplySink& sink);

  private:
    Limits limits_;
    std::deque<Exchange> slots_;  // grows; addresses stay
    std::vector<uint32_t> free_;
    uint32_t live_ = 0;
    uint64_t bytes_ = 0;
    uint64_t next_deadline_ns_ = UINT64_MAX;
};

}  // namespace farcached::proxy
