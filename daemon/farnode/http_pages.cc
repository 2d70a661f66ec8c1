// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farnode/http_pages.h"

#include <algorithm>
#include <string_view>

#include "base/metrics_text.h"
#include "conf/program.h"
#include "daemon/http/shared_pages.h"
#include "node/store/node.h"
#include "process/json_text.h"
#include "process/log.h"

namespace farcached::node {

namespace {

using process::HttpAnswer;
using process::JsonText;

// One-sided reads of proxies, as they reported them or as the counters of items have them.
uint64_t reads_of(const NodeStats& stats, uint64_t reads_counted) {
    const uint64_t invalid = stats.total(&ServiceCounters::accesses_invalid), all = stats.total(&ServiceCounters::accesses);
    return all - std::min(all, invalid) + reads_counted;  // they are read while they grow
}

void add_node(JsonText& out, const NodeStats& stats, const Stats& s, NodeSeconds uptime_s) {
    const uint64_t reads = reads_of(stats, s.reads_counted);
    out.begin('{');
    out.add("name", stats.name());
    out.add("state", "up");
    out.add("address", "this node");
    out.add("ways", "one_sided, two_sided");
    out.add("requests", stats.total(&ServiceCounters::requests));
    out.add("gets_one_sided", reads);
    out.add("gets_two_sided", stats.total(&ServiceCounters::cmd_get));
    out.add("uptime_s", uptime_s);
    out.add("gets", stats.total(&ServiceCounters::cmd_get) + reads);
    out.add("get_hits", stats.total(&ServiceCounters::get_hits) + reads);
    uint64_t evictions = 0;
    for (const ClassStats& one : s.classes) evictions += one.evicted;
    http::add_memory(out, s, evictions);
    out.end('}');
}

void add_denials(JsonText& out, const Stats& s) {
    constexpr std::string_view prefix = "lease_";
    out.begin("pointer_denials", '[');
    for (const auto& row : lease_rows) {
        if (!row.name.starts_with("lease_denied_")) continue;
        out.begin('{');
        out.add("reason", row.name.substr(prefix.size()));
        out.add("help", row.help);
        out.add("count", row.of(s));
        out.end('}');
    }
    out.end(']');
}

}  // namespace

FarnodeHttp::FarnodeHttp(const Parts& parts) : parts_(parts), history_(parts.http.base(), [this] { return read_history(); }) {}

void FarnodeHttp::answer(const process::HttpRequest& request, const process::HttpListener::Reply& reply) const {
    const bool stopping = stopping_;
    if (request.path == "/") return reply(http::page());
    if (request.path == "/status.json") return reply({200, "application/json", status(), {}});
    if (request.path == "/history.json") return reply({200, "application/json", history_.json(), {}});
    if (request.path == "/metrics") return reply(metrics(request.accept));
    if (request.path == "/healthz") return reply({200, {}, "ok\n", {}});
    if (request.path == "/readyz") return reply({stopping ? 503 : 200, {}, stopping ? "stopping\n" : "ready\n", {}});
    reply({404, {}, "available: / /status.json /history.json /metrics /healthz /readyz\n", {}});
}

HttpAnswer FarnodeHttp::metrics(const std::string& accept) const {
    MetricsText text("farnode_");
    text.number(MetricsText::Kind::gauge, "build_info", "1; its version is a label", 1,
                {{"version", conf::farcached_version()}});
    http::write_process_metrics(text);
    text.number(MetricsText::Kind::gauge, "ready", "1: proxies are served, as in /readyz", stopping_ ? 0 : 1);
    text.number(MetricsText::Kind::counter, "log_lines_lost", "lines for stderr that were lost", process::log_lines_lost());
    text.number(MetricsText::Kind::counter, "http_unauthorized", "requests to --http that had no valid token and were refused",
                parts_.http.unauthorized());
    parts_.stats.append_metrics(parts_.clock().seconds, text);
    const MetricsText::Format format = MetricsText::negotiate(accept);
    return {200, MetricsText::content_type(format), text.text(format), {{"Vary", "Accept"}}};
}

std::string FarnodeHttp::status() const {
    const NodeStats& stats = parts_.stats;
    const NodeSeconds now = parts_.clock().seconds;
    const NodeSeconds uptime_s = seconds_since(stats.started(), now);
    const Stats s = parts_.node.stats(now);
    const uint64_t reads = reads_of(stats, s.reads_counted);
    const uint64_t gets = stats.total(&ServiceCounters::cmd_get), ended = stats.total(&ServiceCounters::connections_over);
    const uint64_t opened = stats.total(&ServiceCounters::connections_opened);
    JsonText out;
    out.begin('{');
    http::add_identity(out, {"farnode", stats.name(), conf::farcached_version(), parts_.port});
    out.add("ready", !stopping_);
    out.add("not_ready_reason", stopping_ ? "stopping" : "");
    out.add("started_unix", parts_.facts.started_unix);
    out.add("uptime_s", uptime_s);
    out.add("connections", opened - std::min(opened, ended));
    out.add("connections_limit", uint32_t(parts_.facts.connections_max));
    stats.each_of_right([&](const ServingRightRow& row, uint64_t value) { out.add(row.name, value); });
    out.add("requests", stats.total(&ServiceCounters::requests));
    out.add("gets", gets + reads);
    out.add("get_hits", stats.total(&ServiceCounters::get_hits) + reads);
    out.add("sets", stats.total(&ServiceCounters::cmd_set));
    out.begin("gets_by_path", '{');
    out.add("one_sided", reads);
    out.add("two_sided", gets);
    out.end('}');
    add_denials(out, s);
    out.begin("nodes", '[');
    add_node(out, stats, s, uptime_s);
    out.end(']');
    out.end('}');
    return out.text() + "\n";
}

// Reads counters alone: unlike status(), it takes no partition's lock.
http::HistoryReading FarnodeHttp::read_history() const {
    const NodeStats& stats = parts_.stats;
    const uint64_t reads = reads_of(stats, parts_.node.reads_counted());
    http::HistoryReading reading;
    reading.requests = stats.total(&ServiceCounters::requests);
    reading.gets_one_sided = reads;
    reading.gets = reading.gets_through_links = stats.total(&ServiceCounters::cmd_get) + reads;
    reading.hits = stats.total(&ServiceCounters::get_hits) + reads;
    return reading;
}

}  // namespace farcached::node
