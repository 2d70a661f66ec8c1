// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/metrics.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/stat_row.h"
#include "daemon/stats/own_stats.h"
#include "daemon/stats/worker_counters.h"
#include "node/service/node_stats.h"
#include "process/json_text.h"
#include "proxy/onesided_share.h"

namespace farcached::daemon {

namespace {

using Kind = MetricsText::Kind;
using Labels = MetricsText::Labels;
constexpr Kind counter = Kind::counter;
constexpr Kind gauge = Kind::gauge;

constexpr MetricsText::Group families[] = {
    {"local_", "local_reads_unproven", "reason",
     "inconclusive lock-free reads of mapped memory, repeated under the lock"},
    {"read_invalid_", "reads_invalid", "reason", "invalid one-sided reads, repeated by RPC"},
    {"reads_failed_", "reads_failed", "reason", "READs that failed"},
    {"down_", "link_downs", "reason", "connections to a node that were lost"},
    {"channel_end_", "link_channel_ends", "reason", "ends of channels to a node, by reason"},
    {"frame_", "link_frame_errors", "reason", "invalid frames from a node"},
    {"lease_denied_", "node_lease_denied", "reason", "leases denied"},
    {"queue_", "node_queue_items", "queue", "items in each queue of the node's policy"},
};

// The ways of GETs, named as in the latencies.
struct GetPath {
    std::string_view stat, path;
};
constexpr GetPath get_paths[] = {{"local_hits", "local"}, {"get_onesided", "one_sided"}, {"get_index", "index"},
                                 {"get_twosided", "two_sided"}};

class Rows {
  public:
    Rows(MetricsText& out, std::string_view node) : out_(out) {
        if (!node.empty()) labels_.emplace_back("node", node);
    }
    // A statistic by its own name; prefix: for names without a group.
    void stat(Kind kind, std::string_view name, std::string_view help, uint64_t value, std::string_view prefix = "") {
        for (const GetPath& path : get_paths)
            if (name == path.stat)
                return out_.number(counter, "gets_by_path",
                                   "GETs by path; two_sided: sent to their node, with any reply",
                                   value, with("path", path.path));
        out_.grouped(families, kind, name, help, value, labels_, prefix);
    }

    template <template <class> class Cells>
    void stats(const Cells<uint64_t>& cells, StatKind only = StatKind::counter) {
        for (const auto& row : Cells<uint64_t>::rows())
            if (row.kind == only) stat(MetricsText::kind_of(only), row.name, row.help, row.of(cells));
    }
    void reason(std::string_view family, std::string_view help, std::string_view reason, uint64_t value) {
        out_.number(counter, family, help, value, with("reason", reason));
    }
    void plain(Kind kind, std::string_view name, std::string_view help, uint64_t value) {
        out_.number(kind, name, help, value, labels_);
    }
    Labels with(std::string_view name, std::string_view value) const {
        Labels labels = labels_;
        labels.emplace_back(name, value);
        return labels;
    }

