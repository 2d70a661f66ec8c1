// SPDX-License-Identifier: BSD-3-Clause
// KeyPass: a pass gives each key of the node, in portions that several proxies take, the recently used ones first. Only a key that
// is accessed during the pass may come twice. However many proxies ask, a portion has its time. The text of a portion is read as it
// was written, and damaged text is refused.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "node/service/key_pass.h"
#include "node/store/node.h"
#include "protocol/key_list.h"
#include "t/lib/tap.h"

using namespace farcached;
using node::KeyPass;

namespace {

constexpr NodeSeconds now = 100'000, began = now + 1;
constexpr uint64_t at_ns = 5'000'000'000, same = at_ns + KeyPass::same_change_ns, later = same + 1;

struct Cache {
    Cache() : node(config()) {}
    static node::Config config() {
        node::Config config;
        config.memory_bytes = 16 << 20;
        config.workers = 1;
        return config;
    }
    void set(const std::string& key, NodeSeconds exptime = never_expires, NodeSeconds at = now) {
        protocol::StoreOp op;
        op.key = node.key(key);
        op.value = "value";
        op.exptime = exptime;
        CHECK(node.store(op, at).status == protocol::StoreReply::Status::stored);
    }
    void fill(int count, NodeSeconds at = now) {
        for (int i = 0; i < count; i++) set("key" + std::to_string(i), never_expires, at);
    }
    void access(const std::string& key, NodeSeconds at) {
        protocol::GetOp op;
        op.key = node.key(key);
        const auto no_value = [](const protocol::ItemMeta&) -> char* { return nullptr; };
        CHECK(node.get(op, at, no_value).status == protocol::GetReply::Status::hit);
    }
    // All keys are stored long ago. Then key i is accessed so many seconds before the begin: ages[i % ages.size()], largest first.
    void fill(int count, const std::vector<uint32_t>& ages) {
        fill(count, began - 50'000);
        for (size_t age = 0; age < ages.size(); age++)
            for (int i = int(age); i < count; i += int(ages.size())) access("key" + std::to_string(i), began - ages[age]);
    }

    node::Node node;
};

struct Taken {
    std::map<std::string, int> keys;
    std::vector<std::string> order;
    uint64_t portions = 0;
    bool too_many = false, damaged = false;
    uint64_t now_ns = at_ns;  // of the next portion

