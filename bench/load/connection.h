// SPDX-License-Identifier: BSD-3-Clause
// Connection: a non-blocking socket with its unsent output, unparsed input and current batch.
//
// Owner: one thread: a Worker's, or the one of bench/hitratio/clients.cc.
// N1  A batch leaves in one write, if the kernel takes it; the rest leaves when the socket is writable.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/out_buffer.h"
#include "bench/load/batch.h"
#include "bench/load/options.h"

namespace farcached::bench {

// Connects, waiting at most `wait_s`. Throws std::runtime_error with the reason.
int connect_to(const Target& target, double wait_s);

class Connection {
  public:
    // Takes ownership of the descriptor. writer and values outlive this.
    Connection(int fd, Wire wire, const RequestWriter& writer, const Values& values);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    int fd() const { return fd_; }
    // Start of the latency of the request answered last.
    uint64_t since_ns() const { return due_ns.empty() ? sent_at_ns : due_ns[batch.answered() - 1]; }

    // The batch: filled, then sent; `out` has its bytes.
    Batch batch;
    OutBuffer out;
    uint64_t sent_at_ns = 0;
    std::vector<uint64_t> due_ns;  // open loop: per request of the batch
    uint64_t free_at_ns = 0;       // open loop: time since the last batch ended
    bool waits_to_write = false;  // as registered with epoll

    enum class Io : uint8_t { good, blocked, closed };
    // Sends `out`. good: all of it.
    Io flush();
    // Receives available input. good: some arrived.
    Io receive();

    std::string_view input() const { return {in_.data() + in_begin_, in_end_ - in_begin_}; }
    void consumed(size_t bytes) { in_begin_ += bytes; }
    // Makes room for `bytes` bytes of input.
    void expect(size_t bytes);

  private:
    int fd_;
    size_t out_sent_ = 0;
    std::vector<char> in_;
    size_t in_begin_ = 0, in_end_ = 0;
};

}  // namespace farcached::bench
