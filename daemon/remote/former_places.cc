// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/former_places.h"

#include <algorithm>
#include <utility>

#include "daemon/remote/nodes.h"

namespace farcached::daemon {

namespace {

constexpr size_t places_max = 8;  // each costs a request of a moved key a hash

}  // namespace

bool FormerPlaces::Was::had(const OneNode& node) const {
    if (arc != nullptr) return std::ranges::find(arc->had, &node) != arc->had.end();
    if (!places->is_anywhere()) return first == &node || second == &node;
    return std::ranges::any_of(places->nodes_, [&](const auto& one) { return one.get() == &node; });
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
    if (!arcs_.empty()) {
        const Arc& arc = *std::ranges::lower_bound(arcs_, spot, {}, &Arc::last);
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
    const std::vector<uint32_t> points = placement_->points();  // of the names of nodes with keys
    return !points.empty() && points == other.placement_->points() && placement_->place() == other.placement_->place();
}

bool FormerPlaces::has_arcs() const {
    return !arcs_.empty() || (placement_ != nullptr && (placement_->size() == 1 || !placement_->points().empty()));
}

void FormerPlaces::add_points(std::vector<uint32_t>& points) const {
    for (const Arc& arc : arcs_) points.push_back(arc.last);
    if (placement_ == nullptr || placement_->size() == 1) return;
    const std::vector<uint32_t> own = placement_->points();
    points.insert(points.end(), own.begin(), own.end());
}

FormerPlaces FormerPlaces::join(const FormerPlaces& one, const FormerPlaces& other) {
    FormerPlaces joined;
    joined.nodes_ = one.nodes_;
    for (const auto& node : other.nodes_)
        if (std::ranges::find(joined.nodes_, node) == joined.nodes_.end()) joined.nodes_.push_back(node);
    const auto place_of = [](const FormerPlaces& places) { return places.arcs_.empty() ? places.placement_->place() : places.place_; };
    if (!one.has_arcs() || !other.has_arcs() || place_of(one) != place_of(other)) return joined;
    joined.place_ = place_of(one);
    std::vector<uint32_t> points;
    one.add_points(points);
    other.add_points(points);
    proxy::each_arc(std::move(points), [&](uint32_t, uint32_t last) {
        const Was had = one.at(last), has = other.at(last);
        const bool same = had.first == has.first && had.second == has.second;
        Arc arc{last, same ? had.first : nullptr, same ? had.second : nullptr, {}};
        for (const auto& node : joined.nodes_)
            if (had.had(*node) || has.had(*node)) arc.had.push_back(node.get());
        if (!joined.arcs_.empty() && joined.arcs_.back().holds_as(arc))
            joined.arcs_.back().last = last;
        else
            joined.arcs_.push_back(std::move(arc));
    });
    if (joined.arcs_.size() > arcs_max) joined.arcs_.clear();
    return joined;
}

std::vector<FormerPlaces> former_places(const NodeSet& last, bool moves) {
    std::vector<FormerPlaces> former;
    if (moves) former = last.former;
    std::erase_if(former, [](const FormerPlaces& places) { return places.is_unknown(); });
    FormerPlaces places(last);
    std::erase_if(former, [&](const FormerPlaces& other) { return other.is_same(places); });  // as in a fleet whose nodes restart
    former.push_back(std::move(places));
    if (former.size() <= places_max) return former;
    former[1] = FormerPlaces::join(former[0], former[1]);
    former.erase(former.begin());
    return former;
}

}  // namespace farcached::daemon
