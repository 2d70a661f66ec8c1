// SPDX-License-Identifier: BSD-3-Clause
// What `status`, `stats`, `pointers` and `leases` print as text, from what was told. Whole lines.
#pragma once

#include <string>
#include <vector>

#include "ctl/stats.h"
#include "ctl/survey.h"

namespace farcached::ctl {

std::string status_text(const Survey& survey);
// Names and values in two columns.
std::string stats_text(const Stats& stats);
// Of `stats pointers`, with how it was used from `stats proxy`.
std::string pointers_text(const Stats& table, const Stats& proxy);
struct LeaseFacts {
    std::string node;
    Stats stats;  // of the group leases; of a farcached: what `stats proxy` has of them
};
// Of `stats hotkeys`, in its order.
struct HotKeysFacts {
    struct Key {
        std::string way, key;  // the key as it is told: what is not printable is %XX
        uint64_t requests = 0, error = 0;
    };
    uint64_t one_in = 0;
    std::vector<Key> keys;
};
HotKeysFacts hot_keys_of(const Stats& stats);
std::string hot_keys_text(const HotKeysFacts& facts);
std::string leases_text(const std::vector<LeaseFacts>& nodes);

// "local 12.0%, one-sided 80.0%, ..." of the GETs that a proxy answered; four cells.
std::vector<std::string> ways_of(const Stats& proxy);

}  // namespace farcached::ctl
