// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farcached/discovered.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/node_clock.h"
#include "base/placement_words.h"
#include "conf/addresses.h"
#include "conf/etcd_url.h"
#include "conf/program.h"
#include "process/fatal.h"

namespace farcached::daemon {

using process::Level;

namespace {

constexpr uint64_t ns_per_s = 1'000'000'000;
constexpr uint64_t progress_s = 5;  // between two lines of the log
constexpr uint64_t us_longer = 30'000'000;

bool weighs(Distribution distribution) {
    return distribution == Distribution::ketama || distribution == Distribution::ketama_weighted;
}

// "1 node", "2 nodes"
std::string counted(size_t nodes) { return std::to_string(nodes) + (nodes == 1 ? " node" : " nodes"); }

// nullptr: none has its name.
const FoundNode* namesake(const std::vector<FoundNode>& nodes, const FoundNode& one) {
    const auto at = std::ranges::find_if(nodes, [&](const FoundNode& other) { return other.node.name == one.node.name; });
    return at == nodes.end() ? nullptr : &*at;
}

// "; new: a, b": the first few of those that the other list has not, or, with `moved`, that it has at another address. Empty: none.
std::string missing_in(const std::vector<FoundNode>& nodes, const std::vector<FoundNode>& other, std::string_view title,
                       bool moved = false) {
    constexpr size_t names_max = 8;
    std::string names;
    size_t count = 0;
    for (const FoundNode& one : nodes) {
        const FoundNode* const same = namesake(other, one);
        if (moved ? same == nullptr || conf::address_of(same->node) == conf::address_of(one.node) : same != nullptr) continue;
        if (count++ < names_max) names += (names.empty() ? "" : ", ") + one.node.name;
    }
    if (count == 0) return {};
    return std::string(title) + names + (count > names_max ? " and " + std::to_string(count - names_max) + " more" : "");
}

}  // namespace

Discovered::Discovered(const conf::Settings& settings)
    : name_(settings.proxy.discovery.source),
      timeout_s_(settings.proxy.discovery.timeout_s),
      source_(process::or_fatal(make_source(settings.proxy, [] { process::Signals::ask_to_work(); }))) {
    if (settings.proxy.failover && conf::is_etcd_url(name_))
        process::say(Level::warning, "failover has no effect with etcd: the keys of a node go to others when etcd has lost the "
                                     "node, so that all farcached use the same ones; shorten --member-ttl, or set replicas=2");
}

// False: there is no list yet, or it cannot be used.
bool Discovered::try_first(const conf::Settings& settings, Prepare prepare) {
    std::shared_ptr<const Found> found = source_->latest();
    if (found == nullptr) return false;
    const conf::Settings with_list = with(settings, *found);
    std::vector<std::string> refused = conf::check_nodes(with_list.proxy);
    if (refused.empty()) refused = prepare(with_list);
    if (refused.empty()) use(std::move(found));
    else refuse(*found, refused);
    return refused.empty();
}

bool Discovered::wait_for_list(process::Signals& signals, const process::ServiceManager& manager, const conf::Settings& settings,
                               Prepare prepare) {
    const uint64_t begun_ns = boottime_ns();
    uint64_t next_line_s = 1;
    const auto why = [&] {
        const std::string refusal = source_->latest() == nullptr ? "" : in_use().refusal;
        return refusal.empty() ? source_->state().last_error : refusal;
    };
    const auto in_brackets = [](const std::string& text) { return text.empty() ? "" : " (" + text + ")"; };
    const auto is_over = [&] {
        if (try_first(settings, prepare)) return true;
        const uint64_t waited_s = (boottime_ns() - begun_ns) / ns_per_s;
        if (waited_s >= timeout_s_) return true;
        if (waited_s < next_line_s) return false;
        next_line_s = waited_s + progress_s;
        const std::string line = "waiting for the first list of nodes from " + name_ + in_brackets(why());
        process::say(Level::notice, line);
        manager.tell_longer(line, us_longer);
        return false;
    };
    if (!signals.wait_until(is_over)) return false;
    if (used_ != nullptr) return true;
    const std::string reason = why();
    const bool listed = source_->latest() != nullptr;
    source_.reset();  // its thread ends before the process does
    const std::string_view unnamed = listed ? ": no list of nodes that can be used within " : ": no list of nodes within ";
    std::string_view hint = "; every request would fail; check the name and the DNS server, or raise discover_timeout";
    if (conf::is_etcd_url(name_))
        hint = "; every request would fail; check the endpoints and the prefix, or raise discover_timeout";
    if (listed) hint = "; every request would fail; mend the list, or raise discover_timeout";
    process::fatal({conf::exit_system, "--discover " + name_ + std::string(unnamed) + std::to_string(timeout_s_) + " s" +
                                           in_brackets(reason) + std::string(hint) + "\n"});
}

std::shared_ptr<const Found> Discovered::newer() const {
    std::shared_ptr<const Found> latest = source_->latest();
    return latest == used_ ? nullptr : latest;
}

conf::Settings Discovered::with(conf::Settings settings, const Found& found) {
    settings.proxy.nodes.clear();
    settings.proxy.list_epoch = found.epoch;
    settings.proxy.former_lists = found.former;
    settings.proxy.failover = settings.proxy.failover && !conf::is_etcd_url(settings.proxy.discovery.source);
    for (const FoundNode& one : found.nodes) {
        settings.proxy.nodes.push_back(one.node);
        settings.proxy.nodes.back().zone = one.zone;
        if (!weighs(settings.proxy.distribution) && one.node.weight != 0) settings.proxy.nodes.back().weight = 1;
    }
    std::stable_partition(settings.proxy.nodes.begin(), settings.proxy.nodes.end(),
                          [](const conf::NodeSpec& node) { return node.weight != 0; });
    return settings;
}

void Discovered::use(std::shared_ptr<const Found> found) {
    const std::vector<FoundNode> none, &before = used_ == nullptr ? none : used_->nodes;
    lines_.say(Level::notice, name_ + " lists " + counted(found->nodes.size()) + missing_in(found->nodes, before, "; new: ") +
                                  missing_in(before, found->nodes, "; gone: ") +
                                  missing_in(found->nodes, before, "; at another address: ", /* moved= */ true));
    {
        std::lock_guard hold(lock_);
        in_use_.revision = found->revision;
        in_use_.nodes = found->nodes.size();
        used_.swap(found);
    }
}

void Discovered::refuse(const Found& found, const std::vector<std::string>& reasons) {
    const std::string why = reasons.empty() ? std::string("no reason") : reasons.front();
    const std::string_view in_use =
        used_ == nullptr ? "); there is no other list yet; retrying" : "); the last list stays in use; retrying";
    lines_.say(Level::warning, name_ + ": the new list of " + counted(found.nodes.size()) + " cannot be used (" + why +
                                   std::string(in_use));
    std::lock_guard hold(lock_);
    in_use_.refused++;
    in_use_.refusal = why;
}

std::shared_ptr<const Found> Discovered::list_in_use() const {
    std::lock_guard hold(lock_);
    return used_;
}

ListInUse Discovered::in_use() const {
    std::lock_guard hold(lock_);
    return in_use_;
}

void Discovered::each(FunctionRef<void(std::string_view name, std::string_view value)> visit) const {
    const DiscoveryShown shown = shown_of(state(), in_use());
    for (const auto& row : discovery_rows) visit(row.name, row.of(shown));
}

}  // namespace farcached::daemon
