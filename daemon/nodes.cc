// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/nodes.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <variant>

#include "base/boottime.h"
#include "base/broken.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/random_word.h"
#include "base/recorder.h"
#include "conf/nodes.h"
#include "daemon/remote_backend.h"
#include "fabric/fault_channel.h"
#include "fabric/shm_channel.h"
#include "fabric/tcp_channel.h"
#include "process/node_time.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t ns_per_ms = 1'000'000;
constexpr uint64_t silent_timeouts = 3;  // a node that answers nothing for so many is taken for dead
constexpr uint64_t silence_ns_min = 200 * ns_per_ms;

std::string this_host() {
    char name[256] = "";
    if (gethostname(name, sizeof name - 1) != 0) return "unknown";
    return name;
}

conf::Problem problem(std::string text) { return {conf::exit_usage, std::move(text)}; }

}  // namespace

Nodes::Nodes()
    : devices_(fabric::VerbsConfig(),
               [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }) {}

Nodes::~Nodes() = default;

conf::Refusal Nodes::add_node(const conf::NodeSpec& spec, const HostAddresses::LookUp& look_up) {
    auto one = std::make_unique<One>();
    one->spec = spec;
    one->address = conf::address_of(spec);
    if (spec.channel != conf::NodeChannel::shm) {
        auto host = HostAddresses::make(spec.host, spec.port, look_up);
        if (auto* why = std::get_if<std::string>(&host))
            return problem(spec.origin + ": the host " + spec.host + " is not known (" + *why +
                           "); name one that is, or its address\n");
        one->host = std::get<std::shared_ptr<HostAddresses>>(std::move(host));
    }
    nodes_.push_back(std::move(one));
    return {};
}

Nodes::Made Nodes::make(const conf::ProxySettings& settings, const conf::MemorySettings& memory,
                        const HostAddresses::LookUp& look_up) {
    std::unique_ptr<Nodes> nodes(new Nodes);
    nodes->options_.timeout_ns = settings.node_timeout_ms * ns_per_ms;
    nodes->options_.failover = settings.failover;
    nodes->options_.local_read = settings.local_read;
    nodes->options_.cold_index = settings.cold_get == conf::ColdGet::index;
    nodes->options_.count_reads = settings.access_tracking == AccessTracking::atomic;
    if (settings.access_tracking == AccessTracking::report)
        nodes->options_.report_interval_ns = settings.report_interval_ms * ns_per_ms;
    nodes->options_.item_bytes_max = memory.item_bytes_max;
    nodes->options_.cas = memory.cas;
    nodes->host_ = this_host();
    std::vector<proxy::PlacementNode> places;
    for (const conf::NodeSpec& spec : settings.nodes) {
        if (conf::Refusal refusal = nodes->add_node(spec, look_up)) return *refusal;
        places.push_back({spec.name, spec.hash_as, spec.weight});
    }
    auto made = proxy::Placement::make(places, {settings.distribution, settings.hash, settings.hash_tag});
    if (auto* errors = std::get_if<proxy::Placement::Errors>(&made)) {
        std::string text;
        for (const std::string& error : *errors) text += error + "\n";
        return problem(std::move(text));
    }
    nodes->placement_ = std::get<std::shared_ptr<const proxy::Placement>>(std::move(made));
    return nodes;
}

std::string Nodes::open_table(const conf::ProxySettings& settings) {
    bool readable = false;
    for (const auto& node : nodes_) {
        if (node->spec.channel == conf::NodeChannel::verbs) readable = true;
        if (node->spec.channel != conf::NodeChannel::shm) continue;
        // Where its memory is read as it is mapped, the table is for what is told of that (proxy/report_board.h).
        if (!options_.local_read || options_.report_interval_ns != 0) readable = true;
    }
    if (!readable) return {};  // nobody would look into it
    auto host = proxy::TableHost::of_this_process();
    if (auto* failure = std::get_if<proxy::TableFailure>(&host)) return failure->message;
    proxy::TableOptions table;
    table.name = settings.pointer_table_path;
    table.entries = settings.pointer_table_entries;
    table.host = std::get<proxy::TableHost>(host);
    table.seed = random_word();
    auto opened = proxy::PointerTable::open(table);
    if (auto* failure = std::get_if<proxy::TableFailure>(&opened)) return failure->message;
    table_ = std::get<std::unique_ptr<proxy::PointerTable>>(std::move(opened));
    return {};
}

