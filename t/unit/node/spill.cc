// SPDX-License-Identifier: BSD-3-Clause
// Values that move to a small disk while several threads read, store and delete (node/store/spill.h). The disk drops segments all
// the time, so stubs die in the middle of other stores. A value names its key and version: no get has another key's, or an older
// one than its thread stored last under its own keys.
#include "node/store/spill.h"

#include <poll.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "node/peer/peer_store.h"
#include "node/store/away_gets.h"
#include "t/lib/tap.h"
#include "t/unit/node/disk_fixture.h"
#include "t/unit/node/invariants.h"

namespace farcached::node {

namespace {

using namespace disk_tests;

constexpr NodeSeconds now = 100;
constexpr int threads = 4, keys_of_each = 3000, rounds = 40'000;
constexpr uint64_t evictions_min = 10;

struct Worker {
    Worker(Node& of, int with_number) : node(of), number(with_number) {}

    Node& node;
    const int number;
    std::array<uint32_t, keys_of_each> last{};  // version stored last; 0: deleted, or never stored
    uint64_t wrong = 0, hits = 0, from_disk = 0, refused = 0;
    std::vector<std::pair<int, uint32_t>> asked;  // key, and its version then

    std::string key_of(int key) const { return "thread" + std::to_string(number) + ":" + std::to_string(key); }
    static std::string value_of(const std::string& key, uint32_t version) {
        std::string value = key + "=" + std::to_string(version) + ".";
        while (value.size() < 600 + version % 7 * 300) value += value.substr(0, 200);
        return value;
    }
    void check(const std::string& key, uint32_t version, std::string_view value) {
        hits++;
        if (value != value_of(key, version)) wrong++;
    }
    void run() {
        std::minstd_rand random(unsigned(number) + 1);
        AwayGets gets(
            node,
            [this](const AwayGets::Done& done) {
                const auto [key, version] = asked[done.asker];
                from_disk++;
                if (done.reply.status == protocol::GetReply::Status::hit) check(key_of(key), version, done.value);
            },
            [](uint64_t) { return true; });
        const auto goes_on = [&](int round) {  // a disk that is slow drops values, and takes longer to be full
            return round < rounds || (round < 20 * rounds && node.config().disk->statistics().page_evictions <= evictions_min);
        };
        for (int round = 0; goes_on(round); round++) {
            const int number_of_key = int(random() % keys_of_each);
            const std::string key = key_of(number_of_key);
            switch (random() % 8) {
                case 0: {
                    protocol::DeleteOp op;
                    op.key = node.key(key);
                    node.remove(op, now);
                    last[size_t(number_of_key)] = 0;
                    break;
                }
                case 1:
                case 2:
                case 3: {
                    protocol::StoreOp op;
                    op.key = node.key(key);
                    const std::string value = value_of(key, uint32_t(round + 1));
                    op.value = value;
                    op.forget = true;
                    const bool stored = node.store(op, now).status == protocol::StoreReply::Status::stored;
                    last[size_t(number_of_key)] = stored ? uint32_t(round + 1) : 0;
                    refused += !stored;
                    break;
                }
                default: get(gets, number_of_key);
            }
        }
    }
    void get(AwayGets& gets, int number_of_key) {
        const std::string key = key_of(number_of_key);
        std::string value;
        Place place{};
        const protocol::GetReply reply = disk_tests::get(node, key, now, value, place);
        const uint32_t version = last[size_t(number_of_key)];
        if (reply.status != protocol::GetReply::Status::hit) return;
        if (place == Place{}) return check(key, version, value);
        const uint64_t before = from_disk;
        asked.emplace_back(number_of_key, version);
        gets.get(asked.size() - 1, key, reply, place);
        while (from_disk == before) {
            pollfd ready{gets.fd(), POLLIN, 0};
            CHECK(poll(&ready, 1, 60'000) == 1);
            gets.ready(now);
        }
    }
};

void run(bool drop_unread, uint32_t recache_rate) {
    Folder folder;
    const std::unique_ptr<DiskStore> disk = open(small(folder, /* ring= */ true));
    Config config = node_with(*disk, 4096 * kib);
    config.partitions = 8;
    config.spill.drop_unread = drop_unread;
    config.spill.recache_rate = recache_rate;
    Node node(config);
    std::vector<Worker> workers;
    for (int i = 0; i < threads; i++) workers.emplace_back(node, i);
    std::vector<std::thread> running;
    for (Worker& worker : workers) running.emplace_back([&worker] { worker.run(); });
    for (std::thread& one : running) one.join();
    uint64_t wrong = 0, hits = 0, from_disk = 0, refused = 0;
    for (const Worker& worker : workers) {
        wrong += worker.wrong;
        hits += worker.hits;
        from_disk += worker.from_disk;
        refused += worker.refused;
    }
    const std::string with = std::string(drop_unread ? "unread values dropped" : "all values moved") + ", " +
                             std::to_string(recache_rate) + ": ";
    tap::is(wrong, 0u, with + "no wrong value; stores without memory: " + std::to_string(refused));
    tap::ok(hits > 1000 && from_disk > 100, with + "hits " + std::to_string(hits) + ", from the disk " + std::to_string(from_disk));
    tap::ok(disk->statistics().page_evictions > evictions_min, with + "the disk dropped segments");
    tap::is(wrong_in(node, now), "", with + "index, slots and counters agree");
}

// An old item that is as small as a stub, and values that come later.
void beside_small_item() {
    Folder folder;
    DiskConfig roomy = small(folder, /* ring= */ true, /* segments= */ 200);
    roomy.buffer_bytes = roomy.segment_bytes;  // a page of items moves at once, and none may be dropped
    const std::unique_ptr<DiskStore> disk = open(roomy);
    Node node(node_with(*disk, 4096 * kib));
    constexpr int values = 4000;
    const auto set = [&](const std::string& key, const std::string& value, NodeSeconds when) {
        protocol::StoreOp op;
        op.key = node.key(key);
        op.value = value;
        CHECK(node.store(op, when).status == protocol::StoreReply::Status::stored);
    };
    set("small", "x", now);
    for (int i = 0; i < values; i++) {
        set("key" + std::to_string(i), std::string(2000, 'v'), now + NodeSeconds(i) / 100);
        settle(*disk);
    }
    int lost = 0;
    for (int i = 0; i < values; i++) {
        std::string value;
        Place place{};
        const protocol::GetReply reply = disk_tests::get(node, "key" + std::to_string(i), now + values / 100, value, place);
        lost += reply.status != protocol::GetReply::Status::hit;
    }
    tap::is(disk->statistics().dropped_no_buffer, 0u, "no value found the disk's buffers full");
    tap::is(lost, 0, "values moved beside an old small item: all are there");
}

// Partitions share few pages, their values are leased, and another node takes them. A partition that has nothing but stubs and
// leased values gets a page of another one: its stubs stay.
void beside_leases() {
    constexpr int values = 6000;
    PeerStore store;
    store.came_up(/* incarnation= */ 1, /* item_bytes_max= */ uint64_t(512) << 10);
    Config config;
    config.memory_bytes = uint64_t(4) << 20;
    config.partitions = 8;
    config.peer = &store;
    config.spill.drop_unread = false;
    config.spill.recache_rate = 0;
    config.seed = 1;
    config.lease.enabled = true;
    config.lease.term_ms = 400;
    Node node(config);
    for (int i = 0; i < values; i++) {
        const NodeSeconds when = now + NodeSeconds(i) / 2000;
        const std::string key = "key" + std::to_string(i), value(2000, 'v');
        protocol::StoreOp op;
        op.key = node.key(key);
        op.value = value;
        CHECK(node.store(op, when).status == protocol::StoreReply::Status::stored);
        protocol::GetOp get;
        get.key = node.key(key);
        get.lease = true;
        std::string bytes;
        const auto sink = [&](const protocol::ItemMeta& meta) {
            bytes.resize(meta.value_len);
            return bytes.data();
        };
        node.get(get, when, sink);
        PeerStore::Work work;
        store.take(work);
        for (const auto& record : work.puts) store.stored(*record);
    }
    const PeerStatistics statistics = store.statistics();
    tap::ok(statistics.records_sent > values / 2, "leased values: most of them moved");
    tap::is(statistics.records_forgotten, 0u, "and kept their stubs");
}

}  // namespace

}  // namespace farcached::node

int main() {
    farcached::node::beside_leases();
    farcached::node::beside_small_item();
    farcached::node::run(/* drop_unread= */ false, /* recache_rate= */ 3);
    farcached::node::run(/* drop_unread= */ false, /* recache_rate= */ 0);
    farcached::node::run(/* drop_unread= */ true, /* recache_rate= */ 1);
    return tap::done();
}
