// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/moved_keys.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <variant>

#include "base/broken.h"
#include "base/hash.h"
#include "base/node_clock.h"
#include "conf/addresses.h"
#include "daemon/remote/node_set.h"
#include "protocol/frame_request.h"
#include "protocol/owned_keys.h"

namespace farcached::daemon {

namespace {

using KeptKeys = std::shared_ptr<const Kept>;

// nullptr of a list: any node may have any key. Nothing is kept then, and the node does not learn which keys are its own.
KeptKeys kept_of(const protocol::OwnedKeys* had, const protocol::OwnedKeys* has, const SharedEpoch& epoch) {
    if (had == nullptr || has == nullptr) return std::make_shared<const Kept>(Kept{"", true, epoch});
    KeptKeys kept = describe({{*had, *has}}, epoch);
    if (kept != nullptr) return kept;
    const protocol::OwnedKeys none{.place = has->place};  // it deletes all, and refuses all requests of older lists
    return describe({{none, none}}, epoch);
}

using OwnedKeys = protocol::OwnedKeys;

std::vector<std::string> addresses_of(const NodeSet::Member& member) {
    return member.found != nullptr ? member.found->texts : std::vector<std::string>{member.one->address};
}

// Of each member. Empty: any of them may have any key.
std::vector<OwnedKeys> owned_of(const NodeSet& set) {
    std::vector<OwnedKeys> owned = set.placement->owned();
    if (!owned.empty()) owned.resize(set.members.size(), OwnedKeys{.place = owned.front().place});  // weight 0: none
    return owned;
}

bool has_new_node(const NodeSet& last, const NodeSet& next) {
    return std::ranges::any_of(next.members, [&](const NodeSet::Member& member) {
        return std::ranges::find(last.members, member.one, &NodeSet::Member::one) == last.members.end();
    });
}

// V6. Two lists of etcd: there may have been others in between, which other processes use.
bool may_skip_lists(const NodeSet& last, const NodeSet& next) {
    return last.epoch != nullptr && next.epoch != nullptr && last.epoch != next.epoch;
}

// V6. nullptr: there are none, or they take too long to describe, and the node would delete all items.
KeptKeys same_keys(KeptKeys kept) { return kept->nothing ? nullptr : std::move(kept); }

// What the nodes of a list keep of the list before, where items have copies.
class PairChange {
  public:
    struct Homes {
        const OneNode *first, *second;
        bool has(const OneNode* node) const { return node == first || node == second; }
        bool operator==(const Homes&) const = default;
    };
    PairChange(const NodeSet& last, const NodeSet& next) : last_(last), next_(next), nodes_(next.members.size()) {
        for (Node& node : nodes_) node.kept.place = node.unmoved.place = node.has.place = next.placement->place();
        if (next.placement->points().empty()) return;
        identify();
        if (last.placement->place() != next.placement->place() || last.placement->points().empty()) return;
        std::vector<uint32_t> points = last.placement->points(), more = next.placement->points();
        points.insert(points.end(), more.begin(), more.end());
        proxy::each_arc(std::move(points), [this](uint32_t first, uint32_t end) { add({first, end}); });
    }

    struct Node {
        OwnedKeys kept, unmoved;
        bool changed = false;
        uint64_t identity = 1;
        OwnedKeys has = {};  // by the next list, if the two can be compared
        bool loses = false;  // a key that it had
    };
    const Node& at(size_t place) const { return nodes_[place]; }

