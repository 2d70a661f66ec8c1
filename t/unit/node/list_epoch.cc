// SPDX-License-Identifier: BSD-3-Clause
// ListEpoch: which requests of older lists a node executes (S17), where items have copies. Histories of lists at random, told by
// several proxies that miss some, against the lists themselves.
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "node/service/list_epoch.h"
#include "t/lib/tap.h"

using namespace farcached;
using protocol::KeptKeys;
using protocol::OwnedKeys;

namespace {

OwnedKeys all_or_none(bool all) {
    OwnedKeys keys;
    if (all) keys.modulus = 1;
    return keys;
}

// Where items have copies: each list tells what it has not moved.
std::shared_ptr<const KeptKeys> told(uint64_t since, uint64_t last, bool keeps) {
    return std::make_shared<const KeptKeys>(KeptKeys{{all_or_none(true)}, all_or_none(keeps), since, last});
}

// Where they have none: the former list's keys and the new one's.
std::shared_ptr<const KeptKeys> without_copies(bool keeps) {
    return std::make_shared<const KeptKeys>(KeptKeys{{all_or_none(true), all_or_none(keeps)}});
}

// w: writes of a proxy whose list has this epoch are not executed. r: nor are its reads.
std::string seen(const node::ListEpoch& list, uint64_t named) {
    return std::string(list.moved_away(named, "k", false) ? "w" : "-") + (list.moved_away(named, "k", true) ? "r" : "-");
}

void one_history() {
    node::ListEpoch list;
    list.registered(10);
    list.kept(20, told(10, 15, true));
    tap::is(seen(list, 9) + seen(list, 10) + seen(list, 15) + seen(list, 20), "wr------",
            "a key that has not moved is served for the list of before");
    tap::is(seen(list, 17), "w-", "a list that the proxy may have skipped is not written by");
    list.kept(30, told(20, 25, false));
    tap::is(seen(list, 15) + seen(list, 25) + seen(list, 29) + seen(list, 30), "w-w-w---",
            "E6: a key with another second node is read by any of before, and not written");
    list.kept(20, told(10, 15, true));
    tap::is(list.newest(), uint64_t(30), "a late one does not make the list older");
    list.kept(50, told(40, 45, true));
    tap::is(seen(list, 35) + seen(list, 39) + seen(list, 40) + seen(list, 45), "wrwr----",
            "what changed before the list that the proxy knew is not known");
    list.kept(55, told(10, 52, true));
    list.kept(53, told(50, 51, false));
    tap::is(seen(list, 52) + seen(list, 51) + seen(list, 54), "w-w-w-", "a late one counts, too");
    for (uint64_t i = 0; i < 100; i++) list.kept(60, told(50, 58, true));
    tap::is(seen(list, 58) + seen(list, 59), "--w-", "the same one from many proxies is one");
    for (uint64_t i = 0; i < 100; i++) list.kept(70 + i, told(60 + i, 69 + i, true));
    tap::is(seen(list, 70) + seen(list, 168), "wr--", "the oldest of many are forgotten, and no request of before is executed");
    list.kept(180, std::make_shared<const KeptKeys>(KeptKeys{{all_or_none(false)}, all_or_none(false), 169, 175}));
    tap::is(seen(list, 168) + seen(list, 175) + seen(list, 180), "wrwr--", "nor is a key read that has moved away");
    list.kept(200, nullptr);
    tap::is(seen(list, 199) + seen(list, 200), "wr--", "nor one from before a list that cannot be told");
    list.registered(300);
    tap::is(seen(list, 299) + seen(list, 300) + seen(list, 0), "wr----",
            "nor from before a new registration, but any without an epoch");
    list.registered(5);
    list.registered(5);
    tap::is(list.newest(), uint64_t(5), "etcd without its data begins anew");
}

// Proxies with and without copies at one node: no fleet has both for long.
void mixed() {
    node::ListEpoch list;
    list.registered(10);
    list.kept(20, told(10, 15, false));
    list.kept(30, without_copies(true));
    tap::is(seen(list, 12) + seen(list, 25) + seen(list, 30), "w-----",
            "a list without copies replaces what those with copies told");
    list.kept(29, without_copies(false));
    tap::is(seen(list, 25) + seen(list, 29), "w---", "by a late one another node had the key: no change of before is executed");
    list.kept(40, told(20, 35, true));
    tap::is(seen(list, 25) + seen(list, 29) + seen(list, 30) + seen(list, 35), "wrwr----",
            "one with copies, after that: what changed before is not known");
    list.kept(50, without_copies(false));
    tap::is(seen(list, 35) + seen(list, 49) + seen(list, 50), "wrwr--", "without copies again");
    list.kept(45, told(40, 42, true));
    tap::is(list.newest(), uint64_t(50), "a late one with copies does not make the list older");
    tap::is(seen(list, 41) + seen(list, 49), "wrwr", "nor is anything served again");
}

// E4: since when a node has had the same keys.
void same_keys() {
    node::ListEpoch list;
    list.registered(10);
    tap::ok(list.has_had_keys_since(10) && !list.has_had_keys_since(9) && !list.has_had_keys_since(0),
            "a node has its first keys since it registered");
    list.kept(20, without_copies(true));
    tap::ok(list.has_had_keys_since(20) && !list.has_had_keys_since(19), "and others since the first list that gives it these");
    list.kept(15, without_copies(true));
    tap::ok(list.has_had_keys_since(15) && !list.has_had_keys_since(14), "another proxy knew that list at an earlier epoch");
    list.kept(9, without_copies(true));
    tap::ok(!list.has_had_keys_since(14), "one before it registered does not count");
    list.kept(30, without_copies(false));
    list.kept(40, without_copies(true));
    tap::ok(list.has_had_keys_since(40) && !list.has_had_keys_since(39), "keys went and came back");
    list.kept(25, without_copies(true));
    tap::ok(!list.has_had_keys_since(39), "a late proxy does not know that they were away");
    list.kept(45, without_copies(true));
    list.kept(42, without_copies(false));
    tap::ok(list.has_had_keys_since(45) && !list.has_had_keys_since(44), "a late proxy knows that they were away");
    list.kept(50, nullptr);
    tap::ok(!list.has_had_keys_since(49), "nor does one by a list that the node cannot read");
    list.kept(60, told(50, 55, false));
    tap::ok(list.has_had_keys_since(60) && !list.has_had_keys_since(59), "nor where items have copies");
    for (uint64_t epoch : {70, 80}) list.kept(epoch, without_copies(false));
    tap::ok(list.has_had_keys_since(80) && !list.has_had_keys_since(79), "\"none\" may stand for any keys");
}

// E5: first lists.
std::shared_ptr<const KeptKeys> first(bool keeps) {
    KeptKeys keys{{all_or_none(keeps)}};
    keys.first = true;
    return std::make_shared<const KeptKeys>(keys);
}

std::shared_ptr<const KeptKeys> with_copies(uint64_t identity, uint64_t since = 0, uint64_t last = 0, bool keeps = true) {
    KeptKeys keys{{all_or_none(true)}, all_or_none(keeps && since != 0), since, last};
    keys.first = since == 0;
    keys.identity = identity;
    return std::make_shared<const KeptKeys>(keys);
}

void first_lists() {
    node::ListEpoch list;
    list.registered(10);
    const auto begun = first(true);
    tap::ok(list.kept(20, begun), "a node that has registered knows no list, and deletes other items");
    tap::ok(list.kept(21, first(true)), "until it has, another proxy waits for it, too");
    tap::ok(list.kept(22, first(true)), "and a third one");
    list.deleted(begun);
    tap::ok(list.kept(23, first(true)), "the end of what an earlier one asked for does not count");
    const auto last = first(true);
    list.kept(24, last);
    list.deleted(last);
    tap::ok(!list.kept(25, first(true)) && !list.kept(3, first(true)), "then the same list is known");
    tap::is(seen(list, 24) + seen(list, 25), "----", "and requests are executed as before");
    tap::is(list.newest(), uint64_t(24), "proxies with the same list and an earlier epoch keep their right");
    const auto between = without_copies(false);
    tap::ok(list.kept(23, between) && list.newest() == 25, "another list from before is an old one");
    list.deleted(between);
    tap::ok(!list.kept(26, first(true)), "and does not replace the known one");
    const auto change = without_copies(false);
    tap::ok(list.kept(30, change) && list.kept(31, without_copies(false)), "a change is always followed");
    list.deleted(change);
    tap::ok(list.kept(40, first(false)), "\"none\" may stand for any keys");
    tap::ok(list.kept(50, first(true)), "another first list is a change");
    tap::is(seen(list, 49), "--", "the node executes requests of before for its own keys");
    list.kept(60, first(false));
    tap::is(seen(list, 59) + seen(list, 60), "wr--", "and no others");
    list.registered(70);
    tap::ok(list.kept(80, first(true)), "and so after another registration");
    tap::ok(!list.has_had_keys_since(79), "a node has had its keys since the first list that gives them,");
    list.kept(70, first(true));
    tap::ok(list.has_had_keys_since(70), "or since it registered, if a proxy had the list then");
    OwnedKeys others;
    others.modulus = 2;
    others.remainder = 1 - others.place.of("k") % 2;
    KeptKeys keys{{others}};
    keys.first = true;
    const auto without_k = std::make_shared<const KeptKeys>(keys);
    list.kept(90, without_k);
    list.deleted(without_k);
    const std::string before = seen(list, 93);
    list.kept(95, std::make_shared<const KeptKeys>(keys));
    tap::is(before + seen(list, 93) + seen(list, 95), "--wr--", "a known list shows that one in between may be another");
}

void first_lists_with_copies() {
    node::ListEpoch list;
    list.registered(10);
    const auto begun = with_copies(7);
    tap::ok(list.kept(20, begun), "with copies: a node knows no list");
    tap::is(seen(list, 15) + seen(list, 20), "w---", "no change of before is executed");
    list.deleted(begun);
    tap::ok(!list.kept(50, with_copies(7)), "the same one is known then");
    tap::is(seen(list, 20) + seen(list, 49), "----", "and has no effect on requests");
    list.kept(30, with_copies(8, 20, 25, true));
    tap::is(seen(list, 30) + seen(list, 49) + seen(list, 50), "w-w---", "a late list from before that one is not written by");
    tap::ok(!list.kept(55, with_copies(7)), "and does not replace it");
    const auto change = with_copies(9, 50, 58, true);
    tap::ok(list.kept(60, change), "a change");
    list.deleted(change);
    tap::ok(!list.kept(61, with_copies(9)) && list.kept(62, with_copies(7)), "is known, and the list of before is not any more");
    tap::is(seen(list, 61) + seen(list, 62), "w---", "it is a change");
    list.kept(70, with_copies(0, 62, 65, true));
    tap::ok(list.kept(75, with_copies(0)), "a proxy of before names no identity");
    list.kept(80, first(true));
    tap::ok(list.kept(85, with_copies(0)), "lists without copies are others");
}

// E2: a proxy may have skipped a list, and by the two that it knows the node has the same keys.
void same_lists() {
    const auto same = [] { return std::make_shared<const KeptKeys>(KeptKeys{{all_or_none(true), all_or_none(true)}}); };
    node::ListEpoch list;
    list.registered(10);
    list.kept(20, first(true));
    tap::ok(list.kept(21, same()), "a node that has not deleted items of other keys does so");
    const auto last = same();
    tap::ok(list.kept(22, last), "each proxy waits for it");
    list.deleted(last);
    tap::ok(!list.kept(30, same()), "then a list with the same keys deletes nothing");
    tap::is(list.newest(), uint64_t(30), "and is the newest one");
    tap::ok(!list.kept(25, same()), "nor does an earlier one");
    tap::ok(list.kept(40, without_copies(false)), "a list that one proxy has skipped is a change");
    tap::ok(list.kept(50, same()), "and so is the next one, also for that proxy");
    node::ListEpoch pairs;
    pairs.registered(10);
    const auto begun = with_copies(7);
    pairs.kept(20, begun);
    pairs.deleted(begun);
    tap::ok(pairs.kept(30, with_copies(7, 10, 15)), "with copies, one list does not show that it gains no keys");
    const auto two_lists = [](uint64_t identity, bool had, bool stay) {
        KeptKeys keys = *with_copies(identity, 10, 15, stay);
        keys.lists = {all_or_none(had), all_or_none(true)};
        return std::make_shared<const KeptKeys>(keys);
    };
    tap::ok(!pairs.kept(32, two_lists(7, true, true)), "the same keys with the same nodes, by two lists, delete nothing");
    tap::is(pairs.newest(), uint64_t(32), "and the list is the newest one");
    tap::ok(pairs.kept(33, two_lists(7, true, false)), "the same keys with other nodes do");
    tap::ok(pairs.kept(34, two_lists(7, false, false)), "and so do keys that it gains");
    tap::ok(pairs.kept(35, two_lists(8, true, true)), "a list that one proxy has skipped is a change, with copies, too");
}

// E7
void unsent() {
    node::ListEpoch list;
    list.registered(10);
    list.kept(20, without_copies(true));
    tap::is(seen(list, 15), "--", "keys that have stayed are served for earlier lists");
    tap::ok(!list.refuse_before(20) && !list.refuse_before(0), "the epoch of a received list refuses nothing");
    tap::ok(list.refuse_before(30) && list.newest() == 30 && list.known_to() == 30, "that of another list does");
    tap::is(seen(list, 29) + seen(list, 30) + seen(list, 0), "wr----", "no request of before is executed");
    tap::is(list.received(), uint64_t(20), "and does not count as received");
    tap::ok(!list.has_had_keys_since(29) && list.has_had_keys_since(30), "and the node may have had other keys then");
    tap::ok(list.kept(25, without_copies(true)) && list.newest() == 30, "a late list of before changes nothing");
    tap::is(seen(list, 29), "wr", "nor does it serve again");
    list.kept(35, without_copies(true));
    tap::is(seen(list, 29) + seen(list, 34), "w---", "a later one does, but for changes by lists of before");
    node::ListEpoch known;
    known.registered(10);
    const auto begun = first(true);
    known.kept(20, begun);
    known.deleted(begun);
    tap::ok(!known.kept(40, first(true)) && known.newest() == 20, "the same list, sent again at a later epoch,");
    tap::ok(known.known_to() == 40 && known.received() == 40 && !known.refuse_before(30), "is received up to that one");
    known.registered(50);
    tap::ok(known.received() == 0 && known.known_to() == 50, "a node that registers has received none");
    node::ListEpoch copies;
    copies.registered(10);
    copies.kept(20, with_copies(7));
    copies.refuse_before(30);
    tap::is(seen(copies, 29) + seen(copies, 30), "wr--", "with copies, too");
}

// ---- histories at random --------------------------------------------------------------------------------

const std::array<std::string, 3> keys = {"a", "b", "c"};

struct Lists {
    struct One {
        uint64_t first;                             // epoch
        std::array<unsigned, keys.size()> homes{};  // of each key, a pair of nodes
    };
    std::vector<One> all;