    // To the end of the pass, or so many portions. True: the pass goes on.
    bool take(KeyPass& pass, Cache& cache, uint64_t portions_max = 1'000'000) {
        for (uint64_t i = 0; i < portions_max; i++) {
            std::string text;
            const bool more = pass.take(cache.node, began, now_ns, text);
            now_ns += KeyPass::portion_ns;
            const size_t before = order.size();
            damaged |= !protocol::each_key(text, [&](std::string_view key) { order.emplace_back(key), keys[order.back()]++; });
            too_many |= order.size() - before > KeyPass::portion_keys;
            portions++;
            if (!more) return false;
        }
        return true;
    }
    bool each(size_t count, int times) const {
        return keys.size() == count && std::ranges::all_of(keys, [=](const auto& one) { return one.second == times; });
    }
};

void passes() {
    Cache cache;
    KeyPass pass;
    Taken none;
    none.take(pass, cache);
    tap::ok(none.portions == 1 && none.keys.empty(), "before a pass begins there are no keys");
    cache.fill(5000);
    cache.set("gone", now);
    pass.begin(began, at_ns);
    Taken one, other;
    for (int i = 0; i < 10; i++) {
        one.take(pass, cache, 1);
        other.now_ns = one.now_ns;
        other.take(pass, cache, 1);
        one.now_ns = other.now_ns;
    }
    tap::ok(!one.keys.empty() && !other.keys.empty(), "two proxies share a pass");
    one.take(pass, cache);
    for (const auto& [key, times] : other.keys) one.keys[key] += times;
    tap::ok(one.each(5000, 1), "it gives each key once, and none of an item that has expired");
    tap::ok(!one.too_many && !other.too_many && !one.damaged, "in portions");
    Taken end;
    end.take(pass, cache);
    tap::ok(end.portions == 1 && end.keys.empty(), "then it has ended");
}

void begun_again() {
    Cache cache;
    cache.fill(1000);
    KeyPass pass;
    Taken once, twice;
    pass.begin(began, at_ns);
    once.take(pass, cache, 2);
    pass.begin(began, same);
    once.take(pass, cache);
    tap::ok(once.each(1000, 1), "two proxies ask for the same change: one pass");
    pass.begin(began, at_ns);
    twice.take(pass, cache, 2);
    pass.begin(began, later);
    pass.begin(began, later);
    twice.take(pass, cache);
    tap::ok(twice.each(1000, 2), "another change: one more");
    Taken third;
    pass.begin(began, later);
    third.take(pass, cache);
    tap::ok(third.each(1000, 1), "after the end a new one begins");
}

// K4: a hundred requests in the time of each portion, as of many proxies.
void portions_have_their_time() {
    Cache cache;
    cache.fill(1000);
    KeyPass pass;
    pass.begin(began, at_ns);
    constexpr uint64_t step_ns = KeyPass::portion_ns / 100;
    std::map<std::string, int> keys;
    std::vector<uint64_t> given_ns;
    bool goes_on = true;
    uint64_t now_ns = at_ns;
    for (; goes_on; now_ns += step_ns) {
        std::string text;
        goes_on = pass.take(cache.node, began, now_ns, text);
        if (!text.empty()) given_ns.push_back(now_ns);
        protocol::each_key(text, [&](std::string_view key) { keys[std::string(key)]++; });
    }
    const auto is_early = [](uint64_t before, uint64_t next) { return next - before < KeyPass::portion_ns; };
    tap::ok(std::ranges::adjacent_find(given_ns, is_early) == given_ns.end(), "each portion comes portion_ns after the one before");
    tap::is(given_ns.size(), size_t(1000) / KeyPass::portion_keys, "all are full");
    tap::is(keys.size(), size_t(1000), "who asks earlier receives none, and the pass goes on");
    std::string text;
    tap::ok(!pass.take(cache.node, began, now_ns, text) && text.empty(), "after its end it gives none at once");
}

// ---- recently used items first -------------------------------------------------------------------------

const std::vector<uint32_t> ages{10'001, 10'000, 1001, 1000, 101, 100, 11, 10};
constexpr int count = 8040;

size_t number_of(const std::string& key) { return size_t(std::stoul(key.substr(3))); }

void newest_first() {
    Cache cache;
    cache.fill(count, ages);
    KeyPass pass;
    pass.begin(began, at_ns);
    Taken taken;
    taken.take(pass, cache);
    const auto round = [](const std::string& key) { return 4 - (number_of(key) % ages.size() + 1) / 2; };
    tap::ok(std::ranges::is_sorted(taken.order, {}, round), "the keys come in the order of five rounds");
    tap::ok(taken.each(count, 1), "each of them once");
    tap::is(taken.portions, count / KeyPass::portion_keys + 1, "in full portions");
}

void accessed_during_the_pass(NodeSeconds at, const std::string& when) {
    Cache cache;
    cache.fill(count, ages);
    KeyPass pass;
    pass.begin(began, at_ns);
    std::mt19937_64 random(1);
    std::set<std::string> accessed;
    Taken taken;
    while (taken.take(pass, cache, 1)) {
        for (int i = 0; i < 20; i++) {
            const std::string key = "key" + std::to_string(random() % count);
            cache.access(key, at);
            accessed.insert(key);
        }
    }
    tap::is(taken.keys.size(), size_t(count), "keys accessed during the pass are not lost: " + when);
    const auto is_fair = [&](const auto& one) { return one.second == 1 || (one.second == 2 && accessed.contains(one.first)); };
    tap::ok(std::ranges::all_of(taken.keys, is_fair), "no other key comes twice, and no key three times");
    tap::ok(accessed.size() < count / 2, "most keys are not accessed");
}

void rounds_without_items() {
    constexpr int many = 60'000;
    Cache cache;
    cache.fill(many, began - 50'000);
    KeyPass pass;
    pass.begin(began, at_ns);
    Taken taken;
    taken.take(pass, cache);
    tap::ok(taken.each(many, 1), "a node with old items only");
    const uint64_t first_round = many / KeyPass::steps_max + 1;
    tap::ok(taken.portions <= first_round + many / KeyPass::portion_keys + 2, "the rounds between visit no page in vain");
}

void of_an_empty_node() {
    Cache cache;
    KeyPass pass;
    pass.begin(began, at_ns);
    Taken taken;
    taken.take(pass, cache);
    tap::ok(taken.keys.empty() && taken.portions == 1, "a node without items");
}

// ---- the text ------------------------------------------------------------------------------------------

std::string read(std::string_view text) {
    std::string keys;
    const bool whole = protocol::each_key(text, [&](std::string_view key) { keys += std::string(key) + "|"; });
    return keys + (whole ? "" : "damaged");
}

void texts() {
    std::string text;
    const std::string strange("\0\r\n", 3), longest(250, 'k');
    for (const std::string& key : {std::string("a"), strange, longest}) protocol::append_key(text, key);
    tap::is(read(text), "a|" + strange + "|" + longest + "|", "keys of any bytes and length");
    tap::is(read(""), "", "no key");
    uint64_t wrong = 0;
    for (size_t bytes = 1; bytes < text.size(); bytes++)
        wrong += !read(text.substr(0, bytes)).ends_with("damaged") && bytes != 3 && bytes != 3 + 5;
    tap::is(wrong, 0u, "a text that ends early is damaged, unless after a key");
    tap::is(read(std::string("\0\0k", 3)), "damaged", "a key without bytes");
    tap::is(read(std::string("\xfb\0", 2) + std::string(251, 'k')), "damaged", "one that is too long");
}

}  // namespace

int main() {
    passes();
    begun_again();
    portions_have_their_time();
    newest_first();
    accessed_during_the_pass(began, "in the second of its begin");
    accessed_during_the_pass(began + 5, "later");
    accessed_during_the_pass(began - 5, "by a thread whose clock is behind");
    rounds_without_items();
    of_an_empty_node();
    texts();
    return tap::done();
}
