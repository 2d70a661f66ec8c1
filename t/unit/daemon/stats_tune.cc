// SPDX-License-Identifier: BSD-3-Clause
// The commands that tune a running server, each with its answer; and `stats settings` after it.
#include "daemon/farcached/admin.h"
#include "daemon/stats/dump.h"
#include "t/unit/daemon/stats_fixture.h"

using namespace farcached;
using fixture::Rig;

namespace {

struct Exchange {
    const char* line;
    const char* answer;
};

constexpr Exchange exchanges[] = {
    {"cache_memlimit", "ERROR"},
    {"cache_memlimit x", "ERROR"},
    {"cache_memlimit 64 x y", "ERROR"},
    {"cache_memlimit 1", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"},
    {"cache_memlimit 1000000001", "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes"},
    {"cache_memlimit 9", "OK"},
    {"slabs", "ERROR"},
    {"slabs reassign", "ERROR"},
    {"slabs reassign 1", "ERROR"},
    {"slabs reassign 1 2 3", "ERROR"},
    {"slabs reassign x 1", "CLIENT_ERROR bad command line format"},
    {"slabs reassign 1 1", "SAME src and dst class are identical"},
    {"slabs reassign 1 2", "NOSPARE source class has no spare pages"},
    {"slabs reassign 0 1", "NOSPARE source class has no spare pages"},
    {"slabs reassign -1 1", "BADCLASS invalid src or dst class id"},
    {"slabs reassign 64 1", "BADCLASS invalid src or dst class id"},
    {"slabs automove", "ERROR"},
    {"slabs automove 2", "OK"},
    {"slabs automove 3", "ERROR"},
    {"slabs automove x", "CLIENT_ERROR bad command line format"},
    {"slabs automove ratio", "ERROR"},
    {"slabs automove ratio x", "ERROR"},
    {"slabs automove ratio 0.5", "OK"},
    {"slabs automove freeratio 0.25", "OK"},
    {"slabs automove window", "CLIENT_ERROR bad command line format"},
    {"slabs automove window 12", "OK"},
    {"lru", "ERROR"},
    {"lru foo", "ERROR"},
    {"lru tune", "ERROR"},
    {"lru tune 1 2 3", "ERROR"},
    {"lru tune x 20 1 1", "ERROR"},
    {"lru tune 10 80 1 1", "ERROR hot and warm pcts must not exceed 80"},
    {"lru tune 10 20 0 1", "ERROR hot/warm age factors must be greater than 0"},
    {"lru tune 10 25 0.1 2.5", "OK"},
    {"lru mode", "ERROR"},
    {"lru mode x", "ERROR"},
    {"lru mode flat", "OK"},
    {"lru temp_ttl", "ERROR"},
    {"lru temp_ttl x", "ERROR"},
    {"lru temp_ttl 7", "OK"},
    {"lru_crawler", "ERROR"},
    {"lru_crawler foo", "ERROR"},
    {"lru_crawler enable x", "ERROR"},
    {"lru_crawler enable", "ERROR failed to start lru crawler thread"},
    {"lru_crawler sleep", "ERROR"},
    {"lru_crawler sleep x", "CLIENT_ERROR bad command line format"},
    {"lru_crawler sleep 1000001", "CLIENT_ERROR sleep must be one second or less"},
    {"lru_crawler sleep 1000000", "OK"},
    {"lru_crawler tocrawl x", "CLIENT_ERROR bad command line format"},
    {"lru_crawler tocrawl 30", "OK"},
    {"lru_crawler crawl", "ERROR"},
    {"lru_crawler crawl 0", "BADCLASS invalid class id"},
    {"lru_crawler crawl 64", "BADCLASS invalid class id"},
    {"lru_crawler crawl x", "BADCLASS invalid class id"},
    {"lru_crawler crawl 1,x", "BADCLASS invalid class id"},
    {"lru_crawler crawl hash", "ERROR an unknown error happened"},
    {"lru_crawler crawl 1,2,3", "OK"},
    {"lru_crawler crawl all", "BUSY currently processing crawler request"},  // no crawler thread runs here
    {"lru_crawler disable", "OK"},
    {"lru_crawler disable", "OK"},
    {"lru_crawler crawl all", "CLIENT_ERROR lru crawler disabled"},
    {"lru_crawler metadump", "ERROR"},
    {"extstore", "ERROR"},
    {"extstore item_size", "ERROR"},
    {"extstore item_size 100", "OK"},
    {"extstore max_frag 0.5", "OK"},
    {"extstore drop_unread 1", "OK"},
    {"extstore free_memchunks 1 2", "OK"},
    {"extstore foo 1", "ERROR"},
    {"refresh_certs", "Error TLS not enabled"},
};

constexpr Exchange settings_after[] = {
    {"maxbytes", "9437184"},           {"slab_automove", "2"},
    {"slab_automove_ratio", "0.50"},   {"slab_automove_freeratio", "0.250"},
    {"slab_automove_window", "12"},    {"hot_lru_pct", "10"},
    {"warm_lru_pct", "25"},            {"hot_max_factor", "0.10"},
    {"warm_max_factor", "2.50"},       {"lru_segmented", "no"},
    {"temp_lru", "yes"},               {"temporary_ttl", "7"},
    {"lru_crawler_sleep", "1000000"},  {"lru_crawler_tocrawl", "30"},
    {"lru_crawler", "no"},             {"ext_item_size", "100"},
    {"ext_max_frag", "0.50"},          {"ext_drop_unread", "yes"},
};

void answers() {
    Rig rig;
    for (const Exchange& e : exchanges)
        tap::is(rig.tune(e.line), std::string(e.answer) + "\r\n", e.line);
    for (const Exchange& e : settings_after)
        tap::is(rig.stat(e.line, "settings"), e.answer, std::string("stats settings: ") + e.line);
    tap::is(rig.tune("lru temp_ttl -1"), "OK\r\n", "lru temp_ttl -1");
    tap::is(rig.stat("temp_lru", "settings"), "no", "turns the temporary LRU off");
    tap::is(rig.tune("lru_crawler enable"), "OK\r\n", "lru_crawler enable, after it was disabled");
    tap::is(rig.stat("limit_maxbytes"), "9437184", "cache_memlimit reached the node");
}

void class_lists() {
    tap::is(daemon::parse_crawl_classes("all"), ~UINT64_C(0), "all");
    tap::is(daemon::parse_crawl_classes("1,3"), UINT64_C(10), "1,3");
    tap::is(daemon::parse_crawl_classes("63"), UINT64_C(1) << 63, "63");
    for (const char* bad : {"", "0", "64", ",", "1,,2", "a", "1 "})
        tap::is(daemon::parse_crawl_classes(bad), UINT64_C(0), std::string("no class list: ") + bad);
}

std::string line_of(void (*append)(OutBuffer&, const node::ItemView&), const node::ItemView& item) {
    OutBuffer out;
    append(out, item);
    return std::string(out.data(), out.size());
}

void metadump(OutBuffer& out, const node::ItemView& item) {
    daemon::append_metadump_line(out, item, 1000);
}

void dump_lines() {
    node::ItemView item;
    item.key = std::string_view("a%\x01 ~\xff", 6);
    item.meta.cas = 7;
    item.meta.item_bytes = 63;
    item.meta.size_class = 2;
    item.meta.last_access = 5;
    item.meta.flags = 9;
    tap::is(line_of(metadump, item), "key=a%25%01%20~%FF exp=-1 la=1005 cas=7 fetch=no cls=2 size=63 flags=9 \n",
            "metadump: the key is URI-encoded");
    item.meta.exptime = 30;
    item.meta.fetched = true;
    item.key = "foo";
    tap::is(line_of(metadump, item), "key=foo exp=1030 la=1005 cas=7 fetch=yes cls=2 size=63 flags=9 \n",
            "metadump: expiry as Unix time");
    tap::is(line_of(daemon::append_mgdump_line, item), "mg foo\r\n", "mgdump");
    item.meta.key_binary = true;
    tap::is(line_of(daemon::append_mgdump_line, item), "mg Zm9v b\r\n", "mgdump: a key that came as base64");
    item.meta.key_binary = false;
    item.key = "a\nb";
    tap::is(line_of(daemon::append_mgdump_line, item), "mg YQpi b\r\n", "mgdump: one that would break the line");
}

void walk() {
    Rig rig;
    auto dump = [&](bool mgdump, uint64_t classes) {
        OutBuffer out;
        daemon::DumpWalk walk(mgdump, classes);
        while (walk.more(out, rig.node, rig.server.now(), rig.server.started_unix(), 1 << 20)) {}
        return std::string(out.data(), out.size());
    };
    tap::is(dump(false, ~UINT64_C(0)), "OK\r\nEND\r\n", "metadump of an empty cache");
    tap::is(dump(true, ~UINT64_C(0)), "OK\r\nEN\r\n", "mgdump of an empty cache");
    rig.store("foo", "bar");
    tap::is(dump(true, ~UINT64_C(0)), "OK\r\nmg foo\r\nEN\r\n", "mgdump of one item");
    tap::is(dump(true, UINT64_C(1) << 1), "OK\r\nmg foo\r\nEN\r\n", "of its class");
    tap::is(dump(true, UINT64_C(1) << 2), "OK\r\nEN\r\n", "of another");
    for (int i = 0; i < 3000; i++) rig.store("key" + std::to_string(i), "x");
    rig.store("gone", "x", rig.server.now() + 1);
    rig.server.clock += 5;
    OutBuffer out;
    daemon::DumpWalk stepwise(true, ~UINT64_C(0));
    std::string all;
    bool more = true, bounded = true;
    for (int i = 0; more && i < 100000; i++) {
        more = stepwise.more(out, rig.node, rig.server.now(), 0, 1000);
        bounded = bounded && out.size() < 100000;
        all.append(out.data(), out.size());
        out.clear(1 << 20);
    }
    tap::ok(!more, "a walk in small steps ends");
    tap::ok(bounded, "each step is small");
    size_t found = 0;
    for (size_t at = all.find("mg "); at != std::string::npos; at = all.find("mg ", at + 1)) found++;
    tap::is(found, 3001u, "every item was seen, an expired one was not");
}

}  // namespace

int main() {
    answers();
    class_lists();
    dump_lines();
    walk();
    return tap::done();
}