    explicit Lists(std::mt19937& random, size_t count) {
        uint64_t epoch = 1;
        for (size_t i = 0; i < count; i++) {
            One next = all.empty() ? One() : all.back();
            next.first = epoch;
            for (unsigned& home : next.homes)
                if (random() % 3 == 0) home = random() % 3;
            all.push_back(next);
            epoch += 1 + random() % 4;
        }
    }
    uint64_t last(size_t i) const { return i + 1 < all.size() ? all[i + 1].first - 1 : all[i].first + 3; }
    size_t at(uint64_t epoch) const {
        size_t i = 0;
        while (i + 1 < all.size() && all[i + 1].first <= epoch) i++;
        return i;
    }
    std::shared_ptr<const KeptKeys> unmoved(size_t from, size_t to, uint64_t since, uint64_t last_known) const {
        auto kept = std::make_shared<KeptKeys>();
        kept->lists = {all_or_none(true)};
        std::vector<uint32_t> spots;
        for (size_t k = 0; k < keys.size(); k++)
            if (all[from].homes[k] == all[to].homes[k]) spots.push_back(KeyPlace().of(keys[k]));
        std::ranges::sort(spots);
        kept->unmoved.emplace();
        for (uint32_t spot : spots) kept->unmoved->arcs.push_back({spot, spot});
        kept->since = since;
        kept->last = last_known;
        return kept;
    }
};

// Knows the list `at`, since and until these epochs.
struct Proxy {
    size_t at = 0;
    uint64_t since = 0, last = 0;
};

void told_by_several() {
    uint64_t wrong = 0, served = 0, refused = 0;
    for (unsigned seed = 1; seed <= 2000; seed++) {
        std::mt19937 random(seed);
        const Lists lists(random, 12);
        const auto between = [&](uint64_t low, uint64_t high) { return low + random() % (high - low + 1); };
        node::ListEpoch list;
        list.registered(1 + random() % 8);
        std::vector<Proxy> proxies(3);
        for (Proxy& proxy : proxies) proxy.since = proxy.last = between(lists.all[0].first, lists.last(0));
        for (int step = 0; step < 12; step++) {
            Proxy& proxy = proxies[random() % proxies.size()];
            const size_t next = proxy.at + 1 + random() % 2;
            if (next >= lists.all.size()) continue;
            if (random() % 5 == 0) {  // it starts anew, by a later list, and has nothing to tell
                const uint64_t begins = between(lists.all[next].first, lists.last(next));
                proxy = {next, begins, begins};
                continue;
            }
            proxy.last = between(proxy.last, lists.last(proxy.at));
            const uint64_t epoch = between(lists.all[next].first, lists.last(next));
            list.kept(epoch, lists.unmoved(proxy.at, next, proxy.since, proxy.last));
            proxy = {next, epoch, epoch};
            const Lists::One& now = lists.all[lists.at(list.newest())];
            for (uint64_t named = 1; named < list.newest(); named++)
                for (size_t k = 0; k < keys.size(); k++) {
                    const bool moved = list.moved_away(named, keys[k], /* reads= */ false);
                    wrong += !moved && lists.all[lists.at(named)].homes[k] != now.homes[k];
                    (moved ? refused : served)++;
                }
        }
    }
    tap::note("%llu served, %llu refused", static_cast<unsigned long long>(served), static_cast<unsigned long long>(refused));
    tap::is(wrong, 0u, "no mutation is executed by a list that has other nodes for the key than the newest one");
    tap::ok(served > refused / 20, "and others are");
}

void told_by_one() {
    uint64_t wrong = 0;
    for (unsigned seed = 1; seed <= 500; seed++) {
        std::mt19937 random(seed);
        const Lists lists(random, 40);
        node::ListEpoch list;
        list.registered(1);
        for (size_t next = 1; next < lists.all.size(); next++)
            list.kept(lists.all[next].first, lists.unmoved(next - 1, next, lists.all[next - 1].first, lists.last(next - 1)));
        for (uint64_t named = 1; named <= list.newest(); named++)
            for (size_t k = 0; k < keys.size(); k++) {
                bool moved = false;
                for (size_t i = lists.at(named); i + 1 < lists.all.size(); i++)
                    moved |= lists.all[i].homes[k] != lists.all[i + 1].homes[k];
                wrong += list.moved_away(named, keys[k], false) != moved;
            }
    }
    tap::is(wrong, 0u, "of a history without gaps exactly the keys whose nodes a later list has changed are refused");
}

// Proxies come and go. Each sends its first list and each change, some of them late. Some end before the node has deleted the other
// items. After that, proxies write and read by the homes of the newest list alone.
class Fleet {
  public:
    Fleet(unsigned seed, bool copies) : random_(seed), lists_(random_, 8), copies_(copies) {
        for (size_t i = 2; i < lists_.all.size(); i++)
            if (random_() % 3 == 0) lists_.all[i].homes = lists_.all[i - 2].homes;  // a node was gone for a moment
        list_.registered(1);
        for (int step = 0; step < 14; step++) {
            this->step(proxies_[random_() % proxies_.size()]);
            use();
        }
    }
    uint64_t wrong = 0, stale = 0, served = 0, refused = 0, known = 0;
    uint64_t spared = 0;  // changes that delete nothing

