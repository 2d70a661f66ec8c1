// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/nodes.h"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/hash.h"
#include "base/node_clock.h"
#include "base/random_word.h"
#include "base/recorder.h"
#include "conf/addresses.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t ns_per_ms = 1'000'000, ns_per_s = 1'000'000'000;

conf::Problem problem(std::string text) { return {conf::exit_usage, std::move(text)}; }

}  // namespace

Nodes::Nodes(const conf::ProxySettings& settings, const conf::MemorySettings& memory, const PeerTrust& trust)
    : item_bytes_max_(memory.item_bytes_max), cas_(memory.cas), channels_(fences_, log_, settings.shm_group, trust) {}

Nodes::~Nodes() = default;

Nodes::Made Nodes::make(const conf::ProxySettings& settings, const conf::MemorySettings& memory,
                        const HostAddresses::LookUp& look_up, const PeerTrust& trust) {
    std::unique_ptr<Nodes> nodes(new Nodes(settings, memory, trust));
    Prepared prepared = nodes->prepare(settings, look_up, trust.key);
    if (auto* problem = std::get_if<conf::Problem>(&prepared)) return std::move(*problem);
    nodes->use(std::get<std::shared_ptr<const NodeSet>>(std::move(prepared)));
    return nodes;
}

// ---- what is configured -------------------------------------------------------------------------------

// Everything but the addresses of a host that is looked up.
std::shared_ptr<OneNode> Nodes::make_one(const conf::NodeSpec& spec) {
    auto one = std::make_shared<OneNode>(found_of(spec));
    one->number = next_number_++;
    one->name = spec.name;
    if (!one->is_found) one->address = conf::address_of(spec);
    one->channel = spec.channel;
    one->place = spec.channel == conf::NodeChannel::shm ? spec.path : spec.host;
    one->port = spec.port;
    return one;
}

// In order of `specs`. The hosts of new nodes are looked up together. registered: nodes chose them. One that is not known must not
// keep farcached from the rest of the list, so the node is down.
std::vector<Nodes::MadeNode> Nodes::find_or_make(const std::vector<conf::NodeSpec>& specs, bool registered,
                                                 const HostAddresses::LookUp& look_up) {
    std::vector<MadeNode> made;
    std::vector<HostRequest> hosts;
    std::vector<size_t> hosts_of;  // the spec of each
    for (const conf::NodeSpec& spec : specs) {
        const std::shared_ptr<OneNode> known = find(spec);
        if (known == nullptr && spec.channel != conf::NodeChannel::shm && spec.addresses.empty()) {
            hosts.push_back({spec.host, spec.port});
            hosts_of.push_back(made.size());
        }
        made.push_back(known != nullptr ? known : make_one(spec));
    }
    std::vector<HostAddresses::Found> found = look_up_all(std::move(hosts), look_up);
    for (size_t i = 0; i < found.size(); i++) {
        const conf::NodeSpec& spec = specs[hosts_of[i]];
        MadeNode& node = made[hosts_of[i]];
        auto* const why = std::get_if<std::string>(&found[i]);
        if (why != nullptr && registered)
            std::get<std::shared_ptr<OneNode>>(node)->host =
                HostAddresses::unknown(spec.host, spec.port, std::move(*why), look_up);
        else if (why != nullptr)
            node = problem(spec.origin + ": the host " + spec.host + " is not known (" + *why +
                           "); use a known name or an address\n");
        else
            std::get<std::shared_ptr<OneNode>>(node)->host =
                HostAddresses::make(spec.host, spec.port, std::get<0>(std::move(found[i])), look_up);
    }
    return made;
}

// D3. nullptr: neither a member nor leaving.
std::shared_ptr<OneNode> Nodes::find(const conf::NodeSpec& spec) const {
    const std::string address = conf::address_of(spec);
    std::lock_guard hold(lock_);
    const auto is_it = [&](const OneNode& node) {
        if (node.name != spec.name || node.is_found == spec.addresses.empty()) return false;
        return node.is_found ? node.channel == spec.channel : node.address == address;
    };
    if (set_ != nullptr)
        for (const NodeSet::Member& member : set_->members)
            if (is_it(*member.one)) return member.one;
    for (const std::shared_ptr<OneNode>& one : leaving_)
        if (is_it(*one)) return one;
    return nullptr;
}

