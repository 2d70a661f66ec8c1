// SPDX-License-Identifier: BSD-3-Clause
// AwayValues: the gets of a thread's connections whose values are in a tier (node/store/away_gets.h).
//
// Owner: the thread's loop. The connections outlive it, or call forget().
// G1  A connection that ended gets no value: its gets end without a reply.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "node/service/values.h"
#include "node/store/away_gets.h"

namespace farcached::node {

class AwayValues {
  public:
    // A connection's Execution, which replies.
    class Asker {
      public:
        virtual void value_came(const RequestId& id, bool want_grant, const AwayGets::Done& done) = 0;
        // After await_end().
        virtual void sublease_ended() = 0;
        virtual void starve() noexcept = 0;  // instead: a call has thrown std::bad_alloc

      protected:
        ~Asker() = default;
    };

    // Of a node with a tier. Throws as AwayGets.
    explicit AwayValues(Node& node)
        : node_(node),
          gets_(
              node, [this](const AwayGets::Done& done) { over(done); },
              [this](uint64_t number) { return asked_.contains(number); }, [this](uint64_t number) { ended(number); }) {}
    AwayValues(const AwayValues&) = delete;
    AwayValues& operator=(const AwayValues&) = delete;

    int fd() const { return gets_.fd(); }
    void ready(NodeSeconds now) { gets_.ready(now); }
    // Throws std::bad_alloc without effect.
    void get(Asker& asker, const RequestId& id, bool want_grant, std::string_view key, const protocol::GetReply& reply,
             const Place& place);
    // sublease_ended() follows: no sublease of the key runs any more (AwayItems::sublease_end()). place: all zeros: none of any
    // key, after AwayItems::stop_subleases(). Throws std::bad_alloc without effect.
    void await_end(Asker& asker, uint64_t key_hash, const Place& place, uint64_t until_ns);
    void forget(const Asker& asker) {
        std::erase_if(asked_, [&](const auto& one) { return one.second.asker == &asker; });
        std::erase_if(waits_, [&](const auto& one) { return one.second.asker == &asker; });
    }

  private:
    struct Asked {
        Asker* asker;
        RequestId id;
        bool want_grant;
    };

    struct Wait {
        Asker* asker;
        uint64_t key_hash;
        Place place;
    };

    void over(const AwayGets::Done& done);
    void ended(uint64_t number);

    Node& node_;
    std::unordered_map<uint64_t, Asked> asked_;
    std::unordered_map<uint64_t, Wait> waits_;
    uint64_t next_ = 0;
    AwayGets gets_;
};

}  // namespace farcached::node