  private:
    struct User {
        size_t at;
        uint64_t since, last;
    };
    uint64_t between(uint64_t low, uint64_t high) { return low + random_() % (high - low + 1); }
    std::shared_ptr<const KeptKeys> keys_of(const User& proxy, size_t next, bool is_first) const {
        KeptKeys told = *lists_.unmoved(proxy.at, next, proxy.since, proxy.last);
        const auto& homes = lists_.all[next].homes;
        told.lists = {is_first ? own(next) : keys_at([&](size_t k) { return has(proxy.at, k) && has(next, k); })};
        if (!is_first) told.lists.push_back(own(next));
        told.unmoved = keys_at([&](size_t k) { return !is_first && has(next, k) && lists_.all[proxy.at].homes[k] == homes[k]; });
        told.identity = 1 + homes[0] + 3 * homes[1] + 9 * homes[2];
        if (!copies_) {
            told = {{own(next)}};
            if (!is_first) told.lists.insert(told.lists.begin(), own(proxy.at));
        }
        told.first = is_first;
        return std::make_shared<const KeptKeys>(told);
    }
    // Of node 0. With copies it is in two of the three pairs of nodes.
    bool has(size_t at, size_t k) const { return lists_.all[at].homes[k] < (copies_ ? 2 : 1); }
    OwnedKeys own(size_t at) const {
        return keys_at([&](size_t k) { return has(at, k); });
    }
    template <class Is>
    static OwnedKeys keys_at(Is&& is) {
        OwnedKeys some;
        std::vector<uint32_t> spots;
        for (size_t k = 0; k < keys.size(); k++)
            if (is(k)) spots.push_back(KeyPlace().of(keys[k]));
        std::ranges::sort(spots);
        for (uint32_t spot : spots) some.arcs.push_back({spot, spot});
        return some;
    }
    void step(std::optional<User>& proxy) {
        if (proxy.has_value() && random_() % 4 == 0) return proxy.reset();
        const bool starts = !proxy.has_value();
        const size_t next = starts ? random_() % lists_.all.size() : proxy->at + 1 + random_() % 2;
        if (next >= lists_.all.size()) return;
        const uint64_t epoch = between(lists_.all[next].first, lists_.last(next));
        if (starts)
            proxy = User{next, epoch, 0};
        else
            proxy->last = between(std::max(proxy->last, proxy->since), lists_.last(proxy->at));
        const auto told = keys_of(*proxy, next, starts);
        const bool deletes = list_.kept(epoch, told);
        known += !deletes && starts;
        spared += !deletes && !starts;
        newest_ = std::max(newest_, next);
        told_.emplace_back(epoch, next);
        if (deletes && random_() % 3 == 0) return proxy.reset();
        if (deletes) {
            for (size_t k = 0; k < keys.size(); k++)
                if (!told->keeps(keys[k])) items_[k] = 0;
            list_.deleted(told);
        }
        proxy = {next, epoch, epoch};
    }
    // By a node of the key: no list after the proxy's gave it to others.
    bool is_executed(const User& proxy, size_t k) const {
        return std::ranges::none_of(told_, [&](const auto& one) {
            return one.first > proxy.since && lists_.all[one.second].homes[k] != lists_.all[proxy.at].homes[k];
        });
    }
    // Each proxy reads each key, and writes some. The other nodes execute what this one would.
    void use() {
        const auto& now = lists_.all[newest_].homes;
        for (const auto& one : proxies_)
            for (size_t k = 0; k < keys.size() && one.has_value(); k++) {
                const unsigned home = lists_.all[one->at].homes[k];
                if (!has(one->at, k)) {
                    // A proxy with an older list may read the node's memory.
                    stale += one->at == newest_ && items_[k] != 0;
                    if (home == now[k] && random_() % 2 == 0 && is_executed(*one, k)) latest_[k]++;
                    continue;
                }
                const bool reads = !list_.moved_away(one->since, keys[k], /* reads= */ true);
                const bool moved = list_.moved_away(one->since, keys[k], /* reads= */ false);
                (moved ? refused : served)++;
                wrong += (!moved && home != now[k]) || (!moved && !reads) || (!moved && !is_executed(*one, k));
                stale += reads && items_[k] != 0 && items_[k] != latest_[k];
                if (!moved && random_() % 2 == 0) items_[k] = ++latest_[k];
            }
    }

