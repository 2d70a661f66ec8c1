// SPDX-License-Identifier: BSD-3-Clause
// SubleaseWaits: the requests of a connection that wait for the end of subleases (node/keys/subleases.h). A mutation waits, and a
// get that would be a miss, while a proxy may READ that key's value on the node of --spill-to.
//
// Owner: an Execution (execution.h). The connection's thread.
//
// W1  While a request waits, halts() stops the parsing of the next ones, so their order stays. A request in a frame halts the
//     frame in front of it. A request that is no longer in a frame is postponed: it is executed at the end of the wait.
// W2  The search that finds no sublease of a mutation's key also begins the Change, so none starts before the mutation's end (U4).
// W3  A flush stops the subleases of all keys. They resume by flush_over(), or with the connection.
// W4  Asker::sublease_ended() follows each wait, and calls ended(). All functions that search throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "node/service/away_values.h"
#include "node/service/connection.h"
#include "node/service/values.h"
#include "node/store/away_items.h"
#include "protocol/frame_request.h"

namespace farcached::node {

class SubleaseWaits {
  public:
    // A store whose value has arrived, or a get without a value.
    struct Postponed {
        RequestId id{};
        uint64_t epoch = 0;  // of the store's list
        bool is_miss = false;
        std::string key, value;
        protocol::StoreOp op;  // without both
    };
    // A mutation of a key. As long as it exists, the key's partition grants no sublease (U4).
    class Change {
      public:
        Change() = default;
        ~Change() {
            if (node_ != nullptr) node_->away().change_over(key_hash_);
        }
        Change(const Change&) = delete;
        Change& operator=(const Change&) = delete;

        void begin(Node& node, uint64_t key_hash) {
            node_ = &node;
            key_hash_ = key_hash;
        }

      private:
        Node* node_ = nullptr;
        uint64_t key_hash_ = 0;
    };

    // Both outlive this.
    SubleaseWaits(const Connection& connection, AwayValues::Asker& asker) : connection_(connection), asker_(asker) {}
    ~SubleaseWaits() { clear(); }
    SubleaseWaits(const SubleaseWaits&) = delete;
    SubleaseWaits& operator=(const SubleaseWaits&) = delete;

    // W1.
    bool halts() const { return halts_frame_ || !postponed_.empty(); }
    bool halts_frame() const { return halts_frame_; }
    // In front of the request, if that is a mutation or a flush; or of a get that found nothing. True: the frame halts.
    bool halt_for(const protocol::RequestOp& op, Change& change);
    bool halt_for_miss(const protocol::Key& key) { return halts_frame_ = awaits_end(key); }
    // True: the store, or the miss, is postponed.
    bool postpone(const RequestId& id, const protocol::StoreOp& op, uint64_t epoch, Change& change);
    bool postpone_miss(const RequestId& id, std::string_view key);
    // W3. The flush was executed or refused.
    void flush_over() {
        if (std::exchange(stopped_all_, false)) connection_.shared.node.away().resume_subleases();
    }
    // The frame goes on. Returns the number of requests to take() and execute now; they may be postponed again.
    size_t ended() {
        halts_frame_ = false;
        return postponed_.size();
    }
    Postponed take();
    // The connection ends.
    void clear();

  private:
    bool awaits_end(const protocol::Key& key);
    bool awaits_change(const protocol::Key& key, bool replaces, Change& change);
    bool awaits_all_ends();
    void await(uint64_t key_hash, const Place& place, uint64_t until_ns);

    const Connection& connection_;
    AwayValues::Asker& asker_;
    bool asked_ = false;         // connection_.away knows asker_
    bool halts_frame_ = false;
    bool stopped_all_ = false;   // W3
    uint64_t all_until_ns_ = 0;  // while they are stopped: the end of the last one
    std::deque<Postponed> postponed_;
};

}  // namespace farcached::node
