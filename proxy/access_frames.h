// SPDX-License-Identifier: BSD-3-Clause
// AccessFrames: writes access records as frames; each frame is full before the next one begins.
// Owner: its caller, on one thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/out_buffer.h"
#include "protocol/frame_writer.h"

namespace farcached::proxy {

class AccessFrames {
  public:
    // Appends to `out`, which outlives this and has no other writer until end().
    AccessFrames(OutBuffer& out, uint32_t frame_bytes_max) : writer_(out, frame_bytes_max) {}

    void add(const protocol::ItemAccess& item) {
        accesses_ += item.count;
        if (writer_.open() && writer_.add(item)) return;
        end();
        writer_.begin(protocol::FrameKind::accesses, /* sequence= */ 0);
        const bool added = writer_.add(item);
        CHECK(added);
    }
    void end() {
        if (writer_.open()) writer_.end();
    }
    uint64_t accesses() const { return accesses_; }

    // Number of records that fit into `bytes` bytes of frames.
    static constexpr uint32_t records_in(uint32_t bytes, uint32_t frame_bytes_max) {
        constexpr uint32_t head = sizeof(protocol::FrameHeader), record = sizeof(protocol::AccessRecord);
        const uint32_t each = std::min<uint32_t>((frame_bytes_max - head) / record, UINT16_MAX);
        const uint32_t whole = bytes / (head + each * record);
        const uint32_t rest = bytes % (head + each * record);
        return whole * each + (rest > head ? (rest - head) / record : 0);
    }

  private:
    protocol::FrameWriter writer_;
    uint64_t accesses_ = 0;
};

}  // namespace farcached::proxy