    std::mt19937 random_;
    Lists lists_;
    const bool copies_;
    node::ListEpoch list_;
    std::vector<std::optional<User>> proxies_{3};
    size_t newest_ = 0;
    std::vector<std::pair<uint64_t, size_t>> told_;  // lists and their epochs
    std::array<uint64_t, keys.size()> items_{}, latest_{};  // values; 0: none
};

void with_first_lists(bool copies) {
    uint64_t wrong = 0, stale = 0, served = 0, refused = 0, known = 0, spared = 0;
    for (unsigned seed = 1; seed <= 10000; seed++) {
        const Fleet fleet(seed, copies);
        wrong += fleet.wrong, stale += fleet.stale, served += fleet.served, refused += fleet.refused, known += fleet.known;
        spared += fleet.spared;
    }
    tap::note("%llu served, %llu refused, %llu known, %llu without a deletion", static_cast<unsigned long long>(served),
              static_cast<unsigned long long>(refused), static_cast<unsigned long long>(known),
              static_cast<unsigned long long>(spared));
    tap::is(wrong, 0u, copies ? "first lists and changes at random, with copies" : "first lists and changes at random");
    tap::is(stale, 0u, "and no old value is read");
    tap::ok(known != 0 && spared != 0 && served > refused / 2, "some delete nothing, and requests are executed");
}

}  // namespace

int main() {
    if (!hashkit_error().empty()) {
        tap::skip(1, hashkit_error());
        return tap::done();
    }
    one_history();
    mixed();
    same_keys();
    told_by_several();
    told_by_one();
    first_lists();
    first_lists_with_copies();
    same_lists();
    unsent();
    with_first_lists(/* copies= */ false);
    with_first_lists(/* copies= */ true);
    return tap::done();
}
