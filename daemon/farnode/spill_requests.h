// SPDX-License-Identifier: BSD-3-Clause
// SpillRequests: the requests of a SpillLink that its peer has not answered, by ticket.
//
// Owner: a SpillLink (spill_link.h), in its thread.
//
// Q1  A ticket belongs to one request from add() to take().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "daemon/farnode/spill_waits.h"
#include "node/peer/peer_store.h"

namespace farcached::node {

class SpillRequests {
  public:
    struct Request {
        enum class What : uint8_t { nothing, put, read, forget, wait } what = What::nothing;
        std::shared_ptr<const PeerRecord> record;
        PeerStore::Read read;
        std::shared_ptr<SpillWaits::Wait> wait;
    };

    // The ticket of the next add(). Throws std::bad_alloc.
    uint32_t next() {
        if (free_.empty()) {
            free_.reserve(requests_.size() + 1);
            requests_.emplace_back();
            free_.push_back(uint32_t(requests_.size() - 1));
        }
        return free_.back();
    }
    // After next(): the link accepted the request.
    void add(Request&& request) {
        requests_[free_.back()] = std::move(request);
        free_.pop_back();
    }
    // It was answered, or has failed.
    Request take(uint32_t ticket) {
        Request request = std::exchange(requests_[ticket], {});
        CHECK(request.what != Request::What::nothing);
        free_.push_back(ticket);
        return request;
    }

  private:
    std::vector<Request> requests_;  // by ticket
    std::vector<uint32_t> free_;     // tickets; its memory suffices for all
};

}  // namespace farcached::node
