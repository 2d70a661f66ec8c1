// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/members.h"

#include <algorithm>
#include <map>

#include "ctl/format.h"

namespace farcached::ctl {

namespace {

// Of a node in the first list that has the row; empty: none has.
std::string listed_row(const std::vector<std::vector<std::pair<std::string, Stats>>>& lists, const std::string& node,
                       const char* name) {
    for (const auto& list : lists)
        for (const auto& [listed_node, rows] : list)
            if (listed_node == node && !rows.text(name).empty()) return rows.text(name);
    return {};
}

// NAME@HOST:PID; a proxy of an old version has only a name.
MemberProxy proxy_named(const std::string& process) {
    const size_t at = process.find('@'), colon = process.rfind(':');
    if (at == process.npos || colon == process.npos || colon < at) return {process, "", {}};
    return {process.substr(0, at), process.substr(at + 1, colon - at - 1), parse_number(process.substr(colon + 1))};
}

void add_seen(MemberProxy& proxy, const std::string& node, const Stats& rows) {
    proxy.nodes.push_back(node);
    const uint64_t lowest = rows.count("epoch_lowest");
    if (proxy.epoch_lowest == 0 || (lowest != 0 && lowest < proxy.epoch_lowest)) proxy.epoch_lowest = lowest;
    proxy.epoch_highest = std::max(proxy.epoch_highest, rows.count("epoch_highest"));
    proxy.connected_s = std::max(proxy.connected_s, rows.count("connected_s"));
}

// "2026-11-28 00:37:42" in local time.
std::string since(std::time_t now, uint64_t seconds) {
    const std::time_t then = now - std::time_t(seconds);
    std::tm parts{};
    localtime_r(&then, &parts);
    char text[32];
    return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts));
}

std::string epochs_of(const MemberProxy& proxy) {
    if (proxy.epoch_highest == 0) return "-";
    const std::string lowest = proxy.epoch_lowest == proxy.epoch_highest ? "" : std::to_string(proxy.epoch_lowest) + "..";
    return lowest + std::to_string(proxy.epoch_highest) + (proxy.is_behind ? " behind" : "");
}

}  // namespace

Members members_of(const Survey& survey, const std::vector<Stats>& lists,
                   const std::vector<std::pair<std::string, Stats>>& books) {
    Members members;
    std::vector<std::vector<std::pair<std::string, Stats>>> by_node;
    for (const Stats& list : lists) {
        by_node.push_back(split_by_node(list));
        for (const auto& [name, value] : list) {
            const bool is_new = std::ranges::find(members.farcached, value) == members.farcached.end();
            if (name.starts_with("farcached_") && name.find(':') == name.npos && is_new) members.farcached.push_back(value);
        }
    }
    uint64_t newest = 0;
    for (const NodeFacts& node : survey.nodes) {
        if (node.name == embedded_name) continue;
        const std::string version = node.stats.text("farnode_version");
        members.nodes.push_back({node.name, node.address, listed_row(by_node, node.name, "zone"),
                                 version.empty() ? listed_row(by_node, node.name, "version") : version, node.state(),
                                 node.stats.number("uptime"), node.stats.number("list_epoch")});
        newest = std::max(newest, node.stats.count("list_epoch"));
    }
    std::map<std::string, MemberProxy> proxies;
    for (const auto& [node, book] : books)
        for (const auto& [process, rows] : split_by_node(book))
            add_seen(proxies.try_emplace(process, proxy_named(process)).first->second, node, rows);
    for (auto& [process, proxy] : proxies) {
        proxy.is_behind = proxy.epoch_highest != 0 && proxy.epoch_highest < newest;
        members.proxies.push_back(std::move(proxy));
    }
    return members;
}

Members take_members(std::vector<Server>& servers, std::vector<Failure>& failures) {
    // First: a proxy names its epoch to the nodes that it asks for this.
    Survey survey = take_survey(servers);
    failures = std::move(survey.failures);
    std::vector<Stats> lists;
    for (Server& server : servers) {
        const Or<Server::Kind> kind = server.kind();
        const auto* known = std::get_if<Server::Kind>(&kind);
        if (known == nullptr || *known != Server::Kind::farcached) continue;  // its failure is in the survey
        Or<Stats> list = server.stats("members");
        if (auto* found = std::get_if<Stats>(&list)) lists.push_back(std::move(*found));
        else if (!std::get<Failure>(list).refused) failures.push_back(std::move(std::get<Failure>(list)));
    }
    std::vector<std::pair<std::string, Stats>> books;
    for (const NodeFacts& node : survey.nodes) {
        if (node.name == embedded_name || node.stats.empty()) continue;
        Or<Stats> book = stats_of_node(servers, node.name, "proxies");
        if (auto* found = std::get_if<Stats>(&book)) books.emplace_back(node.name, std::move(*found));
        else failures.push_back(std::move(std::get<Failure>(book)));
    }
    return members_of(survey, lists, books);
}

std::string members_text(const Members& members, std::time_t now, Look look) {
    TextTable nodes({"NODE", "ADDRESS", "ZONE", "VERSION", "STATE", "SINCE", ">EPOCH"});
    constexpr size_t state_column = 4;
    for (const MemberNode& one : members.nodes)
        nodes.add({one.name, one.address, or_dash(one.zone), or_dash(one.version), one.state,
                   one.uptime_s ? since(now, *one.uptime_s) : "-", or_dash(one.epoch)});
    TextTable proxies({"PROXY", "HOST", ">PID", ">NODES", "SINCE", "EPOCH"});
    for (const MemberProxy& one : members.proxies)
        proxies.add({one.name, or_dash(one.host), or_dash(one.pid), std::to_string(one.nodes.size()),
                     since(now, one.connected_s), epochs_of(one)});
    TextTable farcached({"FOR CLIENTS"});
    for (const std::string& one : members.farcached) farcached.add({one});
    std::string text = nodes.empty() ? "" : nodes.text(look.colour, state_column, tone_of_state);
    for (const TextTable* table : {&proxies, &farcached})
        if (!table->empty()) text += (text.empty() ? "" : "\n") + table->text(look.colour);
    return text;
}

Json json_of(const Members& members, const std::vector<Failure>& failures) {
    Json nodes = Json::array(), proxies = Json::array();
    const auto number_or_null = [](uint64_t number) { return number == 0 ? Json(nullptr) : Json(number); };
    for (const MemberNode& one : members.nodes)
        nodes.push_back({{"name", one.name},
                         {"address", one.address},
                         {"zone", one.zone},
                         {"version", one.version},
                         {"state", one.state},
                         {"uptime_s", json_of(one.uptime_s)},
                         {"epoch", json_of(one.epoch)}});
    for (const MemberProxy& one : members.proxies)
        proxies.push_back({{"name", one.name},
                           {"host", one.host},
                           {"pid", json_of(one.pid)},
                           {"nodes", one.nodes},
                           {"connected_s", one.connected_s},
                           {"epoch_lowest", number_or_null(one.epoch_lowest)},
                           {"epoch_highest", number_or_null(one.epoch_highest)},
                           {"behind", one.is_behind}});
    return {{"nodes", std::move(nodes)}, {"proxies", std::move(proxies)}, {"farcached", members.farcached},
            {"errors", json_of(failures)}};
}

}  // namespace farcached::ctl
