// SPDX-License-Identifier: BSD-3-Clause
// The maintenance thread: memory of expired items comes back, by itself or when asked; delayed flushes happen
// at their second and only then.
#include "t/unit/daemon/stats_fixture.h"

using namespace farcached;
using fixture::Rig;
using fixture::until;
using namespace std::chrono_literals;

namespace {

// Background passes start only when the test asks for one: the interval is longer than the test.
node::CrawlerOptions on_demand() {
    node::CrawlerOptions options;
    options.rest_min = 1h;
    options.rest_max = 1h;
    return options;
}

node::CrawlerOptions often() {
    node::CrawlerOptions options;
    options.rest_min = 1ms;
    options.rest_max = 5ms;
    return options;
}

void store_some(Rig& rig) {
    for (int i = 0; i < 500; i++) rig.store("short" + std::to_string(i), "x", rig.server.now() + 10);
    for (int i = 0; i < 300; i++) rig.store("long" + std::to_string(i), "x");
}

bool is_there(Rig& rig, std::string_view key) {
    protocol::GetOp get;
    get.key = rig.node.key(key);
    auto no_value = [](const protocol::ItemMeta&) -> char* { return nullptr; };
    return rig.node.get(get, rig.server.now(), no_value).status == protocol::GetReply::Status::hit;
}

void asked() {
    Rig rig(on_demand());
    rig.crawler.start();
    store_some(rig);
    tap::is(rig.stat("curr_items"), "800", "800 items");
    rig.server.clock += 20;
    tap::is(rig.tune("lru_crawler crawl 63"), "OK\r\n", "crawl of a class that has none");
    tap::ok(until([&] { return rig.stat("lru_crawler_running") == "0"; }), "ends");
    tap::is(rig.stat("crawler_reclaimed"), "0", "with nothing reclaimed");
    tap::is(rig.tune("lru_crawler crawl all"), "OK\r\n", "crawl all");
    tap::ok(until([&] { return rig.stat("lru_crawler_running") == "0"; }), "ends");
    tap::is(rig.stat("curr_items"), "300", "the expired items are gone");
    tap::is(rig.stat("crawler_reclaimed"), "500", "crawler_reclaimed");
    tap::is(rig.stat("crawler_items_checked"), "800", "crawler_items_checked");
    tap::is(rig.stat("lru_crawler_starts"), "2", "lru_crawler_starts");
    tap::is(rig.stats("reset"), "RESET\r\n", "stats reset");
    tap::is(rig.stat("lru_crawler_starts"), "0", "counts from 0");
}

void by_itself() {
    Rig rig(often());
    rig.crawler.start();
    store_some(rig);
    rig.server.clock += 20;
    tap::ok(until([&] { return rig.stat("curr_items") == "300"; }), "expired items go by themselves");
    tap::is(rig.tune("lru_crawler disable"), "OK\r\n", "disabled");
    tap::ok(until([&] { return rig.stat("lru_crawler_running") == "0"; }), "it stops");
    rig.store("late", "x", rig.server.now() + 10);
    rig.server.clock += 20;
    tap::is(rig.tune("lru_crawler crawl all"), "CLIENT_ERROR lru crawler disabled\r\n", "and takes no orders");
    tap::is(rig.stat("curr_items"), "301", "nor looks by itself");
    tap::is(rig.tune("lru_crawler enable"), "OK\r\n", "enabled again");
    tap::ok(until([&] { return rig.stat("curr_items") == "300"; }), "it goes on");
}

void limited() {
    Rig rig(on_demand());
    rig.tune("lru_crawler tocrawl 1");
    rig.crawler.start();
    std::string value(20000, 'v');
    for (int i = 0; i < 60; i++) rig.store("big" + std::to_string(i), value, rig.server.now() + 10);
    rig.server.clock += 20;
    int passes = 0;
    while (rig.stat("curr_items") != "0" && passes < 200) {
        rig.tune("lru_crawler crawl all");
        passes++;
        until([&] { return !rig.crawler.running(); });
    }
    tap::ok(passes > 2, "tocrawl: one pass does not see all");
    tap::is(rig.stat("curr_items"), "0", "several do: each begins where the last one ended");
}

void delayed_flush() {
    Rig rig(on_demand());
    rig.tune("lru_crawler disable");
    rig.crawler.start();
    rig.store("a", "x");
    rig.admin->flush_at(rig.server.now() + 3);
    rig.server.clock += 2;
    uint64_t looks = rig.looks;
    until([&] { return rig.looks >= looks + 3; });
    tap::is(rig.stat("node_flushes", "proxy"), "0", "not before its second");
    rig.server.clock += 1;
    tap::ok(until([&] { return rig.stat("node_flushes", "proxy") == "1"; }), "at its second, though disabled");
    tap::ok(!is_there(rig, "a"), "what was there is gone");
    rig.admin->flush_at(rig.server.now() + 1000);
    rig.admin->flush_at(rig.server.now() + 1);
    rig.server.clock += 1;
    tap::ok(until([&] { return rig.stat("node_flushes", "proxy") == "2"; }), "a later order takes an earlier one's place");
    rig.tune("lru_crawler enable");
    rig.admin->flush_at(rig.server.now() + 1);
    rig.node.flush_all(rig.server.now());
    rig.store("b", "x");
    rig.server.clock += 1;
    // A pass runs after all work that is due.
    rig.tune("lru_crawler crawl all");
    until([&] { return !rig.crawler.running(); });
    tap::is(rig.stat("node_flushes", "proxy"), "3", "an immediate flush takes the place of a delayed one");
    tap::ok(is_there(rig, "b"), "what was stored after it stays");
}

// The crawler rests for a second at a time.
void begin_to_rest(Rig& rig) {
    rig.tune("lru_crawler sleep 1000000");
    rig.crawler.start();
    for (int i = 0; i < 5000; i++) rig.store("k" + std::to_string(i), "x");
    rig.tune("lru_crawler crawl all");
    until([&] { return rig.stat("crawler_items_checked") != "0"; });
}

void stops_at_once() {
    Rig rig(on_demand());
    begin_to_rest(rig);
    auto before = std::chrono::steady_clock::now();
    rig.crawler.stop();
    tap::ok(std::chrono::steady_clock::now() - before < 900ms, "stop() does not wait for a rest to end");
}

// A flush does not wait for it.
void flush_during_a_rest() {
    Rig rig(on_demand());
    begin_to_rest(rig);
    rig.admin->flush_at(rig.server.now() + 1);
    auto before = std::chrono::steady_clock::now();
    rig.server.clock += 1;
    tap::ok(until([&] { return !is_there(rig, "k0"); }), "a delayed flush during a pass");
    tap::ok(std::chrono::steady_clock::now() - before < 700ms, "does not wait for a rest to end");
}

}  // namespace

int main() {
    asked();
    by_itself();
    limited();
    delayed_flush();
    flush_during_a_rest();
    stops_at_once();
    return tap::done();
}
