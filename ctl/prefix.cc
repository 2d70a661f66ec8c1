// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/prefix.h"

#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "ctl/format.h"
#include "ctl/survey.h"

namespace farcached::ctl {

namespace {

constexpr uint32_t look_every_ms = 20;

const PrefixTold::One* find(const PrefixTold& told, const std::string& node) {
    const auto at = std::ranges::find(told.nodes, node, &PrefixTold::One::node);
    return at == told.nodes.end() ? nullptr : &*at;
}

uint64_t order_of(const PrefixTold* told, const std::string& node) {
    const PrefixTold::One* one = told == nullptr ? nullptr : find(*told, node);
    return one == nullptr ? 0 : one->order;
}

// A node that is still at it.
bool is_running(const PrefixTold::One& one, const PrefixTold* before) {
    if (one.state == "busy") return true;
    return one.state == "running" && (before == nullptr || one.order > order_of(before, one.node));
}

// Looks until no node is at it any more, or none makes progress.
std::optional<Failure> wait_for_nodes(Server& server, const std::string& command, const PrefixTold* before, uint32_t timeout_ms,
                                      PrefixTold& told) {
    uint32_t idle_ms = 0;
    uint64_t progress = 0;
    for (;;) {
        Or<Stats> rows = server.rows(command);
        if (auto* failure = std::get_if<Failure>(&rows)) return std::move(*failure);
        told = prefix_told_of(std::get<Stats>(rows));
        bool running = false;
        uint64_t pages = 0;
        for (const PrefixTold::One& one : told.nodes) {
            pages += one.pages_done;
            running = running || is_running(one, before);
        }
        if (!running) return {};
        idle_ms = pages == progress ? idle_ms + look_every_ms : 0;
        progress = pages;
        if (idle_ms > timeout_ms) return {};
        usleep(look_every_ms * 1000);
    }
}

// Names this program's count among those of others.
std::string token_of_this() { return std::to_string(getpid()) + "-" + std::to_string(std::random_device()() % 10000); }

std::string count_command(const std::string& token, const std::string& prefix) { return "count_prefix " + token + " " + prefix; }

}  // namespace

PrefixTold prefix_told_of(const Stats& rows) {
    PrefixTold told;
    for (const auto& [node, own] : split_by_node(rows))
        told.nodes.push_back({node, own.text("state"), own.count("order"), own.count("pages_done"), own.number("items")});
    return told;
}

PrefixResult prefix_result_of(const PrefixTold& now, const PrefixTold* before) {
    PrefixResult result;
    result.items = 0;
    result.nodes = now.nodes.size();
    for (const PrefixTold::One& one : now.nodes) {
        const bool did_it = before == nullptr ? one.state == "complete" : one.order > order_of(before, one.node);
        if (!did_it) continue;
        result.nodes_done++;
        const bool known = one.state == "complete" && one.items && result.items;
        result.items = known ? std::optional<uint64_t>(*result.items + *one.items) : std::nullopt;
    }
    return result;
}

std::string prefix_text(const PrefixResult& result, const std::string& prefix, bool is_count) {
    const std::string items = result.items ? counted(*result.items, "item", "items") : "all items";
    std::string text = (is_count ? "" : "deleted ") + items + " beginning with \"" + prefix + "\"";
    if (result.nodes != 0) text += " on " + std::to_string(result.nodes_done) + " of " + counted(result.nodes, "node", "nodes");
    if (is_count) text += "; nothing is deleted";
    if (!result.items) text += "; their number is not known";
    return text;
}

PrefixResult delete_prefix(Server& server, const std::string& prefix, uint32_t timeout_ms) {
    const std::string look = count_command("deleted", prefix);
    // A prefix that is too long to count is deleted all the same, and so are the items of older daemons.
    Or<Stats> rows = server.rows(look);
    PrefixTold before, now;
    const bool counts = std::holds_alternative<Stats>(rows);
    if (counts) before = prefix_told_of(std::get<Stats>(rows));
    std::optional<Failure> failure = server.order("delete_prefix " + prefix);
    if (failure && !failure->refused) return {{}, 0, 0, std::move(failure)};
    std::optional<Failure> uncounted;
    if (counts) uncounted = wait_for_nodes(server, look, &before, timeout_ms, now);
    PrefixResult result = prefix_result_of(now, &before);
    if (!counts || uncounted) result.items = std::nullopt;
    if (!failure && result.nodes_done < result.nodes) {
        result.nodes_done = result.nodes;  // they confirmed, and cannot tell a number
        result.items = std::nullopt;
    }
    result.failure = std::move(failure);
    return result;
}

PrefixResult count_prefix(Server& server, const std::string& prefix, uint32_t timeout_ms) {
    PrefixTold now;
    std::optional<Failure> failure = wait_for_nodes(server, count_command(token_of_this(), prefix), nullptr, timeout_ms, now);
    PrefixResult result = prefix_result_of(now, nullptr);
    result.failure = std::move(failure);
    if (!result.failure && result.nodes_done < result.nodes)
        result.failure = Failure{server.path() + ": " + std::to_string(result.nodes - result.nodes_done) + " of " +
                                 counted(result.nodes, "node", "nodes") + " did not count: down, too old, or busy"};
    return result;
}

}  // namespace farcached::ctl
