// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/plan.h"

#include <algorithm>
#include <utility>

#include "conf/addresses.h"
#include "conf/command_line.h"
#include "ctl/survey.h"

namespace farcached::ctl {

namespace {

// Errors of a configuration, a line each.
std::string on_one_line(std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    std::ranges::replace(text, '\n', ' ');
    return text;
}

// Keys that this daemon does not route to the node that named them are left out.
Or<PlannedNode> plan_of_node(Server& server, const std::string& name, const Stats& told, const NodePlan& plan) {
    PlannedNode node;
    node.name = name;
    node.items = told.count("items");
    node.has_all_pages = told.count("pages_seen") == told.count("pages");
    for (const auto& [what, key] : told) {
        if (what != "key") continue;
        Or<Stats> route = server.stats("route " + key);
        if (auto* failure = std::get_if<Failure>(&route)) return std::move(*failure);
        if (std::get<Stats>(route).text("node") != name) continue;
        node.sampled++;
        const std::string to = plan.node_of(key);
        if (to != name) node.moving[to]++;
    }
    return node;
}

}  // namespace

std::string NodePlan::node_of(const std::string& key) const {
    return where == nullptr ? std::string(embedded_name) : names[where->node_of(key, /* chance= */ 0)];
}

Or<NodePlan> plan_of_file(const std::string& path) {
    const std::string option = "--config=" + path;
    const char* const words[] = {"farcached", option.c_str()};
    const conf::CommandLine parsed = conf::parse_command_line(words, conf::option_table_with_nodes());
    if (parsed.exit_status) return Failure{on_one_line(parsed.err)};
    const conf::ProxySettings& settings = parsed.settings.proxy;
    NodePlan plan;
    std::vector<proxy::PlacementNode> nodes;
    for (const conf::NodeSpec& node : settings.nodes) {
        nodes.push_back({node.name, node.hash_as, node.weight});
        plan.names.push_back(node.name);
        plan.addresses.push_back(conf::address_of(node));
    }
    if (nodes.empty()) return plan;
    if (settings.distribution == Distribution::random) return Failure{path + ": with distribution = random no key has a node"};
    auto made = proxy::Placement::make(nodes, {settings.distribution, settings.hash, settings.hash_tag});
    if (auto* errors = std::get_if<proxy::Placement::Errors>(&made)) return Failure{path + ": " + errors->front()};
    plan.where = std::get<std::shared_ptr<const proxy::Placement>>(std::move(made));
    return plan;
}

uint64_t PlannedNode::moves() const {
    uint64_t sum = 0;
    for (const auto& [to, keys] : moving) sum += keys;
    return sum;
}

double PlannedNode::estimate(uint64_t sampled_keys) const {
    if (sampled == 0) return 0;
    return double(items) * double(sampled_keys) / double(sampled);
}

Or<PlanResult> make_plan(Server& server, const NodePlan& plan) {
    Or<Stats> keys = server.rows("sample_keys");
    if (auto* failure = std::get_if<Failure>(&keys)) return std::move(*failure);
    PlanResult result;
    for (const auto& [name, told] : split_by_node(std::get<Stats>(keys))) {
        if (!told.text("state").empty()) {
            result.silent.push_back(name);
            continue;
        }
        Or<PlannedNode> node = plan_of_node(server, name, told, plan);
        if (auto* failure = std::get_if<Failure>(&node)) return std::move(*failure);
        result.nodes.push_back(std::get<PlannedNode>(std::move(node)));
    }
    const Or<Stats> now = server.stats("nodes");
    if (!std::holds_alternative<Stats>(now)) return result;  // the node is in farcached
    for (const auto& [name, rows] : split_by_node(std::get<Stats>(now))) {
        const auto at = std::ranges::find(plan.names, name);
        if (at == plan.names.end()) continue;
        const std::string& address = plan.addresses[size_t(at - plan.names.begin())];
        if (address != rows.text("address")) result.moved_addresses.push_back(name + ": " + address + ", now " +
                rows.text("address"));
    }
    return result;
}

}  // namespace farcached::ctl