Nodes::Prepared Nodes::prepare(const conf::ProxySettings& settings, const HostAddresses::LookUp& look_up,
                               std::shared_ptr<const protocol::AuthKey> key) {
    auto set = std::make_shared<NodeSet>();
    set->options.key = std::move(key);
    set->epoch = settings.list_epoch;
    set->since = epoch_now(set->epoch);
    if (settings.former_lists != nullptr) set->lists_before = settings.former_lists->lists_before;
    set->options.timeout_ns = settings.node_timeout_ms * ns_per_ms;
    set->options.failover = settings.failover;
    set->options.copies = settings.replicas.count > 1;
    if (!settings.replicas.prefixes.empty()) set->options.copy_prefixes = conf::key_prefixes_of(settings.replicas.prefixes);
    set->options.reads_both = settings.replicas.reads;
    set->options.refill_ns = uint64_t(settings.warm_up_s) * ns_per_s;
    set->options.failover_ttl_s = settings.failover_ttl_s;
    set->options.local_read = settings.local_read;
    set->options.probe_index = settings.pointer_miss == conf::PointerMiss::index;
    set->options.count_reads = settings.access_tracking == AccessTracking::atomic;
    set->options.rpc = {settings.rpc, settings.rfp_fetch_bytes};
    set->options.links_per_node = settings.links_per_node;
    set->options.report_mapped = settings.access_tracking == AccessTracking::report;
    if (set->options.report_mapped || settings.access_tracking == AccessTracking::automatic)
        set->options.report_interval_ns = settings.report_interval_ms * ns_per_ms;
    set->options.report_items = settings.report_items;
    std::vector<proxy::PlacementNode> places;
    std::string text;
    std::vector<MadeNode> made_nodes = find_or_make(settings.nodes, set->epoch != nullptr, look_up);
    for (size_t i = 0; i < made_nodes.size(); i++) {
        const conf::NodeSpec& spec = settings.nodes[i];
        if (spec.weight != 0) places.push_back({spec.name, spec.hash_as, spec.weight});
        const bool near = !spec.zone.empty() && spec.zone == settings.zone;
        set->has_near = set->has_near || near;
        if (auto* refusal = std::get_if<conf::Problem>(&made_nodes[i]))
            text += refusal->text;
        else
            set->members.push_back({std::get<std::shared_ptr<OneNode>>(std::move(made_nodes[i])), spec.weight, spec.zone, near,
                                    spec.socket.path.empty() ? nullptr : std::make_shared<const conf::NodeSocket>(spec.socket),
                                    found_of(spec)});
    }
    auto made = proxy::Placement::make(places, {settings.distribution, settings.hash, settings.hash_tag});
    if (auto* errors = std::get_if<proxy::Placement::Errors>(&made))
        for (const std::string& error : *errors) text += error + "\n";
    if (!text.empty()) return problem(std::move(text));
    set->placement = std::get<std::shared_ptr<const proxy::Placement>>(std::move(made));
    note_changes(*set, settings);
    return set;
}

std::shared_ptr<const NodeSet> Nodes::set() const {
    std::lock_guard hold(lock_);
    return set_;
}

bool Nodes::is_member(const OneNode& node) const {
    return std::any_of(set_->members.begin(), set_->members.end(),
                       [&](const NodeSet::Member& member) { return member.one.get() == &node; });
}

bool Nodes::is_settled() const {
    std::lock_guard hold(lock_);
    return set_ == nullptr || std::ranges::none_of(set_->members, [&](const NodeSet::Member& member) {
        return !member.one->told_down && fences_.moves(member.one->fence);
    });
}

