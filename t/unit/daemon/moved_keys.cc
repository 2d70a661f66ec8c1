// SPDX-License-Identifier: BSD-3-Clause
// MovedKeys with copies: what nodes keep when the list changes, and which keys have the same two nodes, against the placements
// themselves. FormerPlaces against them, too.
#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/node_clock.h"
#include "daemon/remote/moved_keys.h"
#include "daemon/remote/nodes.h"
#include "protocol/owned_keys.h"
#include "t/lib/tap.h"

using namespace farcached;
using namespace farcached::daemon;

namespace {

using One = std::shared_ptr<OneNode>;

One one(const std::string& name) {
    auto node = std::make_shared<OneNode>();
    node->name = name;
    node->address = "tcp:" + name;
    return node;
}

NodeSet set_of(const std::vector<One>& nodes, uint64_t epoch, const proxy::PlacementOptions& options = {},
               const std::vector<uint32_t>& weights = {}) {
    NodeSet set;
    set.options.copies = true;
    std::vector<proxy::PlacementNode> places;
    for (size_t i = 0; i < nodes.size(); i++) {
        const uint32_t weight = i < weights.size() ? weights[i] : 1;
        set.members.push_back({nodes[i], weight});
        if (weight != 0) places.push_back({nodes[i]->name, "", weight});
    }
    auto made = proxy::Placement::make(places, options);
    set.placement = std::get<std::shared_ptr<const proxy::Placement>>(std::move(made));
    set.epoch = std::make_shared<std::atomic<uint64_t>>(epoch);
    set.since = epoch - 5;
    return set;
}

// {first node, second node}; the second is nullptr if there is only one.
std::pair<const OneNode*, const OneNode*> pair_of(const NodeSet& set, const std::string& key) {
    if (set.members.size() == 1) return {set.members[0].one.get(), nullptr};
    const proxy::NodePair pair = set.placement->pair_of(key);
    return {set.members[pair.first].one.get(), set.members[pair.second].one.get()};
}

// A list of these nodes before that revision, as the source of the list tells it.
conf::FormerList former_list(uint64_t ended, const std::vector<std::pair<std::string, uint32_t>>& nodes) {
    conf::FormerList list{ended, boottime_ns(), {}};
    for (const auto& [name, weight] : nodes) {
        conf::NodeSpec& spec = list.nodes.emplace_back();
        spec.name = name;
        spec.channel = conf::NodeChannel::tcp;
        spec.host = name;
        spec.port = 1;
        spec.weight = weight;
    }
    return list;
}

// Where keys were before the last changes of a list: d joined, b got more weight, e lost all of its keys, and x is gone.
void changes() {
    std::vector<One> nodes;
    for (const char* name : {"a", "b", "c", "d", "e"}) {
        nodes.push_back(one(name));
        nodes.back()->address = "tcp:" + std::string(name) + ":1";
    }
    conf::ProxySettings settings;
    settings.former_lists = std::make_shared<conf::FormerLists>(std::vector<conf::FormerList>{
        former_list(30, {{"a", 1}, {"b", 2}, {"c", 1}, {"e", 0}}), former_list(20, {{"a", 1}, {"b", 1}, {"c", 1}, {"e", 0}}),
        former_list(15, {{"a", 1}, {"b", 1}, {"c", 1}, {"e", 1}}), former_list(10, {{"a", 1}, {"b", 1}, {"e", 1}, {"x", 1}})});
    const auto found = [&](auto change) {
        NodeSet set = set_of(nodes, 40, {}, {1, 2, 1, 1, 0});
        set.options.copies = false;
        set.options.refill_ns = 3600'000'000'000;
        change(set);
        note_changes(set, settings);
        return set.changes;
    };
    const std::vector<ListChange> all = found([](NodeSet&) {});
    std::string revisions;
    for (const ListChange& one : all) revisions += std::to_string(one.revision) + " ";
    tap::is(revisions, "30 20 15 10 ", "all changes, the newest first");
    const std::vector<NodeSet> before = {set_of({nodes[0], nodes[1], nodes[2]}, 29, {}, {1, 2, 1}),
                                         set_of({nodes[0], nodes[1], nodes[2]}, 19),
                                         set_of({nodes[0], nodes[1], nodes[2], nodes[4]}, 14),
                                         set_of({nodes[0], nodes[1], nodes[4], one("x")}, 9)};
    int wrong = 0, gone = 0, at_e = 0;
    for (int i = 0; i < 2000; i++) {
        const std::string key = "k" + std::to_string(i);
        for (size_t at = 0; at < all.size(); at++) {
            const OneNode* const home = before[at].members[before[at].placement->node_of(key, 0)].one.get();
            const uint32_t told = all[at].home_of(key);
            gone += told == ListChange::gone;
            wrong += told == ListChange::gone ? home->name != "x" : nodes[told].get() != home;
            at_e += at == 2 && told == 4;
        }
    }
    tap::ok(wrong == 0 && gone > 0 && at_e > 0, "each key was where the list of before had it, also at nodes without keys");
    tap::ok(found([](NodeSet& set) { set.options.copies = true; }).empty(), "none count where items have copies,");
    tap::ok(found([](NodeSet& set) { set.options.refill_ns = 0; }).empty(), "without warm-up,");
    tap::ok(found([](NodeSet& set) { set.options.refill_ns = 1; }).empty(), "or after its time");
    settings.former_lists = std::make_shared<conf::FormerLists>(
        std::vector<conf::FormerList>{former_list(30, {{"a", 1}}), former_list(20, {{"a", 0}}), former_list(10, {{"b", 1}})});
    tap::is(found([](NodeSet&) {}).size(), size_t(1), "none before a list that nobody could use");
}

// A node without keys keeps nothing, and keys move to the others.
void without_keys() {
    const std::vector<One> nodes = {one("a"), one("b"), one("c")};
    for (const bool copies : {false, true}) {
        NodeSet last = set_of(nodes, 10), next = set_of(nodes, 11, {}, {1, 1, 0});
        last.options.copies = next.options.copies = copies;
        MovedKeys moved;
        const std::vector<MovedKeys::Change> found = moved.change(last, next);
        const auto kept = found[2].kept == nullptr ? std::nullopt : protocol::parse_kept(found[2].kept->text);
        tap::ok(kept.has_value() && kept->lists.back().none(), copies ? "with copies, too" : "a node without keys keeps no item");
        const NodeSet alone = set_of(nodes, 12, {}, {1, 0, 0});
        tap::ok(alone.placement->size() == 1 && moved.change(next, alone).size() == 3, "one node may have all keys");
    }
}

// Wrong answers over many keys.
uint64_t check(const NodeSet& last, const NodeSet& next, const std::vector<MovedKeys::Change>& changes) {
    uint64_t wrong = 0;
    for (size_t i = 0; i < changes.size(); i++) {
        const OneNode* const node = next.members[i].one.get();
        std::optional<protocol::KeptKeys> kept;
        if (changes[i].kept != nullptr) {
            kept = protocol::parse_kept(changes[i].kept->text);
            CHECK(kept.has_value() && kept->unmoved.has_value());
            if (kept->first) {
                kept.reset();  // check_first()
                continue;
            }
            wrong += kept->since != last.since || kept->last != epoch_now(last.epoch);
        }
        bool stays_any = false, loses = false;
        for (int n = 0; n < 2000; n++) {
            const std::string key = "key-" + std::to_string(n);
            const auto had = pair_of(last, key), has = pair_of(next, key);
            const bool was = had.first == node || had.second == node, is = has.first == node || has.second == node;
            if (!kept.has_value()) {
                const bool stays = std::ranges::any_of(last.members, [&](const auto& member) { return member.one.get() == node; });
                wrong += stays && (was || is) && had != has;  // it should have been told
                continue;
            }
            if (was || is) wrong += kept->keeps(key) != (was && is);
            if (was || is) wrong += kept->unmoved->owns(key) != (had == has);
            if (kept->lists.size() == 2) wrong += kept->lists[1].owns(key) != is;
            stays_any |= is && was;
            loses |= was && !is;
        }
        if (kept.has_value() && stays_any) wrong += kept->lists.size() != (loses ? 1 : 2);
    }
    return wrong;
}

// A farcached that starts sends the same as one that was there before.
uint64_t check_first(const NodeSet& last, const NodeSet& next) {
    MovedKeys moved;
    const std::vector<MovedKeys::Change> changes = moved.change(last, next);
    const auto had = MovedKeys::first(last), has = MovedKeys::first(next);
    CHECK(had.size() == last.members.size() && has.size() == next.members.size());
    uint64_t wrong = 0;
    for (size_t i = 0; i < has.size(); i++) {
        const auto first = protocol::parse_kept(has[i]->text);
        CHECK(first.has_value() && first->first);
        wrong += first->identity == 0 || !first->unmoved->none() || first->next != next.since;
        const auto was = std::ranges::find(last.members, next.members[i].one, &NodeSet::Member::one);
        std::optional<protocol::KeptKeys> before;
        if (was != last.members.end()) before = protocol::parse_kept(had[size_t(was - last.members.begin())]->text);
        if (changes[i].kept != nullptr) {
            const auto change = protocol::parse_kept(changes[i].kept->text);
            wrong += change->first == before.has_value() || change->identity != first->identity;
            const std::string older = changes[i].kept->text.substr(0, changes[i].kept->older_bytes);
            if (!change->first) wrong += !protocol::parse_kept(older).has_value() || protocol::parse_kept(older)->identity != 0;
        } else {
            wrong += !before.has_value() || before->identity != first->identity;  // one that joins receives it, too
        }
        bool moves = false;
        for (int n = 0; n < 2000; n++) {
            const std::string key = "key-" + std::to_string(n);
            const auto pair = pair_of(next, key), former = pair_of(last, key);
            const OneNode* const node = next.members[i].one.get();
            const bool is = pair.first == node || pair.second == node;
            wrong += first->keeps(key) != is;
            moves |= (is || former.first == node || former.second == node) && pair != former;
        }
        if (moves && before.has_value()) wrong += before->identity == first->identity;
    }
    return wrong;
}

void against_the_ring() {
    const One a = one("a"), b = one("b"), c = one("c"), d = one("d"), e = one("e");
    const struct {
        const char* what;
        std::vector<One> last, next;
    } cases[] = {{"a node joins", {a, b, c}, {a, b, c, d}}, {"a node leaves", {a, b, c}, {a, c}},
                 {"another one comes", {a, b, c}, {a, b, d}}, {"one becomes two", {a}, {a, b}},
                 {"two become one", {a, b}, {b}},           {"none stays", {a, b}, {c, d, e}},
                 {"nothing changes", {a, b, c}, {c, b, a}}};
    for (const Distribution distribution : {Distribution::ketama, Distribution::ketama_weighted})
        for (const auto& one_case : cases) {
            MovedKeys moved;
            const NodeSet last = set_of(one_case.last, 20, {distribution, {}, ""});
            const NodeSet next = set_of(one_case.next, 30, {distribution, {}, ""});
            tap::is(check(last, next, moved.change(last, next)), 0u, one_case.what);
            tap::is(check_first(last, next), 0u, "  and a farcached that starts sends the same");
        }
    for (const Distribution distribution : {Distribution::ketama, Distribution::ketama_weighted}) {
        MovedKeys moved;
        const NodeSet last = set_of({a, b, c, d}, 20, {distribution, {}, ""}, {1, 1, 1, 1});
        const NodeSet next = set_of({a, b, c, d}, 30, {distribution, {}, ""}, {1, 1, 3, 1});
        tap::is(check(last, next, moved.change(last, next)), 0u, "a weight changes");
        tap::is(check(next, last, moved.change(next, last)), 0u, "and is as before");
    }
}

void first_lists() {
    const NodeSet plain = [] {
        NodeSet set = set_of({one("a"), one("b"), one("c")}, 20, {}, {1, 1, 0});
        set.options.copies = false;
        return set;
    }();
    const auto told = MovedKeys::first(plain);
    uint64_t wrong = 0;
    for (int n = 0; n < 2000 && told.size() == 3; n++) {
        const std::string key = "key-" + std::to_string(n);
        for (size_t i = 0; i < 2; i++) {
            const auto keys = protocol::parse_kept(told[i]->text);
            wrong += keys->keeps(key) != (i == plain.placement->node_of(key, 0)) || keys->unmoved.has_value() || !keys->first;
        }
    }
    tap::ok(told.size() == 3 && wrong == 0 && told[2] == nullptr, "the first list tells each node its own keys, if it has some");
    NodeSet other = plain;
    other.epoch = nullptr;
    tap::ok(MovedKeys::first(other).empty(), "but not a list without epochs");
    const NodeSet by_chance = set_of({one("a"), one("b")}, 20, {Distribution::random, {}, ""});
    tap::ok(MovedKeys::first(by_chance).empty(), "nor where any node may have a key");
    const auto kept_at = [](const MovedKeys::Change& change) { return change.kept != nullptr; };
    const One a = one("a"), b = one("b"), c = one("c");
    const auto plain_set = [&](const std::vector<One>& members, uint64_t epoch, Distribution how,
                               const std::vector<uint32_t>& by = {}) {
        NodeSet set = set_of(members, epoch, {how, {}, ""}, by);
        set.options.copies = false;
        return set;
    };
    MovedKeys moved;
    const auto chance = moved.change(plain_set({a, b}, 20, Distribution::random), plain_set({a, b, c}, 30, Distribution::random));
    tap::ok(std::ranges::none_of(chance, kept_at), "there a change tells nothing either, which would be a flush");
    const NodeSet drained = plain_set({a, b, c}, 40, Distribution::ketama, {1, 1, 0});
    const auto same = moved.change(drained, plain_set({a, b, c}, 50, Distribution::ketama, {1, 1, 0}));
    tap::ok(kept_at(same[0]) && kept_at(same[1]) && !kept_at(same[2]),
            "nodes receive the same keys again; one without keys receives nothing");
    std::vector<One> many;
    std::vector<uint32_t> weights;
    for (int i = 0; i < 40; i++) many.push_back(one("n" + std::to_string(i))), weights.push_back(i == 0 ? 200 : 1);
    NodeSet unequal = set_of(many, 20, {Distribution::ketama_weighted, {}, ""}, weights);
    unequal.options.copies = false;
    const auto some = MovedKeys::first(unequal);
    const auto fits = [](const auto& kept) { return kept == nullptr || kept->text.size() <= protocol::kept_bytes_max; };
    tap::ok(some.size() == many.size() && some[0] == nullptr && some[1] != nullptr && std::ranges::all_of(some, fits),
            "keys that take too long to describe are not told");
    many.clear(), weights.clear();
    for (int i = 0; i < 100; i++) many.push_back(one("n" + std::to_string(i))), weights.push_back(i == 0 ? 50 : 1);
    for (const bool copies : {false, true}) {
        NodeSet before = set_of(many, 20, {Distribution::ketama_weighted, {}, ""}, weights);
        NodeSet after = set_of(many, 30, {Distribution::ketama_weighted, {}, ""}, weights);
        before.options.copies = after.options.copies = copies;
        const auto repeated = moved.change(before, after);
        tap::ok(repeated[0].kept == nullptr && kept_at(repeated[1]) && !repeated[1].kept->nothing,
                std::string("the same keys are not sent if they are too long, ") + (copies ? "with copies" : "without copies"));
    }
}

// Lists that follow each other, at random. An address that an earlier list had keeps nothing when it comes back.
void at_random() {
    std::mt19937 random(21);
    std::vector<One> all;
    for (int i = 0; i < 8; i++) all.push_back(one("node-" + std::to_string(i)));
    MovedKeys moved;
    NodeSet last;
    std::set<const OneNode*> were;
    uint64_t wrong = 0, returned = 0;
    for (uint64_t epoch = 10; epoch < 300; epoch += 10) {
        std::vector<One> members;
        for (const One& node : all)
            if (random() % 3 != 0) members.push_back(node);
        if (members.empty()) continue;
        NodeSet next = set_of(members, epoch);
        if (last.placement != nullptr) {
            std::vector<MovedKeys::Change> changes = moved.change(last, next);
            for (size_t i = 0; i < changes.size(); i++) {
                const OneNode* const node = members[i].get();
                const bool stays = std::ranges::any_of(last.members, [=](const auto& member) { return member.one.get() == node; });
                wrong += changes[i].joins != (!stays || changes[i].kept != nullptr);
                if (stays) continue;
                returned += were.contains(node);
                if (changes[i].kept == nullptr) wrong++;
                else wrong += were.contains(node) ? !changes[i].kept->nothing : !changes[i].kept->first;
                changes[i].kept = nullptr;
            }
            const bool same = std::ranges::equal(last.members, next.members, {}, &NodeSet::Member::one, &NodeSet::Member::one);
            if (!same) wrong += check(last, next, changes);
        }
        for (const One& node : members) were.insert(node.get());
        last = next;
    }
    tap::ok(wrong == 0 && returned != 0, "lists at random");
}

void special() {
    const One a = one("a"), b = one("b"), c = one("c");
    MovedKeys moved;
    const NodeSet all = set_of({a, b, c}, 20), fewer = set_of({a, b}, 30), again = set_of({a, b, c}, 40);
    moved.change(all, fewer);
    const auto returns = moved.change(fewer, again);
    const auto kept = protocol::parse_kept(returns[2].kept->text);
    tap::ok(kept.has_value() && kept->lists[0].none() && kept->unmoved->none() && returns[2].joins,
            "a node that returns keeps nothing");
    const NodeSet tagged = set_of({a, b, c}, 50, {{}, {}, "{}"});
    const auto other = moved.change(again, tagged);
    tap::ok(std::ranges::all_of(other, [](const auto& one) { return one.kept != nullptr && one.kept->nothing; }),
            "keys that are placed in another way: nothing is kept");
    const NodeSet hashed = set_of({a, b, c}, 55, {{}, KeyHash::murmur3, ""});
    const auto differently = moved.change(again, hashed);
    tap::ok(std::ranges::all_of(differently, [](const auto& one) { return one.kept != nullptr && one.kept->nothing; }),
            "nor under another hash");
    const NodeSet same = set_of({a, b, c}, 60);
    MovedKeys fresh;
    const auto flapped = fresh.change(again, same);
    tap::ok(std::ranges::all_of(flapped, [](const auto& one) { return one.kept != nullptr; }),
            "the same nodes under another epoch are told of it: one was gone in between");
    const auto identity = [](const std::shared_ptr<const Kept>& one) { return protocol::parse_kept(one->text)->identity; };
    const auto first = [&](const NodeSet& set, size_t i) { return identity(MovedKeys::first(set)[i]); };
    tap::ok(identity(flapped[0].kept) == first(again, 0) && identity(flapped[2].kept) == first(again, 2),
            "a farcached that starts sends the same");
    tap::is(identity(returns[2].kept), first(again, 2), "also to a node that returns");
    tap::ok(first(tagged, 0) != first(again, 0) && first(hashed, 0) != first(again, 0) &&
                identity(other[0].kept) == first(tagged, 0),
            "keys that are placed in another way have another identity");
    NodeSet reloaded = again;
    const auto none = fresh.change(again, reloaded);
    tap::ok(std::ranges::none_of(none, [](const auto& one) { return one.kept != nullptr; }), "after a reload there is nothing");
}

// Nodes at other addresses, as DNS finds them (V2, V4).
void other_addresses() {
    using Found = std::vector<std::pair<One, std::vector<std::string>>>;
    const auto nothing = [](const MovedKeys::Change& change) {
        return change.joins && change.kept != nullptr && protocol::parse_kept(change.kept->text)->lists[0].none();
    };
    const auto all = [](const MovedKeys::Change& change) { return change.joins && change.kept == nullptr; };
    const auto untouched = [](const MovedKeys::Change& change) { return !change.joins && change.kept == nullptr; };
    for (const bool copies : {false, true}) {
        const std::string which = copies ? ", with copies" : "";
        const auto list = [&](const Found& nodes) {
            std::vector<One> ones;
            for (const auto& node : nodes) ones.push_back(node.first);
            NodeSet set = set_of(ones, 20);
            set.options.copies = copies;
            set.epoch = nullptr;
            for (size_t i = 0; i < nodes.size(); i++)
                if (!nodes[i].second.empty())
                    set.members[i].found = std::make_shared<const FoundAddresses>(FoundAddresses{nodes[i].second, "", nullptr});
            return set;
        };
        const One a = one("a"), b = one("b"), c = one("c"), d = one("d"), e = one("e"), f = one("f");
        const std::vector<std::string> at_b = {"tcp:2"};
        const NodeSet first = list({{a, {"tcp:1"}}, {b, at_b}});
        MovedKeys moved;
        const NodeSet moves = list({{a, {"tcp:3", "tcp:4"}}, {b, at_b}});
        const auto changed = moved.change(first, moves);
        tap::ok(untouched(changed[0]) && untouched(changed[1]), "a node at another address is the same" + which);
        const NodeSet second = list({{b, at_b}, {d, {"tcp:9", "tcp:1"}}, {e, {"tcp:3"}}, {f, {"tcp:6"}}});
        const auto other = moved.change(moves, second);
        tap::ok(nothing(other[1]) && nothing(other[2]),
                "one at an address of a former list keeps nothing, nor one at an address of the last list" + which);
        tap::ok(all(other[3]), "a new one keeps all" + which);
        const One returned = one("a");
        const auto again = moved.change(second, list({{returned, {"tcp:7"}}, {b, at_b}, {c, {"tcp:8"}}}));
        tap::ok(nothing(again[0]), "a node that returns at another address keeps nothing" + which);
        tap::ok(all(again[2]), "another new one keeps all" + which);
        MovedKeys configured;
        const One here = one("a"), there = one("a");
        there->address = "tcp:there";
        const auto reloaded = configured.change(list({{here, {}}, {b, at_b}}), list({{there, {}}, {b, at_b}}));
        tap::ok(all(reloaded[0]), "a node with a configured address keeps all" + which);
    }
}

// ---- FormerPlaces -------------------------------------------------------------------------------------

// Lists of some of the nodes, always with the first one, and with weights at times.
std::vector<NodeSet> lists_of(const std::vector<One>& nodes, bool copies, size_t count, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<NodeSet> lists;
    while (lists.size() < count) {
        std::vector<One> listed;
        std::vector<uint32_t> weights;
        for (const One& node : nodes) {
            if (&node != &nodes[0] && random() % 4 == 0) continue;
            listed.push_back(node);
            weights.push_back(lists.size() % 3 == 0 ? uint32_t(1 + random() % 3) : 1);
        }
        lists.push_back(set_of(listed, /* epoch= */ 10 + lists.size(), {}, weights));
        lists.back().options.copies = copies;
    }
    return lists;
}

std::pair<const OneNode*, const OneNode*> homes_of(const NodeSet& set, const std::string& key) {
    auto homes = pair_of(set, key);
    if (!set.options.copies) homes.second = nullptr;
    return homes;
}

bool had(const std::vector<NodeSet>& lists, const std::string& key, const One& node) {
    return std::ranges::any_of(lists, [&](const NodeSet& set) {
        const auto homes = homes_of(set, key);
        return homes.first == node.get() || homes.second == node.get();
    });
}

void joined_lists() {
    const std::vector<One> nodes = {one("a"), one("b"), one("c"), one("d"), one("e")};
    const NodeSet all = set_of(nodes, 10);
    for (const bool copies : {false, true}) {
        int wrong = 0, same = 0, moved = 0;
        for (uint32_t seed = 0; seed < 50; seed++) {
            const std::vector<NodeSet> lists = lists_of(nodes, copies, 1 + seed % 5, seed);
            FormerPlaces joined(lists[0]);
            for (size_t i = 1; i < lists.size(); i++) joined = FormerPlaces::join(joined, FormerPlaces(lists[i]), all);
            for (int n = 0; n < 200; n++) {
                const std::string key = "k" + std::to_string(n);
                const FormerPlaces::Was was = joined.of(key);
                const auto homes = homes_of(lists[0], key);
                const auto all_have = [&](auto member) {
                    const auto is_there = [&](const NodeSet& set) { return homes_of(set, key).*member == homes.*member; };
                    return std::ranges::all_of(lists, is_there);
                };
                using Homes = std::pair<const OneNode*, const OneNode*>;
                const bool stays = all_have(&Homes::first), copy_stays = all_have(&Homes::second);
                (stays && copy_stays ? same : moved)++;
                wrong += was.first != (stays ? homes.first : nullptr);
                wrong += was.second != (copy_stays ? homes.second : nullptr);
                for (const One& node : nodes) {
                    const auto is_first = [&](const NodeSet& set) { return homes_of(set, key).first == node.get(); };
                    wrong += was.had(*node) != had(lists, key, node);
                    wrong += was.had_item(*node) != std::ranges::any_of(lists, is_first);
                }
            }
        }
        tap::ok(wrong == 0 && same > 1000 && moved > 1000,
                std::string("joined lists name the nodes that had a key, and no others") + (copies ? ", with copies" : ""));
    }
}

// As long as one node does not reply.
void many_former_lists() {
    const std::vector<One> nodes = {one("a"), one("b"), one("c"), one("d"), one("e"), one("f"), one("g")};
    std::vector<NodeSet> lists = lists_of(nodes, /* copies= */ false, 40, /* seed= */ 7);
    std::vector<FormerPlaces> former;
    for (NodeSet& set : lists) {
        set.former = former;
        former = former_places(set, set, /* moves= */ true);
    }
    int wrong = 0, others = 0;
    for (int n = 0; n < 1000; n++) {
        const std::string key = "k" + std::to_string(n);
        for (const One& node : nodes) {
            const auto has = [&](const FormerPlaces& places) { return places.of(key).had(*node); };
            const bool told = std::ranges::any_of(former, has);
            wrong += told ? !had(lists, key, node) : node == nodes[0] && had(lists, key, node);
            others += !told;
        }
    }
    tap::is(former.size(), size_t(8), "the oldest of forty lists are joined");
    tap::ok(wrong == 0 && others > 0, "and a key's former nodes are those that had it and were listed ever since");
    NodeSet last = lists.back();
    last.former = former;
    tap::is(former_places(last, last, /* moves= */ false).size(), size_t(1),
            "when the nodes have replied the last list alone counts");
    NodeSet again = lists[lists.size() - 2];
    again.former = former;
    tap::is(former_places(again, again, /* moves= */ true).size(), size_t(8),
            "two lists whose keys have the same nodes count once");
}

// There any node may have had any key.
void without_arcs() {
    const std::vector<One> nodes = {one("a"), one("b"), one("c")}, more = {one("a"), one("d")};
    const NodeSet plain = set_of({nodes[0], nodes[1]}, 10), all = set_of({nodes[0], nodes[1], nodes[2], more[1]}, 10);
    const auto all_had = [&](const FormerPlaces& places) {
        const FormerPlaces::Was was = places.of("k");
        return was.first == nullptr && was.second == nullptr && was.had(*nodes[0]) && was.had(*nodes[1]) && was.had(*nodes[2]) &&
               !was.had(*more[1]);
    };
    const NodeSet others[] = {set_of(nodes, 11, {Distribution::random, KeyHash::automatic, ""}),
                              set_of(nodes, 11, {Distribution::modula, KeyHash::automatic, ""}),
                              set_of(nodes, 11, {Distribution::ketama, KeyHash::fnv1a_64, ""})};
    for (const NodeSet& other : others) {
        const FormerPlaces joined = FormerPlaces::join(FormerPlaces(plain), FormerPlaces(other), all);
        tap::ok(all_had(joined) && all_had(FormerPlaces::join(joined, FormerPlaces(plain), all)),
                "lists of different kinds: any node may have had any key");
    }
    const FormerPlaces first = FormerPlaces::unknown(set_of(nodes, 10));
    tap::ok(first.is_unknown() && all_had(first), "so before the first list");
    NodeSet set = plain;
    set.former = {first};
    tap::is(former_places(set, set, /* moves= */ true).size(), size_t(2), "which the next one adds again");
    tap::is(former_places(set, set, /* moves= */ false).size(), size_t(1), "until the nodes have replied");
    NodeSet next = plain, later = plain;
    next.lists_before = plain.lists_before + 1;
    later.lists_before = plain.lists_before + 2;
    tap::is(former_places(plain, next, /* moves= */ false).size(), size_t(1), "the next list of etcd has no gap before it");
    tap::is(former_places(plain, later, /* moves= */ false).size(), size_t(2), "before a later one there may have been others");
}

}  // namespace

int main() {
    joined_lists();
    many_former_lists();
    without_arcs();
    changes();
    without_keys();
    against_the_ring();
    first_lists();
    at_random();
    special();
    other_addresses();
    return tap::done();
}
