// SPDX-License-Identifier: BSD-3-Clause
// GETs by one-sided reads of the node's index (probe_index): which reads they take, and which replies they give. A GET
// without proof goes to the node once.
#include <functional>
#include <string>
#include <vector>

#include "fabric/local_read.h"
#include "t/unit/proxy/link_fixture.h"

using namespace link_test;
using proxy::AskResult;
using proxy::AskFailure;

namespace {

proxy::LinkConfig cold() {
    proxy::LinkConfig config = link_config();
    config.probe_index = true;
    config.silence_ns = 100 * second;
    return config;
}

// Stores at the node alone, without the link.
void set_at_node(World& world, std::string_view key, std::string_view value, NodeSeconds exptime = never_expires) {
    protocol::StoreOp op;
    op.key = world.node.cache->key(key);
    op.value = value;
    op.exptime = exptime;
    world.node.cache->store(op, world.node.now(world.now_ns));
}

void remove_at_node(World& world, std::string_view key) {
    protocol::DeleteOp op;
    op.key = world.node.cache->key(key);
    world.node.cache->remove(op, world.node.now(world.now_ns));
}

// One more round of reads: those that are posted complete, and are judged.
void round(World& world) {
    world.complete_all();
    world.link->ready(world.now_ns);
}

// The node received the request, and its answer is the expected one.
bool by_node(World& world, uint64_t ticket, std::string_view value) {
    world.pump();
    return world.sink[ticket].times == 1 && !world.sink[ticket].one_sided && world.sink[ticket].value == value;
}

void hits() {
    World world(cold());
    world.start();
    set_at_node(world, "k", "value");
    world.get(1, "k");
    const std::vector<size_t> learning = {1, 1, 1, 1};  // header, entry, bucket, item
    std::vector<size_t> reads;
    for (; !world.wire->posted.empty(); round(world)) reads.push_back(world.wire->posted.size());
    tap::ok(reads == learning, "the first probe learns, and then reads bucket and item");
    tap::ok(world.sink[1].value == "value" && world.sink[1].one_sided, "and answers");
    world.get(2, "k");
    const std::vector<size_t> knowing = {2, 1};  // entry and bucket, item
    for (reads.clear(); !world.wire->posted.empty(); round(world)) reads.push_back(world.wire->posted.size());
    tap::ok(reads == knowing, "the next takes two rounds");
    tap::is(world.sink[2].value, "value", "and answers");
    const auto& meta = world.sink.reply<protocol::GetReply>(2).meta;
    tap::ok(meta.cas != 0 && meta.value_len == 5 && meta.item_bytes == layout::item_bytes(1, 5), "with its facts");
    tap::is(world.node.frames, 0u, "the node knows nothing of it");
    tap::is(world.counters().get_index.get(), 2u, "get_index");
    tap::is(world.counters().pointer_misses.get(), 2u, "a pointer was looked for first");
    tap::is(world.counters().get_onesided.get() + world.counters().get_twosided.get(), 0u, "nothing else answered");
    tap::ok(!world.pointer("k"), "it earns no pointer");
    tap::is(world.landing().lent_bytes(), 0u, "and keeps no buffer");

    world.get(3, "none");
    tap::ok(by_node(world, 3, "") && world.counters().index_not_found.get() == 1, "a get that finds nothing goes to the node");
    tap::ok(world.node.accesses.size() == 1 && world.node.accesses[0].count == 2, "and the node gets the report of the hits");
    tap::is(world.counters().index_unproven.get(), 0u, "index_unproven");

    world.hold_pointer("p", "pointed");
    const uint64_t index = world.counters().get_index.get();
    const uint64_t posts = world.wire->posts;
    world.fetch("p");
    tap::is(world.counters().get_index.get(), index + 1, "a set's first touch earned no pointer");
    world.store("p", "pointed");
    world.link->requests().ask(World::get_op("p"), world.options(4), world.sink);
    world.pump();
    tap::ok(world.pointer("p").has_value() && world.wire->posts > posts, "a two-sided get earns one");
    world.fetch("p");
    tap::is(world.counters().get_onesided.get(), 1u, "and a pointer goes before the index");
}

void when_it_is_on() {
    World off;
    off.start();
    set_at_node(off, "k", "value");
    off.get(1, "k");
    tap::ok(off.wire->posted.empty() && by_node(off, 1, "value"), "unless it is on, the node is asked");

    World alone(cold(), World::Ways::without_table);
    alone.start();
    set_at_node(alone, "k", "value");
    tap::is(alone.fetch("k"), "value", "it needs no table of pointers");
    tap::is(alone.counters().get_index.get(), 1u, "and is by itself then");
    alone.get(1, "none");
    alone.pump();
    tap::is(alone.counters().lease_denied.get(), 0u, "no lease is requested");
    alone.wire->mapped = false;
    alone.get(2, "k");
    tap::ok(by_node(alone, 2, "value"), "a get without a mapped region goes to the node");
    alone.wire->mapped = true;
    proxy::AskOptions two_sided = alone.options(3);
    alone.link->requests().get(World::get_op("k"), two_sided, alone.sink, alone.now_ns);
    tap::ok(by_node(alone, 3, "value"), "so does one that only the node may answer");

    World unknown(cold());
    unknown.node.no_welcome_regions = true;
    unknown.start();
    set_at_node(unknown, "k", "value");
    unknown.get(1, "k");
    tap::ok(unknown.wire->posts == 0 && by_node(unknown, 1, "value"), "an unannounced region is not read");
}

// Every key is found in any place while the index grows by splits; cached parts may be out of date.
void growth() {
    World world(cold());
    world.start();
    const int steps[] = {10, 100, 1000, 6000, 20'000};
    uint64_t wrong = 0;
    int made = 0;
    for (int count : steps) {
        for (; made < count; made++)
            set_at_node(world, "key" + std::to_string(made), "value" + std::to_string(made));
        for (int i = 0; i < count; i += 1 + count / 2000) {
            world.sink.by_ticket.clear();
            wrong += world.fetch("key" + std::to_string(i)) != "value" + std::to_string(i);
        }
    }
    const proxy::LinkCounters& counters = world.counters();
    tap::is(wrong, 0u, "every key is found in an index that grows");
    const double gets = double(counters.get_index.get() + counters.get_twosided.get());
    tap::note("%.0f gets, %.2f reads each; %llu not found, %llu out of reach", gets, double(world.wire->posts) / gets,
              static_cast<unsigned long long>(counters.index_not_found.get()),
              static_cast<unsigned long long>(counters.index_unproven.get()));
    tap::ok(counters.index_not_found.get() == 0, "none is missed");
    tap::ok(double(counters.index_unproven.get()) < gets / 100, "nearly none is too far away");
    tap::ok(double(world.wire->posts) < 3.5 * gets, "in three reads and a few more");
    tap::is(world.node.bad_frames, 0u, "and nothing was wrong");
}

// The sizes that are read, and those that are not.
void lengths() {
    World world(cold(), World::Ways::without_table);
    world.start();
    world.fetch("learn");
    struct Case {
        size_t value_bytes;
        bool read;
    };
    const Case cases[] = {{0, true}, {1, true}, {500, true}, {3000, true}, {5000, false}, {60'000, false}, {200'000, false}};
    for (const Case& one : cases) {
        const std::string value(one.value_bytes, char('a' + one.value_bytes % 26));
        set_at_node(world, "k", value);
        const uint64_t unproven = world.counters().index_unproven.get();
        const bool right = world.fetch("k") == value && world.sink[world.tickets - 1].one_sided == one.read;
        tap::ok(right, "a value of " + std::to_string(one.value_bytes) + (one.read ? " is read" : " is asked for"));
        tap::is(world.counters().index_unproven.get() - unproven, one.read ? 0u : 1u, "and counted");
    }
    tap::is(world.landing().lent_bytes(), 0u, "all buffers came back");
}

// Changes of an item between the two rounds.
void overtaken() {
    struct Case {
        const char* name;
        std::function<void(World&)> change;
        std::string_view value;  // then
        std::function<uint64_t(const proxy::LinkCounters&)> counter;
    };
    using C = const proxy::LinkCounters&;
    const auto dead = [](C c) { return c.read_invalid_dead.get(); };
    const auto served = [](C c) { return c.get_index.get() - 1; };
    const std::string longer(500, 'l');
    const Case cases[] = {
        {"replaced in place", [](World& w) { set_at_node(w, "k", "other"); }, "other", served},
        {"replaced by one that needs another slot", [&](World& w) { set_at_node(w, "k", longer); }, longer, dead},
        {"replaced twice, and where it was again",
         [&](World& w) {
             set_at_node(w, "k", longer);
             set_at_node(w, "k", "third");
         },
         "third", [](C c) { return c.get_index.get() - 1 + c.read_invalid_dead.get(); }},
        {"deleted", [](World& w) { remove_at_node(w, "k"); }, "", dead},
        {"flushed, with what was known before",
         [](World& w) {
             round(w);
             w.node.cache->flush_all(w.node.now(w.now_ns));
             w.complete_all();
         },
         "value", served},
        {"its time has come",
         [](World& w) {
             set_at_node(w, "k", "short", w.node.now(w.now_ns) + 2);
             w.complete_all();
             w.now_ns += 3 * second;
         },
         "", [](C c) { return c.read_invalid_expired.get(); }},
    };
    for (const Case& one : cases) {
        World world(cold());
        world.start();
        set_at_node(world, "k", "value");
        world.fetch("k");
        world.get(1, "k", 100 * second);
        round(world);
        one.change(world);
        world.pump();
        tap::ok(world.sink[1].times == 1 && world.sink[1].value == one.value, std::string("an item that was ") + one.name);
        tap::is(one.counter(world.counters()), 1u, "is what the counters say");
    }
}

// A flush acknowledged before the get began; items that expire at a time that the clock can show.
void flushed_and_expired() {
    World world(cold());
    world.start();
    set_at_node(world, "k", "value");
    world.fetch("k");
    world.node.cache->flush_all(world.node.now(world.now_ns));
    world.get(1, "k");
    tap::ok(by_node(world, 1, "") && world.counters().read_invalid_flushed.get() == 1, "what was flushed is not served");
    set_at_node(world, "e", "value", world.node.now(world.now_ns) + 10);
    tap::ok(world.fetch("e") == "value" && world.sink[world.tickets - 1].one_sided, "an item with time left is");
    world.now_ns += 9 * second + 200 * ms;
    world.get(2, "e");
    tap::ok(by_node(world, 2, "value") && world.counters().read_invalid_expired.get() == 1,
            "one that may have expired is left to the node");
    world.now_ns += 5 * second;
    world.get(3, "e");
    tap::ok(by_node(world, 3, ""), "and so is one that has");
    set_at_node(world, "t", "value");
    protocol::DeleteOp stale;
    stale.key = world.node.cache->key("t");
    stale.invalidate = true;
    world.node.cache->remove(stale, world.node.now(world.now_ns));
    protocol::GetOp meta = World::get_op("t");
    meta.win_tokens = true;
    proxy::AskOptions with = world.options(4);
    with.one_sided = true;
    world.link->requests().get(meta, with, world.sink, world.now_ns);
    tap::ok(by_node(world, 4, "value") && world.counters().read_tokens.get() == 1, "so are tokens");
}

// Bad copies: of bytes that no node has written, or that were written during the copy.
struct BadCopy {
    const char* name;
    int round;  // header, entry, bucket, item
    std::function<void(char*)> spoil;
    std::function<uint64_t(const proxy::LinkCounters&)> counter;
};

std::vector<BadCopy> copies_to_be_refused() {
    using C = const proxy::LinkCounters&;
    const auto put = [](size_t at, uint64_t value) {
        return [=](char* copy) { std::memcpy(copy + at, &value, sizeof value); };
    };
    const auto each_slot = [](uint64_t keep, uint64_t value) {
        return [=](char* copy) {
            for (uint32_t i = 0; i < layout::bucket_slots; i++) {
                uint64_t word;
                std::memcpy(&word, copy + i * 8, 8);
                word = (word & keep) | value;
                std::memcpy(copy + i * 8, &word, 8);
            }
        };
    };
    const uint64_t tag = ~uint64_t(0) << 44;
    const auto length = [](C c) { return c.read_invalid_length.get(); };
    const auto crc = [](C c) { return c.read_invalid_crc.get(); };
    const auto other = [](C c) { return c.index_not_found.get() + c.index_unproven.get(); };
    return {
        {"a header that is none", 0, put(0, 1), length},
        {"a header of another node", 0, put(offsetof(layout::RegionHeader, incarnation), 77), length},
        {"a header with another seed", 0, put(offsetof(layout::RegionHeader, hash_seed), 77), length},
        {"a header that points away", 0, put(offsetof(layout::RegionHeader, partitions_offset), 1 << 30), length},
        {"a header whose arena is elsewhere", 0, put(offsetof(layout::RegionHeader, arena_offset), UINT64_MAX - 63), length},
        {"slots of no size that can be", 0,
         [](char* copy) { std::memset(copy + offsetof(layout::RegionHeader, class_bytes), 0x7f, 256); }, length},
        {"buckets elsewhere", 1, put(offsetof(layout::PartitionEntry, buckets_offset), UINT64_MAX - 63), length},
        {"more buckets than fit", 1, put(offsetof(layout::PartitionEntry, buckets_max), UINT32_MAX), length},
        {"no buckets", 1, put(offsetof(layout::PartitionEntry, buckets_max), 0), length},
        {"a count of buckets that lies", 1, put(offsetof(layout::PartitionEntry, bucket_count), UINT64_MAX), other},
        {"an empty bucket", 2, [](char* copy) { std::memset(copy, 0, 64); },
         [](C c) { return c.index_not_found.get(); }},
        {"slots that lead out of the arena", 2, each_slot(tag | uint64_t(0xff) << 36, (uint64_t(1) << 36) - 1), length},
        {"slots of no class", 2, each_slot(tag, 0), length},
        {"slots of a class that is none", 2, each_slot(tag, uint64_t(0xf0) << 36), length},
        {"slots of a class not in use", 2, each_slot(tag, uint64_t(62) << 36), length},
        {"a link to nowhere", 2,
         [](char* copy) {
             std::memset(copy, 0, 56);
             std::memset(copy + 56, 0x7f, 8);
         },
         length},
        {"a dead item", 3, [](char* copy) { copy[0] = char(copy[0] ^ 3); },
         [](C c) { return c.read_invalid_dead.get(); }},
        {"another generation's guard", 3, [](char* copy) { copy[1] = char(copy[1] + 1); }, crc},
        {"another check", 3, [](char* copy) { copy[8]++; }, crc},
        {"another value", 3, [](char* copy) { copy[sizeof(layout::ItemHeader) + 3]++; }, crc},
        {"another cas", 3, [](char* copy) { copy[16]++; }, crc},
        {"another key", 3, [](char* copy) { copy[sizeof(layout::ItemHeader)]++; }, crc},
        {"a value longer than the slot", 3, put(24, 0x7fffffff), length},
    };
}

void bad_copies() {
    for (const BadCopy& one : copies_to_be_refused()) {
        World world(cold());
        world.start();
        set_at_node(world, "k", "value");
        world.get(1, "k");
        for (int i = 0; i < one.round; i++) round(world);
        tap::is(world.wire->posted.size(), 1u, std::string(one.name) + ": one read");
        world.carry_out(world.wire->posted[0]);
        one.spoil(reinterpret_cast<char*>(world.wire->posted[0].landing));
        world.wire->completed.push_back({world.wire->posted[0].token, fabric::ReadStatus::done});
        world.wire->posted.clear();
        world.link->ready(world.now_ns);
        while (!world.wire->posted.empty()) round(world);
        tap::ok(by_node(world, 1, "value"), std::string(one.name) + ": is asked of the node");
        tap::is(one.counter(world.counters()), 1u, std::string(one.name) + ": is counted");
        tap::is(world.wire->outside, 0u, std::string(one.name) + ": nothing outside is read");
        tap::is(world.fetch("k"), "value", std::string(one.name) + ": the next get is answered");
    }
}

// Two keys of one tag in one chain: the other's item is not served, and the right one is found behind it.
void same_tag() {
    World world(cold(), World::Ways::without_table);
    world.start();
    set_at_node(world, "k", "value");
    set_at_node(world, "other", "value of other");
    world.fetch("k");
    world.fetch("other");
    const auto slot_of = [&](std::string_view key) {
        const fabric::RegionView& view = world.node.cache->view();
        fabric::Found found;
        fabric::local_read(view, key, world.hash(key), 1, false,
                           [](const fabric::ReadMeta&) -> char* { return nullptr; }, found, fabric::no_steps);
        return found.slot;
    };
    const layout::Slot other = slot_of("other");
    for (const bool only : {true, false}) {
        const uint64_t ticket = only ? 1 : 2;
        const uint64_t index = world.counters().get_index.get();
        world.get(ticket, "k");
        for (const fabric::ReadRequest& read : world.wire->posted) world.carry_out(read);
        char* bucket = reinterpret_cast<char*>(world.wire->posted.at(1).landing);
        layout::Slot mine = slot_of("k");
        layout::Slot slots[2] = {layout::Slot::make(mine.tag(), other.size_class(), other.offset()), mine};
        std::memset(bucket, 0, 64);
        std::memcpy(bucket, slots, only ? 8 : 16);
        for (const fabric::ReadRequest& read : world.wire->posted)
            world.wire->completed.push_back({read.token, fabric::ReadStatus::done});
        world.wire->posted.clear();
        world.link->ready(world.now_ns);
        world.pump();
        tap::is(world.sink[ticket].value, "value", "another key of the same tag is not served");
        tap::is(world.counters().get_index.get() - index, only ? 0u : 1u, "the right one behind it is");
    }
}

void failures() {
    World world(cold(), World::Ways::without_table);
    world.start();
    set_at_node(world, "k", "value");
    world.fetch("k");
    world.get(1, "k");
    world.complete(1, fabric::ReadStatus::failed);
    world.link->ready(world.now_ns);
    tap::ok(world.sink[1].times == 0 && world.landing().lent_bytes() > 0, "one read failed, its buffer waits for the other");
    world.complete(0);
    tap::ok(by_node(world, 1, "value"), "then the node is asked");
    tap::is(world.counters().read_failed.get(), 1u, "read_failed");
    tap::is(world.counters().index_unproven.get(), 1u, "index_unproven");
    world.get(2, "k");
    world.complete(0, fabric::ReadStatus::owner_dead);
    world.complete(0, fabric::ReadStatus::owner_dead);
    tap::ok(by_node(world, 2, "value") && world.counters().read_failed.get() == 2, "a dead owner's memory is not used");

    // No room: for the first read, for the second, for the next round.
    for (size_t most : {0u, 1u}) {
        world.wire->reads_most = most;
        world.get(10 + most, "k");
        world.wire->reads_most = SIZE_MAX;
        tap::is(world.wire->posted.size(), most, "a channel takes some reads and no more");
        tap::ok(by_node(world, 10 + most, "value"), "then the node is asked");
    }
    world.get(12, "k");
    world.wire->reads_most = 0;
    round(world);
    world.wire->reads_most = SIZE_MAX;
    tap::ok(by_node(world, 12, "value"), "nor for the next round: so it is");
    tap::is(world.counters().read_unposted.get(), 3u, "read_unposted");
    tap::is(world.landing().lent_bytes(), 0u, "all buffers came back");

    // Requests abandoned between and during the rounds.
    for (int rounds : {0, 1}) {
        const uint64_t ticket = 20 + uint64_t(rounds);
        world.get(ticket, "k", 100 * ms);
        if (rounds == 1) round(world);
        tap::is(world.link->next_tick_ns(), world.now_ns + 100 * ms, "a probe has a deadline");
        world.advance(100 * ms);
        tap::ok(world.sink.failed_as(ticket, AskFailure::timed_out), "and fails at it");
        tap::ok(world.landing().lent_bytes() > 0, "its buffer stays the channel's");
        round(world);
        tap::ok(world.wire->posted.empty() && world.landing().lent_bytes() == 0, "until its reads end");
    }
    tap::is(world.counters().read_late.get(), 2u, "read_late");
    world.get(30, "k");
    world.link->requests().forget_sink(world.sink);
    world.pump();
    tap::is(world.sink[30].times, 0, "a forgotten sink receives nothing");
}

void orders() {
    World world(cold());
    world.start();
    set_at_node(world, "k", "old");
    world.fetch("k");
    world.set(1, "k", "new");
    world.get(2, "k");
    tap::is(world.wire->posted.size(), 0u, "behind a set of its key a get does not probe");
    world.pump();
    tap::is(world.sink[2].value, "new", "and sees what was set");
    world.table().forget(world.hash("k"), world.node.incarnation);
    world.get(3, "k");
    tap::ok(world.set(4, "k", "newer") == AskResult::ordered, "a set waits for a probe,");
    round(world);
    tap::ok(world.set(4, "k", "newer") == AskResult::ordered, "for all of its rounds,");
    world.pump();
    tap::is(world.sink[3].value, "new", "which sees what was there");
    tap::ok(world.store("k", "newest") && world.fetch("k") == "newest", "and then takes its turn");

    for (int rounds : {0, 1}) {
        World ends(cold());
        ends.start();
        set_at_node(ends, "k", "value");
        ends.fetch("k");
        ends.get(1, "k");
        if (rounds == 1) round(ends);
        ends.wire->end = fabric::ChannelEnd::reset;
        ends.link->ready(ends.now_ns);
        tap::ok(ends.sink.failed_as(1, AskFailure::node_down), "with its connection a probe fails");
        tap::is(ends.landing().lent_bytes(), 0u, "and its buffer comes back");
    }

    World leaving(cold());
    leaving.start();
    set_at_node(leaving, "k", "value");
    leaving.fetch("k");
    leaving.get(1, "k");
    leaving.get(2, "none");
    leaving.hear_goodbye(protocol::Goodbye::stopping, "");
    leaving.pump();
    tap::is(leaving.sink[1].value, "value", "while a node leaves, probes under way are answered");
    tap::ok(leaving.sink.failed_as(2, AskFailure::node_down), "but it is not asked instead");

    World again(cold());
    again.start();
    set_at_node(again, "k", "value");
    again.fetch("k");
    again.node.restart();
    again.wire->end = fabric::ChannelEnd::peer_closed;
    again.pump();
    again.advance(second);
    again.pump();
    set_at_node(again, "k", "of another run");
    tap::is(again.fetch("k"), "of another run", "after a node's restart nothing is taken for known");
    tap::is(again.counters().get_index.get(), 2u, "and it is read");
}

}  // namespace

int main() {
    hits();
    when_it_is_on();
    growth();
    lengths();
    overtaken();
    flushed_and_expired();
    bad_copies();
    same_tag();
    failures();
    orders();
    return tap::done();
}
