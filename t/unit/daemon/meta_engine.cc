// SPDX-License-Identifier: BSD-3-Clause
// The meta commands on a real node: conversations, each also cut at every byte; the flags h and l; counters.
#include <string>
#include <string_view>
#include <vector>

#include "daemon/engine/session_memory.h"
#include "t/lib/tap.h"
#include "t/unit/daemon/text_fixture.h"

using namespace farcached;
using fixture::Conversation;
using fixture::Talk;

namespace {

#define FORMAT "CLIENT_ERROR bad command line format\r\n"
#define TOKEN "CLIENT_ERROR bad token in command line format\r\n"

const Conversation gets[] = {
    {"mg of nothing", "mg a\r\nmg a v\r\nmg a s v k O9 t\r\nmg a O9 k\r\n",
     "EN\r\nEN\r\nEN ka O9\r\nEN O9 ka\r\n"},
    {"mg, flags in the order asked for",
     "ms a 3 F7 T60\r\nabc\r\nmg a\r\nmg a v\r\nmg a s v t f c k Ox\r\nmg a Ox k c f t s\r\n"
     "mg a f v k O1 c s q\r\n",
     "HD\r\nHD\r\nVA 3\r\nabc\r\nVA 3 s3 t60 f7 c1 ka Ox\r\nabc\r\nHD Ox ka c1 f7 t60 s3\r\n"
     "VA 3 f7 ka O1 c1 s3\r\nabc\r\n"},
    {"mg without an end to its life", "ms a 0\r\n\r\nmg a t s v\r\n", "HD\r\nVA 0 t-1 s0\r\n\r\n"},
    {"mg t before and after T", "ms a 1 T50\r\nx\r\nmg a t T30\r\nmg a T40 t\r\nmg a T0 t\r\n",
     "HD\r\nHD t50\r\nHD t40\r\nHD t-1\r\n"},
    {"mg h: was it read before", "ms a 1\r\nx\r\nmg a h\r\nmg a h\r\n", "HD\r\nHD h0\r\nHD h1\r\n"},
    {"mg u leaves no trace", "ms a 1\r\nx\r\nmg a u v\r\nmg a h\r\n", "HD\r\nVA 1\r\nx\r\n"
     "HD h0\r\n"},
    {"a lock-free read leaves one", "ms a 1\r\nx\r\nmg a v\r\nmg a h u\r\n", "HD\r\nVA 1\r\n"
     "x\r\nHD h1\r\n"},
    {"mg l: seconds since", "ms a 1\r\nx\r\nmg a l\r\n", "HD\r\nHD l0\r\n"},
    {"vivify", "mg a v N30 t c\r\nmg a v N30 t c\r\nms a 1 T60\r\nx\r\nmg a v t\r\n",
     "VA 0 t30 c1 W\r\n\r\nVA 0 t30 c1 Z\r\n\r\nHD\r\nVA 1 t60\r\nx\r\n"},
    {"vivify, t before N", "mg a t N30\r\nmg a t\r\n", "HD t-1 W\r\nHD t30 Z\r\n"},
    {"vivify, N and T in the order of the request",
     "mg a T60 t N30\r\nmg a t\r\nmg b N30 t T60\r\nmg b t\r\nmg c t N30 T60 q\r\n",
     "HD t60 W\r\nHD t30 Z\r\nHD t30 W\r\nHD t60 Z\r\nHD t-1 W\r\n"},
    {"recache, R and T in the order of the request",
     "ms a 1 T10\r\nx\r\nmg a T60 R30\r\nmg a t\r\nms a 1 T10\r\nx\r\nmg a R30 T60\r\nmg a t\r\n",
     "HD\r\nHD\r\nHD t60\r\nHD\r\nHD W\r\nHD t60 Z\r\n"},
    {"which mutations keep the mark that an item was read",
     "ms n 1\r\n1\r\nmg n v\r\nma n\r\nmg n h\r\nms p 1\r\nx\r\nmg p v\r\nms p 1 MA\r\ny\r\nmg p T30 h\r\nmg p h\r\n",
     "HD\r\nVA 1\r\n1\r\nHD\r\nHD h1\r\nHD\r\nVA 1\r\nx\r\nHD\r\nHD h0\r\nHD h1\r\n"},
    {"q silences an ma that creates", "ma n N0 q\r\nma n q\r\nma m N0 q v\r\nmg m v\r\n", "VA 1\r\n0\r\n"},
    {"a number that grows is a new item, not fetched yet",
     "ms n 1\r\n9\r\nmg n\r\nma n\r\nmg n h\r\n", "HD\r\nHD\r\nHD\r\nHD h0\r\n"},
    {"another flag's error goes before that of F", "mg n C+1 Fx\r\nmg n Fx C+1\r\nmg n Fx\r\n",
     "CLIENT_ERROR bad token in command line format\r\nCLIENT_ERROR bad token in command line format\r\n"
     "CLIENT_ERROR bad command line format\r\n"},
    {"a sign alone is 0", "ms n - T- N-\r\n\r\nmg n v t\r\nma n -\r\n",
     "HD\r\nVA 0 t-1\r\n\r\nCLIENT_ERROR bad command line format\r\n"},
    {"a stale store keeps the time to live, and the win",
     "ms a 1 T60\r\nx\r\nmd a I T30\r\nms a 1 C1 I T900\r\ny\r\nmg a v t\r\nmg a v t\r\n"
     "ms a 1 C1 I T900\r\nz\r\nmg a v t\r\n",
     "HD\r\nHD\r\nHD\r\nVA 1 t30 X W\r\ny\r\nVA 1 t30 Z X\r\ny\r\nHD\r\nVA 1 t30 Z X\r\nz\r\n"},
    {"vivify with a cas", "mg a N30 E555 c\r\nmg a c\r\n", "HD c555 W\r\nHD c555 Z\r\n"},
    {"recache", "ms a 1 T20\r\nx\r\nmg a R10\r\nmg a R30 t\r\nmg a R30\r\nms a 1 T90\r\ny\r\n"
     "mg a R30\r\n",
     "HD\r\nHD\r\nHD t20 W\r\nHD Z\r\nHD\r\nHD\r\n"},
    {"stale: X and W, then Z and X",
     "ms a 1\r\nx\r\nmd a I T30\r\nmg a s v t\r\nmg a v\r\nget a\r\nms a 1\r\ny\r\nmg a v\r\n",
     "HD\r\nHD\r\nVA 1 s1 t30 X W\r\nx\r\nVA 1 Z X\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\nHD\r\n"
     "VA 1\r\ny\r\n"},
    {"stale, won by a lock-free reader too", "ms a 1\r\nx\r\nmg a v\r\nmd a I\r\nmg a v\r\n"
     "mg a v\r\n",
     "HD\r\nVA 1\r\nx\r\nHD\r\nVA 1 X W\r\nx\r\nVA 1 Z X\r\nx\r\n"},
    {"quiet", "mg a q\r\nmg a v q k\r\nms a 1 q\r\nx\r\nmg a v q\r\nmg a q\r\nmd a q\r\n"
     "mg a q\r\nmn\r\n",
     "VA 1\r\nx\r\nHD\r\nMN\r\n"},
    {"quiet never hides an error", "mg a q q\r\nms a 2 q\r\nabcdef\r\nmd b q\r\nma b q\r\nmn\r\n",
     "CLIENT_ERROR duplicate flag\r\nCLIENT_ERROR bad data chunk\r\nERROR\r\nNF\r\nNF\r\nMN\r\n"},
    {"mn with words", "mn a b !\r\n", "MN\r\n"},
    {"P and L are for proxies", "ms a 1 Px Ly\r\nx\r\nmg a Pfoo Lbar v\r\n", "HD\r\nVA 1\r\nx\r\n"},
    {"flags of other commands are ignored", "ms a 1\r\nx\r\nmg a x I F1 D1 J1 MZ v\r\n",
     "HD\r\nVA 1\r\nx\r\n"},
    {"the CAS that the client has", "ms a 1 F5 E7\r\nx\r\nmg a C7 v f c\r\nmg a C8 v f\r\nmg b C7 v\r\n",
     "HD\r\nHD f5 c7\r\nVA 1 f5\r\nx\r\nEN\r\n"},
    {"opaque", "mg a Oabcdefghijabcdefghijabcdefghija\r\n"
     "mg a Oabcdefghijabcdefghijabcdefghijab\r\nmg a O\r\n",
     "EN Oabcdefghijabcdefghijabcdefghija\r\nCLIENT_ERROR opaque token too long\r\nEN O\r\n"},
};

const Conversation binary_keys[] = {
    {"base64 keys", "ms Zm9v 2 b k\r\nhi\r\nget foo\r\nmg foo k v\r\nmg Zm9v k v b\r\n"
     "mg Zm9 b\r\nmg AAEC b k\r\n",
     "HD kZm9v b\r\nVALUE foo 0 2\r\nhi\r\nEND\r\nVA 2 kZm9v b\r\nhi\r\nVA 2 kZm9v b\r\nhi\r\n"
     "CLIENT_ERROR error decoding key\r\nEN kAAEC b\r\n"},
    {"a plain key asked for in base64", "set foo 0 0 2\r\nhi\r\nmg Zm9v b k v\r\nmd Zm9v b k\r\n"
     "mg foo\r\n",
     "STORED\r\nVA 2 kfoo\r\nhi\r\nHD kZm9v b\r\nEN\r\n"},
    {"base64 in ms: an error swallows", "ms Zm9 2 b\r\nhi\r\nmn\r\n",
     "CLIENT_ERROR error decoding key\r\nMN\r\n"},
    {"base64 in ma", "ma Y250 b N0 J5 v k\r\nma Y250 b v\r\nget cnt\r\nma Y250 b k O1 q\r\n"
     "ma Y25 b\r\n",
     "VA 1 kY250 b\r\n5\r\nVA 1\r\n6\r\nVALUE cnt 0 1\r\n6\r\nEND\r\n"
     "CLIENT_ERROR invalid or duplicate flag\r\n"},
    {"vivify with a base64 key", "mg AAEC b N30 k\r\nmg AAEC b k\r\n", "HD kAAEC b W\r\n"
     "HD kAAEC b Z\r\n"},
    {"me", "me a\r\nms AAEC 1 b\r\nx\r\nme AAEC b extra\r\nme Zm b\r\nme\r\n",
     "EN\r\nHD\r\nME AAEC exp=-1 la=0 cas=1 fetch=no cls=1 size=44\r\n" FORMAT FORMAT},
    {"me changes nothing", "ms a 1 T100\r\nx\r\nme a\r\nmg a u h t\r\nmg a v\r\nme a\r\n",
     "HD\r\nME a exp=100 la=0 cas=1 fetch=no cls=1 size=42\r\nHD h0 t100\r\nVA 1\r\nx\r\n"
     "ME a exp=100 la=0 cas=1 fetch=yes cls=1 size=42\r\n"},
};

const Conversation sets[] = {
    {"ms, modes",
     "ms a 1 MR\r\nx\r\nms a 1 ME\r\nb\r\nms a 1 ME\r\nz\r\nms a 1 MA s\r\nc\r\n"
     "ms a 1 MP s c\r\na\r\n"
     "ms n 1 MA\r\nx\r\nms a 1 MR\r\nr\r\nms b 1 MS\r\nx\r\nmg a v\r\nms a 1 MX\r\nx\r\nmn\r\n",
     "NS\r\nHD\r\nNS\r\nHD s2\r\nHD s3 c3\r\nNS\r\nHD\r\nHD\r\nVA 1\r\nr\r\n"
     "CLIENT_ERROR invalid mode for ms M token\r\nMN\r\n"},
    {"ms append vivifies", "ms a 2 MA N30 s\r\nab\r\nms a 1 MA N90\r\nc\r\nmg a v t\r\n",
     "HD s2\r\nHD\r\nVA 3 t30\r\nabc\r\n"},
    {"ms with C",
     "ms a 1 C5\r\nx\r\nms a 1 c k Oq\r\nx\r\nms a 1 C99 c k\r\ny\r\nms a 1 C1 c\r\nz\r\n"
     "ms a 1 MR C1\r\ny\r\n"
     "ms a 1 MA C1\r\ny\r\nms a 1 MA C2\r\ny\r\nmg a v\r\nms a 1 C0\r\nx\r\n",
     "NF\r\nHD c1 ka Oq\r\nEX c0 ka\r\nHD c2\r\nEX\r\nEX\r\nHD\r\nVA 2\r\nzy\r\nEX\r\n"},
    {"ms with E", "ms a 1 E777 c\r\nx\r\nmg a c\r\nms a 1 C777 E778 c\r\ny\r\n", "HD c777\r\n"
     "HD c777\r\nHD c778\r\n"},
    {"ms with an old C and I stores as stale",
     "ms a 1 E100\r\nx\r\nms a 1 C50 I\r\ny\r\nmg a v\r\nms a 1 C500 I\r\nz\r\nmg a v\r\n",
     "HD\r\nHD\r\nVA 1 X W\r\ny\r\nEX\r\nVA 1 Z X\r\ny\r\n"},
    {"ms and its errors",
     "ms\r\nms a\r\nms a x\r\nms a 1 !\r\nms a 1 Tx\r\nx\r\nms a 1 Fx\r\nx\r\nms a 1 Cx\r\nx\r\n"
     "ms a 1 S\r\nx\r\n"
     "ms a 1 T1 T2\r\nx\r\nms a 1 Oabcdefghijabcdefghijabcdefghijab\r\nx\r\nmn\r\n",
     FORMAT FORMAT FORMAT FORMAT TOKEN FORMAT TOKEN "CLIENT_ERROR invalid flag\r\n"
     "CLIENT_ERROR duplicate flag\r\nCLIENT_ERROR opaque token too long\r\nMN\r\n"},
    {"too many flags", "ms a 1 b c d e f g h i j k l m n o p q r s\r\nx\r\nmn\r\n",
     "CLIENT_ERROR options flags are too long\r\nMN\r\n"},
};

const Conversation deletes[] = {
    {"md", "md a\r\nms a 1\r\nx\r\nmd a k O5\r\nmd a k O5\r\n", "NF\r\nHD\r\nHD ka O5\r\n"
     "NF ka O5\r\n"},
    {"md with C", "ms a 1\r\nx\r\nmd a C9\r\nmd a C1\r\n", "HD\r\nEX\r\nHD\r\n"},
    {"md x", "ms a 3 F5 T90\r\nabc\r\nmd a x\r\nmg a s v f t\r\n", "HD\r\nHD\r\n"
     "VA 0 s0 f0 t-1\r\n\r\n"},
    {"md x T", "ms a 3\r\nabc\r\nmd a x T30 E9\r\nmg a s t c\r\n", "HD\r\nHD\r\nHD s0 t30 c9\r\n"},
    {"md I x", "ms a 3\r\nabc\r\nmd a I x T30\r\nmg a s t v\r\n", "HD\r\nHD\r\n"
     "VA 0 s0 t30 X W\r\n\r\n"},
    {"md I with E", "ms a 1\r\nx\r\nmd a I E55\r\nmg a c\r\n", "HD\r\nHD\r\nHD c55 X W\r\n"},
    {"md and its errors", "md\r\nmd a !\r\nmd a S\r\nmd a q q\r\nmd a Cx\r\n",
     FORMAT FORMAT "CLIENT_ERROR invalid flag\r\nCLIENT_ERROR duplicate flag\r\n" TOKEN},
};

const Conversation arithmetic[] = {
    {"ma", "ma n\r\nma n N0 J13 v t\r\nma n v\r\nma n D30 v\r\nma n MD D4 v\r\nma n M- v q\r\n"
     "ma n MI k O1\r\nma n M+ v\r\n",
     "NF\r\nVA 2 t-1\r\n13\r\nVA 2\r\n14\r\nVA 2\r\n44\r\nVA 2\r\n40\r\nHD kn O1\r\nVA 2\r\n"
     "41\r\n"},
    {"ma with times", "ma n N30 J1 t\r\nma n T60 t\r\nmg n t v\r\n", "HD t30\r\nHD t60\r\n"
     "VA 1 t60\r\n2\r\n"},
    {"ma with C and E", "ms n 1\r\n5\r\nma n C9 v\r\nma n C1 E70 v c\r\nma n C0 v\r\n",
     "HD\r\nEX\r\nVA 1 c70\r\n6\r\nVA 1\r\n7\r\n"},
    {"ma floors and wraps", "ms n 1\r\n5\r\nma n MD D9 v\r\nms n 20\r\n18446744073709551615\r\n"
     "ma n v\r\n",
     "HD\r\nVA 1\r\n0\r\nHD\r\nVA 1\r\n0\r\n"},
    {"ma of what is no number", "ms n 1\r\nx\r\nma n q\r\n",
     "HD\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"},
    {"ma and its errors", "ma\r\nma n !\r\nma n S\r\nma n q q\r\nma n Dx\r\nma n Jx\r\n"
     "ma n MX\r\nma n M\r\n",
     FORMAT FORMAT "CLIENT_ERROR invalid or duplicate flag\r\n"
     "CLIENT_ERROR invalid or duplicate flag\r\n"
     "CLIENT_ERROR invalid or duplicate flag\r\nCLIENT_ERROR invalid or duplicate flag\r\n"
     "CLIENT_ERROR invalid mode for ma M token\r\nCLIENT_ERROR invalid mode for ma M token\r\n"},
};

void test_times() {
    Talk talk;
    talk.say("ms a 1 T100\r\nx\r\n");
    talk.context.now += 30;
    tap::is(talk.say("mg a l t u\r\n"), "HD l30 t70\r\n", "l and t count seconds");
    tap::is(talk.say("mg a v\r\n"), "VA 1\r\nx\r\n", "a lock-free read");
    talk.context.now += 5;
    tap::is(talk.say("mg a l h\r\n"), "HD l5 h1\r\n", "is an access");
    talk.context.now += 3;
    tap::is(talk.say("me a\r\n"), "ME a exp=62 la=3 cas=1 fetch=yes cls=1 size=42\r\n",
            "me shows all");
    talk.context.now += 62;
    tap::is(talk.say("mg a v\r\nme a\r\n"), "EN\r\nEN\r\n", "it ends in time");
}

void test_counters() {
    Talk talk;
    talk.watch.want(~0u);
    talk.say("mg a\r\nms a 1\r\nx\r\nmg a v\r\nmg a T30\r\nmg b T30\r\nmg c N30\r\nme a\r\n"
    "ms n 1\r\n5\r\nma n\r\n"
             "ma m\r\nms a 1 C1\r\nx\r\nms a 1 C1\r\nx\r\nms z 1 C1\r\nx\r\nmd a C5\r\nmd a\r\n"
             "md a\r\n");
    const daemon::WorkerCounters& c = *talk.counters;
    using Class = daemon::ClassCounters;
    tap::is(c.get_cmds.get(), 4u, "get_cmds: not those that touch and hit");
    tap::is(c.get_misses.get(), 2u, "get_misses");
    tap::is(talk.class_sum(&Class::get_hits), 2u, "get_hits: one was vivified");
    tap::is(c.cmd_touch.get(), 1u, "cmd_touch");
    tap::is(talk.class_sum(&Class::touch_hits), 1u, "touch_hits");
    tap::is(c.cmd_meta.get(), 1u, "cmd_meta: me only, as memcached counts");
    tap::is(talk.class_sum(&Class::incr_hits), 1u, "incr_hits");
    tap::is(c.incr_misses.get(), 1u, "incr_misses");
    tap::is(talk.class_sum(&Class::cas_hits), 1u, "cas_hits");
    tap::is(talk.class_sum(&Class::cas_badval), 1u, "cas_badval");
    tap::is(c.cas_misses.get(), 1u, "cas_misses");
    tap::is(c.delete_misses.get(), 2u, "delete_misses: a wrong cas is one");
    tap::is(talk.class_sum(&Class::delete_hits), 1u, "delete_hits");
    tap::is(talk.watch.lines,
            "get a not_found 7 0\n"
            "get a not_found 7 0\n"
            "store a stored set 0 1\n"
            "get a found 7 1\n"
            "get a found 7 1\n"
            "get b not_found 7 0\n"
            "get c not_found 7 0\n"
            "get a found 7 1\n"
            "get n not_found 7 0\n"
            "store n stored set 0 1\n"
            "get n found 7 1\n"
            "get m not_found 7 0\n"
            "get a found 7 1\n"
            "store a stored cas 0 1\n"
            "get a found 7 1\n"
            "store a exists cas 0 1\n"
            "get z not_found 7 0\n"
            "store z not_found cas 0 1\n"
            "get a found 7 1\n"
            "deleted a md 1\n"
            "get a not_found 7 0\n"
            "get a not_found 7 0\n",
            "the lines for watchers");
}

void test_sizes() {
    Talk talk;
    talk.say("ms a 1\r\nx\r\n");
    const std::string big(2000000, 'v');
    tap::is(talk.say("ms a 2000000 q MR\r\n" + big + "\r\nmn\r\nmg a\r\n"),
            "SERVER_ERROR object too large for cache\r\nMN\r\nEN\r\n",
            "too large: answered even when quiet, swallowed, and the old item is gone");
    const std::string key251(251, 'k');
    tap::is(talk.say("mg " + key251 + "\r\nms " + key251 + " 1\r\nx\r\nmd " + key251 + "\r\n"
    "ma " + key251 +
                     "\r\nme " + key251 + "\r\n"),
            FORMAT FORMAT FORMAT "CLIENT_ERROR invalid or duplicate flag\r\n" FORMAT, "keys of 251 bytes");
    const std::string key250(250, 'k');
    tap::is(talk.say("ms " + key250 + " 1 k\r\nx\r\nmg " + key250 + " k v\r\n"),
            "HD k" + key250 + "\r\nVA 1 k" + key250 + "\r\nx\r\n", "keys of 250 bytes");
    // 248 characters of base64: the longest binary key.
    std::string longest;
    for (int i = 0; i < 62; i++) longest += "AAEC";
    tap::is(talk.say("ms " + longest + " 1 b k c s O1\r\nx\r\n"
    "mg " + longest + " b k c f s t l h O2\r\n"),
            "HD k" + longest + " b c3 s1 O1\r\nHD k" + longest + " b c3 f0 s1 t-1 l0 h0 O2\r\n",
            "the longest binary key");
}

void test_lock_free() {
    Talk talk;
    talk.say("ms a 3 F7\r\nabc\r\n");
    talk.say("mg a v\r\nmg a k c f s q Ox v\r\nmg YQ== b k\r\n");
    tap::is(talk.local.counters().local_hits.get(), 3u, "b c f k O q s v need no lock");
    talk.say("mg a t\r\nmg a h\r\nmg a l\r\nmg a u\r\nmg a T0\r\nmg a N5\r\nmg a R5\r\n"
    "mg a E5\r\n");
    tap::is(talk.local.counters().local_hits.get(), 3u, "the others do");
}

// The pins are used up, and no memory is left for a copy: a client that has the value already needs neither.
void test_no_room() {
    Talk talk;
    daemon::SessionMemory memory(1000);
    const std::string value(20'000, 'v');
    talk.say("ms a 40000 E7\r\n" + value + value + "\r\n");  // of another class: in a page without pins
    const auto nowhere = [](const protocol::ItemMeta&) -> char* { return nullptr; };
    std::vector<BorrowedBytes> lent;
    while (talk.node.may_lend(value.size())) {
        const std::string key = "lent" + std::to_string(lent.size());
        talk.say("ms " + key + " 20000\r\n" + value + "\r\n");
        protocol::GetOp op;
        op.key = talk.node.key(key);
        talk.node.get(op, talk.context.now, nowhere, &lent.emplace_back());
    }
    talk.context.memory = &memory;
    tap::ok(talk.say("mg a v t C8\r\n") == "SERVER_ERROR out of memory writing get response\r\n", "a value has no room");
    tap::ok(talk.say("mg a v t C7\r\nmg a t\r\n") == "HD t-1\r\nHD t-1\r\n", "a CAS that matches needs none");
}

}  // namespace

int main() {
    fixture::hold(gets);
    fixture::hold(binary_keys);
    fixture::hold(sets);
    fixture::hold(deletes);
    fixture::hold(arithmetic);
    test_times();
    test_counters();
    test_sizes();
    test_lock_free();
    test_no_room();
    return tap::done();
}
