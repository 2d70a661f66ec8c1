// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/placement.h"

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace farcached::proxy {

namespace {

constexpr uint32_t points_plain = 100;     // per node, in libmemcached's unweighted ring
constexpr uint32_t points_weighted = 160;  // per node on average, in its weighted ring
constexpr uint32_t points_per_digest = 4;  // words of an md5
constexpr uint32_t port_unsaid = 11211;    // omitted from the hashed name

bool parse_port(std::string_view text, uint32_t& port) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    return error == std::errc() && end == text.data() + text.size();
}

// The hashed name of a node, without the number of the point. "[::1]:11300" becomes "::1:11300".
std::string hashed_name(const PlacementNode& node) {
    if (node.hash_as.empty()) return node.name;
    std::string_view host = node.hash_as;
    size_t colon = host.rfind(':');
    uint32_t port = port_unsaid;
    if (colon != std::string_view::npos && parse_port(host.substr(colon + 1), port)) {
        host = host.substr(0, colon);
    }
    if (host.size() > 2 && host.front() == '[' && host.back() == ']')
        host = host.substr(1, host.size() - 2);
    std::string name(host);
    return port == port_unsaid ? name : name + ":" + std::to_string(port);
}

// As many points as libmemcached gives the node; its arithmetic uses floats.
uint32_t points_of(uint32_t weight, uint64_t total_weight, size_t nodes) {
    float share = float(weight) / float(total_weight);
    float digests = share * float(points_weighted) / float(points_per_digest) * float(nodes);
    return uint32_t(std::floor(digests + 0.0000000001F)) * points_per_digest;
}

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

}  // namespace

// make()'s state: the list, its errors, and the growing ring.
struct Placement::Draft {
    std::span<const PlacementNode> nodes;
    const PlacementOptions& options;
    Errors errors;
    KeyHash hash = KeyHash::one_at_a_time;
    std::vector<Point> ring;

    void check_options();
    void check_nodes();
    void check_weight(const PlacementNode& node);
    bool ketama() const {
        return options.distribution == Distribution::ketama ||
               options.distribution == Distribution::ketama_weighted;
    }
    bool weighted() const;
    void build_plain();
    void build_weighted();
};

void Placement::Draft::check_options() {
    hash = resolved(options.hash, options.distribution);
    if (const std::string& why = hashkit_error(); !why.empty()) {
        errors.push_back(why + "; keys are distributed by libhashkit: install libhashkit2 (Fedora: "
                               "libmemcached-awesome) and restart");
    } else if (!has_hash(hash)) {
        errors.push_back("hash function " + quoted(name_of(options.hash)) +
                         " is not included in this system's libhashkit");
    }
    if (!options.hash_tag.empty() && options.hash_tag.size() != 2) {
        errors.push_back("hash tag " + quoted(options.hash_tag) +
                         " is not two characters, such as {}: an opening one and a closing one");
    }
}

void Placement::Draft::check_weight(const PlacementNode& node) {
    if (node.weight >= 1 && node.weight <= limits::node_weight_max) return;
    errors.push_back("node " + quoted(node.name) + " has weight " + std::to_string(node.weight) +
                     "; allowed: 1 to " + std::to_string(limits::node_weight_max));
}

void Placement::Draft::check_nodes() {
    if (nodes.empty()) errors.push_back("no nodes: at least one is needed");
    if (nodes.size() > limits::nodes_max) {
        errors.push_back(std::to_string(nodes.size()) + " nodes; allowed: up to " +
                         std::to_string(limits::nodes_max));
    }
    std::map<std::string, size_t> names, hashed;
    for (size_t i = 0; i < nodes.size(); i++) {
        const PlacementNode& node = nodes[i];
        check_weight(node);
        if (node.name.empty())
            errors.push_back("node " + std::to_string(i + 1) + " of the list has no name");
        if (!names.emplace(node.name, i).second) {
            errors.push_back("two nodes are named " + quoted(node.name));
            continue;
        }
        auto [same, fresh] = hashed.emplace(hashed_name(node), i);
        if (fresh || !ketama()) continue;
        errors.push_back("nodes " + quoted(nodes[same->second].name) + " and " + quoted(node.name) +
                         " are both hashed as " + quoted(same->first) +
                         ": one would never get a key");
    }
}

bool Placement::Draft::weighted() const {
    if (options.distribution == Distribution::ketama_weighted) return true;
    return std::any_of(nodes.begin(), nodes.end(),
                       [](const PlacementNode& n) { return n.weight > 1; });
}

void Placement::Draft::build_plain() {
    for (uint32_t node = 0; node < nodes.size(); node++) {
        std::string prefix = hashed_name(nodes[node]) + "-";
        for (uint32_t i = 0; i < points_plain; i++) {
            ring.push_back({hash_of(hash, prefix + std::to_string(i)), node});
        }
    }
}

