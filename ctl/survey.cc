// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/survey.h"

#include <algorithm>
#include <utility>

#include "base/nearest.h"

namespace farcached::ctl {

namespace {

NodeFacts& node_named(Survey& survey, const std::string& name) {
    for (NodeFacts& node : survey.nodes)
        if (node.name == name) return node;
    survey.nodes.emplace_back().name = name;
    return survey.nodes.back();
}

void add_farnode(Survey& survey, const std::string& socket, Stats stats) {
    NodeFacts& node = node_named(survey, stats.text("node"));
    if (node.address.empty()) node.address = socket;
    node.incarnation = stats.text("incarnation");
    node.stats = std::move(stats);
}

// In any state: a drained node is alive and reports its statistics.
bool is_connected(const Stats& rows) { return rows.count("links_up") != 0; }

void add_seen(Survey& survey, const std::string& socket, const std::string& name, const Stats& rows) {
    NodeFacts& node = node_named(survey, name);
    node.seen.push_back({socket, rows.text("state"), rows.text("down_reason"), rows.count("links"), rows.count("links_up"),
                         rows.count("protocol_version")});
    if (!rows.text("address").empty()) node.address = rows.text("address");
    if (node.key.empty()) node.key = rows.text("key");
    if (node.zone.empty()) node.zone = rows.text("zone");
    if (node.stats.empty() && (node.incarnation.empty() || is_connected(rows)))
        node.incarnation = rows.text("incarnation");
    for (const char* counter : {"get_local", "get_onesided", "get_index"}) node.hits_unseen += rows.count(counter);
}

// Queries nodes that this proxy reaches and that no earlier server answered for.
void ask_nodes(Survey& survey, Server& server, const std::vector<std::pair<std::string, Stats>>& seen) {
    for (const auto& [name, rows] : seen) {
        NodeFacts& node = node_named(survey, name);
        if (!node.stats.empty() || !is_connected(rows)) continue;
        Or<Stats> own = server.stats("node " + name);
        if (auto* failure = std::get_if<Failure>(&own))
            survey.failures.push_back(std::move(*failure));
        else
            node.stats = std::move(std::get<Stats>(own));
    }
}

void add_farcached(Survey& survey, Server& server) {
    ProxyFacts facts;
    facts.socket = server.path();
    Or<Stats> general = server.stats(), proxy = server.stats("proxy"), nodes = server.stats("nodes");
    for (Or<Stats>* needed : {&general, &proxy}) {
        auto* failure = std::get_if<Failure>(needed);
        if (failure == nullptr) continue;
        survey.failures.push_back(std::move(*failure));
        return;
    }
    facts.general = std::move(std::get<Stats>(general));
    facts.proxy = std::move(std::get<Stats>(proxy));
    Or<Stats> discovery = server.stats("discovery");
    if (auto* found = std::get_if<Stats>(&discovery)) facts.discovery = std::move(*found);
    else if (!std::get<Failure>(discovery).refused) survey.failures.push_back(std::move(std::get<Failure>(discovery)));
    const Failure* no_nodes = std::get_if<Failure>(&nodes);
    if (no_nodes != nullptr && !no_nodes->refused) {
        survey.failures.push_back(*no_nodes);
    } else if (no_nodes != nullptr || std::get<Stats>(nodes).empty()) {
        NodeFacts& embedded = survey.nodes.emplace_back();
        embedded.name = embedded_name;
        embedded.address = server.path();
        embedded.stats = facts.general;
    } else {
        const auto seen = split_by_node(std::get<Stats>(nodes));
        for (const auto& [name, rows] : seen) add_seen(survey, server.path(), name, rows);
        ask_nodes(survey, server, seen);
    }
    survey.proxies.push_back(std::move(facts));
}

}  // namespace

std::string NodeFacts::state() const {
    if (seen.empty()) return "up";  // it answered directly
    for (const Seen& one : seen)
        if (one.state != seen.front().state) return "mixed";
    return seen.front().state;
}

uint64_t NodeFacts::unseen() const { return std::max(hits_unseen, stats.count("accesses")); }

std::vector<std::pair<std::string, Stats>> split_by_node(const Stats& rows) {
    std::vector<std::pair<std::string, Stats>> nodes;
    for (const auto& [name, value] : rows) {
        const size_t colon = name.rfind(':');
        if (colon == name.npos) continue;
        const std::string node = name.substr(0, colon);
        auto found = std::find_if(nodes.begin(), nodes.end(), [&](const auto& one) { return one.first == node; });
        if (found == nodes.end()) found = nodes.insert(nodes.end(), {node, {}});
        found->second.add(name.substr(colon + 1), value);
    }
    return nodes;
}

Survey take_survey(std::vector<Server>& servers) {
    Survey survey;
    // Nodes first: a node that answers directly needs no query through a proxy.
    std::vector<Server*> proxies;
    for (Server& server : servers) {
        Or<Server::Kind> kind = server.kind();
        if (auto* failure = std::get_if<Failure>(&kind)) {
            survey.failures.push_back(std::move(*failure));
            continue;
        }
        if (std::get<Server::Kind>(kind) == Server::Kind::farcached) {
            proxies.push_back(&server);
            continue;
        }
        Or<Stats> own = server.stats();
        if (auto* failure = std::get_if<Failure>(&own))
            survey.failures.push_back(std::move(*failure));
        else
            add_farnode(survey, server.path(), std::move(std::get<Stats>(own)));
    }
    for (Server* proxy : proxies) add_farcached(survey, *proxy);
    return survey;
}

Or<std::vector<std::string>> names_of_nodes(Server& server) {
    Or<Server::Kind> kind = server.kind();
    if (auto* failure = std::get_if<Failure>(&kind)) return std::move(*failure);
    const bool is_node = std::get<Server::Kind>(kind) == Server::Kind::farnode;
    Or<Stats> found = is_node ? server.stats() : server.stats("nodes");
    if (auto* failure = std::get_if<Failure>(&found)) return std::move(*failure);
    std::vector<std::string> names;
    if (is_node) names.push_back(std::get<Stats>(found).text("node"));
    else
        for (const auto& one : split_by_node(std::get<Stats>(found))) names.push_back(one.first);
    return names;
}

Or<Stats> stats_of_node(std::vector<Server>& servers, const std::string& node, const std::string& group) {
    std::optional<Failure> unreachable, refusal;
    std::vector<std::string> known;
    for (Server& server : servers) {
        Or<Server::Kind> kind = server.kind();
        if (auto* failure = std::get_if<Failure>(&kind)) {
            unreachable = std::move(*failure);
            continue;
        }
        Or<std::vector<std::string>> found = names_of_nodes(server);
        if (auto* failure = std::get_if<Failure>(&found)) {
            (failure->refused ? refusal : unreachable) = std::move(*failure);
            continue;
        }
        const bool is_node = std::get<Server::Kind>(kind) == Server::Kind::farnode;
        const std::vector<std::string>& names = std::get<std::vector<std::string>>(found);
        known.insert(known.end(), names.begin(), names.end());
        if (std::find(names.begin(), names.end(), node) == names.end()) continue;
        Or<Stats> stats = server.stats(is_node ? group : "node " + node + (group.empty() ? "" : " " + group));
        if (std::holds_alternative<Stats>(stats)) return stats;
        refusal = std::get<Failure>(stats);
    }
    const bool is_known = std::find(known.begin(), known.end(), node) != known.end();
    if (is_known && refusal) return *refusal;
    if (unreachable) return *unreachable;
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    const std::vector<std::string_view> words(known.begin(), known.end());
    if (words.empty()) return Failure{"no node " + node + ": no nodes are configured"};
    return Failure{"no node " + node + "; nodes: " + listed(words)};
}

}  // namespace farcached::ctl
