// SPDX-License-Identifier: BSD-3-Clause
// A node that moves values to another one's memory: what the PeerStore tells its link, what gets come to, and how long a proxy may
// READ a value there (S15). The link here is a map.
#include <poll.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/broken.h"
#include "base/node_clock.h"
#include "node/peer/peer_store.h"
#include "node/store/away_gets.h"
#include "node/store/impl.h"
#include "node/store/node.h"
#include "t/lib/tap.h"
#include "t/unit/node/far_peer.h"

using namespace farcached;
using namespace farcached::node;
using namespace far_peer;

namespace {

constexpr uint64_t ms = 1'000'000;
constexpr NodeSeconds now = 100;

struct Bench : FarPeer {
    Node node{config_with(store)};
    std::map<uint64_t, std::optional<std::string>> over;
    std::vector<uint64_t> ended;
    std::optional<protocol::Grant> granted;   // for the last one
    uint64_t now_ns = boottime_ns();
    AwayGets gets{node, [this](const AwayGets::Done& done) { take(done); }, [](uint64_t) { return true; },
                  [this](uint64_t asker) { ended.push_back(asker); }};

    void take(const AwayGets::Done& done) {
        const bool hit = done.reply.status == protocol::GetReply::Status::hit;
        over[done.asker] = hit ? std::optional<std::string>(done.value) : std::nullopt;
        granted = std::nullopt;
        if (done.leased != nullptr) granted = node.away().sublease(node.key(done.key), done.place, *done.leased, now_ns, now);
    }
    void set(int i, NodeSeconds exptime = never_expires) {
        const std::string key = key_of(i), value = value_of(i);
        protocol::StoreOp op;
        op.key = node.key(key);
        op.value = value;
        op.exptime = exptime;
        CHECK(node.store(op, now).status == protocol::StoreReply::Status::stored);
    }
    // The reply, and where the value is.
    std::pair<protocol::GetReply, Place> get(int i) {
        const std::string key = key_of(i);
        protocol::GetOp op;
        op.key = node.key(key);
        std::string value;
        Place place{};
        const auto sink = [&](const protocol::ItemMeta& meta) {
            value.resize(meta.value_len);
            return value.data();
        };
        const protocol::GetReply reply = node.get(op, now, sink, nullptr, &place);
        return {reply, place};
    }
    std::optional<std::string> read(int i, const std::pair<protocol::GetReply, Place>& got) {
        gets.get(uint64_t(i), key_of(i), got.first, got.second);
        for (int round = 0; round < 3; round++) {
            link();
            gets.ready(now);
        }
        return over.at(uint64_t(i));
    }
    // The number of an item whose value is there.
    int spilled() {
        for (int i = 0;; i++) {
            CHECK(i < 2000);
            if (get(i).second != Place{}) return i;
        }
    }
    void fill(int from, int to, NodeSeconds exptime = never_expires) {
        for (int i = from; i < to; i++) {
            set(i, exptime);
            link();
        }
    }
    uint64_t sublease_end(int i) {
        Place place{};
        const std::string key = key_of(i);
        return node.away().sublease_end(node.key(key), now_ns, place);
    }
    // A mutation comes; if none has to be waited for, it begins.
    uint64_t begin_change(int i) {
        Place place{};
        const std::string key = key_of(i);
        return node.away().begin_change(node.key(key), now_ns, place);
    }
};

void values() {
    Bench b;
    b.fill(0, 200);
    tap::is(b.peer.size(), 0u, "no peer: nothing moves");
    b.store.came_up(77, 1 << 20);
    b.fill(200, 800);
    tap::ok(b.peer.size() > 100, "values move to the peer");
    int hits = 0, wrong = 0;
    for (int i = 200; i < 800; i++) {
        const auto got = b.get(i);
        if (got.first.status != protocol::GetReply::Status::hit) continue;
        hits++;
        if (got.second != Place{} && b.read(i, got) != value_of(i)) wrong++;
    }
    tap::ok(hits > 550 && wrong == 0, "they are read there");
    const int i = b.spilled();
    const size_t before = b.peer.size();
    b.set(i);
    b.link();
    tap::ok(b.peer.size() <= before && b.deletes > 0, "a set deletes the value there");

    const int j = b.spilled();
    const auto got = b.get(j);
    b.peer.clear();
    tap::ok(!b.read(j, got).has_value(), "a value that the peer has evicted is a miss");
    tap::ok(b.get(j).first.status == protocol::GetReply::Status::miss, "and the item is gone");
    const int k = b.spilled();
    b.store.went_down();
    tap::ok(!b.read(k, b.get(k)).has_value(), "so is one while the peer is down");
    const int l = b.spilled();
    b.store.came_up(78, 1 << 20);
    tap::ok(b.get(l).first.status == protocol::GetReply::Status::miss, "a peer that has restarted has none of the former values");
}

void on_the_way() {
    Bench b;
    b.store.came_up(77, 1 << 20);
    for (int i = 0; i < 400; i++) b.set(i);  // the link does nothing
    const int i = b.spilled();
    b.gets.get(1, key_of(i), b.get(i).first, b.get(i).second);
    b.gets.ready(now);
    tap::ok(b.over[1] == value_of(i), "a value is read on its way to the peer");
    b.set(i);
    const uint32_t deletes = b.deletes;
    b.link();
    tap::ok(b.deletes > deletes, "one that is replaced on its way is deleted there");
    PeerStore::Work work;
    for (int j = 400; j < 700; j++) b.set(j);
    b.store.take(work);
    CHECK(!work.puts.empty());
    for (const auto& record : work.puts) b.store.refused(*record);
    const uint64_t paused = b.store.statistics().dropped_pause;
    for (int j = 700; j < 800; j++) b.set(j);
    tap::ok(b.store.statistics().dropped_pause > paused, "after a refusal nothing moves for a while");
}

void subleases() {
    Bench b;
    b.store.came_up(77, 1 << 20);
    b.fill(0, 600);
    const int i = b.spilled();
    b.read(i, b.get(i));
    tap::ok(!b.granted.has_value() && b.sublease_end(i) == 0, "without a lease of the peer there is no sublease");
    b.lease = lease_of(b.now_ns + 60'000 * ms);
    b.read(i, b.get(i));
    tap::ok(b.granted.has_value() && b.granted->term_ms == protocol::spilled_term_ms_max && b.granted->incarnation == 77,
            "a sublease names the peer, and lasts 200 ms");
    tap::ok(b.sublease_end(i) > b.now_ns + 199 * ms, "S15: a mutation of the key would have to wait");
    tap::is(b.sublease_end(i + 1000), 0u, "but not of another key");
    b.lease = lease_of(b.now_ns + 50 * ms);
    const int j = i + 1;
    CHECK(b.get(j).second != Place{});
    b.read(j, b.get(j));
    tap::ok(b.granted.has_value() && b.granted->term_ms <= 50, "it ends before the lease of the peer");

    // A mutation waits.
    b.lease = lease_of(b.now_ns + 60'000 * ms);
    tap::ok(b.begin_change(i) != 0, "a mutation waits for its end");
    b.read(i, b.get(i));
    tap::ok(!b.granted.has_value(), "and permits no other until then");
    const Place place = b.get(i).second;
    b.gets.await_end(5, place, b.now_ns + 200 * ms);
    b.link();
    b.gets.ready(now);
    tap::ok(b.ended == std::vector<uint64_t>{5}, "it ends when the peer has deleted the value");
    b.node.away().sublease_over(b.node.key(key_of(i)).hash, place);
    tap::is(b.begin_change(i), 0u, "then nothing waits any more");
    const int during = j + 2;
    CHECK(b.get(during).second != Place{});
    b.read(during, b.get(during));
    tap::ok(!b.granted.has_value(), "S15: none is granted beside a mutation");
    b.node.away().change_over(b.node.key(key_of(i)).hash);

    // Its end does not depend on the stub.
    const int k = j + 1;
    b.read(k, b.get(k));
    CHECK(b.granted.has_value());
    protocol::DeleteOp op;
    const std::string key = key_of(k);
    op.key = b.node.key(key);
    b.node.remove(op, now);
    tap::ok(b.get(k).first.status == protocol::GetReply::Status::miss && b.sublease_end(k) != 0,
            "S15: it runs on when the item is gone");
    b.now_ns += 201 * ms;
    tap::is(b.sublease_end(k), 0u, "until its time is over");
}

// The number of an item under a sublease, the only one.
int sublet_one(Bench& b) {
    b.store.came_up(77, 1 << 20);
    b.fill(0, 600);
    b.lease = lease_of(b.now_ns + 60'000 * ms);
    const int i = b.spilled();
    b.read(i, b.get(i));
    CHECK(b.granted.has_value());
    return i;
}

void flushes() {
    Bench b;
    const int i = sublet_one(b);
    tap::ok(b.node.away().stop_subleases(b.now_ns) > b.now_ns + 199 * ms, "S15: a flush waits for the last sublease");
    b.read(i + 1, b.get(i + 1));
    tap::ok(!b.granted.has_value(), "and permits none meanwhile");
    b.node.away().resume_subleases();
    b.read(i + 1, b.get(i + 1));
    tap::ok(b.granted.has_value(), "after it they are granted again");
    b.fill(600, 1200, now + 1);
    int soon = 600;
    while (b.get(soon).second == Place{}) soon++;
    b.read(soon, b.get(soon));
    tap::ok(!b.granted.has_value(), "an item that expires soon has none");
}

// With a rule that FARCACHED_BREAK names, for t/faulty/broken_rules.py.
int run_broken() {
    Bench b;
    const int i = sublet_one(b);
    tap::ok(b.begin_change(i) == 0, "a mutation beside a sublease is caught");
    tap::ok(b.node.away().stop_subleases(b.now_ns) == 0, "a flush beside a sublease is caught");
    return tap::done();
}

}  // namespace

int main() {
    if (broken::must_catch()) return run_broken();
    values();
    on_the_way();
    subleases();
    flushes();
    return tap::done();
}
