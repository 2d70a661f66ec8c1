// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/top.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "ctl/format.h"
#include "ctl/show.h"

namespace farcached::ctl {

namespace {

struct ColumnRow {
    char key;
    std::string_view name, help;
};
constexpr std::array<ColumnRow, size_t(TopColumn::count)> columns = {{
#define X(key, name, help) {key, #name, help},
    TOP_COLUMNS(X)
#undef X
}};

// A counter's growth; it may have started over.
double grown(uint64_t now, uint64_t before) { return double(now < before ? now : now - before); }

const NodeFacts* find(const Survey* survey, const NodeFacts& node) {
    if (survey == nullptr) return nullptr;
    for (const NodeFacts& one : survey->nodes)
        if (one.name == node.name && (node.name != embedded_name || one.address == node.address)) return &one;
    return nullptr;
}

const ProxyFacts* find(const Survey* survey, const ProxyFacts& proxy) {
    if (survey == nullptr) return nullptr;
    for (const ProxyFacts& one : survey->proxies)
        if (one.socket == proxy.socket && one.general.text("pid") == proxy.general.text("pid")) return &one;
    return nullptr;
}

// The period of a row's growth.
double span_s(bool has_before, double seconds, const Stats& stats) {
    return std::max(has_before ? seconds : double(stats.count("uptime")), 1e-3);
}

TopNode row_of(const NodeFacts& node, const NodeFacts* before, double seconds) {
    const bool same = before != nullptr && !before->stats.empty() && before->incarnation == node.incarnation;
    const NodeFacts nothing;
    const NodeFacts& then = same ? *before : nothing;
    const double span = span_s(same, seconds, node.stats);
    auto rate = [&](const char* name) { return grown(node.stats.count(name), then.stats.count(name)) / span; };
    TopNode row;
    row.name = node.name;
    row.state = node.state();
    row.known = !node.stats.empty();
    const double gets = grown(node.gets(), then.gets());
    row.gets_s = gets / span;
    row.sets_s = rate("cmd_set");
    row.evictions_s = rate("evictions");
    if (gets > 0) row.hit_ratio = std::min(grown(node.hits(), then.hits()) / gets, 1.0);
    row.memory = node.stats.count("bytes");
    row.memory_limit = node.stats.count("limit_maxbytes");
    row.items = node.stats.count("curr_items");
    row.leased = node.stats.count("lease_bytes");
    return row;
}

// The sort value of a node, except by name.
double weight(const TopNode& node, TopColumn column) {
    switch (column) {
        case TopColumn::gets: return node.gets_s;
        case TopColumn::sets: return node.sets_s;
        case TopColumn::hits: return node.hit_ratio.value_or(-1);
        case TopColumn::evictions: return node.evictions_s;
        case TopColumn::memory: return double(node.memory);
        case TopColumn::items: return double(node.items);
        case TopColumn::leased: return double(node.leased);
        case TopColumn::name:
        case TopColumn::count: break;
    }
    return 0;
}

std::string ratio_text(const std::optional<double>& ratio) { return ratio ? percent(*ratio, 1) : "-"; }

std::vector<std::string> node_lines(const std::vector<TopNode>& nodes) {
    TextTable table({"NODE", "STATE", ">GETS/s", ">HITS", ">SETS/s", ">EVICT/s", ">MEMORY", ">OF", ">USED", ">ITEMS",
                     ">LEASED"});
    for (const TopNode& node : nodes) {
        if (!node.known) {
            table.add({node.name, node.state, "-", "-", "-", "-", "-", "-", "-", "-", "-"});
            continue;
        }
        table.add({node.name, node.state, human_count(node.gets_s), ratio_text(node.hit_ratio), human_count(node.sets_s),
                   human_count(node.evictions_s), human_bytes(node.memory), human_bytes(node.memory_limit),
                   percent(double(node.memory), double(node.memory_limit)), std::to_string(node.items),
                   human_bytes(node.leased)});
    }
    return table.lines();
}

// The growth of a proxy's counters.
Stats grown_stats(const Stats& now, const Stats* before) {
    Stats grew;
    for (const auto& [name, value] : now) {
        const auto number = parse_number(value);
        if (!number) continue;
        const uint64_t then = before == nullptr ? 0 : before->count(name);
        grew.add(name, std::to_string(uint64_t(grown(*number, then))));
    }
    return grew;
}

std::vector<std::string> proxy_lines(const Survey& now, const Survey* before, double seconds) {
    TextTable table({"PROXY", ">CLIENTS", ">GETS/s", ">HITS", ">LOCAL", ">ONE-SIDED", ">INDEX", ">TWO-SIDED", ">SETS/s"});
    for (const ProxyFacts& proxy : now.proxies) {
        const ProxyFacts* then = find(before, proxy);
        const double span = span_s(then != nullptr, seconds, proxy.general);
        const Stats general = grown_stats(proxy.general, then == nullptr ? nullptr : &then->general);
        const Stats own = grown_stats(proxy.proxy, then == nullptr ? nullptr : &then->proxy);
        std::vector<std::string> cells = {proxy.socket, or_dash(proxy.general.number("curr_connections")),
                                          human_count(double(general.count("cmd_get")) / span),
                                          percent(double(general.count("get_hits")), double(general.count("cmd_get")))};
        for (std::string& way : ways_of(own)) cells.push_back(std::move(way));
        cells.push_back(human_count(double(general.count("cmd_set")) / span));
        table.add(std::move(cells));
    }
    return table.empty() ? std::vector<std::string>() : table.lines();
}

std::string reasons_text(const std::vector<std::pair<std::string, uint64_t>>& rows, uint64_t all) {
    std::string text;
    for (const auto& [name, count] : rows)
        text += (text.empty() ? "" : ", ") + name + " " + percent(double(count), double(all));
    return or_dash(text);
}

// The one-sided share of GETs per proxy; proxies without such GETs are left out.
std::vector<std::string> onesided_lines(const Survey& now, const Survey* before) {
    TextTable table({"PROXY", ">ONE-SIDED", "OTHER GETS, BY REASON", "POINTERS DENIED"});
    for (const ProxyFacts& proxy : now.proxies) {
        const ProxyFacts* then = find(before, proxy);
        const OneSidedFacts facts = onesided_of(grown_stats(proxy.proxy, then == nullptr ? nullptr : &then->proxy));
        if (facts.all == 0) continue;
        table.add({proxy.socket, percent(double(facts.onesided), double(facts.all)), reasons_text(facts.reasons, facts.all),
                   reasons_text(facts.denials, facts.grantable)});
    }
    return table.empty() ? std::vector<std::string>() : table.lines();
}

Json json_of(const std::vector<std::pair<std::string, uint64_t>>& rows) {
    Json object = Json::object();
    for (const auto& [name, count] : rows) object[name] = count;
    return object;
}

std::string head_of(const Survey& now, const Survey* before, double seconds, const TopView& view,
                    const std::string& time) {
    char span[32] = "averages since the start";
    if (before != nullptr) std::snprintf(span, sizeof span, "the last %.1f s", seconds);
    return "farctl top  " + time + "  " + counted(now.nodes.size(), "node", "nodes") + ", " +
           counted(now.proxies.size(), "proxy", "proxies") + ", " + span + ", by " +
           std::string(columns[size_t(view.sort)].name) + (view.reverse ? ", reversed" : "");
}

std::string keys_line() {
    std::string line = "sort by";
    for (const ColumnRow& column : columns) {
        line += std::string(" ") + column.key + ":";
        line += column.name;
    }
    return line + "  r:reverse  q:quit";
}

}  // namespace

TopKey press(char key, TopView& view) {
    if (key == 'q' || key == 'Q') return TopKey::quit;
    if (key == 'r') {
        view.reverse = !view.reverse;
        return TopKey::again;
    }
    if (key == ' ') return TopKey::again;
    for (size_t i = 0; i < columns.size(); i++) {
        if (columns[i].key != key) continue;
        view.sort = TopColumn(i);
        return TopKey::again;
    }
    return TopKey::nothing;
}

std::vector<TopNode> top_nodes(const Survey& now, const Survey* before, double seconds) {
    std::vector<TopNode> nodes;
    for (const NodeFacts& node : now.nodes) nodes.push_back(row_of(node, find(before, node), seconds));
    return nodes;
}

void sort_nodes(std::vector<TopNode>& nodes, const TopView& view) {
    std::stable_sort(nodes.begin(), nodes.end(), [](const TopNode& a, const TopNode& b) { return a.name < b.name; });
    if (view.sort != TopColumn::name)
        std::stable_sort(nodes.begin(), nodes.end(), [&](const TopNode& a, const TopNode& b) {
            return weight(a, view.sort) > weight(b, view.sort);
        });
    if (view.reverse) std::reverse(nodes.begin(), nodes.end());
}

std::vector<std::string> top_lines(const Survey& now, const Survey* before, double seconds, const TopView& view,
                                   const std::string& time) {
    std::vector<TopNode> nodes = top_nodes(now, before, seconds);
    sort_nodes(nodes, view);
    std::vector<std::string> lines = {head_of(now, before, seconds, view, time), keys_line(), ""};
    if (!nodes.empty())
        for (std::string& line : node_lines(nodes)) lines.push_back(std::move(line));
    for (const auto& table : {proxy_lines(now, before, seconds), onesided_lines(now, before)}) {
        if (table.empty()) continue;
        lines.emplace_back();
        lines.insert(lines.end(), table.begin(), table.end());
    }
    if (!now.failures.empty()) lines.emplace_back();
    for (const Failure& failure : now.failures) lines.push_back(printable(failure.text));
    return lines;
}

Json top_json(const Survey& now, const Survey* before, double seconds, const TopView& view, const std::string& time) {
    std::vector<TopNode> sorted = top_nodes(now, before, seconds);
    sort_nodes(sorted, view);
    Json nodes = Json::array(), proxies = Json::array();
    for (const TopNode& node : sorted)
        nodes.push_back({{"name", node.name},
                         {"state", node.state},
                         {"gets_per_s", node.gets_s},
                         {"hit_ratio", node.hit_ratio ? Json(*node.hit_ratio) : Json(nullptr)},
                         {"sets_per_s", node.sets_s},
                         {"evictions_per_s", node.evictions_s},
                         {"memory_bytes", node.memory},
                         {"memory_limit_bytes", node.memory_limit},
                         {"items", node.items},
                         {"leased_bytes", node.leased}});
    for (const ProxyFacts& proxy : now.proxies) {
        const ProxyFacts* then = find(before, proxy);
        const Stats general = grown_stats(proxy.general, then == nullptr ? nullptr : &then->general);
        const double span = span_s(then != nullptr, seconds, proxy.general);
        const OneSidedFacts facts = onesided_of(grown_stats(proxy.proxy, then == nullptr ? nullptr : &then->proxy));
        proxies.push_back({{"socket", proxy.socket},
                           {"gets_per_s", double(general.count("cmd_get")) / span},
                           {"hit_ratio", ratio(general.count("get_hits"), general.count("cmd_get"))},
                           {"sets_per_s", double(general.count("cmd_set")) / span},
                           {"one_sided_share", ratio(facts.onesided, facts.all)},
                           {"not_one_sided", json_of(facts.reasons)},
                           {"pointer_replies", facts.grantable},
                           {"pointer_denials", json_of(facts.denials)}});
    }
    return {{"time", time},
            {"seconds", before == nullptr ? Json(nullptr) : Json(seconds)},
            {"nodes", std::move(nodes)},
            {"proxies", std::move(proxies)},
            {"errors", json_of(now.failures)}};
}

}  // namespace farcached::ctl
