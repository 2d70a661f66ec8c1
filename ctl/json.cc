// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/json.h"

namespace farcached::ctl {

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
