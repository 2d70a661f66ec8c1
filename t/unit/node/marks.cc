// SPDX-License-Identifier: BSD-3-Clause
// Marks: a value from elsewhere is stored only if no mutation of its key was executed since its mark was taken.
#include <functional>
#include <string>

#include "base/check.h"
#include "node/store/node.h"
#include "node/store/prefix_deletes.h"
#include "t/lib/tap.h"

using namespace farcached;

namespace {

using Status = protocol::StoreReply::Status;
using protocol::StoreOp;

constexpr NodeSeconds now = 1000;

struct Cache {
    Cache() : node(config()) {}
    static node::Config config() {
        node::Config config;
        config.memory_bytes = 16 << 20;
        config.workers = 1;
        return config;
    }

    StoreOp op(std::string_view key, StoreOp::Mode mode, std::string_view value) {
        StoreOp op;
        op.key = node.key(key);
        op.mode = mode;
        op.value = value;
        return op;
    }
    protocol::StoreReply ask_mark(std::string_view key) {
        StoreOp compare = op(key, StoreOp::Mode::cas, "");
        compare.cas_compare = 0;
        return node.store(compare, now);
    }
    uint64_t mark(std::string_view key) {
        const protocol::StoreReply reply = ask_mark(key);
        CHECK(reply.status == Status::not_found);
        return reply.cas;
    }
    Status fill(std::string_view key, uint64_t mark) {
        StoreOp fill = op(key, StoreOp::Mode::cas, "old");
        fill.cas_compare = mark;
        return node.store(fill, now).status;
    }
    Status store(std::string_view key, StoreOp::Mode mode = StoreOp::Mode::set) {
        return node.store(op(key, mode, "new"), now).status;
    }
    void remove(std::string_view key) {
        protocol::DeleteOp gone;
        gone.key = node.key(key);
        node.remove(gone, now);
    }
    protocol::GetReply get(std::string_view key, std::optional<NodeSeconds> touch = {}, std::optional<NodeSeconds> vivify = {}) {
        protocol::GetOp asked;
        asked.key = node.key(key);
        asked.touch = touch;
        asked.vivify = vivify;
        return node.get(asked, now, [](const protocol::ItemMeta&) -> char* { return nullptr; });
    }

    node::Node node;
};

void unchanged() {
    Cache cache;
    const uint64_t mark = cache.mark("k");
    tap::ok(protocol::is_mark(mark), "a missing key has a mark");
    tap::is(cache.mark("k"), mark, "that asking for it does not change");
    cache.get("k");
    tap::ok(cache.fill("k", mark + 1) == Status::not_found, "another mark: nothing is stored");
    tap::ok(cache.get("k").status == protocol::GetReply::Status::miss, "so the key is missing");
    tap::ok(cache.fill("k", mark) == Status::stored, "the same mark: it is stored");
    tap::ok(cache.ask_mark("k").status == Status::exists, "a key that is here has no mark");
    tap::ok(cache.fill("k", mark) == Status::exists, "and its value stays");
    Cache other;
    tap::ok(other.fill("k", mark) == Status::not_found, "a mark is of one run of a node");
}

void mutations() {
    struct Mutation {
        const char* name;
        std::function<void(Cache&)> execute;
    };
    const Mutation all[] = {
        {"a delete that finds nothing", [](Cache& cache) { cache.remove("k"); }},
        {"a set and a delete", [](Cache& cache) { cache.store("k"), cache.remove("k"); }},
        {"a replace that finds nothing", [](Cache& cache) { cache.store("k", StoreOp::Mode::replace); }},
        {"a forget", [](Cache& cache) { cache.node.forget(cache.node.key("k"), now); }},
        {"an incr that finds nothing", [](Cache& cache) {
             protocol::ArithOp op;
             op.key = cache.node.key("k");
             cache.node.arith(op, now);
         }},
        {"a touch that finds nothing", [](Cache& cache) { cache.get("k", now + 9); }},
        {"a vivify and a delete", [](Cache& cache) { cache.get("k", {}, now + 9), cache.remove("k"); }},
        {"a flush", [](Cache& cache) { cache.node.flush_all(now); }},
        {"a delete by prefix", [](Cache& cache) { CHECK(cache.node.prefixes().remove("k", now)); }},
    };
    for (const Mutation& one : all) {
        Cache cache;
        const uint64_t mark = cache.mark("k");
        one.execute(cache);
        tap::ok(cache.fill("k", mark) == Status::not_found, std::string(one.name) + " changes the mark");
    }
}

}  // namespace

int main() {
    unchanged();
    mutations();
    return tap::done();
}
