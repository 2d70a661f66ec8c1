// SPDX-License-Identifier: BSD-3-Clause
// The remote-pointer table in one process at a time: its shape, lookups, replacement, drops and counters. Refusals are
// in t/unit/proxy/pointer_table_open.cc; writers and readers at once in t/unit/proxy/pointer_table_safety.cc.
#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "t/unit/proxy/pointer_table_fixture.h"

using namespace table_test;

namespace {

void shape() {
    tap::is(proxy::table_version, 3u, "the layout is version 3 ...");
    tap::is(proxy::table_layout_hash(), UINT64_C(0x4694c2359251a9ce), "... and is what it was when that was settled");
    Name name;
    auto table = open(name);
    Raw raw(name);
    tap::is(raw.size(), 4096u + 64 * 64 + proxy::boards_bytes(64), "a page for the header, 64 bytes for each entry, boards");
    tap::ok(std::memcmp(raw.byte(0), "farptr01", 8) == 0, "it begins with its magic");
    tap::is(raw.header().entries, 64u, "the header holds the number of entries");
    tap::is(raw.header().check, proxy::header_check(raw.header()), "and is checked");

    const uint64_t key = UINT64_C(0x4000000000000005);  // set 5, at home in its entry 1
    fabric::LeasedPtr leased{{0xaaaa, 0xbbbbbbbbb0, 0xdddd, 0xc, 0xeeeee}, now + 7};
    tap::is(table->put(key, leased, now), Put::stored, "a pointer is stored");
    const uint64_t* entry = raw.entry(5 * 4 + 1);
    tap::is(entry[0], key, "word 0: key hash");
    tap::is(entry[1], 0xaaaau, "word 1: incarnation");
    tap::is(entry[2], UINT64_C(0x000c00bbbbbbbbb0), "word 2: region:16, offset:48");
    tap::is(entry[3], UINT64_C(0x00000001000eeeee), "word 3: 0:16, filler:16, length:32");
    tap::is(entry[4], 0xddddu, "word 4: generation");
    tap::is(entry[5], now + 7, "word 5: valid until");
    EntryCopy copy;
    std::memcpy(copy.data(), entry, sizeof copy);
    tap::is(entry[6], proxy::entry_check(copy, raw.header().seed), "word 6: check of the six before");
    tap::is(entry[7], 0u, "word 7: accesses");
    tap::ok(table->find(key, 0xaaaa, now).leased == leased, "what was packed is unpacked the same");
}

void put_and_find() {
    Name name;
    auto table = open(name);
    const uint64_t key = 77;
    const fabric::LeasedPtr leased = derived(key, 5);
    tap::is(table->find(key, one_node, now).found, Found::miss, "an empty table: a miss");
    table->put(key, leased, now);
    PointerTable::Lookup hit = table->find(key, one_node, now);
    tap::is(hit.found, Found::hit, "what was put is found");
    tap::ok(hit.leased == leased, "whole");
    tap::ok(!hit.shared, "filled by this process");
    tap::is(table->find(key + 1, one_node, now).found, Found::miss, "another key: a miss");
    tap::is(table->find(key + 16, one_node, now).found, Found::miss, "another key of the set: a miss");
    tap::is(table->find(key, one_node + 1, now).found, Found::miss, "another incarnation: a miss");
    tap::is(table->find(key, one_node, leased.valid_until_ns - 1).found, Found::hit,
            "found until the lease's last nanosecond");
    tap::is(table->find(key, one_node, leased.valid_until_ns).found, Found::expired, "and then expired");

    auto second_process = open(name);
    tap::ok(second_process->filler() != table->filler(), "an attached process gets a separate number");
    PointerTable::Lookup shared = second_process->find(key, one_node, now);
    tap::ok(shared.found == Found::hit && shared.shared, "another finds it, as filled by another");
    second_process->put(key, derived(key, 6), now);
    tap::ok(!second_process->find(key, one_node, now).shared, "until it fills the entry itself");
    tap::ok(table->find(key, one_node, now).shared, "and then it is the first one's to be shared with");
}

void the_newest_wins() {
    Name name;
    auto table = open(name);
    const uint64_t key = 3;
    auto with = [&](uint64_t generation, uint64_t left) {
        fabric::LeasedPtr leased = derived(key, generation);
        leased.valid_until_ns = now + left;
        return leased;
    };
    auto generation = [&] { return table->find(key, one_node, now).leased.ptr.generation; };
    auto left = [&] { return table->find(key, one_node, now).leased.valid_until_ns - now; };
    table->put(key, with(10, 100), now);
    tap::is(table->put(key, with(9, 200), now), Put::kept, "an older generation does not replace a newer");
    tap::is(generation(), 10u, "which is still found");
    tap::is(table->put(key, with(10, 90), now), Put::kept, "a lease is not shortened");
    tap::is(table->put(key, with(10, 110), now), Put::stored, "but lengthened");
    tap::is(left(), 110u, "as it is found");
    tap::is(table->put(key, with(11, 50), now), Put::stored, "a newer generation replaces an older");
    tap::is(generation(), 11u, "whatever its lease");
    table->put(key, with(8, 500), now + 50);
    tap::is(generation(), 8u, "an expired one is worth nothing");
    fabric::LeasedPtr restarted = with(2, 40);
    restarted.ptr.incarnation = one_node + 1;
    table->put(key, restarted, now);
    tap::is(table->find(key, one_node + 1, now).leased.ptr.generation, 2u,
            "generations of two incarnations are not compared");
    tap::is(generation(), 8u, "and both are held");
}

void extending() {
    Name name;
    auto table = open(name);
    const uint64_t key = 3;
    fabric::LeasedPtr leased = derived(key, 10);
    leased.valid_until_ns = now + 100;
    table->put(key, leased, now);
    table->count_access(table->find(key, one_node, now).entry, 5);
    const PointerTable::Place place{one_node, leased.ptr.offset, leased.ptr.region};
    auto left = [&](uint64_t at) {
        const PointerTable::Lookup found = table->find(key, one_node, at);
        return found.found == Found::hit ? found.leased.valid_until_ns - now : 0;
    };
    tap::ok(table->extend(key, place, now + 150, now), "a lease is made longer");
    tap::is(left(now), 150u, "as it is found");
    tap::ok(!table->extend(key, place, now + 120, now), "not shorter");
    tap::is(table->valid_until_ns(key, place), now + 150, "which can be asked for");
    PointerTable::Place others[3] = {place, place, place};
    others[0].incarnation++;
    others[1].offset += 64;
    others[2].region++;
    for (const PointerTable::Place& other : others)
        tap::ok(!table->extend(key, other, now + 500, now) && table->valid_until_ns(key, other) == 0,
                "nor that of another slot");
    tap::ok(!table->extend(key + 1, place, now + 500, now), "or another key");
    tap::is(left(now), 150u, "it is as it was");
    leased.ptr.generation = 12;
    leased.valid_until_ns = now + 150;
    table->put(key, leased, now);
    tap::ok(table->extend(key, place, now + 160, now), "a later generation in the same slot has its lease, too");
    tap::is(left(now + 200), 0u, "then it is over");
    tap::ok(!table->extend(key, place, now + 180, now + 200), "too late a lease is none");
    tap::ok(table->extend(key, place, now + 500, now + 200), "a new one");
    tap::is(left(now + 200), 500u, "makes the pointer good again");
    uint64_t accesses = 0;
    table->walk(0, table->entries(), [&](const PointerTable::Record& record) { accesses += record.accesses; });
    tap::is(accesses, 5u, "accesses stay counted");
    fabric::LeasedPtr later = table->find(key, one_node, now + 200).leased;
    later.ptr.generation += 64;
    table->put(key, later, now + 200);
    tap::ok(table->extend(key, place, now + 600, now + 200), "so it is for any generation in the slot");
    tap::ok(left(now + 200) == 600 && table->find(key, one_node, now + 200).leased.ptr.generation == later.ptr.generation,
            "which it does not change");
    table->drop(key, later.ptr);
    tap::ok(!table->extend(key, place, now + 900, now + 200), "what was dropped stays so");
}

// Facts of one slot from several replies are merged, in any order of arrival.
void merging() {
    const uint64_t key = 3;
    fabric::LeasedPtr parts[3];
    for (uint64_t i = 0; i < 3; i++) {
        parts[i] = derived(key, 10);
        parts[i].ptr.generation = i == 0 ? 300 : 200 + i;
        parts[i].ptr.length = i == 1 ? 3000 : 2000 + uint32_t(i);
        parts[i].valid_until_ns = now + (i == 2 ? 70 : 50 + i);
    }
    uint32_t order[3] = {0, 1, 2};
    bool all = true;
    do {
        Name name;
        auto table = open(name);
        for (const uint32_t i : order) table->put(key, parts[i], now);
        const fabric::LeasedPtr held = table->find(key, one_node, now).leased;
        all &= held.ptr.generation == 300 && held.ptr.length == 3000 && held.valid_until_ns == now + 70;
        all &= fabric::same_place(held.ptr, parts[0].ptr);
        for (const fabric::LeasedPtr& part : parts) all &= table->put(key, part, now) == Put::kept;
    } while (std::next_permutation(order, order + 3));
    tap::ok(all, "of one slot the latest generation, the greatest length and the latest end are kept");

    Name name;
    auto table = open(name);
    table->put(key, parts[1], now);
    fabric::LeasedPtr elsewhere = parts[1];
    elsewhere.ptr.offset += 4096;
    elsewhere.ptr.length = 64;
    elsewhere.ptr.generation--;
    tap::is(table->put(key, elsewhere, now), Put::kept, "a pointer to another slot is none if it is older");
    elsewhere.ptr.generation += 2;
    tap::is(table->put(key, elsewhere, now), Put::stored, "a later one takes the entry");
    tap::ok(table->find(key, one_node, now).leased == elsewhere, "as it is");
    fabric::LeasedPtr again = elsewhere;
    again.ptr.generation--;
    again.ptr.length = 48;
    again.valid_until_ns = now + 500;
    table->put(key, again, now + 400);
    tap::ok(table->find(key, one_node, now + 400).leased == again, "facts under an ended lease no longer count");
}

// Fills a set, and checks which key a fifth one replaces.
void replacing() {
    struct Case {
        const char* name;
        uint64_t victim;
        void (*before)(PointerTable&, Raw&, uint64_t key);
    };
    static const Case cases[] = {
        {"a full set loses the one whose lease ends first", 2, [](PointerTable&, Raw&, uint64_t) {}},
        {"rather one that expired", 1,
         [](PointerTable&, Raw& raw, uint64_t key) {
             for (uint64_t n = 0; n < 64; n++) {
                 if (raw.entry(n)[0] != key) continue;
                 EntryCopy copy;
                 std::memcpy(copy.data(), raw.entry(n), sizeof copy);
                 copy[proxy::word_valid_until] = now;
                 copy[proxy::word_check] = proxy::entry_check(copy, raw.header().seed);
                 std::memcpy(raw.entry(n), copy.data(), sizeof copy);
             }
         }},
        {"or that was dropped", 0, [](PointerTable& t, Raw&, uint64_t key) { t.drop(key, t.find(key, one_node, now).leased.ptr); }},
        {"or is torn", 3,
         [](PointerTable&, Raw& raw, uint64_t key) {
             for (uint64_t n = 0; n < 64; n++)
                 if (raw.entry(n)[0] == key) raw.entry(n)[4]++;
         }},
    };
    for (const Case& c : cases) {
        Name name;
        auto table = open(name);
        Raw raw(name);
        for (uint64_t n = 0; n < 4; n++) {
            fabric::LeasedPtr leased = derived(key_of_set(9, n), 1);
            leased.valid_until_ns = now + (n == 2 ? 10 : 20 + n) * second;
            table->put(key_of_set(9, n), leased, now);
        }
        c.before(*table, raw, key_of_set(9, c.victim));
        table->put(key_of_set(9, 4), derived(key_of_set(9, 4), 1), now);
        bool as_expected = table->find(key_of_set(9, 4), one_node, now).found == Found::hit;
        for (uint64_t n = 0; n < 4; n++)
            as_expected &= (table->find(key_of_set(9, n), one_node, now).found == Found::hit) == (n != c.victim);
        tap::ok(as_expected, c.name);
    }
}

void dropping() {
    Name name;
    auto table = open(name);
    const uint64_t key = 21;
    table->put(key, derived(key, 7), now);
    fabric::RemotePtr others[4] = {derived(key, 7).ptr, derived(key, 7).ptr, derived(key, 7).ptr, derived(key, 7).ptr};
    others[0].generation--;
    others[1].incarnation++;
    others[2].offset += 16;
    others[3].region ^= 1;
    tap::ok(!table->drop(key, others[0]), "an older generation is not there to be dropped");
    tap::ok(!table->drop(key, others[1]), "nor another incarnation's");
    tap::ok(!table->drop(key, others[2]) && !table->drop(key, others[3]), "nor a pointer to another slot");
    tap::is(table->find(key, one_node, now).found, Found::hit, "what is there stays");
    tap::ok(table->drop(key, derived(key, 7).ptr), "the one that failed is dropped");
    tap::is(table->find(key, one_node, now).found, Found::miss, "and gone");
    tap::ok(!table->drop(key, derived(key, 7).ptr), "once");
    tap::is(table->put(key, derived(key, 6), now), Put::stored, "after which any may come");
    tap::ok(!table->forget(key, one_node + 1), "another incarnation's pointer is not forgotten with it");
    tap::ok(table->forget(key, one_node), "a pointer is forgotten at any generation");
    tap::is(table->find(key, one_node, now).found, Found::miss, "and gone");
}

void malformed() {
    Name name;
    auto table = open(name);
    const fabric::RemotePtr good = derived(1, 1).ptr;
    std::vector<std::pair<const char*, fabric::RemotePtr>> wrong(6, {"", good});
    wrong[0].first = "a region beyond 16 bits", wrong[0].second.region = 0x10000;
    wrong[1].first = "an offset beyond 48 bits", wrong[1].second.offset = UINT64_C(1) << 48;
    wrong[2].first = "an offset between strides", wrong[2].second.offset = 8;
    wrong[3].first = "no length", wrong[3].second.length = 0;
    wrong[4].first = "the length of a header without a key", wrong[4].second.length = 40;
    wrong[5].first = "a generation beyond 62 bits", wrong[5].second.generation = UINT64_C(1) << 62;
    for (const auto& [what, ptr] : wrong)
        tap::is(table->put(1, {ptr, now + 1}, now), Put::refused, std::string("refused: ") + what);
    tap::is(table->put(1, {good, now}, now), Put::refused, "refused: an ended lease");
    tap::is(table->find(1, good.incarnation, now).found, Found::miss, "nothing was stored");

    fabric::RemotePtr ptr = good;
    ptr.offset = 1600, ptr.length = 400;
    tap::ok(fabric::inside(ptr, 2000), "a pointer that ends with its region is inside");
    tap::ok(!fabric::inside(ptr, 1999), "one byte less and it is not");
    tap::ok(!fabric::inside(ptr, 399), "nor in one shorter than itself");
    ptr.offset = UINT64_MAX - 15;
    tap::ok(!fabric::inside(ptr, 2000), "nor does its end wrap around");
}

void accesses() {
    Name name;
    auto table = open(name);
    std::map<uint64_t, uint64_t> counted;
    auto note = [&](const PointerTable::Record& record) { counted[record.key_hash] = record.accesses; };
    for (uint64_t key : {1, 2, 3}) table->put(key, derived(key, key), now);
    table->count_access(table->find(1, one_node, now).entry, 1);
    table->count_access(table->find(1, one_node, now).entry, 4);
    table->count_access(table->find(3, one_node, now).entry, 2);
    table->walk(0, table->entries(), note);
    tap::ok(counted == std::map<uint64_t, uint64_t>{{1, 5}, {2, 0}, {3, 2}}, "a walk returns every count");
    table->put(1, derived(1, 9), now);
    table->walk(0, table->entries(), note);
    tap::is(counted[1], 5u, "a new generation of the key keeps it");

    table->count_access(table->find(2, one_node, now).entry, 6);
    table->drop(2, derived(2, 2).ptr);
    table->put(2 + 16, derived(2 + 16, 1), now);
    counted.clear();
    table->walk(0, table->entries(), note);
    tap::is(counted[2 + 16], 0u, "another key in the entry starts from none");

    uint64_t in_pieces = 0;
    for (uint64_t first = 0; first < 64; first += 16)
        table->walk(first, 16, [&](const PointerTable::Record& r) { in_pieces += is_derived(r.key_hash, r.leased); });
    tap::is(in_pieces, 3u, "a walk in pieces meets every pointer once, whole");
}

void occupancy() {
    Name name;
    auto table = open(name);
    auto other = open(name);
    auto put = [&](PointerTable& by, uint64_t key, uint64_t left_ns) {
        fabric::LeasedPtr leased = derived(key, 1);
        leased.valid_until_ns = now + left_ns;
        by.put(key, leased, now);
    };
    put(*table, 1, second - 1);
    put(*table, 2, second);
    put(*other, 3, 255 * second);
    put(*other, 4, 256 * second);
    put(*other, 5, 10 * second);
    put(*table, 6, 1);
    table->count_access(table->find(3, one_node, now).entry, 12);
    Raw raw(name);
    raw.entry(table->find(5, one_node, now).entry)[2] ^= 1;
    PointerTable::Occupancy sum;
    table->add_occupancy(0, 32, now + 1, sum);
    table->add_occupancy(32, 32, now + 1, sum);
    tap::is(sum.entries, 64u, "occupancy: entries");
    tap::is(sum.live, 4u, "live");
    tap::is(sum.expired, 1u, "expired");
    tap::is(sum.torn, 1u, "torn");
    tap::is(sum.free, 58u, "free");
    tap::is(sum.own, 2u, "own");
    tap::is(sum.accesses, 12u, "accesses");
    tap::ok(sum.lease_left == std::array<uint64_t, 6>{2, 0, 0, 0, 2, 0}, "leases left");
    sum = {};
    table->add_occupancy(0, 64, now, sum);
    tap::ok(sum.lease_left == std::array<uint64_t, 6>{2, 1, 0, 0, 1, 1}, "at each bound the next class begins");
}

// S10: any wrong bit makes a lookup a miss.
void damage() {
    Name name;
    auto table = open(name);
    Raw raw(name);
    const uint64_t key = 33;
    table->put(key, derived(key, 4), now);
    const uint64_t entry = table->find(key, one_node, now).entry;
    int believed = 0, disbelieved_accesses = 0;
    for (size_t byte = 0; byte < 64; byte++) {
        for (unsigned char wrong = 1; wrong != 0; wrong++) {  // every other value
            raw.byte(4096 + entry * 64 + byte)[0] ^= wrong;
            const bool hit = table->find(key, one_node, now).found == Found::hit;
            if (byte < 56) believed += hit;
            if (byte >= 56) disbelieved_accesses += !hit;
            raw.byte(4096 + entry * 64 + byte)[0] ^= wrong;
        }
    }
    tap::is(believed, 0, "an entry with any byte changed is a miss");
    tap::is(disbelieved_accesses, 0, "but for its access count");
    tap::is(table->find(key, one_node, now).found, Found::hit, "put right, it is a hit again");
    EntryCopy zeros{};
    std::memcpy(raw.entry(entry), zeros.data(), sizeof zeros);
    tap::is(table->find(0, 0, 0).found, Found::miss, "a key of zeros is not found in zeros");
}

}  // namespace

int main() {
    shape();
    put_and_find();
    the_newest_wins();
    extending();
    merging();
    replacing();
    dropping();
    malformed();
    accesses();
    occupancy();
    damage();
    return tap::done();
}
