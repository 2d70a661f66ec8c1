// SPDX-License-Identifier: BSD-3-Clause
// `stats` of a process whose items are in nodes: requests go to the nodes, and the replies follow in the order of the
// requests. Sums, resets, and the effect of a node that is down. Requests that are refused because they concern the
// nodes.
#include "base/node_clock.h"
#include "t/unit/daemon/stats_nodes_fixture.h"
#include "t/unit/protocol/binary_packets.h"
#include "t/unit/proxy/pointer_table_fixture.h"

using namespace farcached;
using fixture::NodesTalk;
using fixture::stat_of;
using fixture::Teller;
using fixture::told_of;

namespace {

uint64_t number_of(std::string_view reply, std::string_view name) {
    const std::string value = stat_of(reply, name);
    return value == "-" ? ~UINT64_C(0) : std::strtoull(value.c_str(), nullptr, 10);
}

std::string both(const Teller& a, const Teller& b, std::string_view group) { return a.tells(group) + b.tells(group); }

// ---- reading what nodes tell --------------------------------------------------------------------------

void numbers_read() {
    Teller teller("a", Teller::config());
    teller.store("k", "v");
    teller.store("large", std::string(100'000, 'x'));
    std::vector<daemon::NodeNumbers> read = daemon::read_numbers(teller.tells("all") + "b -\n");
    tap::is(read.size(), size_t(1), "one node answered, one did not");
    const node::Stats& got = read[0].stats;
    const node::Stats want = teller.node.stats(100);
    tap::ok(read[0].name == "a" && read[0].incarnation == teller.incarnation(), "which run of which node");
    tap::ok(got.items == 2 && got.items_total == want.items_total && got.bytes == want.bytes, "items");
    tap::ok(got.memory_limit_bytes == want.memory_limit_bytes && got.pages_used == want.pages_used, "memory");
    tap::ok(got.index_bytes == want.index_bytes && got.index_buckets == want.index_buckets, "index");
    size_t differing = 0;
    for (size_t i = 1; i < want.classes.size(); i++) {
        const node::ClassStats &x = got.classes[i], &y = want.classes[i];
        if (y.pages == 0) continue;
        differing += x.slot_bytes != y.slot_bytes || x.pages != y.pages || x.slots_used != y.slots_used ||
                     x.slots_total != y.slots_total || x.bytes_requested != y.bytes_requested;
    }
    tap::is(differing, size_t(0), "classes are as the node has them");
}

void numbers_odd() {
    auto read = daemon::read_numbers(told_of("a", "curr_items 7\ncurr_items x\nbytes \n total_items 3\nbytes 5 \n"
                                                  "\n9999999:pages 1\n0:pages 1\n64:pages 1\n-1:pages 1\n5:pages 3\n"
                                                  "limit_maxbytes 99999999999999999999\nflushes 4"));
    const node::Stats& s = read.at(0).stats;
    tap::ok(s.items == 7 && s.bytes == 0 && s.items_total == 0, "what is no number is left out");
    tap::ok(s.memory_limit_bytes == 0, "so is one that is too large");
    tap::is(s.classes.at(5).pages, 3u, "a class");
    tap::is(s.classes.size(), size_t(64), "and none that cannot be");
    tap::is(s.flushes, 4u, "a last line without its end");
    std::string lines;
    daemon::each_line("a b\r\na b\x01\nc d e\nf g\n", [&](std::string_view name, std::string_view value) {
        lines.append(name).append("=").append(value).append(";");
    });
    tap::is(lines, "f=g;", "no line can break a client's");
    tap::ok(daemon::read_numbers("").empty(), "no node answered");
}

// ---- general ------------------------------------------------------------------------------------------

void general() {
    NodesTalk talk;
    Teller a("a", Teller::config()), b("b", Teller::config());
    a.store("k", "v");
    a.store("l", "v");
    b.store("m", std::string(200, 'x'));
    talk.counters.get_cmds.add(5);
    talk.counters.classes[3].get_hits.add(4);
    talk.rig.server.fixed.curr_connections = 3;
    tap::is(talk.say("stats\r\nget x\r\nversion\r\n"), "", "no reply before the nodes have answered");
    tap::is(talk.take_asked(), "stats[general] get", "the request goes to them, and so does the next");
    std::string reply = talk.answer(both(a, b, "general"));
    tap::ok(reply.ends_with("END\r\n"), "then it is answered, and nothing behind it");
    tap::is(stat_of(reply, "curr_items"), "3", "curr_items is a sum over nodes");
    tap::is(stat_of(reply, "total_items"), "3", "so is total_items");
    tap::is(number_of(reply, "limit_maxbytes"), UINT64_C(32) << 20, "so is limit_maxbytes");
    tap::is(number_of(reply, "bytes"), a.node.stats(100).bytes + b.node.stats(100).bytes, "and bytes");
    tap::is(number_of(reply, "hash_bytes"), 2 * a.node.stats(100).index_bytes, "and hash_bytes");
    tap::is(stat_of(reply, "get_hits"), "4", "get_hits is this process's");
    tap::is(stat_of(reply, "curr_connections"), "3", "so is curr_connections");
    tap::is(stat_of(reply, "nodes_unavailable"), "0", "all nodes answered");
    tap::is(stat_of(reply, "lru_crawler_starts"), "0", "what this process searches is not counted");
    std::string rest = talk.unavailable();
    tap::is(rest, "END\r\nVERSION 1.6.45\r\n", "the get and the version come behind it");
    reply = talk.stats("", "a -\n" + b.tells("general"));
    tap::is(stat_of(reply, "curr_items"), "1", "a node without an answer is not in the sums");
    tap::is(stat_of(reply, "nodes_unavailable"), "1", "and is counted as unavailable");
    talk.take_asked();
    talk.say("stats\r\n");
    reply = talk.unavailable();
    tap::is(stat_of(reply, "nodes_unavailable"), "2", "nor are any when nothing is answered");
    tap::is(stat_of(reply, "curr_items"), "0", "and the embedded node does not stand in");
}

void order() {
    NodesTalk talk;
    tap::is(talk.say("flush_all\r\nstats\r\nversion\r\n"), "", "a flush is not answered yet");
    tap::is(talk.take_asked(), "flush", "stats is not asked before it is");
    tap::is(talk.answer_done(), "OK\r\n", "the flush is done");
    tap::is(talk.take_asked(), "stats[general]", "now stats is asked");
    const std::string reply = talk.answer("a -\nb -\n");
    tap::is(stat_of(reply, "cmd_flush"), "1", "and knows of the flush");
    tap::ok(reply.ends_with("END\r\nVERSION 1.6.45\r\n"), "and what follows goes on");
    talk.say("flush_all 50\r\n");
    tap::is(talk.take_asked(), "flush@150", "a later flush goes to the nodes as well");
    tap::is(talk.answer_done(), "OK\r\n", "and is answered by them");
    tap::is(stat_of(talk.stats("settings", ""), "oldest"), "-", "settings need no node");
    tap::is(talk.take_asked(), "", "none was asked");
}

// ---- by class -----------------------------------------------------------------------------------------

void by_class() {
    NodesTalk talk;
    Teller a("a", Teller::config()), b("b", Teller::config()), other("b", Teller::config(2.0));
    a.store("k", "v");
    b.store("l", "v");
    b.store("large", std::string(100'000, 'x'));
    other.store("m", std::string(300, 'x'));
    other.store("n", std::string(150, 'x'));
    std::string slabs = talk.stats("slabs", both(a, b, "all"));
    tap::is(talk.take_asked(), "stats[all]", "slabs: all is asked");
    tap::is(stat_of(slabs, "1:used_chunks"), "2", "slabs: used chunks are a sum");
    tap::is(number_of(slabs, "1:total_pages"),
            a.node.stats(100).classes[1].pages + b.node.stats(100).classes[1].pages, "slabs: so are pages");
    tap::is(number_of(slabs, "1:chunk_size"), uint64_t(a.node.stats(100).classes[1].slot_bytes), "slabs: a size is none");
    tap::is(stat_of(slabs, "63:chunks_per_page"), "1", "slabs: large items");
    tap::is(stat_of(slabs, "active_slabs"), "2", "slabs: classes that one or the other has");
    tap::is(number_of(slabs, "total_malloced"),
            (a.node.stats(100).pages_used + b.node.stats(100).pages_used) * layout::page_bytes, "slabs: total_malloced");
    tap::is(stat_of(slabs, "nodes_left_out"), "-", "slabs: nothing is missing");
    std::string items = talk.stats("items", both(a, b, "all"));
    tap::is(stat_of(items, "items:1:number"), "2", "items: a sum");
    tap::is(stat_of(items, "items:63:number"), "1", "items: what one node has");
    tap::ok(items.ends_with("hits_to_temp 0\r\nEND\r\n"), "items: and nothing else");
    a.store("o", std::string(300, 'x'));
    a.store("p", std::string(150, 'x'));
    items = talk.stats("items", both(a, other, "all"));
    tap::is(stat_of(items, "nodes_left_out"), "1", "items: a node of other classes is left out and counted");
    slabs = talk.stats("slabs", a.tells("all") + "b -\n");
    tap::is(stat_of(slabs, "nodes_unavailable"), "1", "slabs: a node without an answer is missing and counted");
    tap::is(stat_of(slabs, "1:used_chunks"), "1", "slabs: the other's are there");
    tap::is(talk.stats("items", "a -\nb -\n"), "STAT nodes_unavailable 2\r\nEND\r\n", "items: no node answered");
}

void ages() {
    node::Stats sum;
    node::ClassStats all;
    daemon::NodeNumbers x, y;
    x.stats.classes.resize(64);
    y.stats.classes.resize(64);
    x.stats.classes[1] = {.slot_bytes = 64, .age_oldest_s = 5, .evicted = 2, .evicted_age_s = 9};
    y.stats.classes[1] = {.slot_bytes = 64, .age_oldest_s = 7, .evicted = 3, .evicted_age_s = 1};
    x.all_classes.evicted = 2;
    y.all_classes.evicted = 3;
    tap::ok(daemon::add_numbers(sum, all, x) && daemon::add_numbers(sum, all, y), "alike");
    tap::ok(sum.classes[1].age_oldest_s == 7 && sum.classes[1].evicted_age_s == 9, "ages are the highest");
    tap::ok(sum.classes[1].slot_bytes == 64 && sum.classes[1].evicted == 5 && all.evicted == 5, "counters are sums");
}

// ---- reset ----------------------------------------------------------------------------------------------

void resets() {
    NodesTalk talk;
    auto a = std::make_unique<Teller>("a", Teller::config());
    Teller b("b", Teller::config());
    a->store("k", "v");
    b.store("l", "v");
    talk.counters.cmd_flush.add(3);
    talk.nodes.nodes[1].links[0].get_onesided.add(4);
    for (proxy::LinkCounters& link : talk.nodes.nodes[1].links) link.arc_t2.set(21);
    tap::is(talk.say("stats reset\r\n"), "", "a reset asks the nodes");
    tap::is(talk.take_asked(), "stats[all]", "for everything that they count");
    tap::is(talk.answer(both(*a, b, "all")), "RESET\r\n", "and is done when they have answered");
    a->store("m", "v");
    std::string reply = talk.stats("", both(*a, b, "general"));
    tap::is(stat_of(reply, "total_items"), "1", "a node's counters count from there");
    tap::is(stat_of(reply, "curr_items"), "3", "what is a gauge stays");
    tap::is(stat_of(reply, "cmd_flush"), "0", "this process's counter is reset, too");
    reply = talk.stats("proxy", both(*a, b, "general"));
    tap::is(stat_of(reply, "get_onesided"), "0", "and those of links");
    tap::is(stat_of(reply, "arc_t2"), "42", "but not what they are");
    fixture::FakeNodes::Node& past = talk.nodes.gone.emplace_back();
    past.links[0].get_onesided.set(5);
    talk.nodes.nodes[1].links[0].get_onesided.set(2);
    reply = talk.stats("proxy", both(*a, b, "general"));
    tap::is(stat_of(reply, "get_onesided"), "3", "of a node that left and came back, too: what it had counted is past");
    past.links[0].get_onesided.set(0);
    talk.nodes.nodes[1].links[0].get_onesided.set(4);
    const std::string late = b.tells("all");
    tap::is(talk.stats("reset", a->tells("all") + "b -\n"), "RESET\r\n", "again, when b is down");
    b.store("n", "v");
    reply = talk.stats("", both(*a, b, "general"));
    tap::is(stat_of(reply, "total_items"), "1", "a counts from the second, b from the first");
    a = std::make_unique<Teller>("a", Teller::config());
    a->store("o", "v");
    a->store("p", "v");
    reply = talk.stats("", both(*a, b, "general"));
    tap::is(stat_of(reply, "total_items"), "3", "another run of a node counts from its own beginning");
    std::string leases = told_of("a", "incarnation 000000000000000a\nlease_granted 5\n") + "b -\n";
    tap::is(talk.stats("reset", told_of("a", "incarnation a\nlease_granted 3\n")), "RESET\r\n", "leases are counted");
    tap::is(stat_of(talk.stats("leases", leases), "a:lease_granted"), "2", "from there, too");
}

// ---- our own groups -------------------------------------------------------------------------------------

void proxy_group() {
    NodesTalk talk;
    Teller a("a", Teller::config()), b("b", Teller::config());
    talk.nodes.nodes[0].links[0].get_onesided.add(1);
    talk.nodes.nodes[0].links[1].get_onesided.add(2);
    talk.nodes.nodes[1].links[1].get_onesided.add(4);
    talk.nodes.nodes[1].locals[0].local_hits.add(8);
    talk.nodes.nodes[0].locals[1].local_expired.add(3);
    talk.nodes.nodes[0].links[0].downs[size_t(proxy::LinkDown::silent)].add(2);
    talk.nodes.nodes[0].links[0].frame_errors[size_t(protocol::FrameError::kind_unknown)].add(5);
    talk.nodes.nodes[1].links[0].channel_ends[1].add(6);
    talk.nodes.nodes[0].links[0].get_index.add(1);
    talk.nodes.nodes[1].links[0].get_twosided.add(8);
    talk.nodes.nodes[1].links[0].pointer_expired.add(4);
    talk.nodes.nodes[0].links[1].read_invalid_lease.add(1);
    talk.nodes.nodes[0].links[1].read_invalid_grown.add(2);
    talk.nodes.nodes[0].links[1].lease_denied_by[size_t(protocol::LeaseDenial::sparse_)].add(5);
    std::string told = both(a, b, "general") + "";
    std::string reply = talk.stats("proxy", told);
    for (const char* name :
         {"get_local", "get_onesided", "get_twosided", "set_twosided", "pointer_hits", "pointer_misses",
          "pointer_expired", "pointer_stale", "pointer_shared_hits", "read_invalid_generation", "read_invalid_dead",
          "read_invalid_key", "read_invalid_length", "read_invalid_crc", "read_invalid_lease", "read_late",
          "lease_granted", "lease_denied", "lease_bytes", "reclaim_pending_bytes", "node_reconnects", "node_timeouts",
          "close_client_quit", "requests"})
        tap::ok(stat_of(reply, name) != "-", std::string("stats proxy has ") + name);
    tap::is(stat_of(reply, "get_onesided"), "7", "a sum over workers and nodes");
    tap::is(stat_of(reply, "get_onesided_share"), "0.500", "8 of 16 GETs were one-sided, by pointer or by index");
    tap::is(stat_of(reply, "get_reason_lease_over"), "5", "a reason is a sum of counters");
    tap::is(stat_of(reply, "get_reason_grown"), "2", "of all links");
    tap::is(stat_of(reply, "get_reason_denied_sparse"), "5", "so is what denied pointers");
    tap::is(stat_of(reply, "lease_denied_sparse"), "5", "which is a link's counter, too");
    tap::is(stat_of(reply, "get_reason_no_pointer"), "0", "what did not occur is 0");
    tap::is(stat_of(reply, "get_local"), "8", "local reads are those of nodes");
    tap::is(stat_of(reply, "local_expired"), "3", "by reason");
    tap::is(stat_of(reply, "down_silent"), "2", "why links went down");
    tap::is(stat_of(reply, "frame_kind_unknown"), "5", "what was no frame");
    tap::is(stat_of(reply, "channel_end_" + std::string(fabric::channel_end_name(fabric::ChannelEnd(1)))), "6",
            "how channels ended");
    tap::is(number_of(reply, "node_pages_limit"), 2 * a.node.stats(100).pages_limit, "memory of the nodes");
    told = told_of("a", "lease_bytes 100\nreclaim_pending_bytes 10\n") + told_of("b", "lease_bytes 11\n");
    reply = talk.stats("proxy", told);
    tap::is(stat_of(reply, "lease_bytes"), "111", "lease_bytes is the nodes' sum");
    tap::is(stat_of(reply, "reclaim_pending_bytes"), "10", "so is reclaim_pending_bytes");
    talk.stats("reset", told);
    talk.nodes.nodes[0].links[0].get_onesided.add(3);
    talk.nodes.nodes[0].links[0].get_twosided.add(1);
    reply = talk.stats("proxy", told);
    tap::is(stat_of(reply, "get_onesided_share"), "0.750", "the share is that since a reset");
    tap::is(stat_of(reply, "get_reason_lease_over") + stat_of(reply, "get_reason_denied_sparse"), "00", "so are reasons");
}

void nodes_group() {
    NodesTalk talk;
    daemon::NodeShown& b = talk.nodes.nodes[1].shown;
    b.state = daemon::NodeState::down;
    b.address = "tcp:[::1]:11300";
    b.weight = 3;
    b.links_up = 0;
    b.down_reason = "bad\r\nEND";
    talk.nodes.nodes[0].locals[0].local_hits.add(5);
    talk.nodes.nodes[1].links[1].node_timeouts.add(9);
    const std::string reply = talk.say("stats nodes\r\n");
    tap::is(talk.take_asked(), "", "stats nodes asks no node");
    tap::ok(reply.starts_with("STAT a:state up\r\nSTAT a:address shm:/run/a\r\nSTAT a:incarnation 000000000000000a\r\n"
                              "STAT a:weight 1\r\nSTAT a:links 2\r\nSTAT a:links_up 2\r\n"
                              "STAT a:fence in_use\r\nSTAT a:fence_keys 0\r\nSTAT a:fence_killed 0\r\nSTAT a:fence_flushes 0\r\n"
                              "STAT a:fence_failures 0\r\nSTAT a:failover_mutations 0\r\nSTAT a:failover_ttl_capped 0\r\n"
                              "STAT a:get_local 5\r\n"
                              "STAT a:get_onesided 0\r\n"),
            "a node that is up");
    tap::ok(reply.find("STAT b:state down\r\nSTAT b:address tcp:[::1]:11300\r\nSTAT b:incarnation 000000000000000b\r\n"
                       "STAT b:weight 3\r\nSTAT b:links 2\r\nSTAT b:links_up 0\r\nSTAT b:down_reason bad??END\r\n"
                       "STAT b:fence in_use\r\nSTAT b:fence_keys 0\r\nSTAT b:fence_killed 0\r\nSTAT b:fence_flushes 0\r\n"
                       "STAT b:fence_failures 0\r\nSTAT b:failover_mutations 0\r\nSTAT b:failover_ttl_capped 0\r\n"
                       "STAT b:get_local 0\r\n") != reply.npos,
            "one that is down, and why, in one line");
    tap::is(stat_of(reply, "b:node_timeouts"), "9", "and what was counted of it");
    tap::ok(reply.ends_with("END\r\n"), "END");
}

void leases_group() {
    NodesTalk talk;
    const std::string told = told_of("a", "incarnation 1\nlease_term_ms 4000\nlease_granted 3\nlease_bytes 64\n") +
                             told_of("b", "incarnation 2\nlease_term_ms 2000\nlease_granted 4\nlease_bytes 32\n");
    std::string reply = talk.stats("leases", told);
    tap::is(talk.take_asked(), "stats[leases]", "the nodes are asked");
    tap::is(stat_of(reply, "lease_granted"), "7", "sums");
    tap::is(stat_of(reply, "lease_bytes"), "96", "of gauges, too");
    tap::is(stat_of(reply, "lease_term_ms"), "-", "but none where a sum would be nonsense");
    tap::is(stat_of(reply, "a:lease_term_ms"), "4000", "then each node's");
    tap::is(stat_of(reply, "b:lease_granted"), "4", "all of them");
    reply = talk.stats("leases", "a -\n" + told_of("b", "lease_granted 4\n"));
    tap::is(stat_of(reply, "nodes_unavailable"), "1", "one that is down is counted");
    tap::is(stat_of(reply, "b:lease_granted"), "4", "and the other's numbers are its own");
}

void one_node() {
    NodesTalk talk;
    tap::is(talk.stats("node a", told_of("a", "node a\ncurr_items 3\n")), "STAT node a\r\nSTAT curr_items 3\r\nEND\r\n",
            "stats node a");
    tap::is(talk.take_asked(), "stats[]a", "that node is asked");
    tap::is(talk.stats("node b leases", told_of("b", "lease_granted 3\n")), "STAT lease_granted 3\r\nEND\r\n",
            "a group of it");
    tap::is(talk.take_asked(), "stats[leases]b", "is asked for");
    tap::is(talk.stats("node a", "a -\n"), "SERVER_ERROR node a is unavailable\r\n", "one that is down");
    talk.say("stats node a\r\n");
    tap::is(talk.unavailable(), "SERVER_ERROR node a is unavailable\r\n", "or silent");
    talk.take_asked();
    tap::is(talk.stats("node c", ""), "CLIENT_ERROR no node of this name; nodes: a, b\r\n", "an unknown node");
    tap::is(talk.stats("node", ""), "CLIENT_ERROR usage: stats node NAME [GROUP]\r\n", "no name");
    tap::is(talk.stats("node a colours", ""),
            "CLIENT_ERROR nodes have no group of this name; groups: general leases classes all connections keys proxies transport "
            "groups\r\n",
            "an unknown group");
    tap::is(talk.take_asked(), "", "these send no request to a node");
}

void pointers_group() {
    NodesTalk talk;
    tap::is(talk.say("stats pointers\r\n"),
            "CLIENT_ERROR no pointer table is in use: local_read is on, no node is on this host, or the table was refused\r\n",
            "no table");
    const table_test::Name name;
    auto table = table_test::open(table_test::options(name, 1 << 16));
    talk.nodes.table = table.get();
    const uint64_t now = boottime_ns();
    auto put = [&](uint64_t hash, uint64_t left_s, uint64_t from) {
        fabric::LeasedPtr leased;
        leased.ptr = {.incarnation = 1, .offset = hash * 64, .generation = 1, .region = 0, .length = 64};
        leased.valid_until_ns = from + left_s * table_test::second;
        CHECK(table->put(hash, leased, from) == table_test::Put::stored);
    };
    put(1, 3, now);
    put(2, 100, now);
    put(30000, 1000, now);
    put(60000, 1, now - 10 * table_test::second);
    const std::string reply = talk.say("stats pointers\r\nversion\r\n");
    tap::is(talk.yields, 3u, "four portions; the first three yield to other requests");
    tap::is(reply,
            "STAT entries 65536\r\nSTAT occupied 4\r\nSTAT valid 3\r\nSTAT expired 1\r\nSTAT torn 0\r\n"
            "STAT filled_by_this_process 3\r\nSTAT accesses 0\r\nSTAT lease_left_le_1000 0\r\n"
            "STAT lease_left_le_4000 1\r\nSTAT lease_left_le_16000 1\r\nSTAT lease_left_le_64000 1\r\n"
            "STAT lease_left_le_256000 2\r\nEND\r\nVERSION 1.6.45\r\n",
            "what is in the table");
    tap::is(talk.take_asked(), "", "without a node");
    daemon::PointerSurvey survey;
    while (!survey.step(*table, now)) {
    }
    put(3, 3, now);
    tap::ok(survey.step(*table, now + daemon::PointerSurvey::fresh_ns - 1), "a count is good for a second");
    tap::is(survey.result().live, 3u, "as it was");
    tap::ok(!survey.step(*table, now + daemon::PointerSurvey::fresh_ns), "then it begins again");
    tap::is(survey.result().live, 3u, "the old result stays until then");
    tap::ok(!survey.step(*table, now + 3 * daemon::PointerSurvey::fresh_ns), "so does a count that was not continued");
    int steps = 1;
    while (!survey.step(*table, now + 3 * daemon::PointerSurvey::fresh_ns)) steps++;
    tap::is(steps, 3, "from its beginning");
    tap::is(survey.result().expired + survey.result().live, 5u, "and is of then");
}

// ---- binary ---------------------------------------------------------------------------------------------

std::string binary_stat(std::string_view key) {
    std::string bytes("\x80\x10", 2);
    bytes += char(key.size() >> 8);
    bytes += char(key.size());
    bytes.append(6, '\0');
    bytes += char(key.size() >> 8);
    bytes += char(key.size());
    bytes.append("oqXY").append(8, '\0');
    return bytes.append(key);
}

// "status name=value name=value"; every packet has the request's opaque.
std::string read_stat(std::string_view bytes) {
    std::string text;
    while (bytes.size() >= 24) {
        const auto at = [&](size_t i) { return size_t(static_cast<unsigned char>(bytes[i])); };
        const size_t key = at(2) << 8 | at(3), body = at(10) << 8 | at(11);
        if (bytes.substr(12, 4) != "oqXY") return "another opaque";
        if (at(7) != 0) return "status " + std::to_string(at(7));
        if (body != 0) {
            text.append(text.empty() ? "" : " ").append(bytes.substr(24, key)).append("=");
            text.append(bytes.substr(24 + key, body - key));
        }
        bytes.remove_prefix(24 + body);
    }
    return text;
}

void binary() {
    NodesTalk talk;
    talk.binary = true;
    auto stat = [&](std::string_view key, std::string_view told) {
        std::string heard = talk.say(binary_stat(key));
        if (talk.asked_nodes.awaits()) heard += talk.answer(told);
        return read_stat(heard);
    };
    tap::ok(stat("", told_of("a", "curr_items 3\n") + told_of("b", "curr_items 4\n")).find(" curr_items=7 ") !=
                std::string::npos,
            "binary: general");
    tap::is(talk.take_asked(), "stats[general]", "binary: asked");
    tap::is(stat("node a", told_of("a", "x 1\ny 2\n")), "x=1 y=2", "binary: node a");
    tap::is(stat("node c", ""), "status 1", "binary: node c is not found");
    tap::is(stat("node a", "a -\n"), "status 134", "binary: a node that is down: temporary failure");
    tap::is(stat("node a colours", ""), "status 1", "binary: a group that there is not");
    tap::is(stat("pointers", ""), "status 1", "binary: no table");
    tap::is(stat("reset", "a -\nb -\n"), "", "binary: reset");
    tap::is(stat("items", told_of("a", "1:slot_bytes 64\n1:slots_used 1\n") + "b -\n").substr(0, 16),
            "items:1:number=1", "binary: items");
    tap::is(stat("nodes", "").substr(0, 21), "a:state=up a:address=", "binary: nodes");
    tap::is(stat("sizes", ""), "sizes_status=disabled", "binary: sizes");
    const table_test::Name name;
    auto table = table_test::open(table_test::options(name, 1 << 16));
    talk.nodes.table = table.get();
    tap::is(stat("pointers", "").substr(0, 13), "entries=65536", "binary: pointers");
    tap::is(talk.yields, 3u, "binary: in portions");
    talk.take_asked();
    tap::is(talk.say(binary_stat("") + binary_stat("nodes")), "", "binary: two in a row");
    tap::is(talk.take_asked(), "stats[general]", "binary: the second waits for the first");
    const std::string heard = read_stat(talk.answer("a -\nb -\n"));
    tap::ok(heard.find("nodes_unavailable=2 a:state=up") != heard.npos, "binary: and comes behind it");
}

// ---- what is the nodes' ---------------------------------------------------------------------------------

void refused() {
    NodesTalk talk(/* track_sizes= */ true);
    const std::string refusal = std::string(daemon::items_in_nodes) + "\r\n";
    for (const char* line : {"slabs automove 0", "slabs reassign 1 2", "lru mode flat", "lru tune 10 20 0.1 0.2",
                             "lru_crawler crawl all", "lru_crawler enable", "cache_memlimit 64", "stats cachedump 1 0",
                             "lru_crawler metadump all", "lru_crawler mgdump all"})
        tap::is(talk.say(std::string(line) + "\r\n"), refusal, line);
    tap::is(talk.say("stats sizes\r\n"), "STAT sizes_status disabled\r\nEND\r\n", "stats sizes does not walk anything");
    tap::is(talk.say("verbosity 1\r\nextstore item_size 512\r\nrefresh_certs\r\n"),
            "OK\r\nOK\r\nError TLS not enabled\r\n", "what is not about memory goes on");
    tap::is(talk.say("stats detail on\r\n"), "OK\r\n", "stats detail goes on");
    talk.rig.server.connections = {{23, "tcp:127.0.0.1:1", "", "conn_listening", 9}};
    tap::is(stat_of(talk.say("stats conns\r\n"), "23:state"), "conn_listening", "stats conns goes on");
    talk.rig.options.dump_enabled = false;
    tap::is(talk.say("stats cachedump 1 0\r\n"), "CLIENT_ERROR stats cachedump not allowed\r\n", "-X is reported first");
    tap::is(talk.take_asked(), "", "no node was asked");
}

void without_nodes() {
    fixture::Rig rig;
    for (const char* group : {"nodes", "leases", "pointers", "node", "node a"})
        tap::is(rig.stats(group), "CLIENT_ERROR no nodes are configured\r\n", std::string("embedded: stats ") + group);
    tap::is(stat_of(rig.stats(""), "nodes_unavailable"), "-", "embedded: no nodes_unavailable");
    tap::is(stat_of(rig.stats("proxy"), "get_onesided"), "-", "embedded: no links");
    tap::is(stat_of(rig.stats("proxy"), "get_local"), "0", "embedded: local reads");
}

// A reset takes effect although its client has disconnected.
void client_gone() {
    NodesTalk talk;
    talk.counters.cmd_flush.add(3);
    {
        daemon::ReplyQueue queue(talk.pool, 8);
        daemon::SessionState session;
        session.fd = 8;
        session.replies = &queue;
        OutBuffer out;
        daemon::run_text(talk.context, session, "stats reset\r\n", out, 10);
        queue.settle(out);
    }
    talk.asked_nodes.tick();
    talk.asked_nodes.tell("a -\nb -\n");
    talk.asked_nodes.until([&] { return talk.rig.stat("cmd_flush") == "0"; });
    tap::is(stat_of(talk.stats("", "a -\nb -\n"), "cmd_flush"), "0", "a reset whose client has gone");
}

}  // namespace

// ---- where a key goes ---------------------------------------------------------------------------------

void route() {
    NodesTalk talk;
    daemon::Route& way = talk.nodes.way;
    way.placement = {Distribution::ketama, KeyHash::automatic, "{}"};
    way.hashed = "7";
    way.place = 0x1234;
    way.point = 0xabcd0001;
    for (const char* name : {"a", "b", "c"}) {
        daemon::NodeShown& node = way.walk.emplace_back();
        node.name = name;
        node.address = "shm:/run/" + node.name;
        node.state = daemon::NodeState::up;
        node.links = node.links_up = 2;
    }
    auto line = [&](const char* name) { return stat_of(talk.say("stats route user{7}\r\n"), name); };
    way.asked = 0;
    way.ways = "one_sided, two_sided";
    way.pointer = daemon::Route::Pointer::valid;
    way.lease_left_ns = 2'999'999;
    way.target = {UINT64_C(0xfeed000000000001), 4096, 9, 2, 100};
    tap::is(talk.say("stats route user{7}\r\n"),
            "STAT key user%7B7%7D\r\nSTAT hashed 7\r\nSTAT distribution ketama\r\nSTAT hash auto\r\n"
            "STAT place 00001234\r\nSTAT point abcd0001\r\nSTAT node a\r\nSTAT address shm:/run/a\r\nSTAT weight 1\r\n"
            "STAT state up\r\nSTAT drained no\r\nSTAT links_up 2 of 2\r\nSTAT failover off\r\nSTAT asked a\r\n"
            "STAT why its point is the first on the ring that is not before the key's hash\r\n"
            "STAT ways one_sided, two_sided\r\nSTAT pointer valid\r\nSTAT pointer_lease_left_ms 2\r\n"
            "STAT pointer_from this process\r\nSTAT pointer_incarnation feed000000000001\r\nSTAT pointer_region 2\r\n"
            "STAT pointer_offset 4096\r\nSTAT pointer_bytes 100\r\nSTAT pointer_generation 9\r\nSTAT next_1 b up\r\n"
            "STAT next_2 c up\r\nEND\r\n",
            "stats route");
    way.failover = true;
    way.walk[0].state = daemon::NodeState::drained;
    way.walk[1].state = daemon::NodeState::down;
    way.walk[1].down_reason = "it said\nmuch";
    way.asked = 2;
    tap::is(line("why"), "a is drained, and c is the next on the ring that is up", "fail-over");
    tap::ok(line("drained") == "yes" && line("asked") == "c" && line("next_1") == "b down", "the node that is asked instead");
    way.walk[2].state = daemon::NodeState::down;
    way.asked.reset();
    tap::ok(line("why") == "no node is up" && line("pointer") == "-" && line("asked") == "none", "no node is");
    way.walk.resize(20, way.walk[1]);
    tap::ok(line("next_8") == "b down" && line("next_9") == "-", "eight of those behind it are listed");
}

int main() {
    numbers_read();
    numbers_odd();
    general();
    order();
    by_class();
    ages();
    resets();
    proxy_group();
    nodes_group();
    leases_group();
    one_node();
    pointers_group();
    route();
    binary();
    refused();
    without_nodes();
    client_gone();
    return tap::done();
}
