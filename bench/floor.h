// SPDX-License-Identifier: BSD-3-Clause
// farbench floor: a server that stores nothing and answers every get with the same value. What a server does that is more than
// this is its own doing; what it does that is this too, every server does that waits with epoll, receives and sends.
//
// F1  Per readiness one recv() and, for all the requests it brought, one send(), in as many threads as are asked for; connections
//     are dealt out in turn. No locks, no clock, no allocation once buffers have grown.
// F2  Of a request only what its reply's shape needs is looked at: where it ends, its keys (they are repeated), a set's length.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "bench/option_text.h"

namespace farcached::bench {

struct FloorOptions {
    std::string host;
    uint16_t port = 0;
    uint32_t threads = 0;
    uint32_t value_bytes = 0;
    std::string port_file;
};

std::span<const OptionOf<FloorOptions>> floor_options();

// What the server answers. Pure; one for each thread.
class CannedReplies {
  public:
    explicit CannedReplies(uint32_t value_bytes);

    // Appends the replies to all whole requests in `input`. Returns how many of its bytes are done with; the rest is to be
    // seen again, with what comes behind it.
    size_t answer(std::string_view input, std::string& replies);

    uint64_t requests = 0;

  private:
    bool answer_one(std::string_view line, std::string_view behind, std::string& replies, size_t& value_bytes);

    std::string behind_key_;  // " 0 64\r\n", the value, "\r\n"
};

// Serves until SIGTERM or SIGINT. arguments: behind `floor`. Returns the exit status.
int floor_command(std::span<char* const> arguments);

}  // namespace farcached::bench
