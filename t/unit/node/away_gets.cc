// SPDX-License-Identifier: BSD-3-Clause
// Gets of values on the disk (node/store/away_gets.h), and what other requests do to their items meanwhile.
#include "node/store/away_gets.h"

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "node/store/away_items.h"
#include "node/store/node.h"
#include "t/lib/tap.h"
#include "t/unit/node/disk_fixture.h"

namespace farcached::node {
namespace {

using namespace disk_tests;
using protocol::GetReply;

constexpr NodeSeconds now = 1000;

// A node of one megabyte with a disk of half a megabyte; values of two kilobytes.
struct Cache {
    explicit Cache(uint32_t depth, bool ring) {
        DiskConfig of_disk = small(folder, ring);
        of_disk.depth = depth;
        disk = open(of_disk);
        node = std::make_unique<Node>(node_with(*disk, 1024 * kib));
        const auto note = [this](const AwayGets::Done& done) {
            CHECK(!over.contains(done.asker));
            const bool hit = done.reply.status == GetReply::Status::hit;
            over[done.asker] = hit ? std::optional<std::string>(done.value) : std::nullopt;
            cas[done.asker] = done.reply.meta.cas;
        };
        gets = std::make_unique<AwayGets>(*node, note, [](uint64_t) { return true; });
    }

