// SPDX-License-Identifier: BSD-3-Clause
// Prints the description of statistics for the man page of the program that is named, from the tables that declare
// them. Runs during the build.
#include <cstdio>
#include <string>
#include <string_view>

#include "base/renamed_stats.h"
#include "daemon/stats/own_stats.h"
#include "daemon/stats/session_end.h"
#include "daemon/stats/worker_counters.h"
#include "node/node_stats.h"
#include "node/service_counters.h"
#include "proxy/link_counters.h"
#include "proxy/local_get.h"
#include "proxy/onesided_share.h"
#include "process/reloader.h"
#include "proxy/pointer_table.h"

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
    const std::string_view old_name = farcached::old_name_of(name);
    if (!old_name.empty()) one_row(old_name, farcached::old_name_help(name));
}

void lease_rows() {
#define X(name, kind, value, help) row(#name, help);
    LEASE_STATS(X)
#undef X
}

void config_rows() {
    heading("stats config: configuration in use, and its reloads");
#define X(name, help) row(#name, help);
    CONFIG_STATS(X)
#undef X
}

void node_group_rows() {
#define X(name, help) row(#name, help);
    NODE_STAT_GROUPS(X)
#undef X
}

void onesided_rows() {
    heading("stats proxy, with nodes: GETs that were not one-sided");
    row("get_onesided_share", "get_onesided and get_index among all GETs through connections to nodes, from 0.000 to 1.000");
#define X(name, counters, help) row("get_reason_" #name, "GETs sent to their node because " help);
    ONESIDED_REASONS(X)
#undef X
#define X(name, help) row("get_reason_denied_" #name, "GETs whose reply brought no pointer because " help);
    LEASE_DENIALS(X)
#undef X
}

void farcached_rows() {
#define X(name, help, ...) row(#name, help);
    heading("stats proxy: hits without a lock");
    LOCAL_GET_COUNTERS(X)
    heading("stats proxy: sessions and memory");
    OWN_STATS(X)
    heading("stats proxy, with nodes: requests to them; and, of each, in stats nodes");
    LINK_COUNTERS(X)
    LINK_GAUGES(X)
    CHANNEL_COUNTERS(X)
#define X_DENIED(name, help) row("lease_denied_" #name, "of lease_denied: " help);
    LEASE_DENIALS(X_DENIED)
#undef X_DENIED
    onesided_rows();
    heading("stats proxy, with nodes: ends of connections to them, by reason");
#define X_DOWN(name, help) row("down_" #name, help);
    LINK_DOWNS(X_DOWN)
#undef X_DOWN
#define X_END(name, help) row("channel_end_" #name, help);
    CHANNEL_ENDS(X_END)
#undef X_END
#define X_ERROR(name, help) row("frame_" #name, help);
    FRAME_ERRORS(X_ERROR)
#undef X_ERROR
    heading("stats proxy, with nodes: reported by them");
    NODES_OWN_STATS(X)
    heading("stats proxy: ends of connections, by reason");
#define X_END(name, text, help) row("close_" #name, help);
    SESSION_ENDS(X_END)
#undef X_END
    heading("stats: counters of workers");
    WORKER_COUNTERS(X)
    heading("stats slabs: per size class");
    CLASS_COUNTERS(X)
    heading("stats nodes: of each, as node:name");
    NODE_ROWS(X)
    heading("stats leases: sums over nodes, and of each as node:name");
    lease_rows();
    heading("stats latency: get and set, each as verb_way:name; ways are local, one_sided, index and two_sided");
    LATENCY_ROWS(X)
    heading("stats slow_log: with slow_log_ms, the latest slow requests, as slow:number");
#define X_SLOW(name, help) row(#name, help);
    SLOW_WORDS(X_SLOW)
#undef X_SLOW
    heading("stats pointers");
    POINTER_ROWS(X)
#undef X
    for (uint32_t bound_s : farcached::proxy::PointerTable::lease_left_bounds_s)
        row("lease_left_le_" + std::to_string(bound_s * 1000), farcached::daemon::lease_left_help);
    heading("stats hotkeys; its ways are those of stats latency");
#define X(name, help, ...) row(#name, help);
    HOT_KEYS_ROWS(X)
    heading("stats hotkeys: of each way, as way:name");
    HOT_KEYS_WAY_ROWS(X)
    heading("stats hotkeys: the 16 most frequent keys of each way, as way:rank:name");
    HOT_KEY_ROWS(X)
    heading("stats route KEY");
    ROUTE_ROWS(X)
#undef X
    row("next_1", ROUTE_NEXT_HELP);
    heading("stats node NAME [GROUP]: statistics of farnode(1); its groups");
    node_group_rows();
    config_rows();
}

void farnode_rows() {
#define X(name, help, ...) row(#name, help);
    heading("Groups");
    NODE_STAT_GROUPS(X)
    heading("general: requests of connections");
    SERVICE_COUNTERS(X)
#undef X
#define X(name, value, help) row(#name, help);
    heading("general: identity");
    NODE_IDENTITY(X)
    heading("leases: their terms");
    NODE_LEASE_TERMS(X)
#undef X
#define X(name, kind, value, help) row(#name, help);
    heading("general: items and memory");
    NODE_STATS(X)
    heading("general and leases");
    LEASE_STATS(X)
#undef X
#define X(name, value, help) row(#name, help);
    heading("general, summed over size classes, and classes");
    NODE_CLASS_SUMS(X)
    heading("classes");
    NODE_CLASS_STATS(X)
#undef X
    heading("connections: ends, by reason");
#define X(name, help) row("end_" #name, help);
    SERVICE_ENDS(X)
#undef X
#define X(name, help) row("channel_end_" #name, help);
    CHANNEL_ENDS(X)
#undef X
#define X(name, help) row("refusal_" #name, help);
    REFUSALS(X)
#undef X
#define X(name, help) row("frame_" #name, help);
    FRAME_ERRORS(X)
#undef X
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
