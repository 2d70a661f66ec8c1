// SPDX-License-Identifier: BSD-3-Clause
// The answers of --json. Every command's is one value; man/farctl.1 says of what shape.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "ctl/show.h"
#include "ctl/stats.h"
#include "ctl/survey.h"

namespace farcached::ctl {

using Json = nlohmann::ordered_json;

// Values that are whole numbers as such, all else as text.
Json json_of(const Stats& stats);
Json json_of(const Survey& survey);
Json json_of(const HotKeysFacts& facts);  // its keys
// null of none.
Json json_of(const std::optional<uint64_t>& number);
// part/whole; null of nothing.
Json ratio(uint64_t part, uint64_t whole);
Json json_of(const std::vector<Failure>& failures);

// In one line, or for the eye; what is no UTF-8 is replaced.
std::string dump(const Json& value, bool one_line);

}  // namespace farcached::ctl