    static std::string value(std::string_view key) {
        std::string all;
        while (all.size() < 2000) all += key;
        all.resize(2000);
        return all;
    }
    uint64_t set(std::string_view key, std::string_view bytes) {
        protocol::StoreOp op;
        op.key = node->key(key);
        op.value = bytes;
        const protocol::StoreReply reply = node->store(op, now);
        CHECK(reply.status == protocol::StoreReply::Status::stored);
        return reply.cas;
    }
    void remove(std::string_view key) {
        protocol::DeleteOp op;
        op.key = node->key(key);
        node->remove(op, now);
    }
    // A get as a session makes it. The value, if it is in memory.
    std::optional<std::string> get(std::string_view key, GetReply& reply, Place& place) {
        protocol::GetOp op;
        op.key = node->key(key);
        op.no_bump = true;
        std::string bytes;
        place = {};
        reply = node->get(op, now, [&](const protocol::ItemMeta& meta) {
            bytes.resize(meta.value_len);
            return bytes.data();
        }, nullptr, &place);
        return reply.status == GetReply::Status::hit && place == Place{} ? std::optional(bytes) : std::nullopt;
    }
    bool is_away(std::string_view key) {
        GetReply reply;
        Place place;
        get(key, reply, place);
        return place != Place{};
    }
    void fill(int items) {
        for (; items > 0; items--) {
            const std::string key = "fill" + std::to_string(filled++);
            set(key, value(key));
            settle(*disk);
        }
    }
    // Stored, and moved to the disk. The cas of the last one.
    uint64_t store_away(std::initializer_list<std::string_view> keys) {
        uint64_t unique = 0;
        for (const std::string_view key : keys) unique = set(key, value(key));
        for (const std::string_view key : keys)
            while (!is_away(key)) fill(1);
        return unique;
    }
    // False: its value is in memory, or nowhere.
    bool ask(uint64_t asker, std::string_view key) {
        GetReply reply;
        Place place;
        get(key, reply, place);
        if (place == Place{}) return false;
        gets->get(asker, key, reply, place);
        return true;
    }
    // What another session's get of it does when its value comes.
    void return_to_memory(std::string_view key) {
        GetReply reply;
        Place place;
        get(key, reply, place);
        CHECK(place != Place{});
        node->away().found(node->key(key), place, value(key), now);
        CHECK(!is_away(key));
    }
    void finish(size_t asked) {
        while (over.size() < asked) {
            pollfd waiting{gets->fd(), POLLIN, 0};
            CHECK(poll(&waiting, 1, 60'000) == 1 || errno == EINTR);
            gets->ready(now);
        }
    }
    // New values until the disk has dropped all that it has now.
    void turn_disk_over() {
        const uint64_t allocated = disk->statistics().page_allocs;
        while (disk->statistics().page_allocs < allocated + disk->statistics().page_count) fill(1);
    }

    Folder folder;
    std::unique_ptr<DiskStore> disk;
    std::unique_ptr<Node> node;
    std::unique_ptr<AwayGets> gets;
    std::map<uint64_t, std::optional<std::string>> over;
    std::map<uint64_t, uint64_t> cas;
    int filled = 0;
};

void more_than_fit(bool ring) {
    Cache cache(2, ring);
    for (int i = 0; i < 20; i++) cache.set("k" + std::to_string(i), Cache::value("k" + std::to_string(i)));
    while (!cache.is_away("k19") || !cache.is_away("k0")) cache.fill(1);
    size_t asked = 0, right = 0;
    for (int i = 0; i < 20; i++) asked += cache.ask(uint64_t(i), "k" + std::to_string(i)) ? 1 : 0;
    cache.finish(asked);
    for (const auto& [i, got] : cache.over) right += got == Cache::value("k" + std::to_string(i)) ? 1 : 0;
    tap::ok(asked > 10 && right == asked, "more gets than reads at once: each has its value");
}

void changed_meanwhile(bool ring) {
    Cache cache(8, ring);
    const uint64_t unique = cache.store_away({"deleted", "set"});
    tap::ok(cache.ask(1, "set") && cache.ask(2, "deleted"), "gets of two values on the disk");
    cache.set("set", "new");
    cache.remove("deleted");
    cache.finish(2);
    tap::ok(cache.over[1] == Cache::value("set") && cache.cas[1] == unique, "a get before a set has the old value and its cas");
    tap::ok(cache.over[2] == Cache::value("deleted"), "one before a delete, too");
    GetReply reply;
    Place place;
    tap::ok(cache.get("set", reply, place) == "new", "and does not bring it back");
    tap::ok(!cache.get("deleted", reply, place) && !cache.is_away("deleted"), "nor what was deleted");
}

// One read at a time: the second get waits until the first one is over.
void lost_meanwhile(bool ring) {
    Cache cache(1, ring);
    cache.store_away({"other", "lost"});
    tap::ok(cache.ask(1, "other") && cache.ask(2, "lost"), "two gets, one of which waits");
    cache.turn_disk_over();
    cache.finish(2);
    GetReply reply;
    Place place;
    tap::ok(!cache.over[2].has_value(), "a value that the disk has dropped since: a miss");
    tap::ok(!cache.get("lost", reply, place) && !cache.is_away("lost"), "and it stays one");
}

// An item is never away and in memory by turns, to a reader: a miss says that it was gone.
void moved_meanwhile(bool ring) {
    Cache cache(1, ring);
    const uint64_t unique = cache.store_away({"other", "moved"});
    tap::ok(cache.ask(1, "other") && cache.ask(2, "moved"), "two gets, one of which waits");
    cache.return_to_memory("moved");
    cache.turn_disk_over();
    GetReply reply;
    Place place;
    cache.get("moved", reply, place);
    const bool there = reply.status == GetReply::Status::hit;
    cache.finish(2);
    tap::ok(!there || (cache.over[2] == Cache::value("moved") && cache.cas[2] == unique),
            "an item that moved while its get waited is found where it is");
    if (!there) tap::comment("it was evicted");
}

void replaced_meanwhile(bool ring) {
    Cache cache(1, ring);
    cache.store_away({"other", "replaced"});
    tap::ok(cache.ask(1, "other") && cache.ask(2, "replaced"), "two gets, one of which waits");
    cache.turn_disk_over();
    const uint64_t unique = cache.set("replaced", "new");
    cache.finish(2);
    tap::ok(cache.over[2] == "new" && cache.cas[2] == unique, "an item that was replaced while its get waited");
}

}  // namespace
}  // namespace farcached::node

int main() {
    using namespace farcached::node;
    for (const bool ring : {true, false}) {
        tap::comment(ring ? "by io_uring" : "by threads");
        more_than_fit(ring);
        changed_meanwhile(ring);
        lost_meanwhile(ring);
        moved_meanwhile(ring);
        replaced_meanwhile(ring);
    }
    return tap::done();
}