  private:
    static Homes homes(const NodeSet& set, uint32_t spot) {
        if (set.placement->size() == 1) return {set.members[0].one.get(), nullptr};
        const proxy::NodePair pair = set.placement->pair_at(spot);
        return {set.members[pair.first].one.get(), set.members[pair.second].one.get()};
    }
    static void append(OwnedKeys& keys, OwnedKeys::Arc arc) {
        if (!keys.arcs.empty() && keys.arcs.back().last + 1 == arc.first)
            keys.arcs.back().last = arc.last;
        else
            keys.arcs.push_back(arc);
    }
    // KeptKeys::identity, by the next list: of the arcs where the node's homes change.
    void identify() {
        const KeyPlace place = next_.placement->place();
        const uint8_t kind[] = {uint8_t(place.hash), uint8_t(place.tag_open), uint8_t(place.tag_close)};
        for (Node& node : nodes_) node.identity = hash_bytes(kind, sizeof kind, /* seed= */ 0) | 1;  // never 0
        std::vector<Homes> last(nodes_.size());
        proxy::each_arc(next_.placement->points(), [&](uint32_t first, uint32_t end) {
            const Homes has = homes(next_, end);
            for (size_t i = 0; i < nodes_.size(); i++) {
                const Homes own = has.has(next_.members[i].one.get()) ? has : Homes();
                if (std::exchange(last[i], own) != own) identify(nodes_[i], first, own);
            }
        });
    }
    static void identify(Node& node, uint32_t begin, const Homes& homes) {
        node.identity = hash_bytes(&begin, sizeof begin, node.identity);
        for (const OneNode* const home : {homes.first, homes.second}) {
            const std::string name = home == nullptr ? std::string() : home->name;
            node.identity = hash_bytes(name.c_str(), name.size() + 1, node.identity) | 1;
        }
    }
    void add(OwnedKeys::Arc arc) {
        const Homes had = homes(last_, arc.last), has = homes(next_, arc.last);
        for (size_t i = 0; i < nodes_.size(); i++) {
            const OneNode* const node = next_.members[i].one.get();
            if (!had.has(node) && !has.has(node)) continue;
            if (had != has) nodes_[i].changed = true;
            if (has.has(node))
                append(nodes_[i].has, arc);
            else
                nodes_[i].loses = true;
            if (had.has(node) && has.has(node)) append(nodes_[i].kept, arc);
            if (had == has) append(nodes_[i].unmoved, arc);
        }
    }

