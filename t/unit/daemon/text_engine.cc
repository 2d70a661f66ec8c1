// SPDX-License-Identifier: BSD-3-Clause
// The text engine on a real node: conversations, each also cut at every byte; limits; counters;
// watching.
#include <string>
#include <string_view>

#include "daemon/remote/cluster_view.h"
#include "t/lib/tap.h"
#include "t/unit/daemon/text_fixture.h"

using namespace farcached;
using fixture::Conversation;
using fixture::Talk;
using namespace std::string_view_literals;

namespace {

#define FORMAT "CLIENT_ERROR bad command line format\r\n"
#define CHUNK "CLIENT_ERROR bad data chunk\r\n"

const std::string key250(250, 'k'), key251(251, 'k');

const Conversation lookups[] = {
    {"get of nothing", "get a\r\n", "END\r\n"},
    {"set and get", "set a 5 0 3\r\nabc\r\nget a\r\n", "STORED\r\nVALUE a 5 3\r\nabc\r\nEND\r\n"},
    {"gets shows the cas", "set a 0 0 1\r\nx\r\ngets a b\r\n",
     "STORED\r\nVALUE a 0 1 1\r\nx\r\n"
     "END\r\n"},
    {"several keys, some missing", "set a 0 0 1\r\n1\r\nset c 7 0 2\r\n33\r\nget a b  c a \r\n",
     "STORED\r\nSTORED\r\nVALUE a 0 1\r\n1\r\nVALUE c 7 2\r\n33\r\nVALUE a 0 1\r\n1\r\nEND\r\n"},
    {"more keys than a window", "set a 0 0 1\r\n1\r\nget a b a b a b a b a b a b\r\n",
     "STORED\r\nVALUE a 0 1\r\n1\r\nVALUE a 0 1\r\n1\r\nVALUE a 0 1\r\n1\r\nVALUE a 0 1\r\n1\r\n"
     "VALUE a 0 1\r\n1\r\nVALUE a 0 1\r\n1\r\nEND\r\n"},
    {"an empty value", "set a 0 0 0\r\n\r\nget a\r\n", "STORED\r\nVALUE a 0 0\r\n\r\nEND\r\n"},
    {"a value of any bytes", "set a 0 0 6\r\n\0\r\n\xff\n\r\r\nget a\r\n"sv,
     "STORED\r\nVALUE a 0 6\r\n\0\r\n\xff\n\r\r\nEND\r\n"sv},
    {"a key of any bytes", "set a\0\x01\xff 0 0 1\r\nx\r\nget a\0\x01\xff a\r\n"sv,
     "STORED\r\nVALUE a\0\x01\xff 0 1\r\nx\r\nEND\r\n"sv},
    {"greatest flags", "set a 4294967295 0 1\r\nx\r\nset b 4294967296 0 1\r\ny\r\nget a b\r\n",
     "STORED\r\nSTORED\r\nVALUE a 4294967295 1\r\nx\r\nVALUE b 0 1\r\ny\r\nEND\r\n"},
    {"LF ends a line", "set a 0 0 1\nx\r\nget a\n", "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"},
    {"gat and gats", "set a 0 0 1\r\nx\r\ngat 100 a b\r\ngats 0 a\r\ngat -1 a\r\nget a\r\n",
     "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nVALUE a 0 1 1\r\nx\r\nEND\r\n"
     "VALUE a 0 1\r\nx\r\nEND\r\nEND\r\n"},
    {"gat without a key", "gat 0\r\ngat x a\r\n",
     FORMAT "CLIENT_ERROR invalid exptime argument\r\n"},
    {"touch",
     "touch a 0\r\nset a 0 0 1\r\nx\r\ntouch a 10\r\ntouch a -1 noreply\r\nget a\r\n"
     "touch a x\r\n",
     "NOT_FOUND\r\nSTORED\r\nTOUCHED\r\nEND\r\nCLIENT_ERROR invalid exptime argument\r\n"},
    {"no keys", "get\r\ngets \r\ndelete\r\ntouch t\r\nincr n\r\n",
     FORMAT FORMAT FORMAT FORMAT FORMAT},
    {"short lines", "\r\n \r\nx\r\nversion\r\n", FORMAT FORMAT FORMAT "VERSION 1.6.45\r\n"},
    {"unknown commands", "bogus\r\nGET a\r\n get a\r\nget\ta\r\nbogus noreply\r\n",
     "ERROR\r\nERROR\r\nERROR\r\nERROR\r\n"},
};

const Conversation stores[] = {
    {"add and replace", "replace a 0 0 1\r\nx\r\nadd a 1 0 1\r\ny\r\nadd a 2 0 1\r\nz\r\n"
     "replace a 3 0 1\r\nw\r\nget a\r\n",
     "NOT_STORED\r\nSTORED\r\nNOT_STORED\r\nSTORED\r\nVALUE a 3 1\r\nw\r\nEND\r\n"},
    {"append and prepend keep flags",
     "append a 0 0 1\r\nx\r\nset a 9 0 2\r\nbb\r\nappend a 1 1 1\r\nc\r\nprepend a 2 -1 1\r\n"
     "a\r\nget a\r\n",
     "NOT_STORED\r\nSTORED\r\nSTORED\r\nSTORED\r\nVALUE a 9 4\r\nabbc\r\nEND\r\n"},
    {"cas", "cas a 0 0 1 1\r\nx\r\nset a 0 0 1\r\nx\r\ncas a 0 0 1 99\r\ny\r\ncas a 0 0 1 1\r\n"
     "z\r\nget a\r\n",
     "NOT_FOUND\r\nSTORED\r\nEXISTS\r\nSTORED\r\nVALUE a 0 1\r\nz\r\nEND\r\n"},
    {"cas without a unique", "cas a 0 0 1\r\nx\r\ncas a 0 0 1 x\r\ny\r\n", FORMAT FORMAT},
    {"delete", "delete a\r\nset a 0 0 1\r\nx\r\ndelete a 10\r\ndelete a b c d e\r\n",
     "NOT_FOUND\r\nSTORED\r\nDELETED\r\nNOT_FOUND\r\n"},
    {"noreply everywhere",
     "set a 0 0 1 noreply\r\n5\r\nadd a 0 0 1 noreply\r\nx\r\nappend a 0 0 1 noreply\r\n0\r\n"
     "incr a 1 noreply\r\ndecr a 2 noreply\r\nget a\r\ndelete a noreply\r\ndelete a noreply\r\n"
     "verbosity 0 noreply\r\nflush_all noreply\r\nget a\r\n",
     "VALUE a 0 2\r\n49\r\nEND\r\nEND\r\n"},
    {"a bad line swallows its value",
     "set a x 0 7\r\nget a\r\n\r\nset a 0 x 2\r\nab\r\nset a 0 x 2 noreply\r\nab\r\nget a\r\n",
     FORMAT FORMAT "END\r\n"},
    {"a length that is none swallows nothing", "set a 0 0 x\r\nversion\r\nset a 0 0 -1\r\n"
     "get a\r\n",
     FORMAT "VERSION 1.6.45\r\n" FORMAT "END\r\n"},
    {"too much data", "set a 0 0 1\r\nx\r\nset a 0 0 2\r\nabcdef\r\nget a\r\n",
     "STORED\r\n" CHUNK "ERROR\r\nVALUE a 0 1\r\nx\r\nEND\r\n"},
    {"too little data", "set a 0 0 4\r\nab\r\nget a\r\n", CHUNK "ERROR\r\n"},
    {"data that ends in LF", "set a 0 0 2\r\nab\nxget a\r\n", CHUNK "END\r\n"},
    {"bad data, nobody told", "set a 0 0 2 noreply\r\nabcdef\r\nget a\r\n", "ERROR\r\nEND\r\n"},
    {"more words than a set has", "set k 0 0 1 2 3\r\nx\r\n", "STORED\r\n"},
    {"set with noreply for a length", "set foo 0 0 noreply\r\n", FORMAT},
    {"expired before it is stored",
     "set a 0 -1 1\r\nx\r\nset b 0 2592001 1\r\nx\r\nset c 0 2147483648 1\r\nx\r\n"
     "set d 0 2592000 1\r\nx\r\nget a b c d\r\n",
     "STORED\r\nSTORED\r\nSTORED\r\nSTORED\r\nVALUE d 0 1\r\nx\r\nEND\r\n"},
    {"flush_all",
     "set a 0 0 1\r\nx\r\nflush_all\r\nget a\r\nset a 0 0 1\r\nx\r\nflush_all 0\r\nget a\r\n"
     "flush_all -1\r\nflush_all x\r\nflush_all x noreply\r\n",
     "STORED\r\nOK\r\nEND\r\nSTORED\r\nOK\r\nEND\r\nOK\r\n"
     "CLIENT_ERROR invalid exptime argument\r\n"},
};

const Conversation arithmetic[] = {
    {"incr and decr", "set n 0 0 2\r\n10\r\nincr n 5\r\ndecr n 20\r\nincr n 0\r\n",
     "STORED\r\n15\r\n0\r\n0\r\n"},
    {"incr wraps at 64 bits", "set n 0 0 20\r\n18446744073709551615\r\nincr n 1\r\n",
     "STORED\r\n0\r\n"},
    {"a number keeps the width of the one before",
     "set n 0 0 3\r\n100\r\ndecr n 1\r\nget n\r\nincr n 1\r\nget n\r\nincr n 1000\r\nget n\r\n",
     "STORED\r\n99\r\nVALUE n 0 3\r\n99 \r\nEND\r\n100\r\nVALUE n 0 3\r\n100\r\nEND\r\n"
     "1100\r\nVALUE n 0 4\r\n1100\r\nEND\r\n"},
    {"what counts as a number",
     "set n 0 0 7\r\n\t+0 \0x \r\nincr n 7\r\nget n\r\nset n 0 0 5\r\n5 abc\r\nincr n 1\r\nget n\r\n"
     "set n 0 0 3\r\n5ab\r\nincr n 1\r\nset n 0 0 20\r\n18446744073709551616\r\nincr n 1\r\n"
     "set n 0 0 2\r\n+-\r\nincr n 1\r\n"sv,
     "STORED\r\n7\r\nVALUE n 0 7\r\n7      \r\nEND\r\nSTORED\r\n6\r\nVALUE n 0 5\r\n6    \r\nEND\r\n"
     "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
     "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
     "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"},
    {"incr of nothing", "incr n 1\r\ndecr n 1\r\n", "NOT_FOUND\r\nNOT_FOUND\r\n"},
    {"incr of what is no number",
     "set n 0 0 1\r\nx\r\nincr n 1\r\nset n 0 0 0\r\n\r\nincr n 1\r\nset n 0 0 2\r\n-1\r\n"
     "decr n 1\r\n",
     "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
     "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
     "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"},
    {"incr by what is no number", "incr n x\r\nincr n 18446744073709551616\r\ndecr n -1\r\n",
     "CLIENT_ERROR invalid numeric delta argument\r\n"
     "CLIENT_ERROR invalid numeric delta argument\r\n"
     "CLIENT_ERROR invalid numeric delta argument\r\n"},
};

const Conversation administration[] = {
    {"version", "version\r\nversion 1 2\r\n", "VERSION 1.6.45\r\nVERSION 1.6.45\r\n"},
    {"verbosity", "verbosity\r\nverbosity 1\r\nverbosity x\r\nverbosity 1 2 3\r\n",
     FORMAT "OK\r\n" FORMAT "OK\r\n"},
    {"shutdown when it is off", "shutdown\r\nshutdown graceful\r\n",
     "SERVER_ERROR: shutdown not enabled\r\nSERVER_ERROR: shutdown not enabled\r\n"},
    {"draining is the operator's", "drain a\r\nundrain a\r\ndrain\r\ndrain a noreply\r\nversion\r\n",
     "ERROR\r\nERROR\r\nERROR\r\nVERSION 1.6.45\r\n"},
    {"a web browser that drains", "undrain / HTTP/1.1\r\nHost: x\r\nversion\r\n", ""},
    {"quit", "version\r\nquit\r\nversion\r\n", "VERSION 1.6.45\r\n"},
    {"a web browser", "GET / HTTP/1.1\r\nHost: x\r\nversion\r\n", ""},
    {"a form", "POST /x HTTP/1.0\r\nversion\r\n", ""},
    {"tuning is Admin's", "slabs automove 1\r\nlru mode flat noreply\r\nrefresh_certs\r\n",
     "TUNED\r\nTUNED\r\n"},
};

void test_options() {
    Talk off;
    off.options.flush_enabled = false;
    off.options.dump_enabled = false;
    off.options.watch_enabled = false;
    tap::is(off.say("flush_all\r\n"), "CLIENT_ERROR flush_all not allowed\r\n", "-F");
    tap::is(off.counters->cmd_flush.get(), 1u, "counted all the same");
    tap::is(off.say("lru_crawler metadump all\r\n"), "ERROR metadump not allowed\r\n",
            "-X, metadump");
    tap::is(off.say("lru_crawler mgdump all\r\n"), "ERROR key dump not allowed\r\n", "-X, mgdump");
    tap::is(off.say("watch\r\n"), "CLIENT_ERROR watch commands not allowed\r\n", "-W");

    Talk on;
    on.options.shutdown_enabled = true;
    tap::is(on.say("shutdown foo\r\n"), "CLIENT_ERROR invalid shutdown mode\r\n",
            "-A, a wrong mode");
    tap::is(on.say("shutdown graceful\r\nversion\r\n"), "", "-A, graceful");
    tap::ok(on.closed && on.admin.told == "graceful", "it ends");
    Talk now;
    now.options.shutdown_enabled = true;
    now.say("shutdown\r\n");
    tap::ok(now.closed && now.admin.told == "shutdown", "-A, at once");

    Talk operators;
    operators.session.admin = true;
    tap::is(operators.say("drain a\r\nundrain  b \r\n"), "OK\r\nOK\r\n", "an operator drains");
    tap::is(operators.admin.told, "drain[a]undrain[b]", "the node that was named");
    tap::is(operators.say("drain\r\ndrain a b\r\nundrain\r\n"),
            "CLIENT_ERROR usage: drain NODE\r\nCLIENT_ERROR usage: drain NODE\r\n"
            "CLIENT_ERROR usage: undrain NODE\r\n", "and names one");

    node::Config config = fixture::small_config();
    config.cas = false;
    Talk no_cas(config);
    tap::is(no_cas.say("set a 0 0 1\r\nx\r\ngets a\r\ncas a 0 0 1 1\r\ny\r\ncas a 0 0 1 0\r\n"
    "y\r\n"),
            "STORED\r\nVALUE a 0 1 0\r\nx\r\nEND\r\nEXISTS\r\nEXISTS\r\n", "-C");
}

const std::string list_reply = "CONFIG cluster 0 24\r\n7\na|10.0.0.1|1 b|::1|22\n\r\nEND\r\n";

void set_list(daemon::ClusterView& view) { view.set({{"a", "10.0.0.1", 1}, {"b", "::1", 22}}, 7); }

void test_cluster_list() {
    Talk none;
    const std::string asked = "config get cluster\r\nconfig\r\nconfig get cluster noreply\r\nget AmazonElastiCache:cluster\r\n";
    tap::is(none.say(asked), "ERROR\r\nERROR\r\nEND\r\n", "without a view: as memcached");
    daemon::ClusterView view;
    Talk talk;
    talk.options.cluster = &view;
    tap::is(talk.say(asked), "ERROR\r\nERROR\r\nEND\r\n", "without a list: as memcached");
    set_list(view);
    tap::is(talk.say("config get cluster\r\n"), list_reply, "config get cluster");
    tap::is(talk.say("config  get  cluster \n"), list_reply, "with more blanks");
    tap::is(talk.counters->cmd_config_get.get(), 2u, "counted");
    tap::is(talk.say("config get other\r\n"), "END\r\n", "another name");
    tap::is(talk.say("config\r\nconfig get\r\nconfig get a b\r\nconfig set cluster 0 1\r\nconfig delete cluster\r\n"),
            "ERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\n", "all else is unknown");
    const std::string value = "7\na|10.0.0.1|1 b|::1|22\n\r\n";
    const std::string line = "VALUE AmazonElastiCache:cluster 0 24\r\n" + value;
    tap::is(talk.say("get AmazonElastiCache:cluster\r\n"), line + "END\r\n", "a get of the key");
    tap::is(talk.say("gets AmazonElastiCache:cluster\r\n"), "VALUE AmazonElastiCache:cluster 0 24 7\r\n" + value + "END\r\n",
            "a gets shows the version");
    const std::string a = "VALUE a 0 1\r\nx\r\n", end = "END\r\n";
    tap::is(talk.say("set a 0 0 1\r\nx\r\nget a AmazonElastiCache:cluster b\r\nget AmazonElastiCache:cluster\r\nget a\r\n"),
            "STORED\r\n" + a + line + end + line + end + a + end, "between other keys");
    tap::is(talk.class_sum(&daemon::ClassCounters::get_hits) + talk.counters->get_misses.get(), talk.counters->get_cmds.get(),
            "hits and misses are the gets");
    tap::is(talk.say("set AmazonElastiCache:cluster 0 0 1\r\nx\r\nget AmazonElastiCache:cluster\r\n"
                     "mg AmazonElastiCache:cluster v\r\n"),
            "STORED\r\n" + line + "END\r\nVA 1\r\nx\r\n", "a set does not change the list; meta sees the item");
}

void test_watch_and_dump() {
    Talk talk;
    tap::is(talk.say("watch foo\r\n"), "ERROR\r\n", "watch: an unknown word");
    tap::is(talk.say("version\r\nwatch\r\n"),
            "VERSION 1.6.45\r\nERROR cannot pipeline other commands before watch\r\n",
            "watch: behind another command");
    talk.say("watch\r\n");
    tap::ok(
        talk.last.next == daemon::Next::watch && talk.last.watch_flags == daemon::watch_fetchers,
        "watch: fetchers");
    talk.say("watch mutations  evictions rawcmds connevents deletions\r\n");
    tap::is(talk.last.watch_flags, 2u + 4 + 8 + 16 + 32, "watch: several, also those without events");
    talk.say("lru_crawler metadump all\r\n");
    tap::ok(talk.last.next == daemon::Next::dump && talk.last.dump_classes == ~UINT64_C(0) &&
                !talk.last.mgdump && !talk.last.hash_order,
            "metadump all");
    talk.say("lru_crawler mgdump hash\r\n");
    tap::ok(talk.last.next == daemon::Next::dump && talk.last.mgdump && talk.last.hash_order,
            "mgdump hash");
    for (const char* line : {"lru_crawler metadump x\r\n", "lru_crawler mgdump 64\r\n",
                             "lru_crawler metadump 0\r\n", "lru_crawler metadump 1,,2\r\n"})
        tap::is(talk.say(line), "BADCLASS invalid class id\r\n", line);
    tap::is(talk.say("mn\r\nlru_crawler mgdump all\r\n"),
            "MN\r\nERROR cannot pipeline other commands before mgdump\r\n",
            "mgdump behind another");
    tap::is(talk.say("mn\r\nlru_crawler metadump all\r\n"),
            "MN\r\nERROR cannot pipeline other commands before metadump\r\n",
            "metadump behind another");
    talk.say("lru_crawler metadump 1,63\r\n");
    tap::is(talk.last.dump_classes, UINT64_C(1) << 63 | 2, "metadump of two classes");
    tap::is(talk.say("stats items\r\nstats\r\n"), "END\r\nEND\r\n", "stats");
    tap::is(talk.admin.told, "stats[items]stats[]", "is Admin's");
}

void test_flush_of_the_past() {
    Talk talk;
    talk.context.started_unix = 1'700'000'000;
    talk.context.now = 1000;
    talk.say("set a 0 0 1\r\nx\r\n");
    talk.context.now = 1010;
    tap::is(talk.say("flush_all 1700001005\r\nget a\r\n"), "OK\r\nEND\r\n",
            "flush_all of a moment that has passed is one of now");
}

void test_delayed_flush() {
    Talk talk;
    tap::is(talk.say("set a 0 0 1\r\nx\r\nflush_all 100\r\nget a\r\n"), "STORED\r\nOK\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
            "a flush with a delay");
    tap::is(talk.admin.told, "flush_at1100", "is scheduled");
}

void test_delete_prefix() {
    Talk talk;
    talk.session.admin = true;
    tap::is(talk.say("set pa 0 0 1\r\nx\r\nset qa 0 0 1\r\ny\r\ndelete_prefix p\r\nget pa qa\r\n"),
            "STORED\r\nSTORED\r\nOK\r\nVALUE qa 0 1\r\ny\r\nEND\r\n", "delete_prefix");
    std::string reply = "OK\r\n";
    for (int i = 0; i < 5000 && reply == "OK\r\n"; i++) reply = talk.say("delete_prefix x" + std::to_string(i) + "\r\n");
    tap::is(reply, "SERVER_ERROR too many prefixes wait to be swept; try again later\r\n", "until too many wait for a sweep");
    tap::is(talk.counters->mutations_unavailable.get(), 0u, "which is an answer");
}

void test_watch_lines() {
    Talk talk;
    talk.watch.want(~0u);
    talk.options.detail_enabled = true;
    talk.say("get a\r\nset a 0 9 3\r\nabc\r\nget a\r\nadd a 0 0 1\r\nx\r\ntouch a 5\r\ndelete a\r\n"
             "cas b 0 0 1 5\r\nx\r\nset e 0 -1 1\r\nx\r\ngets e\r\nset big 0 0 99999999\r\n");
    tap::is(talk.watch.lines,
            "get a not_found 7 0\n"
            "get a not_found 7 0\n"
            "store a stored set 9 3\n"
            "get a found 7 3\n"
            "get a found 7 3\n"
            "store a not_stored add 0 1\n"
            "get a found 7 3\n"
            "get a found 7 3\n"
            "deleted a delete 3\n"
            "get b not_found 7 0\n"
            "store b not_found cas 0 1\n"
            "get e not_found 7 0\n"
            "store e stored set 0 1\n"
            "get e expired 7 0\n"
            "store big too_large set 0 0\n"
            "get big not_found 7 0\n",
            "the lines for watchers");
    tap::is(talk.admin.told, "-aset:a+aset:adel:aset:bset:e-eset:big", "the records for stats detail");
}

void test_counters() {
    Talk talk;
    talk.say("get a b\r\nset a 0 0 2\r\n10\r\nget a a\r\nset e 0 -1 1\r\nx\r\nget e\r\n"
             "set f 0 0 1\r\nx\r\nflush_all\r\nget f\r\nset a 0 0 2\r\n10\r\n"
             "incr a 1\r\nincr q 1\r\ndecr a 1\r\ndecr q 1\r\ntouch a 0\r\ntouch q 0\r\n"
             "gat 0 a q\r\n"
             "cas q 0 0 1 1\r\nx\r\ncas a 0 0 1 0\r\nx\r\ndelete a\r\ndelete a\r\nmn\r\n");
    const daemon::WorkerCounters& c = *talk.counters;
    using Class = daemon::ClassCounters;
    tap::is(c.get_cmds.get(), 6u, "get_cmds: a key each");
    tap::is(talk.class_sum(&Class::get_hits), 2u, "get_hits");
    tap::is(c.get_misses.get(), 4u, "get_misses");
    tap::is(c.get_expired.get(), 1u, "get_expired");
    tap::is(c.get_flushed.get(), 1u, "get_flushed");
    tap::is(c.cmd_flush.get(), 1u, "cmd_flush");
    tap::is(c.cmd_touch.get(), 4u, "cmd_touch: touch and gat");
    tap::is(talk.class_sum(&Class::touch_hits), 2u, "touch_hits");
    tap::is(c.touch_misses.get(), 2u, "touch_misses");
    tap::is(talk.class_sum(&Class::cmd_set), 6u, "cmd_set");
    tap::is(talk.class_sum(&Class::incr_hits), 1u, "incr_hits");
    tap::is(c.incr_misses.get(), 1u, "incr_misses");
    tap::is(talk.class_sum(&Class::decr_hits), 1u, "decr_hits");
    tap::is(c.decr_misses.get(), 1u, "decr_misses");
    tap::is(c.cas_misses.get(), 1u, "cas_misses");
    tap::is(talk.class_sum(&Class::cas_badval), 1u, "cas_badval");
    tap::is(talk.class_sum(&Class::delete_hits), 1u, "delete_hits");
    tap::is(c.delete_misses.get(), 1u, "delete_misses");
    tap::is(c.requests.get(), 21u, "requests");
}

void test_too_large() {
    Talk talk;
    talk.say("set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\n");
    std::string said = "set a 0 0 2000000\r\n" + std::string(2000000, 'v') + "\r\n"
    "replace b 0 0 2000000\r\n" +
                       std::string(2000000, 'v') + "\r\nset c 0 0 2000000 noreply\r\n" +
                       std::string(2000000, 'v') + "\r\nget a b c\r\n";
    tap::is(talk.say_in_pieces(said, 65536),
            "SERVER_ERROR object too large for cache\r\nSERVER_ERROR object too large for cache\r\n"
            "VALUE b 0 1\r\nx\r\nEND\r\n",
            "too large: swallowed; set takes the old item with it, replace does not");
    tap::is(talk.counters->store_too_large.get(), 3u, "store_too_large");
    tap::is(talk.held(), 0u, "nothing of it was kept");
    tap::is(talk.say("set d 0 0 1000\r\n"), "", "not too large: the engine waits for it");
    tap::is(talk.last.want, 16u + 1000 + 2, "and reports how many bytes");
    Talk other;
    tap::is(other.say("set d 0 0 1000000\r\n" + std::string(999'999, 'v')), "", "large: waited for");
    tap::ok(other.session.pending != nullptr && other.held() == 0, "in the node, and nothing of it by the session");
    tap::is(other.say("v\r\nget nothing\r\n"), "STORED\r\nEND\r\n", "and then stored");
}

void test_long_keys() {
    Talk talk;
    const std::string set250 = "set " + key250 + " 0 0 1\r\nx\r\n";
    tap::is(talk.say(set250), "STORED\r\n", "a key of 250 bytes");
    tap::is(talk.say("get " + key250 + "\r\n"), "VALUE " + key250 + " 0 1\r\nx\r\nEND\r\n",
            "is found");
    tap::is(talk.say("get " + key251 + "\r\nset " + key251 + " 0 0 1\r\nx\r\nversion\r\n"),
            FORMAT FORMAT "VERSION 1.6.45\r\n", "a key of 251 bytes");
    tap::is(talk.say("get " + key250 + " " + key251 + " " + key250 + "\r\nversion\r\n"),
            FORMAT "VERSION 1.6.45\r\n", "one among good ones: none is answered");
    std::string line = "get " + key250;
    while (line.size() < 2500) line += " miss";
    line += " " + key251 + " " + key250 + std::string(3000, 'x') + "\r\nversion\r\n";
    const std::string want = "VALUE " + key250 + " 0 1\r\nx\r\n" FORMAT "VERSION 1.6.45\r\n";
    tap::is(talk.say(line), want, "in a long line: the answer ends there, the line is thrown away");
    tap::is(talk.say_in_pieces(line, 100), want, "in pieces, too");
}

void test_long_get() {
    Talk talk;
    talk.say("set a 0 0 1\r\nx\r\n");
    std::string line = "get", want;
    for (int i = 0; i < 300000; i++) line += i % 1000 == 0 ? " a" : " missing_key";
    for (int i = 0; i < 300; i++) want += "VALUE a 0 1\r\nx\r\n";
    line += " \r\n";
    want += "END\r\n";
    size_t held = 0;
    std::string heard;
    for (size_t at = 0; at < line.size(); at += 4000) {
        heard += talk.say(std::string_view(line).substr(at, 4000));
        held = std::max(held, talk.held());
    }
    tap::ok(heard == want, "300,000 keys in one get");
    tap::ok(held < 3000, "without holding the line");
    tap::ok(talk.say(line) == want, "all at once");
    tap::ok(talk.session.line.kind == daemon::GetLine::Kind::none, "and the line is over");
    std::string gat = "gat 0" + line.substr(3);
    tap::ok(talk.say(gat) == want, "gat of as many, if it comes at once");
    tap::is(talk.say("get" + std::string(5000, ' ') + "\r\n"), FORMAT, "a long line of nothing");
    Talk endless;
    endless.say(std::string(5000, 'x'));
    tap::ok(endless.closed, "a line that never ends closes");
}

void test_bounded_output() {
    Talk talk;
    const std::string big(500000, 'v');
    talk.say("set a 0 0 500000\r\n" + big + "\r\n");
    std::string line = "get", want;
    for (int i = 0; i < 40; i++) {
        line += " a";
        want += "VALUE a 0 500000\r\n" + big + "\r\n";
    }
    want += "END\r\n";
    talk.out_peak = 0;
    std::string heard = talk.say(line + "\r\nversion\r\n");
    tap::ok(heard == want + "VERSION 1.6.45\r\n", "a reply of 20 MB");
    tap::ok(talk.out_peak < daemon::out_bytes_soft_max + 501000, "never held at once");
    talk.out_peak = 0;
    std::string pipeline;
    for (int i = 0; i < 40; i++) pipeline += "get a\r\n";
    talk.say(pipeline);
    tap::ok(talk.out_peak < daemon::out_bytes_soft_max + 501000, "nor is a pipeline's");
}

void test_budget() {
    Talk talk;
    talk.budget = 3;
    tap::is(talk.say("mn\r\nmn\r\nmn\r\nmn\r\nmn\r\nmn\r\nmn\r\n"),
            "MN\r\nMN\r\nMN\r\nMN\r\nMN\r\nMN\r\nMN\r\n", "a small budget, all the same");
    tap::is(talk.last.requests, 1u, "in turns");
}

void test_lock_free() {
    Talk talk;
    talk.say("set a 3 0 5\r\nhello\r\n");
    std::string line;
    for (int i = 0; i < 1000; i++) line += "get a\r\n";
    talk.say(line);
    tap::is(talk.local.counters().local_hits.get(), 1000u, "gets are answered without a lock");
    talk.say("get b\r\n");
    tap::is(talk.local.counters().local_not_found.get(), 1u, "a miss is looked up again");
    talk.context.now += 100;
    talk.say("set e 0 5 1\r\nx\r\n");
    talk.context.now += 10;
    tap::is(talk.say("get e\r\n"), "END\r\n", "what has expired is not");
}

}  // namespace

int main() {
    test_cluster_list();
    fixture::hold(lookups);
    fixture::hold(stores);
    fixture::hold(arithmetic);
    fixture::hold(administration);
    test_options();
    test_watch_and_dump();
    test_flush_of_the_past();
    test_delayed_flush();
    test_delete_prefix();
    test_watch_lines();
    test_counters();
    test_too_large();
    test_long_keys();
    test_long_get();
    test_bounded_output();
    test_budget();
    test_lock_free();
    return tap::done();
}
