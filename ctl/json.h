// SPDX-License-Identifier: BSD-3-Clause
// The output of --json: one value per command; man/farctl.1 documents its shape. Pure.
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

// Whole numbers become JSON numbers, other values strings.
Json json_of(const Stats& stats);
Json json_of(const Survey& survey);
Json json_of(const HotKeysFacts& facts);  // of its keys
// null if unset.
Json json_of(const std::optional<uint64_t>& number);
// part/whole; null if whole is 0.
Json ratio(uint64_t part, uint64_t whole);
Json json_of(const std::vector<Failure>& failures);

// On one line or indented; invalid UTF-8 is replaced.
std::string dump(const Json& value, bool one_line);

}  // namespace farcached::ctl
