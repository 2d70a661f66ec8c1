// SPDX-License-Identifier: BSD-3-Clause
// The channel with injected faults: the requested faults occur, and no others.
#include <algorithm>
#include <set>
#include <string>

#include "t/unit/fabric/channel_fixture.h"

namespace {

using namespace channel_test;

constexpr uint64_t incarnation = 4711;

// A node with words to read, a proxy whose channel is `plan`'s, and a clock that stands still until
// it is moved.
struct Pair {
    explicit Pair(FaultPlan plan, const char* where = "node.sock")
        : node(folder / where, {}, incarnation), transport(shm_transport(node, regions)) {
        plan.now_ns = [this] { return clock_ns; };
        for (uint64_t i = 0; i < words; i++) words::store_relaxed(node.region.arena() + i, 1);
        client.channel = value_of(FaultChannel::wrap(plan, client, transport.connect));
        if (!accept_into(*transport.listener, server)) tap::bail_out("no pair");
    }
    bool up() {
        return pump({&client, &server}, [&] { return client.up || client.over; }) && client.up;
    }
    FaultChannel& fault() { return static_cast<FaultChannel&>(*client.channel); }
    uint64_t arena() const {
        return node.region.view().region_bytes - node.region.view().arena_bytes;
    }
    bool post(uint64_t token, uint64_t* landing, uint32_t bytes, uint64_t offset = 0) {
        return client.channel->post_read(
            {{incarnation, arena() + offset, 1, 0, bytes}, landing, token});
    }
    static constexpr uint64_t words = 4096;
    Folder folder;
    uint64_t clock_ns = 1'000'000'000;
    ShmNode node;
    MappedRegions regions;
    Transport transport;
    End client, server;
};

void nothing_goes_wrong_by_itself() {
    Pair pair({});
    if (!tap::ok(pair.up(), "without a plan a connection is made")) return;
    uint64_t landing[3][16] = {};
    for (uint64_t i = 0; i < 3; i++) pair.post(i, landing[i], 128, 48);
    tap::is(pair.client.reads.size(), 0u, "posting causes no event");
    tap::ok(pump({&pair.client}, [&] { return pair.client.reads.size() == 3; }), "reads complete");
    bool right = true;
    for (const auto& [token, status] : pair.client.reads)
        right = right && status == ReadStatus::done;
    for (const auto& words : landing)
        for (uint64_t word : words) right = right && word == 1;
    tap::ok(right, "with what is there");
    uint64_t other[16];
    pair.client.channel->post_read({{incarnation + 1, pair.arena(), 1, 0, 128}, other, 9});
    pump({&pair.client}, [&] { return pair.client.reads.size() == 4; });
    tap::ok(pair.client.reads.back().second == ReadStatus::failed,
            "one of another incarnation fails");
    tap::is(pair.client.channel->describe(), "fault:" + pair.transport.listener->describe(),
            "it describes itself");
}

void the_nth_read_fails() {
    FaultPlan plan;
    plan.fail_read_number = 3;
    Pair pair(plan);
    if (!pair.up()) return;
    uint64_t landing[16];
    std::string outcomes;
    for (uint64_t i = 1; i <= 5; i++) {
        pair.post(i, landing, 128);
        pump({&pair.client}, [&] { return pair.client.reads.size() == i; });
        outcomes += pair.client.reads.back().second == ReadStatus::done ? 'd' : 'f';
        if (i == 3) tap::ok(landing[0] != 1, "a failed read leaves garbage");
    }
    tap::is(outcomes, "ddfdd", "the third of five reads fails");
}

std::vector<std::pair<uint64_t, ReadStatus>> late_reads(uint64_t seed, size_t& at_once) {
    FaultPlan plan;
    plan.seed = seed;
    plan.delay_read = 0.7;
    plan.fail_read = 0.1;
    plan.delay_ms = 1;
    Pair pair(plan);
    if (!pair.up()) tap::bail_out("no connection");
    static uint64_t landing[50][16];
    for (uint64_t i = 0; i < 50; i++) pair.post(i, landing[i], 128);
    pair.client.channel->ready();
    at_once = pair.client.reads.size();
    while (pair.client.reads.size() < 50 && pair.clock_ns < 1'002'000'000) {
        pair.clock_ns += 10'000;
        pair.client.channel->ready();
    }
    return pair.client.reads;
}

void reads_come_late_and_in_any_order() {
    size_t at_once = 0, again = 0;
    const auto reads = late_reads(7, at_once);
    tap::is(reads.size(), 50u, "all reads complete within the longest delay");
    tap::ok(at_once > 3 && at_once < 35, "some at once, others later");
    tap::ok(!std::is_sorted(reads.begin(), reads.end()),
            "not in the order of posting");
    std::set<uint64_t> tokens;
    int failed = 0;
    for (const auto& [token, status] : reads) {
        tokens.insert(token);
        if (status == ReadStatus::failed) failed++;
    }
    tap::is(tokens.size(), 50u, "each once");
    tap::ok(failed > 0 && failed < 20, "and some have failed");
    tap::ok(reads == late_reads(7, again) && at_once == again,
            "of one seed it is the same every time");
    tap::ok(reads != late_reads(8, again), "of another it is not");
}

void reads_overtake_one_another() {
    FaultPlan plan;
    plan.shuffle_read = 0.5;
    Pair pair(plan);
    if (!pair.up()) return;
    uint64_t landing[6][16] = {};
    std::set<std::string> orders;
    int lost = 0;
    for (int round = 0; round < 200; round++) {
        pair.client.reads.clear();
        for (uint64_t i = 0; i < 6; i++) pair.post(i, landing[i], 128);
        pair.client.channel->ready();
        std::string order;
        for (const auto& [token, status] : pair.client.reads) order += char('0' + token);
        if (std::set<char>(order.begin(), order.end()).size() != 6 || order.size() != 6) lost++;
        orders.insert(order);
    }
    tap::is(lost, 0, "reads that overtake one another complete in the same turn, each once");
    tap::ok(orders.size() > 100 && orders.contains("012345"), "in any order");
}

void torn_around_what_is_written_meanwhile() {
    FaultPlan plan;
    plan.tear_read = plan.delay_read = 1;
    Pair slow(plan);
    uint64_t* const arena = slow.node.region.arena();
    if (!slow.up()) return;
    uint64_t landing[32];
    int mixed = 0;
    for (uint64_t i = 1; i <= 50; i++) {
        slow.client.reads.clear();
        slow.post(i, landing, 256);
        for (size_t k = 0; k < 64; k++) words::store_relaxed(arena + k, i * 100);
        slow.clock_ns += 3'000'000;
        slow.client.channel->ready();
        if (slow.client.reads.size() != 1) break;
        mixed += std::count(landing, landing + 32, i * 100) % 32 != 0;
    }
    tap::ok(mixed > 10, "a late read tears when its bytes change before");
}

// Everything the first four units of a torn read can show: each old or new, and every mixture that a copy in any order makes.
void every_mixture(const char* unit_name, size_t unit_words, double FaultPlan::*likely) {
    FaultPlan plan;
    plan.*likely = 1;
    uint64_t version = 1;
    uint64_t* arena = nullptr;
    plan.between = [&] {
        version++;
        for (size_t i = 0; i < 64; i++) words::store_relaxed(arena + i, version);
    };
    Pair pair(plan);
    arena = pair.node.region.arena();
    if (!pair.up()) return;
    uint64_t landing[32];
    std::set<std::string> mixtures;
    int torn_units = 0, strange = 0;
    constexpr int reads = 2000;
    for (int i = 1; i <= reads; i++) {
        const uint64_t old = version;
        pair.post(uint64_t(i), landing, 256);
        pair.client.channel->ready();
        std::string mixture;
        for (size_t unit = 0; unit < 4; unit++) {
            const uint64_t word = landing[unit * unit_words];
            for (size_t k = 1; k < unit_words; k++)
                if (landing[unit * unit_words + k] != word) torn_units++;
            if (word != old && word != version) strange++;
            mixture += word == old ? 'o' : 'n';
        }
        mixtures.insert(mixture);
    }
    const std::string name(unit_name);
    tap::is(pair.client.reads.size(), size_t(reads), "reads torn between " + name + "s complete");
    tap::is(torn_units + strange, 0, "each " + name + " is the old one or the new one");
    tap::is(mixtures.size(), 16u, "and every mixture of four comes");
}

void reads_are_torn() {
    every_mixture("line", 8, &FaultPlan::tear_read);
    every_mixture("word", 1, &FaultPlan::tear_words);
    torn_around_what_is_written_meanwhile();
}

// The end of a dropped channel, as its owner and its peer see it.
struct Dropped {
    bool ended_once = false, quiet = false, peer_noticed = false;
    uint64_t steps = 0;
    std::string why;
};

Dropped drop_at(uint64_t step, uint64_t seed) {
    FaultPlan plan;
    plan.seed = seed;
    plan.drop_at_step = step;
    Pair pair(plan);
    End& client = pair.client;
    pair.server.take = [](End& end, std::string_view bytes) {
        end.channel->out().append(bytes);
        return bytes.size();
    };
    size_t events = 0;
    client.on_end = [&](End& end) { events = end.bytes.size() + end.reads.size(); };
    uint64_t landing[16];
    const bool up = pair.up();
    for (int i = 0; up && i < 3 && !client.over; i++) {
        const size_t bytes = client.bytes.size(), reads = client.reads.size();
        client.channel->out().append("request");
        pair.post(1, landing, 128);
        client.channel->flush();
        pump({&client, &pair.server}, [&] {
            return client.over ||
                   (client.bytes.size() == bytes + 7 && client.reads.size() == reads + 1);
        });
    }
    Dropped seen;
    seen.steps = pair.fault().steps();
    if (client.over) {
        client.channel->ready();
        client.channel->flush();
        seen.peer_noticed = pump({&pair.server}, [&] { return pair.server.over; });
        seen.ended_once = client.ends == 1 && client.ending() == "reset";
        seen.quiet = events == client.bytes.size() + client.reads.size();
    }
    seen.why = client.text;
    return seen;
}

void drops_at_every_step() {
    const uint64_t steps = drop_at(0, 1).steps;
    tap::is(steps, 13u, "a connection and three requests with reads are 13 steps");
    int right = 0;
    for (uint64_t step = 1; step <= steps; step++) {
        for (uint64_t seed = 1; seed <= 4; seed++) {
            const Dropped seen = drop_at(step, seed);
            if (seen.ended_once && seen.quiet && seen.peer_noticed && seen.steps == step) right++;
        }
    }
    tap::is(right, int(steps) * 4,
            "dropped at each, it ends once, is quiet after, and the peer notices");
    const std::string why = drop_at(2, 1).why;
    tap::ok(why.find("dropped at step 2") != std::string::npos,
            "and its text names the injected fault");
}

}  // namespace

int main() {
    nothing_goes_wrong_by_itself();
    the_nth_read_fails();
    reads_come_late_and_in_any_order();
    reads_overtake_one_another();
    reads_are_torn();
    drops_at_every_step();
    return tap::done();
}
