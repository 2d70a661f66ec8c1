// SPDX-License-Identifier: BSD-3-Clause
// `farctl top`: one screen of activity, from two surveys and the time between them. The terminal is in ctl/terminal.h;
// the caller has the clock. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctl/show.h"
#include "ctl/survey.h"

namespace farcached::ctl {

//        key  column     what it is
#define TOP_COLUMNS(X)                        \
    X('n', name, "name")                      \
    X('g', gets, "gets per second")           \
    X('s', sets, "sets per second")           \
    X('h', hits, "hit ratio")                 \
    X('e', evictions, "evictions per second") \
    X('m', memory, "memory in use")           \
    X('i', items, "items")                    \
    X('l', leased, "memory under leases")

enum class TopColumn : uint8_t {
#define X(key, name, help) name,
    TOP_COLUMNS(X)
#undef X
        count
};

struct TopView {
    TopColumn sort = TopColumn::gets;
    bool reverse = false;   // else names rise and numbers fall
};

// The effect of a key.
enum class TopKey : uint8_t { nothing, again, quit };
TopKey press(char key, TopView& view);

struct TopNode {
    std::string name, state;
    double gets_s = 0, sets_s = 0, evictions_s = 0;
    std::optional<double> hit_ratio;
    uint64_t memory = 0, memory_limit = 0, items = 0, leased = 0;
    bool known = false;
};

// Rates per second since `before`; without it, since each daemon's start. A counter that decreased started over.
std::vector<TopNode> top_nodes(const Survey& now, const Survey* before, double seconds);
void sort_nodes(std::vector<TopNode>& nodes, const TopView& view);

// Lines of any width; the first is the head.
std::vector<std::string> top_lines(const Survey& now, const Survey* before, double seconds, const TopView& view,
                                   const std::string& time);
Json top_json(const Survey& now, const Survey* before, double seconds, const TopView& view, const std::string& time);

}  // namespace farcached::ctl