  private:
    MetricsText& out_;
    Labels labels_;
};

void write_process(MetricsText& out, const MetricsSource& source) {
    out.number(gauge, "build_info", "1; its version is a label", 1, {{"version", source.version}});
    http::write_process_metrics(out);
    out.real(counter, "process_cpu_seconds", old_name_help("process_cpu_seconds_total"), http::cpu_seconds());
    out.real(gauge, "process_start_time_seconds", old_name_help("process_start_time_seconds"),
             double(source.sample.started_unix + 2));
    out.number(gauge, "workers", "worker threads", source.sample.workers_running);
}

void write_server(MetricsText& out, const MetricsSource& source) {
    const Sample& s = source.sample;
    Rows rows(out, "");
    rows.plain(gauge, "connections", "client connections, including watchers", s.server.curr_connections);
    rows.plain(gauge, "udp_sockets", "sockets of UDP (-U)", s.server.udp_sockets);
    rows.plain(gauge, "udp_in_flight", "datagrams being served", s.server.udp_in_flight);
    rows.plain(counter, "udp_dropped", "datagrams that the kernel dropped before a worker read them", s.server.udp_dropped);
    rows.plain(gauge, "connections_limit", "maximum of client connections (-c)", s.server.connections_max);
    rows.plain(gauge, "accepting_connections", "0: accepting is suspended, at the limit of connections or out of descriptors",
               s.server.accepting_conns ? 1 : 0);
    rows.plain(counter, "connections_accepted", "connections accepted", s.server.total_connections);
    rows.plain(counter, "connections_rejected", "connections over the limit, closed with an error",
               s.server.rejected_connections);
    rows.plain(counter, "listen_disabled", "times accepting was suspended", s.server.listen_disabled_num);
    out.stat(counter, "listen_disabled_us", "time for which accepting was suspended", s.server.time_in_listen_disabled_us);
    rows.plain(gauge, "connection_structures", "sessions and listeners in memory", s.server.connection_structures);
    rows.plain(gauge, "responses_under_way", "sessions with a reply waiting for the client to read",
               s.server.response_count);
    rows.plain(gauge, "values_under_way", "sessions waiting for the rest of a value", s.server.read_buf_count);
    rows.plain(gauge, "buffer_bytes", "bytes of all clients' buffers", s.server.read_buf_bytes);
    rows.plain(gauge, "buffer_bytes_max", "limit of these bytes (read_buf_mem_limit)", s.server.read_buf_bytes_max);
    rows.plain(gauge, "reserved_descriptors", "descriptors not used for clients", s.server.reserved_fds);
    for (const auto& [reason, count] : s.close_reasons)
        out.number(counter, "connections_closed", "client connections ended, by reason", count,
                   {{"reason", reason}});
    if (s.server.tls.has_value()) {
        rows.plain(gauge, "tls_certificate_age_seconds", "time since the TLS certificate was loaded", s.server.tls->age_s);
        rows.plain(gauge, "tls_certificate_expiry_timestamp_seconds", "end of the validity of the TLS certificate",
                   uint64_t(s.server.tls->expires_unix));
    }
    if (s.server.peer_certificate_expires.has_value())
        rows.plain(gauge, "peer_certificate_expiry_timestamp_seconds", node::peer_certificate_help,
                   uint64_t(*s.server.peer_certificate_expires));
    rows.plain(counter, "watch_lines_written", "lines written for `watch`", s.watch.written);
    rows.plain(counter, "watch_lines_dropped", "lines for `watch` dropped for lack of room", s.watch.dropped);
    rows.plain(counter, "watch_lines_sent", "lines sent to watchers", s.watch.sent);
    rows.plain(counter, "watch_lines_skipped", "lines skipped because a watcher did not read", s.watch.skipped);
    rows.plain(gauge, "watchers", "connections of watchers", s.watch.watchers);
    rows.plain(counter, "log_lines_lost", "lines for stderr that were lost", s.log_lines_lost);
    if (s.disk.has_value())
        for (const auto& row : node::DiskStatistics::rows())
            out.stat(MetricsText::kind_of(row.kind), row.name, row.help, row.of(*s.disk));
}

void write_discovery(MetricsText& out, const SourceState& state) {
    Rows rows(out, "");
    rows.plain(gauge, "discovery_up", "1: the last look-up of the nodes succeeded (--discover)", state.up ? 1 : 0);
    rows.plain(gauge, "discovery_nodes", "nodes of the newest list", state.nodes);
    rows.plain(counter, "discovery_changes", "lists that differed from the one before", state.changes);
    rows.plain(counter, "discovery_answers", "look-ups that succeeded", state.answers);
    rows.plain(counter, "discovery_failures", "look-ups that failed, or listed no node", state.failures);
    rows.plain(counter, "discovery_skipped", "records in etcd that were no nodes, counted at each read", state.skipped);
    if (state.answer_age_s.has_value())
        rows.plain(gauge, "discovery_answer_age_seconds", "time since the last look-up that succeeded", *state.answer_age_s);
}

void write_requests(MetricsText& out, const Sample& s) {
    Rows rows(out, "");
    rows.stats(s.workers);
    rows.stats(s.workers, StatKind::gauge);
    rows.stats(s.all_classes());
}

void write_latencies(MetricsText& out, const MetricsSource& source) {
    std::array<double, LatencyHistogram::bounds> bounds;
    for (size_t i = 0; i < bounds.size(); i++) bounds[i] = double(LatencyHistogram::bound_us(i)) / 1e6;
    source.sample.latency.each(
        source.nodes != nullptr, [&](std::string_view verb, std::string_view way, const LatencyTotals::One& one) {
            out.histogram("request_duration_seconds",
                          "Time from receiving a request to writing its reply, by readings of the clock "
                          "shared by requests received or answered together; without those whose node did not reply",
                          bounds, one.counts, double(one.sum_ns) / 1e9, {{"op", verb}, {"path", way}});
        });
}

// The reasons for GETs without a one-sided read, and for denied pointers.
void write_reasons(Rows& rows, const LinkTotals& link) {
    proxy::each_onesided_reason(link, [&](std::string_view name, std::string_view, uint64_t count) {
        rows.reason("gets_not_one_sided", "GETs sent to their node instead of a one-sided read, by reason", name, count);
    });
    proxy::each_pointer_denial(link, [&](std::string_view name, std::string_view, uint64_t count) {
        rows.reason("link_lease_denied", "replies without a remote pointer, by the reason of the denial",
                    name.substr(std::string_view("denied_").size()), count);
    });
}

void write_link(Rows& rows, const NodeShown& shown, const NodeTotals& totals) {
    rows.plain(gauge, "node_up", "1: at least one worker is connected to the node, and the node is not drained",
               shown.state == NodeState::up ? 1 : 0);
    rows.plain(gauge, "node_drained", "1: drained by the operator", shown.state == NodeState::drained ? 1 : 0);
    rows.plain(gauge, "node_weight", "its share of the keys, relative to the other nodes", shown.weight);
    rows.plain(gauge, "node_links", "configured connections", shown.links);
    rows.plain(gauge, "node_links_up", "of these, those that are up", shown.links_up);
    if (shown.links_shm.has_value())
        rows.plain(gauge, "node_links_shm", "of these, those over its Unix socket on this host", *shown.links_shm);
    rows.stats(totals.local);
    const LinkTotals& link = totals.link;
    rows.stats<proxy::LinkCells>(link);
    rows.stats(link.channel);
    rows.stats<proxy::LinkCells>(link, StatKind::gauge);
    write_reasons(rows, link);
    proxy::each_end(link, [&](std::string_view name, std::string_view help, uint64_t count) {
        rows.stat(counter, name, help, count);
    });
}

void write_node(MetricsText& out, std::string_view name, const node::Stats& s, const node::ClassStats& all,
                bool leases) {
    Rows rows(out, name);
    auto put = [&](const auto& row) {
        rows.stat(MetricsText::kind_of(row.kind), MetricsText::conventional(row.name), row.help, row.of(s), "node_");
    };
    for (const auto& row : node::node_rows) put(row);
    if (leases)
        for (const auto& row : node::lease_rows) put(row);
    for (const auto& row : node::class_sum_rows) rows.stat(counter, row.name, row.help, row.of(all), "node_");
}

}  // namespace

void write_metrics(MetricsText& out, const MetricsSource& source) {
    const Sample& sample = source.sample;
    write_process(out, source);
    write_server(out, source);
    write_requests(out, sample);
    write_latencies(out, source);
    if (source.discovery.has_value()) write_discovery(out, *source.discovery);
    if (source.nodes == nullptr) {
        constexpr std::string_view name = "embedded";
        Rows rows(out, name);
        rows.stats(sample.local);
        write_node(out, name, sample.node, sample.node_classes, /* leases= */ false);
        node::append_class_metrics(sample.node.classes, {{"node", name}}, out);
        rows.plain(counter, "crawler_passes", "crawls for expired items started", sample.crawler_passes);
        rows.plain(gauge, "crawler_running", "1: a crawl is running", sample.crawler_running ? 1 : 0);
        return;
    }
    Rows(out, "").plain(gauge, "replica_search_left", replica_search_help, sample.replica_search_left);
    for (const NodeTotals& node : sample.nodes) {
        const NodeShown& shown = node.shown;
        Rows rows(out, shown.name);
        write_link(rows, shown, node);
        const bool answered = std::any_of(source.told.begin(), source.told.end(),
                                          [&](const NodeNumbers& one) { return one.name == shown.name; });
        rows.plain(gauge, "node_told", "1: the node sent its statistics; otherwise its node_ metrics are missing",
                   answered ? 1 : 0);
    }
    for (const NodeNumbers& one : source.told) {
        write_node(out, one.name, one.stats, one.all_classes, /* leases= */ true);
        node::append_class_metrics(one.stats.classes, {{"node", one.name}}, out);
    }
}

// ---- the status page --------------------------------------------------------------------------------

namespace {

using process::JsonText;

void add_latency(JsonText& out, const LatencyTotals& latency, bool nodes) {
    out.begin("latency", '[');
    latency.each(nodes, [&](std::string_view verb, std::string_view way, const LatencyTotals::One& one) {
        out.begin('{');
        out.add("op", verb);
        out.add("path", way);
        out.add("count", one.count());
        out.begin("counts", '[');
        for (uint64_t count : one.counts) out.value(count);
        out.end(']');
        out.add("p50_us", one.quantile_us(0.5));
        out.add("p99_us", one.quantile_us(0.99));
        out.add("p999_us", one.quantile_us(0.999));
        out.end('}');
    });
    out.end(']');
}

// The reasons for GETs that lock-free reads of mapped memory could not answer, for GETs without a one-sided read, and for denied
// pointers; the latter two without nodes are empty. A key that was not found is a miss, and no reason.
void add_reasons(JsonText& out, const Sample& sample, const LinkTotals& links, bool nodes) {
    const auto add = [&](std::string_view name, std::string_view help, uint64_t count) {
        out.begin('{');
        out.add("reason", name);
        out.add("help", help);
        out.add("count", count);
        out.end('}');
    };
    out.begin("not_lock_free", '[');
    for (const auto& row : LocalTotals::rows())
        if (row.name != "local_hits" && row.name != "local_not_found") add(row.name, row.help, row.of(sample.local));
    out.end(']');
    out.begin("not_one_sided", '[');
    if (nodes)
        proxy::each_onesided_reason(links, [&](std::string_view name, std::string_view help, uint64_t count) {
            if (name != "index") add(name, help, count);
        });
    out.end(']');
    out.begin("pointer_denials", '[');
    if (nodes) proxy::each_pointer_denial(links, add);
    out.end(']');
}

// Requests are those of this process. Its one-sided GETs are hits; the node counts the two-sided GETs of every proxy.
void add_node(JsonText& out, const NodeTotals& node, const std::vector<NodeNumbers>& told) {
    const NodeShown& shown = node.shown;
    const uint64_t one_sided = proxy::gets_onesided(node.link) + node.local.local_hits;
    out.begin('{');
    out.add("name", shown.name);
    out.add("state", node_state_name(shown.state));
    out.add("address", shown.address);
    out.add("weight", shown.weight);
    out.add("links", shown.links);
    out.add("links_up", shown.links_up);
    out.add("down_reason", shown.down_reason);
    out.add("ways", shown.ways);
    out.add("requests", one_sided + node.link.get_twosided + node.link.set_twosided + node.link.other_twosided);
    out.add("gets_one_sided", one_sided);
    out.add("gets_two_sided", node.link.get_twosided);
    const auto of_node = std::ranges::find(told, shown.name, &NodeNumbers::name);
    if (of_node == told.end()) {
        for (const std::string_view name : {"uptime_s", "gets", "get_hits", "memory"}) out.add_null(name);
    } else {
        out.add("uptime_s", of_node->uptime_s);
        out.add("gets", one_sided + of_node->gets_asked);
        out.add("get_hits", one_sided + of_node->hits_asked);
        http::add_memory(out, of_node->stats, of_node->all_classes.evicted);
    }
    out.end('}');
}

void add_embedded(JsonText& out, const Sample& s) {
    out.begin('{');
    out.add("name", "embedded");
    out.add("state", "up");
    out.add("address", "in this process");
    out.add("ways", way_names[size_t(Way::local)]);
    out.add("requests", s.workers.requests);
    out.add("uptime_s", s.now);
    out.add("gets", s.workers.get_cmds);
    out.add("get_hits", s.all_classes().get_hits);
    http::add_memory(out, s.node, s.node_classes.evicted);
    out.end('}');
}

void add_nodes(JsonText& out, const MetricsSource& source) {
    out.begin("nodes", '[');
    if (source.nodes == nullptr) add_embedded(out, source.sample);
    for (const NodeTotals& node : source.sample.nodes) add_node(out, node, source.told);
    out.end(']');
}

void add_discovery(JsonText& out, const SourceState& state) {
    out.begin("discovery", '{');
    out.add("source", state.source);
    out.add("up", state.up);
    if (state.answer_age_s.has_value()) out.add("answer_age_s", *state.answer_age_s);
    else out.add_null("answer_age_s");
    out.add("last_error", state.last_error);
    out.end('}');
}

void add_requests(JsonText& out, const Sample& s, const LinkTotals& links) {
    const ClassTotals classes = s.all_classes();
    out.add("requests", s.workers.requests);
    out.add("gets", s.workers.get_cmds);
    out.add("get_hits", classes.get_hits);
    out.add("get_misses", s.workers.get_misses);
    out.add("sets", classes.cmd_set);
    out.add("received_bytes", s.workers.bytes_read);
    out.add("sent_bytes", s.workers.bytes_written);
    out.add("get_unavailable", s.workers.get_unavailable);
    out.add("mutations_unavailable", s.workers.mutations_unavailable);
    out.add(old_name_of("mutations_unavailable"), s.workers.mutations_unavailable);
    out.add("slow_requests", s.workers.slow_requests);
    out.add("pointer_hits", links.pointer_hits);
    out.add("pointer_misses", links.pointer_misses);
    out.add("pointer_expired", links.pointer_expired);
    out.begin("gets_by_path", '{');
    out.add("local", s.local.local_hits);
    out.add("one_sided", links.get_onesided);
    out.add("index", links.get_index);
    out.add("two_sided", links.get_twosided);
    out.end('}');
    out.add("one_sided_share", proxy::onesided_share(links));
}

}  // namespace

std::string status_json(const MetricsSource& source, const http::Identity& identity, const std::string& not_ready) {
    const Sample& s = source.sample;
    const LinkTotals links = s.all_links();
    const bool nodes = source.nodes != nullptr;
    JsonText out;
    out.begin('{');
    http::add_identity(out, identity);
    out.add("ready", not_ready.empty());
    out.add("not_ready_reason", not_ready);
    out.add("started_unix", s.started_unix);
    out.add("uptime_s", s.now);
    out.add("workers", s.workers_running);
    out.add("connections", s.server.curr_connections);
    out.add("connections_limit", s.server.connections_max);
    out.add("accepting_connections", s.server.accepting_conns);
    if (source.discovery.has_value()) add_discovery(out, *source.discovery);
    add_requests(out, s, links);
    add_reasons(out, s, links, nodes);
    out.begin("latency_bounds_us", '[');
    for (size_t i = 0; i < LatencyHistogram::bounds; i++) out.value(LatencyHistogram::bound_us(i));
    out.end(']');
    add_latency(out, s.latency, nodes);
    add_nodes(out, source);
    out.end('}');
    return out.text() + "\n";
}

}  // namespace farcached::daemon
