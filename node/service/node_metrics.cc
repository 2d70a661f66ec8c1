// SPDX-License-Identifier: BSD-3-Clause
// Prometheus metrics of a node: the rows of node/service/node_stats.h and ServiceCounters, with the values of `stats`. Any thread.
#include <algorithm>
#include <string>
#include <string_view>

#include "base/metrics_text.h"
#include "base/stat_row.h"
#include "node/service/node_stats.h"
#include "node/store/tiers.h"

namespace farcached::node {

namespace {

using Kind = MetricsText::Kind;

constexpr MetricsText::Group families[] = {
    {"lease_denied_", "lease_denied", "reason", "leases denied"},
    {"queue_", "queue_items", "queue", "items in each queue of the policy"},
};

}  // namespace

void append_class_metrics(const std::vector<ClassStats>& classes, MetricsText::Labels labels, MetricsText& out) {
    labels.emplace_back("class", "");
    for (size_t i = 1; i < classes.size(); i++) {
        const ClassStats& c = classes[i];
        if (c.pages == 0) continue;
        const std::string id = std::to_string(i);
        labels.back().second = id;
        auto put = [&](const ClassRow& row) {
            out.stat(MetricsText::kind_of(row.kind), "class_" + std::string(MetricsText::conventional(row.name)), row.help,
                     row.of(c), labels);
        };
        std::ranges::for_each(class_rows, put);
        std::ranges::for_each(class_sum_rows, put);
    }
}

void NodeStats::append_metrics(NodeSeconds now, MetricsText& out) const {
    const Stats s = node_.stats(now);
    const LeaseConfig& config = node_.config().lease;
    out.number(Kind::gauge, "info", "1; the node's name and its policy are labels", 1,
               {{"node", name_}, {"policy", name_of(node_.config().policy)}});
    out.number(Kind::gauge, "uptime_seconds", "time since the node began to serve", seconds_since(started_, now));
    out.number(Kind::gauge, "lease_enabled", "1: leases are granted", config.enabled ? 1 : 0);
    if (peers_ != nullptr)
        out.number(Kind::gauge, "peer_certificate_expiry_timestamp_seconds", peer_certificate_help,
                   uint64_t(peers_->expires_unix()));
    const auto put_row = [&](const auto& row, uint64_t value) {
        out.grouped(families, MetricsText::kind_of(row.kind), row.name, row.help, value);
    };
    each_of_right(put_row);
    for (const auto& row : node_rows) put_row(row, row.of(s));
    for (const auto& row : lease_rows) put_row(row, row.of(s));
    for (const ClassRow& row : class_sum_rows) put_row(row, sum_of(row, s.classes));
    for (const auto& row : ServiceCounters::rows()) put_row(row, total(row.where));
    for (const auto& row : fabric::ChannelCounters::rows()) put_row(row, channel_total(row.where));
    if (const DiskStore* disk = node_.config().disk) {
        const DiskStatistics numbers = disk->statistics();
        for (const auto& row : DiskStatistics::rows()) put_row(row, row.of(numbers));
    }
    if (const PeerStore* peer = node_.config().peer) {
        const PeerStatistics numbers = peer->statistics();
        for (const auto& row : PeerStatistics::rows()) put_row(row, row.of(numbers));
    }
    each_end([&](const EndKind& kind, std::string_view reason, uint64_t count) {
        out.number(Kind::counter, kind.family, kind.help, count, {{"reason", reason}});
    });
    append_class_metrics(s.classes, {}, out);
}

}  // namespace farcached::node
