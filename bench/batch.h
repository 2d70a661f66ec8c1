// SPDX-License-Identifier: BSD-3-Clause
// Batch: the requests that one connection has sent together, and which of them have been answered.
// Matches replies to requests and checks them. No socket, no clock.
//
// Owner: a Connection.
// B1  Replies come in the order of the requests; what does not match is a failure, never skipped.
// B2  Of a multi-get, hits come in the order of its keys; keys that are passed over are misses.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/value.h"
#include "bench/wire.h"

namespace farcached::bench {

// One request answered.
struct Answered {
    Asked asked;
    uint32_t keys;
    uint32_t hits;
};

// What went wrong, and the first of each in words.
struct Failures {
    uint64_t refused = 0;       // error replies
    uint64_t wrong_values = 0;  // not a value that was stored under the key
    uint64_t broken = 0;        // connections that ended, or stopped speaking the protocol
    std::string first;

    uint64_t total() const { return refused + wrong_values + broken; }
    void note(uint64_t Failures::*which, std::string_view what, std::string_view detail);
    void merge(const Failures& other);
};

class Batch {
  public:
    // Both outlive this.
    Batch(Wire wire, const RequestWriter& writer, const Values& values)
        : wire_(wire), writer_(writer), values_(values) {}

    bool done() const { return next_ == requests_.size(); }
    size_t size() const { return requests_.size(); }
    size_t answered() const { return next_; }

    // Only when done: begins the next.
    void clear();
    void add_set(OutBuffer& out, uint64_t key, uint64_t sequence);
    void add_get(OutBuffer& out, std::span<const uint64_t> keys);

    struct Step {
        size_t bytes = 0;   // of the input that are done with
        size_t wanted = 0;  // more than 0: nothing goes on before the input has so many bytes
        bool broken = false;
        bool answered = false;  // `answer` is valid
        Answered answer;
    };
    // Looks at one piece of a reply. Not when done.
    Step step(std::string_view input, Failures& failures);

  private:
    struct Request {
        Asked asked;
        uint32_t first_key;
        uint32_t keys;
    };
    void check_value(const Request& request, const Piece& piece, Failures& failures);

    Wire wire_;
    const RequestWriter& writer_;
    const Values& values_;
    std::vector<Request> requests_;
    std::vector<uint64_t> keys_;
    size_t next_ = 0;        // the request whose reply comes next
    uint32_t key_next_ = 0;  // of its keys, the first that may still come
    uint32_t hits_ = 0;
};

}  // namespace farcached::bench
