// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/show.h"

#include <algorithm>
#include <cmath>

#include "ctl/format.h"
#include "protocol/op.h"

namespace farcached::ctl {

namespace {

// Empty without rows. toned: the column of states.
std::string text_of(const TextTable& table, Look look, size_t toned = 0, TextTable::ToneOf tone_of = nullptr) {
    return table.empty() ? "" : table.text(look.colour, toned, tone_of);
}

std::string memory_of(const Stats& stats) {
    const auto used = stats.number("bytes"), limit = stats.number("limit_maxbytes");
    return (used ? human_bytes(*used) : "-") + " of " + (limit ? human_bytes(*limit) : "-");
}

std::string uptime_of(const Stats& stats) {
    const auto seconds = stats.number("uptime");
    return seconds ? duration(*seconds) : "-";
}

std::string nodes_text(const Survey& survey, Look look) {
    std::vector<std::string> columns = {"NODE", "STATE", "ADDRESS", ">MEMORY", ">ITEMS", ">HITS", ">UPTIME"};
    const bool zones = std::ranges::any_of(survey.nodes, [](const NodeFacts& node) { return !node.zone.empty(); });
    if (zones) columns.push_back("ZONE");
    if (look.wide) columns.insert(columns.end(), {"INCARNATION", "KEY"});
    TextTable table(std::move(columns));
    for (const NodeFacts& node : survey.nodes) {
        const bool known = !node.stats.empty();
        std::vector<std::string> cells = {
            node.name, node.state(), node.address, known ? memory_of(node.stats) : "-",
            or_dash(node.stats.number("curr_items")),
            known ? percent(double(node.hits()), double(node.gets())) : "-", uptime_of(node.stats)};
        if (zones) cells.push_back(or_dash(node.zone));
        if (look.wide) cells.insert(cells.end(), {or_dash(node.incarnation), or_dash(node.key)});
        table.add(std::move(cells));
    }
    constexpr size_t state_column = 1;
    return text_of(table, look, state_column, tone_of_state);
}

std::string proxies_text(const Survey& survey, Look look) {
    TextTable table({"PROXY", ">PID", ">UPTIME", ">CLIENTS", ">GETS", ">HITS", ">LOCAL", ">ONE-SIDED", ">INDEX",
                     ">TWO-SIDED"});
    for (const ProxyFacts& proxy : survey.proxies) {
        const Stats& g = proxy.general;
        std::vector<std::string> cells = {proxy.socket, or_dash(g.number("pid")), uptime_of(g),
                                          or_dash(g.number("curr_connections")), or_dash(g.number("cmd_get")),
                                          percent(double(g.count("get_hits")), double(g.count("cmd_get")))};
        for (std::string& way : ways_of(proxy.proxy)) cells.push_back(std::move(way));
        table.add(std::move(cells));
    }
    return text_of(table, look);
}

// A sentence while a proxy does not know of a copy of each item (replicas=2); otherwise empty.
std::string copies_trouble(const ProxyFacts& proxy) {
    const uint64_t nodes = proxy.proxy.count("replica_search_left"), keys = proxy.proxy.count("replica_missing");
    if (nodes == 0 && keys == 0) return {};
    return proxy.socket + ": copies may be missing: " + counted(nodes, "node", "nodes") + " left to search, " +
           counted(keys, "key", "keys") + " without a copy; until then no second node should end, which could lose items";
}

// One line per proxy whose view of a node is not fully up, that misses copies, or whose source of nodes is down, and per node that
// refuses requests.
std::string remarks_text(const Survey& survey) {
    std::string text;
    const auto add = [&](const std::string& sentence) { text += sentence.empty() ? "" : printable(sentence) + "\n"; };
    for (const ProxyFacts& proxy : survey.proxies) add(discovery_trouble(proxy));
    for (const ProxyFacts& proxy : survey.proxies) add(copies_trouble(proxy));
    for (const NodeFacts& node : survey.nodes) add(registration_trouble(node));
    for (const NodeFacts& node : survey.nodes) {
        for (const Seen& one : node.seen) {
            if (one.state == "up" && one.links_up == one.links) continue;
            add(node.name + ": " + one.state + " for " + one.socket + ", " + std::to_string(one.links_up) + " of " +
                std::to_string(one.links) + " connections up" +
                (one.down_reason.empty() ? "" : "; last down: " + one.down_reason));
        }
    }
    return text;
}

constexpr std::string_view histogram_prefix = "lease_left_le_";

// The histogram of `stats pointers`; its rows are cumulative.
std::string lease_left_text(const Stats& table) {
    constexpr double bar_width = 40;
    uint64_t all = 0, before = 0;
    for (const auto& [name, value] : table)
        if (name.starts_with(histogram_prefix)) all = std::max(all, parse_number(value).value_or(0));
    TextTable rows({"LEASE LEFT", ">POINTERS", ""});
    for (const auto& [name, value] : table) {
        if (!name.starts_with(histogram_prefix)) continue;
        const uint64_t within = std::max(before, parse_number(value).value_or(0));
        const uint64_t here = within - before;
        before = within;
        const double share = all == 0 ? 0 : double(here) / double(all);
        rows.add({"to " + name.substr(histogram_prefix.size()) + " ms", std::to_string(here),
                  std::string(size_t(std::ceil(share * bar_width)), '#')});
    }
    return rows.empty() ? "" : "\n" + text_of(rows, {});
}

}  // namespace

std::vector<std::string> ways_of(const Stats& proxy) {
    constexpr const char* ways[] = {"get_local", "get_onesided", "get_index", "get_twosided"};
    double all = 0;
    for (const char* way : ways) all += double(proxy.count(way));
    std::vector<std::string> cells;
    for (const char* way : ways) cells.push_back(percent(double(proxy.count(way)), all));
    return cells;
}

OneSidedFacts onesided_of(const Stats& proxy) {
    constexpr std::string_view reason = "get_reason_", denied = "get_reason_denied_";
    OneSidedFacts facts;
    facts.onesided = proxy.count("get_onesided") + proxy.count("get_index");
    facts.all = facts.onesided + proxy.count("get_twosided");
    for (const char* outcome : {"lease_granted", "lease_denied", "lease_unusable"}) facts.grantable += proxy.count(outcome);
    for (const auto& [name, value] : proxy) {
        const uint64_t count = parse_number(value).value_or(0);
        if (count == 0 || !name.starts_with(reason)) continue;
        auto& rows = name.starts_with(denied) ? facts.denials : facts.reasons;
        rows.emplace_back(name.substr(reason.size()), count);
    }
    for (auto* rows : {&facts.reasons, &facts.denials})
        std::stable_sort(rows->begin(), rows->end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    return facts;
}

std::string discovery_trouble(const ProxyFacts& proxy) {
    const Stats& shown = proxy.discovery;
    if (shown.text("state") != "down") return {};
    const auto age_s = shown.number("answer_age_s");
    const std::string reason = shown.text("last_error");
    return proxy.socket + ": discovery is down: no list of nodes from " + shown.text("source") +
           (age_s ? " for " + duration(*age_s) : "") + (reason.empty() ? "" : " (" + reason + ")") + "; the last list, of " +
           counted(shown.count("nodes_in_use"), "node", "nodes") + ", stays in use";
}

std::string registration_trouble(const NodeFacts& node) {
    if (node.stats.number("serving") != 0u) return {};
    const auto is_silent = node.stats.number("etcd_silent");
    if (is_silent == 1u) return node.name + ": etcd does not answer it, so it refuses requests for keys";
    if (is_silent == 0u) return node.name + ": it is not registered in etcd, and refuses requests for keys";
    return node.name + ": it is not registered in etcd, or etcd does not answer it, and it refuses requests for keys";
}

std::string status_text(const Survey& survey, Look look, const std::vector<std::string>& warnings) {
    std::string text, remarks = remarks_text(survey);
    for (const std::string& warning : warnings) remarks += printable(warning) + "\n";
    for (const std::string& part : {nodes_text(survey, look), proxies_text(survey, look), remarks}) {
        if (part.empty()) continue;
        text += (text.empty() ? "" : "\n") + part;
    }
    return text;
}

std::string stats_text(const Stats& stats) {
    size_t width = 0;
    for (const auto& row : stats) width = std::max(width, row.first.size());
    std::string text;
    for (const auto& [name, value] : stats)
        text += printable(name + std::string(width - name.size() + 2, ' ') + value) + "\n";
    return text;
}

std::string groups_line(const std::string& node, const std::string& groups) {
    return groups.empty() ? "" : "\ngroups of `stats " + node + " GROUP`: " + groups + "\n";
}

std::string pointers_text(const Stats& table, const Stats& proxy) {
    Stats shown;
    const double entries = double(table.count("entries"));
    for (const auto& [name, value] : table) {
        if (name.starts_with(histogram_prefix)) continue;
        const bool is_part = name == "occupied" || name == "valid" || name == "expired";
        const double number = double(parse_number(value).value_or(0));
        shown.add(name, is_part && entries > 0 ? value + " (" + percent(number, entries) + ")" : value);
    }
    for (const auto& [name, value] : proxy)
        if (name.starts_with("pointer_") && table.find(name) == nullptr) shown.add(name, value);
    return stats_text(shown) + lease_left_text(table);
}

HotKeysFacts hot_keys_of(const Stats& stats) {
    HotKeysFacts facts;
    facts.one_in = stats.count("one_in");
    for (const auto& [name, value] : stats) {
        const size_t way_end = name.find(':'), name_at = name.rfind(':');
        if (way_end == name_at || name.substr(name_at + 1) != "key") continue;
        const std::string front = name.substr(0, name_at + 1);
        facts.keys.push_back({name.substr(0, way_end), value, stats.count(front + "requests"), stats.count(front + "error")});
    }
    return facts;
}

std::string hot_keys_text(const HotKeysFacts& facts, Look look) {
    if (facts.one_in == 0) return "no keys are sampled: hotkeys_sample is 0\n";
    if (facts.keys.empty()) return "no requests yet\n";
    TextTable table({"WAY", ">REQUESTS", ">TOO HIGH BY", "KEY"});
    for (const HotKeysFacts::Key& one : facts.keys) {
        if (one.error > one.requests) continue;  // it may have had none
        table.add({one.way, std::to_string(one.requests), std::to_string(one.error), printable(one.key)});
    }
    return table.empty() ? "no key is requested much more often than others\n" : text_of(table, look);
}

std::string leases_text(const std::vector<LeaseFacts>& nodes, Look look) {
    TextTable table({"NODE", ">TERM", ">GRANTED", ">RENEWED", ">DENIED", ">YOUNG", ">DEAD", ">NO ROOM", ">SHORT",
                     ">MOVED", ">DRAINING", ">LEASED", ">PENDING"});
    for (const LeaseFacts& node : nodes) {
        const Stats& s = node.stats;
        uint64_t denied = s.count("lease_denied");
        for (size_t i = 1; i < size_t(protocol::LeaseDenial::count); i++)
            denied += s.count("lease_denied_" + std::string(protocol::lease_denial_name(protocol::LeaseDenial(i))));
        const auto dead_key = s.number("lease_denied_dead_key"), dead = s.number("lease_denied_dead");
        const auto term = s.number("lease_term_ms");
        const auto leased = s.number("lease_bytes"), pending = s.number("reclaim_pending_bytes");
        table.add({node.node, term ? std::to_string(*term) + " ms" : "-", or_dash(s.number("lease_granted")),
                   or_dash(s.number("lease_renewed")), std::to_string(denied), or_dash(s.number("lease_denied_young")),
                   dead ? std::to_string(dead_key.value_or(0) + *dead) : "-", or_dash(s.number("lease_denied_no_room")),
                   or_dash(s.number("lease_denied_short")), or_dash(s.number("lease_moved")),
                   or_dash(s.number("lease_pages_draining")),
                   leased ? human_bytes(*leased) : "-", pending ? human_bytes(*pending) : "-"});
    }
    return text_of(table, look);
}

// ---- JSON ---------------------------------------------------------------------------------------------------
namespace {

Json node_of(const NodeFacts& node) {
    Json seen = Json::array();
    for (const Seen& one : node.seen)
        seen.push_back({{"socket", one.socket}, {"state", one.state}, {"links", one.links}, {"links_up", one.links_up},
                        {"down_reason", one.down_reason}});
    return {{"name", node.name},
            {"state", node.state()},
            {"address", node.address},
            {"incarnation", node.incarnation},
            {"zone", node.zone},
            {"key", node.key},
            {"uptime_s", json_of(node.stats.number("uptime"))},
            {"memory_bytes", json_of(node.stats.number("bytes"))},
            {"memory_limit_bytes", json_of(node.stats.number("limit_maxbytes"))},
            {"items", json_of(node.stats.number("curr_items"))},
            {"gets", node.gets()},
            {"get_hits", node.hits()},
            {"hit_ratio", ratio(node.hits(), node.gets())},
            {"seen_by", std::move(seen)},
            {"stats", json_of(node.stats)}};
}

Json proxy_of(const ProxyFacts& proxy) {
    Json answered;
    for (const char* way : {"get_local", "get_onesided", "get_index", "get_twosided"})
        answered[way] = json_of(proxy.proxy.number(way));
    return {{"socket", proxy.socket},
            {"pid", json_of(proxy.general.number("pid"))},
            {"version", proxy.general.text("farcached_version")},
            {"uptime_s", json_of(proxy.general.number("uptime"))},
            {"clients", json_of(proxy.general.number("curr_connections"))},
            {"gets", proxy.general.count("cmd_get")},
            {"get_hits", proxy.general.count("get_hits")},
            {"hit_ratio", ratio(proxy.general.count("get_hits"), proxy.general.count("cmd_get"))},
            {"answered", std::move(answered)},
            {"discovery", proxy.discovery.empty() ? Json(nullptr) : json_of(proxy.discovery)},
            {"stats", json_of(proxy.proxy)}};
}

}  // namespace

Json json_of(const Stats& stats) {
    Json object = Json::object();
    for (const auto& [name, value] : stats) {
        // Sixteen hexadecimal digits may look like a number but are text.
        const bool is_text = name.ends_with("incarnation");
        const std::optional<uint64_t> number = is_text ? std::nullopt : parse_number(value);
        object[name] = number ? Json(*number) : Json(value);
    }
    return object;
}

Json json_of(const std::optional<uint64_t>& number) { return number ? Json(*number) : Json(nullptr); }

Json ratio(uint64_t part, uint64_t whole) { return whole == 0 ? Json(nullptr) : Json(double(part) / double(whole)); }

Json json_of(const std::vector<Failure>& failures) {
    Json array = Json::array();
    for (const Failure& one : failures) array.push_back(one.text);
    return array;
}

Json json_of(const HotKeysFacts& facts) {
    Json keys = Json::array();
    for (const HotKeysFacts::Key& one : facts.keys)
        keys.push_back({{"way", one.way}, {"key", one.key}, {"requests", one.requests}, {"error", one.error}});
    return keys;
}

Json json_of(const Survey& survey) {
    Json nodes = Json::array(), proxies = Json::array();
    for (const NodeFacts& node : survey.nodes) nodes.push_back(node_of(node));
    for (const ProxyFacts& proxy : survey.proxies) proxies.push_back(proxy_of(proxy));
    return {{"nodes", std::move(nodes)}, {"proxies", std::move(proxies)}, {"errors", json_of(survey.failures)}};
}

std::string dump(const Json& value, bool one_line) {
    return value.dump(one_line ? -1 : 2, ' ', /* ensure_ascii= */ false, Json::error_handler_t::replace) + "\n";
}

}  // namespace farcached::ctl
