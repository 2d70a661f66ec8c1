// SPDX-License-Identifier: BSD-3-Clause
// Stats: the lines "STAT name value" of a daemon, in its order; and Failure, farctl's error.
// Owner: its holder; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace farcached::ctl {

// A sentence for the operator, without a full stop, that begins with its subject.
struct Failure {
    std::string text;
    bool refused = false;  // the daemon answered with a refusal
};

template <class Value>
using Or = Result<Value, Failure>;

class Stats {
  public:
    using Row = std::pair<std::string, std::string>;

    void add(std::string name, std::string value) { rows_.emplace_back(std::move(name), std::move(value)); }
    bool empty() const { return rows_.empty(); }
    auto begin() const { return rows_.begin(); }
    auto end() const { return rows_.end(); }

    // nullptr: absent.
    const std::string* find(std::string_view name) const;
    std::string text(std::string_view name) const;  // "": absent
    // None: absent, or not a number.
    std::optional<uint64_t> number(std::string_view name) const;
    uint64_t count(std::string_view name) const { return number(name).value_or(0); }

  private:
    std::vector<Row> rows_;
};

// A whole number without sign, blanks or leading zeros.
std::optional<uint64_t> parse_number(std::string_view text);

}  // namespace farcached::ctl
