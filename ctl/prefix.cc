// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/prefix.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "ctl/format.h"
#include "ctl/survey.h"
#include "ctl/terminal.h"
#include "ctl/wait.h"

namespace farcached::ctl {

namespace {

constexpr uint32_t pause_min_ms = 20, pause_max_ms = 500;
// One that runs, some of other askers, and that of this delete or count.
constexpr uint32_t walks_max = 5;

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

// Polls until no node is at it any more, or none has made progress for timeout_ms. `running`: the nodes that are.
std::optional<Failure> wait_for_nodes(Server& server, const std::string& command, const PrefixTold* before, uint32_t timeout_ms,
                                      PrefixTold& told, size_t& running) {
    using Clock = std::chrono::steady_clock;
    PrefixProgress progress;
    ProgressLine line;
    Clock::time_point advanced_at = Clock::now();
    uint32_t pause_ms = pause_min_ms;
    for (;;) {
        Or<Stats> rows = server.rows(command);
        if (auto* failure = std::get_if<Failure>(&rows)) return std::move(*failure);
        told = prefix_told_of(std::get<Stats>(rows));
        const PrefixProgress::Look look = progress.look(told, before);
        running = look.running;
        if (running == 0) return {};
        if (look.advanced) advanced_at = Clock::now();
        if (Clock::now() - advanced_at > std::chrono::milliseconds(timeout_ms)) return {};
        line.show(std::string(before == nullptr ? "counting" : "freeing memory") + " on " + counted(running, "node", "nodes") +
                  ": " + percent(double(look.pages_done), double(look.pages)) + " of the pages");
        wait_ms(pause_ms);
        pause_ms = std::min(pause_ms * 2, pause_max_ms);
    }
}

// Names this program's count among those of others.
std::string token_of_this() { return std::to_string(getpid()) + "-" + std::to_string(std::random_device()() % 10000); }

std::string count_command(const std::string& token, const std::string& prefix) { return "count_prefix " + token + " " + prefix; }

bool has_copies(Server& server) {
    const Or<Stats> settings = server.stats("settings");
    const auto* rows = std::get_if<Stats>(&settings);
    return rows != nullptr && rows->count("replicas") > 1;
}

}  // namespace

PrefixTold prefix_told_of(const Stats& rows) {
    PrefixTold told;
    for (const auto& [node, own] : split_by_node(rows))
        told.nodes.push_back({node, own.text("state"), own.count("order"), own.count("pages_done"),
                              own.count("pages"), own.count("pages_walked"), own.number("items")});
    return told;
}

PrefixProgress::Look PrefixProgress::look(const PrefixTold& told, const PrefixTold* before) {
    Look look;
    for (const PrefixTold::One& one : told.nodes) {
        if (!is_running(one, before)) continue;
        const auto [at, is_first] = nodes_.try_emplace(one.node, Walks{one.pages_done, one.pages_walked, 1});
        Walks& walks = at->second;
        if (one.pages_done < walks.pages_done) walks.begun++;
        // Sweeps interrupt a count, and are progress, too.
        const bool goes_on = one.pages_done != walks.pages_done || one.pages_walked != walks.pages_walked;
        look.advanced = look.advanced || (goes_on && walks.begun <= walks_max);
        walks.pages_done = one.pages_done;
        walks.pages_walked = one.pages_walked;
        look.running++;
        look.pages_done += one.pages_done;
        look.pages += one.pages;
    }
    return look;
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
    std::string items = result.items ? counted(*result.items, "item", "items") : "all items";
    if (result.items && result.has_copies) items += ", copies included,";
    std::string text = (is_count ? "" : "deleted ") + items + " beginning with \"" + prefix + "\"";
    if (result.nodes != 0) text += " on " + std::to_string(result.nodes_done) + " of " + counted(result.nodes, "node", "nodes");
    if (is_count) text += "; nothing is deleted";
    if (!result.items && (is_count || result.nodes_running == 0)) text += "; their number is not known";
    else if (!result.items)
        text += "; their number is not known yet: readers no longer see them, and their memory is still being freed on " +
                counted(result.nodes_running, "node", "nodes");
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
    if (failure && !failure->refused) return {{}, 0, 0, 0, /* has_copies= */ false, std::move(failure)};
    std::optional<Failure> uncounted;
    size_t running = 0;
    if (counts) uncounted = wait_for_nodes(server, look, &before, timeout_ms, now, running);
    PrefixResult result = prefix_result_of(now, &before);
    result.nodes_running = running;
    if (!counts || uncounted) result.items = std::nullopt;
    result.has_copies = result.items && has_copies(server);
    if (!failure && result.nodes_done < result.nodes) {
        result.nodes_done = result.nodes;  // they confirmed, and cannot tell a number
        result.items = std::nullopt;
    }
    result.failure = std::move(failure);
    return result;
}

PrefixResult count_prefix(Server& server, const std::string& prefix, uint32_t timeout_ms) {
    PrefixTold now;
    size_t running = 0;
    std::optional<Failure> failure =
        wait_for_nodes(server, count_command(token_of_this(), prefix), nullptr, timeout_ms, now, running);
    PrefixResult result = prefix_result_of(now, nullptr);
    result.nodes_running = running;
    result.has_copies = result.items && has_copies(server);
    result.failure = std::move(failure);
    const std::string undone = server.path() + ": " + std::to_string(result.nodes - result.nodes_done) + " of " +
                               counted(result.nodes, "node", "nodes");
    if (!result.failure && running != 0)
        result.failure = Failure{undone + " did not count: no progress for " + std::to_string(timeout_ms) +
                                 " ms; --timeout waits longer"};
    if (!result.failure && result.nodes_done < result.nodes)
        result.failure = Failure{undone + " did not count: down, too old, or busy"};
    return result;
}

}  // namespace farcached::ctl
