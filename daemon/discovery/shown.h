// SPDX-License-Identifier: BSD-3-Clause
// The texts of `stats discovery`, and how they are made from the state of a source. Pure.
#pragma once

#include <string>

#include "base/stat_row.h"
#include "daemon/discovery/source.h"

namespace farcached::daemon {

// The list that a process uses; main's thread writes it.
struct ListInUse {
    uint64_t revision = 0;     // 0: none yet
    uint64_t nodes = 0;
    uint64_t refused = 0;      // lists that could not be used
    std::string refusal = {};  // the reason of the last one; empty: none
};

struct DiscoveryShown {
    std::string source, state, nodes, revision, nodes_in_use, revision_in_use, changes, answers, failures, age, last_error, skipped,
        refused, refusal;
};
inline constexpr StatRow<std::string DiscoveryShown::*> discovery_rows[] = {
    {"source", "the source of the list of nodes (--discover)", &DiscoveryShown::source},
    {"state", "up: the last look-up succeeded; down: it failed, and the last list stays in use", &DiscoveryShown::state},
    {"nodes", "nodes of the newest list", &DiscoveryShown::nodes},
    {"revision", "revision of the newest list, which grows with each change; with DNS counted from 1 in this process",
     &DiscoveryShown::revision},
    {"nodes_in_use", "nodes of the list in use", &DiscoveryShown::nodes_in_use},
    {"revision_in_use", "revision of the list in use; less than revision: the newest one is refused, or not yet in use",
     &DiscoveryShown::revision_in_use},
    {"changes", "lists that differed from the one before", &DiscoveryShown::changes},
    {"answers", "look-ups that succeeded", &DiscoveryShown::answers},
    {"failures", "look-ups that failed, or listed no node", &DiscoveryShown::failures},
    {"answer_age_s", "seconds since the last look-up that succeeded", &DiscoveryShown::age},
    {"last_error", "reason of the last failure; empty: none", &DiscoveryShown::last_error},
    {"skipped", "records in etcd that were no nodes, counted at each read; the log names them", &DiscoveryShown::skipped},
    {"refused", "times that a list could not be used, such as for a host without an address; the list before stays in use",
     &DiscoveryShown::refused},
    {"last_refusal", "reason of the last one; empty: none", &DiscoveryShown::refusal},
};

inline DiscoveryShown shown_of(const SourceState& state, const ListInUse& used) {
    return {.source = state.source,
            .state = state.up ? "up" : "down",
            .nodes = std::to_string(state.nodes),
            .revision = std::to_string(state.revision),
            .nodes_in_use = std::to_string(used.nodes),
            .revision_in_use = std::to_string(used.revision),
            .changes = std::to_string(state.changes),
            .answers = std::to_string(state.answers),
            .failures = std::to_string(state.failures),
            .age = state.answer_age_s.has_value() ? std::to_string(*state.answer_age_s) : std::string(),
            .last_error = state.last_error,
            .skipped = std::to_string(state.skipped),
            .refused = std::to_string(used.refused),
            .refusal = used.refusal};
}

}  // namespace farcached::daemon
