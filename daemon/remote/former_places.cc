// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/former_places.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "daemon/remote/node_set.h"

namespace farcached::daemon {

namespace {

constexpr size_t places_max = 8;  // each costs a request of a moved key a hash

}  // namespace

bool FormerPlaces::Was::had_item(const OneNode& node) const {
    if (arc != nullptr) return std::ranges::binary_search(arc->items, &node);
    if (!places->is_anywhere()) return first == &node;
    return std::ranges::any_of(places->nodes_, [&](const auto& one) { return one.get() == &node; });
}

bool FormerPlaces::Was::had_copy(const OneNode& node) const {
    return arc != nullptr ? std::ranges::binary_search(arc->copies, &node) : second == &node;
}

FormerPlaces::FormerPlaces(const NodeSet& set) : copies_(set.options.copies) {
    if (!set.placement->is_by_chance()) placement_ = set.placement;
    for (const NodeSet::Member& member : set.members) nodes_.push_back(member.one);
}

FormerPlaces FormerPlaces::unknown(const NodeSet& first) {
    FormerPlaces places(first);
    places.placement_ = nullptr;
    places.unknown_ = true;
    return places;
}

FormerPlaces::Was FormerPlaces::at(uint32_t spot) const {
    if (arcs_ != nullptr) {
        const Arc& arc = *std::ranges::lower_bound(*arcs_, spot, {}, &Arc::last);
        return {arc.first, arc.second, this, &arc};
    }
    if (placement_->size() == 1) return {nodes_[0].get(), nullptr, this};
    if (!copies_) return {nodes_[placement_->node_at(spot)].get(), nullptr, this};
    const proxy::NodePair pair = placement_->pair_at(spot);
    return {nodes_[pair.first].get(), nodes_[pair.second].get(), this};
}

FormerPlaces::Was FormerPlaces::of(std::string_view key) const {
    if (is_anywhere()) return {.places = this};
    return at(placement_ != nullptr ? placement_->spot_of(key, /* chance= */ 0) : place_.of(key));
}

bool FormerPlaces::is_same(const FormerPlaces& other) const {
    if (nodes_ != other.nodes_ || copies_ != other.copies_) return false;
    if (placement_ == nullptr || other.placement_ == nullptr) return false;
    const std::vector<uint32_t> points = placement_->points();
    return !points.empty() && points == other.placement_->points() && placement_->place() == other.placement_->place();
}

bool FormerPlaces::has_arcs() const {
    return arcs_ != nullptr || (placement_ != nullptr && (placement_->size() == 1 || !placement_->points().empty()));
}

void FormerPlaces::add_points(std::vector<uint32_t>& points) const {
    if (arcs_ != nullptr)
        for (const Arc& arc : *arcs_) points.push_back(arc.last);
    if (placement_ == nullptr || placement_->size() == 1) return;
    const std::vector<uint32_t> own = placement_->points();
    points.insert(points.end(), own.begin(), own.end());
}

FormerPlaces FormerPlaces::join(const FormerPlaces& one, const FormerPlaces& other, const NodeSet& last) {
    FormerPlaces joined;
    std::set<const OneNode*> listed;
    for (const NodeSet::Member& member : last.members) {
        const auto is_in = [&](const auto& nodes) { return std::ranges::find(nodes, member.one) != nodes.end(); };
        if (!is_in(one.nodes_) && !is_in(other.nodes_)) continue;
        joined.nodes_.push_back(member.one);
        listed.insert(member.one.get());
    }
    const auto place_of = [](const FormerPlaces& of) { return of.arcs_ == nullptr ? of.placement_->place() : of.place_; };
    if (!one.has_arcs() || !other.has_arcs() || place_of(one) != place_of(other)) return joined;
    std::vector<uint32_t> points;
    one.add_points(points);
    other.add_points(points);
    const auto is_listed = [&](const OneNode* node) { return node != nullptr && listed.contains(node); };
    const auto all = [&](const OneNode* node, const Some* nodes, std::set<const OneNode*>& to) {
        if (nodes != nullptr)
            std::ranges::copy_if(*nodes, std::inserter(to, to.end()), is_listed);
        else if (is_listed(node))
            to.insert(node);
    };
    std::vector<Arc> arcs;
    proxy::each_arc(std::move(points), [&](uint32_t, uint32_t end) {
        const Was had = one.at(end), has = other.at(end);
        const auto if_same = [&](const OneNode* a, const OneNode* b) { return a == b && is_listed(a) ? a : nullptr; };
        std::set<const OneNode*> items, copies;
        for (const Was& was : {had, has}) {
            all(was.first, was.arc == nullptr ? nullptr : &was.arc->items, items);
            all(was.second, was.arc == nullptr ? nullptr : &was.arc->copies, copies);
        }
        Arc arc{end, if_same(had.first, has.first), if_same(had.second, has.second), {items.begin(), items.end()},
                {copies.begin(), copies.end()}};
        if (!arcs.empty() && arcs.back().is_like(arc))
            arcs.back().last = end;
        else
            arcs.push_back(std::move(arc));
    });
    if (arcs.size() > arcs_max) return joined;
    joined.place_ = place_of(one);
    joined.arcs_ = std::make_shared<const std::vector<Arc>>(std::move(arcs));
    return joined;
}

std::vector<FormerPlaces> former_places(const NodeSet& last, const NodeSet& next, bool moves) {
    std::vector<FormerPlaces> former;
    if (moves) former = last.former;
    const bool waits_for_unknown = std::erase_if(former, [](const FormerPlaces& places) { return places.is_unknown(); }) != 0;
    const bool is_gap = next.lists_before > last.lists_before + 1;
    FormerPlaces places(last);
    std::erase_if(former, [&](const FormerPlaces& other) { return other.is_same(places); });  // as in a fleet whose nodes restart
    former.push_back(std::move(places));
    if (former.size() > places_max) {
        former[1] = FormerPlaces::join(former[0], former[1], last);
        former.erase(former.begin());
    }
    if (is_gap || waits_for_unknown) former.push_back(FormerPlaces::unknown(next));
    return former;
}

}  // namespace farcached::daemon
