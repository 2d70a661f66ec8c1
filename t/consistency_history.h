// SPDX-License-Identifier: BSD-3-Clause
// Is the history of one key linearizable? A history is a list of operations with the moments at
// which each was sent and answered; the question is whether the operations can be put in an order
// that respects these moments and in which a cache that may forget at any time would have given
// these very answers.
//
// Forgetting makes every answer but "absent" a statement about the state, and "absent" always
// possible, with the consequence that the key is then absent until stored again. Each step is
// therefore a function of state. The search is Wing and Gong's with Lowe's memory of {operations
// placed, state} pairs already tried.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "t/consistency_value.h"

namespace consistency {

enum class Kind : uint8_t { get, set, add, append, remove, cas, touch, flush };
enum class Outcome : uint8_t {
    done,
    refused,
    absent
};  // refused: NOT_STORED of add, EXISTS of cas

struct Operation {
    Kind kind;
    Outcome outcome;
    uint64_t record = 0;  // identity of the record stored
    uint64_t expected =
        0;  // cas: identity of the value whose unique was sent; get: of the value returned
    uint64_t sent = 0;  // tickets of one global counter
    uint64_t answered = 0;
};

// The state after `op` in `state` (0: absent), or false: a cache could not have answered so.
inline bool step(const Operation& op, uint64_t state, uint64_t& next) {
    next = state;
    if (op.outcome == Outcome::absent) {
        next = op.kind == Kind::add ? state : 0;
        return op.kind != Kind::add && op.kind != Kind::set && op.kind != Kind::flush;
    }
    const bool done = op.outcome == Outcome::done;
    switch (op.kind) {
        case Kind::get:
            return done && state == op.expected;
        case Kind::set:
            next = mix(0, op.record);
            return done;
        case Kind::add:
            if (done) next = mix(0, op.record);
            return done || state != 0;
        case Kind::append:
            next = mix(state, op.record);
            return done && state != 0;
        case Kind::remove:
            next = 0;
            return done && state != 0;
        case Kind::cas:
            if (done) next = mix(0, op.record);
            return done ? state == op.expected : state != 0 && state != op.expected;
        case Kind::touch:
            return done && state != 0;
        case Kind::flush:
            next = 0;
            return done;
    }
    return false;
}

enum class Verdict : uint8_t { linearizable, not_linearizable, undecided };

class Linearizer {
  public:
    explicit Linearizer(const std::vector<Operation>& history)
        : history_(history), placed_(history.size()) {}

    Verdict run(size_t tries_max) {
        std::vector<size_t> order;        // operations placed so far
        std::vector<uint64_t> states{0};  // before each of them, and now
        size_t candidate = 0;
        for (size_t tries = 0; order.size() < history_.size(); tries++) {
            if (tries == tries_max) return Verdict::undecided;
            if (place(candidate, states)) {
                order.push_back(candidate);
                candidate = 0;
                continue;
            }
            candidate = next_candidate(candidate);
            while (candidate == history_.size()) {
                if (order.empty()) return Verdict::not_linearizable;
                const size_t last = order.back();
                order.pop_back();
                states.pop_back();
                placed_[last] = false;
                candidate = next_candidate(last);
            }
        }
        return Verdict::linearizable;
    }

  private:
    // Places `i` if it may come next: nothing unplaced was answered before it was sent, the answer
    // fits, and this pair of operations and state is new.
    bool place(size_t i, std::vector<uint64_t>& states) {
        uint64_t next;
        if (placed_[i] || history_[i].sent > earliest_answer() ||
            !step(history_[i], states.back(), next)) {
            return false;
        }
        placed_[i] = true;
        if (!seen_.insert(fingerprint(next)).second) {
            placed_[i] = false;
            return false;
        }
        states.push_back(next);
        return true;
    }

    size_t next_candidate(size_t i) const {
        const uint64_t limit = earliest_answer();
        for (i++; i < history_.size(); i++) {
            if (!placed_[i] && history_[i].sent <= limit) return i;
        }
        return history_.size();
    }

    uint64_t earliest_answer() const {
        uint64_t earliest = UINT64_MAX;
        for (size_t i = 0; i < history_.size(); i++) {
            if (!placed_[i] && history_[i].answered < earliest) earliest = history_[i].answered;
        }
        return earliest;
    }

    std::string fingerprint(uint64_t state) const {
        std::string print((placed_.size() + 7) / 8, '\0');
        for (size_t i = 0; i < placed_.size(); i++) {
            if (placed_[i]) print[i / 8] = char(print[i / 8] | (1 << (i % 8)));
        }
        return print.append(reinterpret_cast<const char*>(&state), sizeof state);
    }

    const std::vector<Operation>& history_;
    std::vector<bool> placed_;
    std::unordered_set<std::string> seen_;
};

}  // namespace consistency
