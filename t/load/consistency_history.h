// SPDX-License-Identifier: BSD-3-Clause
// Is the history of one key linearizable? A history is a list of operations with the moments at which each was sent and
// answered. It is linearizable if the operations have an order that respects these moments. In that order a cache that
// may forget at any time must give the same answers.
//
// Forgetting makes every answer but "absent" a statement about the state. "absent" is always possible; the key is then
// absent until stored again. Each step is therefore a function of state. The search is Wing and Gong's with Lowe's
// memory of {operations placed, state} pairs already tried.
//
// A change whose outcome is unknown may have happened at any time since it was sent, or not at all: it may be placed
// and need not be. The search tries it last, which affects only the order. A change whose record no get ever returned
// can only have stood between two others. All such are one transition to an unseen state, possible at any time since
// the first was sent, and any number of times. That is more than they could do together, so no history is refused for
// it.
//
// Why a verdict can be trusted. `linearizable`: the order found contains all operations with a known answer. Each was
// placed after everything answered before it was sent, and with the answer that step() allows: the definition.
// `not_linearizable`: the search leaves out a next operation in two cases only. The definition forbids it: something
// unplaced was answered before it was sent, or step() refuses it. Or the same set of operations in the same state was
// tried before and failed; the rest depends on nothing but those two.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "t/load/consistency_value.h"

namespace consistency {

enum class Kind : uint8_t { get, set, add, append, remove, cas, touch, flush };
enum class Outcome : uint8_t {
    done,
    refused,  // NOT_STORED of add, EXISTS of cas; NOT_STORED of append if values are on a disk
    absent,
    unknown,  // carried out, or not, or later
};

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
    const bool done = op.outcome == Outcome::done || op.outcome == Outcome::unknown;
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
            if (op.outcome == Outcome::refused) return true;
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

// Replaces all changes of unknown outcome whose records `observed` does not contain by one transition. The other
// unknown changes go to the end.
template <class Observed>
void condense(std::vector<Operation>& history, const Observed& observed) {
    Operation ghost{Kind::set, Outcome::unknown, 0, 0, UINT64_MAX, UINT64_MAX};
    std::erase_if(history, [&](const Operation& op) {
        if (op.outcome != Outcome::unknown || observed.contains(op.record)) return false;
        ghost.sent = std::min(ghost.sent, op.sent);
        return true;
    });
    if (ghost.sent != UINT64_MAX) history.push_back(ghost);
    std::stable_sort(history.begin(), history.end(), [](const Operation& a, const Operation& b) {
        const bool last_a = a.outcome == Outcome::unknown, last_b = b.outcome == Outcome::unknown;
        return last_a != last_b ? last_b : a.sent < b.sent;
    });
}

class Linearizer {
  public:
    explicit Linearizer(const std::vector<Operation>& history)
        : history_(history), placed_(history.size()) {
        for (const Operation& op : history_) missing_ += op.outcome != Outcome::unknown;
    }

    Verdict run(size_t tries_max) {
        std::vector<size_t> order;        // operations placed so far
        std::vector<uint64_t> states{0};  // before each of them, and now
        size_t candidate = 0;
        for (size_t tries = 0; missing_ > 0; tries++) {
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
                take_back(last);
                candidate = next_candidate(last);
            }
        }
        return Verdict::linearizable;
    }

  private:
    static bool is_ghost(const Operation& op) {
        return op.outcome == Outcome::unknown && op.record == 0;
    }

    // Places `i` if it may come next: nothing unplaced was answered before it was sent, the answer
    // fits, and this pair of operations and state is new.
    bool place(size_t i, std::vector<uint64_t>& states) {
        uint64_t next;
        if (placed_[i] || history_[i].sent > earliest_answer() ||
            !step(history_[i], states.back(), next)) {
            return false;
        }
        placed_[i] = !is_ghost(history_[i]);
        if (!seen_.insert(fingerprint(next)).second) {
            placed_[i] = false;
            return false;
        }
        if (history_[i].outcome != Outcome::unknown) missing_--;
        states.push_back(next);
        return true;
    }

    void take_back(size_t i) {
        placed_[i] = false;
        if (history_[i].outcome != Outcome::unknown) missing_++;
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
    size_t missing_ = 0;  // of a known outcome, not placed
    std::unordered_set<std::string> seen_;
};

}  // namespace consistency
