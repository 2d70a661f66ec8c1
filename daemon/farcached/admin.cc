// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farcached/admin.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/node_clock.h"
#include "daemon/farcached/discovered.h"
#include "daemon/remote/cluster_view.h"
#include "daemon/stats/dump.h"
#include "daemon/stats/members_shown.h"
#include "daemon/stats/server_view.h"
#include "node/service/node_stats.h"
#include "process/log.h"
#include "protocol/text_keys.h"

namespace farcached::daemon {

PrefixStats::Counts* PrefixStats::find(std::string_view key) {
    const char ends[2] = {delimiter_, '\0'};
    size_t size = key.find_first_of(std::string_view(ends, 2));
    if (size == std::string_view::npos) return nullptr;
    if (key[size] != delimiter_) return nullptr;
    std::string_view prefix = key.substr(0, size);
    auto found = prefixes_.find(prefix);
    if (found != prefixes_.end()) return &found->second;
    if (prefixes_.size() >= prefixes_max) return nullptr;
    return &prefixes_[std::string(prefix)];
}

void PrefixStats::count(std::string_view key, KeyUse use) {
    if (!on()) return;
    std::lock_guard held(lock_);
    Counts* counts = find(key);
    if (counts == nullptr) return;
    counts->gets += use == KeyUse::hit || use == KeyUse::miss;
    counts->hits += use == KeyUse::hit;
    counts->sets += use == KeyUse::set;
    counts->deletes += use == KeyUse::del;
}

void PrefixStats::dump(OutBuffer& out) const {
    std::lock_guard held(lock_);
    for (const auto& [prefix, counts] : prefixes_) {
        out.append("PREFIX ");
        append_printable(out, prefix);
        out.append(" get ");
        out.append_number(counts.gets);
        out.append(" hit ");
        out.append_number(counts.hits);
        out.append(" set ");
        out.append_number(counts.sets);
        out.append(" del ");
        out.append_number(counts.deletes);
        out.append("\r\n");
    }
    out.append("END\r\n");
}

void PrefixStats::clear() {
    std::lock_guard held(lock_);
    prefixes_.clear();
}

bool PointerSurvey::step(const proxy::PointerTable& table, uint64_t now_ns) {
    std::unique_lock held(lock_, std::try_to_lock);
    if (!held.owns_lock()) return false;  // another thread takes a step now
    if (complete_ns_ != 0 && now_ns < complete_ns_ + fresh_ns) return true;
    if (now_ns >= stepped_ns_ + fresh_ns || next_ == table.entries()) {
        counted_ = {};
        next_ = 0;
    }
    const uint64_t count = std::min(entries_per_step, table.entries() - next_);
    table.add_occupancy(next_, count, now_ns, counted_);
    next_ += count;
    stepped_ns_ = now_ns;
    if (next_ < table.entries()) return false;
    result_ = counted_;
    complete_ns_ = now_ns;
    return true;
}

proxy::PointerTable::Occupancy PointerSurvey::result() const {
    std::lock_guard held(lock_);
    return result_;
}

namespace {

constexpr uint32_t verbosity_max = 2;      // memcached's MAX_VERBOSITY_LEVEL
constexpr uint64_t cachedump_classes = 64;

void say(OutBuffer& out, std::string_view text) {
    out.append(text);
    out.append("\r\n");
}

constexpr std::string_view detail_usage = "CLIENT_ERROR usage: stats detail on|off|dump";
// Groups that name clients' keys, and their refusals under -X (--disable-dumping).
constexpr std::pair<std::string_view, std::string_view> groups_with_keys[] = {
    {"detail", "CLIENT_ERROR stats detail not allowed"},
    {"hotkeys", "CLIENT_ERROR stats hotkeys not allowed"},
    {"slow_log", "CLIENT_ERROR stats slow_log not allowed"},
    {"cachedump", "CLIENT_ERROR stats cachedump not allowed"},
};
constexpr std::string_view no_nodes = "CLIENT_ERROR no nodes are configured";
constexpr std::string_view no_discovery = "CLIENT_ERROR no source of the list of nodes is configured (--discover)";
constexpr std::string_view no_pointer_table =
    "CLIENT_ERROR no pointer table is in use: local_read is on, no node is on this host, or the table was refused";

constexpr std::string_view hot_keys_usage = "CLIENT_ERROR usage: stats hotkeys [reset]";
constexpr std::string_view route_usage = "CLIENT_ERROR usage: stats route KEY, which has 1 to 250 bytes";

bool is_node_group(std::string_view group) {
    const auto named = [&](const node::NodeStats::Group& one) { return one.name == group; };
    return group.empty() || std::ranges::any_of(node::NodeStats::groups(), named);
}

std::string node_names(const NodesView& nodes) {
    std::string names;
    for (const NodeShown& node : nodes.all()) names += (names.empty() ? "" : ", ") + node.name;
    return names;
}

bool has_node(const NodesView& nodes, std::string_view name) {
    for (const NodeShown& node : nodes.all())
        if (node.name == name) return true;
    return false;
}

template <class Values>
void write_each(const Values& values, StatWriter out) {
    values.each([&](std::string_view name, std::string_view value) { out.text(name, value); });
}

const NodeNumbers* find_node(const std::vector<NodeNumbers>& nodes, std::string_view name) {
    for (const NodeNumbers& node : nodes)
        if (node.name == name) return &node;
    return nullptr;
}

// Subtracts the earlier counters of the same incarnation.
void subtract_same(NodeNumbers& now, const std::vector<NodeNumbers>& earlier) {
    const NodeNumbers* same = find_node(earlier, now.name);
    if (same == nullptr || same->incarnation != now.incarnation) return;
    subtract(now.stats, same->stats);
    subtract(now.all_classes, same->all_classes);
}

}  // namespace

AdminImpl::AdminImpl(Embedded* embedded, ServerView& server, WatchHub& watch,
                     EngineOptions& engine_options, AdminOptions options)
    : embedded_(embedded),
      server_(server),
      watch_(watch),
      engine_options_(engine_options),
      options_(std::move(options)),
      max_connections_(options_.max_connections),
      maxconns_fast_(options_.maxconns_fast),
      idle_timeout_(options_.idle_timeout),
      tls_sessions_(options_.tls_sessions),
      settings_(options_.settings),
      prefixes_(options_.prefix_delimiter) {
    prefixes_.turn(engine_options_.detail_enabled);
    if (embedded_ != nullptr) engine_options_.crawler_enabled = embedded_->crawler.enabled();
}

// ---- groups of stats ------------------------------------------------------------------------------------

// A group of plain names and values.
struct AdminImpl::Group {
    enum class Needs : uint8_t { nothing, nodes, pointer_table, discovery, reloader };
    std::string_view name, help;   // no help: `stats groups` leaves it out
    std::string_view nodes_group;  // of each node, which it shows, too; empty: none
    void (*write)(AdminImpl& admin, std::string_view told, StatWriter out);
    Needs needs = Needs::nothing;
};

std::span<const AdminImpl::Group> AdminImpl::groups() {
    using Told = std::string_view;
    using Out = StatWriter;
    static constexpr Group rows[] = {
        {"general", "default group: identity, connections, requests, memory", "general",
         [](AdminImpl& admin, Told told, Out out) { admin.write_general_group(told, out); }},
        {"settings", "the settings in use", "", [](AdminImpl& admin, Told, Out out) { write_each(admin.settings_, out); }},
        {"items", "items by size class", "all",
         [](AdminImpl& admin, Told told, Out out) {
             write_items(out, admin.sample(told), admin.settings_.get("temp_lru") == "yes");
         }},
        {"slabs", "memory by size class", "all",
         [](AdminImpl& admin, Told told, Out out) { write_slabs(out, admin.sample(told)); }},
        {"sizes", "items by size (-o track_sizes)", "", [](AdminImpl& admin, Told, Out out) { admin.write_sizes_group(out); }},
        {"conns", "clients' connections", "", [](AdminImpl& admin, Told, Out out) { write_connections(out, admin.server_); }},
        {"proxy", "counters of farcached itself", "general",
         [](AdminImpl& admin, Told told, Out out) { write_proxy(out, admin.sample(told)); }},
        {"latency", "latencies by path", "",
         [](AdminImpl& admin, Told, Out out) {
             write_latency(out, admin.sample("").latency, admin.server_.nodes() != nullptr);
         }},
        {"slow_log", "slow requests (-o slow_log_ms)", "",
         [](AdminImpl& admin, Told, Out out) { write_slow(out, admin.server_); }},
        {"hotkeys", "the most requested keys", "", [](AdminImpl& admin, Told, Out out) { write_hot_keys(out, admin.server_); }},
        {"config", "results of reloads", "",
         [](AdminImpl& admin, Told, Out out) { write_each(*admin.options_.reloader, out); }, Group::Needs::reloader},
        {"nodes", "state of each node, and its connections", "",
         [](AdminImpl& admin, Told, Out out) { write_nodes(out, admin.sample("")); }, Group::Needs::nodes},
        {"discovery", "the source of the list of nodes (--discover)", "",
         [](AdminImpl& admin, Told, Out out) { write_each(*admin.options_.discovered, out); }, Group::Needs::discovery},
        {"members", "the list of nodes in use, with zones, versions and its epoch, and the list of farcached", "",
         [](AdminImpl& admin, Told, Out out) { admin.write_members_group(out); }, Group::Needs::nodes},
        {"leases", "leases of all nodes", "leases",
         [](AdminImpl& admin, Told told, Out out) {
             const Numbers now = admin.numbers(told);
             write_leases(out, now.sample, now.nodes, told);
         }, Group::Needs::nodes},
        {"pointers", "contents of the pointer table", "",
         [](AdminImpl& admin, Told, Out out) { write_pointers(out, admin.survey_.result()); }, Group::Needs::pointer_table},
        {"groups", "this list", "", [](AdminImpl& admin, Told, Out out) { admin.write_groups(out); }},
        // memcached's: the disk's segments. Empty without a disk, and so not listed.
        {"extstore", "", "",
         [](AdminImpl& admin, Told, Out out) {
             if (admin.embedded_ != nullptr) write_segments(out, admin.embedded_->node.config().disk);
         }},
    };
    return rows;
}

const AdminImpl::Group* AdminImpl::find_group(std::string_view name) {
    if (name.empty()) name = "general";
    const auto found = std::ranges::find(groups(), name, &Group::name);
    return found == groups().end() ? nullptr : &*found;
}

std::string_view AdminImpl::missing_for(const Group& group) const {
    const NodesView* nodes = server_.nodes();
    switch (group.needs) {
        case Group::Needs::nothing: return {};
        case Group::Needs::reloader: return options_.reloader == nullptr ? "ERROR" : std::string_view();
        case Group::Needs::nodes: return nodes == nullptr ? no_nodes : std::string_view();
        case Group::Needs::discovery: return options_.discovered == nullptr ? no_discovery : std::string_view();
        case Group::Needs::pointer_table:
            if (nodes == nullptr) return no_nodes;
            return nodes->pointer_table() == nullptr ? no_pointer_table : std::string_view();
    }
    return {};
}

void AdminImpl::write_general_group(std::string_view told, StatWriter out) const {
    write_general(out, sample(told),
                  {max_connections_, maxconns_fast_, idle_timeout_, tls_sessions_, options_.own_version,
                   server_.nodes() != nullptr});
}

void AdminImpl::write_sizes_group(StatWriter out) const {
    if (options_.track_sizes && server_.nodes() == nullptr)
        write_sizes(out, embedded_->node, server_.now());
    else
        out.text("sizes_status", "disabled");
}

void AdminImpl::write_members_group(StatWriter out) const {
    const Discovered* discovered = options_.discovered;
    const std::string source = discovered == nullptr ? "static" : discovered->state().source;
    const auto found = discovered == nullptr ? nullptr : discovered->list_in_use();
    const auto list = options_.cluster == nullptr ? nullptr : options_.cluster->list();
    std::string_view cluster = list == nullptr ? std::string_view() : list->text;
    cluster.remove_prefix(std::min(cluster.size(), cluster.find('\n')));  // its version
    write_members(out, *server_.nodes(), source, found.get(), cluster);
}

void AdminImpl::write_groups(StatWriter out) const {
    for (const Group& one : groups())
        if (!one.help.empty() && missing_for(one) != no_nodes && missing_for(one) != no_discovery) out.text(one.name, one.help);
}

// ---- stats --------------------------------------------------------------------------------------------

// A node's counters start at zero in each incarnation.
AdminImpl::Numbers AdminImpl::numbers(std::string_view told) const {
    Numbers now = {take_sample(embedded_, server_, watch_), read_numbers(told)};
    {
        std::lock_guard held(lock_);
        if (baseline_ != nullptr) {
            subtract(now.sample, baseline_->sample);
            for (NodeNumbers& node : now.nodes) subtract_same(node, baseline_->nodes);
        }
    }
    add_nodes(now.sample, now.nodes);
    return now;
}

// A node that is unavailable now keeps its earlier baseline.
void AdminImpl::reset(std::string_view told) {
    auto now = std::make_unique<Numbers>();
    now->sample = take_sample(embedded_, server_, watch_);
    now->nodes = read_numbers(told);
    {
        std::lock_guard held(lock_);
        if (baseline_ != nullptr)
            for (const NodeNumbers& node : baseline_->nodes)
                if (find_node(now->nodes, node.name) == nullptr) now->nodes.push_back(node);
        baseline_ = std::move(now);
    }
    prefixes_.clear();
}

bool AdminImpl::stats_ready(std::string_view args) {
    NodesView* nodes = server_.nodes();
    if (nodes == nullptr || LineWords(args)[0] != "pointers") return true;
    const proxy::PointerTable* table = nodes->pointer_table();
    return table == nullptr || survey_.step(*table, boottime_ns());
}

StatsNeed AdminImpl::stats_need(std::string_view args) {
    const NodesView* nodes = server_.nodes();
    if (nodes == nullptr) return {};
    const LineWords words(args);
    const std::string_view group = words[0];
    if (group == "reset") return {true, "all", ""};
    if (group == "node" && has_node(*nodes, words[1]) && is_node_group(words[2]))
        return {true, words[2], words[1]};
    const Group* known = find_group(group);
    if (known == nullptr || known->nodes_group.empty()) return {};
    return {true, known->nodes_group, ""};
}

bool AdminImpl::write_route_of(const LineWords& words, StatWriter out) {
    const std::string_view key = words[1];
    if (words.size() != 2 || key.size() > limits::key_bytes_max) return false;
    const NodesView* nodes = server_.nodes();
    if (nodes == nullptr) {
        write_route(out, key, nullptr);
        return true;
    }
    const Route route = nodes->route(key);
    write_route(out, key, &route);
    return true;
}

StatsFound AdminImpl::write_one_node(const LineWords& words, std::string_view told, StatWriter out) {
    const NodesView* nodes = server_.nodes();
    if (nodes == nullptr || !has_node(*nodes, words[1]) || !is_node_group(words[2])) return StatsFound::unknown;
    StatsFound found = StatsFound::unavailable;
    each_told(told, [&](std::string_view, std::optional<std::string_view> text) {
        if (!text.has_value()) return;
        found = StatsFound::found;
        each_line(*text, [&](std::string_view name, std::string_view value) { out.text(name, value); });
    });
    return found;
}

std::string AdminImpl::one_node_refusal(const LineWords& words) const {
    const NodesView* nodes = server_.nodes();
    if (nodes == nullptr) return std::string(no_nodes);
    if (words.size() < 2) return "CLIENT_ERROR usage: stats node NAME [GROUP]";
    if (!has_node(*nodes, words[1])) return "CLIENT_ERROR no node of this name; nodes: " + node_names(*nodes);
    if (is_node_group(words[2])) return "SERVER_ERROR node " + std::string(words[1]) + " is unavailable";
    std::string refusal = "CLIENT_ERROR nodes have no group of this name; groups:";
    for (const node::NodeStats::Group& group : node::NodeStats::groups()) refusal.append(" ").append(group.name);
    return refusal;
}

void AdminImpl::stats_text(std::string_view args, std::string_view told, OutBuffer& out) {
    LineWords words(args);
    std::string_view group = words[0];
    if (group == "reset") {
        reset(told);
        return say(out, "RESET");
    }
    for (const auto& [name, refusal] : groups_with_keys)
        if (group == name && !engine_options_.dump_enabled) return say(out, refusal);
    if (group == "detail") return stats_detail(words[1], out);
    if (group == "hotkeys" && words.size() > 1) {
        if (words.size() != 2 || words[1] != "reset") return say(out, hot_keys_usage);
        reset_hot_keys(server_);
        return say(out, "RESET");
    }
    if (group == "cachedump") {
        if (server_.nodes() != nullptr) return say(out, items_in_nodes);
        if (words.size() < 3) return say(out, "CLIENT_ERROR bad command line");
        return stats_cachedump(words[1], words[2], out);
    }
    auto emit = [&](std::string_view name, std::string_view value) {
        out.append("STAT ");
        out.append(name);
        out.append(' ');
        out.append(value);
        out.append("\r\n");
    };
    if (group == "node") {
        const bool found = write_one_node(words, told, StatWriter(emit)) == StatsFound::found;
        return say(out, found ? "END" : one_node_refusal(words));
    }
    if (group == "route") return say(out, write_route_of(words, StatWriter(emit)) ? "END" : route_usage);
    const Group* known = find_group(group);
    const std::string_view refusal = known == nullptr ? "ERROR" : missing_for(*known);
    if (!refusal.empty()) return say(out, refusal);
    known->write(*this, told, StatWriter(emit));
    say(out, "END");
}

StatsFound AdminImpl::stats_binary(std::string_view group, std::string_view told, StatWriter::Emit emit) {
    if (group == "reset") {
        reset(told);
        return StatsFound::found;
    }
    const bool names_keys = group.starts_with("hotkeys") || group == "slow_log" || group.starts_with("detail ");
    if (names_keys && !engine_options_.dump_enabled) return StatsFound::unknown;
    if (group == "hotkeys reset") {
        reset_hot_keys(server_);
        return StatsFound::found;
    }
    if (group == "detail on" || group == "detail off") {
        turn_detail(group == "detail on");
        return StatsFound::found;
    }
    if (group == "detail dump") {
        OutBuffer text;
        prefixes_.dump(text);
        emit("detailed", std::string_view(text.data(), text.size()));
        return StatsFound::found;
    }
    const LineWords words(group);
    if (words[0] == "node") return write_one_node(words, told, StatWriter(emit));
    if (words[0] == "route")
        return write_route_of(words, StatWriter(emit)) ? StatsFound::found : StatsFound::unknown;
    const Group* known = find_group(group);
    if (known == nullptr || !missing_for(*known).empty()) return StatsFound::unknown;
    known->write(*this, told, StatWriter(emit));
    return StatsFound::found;
}

void AdminImpl::turn_detail(bool on) {
    prefixes_.turn(on);
    engine_options_.detail_enabled = on;
    settings_.set("detail_enabled", on ? "yes" : "no");
}

void AdminImpl::stats_detail(std::string_view what, OutBuffer& out) {
    if (what == "dump") return prefixes_.dump(out);
    if (what != "on" && what != "off") return say(out, detail_usage);
    turn_detail(what == "on");
    say(out, "OK");
}

void AdminImpl::stats_cachedump(std::string_view size_class, std::string_view items_max,
                                OutBuffer& out) {
    uint64_t id = 0, items = 0;
    bool good = protocol::parse_digits(size_class, UINT32_MAX, id) &&
                protocol::parse_digits(items_max, UINT32_MAX, items);
    if (!good) return say(out, "CLIENT_ERROR bad command line format");
    if (id >= cachedump_classes) return say(out, "CLIENT_ERROR Illegal slab id");
    append_cachedump(out, embedded_->node, uint8_t(id), uint32_t(items), server_.now(),
                     server_.started_unix());
}

// ---- the rest -----------------------------------------------------------------------------------------

void AdminImpl::verbosity(uint32_t level) {
    level = std::min(level, verbosity_max);
    settings_.set("verbosity", std::to_string(level));
    engine_options_.trace = level >= 2;
    process::set_verbosity(level);
}

void AdminImpl::tune(std::string_view line, OutBuffer& out) {
    if (server_.nodes() != nullptr && tunes_memory(line)) return say(out, items_in_nodes);
    say(out, daemon::tune({embedded_, settings_, server_.now(), options_.keys}, line));
    if (embedded_ != nullptr) engine_options_.crawler_enabled = embedded_->crawler.enabled();
}

// memcached's clock reads a minute more than its uptime, and `oldest` is the last flushed second.
void AdminImpl::flushed(NodeSeconds when) {
    constexpr uint64_t clock_ahead_s = 60;
    settings_.set("oldest", std::to_string(when + clock_ahead_s - 1));
}

void AdminImpl::drain(std::string_view node, bool on, OutBuffer& out) {
    NodesView* nodes = server_.nodes();
    if (nodes == nullptr) return say(out, no_nodes);
    if (nodes->drain(node, on)) return say(out, "OK");
    say(out, "CLIENT_ERROR no node of this name; nodes: " + node_names(*nodes));
}

void AdminImpl::change(const AdminOptions& from, const AdminOptions& to) {
    CHECK(from.settings.size() == to.settings.size());
    for (size_t i = 0; i < to.settings.size(); i++)
        if (from.settings[i].value != to.settings[i].value) settings_.set(to.settings[i].name, to.settings[i].value);
    max_connections_ = to.max_connections;
    maxconns_fast_ = to.maxconns_fast;
    idle_timeout_ = to.idle_timeout;
    tls_sessions_ = to.tls_sessions;
}

}  // namespace farcached::daemon
