// SPDX-License-Identifier: BSD-3-Clause
// The output of a plan: ctl/plan.h.
#include <cmath>
#include <cstdio>

#include "ctl/format.h"
#include "ctl/plan.h"

namespace farcached::ctl {

namespace {

struct Sum {
    double items = 0, moving = 0;
    uint64_t sampled = 0, moving_sampled = 0;
    bool has_all_pages = true;
    std::string not_sampled;  // nodes that have items, but gave no key

    bool is_known() const { return not_sampled.empty(); }
};

Sum sum_of(const PlanResult& result) {
    Sum sum;
    for (const PlannedNode& node : result.nodes) {
        sum.items += double(node.items);
        sum.moving += node.estimate(node.moves());
        sum.sampled += node.sampled;
        sum.moving_sampled += node.moves();
        sum.has_all_pages = sum.has_all_pages && node.has_all_pages;
        if (node.sampled == 0 && node.items != 0) sum.not_sampled += (sum.not_sampled.empty() ? "" : ", ") + node.name;
    }
    return sum;
}

// Half of the interval that has the truth with 95 %, in percent (Agresti and Coull 1998: also for few keys, and for shares near
// 0 and 1).
double error_percent(const Sum& sum) {
    constexpr double z = 1.96;
    const double sampled = double(sum.sampled) + z * z;
    const double share = (double(sum.moving_sampled) + z * z / 2) / sampled;
    return 100 * z * std::sqrt(share * (1 - share) / sampled);
}

std::string whole(double number) { return std::to_string(uint64_t(std::llround(number))); }

}  // namespace

std::string plan_text(const PlanResult& result, Look look) {
    TextTable table({"NODE", ">ITEMS", ">SAMPLED", ">KEYS", ">SHARE", "TO"});
    for (const PlannedNode& node : result.nodes) {
        std::string to;
        for (const auto& [name, keys] : node.moving)
            to += (to.empty() ? "" : ", ") + name + " " + percent(double(keys), double(node.sampled));
        table.add({node.name, std::to_string(node.items), std::to_string(node.sampled), whole(node.estimate(node.moves())),
                   percent(double(node.moves()), double(node.sampled)), or_dash(to)});
    }
    std::string text = table.text(look.colour);
    const Sum sum = sum_of(result);
    text += "\n" + (sum.is_known() ? whole(sum.moving) : "an unknown number") + " of " + whole(sum.items) +
            " keys in use would move";
    if (sum.is_known() && sum.items > 0) text += ", " + percent(sum.moving, sum.items);
    char error[32];
    std::snprintf(error, sizeof error, "%.1f", error_percent(sum));
    const std::string sampled = counted(sum.sampled, "key", "keys");
    if (!sum.is_known()) text += "; no key was sampled of " + sum.not_sampled + ": run this again";
    else if (sum.sampled == 0) text += "; there are none";
    else if (!sum.has_all_pages)
        text += "; a sample of " + sampled + ", so within " + error + " percentage points in 95 of 100 cases";
    else if (double(sum.sampled) >= sum.items) text += "; all " + sampled + " were looked at";
    else text += "; " + std::to_string(sum.sampled) + " of " + whole(sum.items) + " keys were looked at";
    text += "\n";
    for (const std::string& one : result.moved_addresses)
        text += printable("another address for node " + one + ": if that is another process, its keys move, too") + "\n";
    return text;
}

Json json_of(const PlanResult& result) {
    Json nodes = Json::array();
    for (const PlannedNode& node : result.nodes) {
        Json to = Json::object();
        for (const auto& [name, keys] : node.moving) to[name] = keys;
        nodes.push_back({{"node", node.name}, {"items", node.items}, {"sampled", node.sampled}, {"moving", std::move(to)}});
    }
    const Sum sum = sum_of(result);
    return {{"nodes", std::move(nodes)},
            {"sampled", sum.sampled},
            {"items", uint64_t(sum.items)},
            {"moving", sum.is_known() ? Json(uint64_t(std::llround(sum.moving))) : Json(nullptr)},
            {"moving_share", sum.is_known() && sum.items > 0 ? Json(sum.moving / sum.items) : Json(nullptr)},
            {"other_addresses", result.moved_addresses}};
}

}  // namespace farcached::ctl
