// SPDX-License-Identifier: BSD-3-Clause
// Connection: a non-blocking socket with what is still to be sent, what was received and not yet
// understood, and the batch under way.
//
// Owner: a Worker's thread.
// N1  A batch goes out in one write, if the kernel takes it; the rest when the socket is writable.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/out_buffer.h"
#include "bench/batch.h"
#include "bench/options.h"

namespace farcached::bench {

// Connects, waiting at most `wait_s` for it. Throws std::runtime_error saying what could not be
// had.
int connect_to(const Target& target, double wait_s);

class Connection {
  public:
    // Takes the descriptor over. writer and values outlive this.
    Connection(int fd, Wire wire, const RequestWriter& writer, const Values& values);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    int fd() const { return fd_; }
    // From when the latency counts of what was answered last.
    uint64_t since_ns() const { return due_ns.empty() ? sent_at_ns : due_ns[batch.answered() - 1]; }

    // The batch that is filled, then sent; `out` takes its bytes.
    Batch batch;
    OutBuffer out;
    uint64_t sent_at_ns = 0;
    std::vector<uint64_t> due_ns;  // open loop: by request of the batch
    uint64_t free_at_ns = 0;       // open loop: since when there has been no batch
    bool waits_to_write = false;  // what epoll was told

    enum class Io : uint8_t { good, blocked, closed };
    // Sends what is in `out`. good: all of it.
    Io flush();
    // Reads what is there. good: something came.
    Io receive();

    std::string_view input() const { return {in_.data() + in_begin_, in_end_ - in_begin_}; }
    void consumed(size_t bytes) { in_begin_ += bytes; }
    // Makes room for an input of so many bytes.
    void expect(size_t bytes);

  private:
    int fd_;
    size_t out_sent_ = 0;
    std::vector<char> in_;
    size_t in_begin_ = 0, in_end_ = 0;
};

}  // namespace farcached::bench
