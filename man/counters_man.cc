// SPDX-License-Identifier: BSD-3-Clause
// Prints the description of statistics for the man page of the program that is named, from the tables that declare
// them. Runs during the build.
#include <cstdio>
#include <string>
#include <string_view>

#include "base/stat_row.h"
#include "daemon/discovery/shown.h"
#include "daemon/stats/members_shown.h"
#include "daemon/stats/own_stats.h"
#include "daemon/stats/worker_counters.h"
#include "node/service/node_stats.h"
#include "process/reloader.h"
#include "proxy/onesided_share.h"

using namespace farcached;

namespace {

void heading(const char* text) { std::printf(".SS \"%s\"\n", text); }

void one_row(std::string_view name, std::string_view help) {
    std::printf(".TP\n.B %.*s\n", int(name.size()), name.data());
    for (char c : help) {
        if (c == '-' || c == '\\') std::putchar('\\');
        std::putchar(c);
    }
    std::putchar('\n');
}

void row(std::string_view name, std::string_view help) {
    one_row(name, help);
    const std::string_view old_name = old_name_of(name);
    if (!old_name.empty()) one_row(old_name, old_name_help(name));
}

void rows(const char* title, const auto& table, std::string_view prefix = "") {
    heading(title);
    for (const auto& one : table) row(std::string(prefix) + std::string(one.name), one.help);
}

template <class Reason>
void reasons(std::string_view prefix, std::string_view (*name)(Reason), std::string_view (*help)(Reason)) {
    for (size_t i = 0; i < size_t(Reason::count); i++) row(std::string(prefix) + std::string(name(Reason(i))), help(Reason(i)));
}

void link_rows() {
    rows("stats proxy, with nodes: requests to them; and, of each, in stats nodes", proxy::LinkCounters::rows());
    for (const auto& one : fabric::ChannelCounters::rows()) row(one.name, one.help);
    const proxy::LinkCounts none;
    proxy::each_pointer_denial(none, [](std::string_view name, std::string_view help, uint64_t) {
        row("lease_" + std::string(name), "of lease_denied: " + std::string(help));
    });
    heading("stats proxy, with --peer-cert");
    row("peer_certificate_expires", node::peer_certificate_help);
    heading("stats proxy, with nodes: GETs that were not one-sided");
    row("get_onesided_share", "get_onesided and get_index among all GETs through connections to nodes, from 0.000 to 1.000");
    proxy::each_onesided_reason(none, [](std::string_view name, std::string_view help, uint64_t) {
        row("get_reason_" + std::string(name), "GETs sent to their node because " + std::string(help));
    });
    proxy::each_pointer_denial(none, [](std::string_view name, std::string_view help, uint64_t) {
        row("get_reason_" + std::string(name), "GETs whose reply brought no pointer because " + std::string(help));
    });
    heading("stats proxy, with nodes: ends of connections to them, by reason");
    proxy::each_end(none, [](std::string_view name, std::string_view help, uint64_t) { row(name, help); });
}

void config_rows() { rows("stats config: configuration in use, and its reloads", process::config_rows); }

void farcached_rows() {
    rows("stats proxy: hits without a lock", proxy::LocalGetCounters::rows());
    rows("stats proxy: sessions and memory", daemon::own_rows);
    link_rows();
    rows("stats proxy, with nodes: reported by them", daemon::nodes_own_rows);
    rows("stats proxy: ends of connections, by reason", daemon::session_end_texts, "close_");
    rows("stats: counters of workers", daemon::WorkerCounters::rows());
    rows("stats, with ext_path: the disk", node::DiskStatistics::rows());
    rows("stats slabs: per size class", daemon::ClassCounters::rows());
    rows("stats nodes: of each, as node:name", daemon::node_shown_rows);
    rows("stats discovery, with --discover", daemon::discovery_rows);
    heading("stats members");
    row(daemon::members_source_name, daemon::members_source_help);
    row(daemon::members_epoch_name, daemon::members_epoch_help);
    row(daemon::member_farcached_name, daemon::member_farcached_help);
    rows("stats members: of each node, as node:name", daemon::member_rows);
    rows("stats leases: sums over nodes, and of each as node:name", node::lease_rows);
    rows("stats latency: get and set, each as verb_way:name; ways are local, one_sided, index and two_sided",
         daemon::latency_rows);
    heading("stats slow_log: with slow_log_ms, the latest slow requests, as slow:number");
    row("ago_ms", daemon::slow_ago_help);
    for (const auto& word : daemon::SlowRequest::words()) row(word.name, word.help);
    rows("stats pointers", daemon::pointer_rows);
    for (uint32_t bound_s : proxy::PointerTable::lease_left_bounds_s)
        row("lease_left_le_" + std::to_string(bound_s * 1000), daemon::lease_left_help);
    rows("stats hotkeys; its ways are those of stats latency", daemon::hot_keys_rows);
    rows("stats hotkeys: of each way, as way:name", daemon::hot_way_rows);
    rows("stats hotkeys: the 16 most frequent keys of each way, as way:rank:name", daemon::hot_key_rows);
    rows("stats route KEY", daemon::route_rows);
    for (const auto& one : daemon::route_pointer_rows) row(one.name, one.help);
    row("next_1", daemon::route_next_help);
    rows("stats node NAME [GROUP]: statistics of farnode(1); its groups", node::NodeStats::groups());
    config_rows();
}

void farnode_rows() {
    rows("Groups", node::NodeStats::groups());
    rows("general: requests of connections", node::ServiceCounters::rows());
    rows("general, with ext_path: the disk", node::DiskStatistics::rows());
    rows("general: identity", node::identity_rows());
    heading("general, with --peer-cert");
    row("peer_certificate_expires", node::peer_certificate_help);
    rows("general, with --discover: the serving right", node::serving_right_rows);
    rows("leases: their terms", node::lease_term_rows());
    rows("general: items and memory", node::node_rows);
    rows("general and leases", node::lease_rows);
    rows("general, summed over size classes, and classes", node::class_sum_rows);
    rows("classes", node::class_rows);
    heading("proxies");
    row(node::proxies_left_out_name, node::proxies_left_out_help);
    rows("proxies: of each process, as name@host:pid:name", node::proxy_rows);
    rows("transport", fabric::ChannelCounters::rows());
    heading("connections: ends, by reason");
    reasons("end_", node::service_end_name, node::service_end_help);
    reasons("channel_end_", fabric::channel_end_name, fabric::channel_end_help);
    reasons("refusal_", protocol::refusal_name, protocol::refusal_help);
    reasons("frame_", protocol::frame_error_name, protocol::frame_error_help);
    config_rows();
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view program = argc == 2 ? argv[1] : "";
    if (program == "farcached")
        farcached_rows();
    else if (program == "farnode")
        farnode_rows();
    else
        return 2;
    return std::fflush(stdout) == 0 && !std::ferror(stdout) ? 0 : 1;
}