void Nodes::use(std::shared_ptr<const NodeSet> prepared) {
    for (uint32_t ms = 0; ms < settle_ms && !is_settled(); ms++) usleep(1000);
    const auto set = std::make_shared<NodeSet>(*prepared);  // all that can fail comes first
    std::vector<MovedKeys::Change> changes;
    std::vector<std::shared_ptr<const Kept>> first;
    if (const std::shared_ptr<const NodeSet> last = this->set(); last != nullptr) {
        {
            std::lock_guard hold(lock_);
            leaving_.reserve(leaving_.size() + last->members.size());  // main alone adds to it
        }
        changes = moved_.change(*last, *set);  // without the lock, for which workers wait
        moved_.forget_changes(*last, *set);
        set->former = former_places(*last, *set, moves(*last));
        for (size_t i = 0; i < changes.size(); i++)
            changes[i].joined = fences_.join_unanswered(set->members[i].one->fence, changes[i].kept);
    } else if (first = MovedKeys::first(*set); !first.empty()) {
        set->former.push_back(FormerPlaces::unknown(*set));
    }
    refill(set->options, !set->changes.empty());
    std::lock_guard hold(lock_);
    for (size_t i = 0; i < first.size(); i++)
        if (first[i] != nullptr) fences_.send_first(set->members[i].one->fence, std::move(first[i]));
    for (size_t i = 0; i < changes.size(); i++)
        fences_.list(set->members[i].one->fence, changes[i].joins, std::move(changes[i].kept), changes[i].joined);
    for (NodeSet::Member& member : set->members) {
        OneNode& one = *member.one;
        one.socket.use(member.socket);
        if (member.found != nullptr) one.addresses.replace(member.found, fences_, one.fence);
        member.renewal = fences_.renewal(one.fence);
    }
    const std::shared_ptr<const NodeSet> before = std::exchange(set_, set);
    if (before == nullptr) return;
    std::erase_if(leaving_, [&](const std::shared_ptr<OneNode>& one) { return is_member(*one); });
    for (const NodeSet::Member& member : before->members) {
        if (is_member(*member.one)) continue;
        member.one->drained.store(false, std::memory_order_relaxed);  // for the case that it returns
        member.one->sums.move_past(past_);
        if (member.one->sums.present() != 0) leaving_.push_back(member.one);
    }
}

// ---- what links report ---------------------------------------------------------------------------------

void Nodes::came_up(OneNode& node, const protocol::Welcome& welcome, uint32_t worker) noexcept {
    note_event("connected to node", node.number);
    std::lock_guard hold(lock_);
    const uint64_t former = node.incarnation.exchange(welcome.incarnation, std::memory_order_relaxed);
    if (former != 0 && former != welcome.incarnation) {
        fences_.restarted(node.fence);
        if (set_ != nullptr) refill(set_->options);
    }
    if (node.is_found) node.addresses.connected(fences_, node.fence, worker);
    node.hash_seed = welcome.hash_seed;
    node.protocol_version = welcome.version;
    if (!protocol::reads_one_sided(welcome.version) && node.told_older != welcome.incarnation) {
        node.told_older = welcome.incarnation;
        log_.is_older(node, welcome.version);
    }
    node.tried.store(true, std::memory_order_relaxed);
    const uint32_t before = node.links_up.fetch_add(1);
    log_.connected(node, before + 1);
    if (before == 0 && std::exchange(node.told_down, false)) log_.is_good(node);
}

void Nodes::went_down(OneNode& node, const LinkLoss& loss) noexcept {
    note_event("no connection to node", node.number);
    std::lock_guard hold(lock_);
    if (loss.was_up) node.links_up.fetch_sub(1);
    node.down_reason.clear();
    try {
        node.down_reason = loss.reason;
    } catch (const std::bad_alloc&) {
        process::lose_line();
    }
    node.key_refused = loss.why == proxy::LinkDown::authentication;
    node.tried.store(true, std::memory_order_relaxed);
    log_.lost(node, loss);
    if (node.links_up.load() != 0 || node.told_down || !is_member(node)) return;
    node.told_down = true;
    log_.is_bad(node, loss, set_->options.failover);
}

bool Nodes::all_tried() const {
    const std::shared_ptr<const NodeSet> now = set();
    return std::all_of(now->members.begin(), now->members.end(),
                       [](const NodeSet::Member& member) { return member.one->tried.load(std::memory_order_relaxed); });
}

void Nodes::add(OneNode& node, const proxy::LinkCounters& link, const proxy::LocalGetCounters& local) {
    std::lock_guard hold(lock_);
    node.sums.add(link, local);
}

void Nodes::remove(const std::shared_ptr<OneNode>& node, const proxy::LinkCounters& link, bool was_up) {
    std::lock_guard hold(lock_);
    if (was_up) node->links_up.fetch_sub(1);
    const bool stays = is_member(*node);
    node->sums.remove(link, stays ? node->sums : past_);
    if (!stays && node->sums.present() == 0) std::erase(leaving_, node);
}

// ---- what is shown ------------------------------------------------------------------------------------

std::vector<NodeShown> Nodes::all() const {
    std::lock_guard hold(lock_);
    std::vector<NodeShown> all;
    for (const NodeSet::Member& member : set_->members) {
        all.push_back(shown_of(member));
        all.back().ways = pointers_.ways_of(set_->options, *member.one);
        if (set_->options.key == nullptr) continue;
        const char* const proof = all.back().links_up != 0 ? "" : member.one->key_refused ? ", refused" : ", unproved";
        all.back().key = set_->options.key->describe() + proof;
    }
    return all;
}

