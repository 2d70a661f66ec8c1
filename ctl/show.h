// SPDX-License-Identifier: BSD-3-Clause
// The output of the commands: text as whole lines; and of --json, one value per command, whose shape man/farctl.1 documents.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "ctl/server.h"
#include "ctl/survey.h"

namespace farcached::ctl {

// How tables look.
struct Look {
    bool colour = false;
    bool wide = false;  // with the columns that few need
};
// warnings: sentences below the tables.
std::string status_text(const Survey& survey, Look look = {}, const std::vector<std::string>& warnings = {});
// A sentence if the source of a proxy's list of nodes is down; otherwise empty.
std::string discovery_trouble(const ProxyFacts& proxy);
// A sentence if a node refuses requests; empty: it does not, or needs no registration.
std::string registration_trouble(const NodeFacts& node);
// Names and values in two columns.
std::string stats_text(const Stats& stats);
// The line behind statistics that names their groups. Empty: no groups.
std::string groups_line(const std::string& node, const std::string& groups);
// From `stats pointers`, with usage counts from `stats proxy`.
std::string pointers_text(const Stats& table, const Stats& proxy);
struct LeaseFacts {
    std::string node;
    Stats stats;  // of the group leases; for a farcached, from `stats proxy`
};
// From `stats hotkeys`, in its order.
struct HotKeysFacts {
    struct Key {
        std::string way, key;  // the key as sent: unprintable bytes are %XX
        uint64_t requests = 0, error = 0;
    };
    uint64_t one_in = 0;
    std::vector<Key> keys;
};
HotKeysFacts hot_keys_of(const Stats& stats);
// Without the keys whose error exceeds their requests.
std::string hot_keys_text(const HotKeysFacts& facts, Look look = {});
std::string leases_text(const std::vector<LeaseFacts>& nodes, Look look = {});

// "local 12.0%, one-sided 80.0%, ..." of the GETs that a proxy answered; four cells.
std::vector<std::string> ways_of(const Stats& proxy);

// A proxy's GETs through connections to nodes: the number of one-sided ones, and the reasons of the others. Nodes grant pointers in
// replies to GETs and to stores.
struct OneSidedFacts {
    uint64_t onesided = 0, all = 0;
    uint64_t grantable = 0;  // replies that could bring a pointer
    std::vector<std::pair<std::string, uint64_t>> reasons;  // with nonzero count, most frequent first
    std::vector<std::pair<std::string, uint64_t>> denials;  // the bounds that denied pointers, in the same order
};
// From `stats proxy`, or from the growth of its counters.
OneSidedFacts onesided_of(const Stats& proxy);

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
