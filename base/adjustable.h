// SPDX-License-Identifier: BSD-3-Clause
// Adjustable: a number or a switch that one thread may change while others read it; a copy takes the present value. Reads
// have no order with other memory.
#pragma once

#include <atomic>

namespace farcached {

template <class Value>
class Adjustable {
  public:
    Adjustable(Value value) : value_(value) {}  // NOLINT: implicit on purpose, it is a value
    Adjustable(const Adjustable& other) : value_(Value(other)) {}
    Adjustable& operator=(const Adjustable& other) { return *this = Value(other); }
    Adjustable& operator=(Value value) {
        value_.store(value, std::memory_order_relaxed);
        return *this;
    }
    operator Value() const { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<Value> value_;
};

}  // namespace farcached
