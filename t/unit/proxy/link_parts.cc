// SPDX-License-Identifier: BSD-3-Clause
// The parts of a link to a node, each alone: the estimate of the node's clock, the landing buffers, the times between
// reconnects, and the check of a one-sided read's bytes.
#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "fabric/buffer_pool.h"
#include "fabric/validate.h"
#include "protocol/layout_hash.h"
#include "proxy/link_parts.h"
#include "proxy/node_clock_estimate.h"
#include "t/lib/tap.h"

using namespace farcached;

namespace {

constexpr uint64_t second = 1'000'000'000;

// A proxy's estimate for a node whose clock differs from its own by a fraction, and runs a little fast or slow.
struct ClockCase {
    bool fractions;       // sent by the node
    int64_t rates_apart;  // at most, in millionths
};
struct ClockResult {
    int wrong_bounds = 0, early = 0, late = 0, late_known = 0, back = 0, jumps = 0;
    NodeSeconds widest = 0;  // of the bounds, where they are known best
};

void one_clock(const ClockCase& of, std::mt19937_64& random, ClockResult& result) {
    const int64_t host_zero = int64_t(random() % (1000 * second)) - int64_t(500 * second);
    const double rate = 1 + double(int64_t(random() % uint64_t(2 * of.rates_apart + 1)) - of.rates_apart) / 1e6;
    const double ahead_s = double(random() % 100'000'000) / 1000;
    uint64_t now = 2000 * second + random() % second;
    const uint64_t begun = now;
    auto node_s = [&](uint64_t at) { return ahead_s + double(at - begun) / 1e9 * rate + 3; };
    auto host_s = [&](uint64_t at) { return (double(at) - double(host_zero)) / 1e9; };
    auto reading = [&](uint64_t at) {
        NodeReading told{NodeSeconds(node_s(at))};
        if (of.fractions) told.us = uint32_t((node_s(at) - double(told.seconds)) * 1e6);
        return told;
    };
    proxy::NodeClockEstimate clock(host_zero);
    clock.greeted(reading(now + 1000), now, now + 2000);
    now += 2000;
    NodeSeconds offset_before = clock.to_node(1'000'000);
    for (int step = 0; step < 300; step++) {
        now += random() % second;
        const uint64_t sent = now;
        now += random() % (second / 1000);
        const NodeReading seen = reading(now);
        now += random() % (second / 1000);
        clock.saw(seen, sent, now);
        result.widest = std::max(result.widest, clock.latest(now) - clock.earliest(now));
        const uint64_t later = now + random() % (100 * second);
        if (double(clock.latest(later)) < node_s(later) - 1e-3) result.wrong_bounds++;
        if (double(clock.earliest(later)) > node_s(later)) result.wrong_bounds++;
        // An item that should expire at this process's moment m expires when the node's clock reads to_node(m).
        const NodeSeconds m = NodeSeconds(host_s(now)) + 10;
        const double dies_early_s = (double(m) - host_s(now)) - (double(clock.to_node(m)) - node_s(now));
        if (dies_early_s > 0.051) result.early++;
        if (dies_early_s < -2) result.late++;
        if (step > 150 && dies_early_s < -1.1) result.late_known++;
        if (clock.to_host(clock.to_node(m)) != m) result.back++;
        if (clock.to_node(1'000'000) != offset_before) result.jumps++;
        offset_before = clock.to_node(1'000'000);
    }
}

void clocks() {
    constexpr int runs = 200;
    for (const ClockCase& of : {ClockCase{false, 1000}, {false, 0}, {true, 1000}, {true, 0}}) {
        std::mt19937_64 random(1);
        ClockResult result;
        for (int run = 0; run < runs; run++) one_clock(of, random, result);
        const std::string in = std::string(of.fractions ? "fractions" : "seconds") +
                               (of.rates_apart != 0 ? " of another rate: " : ": ");
        tap::is(result.wrong_bounds, 0, in + "the bounds of the node's clock hold");
        tap::is(result.early, 0, in + "no moment comes early at the node, but for what two clocks drift");
        tap::is(result.late, 0, in + "nor two seconds late");
        tap::is(result.late_known, 0, in + "nor more than one, when it is known well");
        tap::is(result.back, 0, in + "a moment comes back as it went");
        tap::note("%s%d changes in %d runs of 300 readings", in.c_str(), result.jumps, runs);
        const int most = !of.fractions ? runs * 20 : of.rates_apart != 0 ? runs / 4 : 0;
        tap::ok(result.jumps <= most, in + "and what is known settles");
        if (of.fractions) tap::ok(result.widest <= 2, in + "between bounds of a second or two");
    }
}

// Two processes of one host: whole seconds apart, as their clocks began.
void clocks_of_one_host() {
    constexpr uint64_t apart = 77;
    std::mt19937_64 random(3);
    int inexact = 0;
    for (int run = 0; run < 1000; run++) {
        uint64_t now = 2000 * second + random() % second;
        auto reading = [&](uint64_t at) {
            return NodeReading{NodeSeconds(at / second + apart), uint32_t(at % second / 1000)};
        };
        proxy::NodeClockEstimate clock(0);
        clock.greeted(reading(now + 20 * second / 1000), now, now + 45 * second / 1000);
        if (clock.to_node(5000) != 5000 + apart) inexact++;
        for (int step = 0; step < 20; step++) {  // some of them after minutes, and slow
            now += random() % (random() % 4 == 0 ? 600 * second : second);
            const uint64_t most = random() % 3 == 0 ? 3 * second : second / 1000;
            const uint64_t sent = now, read = sent + random() % most, received = read + random() % most;
            clock.saw(reading(read), sent, received);
            now = received;
            if (clock.to_node(5000) != 5000 + apart) inexact++;
        }
    }
    tap::is(inexact, 0, "one host: exact from the greeting on, also when replies are late");

    proxy::NodeClockEstimate clock(0);
    const uint64_t begun = 2000 * second + 10;
    clock.greeted({2077, 0}, begun, begun + 200 * second / 1000);
    tap::is(clock.to_node(5000), 5078u, "after a slow greeting a second late");
    clock.saw({2078, 0}, begun + second - 1000, begun + second + 300 * second / 1000);
    tap::is(clock.to_node(5000), 5078u, "until a reading");
    clock.saw({2079, 500}, begun + 2 * second + 490'000, begun + 2 * second + 510'000);
    tap::is(clock.to_node(5000), 5077u, "that is close");
    clock.greeted({2079, 0}, begun + 3 * second, begun + 3 * second + 200 * second / 1000);
    tap::is(clock.to_node(5000), 5077u, "another greeting counts by itself");
}

void moments_that_are_none() {
    proxy::NodeClockEstimate clock(0);
    clock.greeted({5}, 1000 * second, 1000 * second);
    tap::is(clock.to_node(never_expires), never_expires, "never stays never");
    tap::is(clock.to_node(long_expired), long_expired, "long ago stays long ago");
    tap::is(clock.to_node(500), long_expired, "what was before the node was is long ago");
    tap::is(clock.to_host(UINT32_MAX), UINT32_MAX, "what no clock can say is as late as can be");
    tap::is(clock.latest(1010 * second), 17u, "S13's bound: one more, and the rates");
    clock.greeted({5, 999'999}, 1000 * second, 1000 * second);
    tap::is(clock.latest(1000 * second), 6u, "with the fraction no more than that");
    tap::is(clock.latest(1010 * second), 17u, "and the rates");
    tap::is(clock.earliest(1000 * second), 5u, "nor less");
}

// S17
void serving_right() {
    constexpr uint64_t ms = second / 1000, sent = 1000 * second;
    proxy::NodeClockEstimate clock(0);
    clock.greeted({5, 0}, sent, sent + ms);
    tap::ok(!clock.right_ends() && clock.may_read(UINT64_MAX - 1), "without membership the right has no end");
    clock.greeted({5, 0, 0}, sent, sent + ms);
    tap::ok(clock.right_ends() && !clock.may_read(sent + ms), "a node without a right is not read");
    clock.saw({5, 0, 1000}, sent + 10 * ms, sent + 500 * ms);
    tap::ok(clock.may_read(sent + 1007 * ms), "a right counts from before the request left");
    tap::ok(!clock.may_read(sent + 1008 * ms), "less the rates of two clocks");
    clock.saw({5, 600'000, 100}, sent + 600 * ms, sent + 700 * ms);
    tap::ok(clock.may_read(sent + 1007 * ms), "a later reading shortens no right");
    clock.saw({5, 700'000, 1000}, sent + 700 * ms, sent + 700 * ms);
    tap::ok(clock.may_read(sent + 1697 * ms) && !clock.may_read(sent + 1698 * ms), "and lengthens it");
    clock.saw({5, 750'000, 0}, sent + 750 * ms, sent + 750 * ms);
    tap::ok(!clock.may_read(sent + 750 * ms), "a node that has none any more ends it");
    clock.saw({5, 760'000, 1000}, sent + 760 * ms, sent + 760 * ms);
    tap::ok(clock.may_read(sent + 1700 * ms), "until it has one again");
    clock.greeted({7, 0, 0}, sent + 800 * ms, sent + 800 * ms);
    tap::ok(!clock.may_read(sent + 800 * ms), "another connection begins without it");
}

void landing() {
    fabric::BufferPool pool(1 << 20);
    tap::ok(pool.lend((1 << 20) + 1) == nullptr, "more than there is: none");
    uint64_t* all = pool.lend(1 << 20);
    tap::ok(all != nullptr && pool.lend(1) == nullptr, "all of it, and then none");
    pool.give_back(all);
    std::mt19937_64 random(2);
    struct Lent {
        uint64_t* at;
        size_t bytes;
        char mark;
    };
    std::vector<Lent> lent;
    int spoiled = 0, refused = 0;
    for (int i = 0; i < 20'000; i++) {
        if (random() % 2 == 0 || lent.empty()) {
            const size_t bytes = 1 + random() % (random() % 8 == 0 ? 200'000 : 3000);
            uint64_t* at = pool.lend(bytes);
            if (at == nullptr) {
                refused++;
                continue;
            }
            lent.push_back({at, bytes, char(random())});
            std::memset(at, lent.back().mark, bytes);
        } else {
            const size_t which = random() % lent.size();
            const char* bytes = reinterpret_cast<const char*>(lent[which].at);
            for (size_t n : {size_t(0), lent[which].bytes / 2, lent[which].bytes - 1})
                if (bytes[n] != lent[which].mark) spoiled++;
            pool.give_back(lent[which].at);
            lent.erase(lent.begin() + long(which));
        }
    }
    tap::is(spoiled, 0, "no two buffers overlap");
    tap::ok(refused > 0, "(the pool was full at times)");
    for (const Lent& one : lent) pool.give_back(one.at);
    tap::is(pool.lent_bytes(), 0u, "everything came back");
    tap::ok(pool.lend(1 << 20) != nullptr, "and is one piece again");
}

void reconnects() {
    const proxy::ReconnectConfig config{100, 1000, 50'000};
    proxy::Reconnect one(config, 1), other(config, 2);
    bool within = true, differ = false;
    uint64_t longest = 100;
    for (int i = 0; i < 100; i++) {
        const uint64_t a = one.failed(), b = other.failed();
        within = within && a >= longest / 2 && a <= longest;
        differ = differ || a != b;
        longest = std::min<uint64_t>(longest * 2, 1000);
    }
    tap::ok(within, "doubling, bounded, with chance");
    tap::ok(differ, "not the same for two");
    one.recovered();
    tap::ok(one.failed() <= 100, "after a recovery from the start");
    const uint64_t rare = one.mismatched();
    tap::ok(rare >= 25'000 && rare <= 50'000, "what does not mend by itself is tried rarely");
}

// ---- judgements -------------------------------------------------------------------------------------

constexpr uint64_t secret = 0x5ec7e7;
constexpr uint64_t offset = 4096;
constexpr uint64_t valid_until = 1000;

struct Item {
    alignas(8) char bytes[4096] = {};
    fabric::LeasedPtr leased;

    Item(std::string_view key, std::string_view value, uint64_t generation) {
        layout::ItemHeader header{};
        header.guard = layout::Guard::make(generation, layout::GuardState::live).word;
        header.cas = 9;
        header.value_len = uint32_t(value.size());
        header.flags = 5;
        header.exptime = 77;
        header.key_len = uint16_t(key.size());
        std::memcpy(bytes, &header, sizeof header);
        std::memcpy(bytes + sizeof header, key.data(), key.size());
        std::memcpy(bytes + sizeof header + key.size(), value.data(), value.size());
        leased.ptr.generation = generation;
        leased.ptr.offset = offset;
        leased.ptr.length = uint32_t(layout::item_bytes(key.size(), value.size()));
        leased.valid_until_ns = valid_until;
        header.check = layout::item_check(bytes, leased.ptr.length, secret, generation, offset);
        std::memcpy(bytes + 8, &header.check, 8);
    }
    fabric::PointerRead judge(std::string_view key, uint64_t now = 1) const {
        const fabric::PointerCopy copy{reinterpret_cast<const uint64_t*>(bytes), leased, now, UINT64_MAX, /* latest= */ 76};
        return fabric::judge_copy(copy, key, /* tokens_matter= */ false, secret);
    }
};

void judgements() {
    using fabric::Outcome;
    Item item("some key", std::string(300, 'v'), 4711);
    const fabric::PointerRead read = item.judge("some key");
    tap::ok(read.outcome == Outcome::hit, "a whole copy under a lease is a hit");
    tap::is(read.value, std::string(300, 'v'), "with its value");
    tap::ok(read.meta.cas == 9 && read.meta.flags == 5 && read.meta.exptime == 77, "and its other fields");
    tap::ok(item.judge("some kez").outcome == Outcome::key, "another key");
    tap::ok(item.judge("some").outcome == Outcome::key, "a shorter key");
    tap::ok(item.judge("some keyv").outcome == Outcome::key, "a longer key");
    tap::ok(item.judge("some key", valid_until - 1).outcome == Outcome::hit, "to the end of the lease");
    tap::ok(item.judge("some key", valid_until).outcome == Outcome::lease, "not at its end");
    Item other = item;
    other.leased.ptr.generation++;
    tap::ok(other.judge("some key").outcome == Outcome::generation, "not an older generation than the pointer's");
    other.leased.ptr.generation = 1;
    tap::ok(other.judge("some key").outcome == Outcome::hit, "but a later one");

    // A change of any byte is detected: by its value, or by the check.
    int unseen = 0;
    for (uint32_t at = 0; at < item.leased.ptr.length; at++) {
        Item spoiled = item;
        spoiled.bytes[at] = char(spoiled.bytes[at] ^ 1);
        if (spoiled.judge("some key").outcome == Outcome::hit) unseen++;
    }
    tap::is(unseen, 0, "no byte may differ");

    // Old and new words of one place, in every mixture of its first words and of blocks of the rest.
    Item now_there("some key", std::string(300, 'w'), 4711 + 64);
    int torn = 0;
    for (uint32_t mix = 0; mix < 1u << 10; mix++) {
        Item copy = item;
        for (uint32_t word = 0; word < 44; word++) {
            const uint32_t part = word < 5 ? word : 5 + (word - 5) / 8;
            if ((mix >> part & 1) != 0) std::memcpy(copy.bytes + word * 8, now_there.bytes + word * 8, 8);
        }
        const fabric::PointerRead got = copy.judge("some key");
        const uint32_t bytes = item.leased.ptr.length;
        const bool whole = std::memcmp(copy.bytes, item.bytes, bytes) == 0 || std::memcmp(copy.bytes, now_there.bytes, bytes) == 0;
        if ((got.outcome == Outcome::hit) != whole) torn++;
    }
    tap::is(torn, 0, "a torn copy is no hit; the old item and the new are");
}

}  // namespace

int main() {
    clocks();
    clocks_of_one_host();
    moments_that_are_none();
    serving_right();
    landing();
    reconnects();
    judgements();
    return tap::done();
}
