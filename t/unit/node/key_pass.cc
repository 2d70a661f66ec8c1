// SPDX-License-Identifier: BSD-3-Clause
// KeyPass: a pass gives each key of the node once, in portions, to whoever asks. The text of a portion is read as it was written,
// and damaged text is refused.
#include <map>
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

constexpr NodeSeconds now = 1000;
constexpr uint64_t at_ns = 5'000'000'000, same = at_ns + KeyPass::same_change_ns, later = same + 1;

struct Cache {
    Cache() : node(config()) {}
    static node::Config config() {
        node::Config config;
        config.memory_bytes = 16 << 20;
        config.workers = 1;
        return config;
    }
    void set(const std::string& key, NodeSeconds exptime = never_expires) {
        protocol::StoreOp op;
        op.key = node.key(key);
        op.value = "value";
        op.exptime = exptime;
        CHECK(node.store(op, now).status == protocol::StoreReply::Status::stored);
    }
    void fill(int count) {
        for (int i = 0; i < count; i++) set("key" + std::to_string(i));
    }

    node::Node node;
};

struct Taken {
    std::map<std::string, int> keys;
    uint64_t portions = 0;
    bool too_many = false, damaged = false;

    // To the end of the pass, or so many portions.
    void take(KeyPass& pass, Cache& cache, uint64_t portions_max = 1'000'000) {
        for (uint64_t i = 0; i < portions_max; i++) {
            std::string text;
            const bool more = pass.take(cache.node, now, at_ns, text);
            size_t count = 0;
            damaged |= !protocol::each_key(text, [&](std::string_view key) { count++, keys[std::string(key)]++; });
            too_many |= count > KeyPass::portion_keys;
            portions++;
            if (!more) return;
        }
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
    pass.begin(at_ns);
    Taken one, other;
    for (int i = 0; i < 10; i++) one.take(pass, cache, 1), other.take(pass, cache, 1);
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
    pass.begin(at_ns);
    once.take(pass, cache, 2);
    pass.begin(same);
    once.take(pass, cache);
    tap::ok(once.each(1000, 1), "two proxies ask for the same change: one pass");
    pass.begin(at_ns);
    twice.take(pass, cache, 2);
    pass.begin(later);
    pass.begin(later);
    twice.take(pass, cache);
    tap::ok(twice.each(1000, 2), "another change: one more");
    Taken third;
    pass.begin(later);
    third.take(pass, cache);
    tap::ok(third.each(1000, 1), "after the end a new one begins");
}

void of_an_empty_node() {
    Cache cache;
    KeyPass pass;
    pass.begin(at_ns);
    Taken taken;
    taken.take(pass, cache);
    tap::ok(taken.keys.empty() && taken.portions <= 1 + cache.node.page_count() / KeyPass::pages_max + 1, "a node without items");
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
    of_an_empty_node();
    texts();
    return tap::done();
}
