// SPDX-License-Identifier: BSD-3-Clause
// The names of a node's eviction policies, for its configuration (conf/) and for the node (node/policy/policy.h).
// Constants; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcached {

// leases: does the policy work with items that are read without the node's knowledge? The faithful ones do not: they must
// see every access.
//
//    name         leases  help
#define POLICIES(X)                                                                \
    X(clock,       true,  "one list; items that were read get a second pass")      \
    X(lru,         false, "one list, ordered by every access")                     \
    X(approx_lru,  true,  "one list, ordered by the accesses that are reported")   \
    X(pdla,        true,  "eight lists by popularity; lease terms by popularity")  \
    X(mq,          false, "eight lists, and a history of evicted keys")            \
    X(fixed_lease, true,  "one list; one lease term")                              \
    X(original,    true,  "one list that ignores reads; the longest lease term")   \
    X(s3fifo,      true,  "lists for new and used items; a history; pdla's terms") \
    X(pdla_paper,  true,  "pdla as in its paper; for comparison")

enum class PolicyKind : uint8_t {
#define X(name, leases, help) name,
    POLICIES(X)
#undef X
};

#define X(name, leases, help) #name,
constexpr std::array<std::string_view, 9> policy_names = {POLICIES(X)};
#undef X
#define X(name, leases, help) leases,
constexpr std::array<bool, 9> policy_leases = {POLICIES(X)};
#undef X
#define X(name, leases, help) help,
constexpr std::array<std::string_view, 9> policy_help = {POLICIES(X)};
#undef X
static_assert(policy_names.back() == "pdla_paper");

constexpr std::string_view name_of(PolicyKind kind) { return policy_names[size_t(kind)]; }
constexpr bool may_lease(PolicyKind kind) { return policy_leases[size_t(kind)]; }

}  // namespace farcached
