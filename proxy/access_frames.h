// SPDX-License-Identifier: BSD-3-Clause
// AccessFrames: records of accesses as frames, as many as it takes, each full before the next begins.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/out_buffer.h"
#include "protocol/frame_writer.h"

namespace farcached::proxy {

class AccessFrames {
  public:
    // To the end of `out`, which outlives this; nobody else appends to it until end().
    AccessFrames(OutBuffer& out, uint32_t frame_bytes_max) : writer_(out, frame_bytes_max) {}

    void add(const protocol::AccessRecord& item) {
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

    // How many records fit into so many bytes of frames.
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
