// SPDX-License-Identifier: BSD-3-Clause
// The names of a node's eviction policies, for its configuration (conf/) and for the node (node/policy.h).
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
    X(clock,       true,  "one list; what was read goes round once more")          \
    X(lru,         false, "one list, renewed by each access")                      \
    X(approx_lru,  true,  "one list, renewed by the accesses it is told")          \
    X(pdla,        true,  "eight lists by popularity, and leases by it")           \
    X(mq,          false, "eight lists, and a memory of the evicted")              \
    X(fixed_lease, true,  "one list, under leases of one term")                    \
    X(original,    true,  "one list, told of no read; leases of the longest term") \
    X(s3fifo,      true,  "two lists and a memory; leases as pdla's")              \
    X(pdla_paper,  true,  "pdla as its paper has it; to compare with")

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