NodeShown Nodes::shown_of(const NodeSet::Member& member) const {
    const OneNode& one = *member.one;
    NodeShown shown;
    shown.number = one.number;
    shown.name = one.name;
    shown.address = member.found != nullptr ? member.found->text : one.address;
    shown.weight = member.weight;
    shown.zone = member.zone;
    shown.incarnation = one.incarnation.load(std::memory_order_relaxed);
    shown.protocol_version = one.protocol_version;
    shown.links = uint32_t(one.sums.present());
    shown.links_up = one.links_up.load();
    if (one.socket.is_there()) shown.links_shm = one.socket.links();
    shown.fence = fences_.shown(one.fence);
    const bool in_use = shown.fence.state == FenceState::in_use || shown.fence.state == FenceState::moving;
    shown.state = shown.links_up == 0 ? NodeState::down : in_use ? NodeState::up : NodeState::fenced;
    if (one.drained.load(std::memory_order_relaxed)) shown.state = NodeState::drained;
    shown.down_reason = one.down_reason;
    std::array<uint32_t, size_t(RpcMode::count) + 1> links{};
    one.sums.visit_present(
        [&](const proxy::LinkCounters& link, const proxy::LocalGetCounters&) { links[size_t(RpcMode(link.rpc))]++; });
    for (const RpcMode mode : {RpcMode::send, RpcMode::write, RpcMode::rfp}) {
        const uint32_t count = links[size_t(mode)];
        if (count == 0) continue;
        shown.rpc += (shown.rpc.empty() ? "" : ", ") + std::string(rpc_mode_name(mode));
        if (count != shown.links_up) shown.rpc += " " + std::to_string(count);
    }
    return shown;
}

void Nodes::each_link(uint32_t number, LinkVisit visit) const {
    std::lock_guard hold(lock_);
    for (const NodeSet::Member& member : set_->members) {
        if (member.one->number != number) continue;
        member.one->sums.visit_past(visit);
        member.one->sums.visit_present(visit);
    }
}

void Nodes::each_past_link(LinkVisit visit) const {
    std::lock_guard hold(lock_);
    past_.visit_past(visit);
    for (const std::shared_ptr<OneNode>& one : leaving_) one->sums.visit_present(visit);
}

// ---- stats route --------------------------------------------------------------------------------------

NodePointers::Hashed Nodes::hash_of(const OneNode& node, std::string_view key) const {
    std::lock_guard hold(lock_);
    return {node.incarnation.load(std::memory_order_relaxed), hash_key(key, node.hash_seed)};
}

// As PeerSet::choose(), but a node is up if any worker has a connection.
Route Nodes::route(std::string_view key) const {
    const std::shared_ptr<const NodeSet> now = set();
    const proxy::Placement& placement = *now->placement;
    const bool failover = now->options.failover;
    Route route;
    route.placement = placement.options();
    route.hashed = placement.hashed_part(key);
    route.place = placement.spot_of(key, uint32_t(random_word()));
    route.point = placement.point_of(route.place);
    route.failover = failover;
    if (now->options.copies && placement.size() > 1) route.copy = now->members[placement.pair_of(key).second].one->name;
    bool blocked = false;
    for (uint32_t i = 0; i < placement.size(); i++) {
        if (i >= Route::walk_shown && (route.asked.has_value() || !failover)) break;
        const NodeSet::Member& member = now->members[placement.walk(route.place, i)];
        {
            std::lock_guard hold(lock_);
            route.walk.push_back(shown_of(member));
        }
        const bool tried = i == 0 || failover;
        if (!tried || blocked || route.asked.has_value()) continue;
        if (route.walk.back().state != NodeState::up) {
            blocked = route.walk.back().fence.state != FenceState::out;  // the keys go to no other node yet
            continue;
        }
        route.asked = i;
        pointers_.find(now->options, *member.one, hash_of(*member.one, key), route);
    }
    return route;
}

bool Nodes::drain(std::string_view name, bool on) {
    const std::shared_ptr<const NodeSet> set = this->set();
    for (const NodeSet::Member& member : set->members) {
        if (member.one->name != name) continue;
        member.one->drained.store(on, std::memory_order_relaxed);
        fences_.change();
        if (wake_workers_) wake_workers_();  // an idle one takes part in the node's next state
        log_.drained(*member.one, on);
        return true;
    }
    return false;
}

}  // namespace farcached::daemon