proxy::LinkConfig Nodes::link_config(uint32_t node, uint32_t worker) const {
    proxy::LinkConfig config;
    config.hello.name = "farcached";
    config.hello.host = host_;
    config.hello.pid = uint32_t(getpid());
    config.silence_ns = std::max(silent_timeouts * options_.timeout_ns, silence_ns_min);
    config.connect_timeout_ns = std::max(options_.timeout_ns, silence_ns_min);
    config.host_zero_ns = process::node_zero_ns();
    config.cold_index = options_.cold_index;
    config.count_reads = options_.count_reads;
    config.report_interval_ns = options_.report_interval_ns;
    config.share_reports = true;
    config.verify_check = nodes_[node]->spec.channel == conf::NodeChannel::verbs;  // a NIC promises no order of bytes
    config.seed = random_word() ^ (uint64_t(worker) << 32 | node);
    return config;
}

proxy::NodeLink::MakeChannel Nodes::maker(uint32_t node, const fabric::VerbsMemories& memories) {
    auto make = plain_maker(node, memories);
    if constexpr (!broken::build) return make;
    return [make](fabric::ChannelEvents& events, std::string& error) {
        return fabric::FaultChannel::wrap(
            fabric::fault_plan_of_environment(), events,
            [&](fabric::ChannelEvents& within) { return make(within, error); });
    };
}

proxy::NodeLink::MakeChannel Nodes::plain_maker(uint32_t node, const fabric::VerbsMemories& memories) {
    One& one = *nodes_[node];
    if (one.spec.channel == conf::NodeChannel::shm)
        return [this, &one](fabric::ChannelEvents& events, std::string& error) {
            return fabric::connect_shm(one.spec.path, regions_, events, fabric::ShmOptions(), error);
        };
    // A host may be reached by another of its addresses. Each connection tries them for itself: if all workers took
    // turns together, as many workers as addresses would try the same one again and again.
    // When it must be reached again it may be elsewhere by now.
    const bool verbs = one.spec.channel == conf::NodeChannel::verbs;
    return [this, host = one.host, verbs, memories, turn = size_t(0)](fabric::ChannelEvents& events,
                                                                     std::string& error) mutable {
        if (turn != 0) host->refresh(boottime_ns());
        const fabric::SocketAddress to = host->at(turn++);
        if (verbs) return fabric::connect_verbs(to, devices_, memories, events, error);
        return fabric::connect_tcp(to, events, error);
    };
}

void Nodes::came_up(uint32_t node, uint64_t incarnation, uint64_t hash_seed) {
    One& one = *nodes_[node];
    std::lock_guard hold(lock_);
    note_event("connected to node", node);
    one.incarnation.store(incarnation, std::memory_order_relaxed);
    one.hash_seed = hash_seed;
    one.tried.store(true, std::memory_order_relaxed);
    const bool first = one.links_up.fetch_add(1) == 0;
    if (!first || !one.told_down) return;
    one.told_down = false;
    std::fprintf(stderr, "node %s is up again\n", one.spec.name.c_str());
}

void Nodes::went_down(uint32_t node, bool was_up, std::string_view reason) {
    One& one = *nodes_[node];
    std::lock_guard hold(lock_);
    note_event("no connection to node", node);
    if (was_up) one.links_up.fetch_sub(1);
    one.down_reason = reason;
    one.tried.store(true, std::memory_order_relaxed);
    if (one.links_up.load() != 0 || one.told_down) return;
    one.told_down = true;
    std::fprintf(stderr, "node %s is down: %.*s\n", one.spec.name.c_str(), int(reason.size()), reason.data());
}

