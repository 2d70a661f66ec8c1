// SPDX-License-Identifier: BSD-3-Clause
// farbench floor: a server that stores nothing and answers every get with the same value. It shows the minimal cost of
// a server that waits with epoll, receives and sends; any cost above it is the measured server's own.
//
// F1  Per readiness event, one recv() and one send() for all its requests, in the given number of threads; connections
//     are distributed round robin. No locks, no clock, no allocation once buffers have grown.
// F2  Of a request, only the parts that shape its reply are parsed: its end, its keys (the reply repeats them), a set's
//     length.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace farcached::bench {

// The server's replies. Pure; one per thread.
class CannedReplies {
  public:
    explicit CannedReplies(uint32_t value_bytes);

    // Appends the replies to all whole requests in `input`. Returns the number of bytes consumed; pass the rest again
    // with the bytes that follow.
    size_t answer(std::string_view input, std::string& replies);

    uint64_t requests = 0;

  private:
    bool answer_one(std::string_view line, std::string_view behind, std::string& replies, size_t& value_bytes);

    std::string behind_key_;  // " 0 64\r\n", the value, "\r\n"
};

}  // namespace farcached::bench
