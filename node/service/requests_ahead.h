// SPDX-License-Identifier: BSD-3-Clause
// RequestsAhead: the next requests of a frame, parsed and hashed before they execute, so that the memory that they read is on its
// way to the cache.
//
// Owner: an Execution (execution.h), which uses it within requests(). The connection's thread.
//
// A1  The requests' views point into the frame: none is used after the frame's bytes are gone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fabric/region.h"
#include "protocol/frame_request.h"

namespace farcached::node {

class RequestsAhead {
  public:
    // A part of a frame of requests: its end.
    struct Rest {
        uint16_t requests = 0;  // 0: none
        size_t bytes = 0;       // of the body
    };
    // A parsed request that is not executed yet.
    struct Request {
        protocol::NodeRequest request;
        protocol::Key* key = nullptr;  // of the request, hashed; nullptr: no key
        Rest from, left;               // of the frame: with this request, and behind it
    };

    // Parses the next requests, hashes their keys and prefetches the memory that they read: all buckets, then all items. Returns
    // the step of the last parse; the requests before it are in read().
    protocol::FrameStep look(protocol::RequestReader& reader, const fabric::RegionView& view);
    std::span<Request> read() { return {requests_.data(), count_}; }

  private:
    std::array<Request, 8> requests_;
    size_t count_ = 0;
};

}  // namespace farcached::node