void Placement::Draft::build_weighted() {
    uint64_t total = 0;
    for (const PlacementNode& node : nodes) total += node.weight;
    for (uint32_t node = 0; node < nodes.size(); node++) {
        uint32_t points = points_of(nodes[node].weight, total, nodes.size());
        if (points == 0) {
            errors.push_back("node " + quoted(nodes[node].name) +
                             " would never get a key: its weight " +
                             std::to_string(nodes[node].weight) + " is too small a part of " +
                             std::to_string(total) + ", all nodes' together");
        }
        std::string prefix = hashed_name(nodes[node]) + "-";
        for (uint32_t i = 0; i < points / points_per_digest; i++) {
            std::string text = prefix + std::to_string(i);
            std::array<unsigned char, 16> md5;
            md5_of(text, md5.data());
            for (uint32_t word = 0; word < points_per_digest; word++) {
                const unsigned char* at = &md5[word * 4];  // lowest byte first
                uint32_t value =
                    uint32_t(at[3]) << 24 | uint32_t(at[2]) << 16 | uint32_t(at[1]) << 8 | at[0];
                ring.push_back({value, node});
            }
        }
    }
}

Placement::Result Placement::make(std::span<const PlacementNode> nodes,
                                  const PlacementOptions& options) {
    Draft draft{nodes, options, {}, {}, {}};
    draft.check_options();
    draft.check_nodes();
    if (!draft.errors.empty()) return std::move(draft.errors);
    if (draft.ketama()) {
        draft.weighted() ? draft.build_weighted() : draft.build_plain();
        if (!draft.errors.empty()) return std::move(draft.errors);
    }
    std::shared_ptr<Placement> made(new Placement);
    made->options_ = options;
    made->nodes_ = uint32_t(nodes.size());
    made->by_chance_ = options.distribution == Distribution::random;
    made->place_.hash = draft.hash;
    if (!options.hash_tag.empty()) {
        made->place_.tag_open = options.hash_tag[0];
        made->place_.tag_close = options.hash_tag[1];
    }
    made->ring_ = std::move(draft.ring);
    if (made->has_ring()) made->index_ring();
    return std::shared_ptr<const Placement>(std::move(made));
}

uint32_t Placement::spot_of(std::string_view key, uint32_t chance) const {
    if (nodes_ == 1) return 0;
    if (by_chance_) return chance;
    return place_.of(key);
}

std::optional<uint32_t> Placement::point_of(uint32_t spot) const {
    if (!has_ring() || nodes_ == 1) return std::nullopt;
    return ring_[first_point(spot)].value;
}

// The first point at the spot or after it; the ring wraps. The top bits of the spot give the two starts to search
// between. On a good ring one or two points lie there; the binary search serves poor hashes.
size_t Placement::first_point(uint32_t spot) const {
    size_t part = size_t(spot >> part_shift_);
    auto begin = ring_.begin() + starts_[part], end = ring_.begin() + starts_[part + 1];
    auto found = std::lower_bound(
        begin, end, spot, [](const Point& point, uint32_t value) { return point.value < value; });
    return found == ring_.end() ? 0 : size_t(found - ring_.begin());
}

// Sorts the points; starts_[p] is the first at p << part_shift_ or after it.
void Placement::index_ring() {
    std::sort(ring_.begin(), ring_.end());
    uint32_t parts = std::bit_ceil(uint32_t(ring_.size()) + 1);
    part_shift_ = 32 - std::countr_zero(parts);
    size_t point = 0;
    for (uint32_t part = 0; part < parts; part++) {
        while (point < ring_.size() && ring_[point].value >> part_shift_ < part) point++;
        starts_.push_back(uint32_t(point));
    }
    starts_.push_back(uint32_t(ring_.size()));
}

uint32_t Placement::node_at(uint32_t spot) const {
    return has_ring() ? ring_[first_point(spot)].node : spot % nodes_;
}

uint32_t Placement::walk(uint32_t spot, uint32_t i) const {
    CHECK(i < nodes_);
    if (!has_ring()) return (spot % nodes_ + i) % nodes_;
    std::bitset<limits::nodes_max> met;
    size_t at = first_point(spot);
    for (size_t steps = 0; steps < ring_.size(); steps++) {
        uint32_t node = ring_[at].node;
        if (!met[node]) {
            if (i == 0) return node;
            i--;
            met.set(node);
        }
        at = at + 1 == ring_.size() ? 0 : at + 1;
    }
    panic("a node without a point on the ring", __FILE__, __LINE__);
}

std::vector<uint32_t> Placement::points() const {
    std::vector<uint32_t> values;
    values.reserve(ring_.size());
    for (const Point& point : ring_)
        if (values.empty() || values.back() != point.value) values.push_back(point.value);
    return values;
}

std::vector<protocol::OwnedKeys> Placement::owned() const {
    std::vector<protocol::OwnedKeys> owned(nodes_);
    if (nodes_ == 1) {  // in every way
        owned[0].modulus = 1;
        return owned;
    }
    if (by_chance_) return {};
    for (uint32_t node = 0; node < nodes_; node++) {
        owned[node].place = place_;
        if (has_ring()) continue;
        owned[node].modulus = nodes_;
        owned[node].remainder = node;
    }
    uint64_t first = 0;
    for (const Point& point : ring_) {
        if (point.value >= first) owned[point.node].arcs.push_back({uint32_t(first), point.value});
        first = uint64_t(point.value) + 1;
    }
    if (has_ring() && first <= UINT32_MAX) owned[ring_.front().node].arcs.push_back({uint32_t(first), UINT32_MAX});
    return owned;
}

}  // namespace farcached::proxy
