// SPDX-License-Identifier: BSD-3-Clause
#include "bench/load/get_shares.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <string_view>

#include "protocol/op.h"
#include "proxy/onesided_share.h"

namespace farcached::bench {

namespace {

constexpr double connect_wait_s = 5;
constexpr double first_wait_s = 2;  // for a server that may not answer
constexpr double answer_wait_s = 30;

uint64_t number_of(const ProxyStats& stats, const std::string& name) {
    const auto found = stats.find(name);
    if (found == stats.end()) return 0;
    uint64_t number = 0;
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), number);
    return number;
}

// The growth of each counter.
proxy::LinkCounts grown(const ProxyStats& before, const ProxyStats& after) {
    const auto by = [&](const std::string& name) {
        const uint64_t then = number_of(before, name), now = number_of(after, name);
        return now - std::min(now, then);
    };
    proxy::LinkCounts grown;
    for (const auto& row : proxy::LinkCounts::rows()) row.of(grown) = by(std::string(row.name));
    for (size_t i = 1; i < grown.lease_denied_by.size(); i++)
        grown.lease_denied_by[i] = by("lease_denied_" + std::string(protocol::lease_denial_name(protocol::LeaseDenial(i))));
    return grown;
}

}  // namespace

std::optional<GetShares> get_shares(const ProxyStats& before, const ProxyStats& after) {
    for (const ProxyStats* stats : {&before, &after})
        if (!stats->contains("get_onesided") || !stats->contains("get_twosided")) return std::nullopt;
    const proxy::LinkCounts counts = grown(before, after);
    GetShares shares;
    shares.onesided = proxy::gets_onesided(counts);
    shares.all = proxy::gets_through_links(counts);
    const auto add_to = [](GetShares::Rows& rows) {
        return [&rows](std::string_view name, std::string_view, uint64_t count) { rows.emplace_back(name, count); };
    };
    proxy::each_onesided_reason(counts, add_to(shares.reasons));
    proxy::each_pointer_denial(counts, add_to(shares.denials));
    return shares;
}

ShareMeter::ShareMeter(const Target& server) {
    try {
        line_ = std::make_unique<StatsLine>(server, connect_wait_s, first_wait_s);
    } catch (const std::runtime_error&) {
        return;
    }
    const std::optional<ProxyStats> first = ask();
    if (!first.has_value() || !get_shares(*first, *first).has_value())
        line_.reset();
    else
        line_->answer_within(answer_wait_s);
}

std::optional<ProxyStats> ShareMeter::ask() {
    if (line_ == nullptr) return std::nullopt;
    try {
        return line_->ask("proxy");
    } catch (const std::runtime_error&) {
        line_.reset();
        return std::nullopt;
    }
}

void ShareMeter::begin() { before_ = ask(); }

std::optional<GetShares> ShareMeter::end() {
    const std::optional<ProxyStats> after = ask();
    if (!before_.has_value() || !after.has_value()) return std::nullopt;
    return get_shares(*before_, *after);
}

}  // namespace farcached::bench