bool Nodes::all_tried() const {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [](const auto& one) { return one->tried.load(std::memory_order_relaxed); });
}

void Nodes::remove(const RemoteBackend& backend) { std::erase(backends_, &backend); }

NodeShown Nodes::shown(uint32_t node) const {
    const One& one = *nodes_[node];
    NodeShown shown;
    shown.name = one.spec.name;
    shown.address = one.address;
    shown.weight = one.spec.weight;
    shown.incarnation = one.incarnation.load(std::memory_order_relaxed);
    shown.links = uint32_t(backends_.size());
    shown.links_up = one.links_up.load();
    shown.state = shown.links_up != 0 ? NodeState::up : NodeState::down;
    if (is_drained(node)) shown.state = NodeState::drained;
    std::lock_guard hold(lock_);
    shown.down_reason = one.down_reason;
    return shown;
}

void Nodes::each_link(uint32_t node, LinkVisit visit) const {
    for (const RemoteBackend* backend : backends_)
        visit(backend->link_counters(node), backend->local_counters(node));
}

// ---- stats route --------------------------------------------------------------------------------------

// As RemoteBackend::choose() does, but that this sees whether any worker has a connection.
Route Nodes::route(std::string_view key) const {
    const proxy::Placement& placement = *placement_;
    Route route;
    route.placement = placement.options();
    route.hashed = placement.hashed_part(key);
    route.place = placement.spot_of(key, uint32_t(random_word()));
    route.point = placement.point_of(route.place);
    route.failover = options_.failover;
    for (uint32_t i = 0; i < placement.size(); i++) {
        if (i >= Route::walk_shown && (route.asked.has_value() || !options_.failover)) break;
        const uint32_t node = placement.walk(route.place, i);
        route.walk.push_back(shown(node));
        const bool tried = i == 0 || options_.failover;
        if (!tried || route.asked.has_value() || route.walk.back().state != NodeState::up) continue;
        route.asked = i;
        find_pointer(node, key, route);
    }
    return route;
}

void Nodes::find_pointer(uint32_t node, std::string_view key, Route& route) const {
    const One& one = *nodes_[node];
    const bool shm = one.spec.channel == conf::NodeChannel::shm;
    const bool readable = shm || one.spec.channel == conf::NodeChannel::verbs;
    const bool mapped = shm && options_.local_read;
    const bool pointers = readable && !mapped && table_ != nullptr;
    route.ways = mapped ? "local, " : pointers ? "one_sided, " : "";
    if (readable && !mapped && options_.cold_index) route.ways += "index, ";
    route.ways += "two_sided";
    if (!pointers) return;
    uint64_t incarnation = 0, hash_seed = 0;
    {
        std::lock_guard hold(lock_);
        incarnation = one.incarnation.load(std::memory_order_relaxed);
        hash_seed = one.hash_seed;
    }
    const uint64_t now_ns = boottime_ns();
    using Found = proxy::PointerTable::Found;
    const proxy::PointerTable::Lookup found = table_->find(hash_key(key, hash_seed), incarnation, now_ns);
    if (found.found != Found::hit) {
        route.pointer = found.found == Found::expired ? Route::Pointer::expired : Route::Pointer::none;
        return;
    }
    route.pointer = Route::Pointer::valid;
    route.pointer_shared = found.shared;
    route.lease_left_ns = found.leased.valid_until_ns - now_ns;
    route.target = found.leased.ptr;
}

bool Nodes::drain(std::string_view name, bool on) {
    for (auto& one : nodes_) {
        if (one->spec.name != name) continue;
        one->drained.store(on, std::memory_order_relaxed);
        std::fprintf(stderr, "node %s is %s\n", one->spec.name.c_str(), on ? "drained" : "in use again");
        return true;
    }
    return false;
}

}  // namespace farcached::daemon