    const NodeSet& last_;
    const NodeSet& next_;
    std::vector<Node> nodes_;
};

KeptKeys kept_of(const PairChange::Node& node, const NodeSet& last, const NodeSet& next) {
    protocol::KeptKeys keys{{node.kept}, node.unmoved, last.since, epoch_now(last.epoch), next.since, false, node.identity};
    if (!node.has.none() && !node.loses) keys.lists.push_back(node.has);
    if (KeptKeys kept = describe(keys, next.epoch); kept != nullptr) return kept;
    keys.lists = {{.place = node.kept.place}};
    keys.unmoved = keys.lists[0];
    return describe(keys, next.epoch);
}

// nullptr: it is no key, or takes too long to tell.
KeptKeys first_of(protocol::KeptKeys keys, const NodeSet& set) {
    if (keys.lists[0].none()) return nullptr;
    keys.first = true;
    return describe(keys, set.epoch);
}

}  // namespace

// V2. Of a node that is not in the last list itself; those of the last list count as departed here.
template <class Member>
bool MovedKeys::keeps_nothing(const Member& member) const {
    if (member.found != nullptr && departed_names_.contains(member.one->name)) return true;
    return std::ranges::any_of(addresses_of(member), [this](const std::string& address) { return departed_.contains(address); });
}

std::vector<MovedKeys::Change> MovedKeys::change_with_copies(const NodeSet& last, const NodeSet& next) {
    std::vector<Change> changes(next.members.size());
    const PairChange pairs(last, next);
    const std::vector<KeptKeys> firsts = has_new_node(last, next) ? first(next) : std::vector<KeptKeys>();
    const bool skips = may_skip_lists(last, next);
    for (size_t i = 0; i < changes.size(); i++) {
        const PairChange::Node& node = pairs.at(i);
        const bool stays = std::ranges::find(last.members, next.members[i].one, &NodeSet::Member::one) != last.members.end();
        const bool returns = !stays && keeps_nothing(next.members[i]);
        const OwnedKeys none{.place = node.kept.place};
        if (stays && (node.changed || node.kept.none()))
            changes[i].kept = kept_of(node, last, next);
        else if (stays && skips)
            changes[i].kept = same_keys(kept_of(node, last, next));
        if (returns) changes[i].kept = kept_of({none, none, true, node.identity}, last, next);
        if (!stays && !returns && !firsts.empty()) changes[i].kept = firsts[i];
        changes[i].joins = changes[i].kept != nullptr || !stays;
    }
    return changes;
}

std::vector<std::shared_ptr<const Kept>> MovedKeys::first(const NodeSet& set) {
    std::vector<std::shared_ptr<const Kept>> kept;
    if constexpr (broken::build)
        if (broken::s17_skip_first_list) return kept;
    const bool reads_only = set.options.key != nullptr && set.options.key->role() == protocol::AuthRole::reader;
    if (set.epoch == nullptr || reads_only) return kept;
    if (!set.options.copies) {
        for (OwnedKeys& own : owned_of(set)) kept.push_back(first_of({{std::move(own)}}, set));
    } else if (!set.placement->points().empty()) {
        const PairChange pairs(set, set);
        for (size_t i = 0; i < set.members.size(); i++) {
            const PairChange::Node& node = pairs.at(i);
            const OwnedKeys none{.place = node.kept.place};
            kept.push_back(first_of({{node.kept}, none, set.since, 0, set.since, true, node.identity}, set));
        }
    }
    return kept;
}

std::vector<MovedKeys::Change> MovedKeys::change(const NodeSet& last, const NodeSet& next) {
    for (const NodeSet::Member& member : last.members) {
        for (const std::string& address : addresses_of(member)) departed_.insert(address);
        if (member.found != nullptr) departed_names_.insert(member.one->name);
    }
    std::vector<Change> changes = next.options.copies ? change_with_copies(last, next) : change_of_homes(last, next);
    for (const NodeSet::Member& member : next.members) {
        for (const std::string& address : addresses_of(member)) departed_.erase(address);
        departed_names_.erase(member.one->name);
    }
    return changes;
}

std::vector<MovedKeys::Change> MovedKeys::change_of_homes(const NodeSet& last, const NodeSet& next) {
    std::vector<Change> changes(next.members.size());
    const std::vector<protocol::OwnedKeys> had = owned_of(last), has = owned_of(next);
    const std::vector<KeptKeys> firsts = has_new_node(last, next) ? first(next) : std::vector<KeptKeys>();
    for (size_t i = 0; i < changes.size(); i++) {
        KeptKeys& kept = changes[i].kept;
        const protocol::OwnedKeys* const own = has.empty() ? nullptr : &has[i];
        const auto at = std::ranges::find(last.members, next.members[i].one, &NodeSet::Member::one);
        if (at != last.members.end()) {
            const protocol::OwnedKeys* const former = had.empty() ? nullptr : &had[size_t(at - last.members.begin())];
            const bool same = former == own || (former != nullptr && own != nullptr && *former == *own);
            if (!same)
                kept = kept_of(former, own, next.epoch);
            else if (may_skip_lists(last, next))
                kept = same_keys(kept_of(former, own, next.epoch));
        } else if (keeps_nothing(next.members[i])) {
            const protocol::OwnedKeys none{.place = own == nullptr ? KeyPlace() : own->place};
            kept = kept_of(&none, own, next.epoch);
        } else if (!firsts.empty()) {
            kept = firsts[i];
        }
        changes[i].joins = kept != nullptr || at == last.members.end();
    }
    return changes;
}

void MovedKeys::forget_changes(const NodeSet& last, NodeSet& next) {
    const proxy::PlacementOptions& had = last.placement->options();
    const proxy::PlacementOptions& has = next.placement->options();
    const bool same = had.distribution == has.distribution && had.hash == has.hash && had.hash_tag == has.hash_tag &&
                      last.options.copies == next.options.copies;
    if (!same) placed_since_ = std::max(epoch_now(last.epoch), epoch_now(next.epoch));
    std::erase_if(next.changes, [this](const ListChange& change) { return change.revision <= placed_since_; });
}

// Of a list of etcd's. Only the order of its changes says that no other node had a key in between (MovedItems, G3).
void note_changes(NodeSet& set, const conf::ProxySettings& settings) {
    const NodeOptions& with = set.options;
    const bool reads_only = with.key != nullptr && with.key->role() == protocol::AuthRole::reader;
    const bool warms_up = !with.copies && with.refill_ns != 0 && !reads_only;
    if (!warms_up || settings.former_lists == nullptr || set.placement->is_by_chance()) return;
    set.former_lists = settings.former_lists;
    for (const conf::FormerList& former : settings.former_lists->lists) {
        if (boottime_ns() - former.ended_ns >= with.refill_ns) return;
        ListChange change{former.ended, nullptr, {}};
        std::vector<proxy::PlacementNode> before;
        for (const conf::NodeSpec& spec : former.nodes) {
            if (spec.weight == 0) continue;
            before.push_back({spec.name, spec.hash_as, spec.weight});
            const std::string address = conf::address_of(spec);
            const auto at = std::ranges::find_if(set.members, [&](const NodeSet::Member& member) {
                return member.one->name == spec.name && member.one->address == address;
            });
            change.members.push_back(at == set.members.end() ? ListChange::gone : uint32_t(at - set.members.begin()));
        }
        auto made = before.empty() ? proxy::Placement::Result(proxy::Placement::Errors()) :
                                     proxy::Placement::make(before, set.placement->options());
        if (std::holds_alternative<proxy::Placement::Errors>(made)) return;
        change.before = std::get<std::shared_ptr<const proxy::Placement>>(std::move(made));
        set.changes.push_back(std::move(change));
    }
}

}  // namespace farcached::daemon
