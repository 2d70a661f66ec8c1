// SPDX-License-Identifier: BSD-3-Clause
// Connection: a non-blocking socket with its unsent output, unparsed input and current batch. Batch: the requests that it sent
// together, and the number of those answered; it matches replies to requests and checks them, without socket or clock.
//
// Owner: one thread: a Worker's, or the one of bench/hitratio/clients.cc.
// B1  Replies arrive in the order of the requests; a mismatch is a failure and never skipped.
// B2  Hits of a multi-get arrive in the order of its keys; keys left out are misses.
// N1  A batch leaves in one write, if the kernel takes it; the rest leaves when the socket is writable.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/out_buffer.h"
#include "bench/data.h"
#include "bench/load/options.h"
#include "bench/load/wire.h"

namespace farcached::bench {

// One request answered.
struct Answered {
    RequestKind kind;
    uint32_t keys;
    uint32_t hits;
};

// Failures by kind, and the text of the first.
struct Failures {
    uint64_t refused = 0;       // error replies
    uint64_t wrong_values = 0;  // not a value that was stored under the key
    uint64_t broken = 0;        // connections that ended or broke the protocol
    std::string first;

    uint64_t total() const { return refused + wrong_values + broken; }
    void note(uint64_t Failures::*which, std::string_view what, std::string_view detail);
    void merge(const Failures& other);
};

class Batch {
  public:
    // Both arguments outlive this.
    Batch(Wire wire, const RequestWriter& writer, const Values& values)
        : wire_(wire), writer_(writer), values_(values) {}

    bool done() const { return next_ == requests_.size(); }
    size_t size() const { return requests_.size(); }
    size_t answered() const { return next_; }

    // Only when done: starts the next batch.
    void clear();
    void add_set(OutBuffer& out, uint64_t key, uint64_t sequence);
    void add_get(OutBuffer& out, std::span<const uint64_t> keys);
    void add_remove(OutBuffer& out, uint64_t key);

    struct Step {
        size_t bytes = 0;   // of the input consumed
        size_t wanted = 0;  // nonzero: the input must have this many bytes before the next step
        bool broken = false;
        bool answered = false;  // `answer` is valid
        Answered answer;
    };
    // Parses one piece of a reply. Not when done.
    Step step(std::string_view input, Failures& failures);

    // Keys that this batch's gets missed so far. A refused get adds none.
    std::span<const uint64_t> missed() const { return missed_; }

  private:
    struct Request {
        RequestKind kind;
        uint32_t first_key;
        uint32_t keys;
    };
    void note_missed(const Request& request, const Piece& piece);
    void check_value(const Request& request, const Piece& piece, Failures& failures);

    Wire wire_;
    const RequestWriter& writer_;
    const Values& values_;
    std::vector<Request> requests_;
    std::vector<uint64_t> keys_;
    std::vector<uint64_t> missed_;
    size_t next_ = 0;        // the request of the next reply
    uint32_t key_next_ = 0;  // the first of its keys that may still arrive
    uint32_t hits_ = 0;
};

// Connects, waiting at most 5 s. Throws std::runtime_error with the reason.
int connect_to(const Target& target);

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
