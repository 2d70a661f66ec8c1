// SPDX-License-Identifier: BSD-3-Clause
// run_binary() on a small real node: every opcode and its quiet twin, counters, watch lines, framing and budgets.
// Cutting the input into pieces changes no reply.
#include <string>
#include <vector>

#include "daemon/remote/cluster_view.h"
#include "t/unit/daemon/binary_fixture.h"

using namespace fixture;
using daemon::ClassCounters;
using packets::arith_extras;
using packets::big;
using packets::Packet;
using packets::reply;
using packets::request;
using packets::set_extras;

namespace {

const std::string plain = set_extras(0, 0);
const std::string flags5 = big(5, 4);

enum : uint8_t {
    op_get,
    op_set,
    op_add,
    op_replace,
    op_delete,
    op_incr,
    op_decr,
    op_quit,
    op_flush,
    op_getq,
    op_noop,
    op_version,
    op_getk,
    op_getkq,
    op_append,
    op_prepend,
    op_stat,
    op_setq,
    op_addq,
    op_replaceq,
    op_deleteq,
    op_incrq,
    op_decrq,
    op_quitq,
    op_flushq,
    op_appendq,
    op_prependq,
    op_verbosity,
    op_touch,
    op_gat,
    op_gatq,
    op_sasl_list = 0x20,
    op_sasl_auth,
    op_sasl_step,
    op_gatk,
    op_gatkq
};

// The only reply to one packet.
Packet ask(BinaryTalk& talk, const Packet& p) {
    std::vector<Packet> replies;
    bool whole = packets::split(talk.say(p), replies);
    if (!whole || replies.size() != 1) {
        tap::ok(false, "exactly one reply");
        return Packet();
    }
    return replies[0];
}

uint64_t set(BinaryTalk& talk, std::string_view key, std::string_view value, uint32_t flags = 5) {
    return ask(talk, request(op_set, key, value, set_extras(flags, 0))).cas;
}

std::string get(BinaryTalk& talk, std::string_view key) {
    Packet got = ask(talk, request(op_get, key));
    return got.status == 0 ? got.value : "(miss)";
}

void test_get_family() {
    BinaryTalk talk;
    uint64_t cas = set(talk, "foo", "bar");
    tap::ok(cas != 0, "set answers with a cas");
    const std::string exptime = big(0, 4);
    struct {
        uint8_t opcode;
        bool quiet, key, value;
        std::string extras;
    } gets[] = {
        {op_get, false, false, true, ""},         {op_getq, true, false, true, ""},
        {op_getk, false, true, true, ""},         {op_getkq, true, true, true, ""},
        {op_touch, false, false, false, exptime}, {op_gat, false, false, true, exptime},
        {op_gatq, true, false, true, exptime},    {op_gatk, false, true, true, exptime},
        {op_gatkq, true, true, true, exptime},
    };
    for (const auto& g : gets) {
        char name[64];
        std::snprintf(name, sizeof name, "%02x of a present key", g.opcode);
        Packet hit = reply(g.opcode, 0, g.value ? "bar" : "", cas, flags5, g.key ? "foo" : "");
        tap::is(talk.say(request(g.opcode, "foo", "", g.extras)), hit.bytes(), name);
        std::snprintf(name, sizeof name, "%02x of a missing key", g.opcode);
        Packet miss =
            g.key ? reply(g.opcode, 1, "", 0, "", "none") : reply(g.opcode, 1, "Not found");
        tap::is(talk.say(request(g.opcode, "none", "", g.extras)), g.quiet ? "" : miss.bytes(),
                name);
    }
    tap::is(talk.class_sum(&ClassCounters::get_hits), 4u, "get_hits");
    tap::is(talk.class_sum(&ClassCounters::touch_hits), 5u, "touch_hits");
    tap::is(talk.counters->get_cmds.get(), 8u, "cmd_get");
    tap::is(talk.counters->get_misses.get(), 4u, "get_misses");
    tap::is(talk.counters->cmd_touch.get(), 10u, "cmd_touch");
    tap::is(talk.counters->touch_misses.get(), 5u, "touch_misses");
    tap::is(talk.counters->requests.get(), 19u, "requests");
}

void test_lock_free() {
    BinaryTalk talk;
    set(talk, "foo", std::string(3000, 'x'));
    tap::is(get(talk, "foo"), std::string(3000, 'x'), "a large value comes whole");
    tap::is(talk.local.counters().local_hits.get(), 1u, "it was read without a lock");
    talk.context.now += 1;
    ask(talk, request(op_touch, "foo", "", big(10, 4)));
    talk.context.now += 11;
    tap::is(get(talk, "foo"), "(miss)", "it expires at the touch's time");
    tap::is(talk.counters->get_expired.get(), 1u, "get_expired");
    set(talk, "foo", "again");
    talk.say(request(op_flush));
    tap::is(get(talk, "foo"), "(miss)", "flush takes it");
    tap::is(talk.counters->cmd_flush.get(), 1u, "cmd_flush");
}

void test_storing() {
    BinaryTalk talk;
    const std::string exists = "Data exists for key.", missing = "Not found";
    tap::is(talk.say(request(op_replace, "k", "v", plain)), reply(op_replace, 1, missing).bytes(),
            "replace of a missing key");
    tap::is(talk.say(request(op_append, "k", "v")), reply(op_append, 5, "Not stored.").bytes(),
            "append to a missing key");
    tap::is(talk.say(request(op_prepend, "k", "v")), reply(op_prepend, 5, "Not stored.").bytes(),
            "prepend to a missing key");
    Packet added = ask(talk, request(op_add, "k", "v", set_extras(9, 0)));
    tap::ok(added.status == 0 && added.cas != 0 && added.value.empty(), "add");
    tap::is(talk.say(request(op_add, "k", "v", plain)), reply(op_add, 2, exists).bytes(),
            "add of a present key");
    Packet appended = ask(talk, request(op_append, "k", "ww"));
    tap::ok(appended.status == 0 && appended.cas > added.cas, "append");
    Packet prepended = ask(talk, request(op_prepend, "k", "uu"));
    tap::ok(prepended.status == 0 && prepended.cas > appended.cas, "prepend");
    tap::is(talk.say(request(op_get, "k")),
            reply(op_get, 0, "uuvww", prepended.cas, big(9, 4)).bytes(),
            "value, flags and cas are so");
    Packet replaced = ask(talk, request(op_replace, "k", "", set_extras(1, 0)));
    tap::ok(replaced.status == 0 && replaced.cas > prepended.cas, "replace with nothing");
    tap::is(talk.say(request(op_get, "k")), reply(op_get, 0, "", replaced.cas, big(1, 4)).bytes(),
            "an empty value");
    tap::is(talk.class_sum(&ClassCounters::cmd_set), 8u, "cmd_set counts every attempt");
}

void test_quiet_storing() {
    BinaryTalk talk;
    const std::string exists = "Data exists for key.";
    tap::is(talk.say(request(op_setq, "k", "1", plain)), "", "setq is silent");
    tap::is(talk.say(request(op_addq, "k", "2", plain)), reply(op_addq, 2, exists).bytes(),
            "addq of a present key is not");
    tap::is(talk.say(request(op_addq, "new", "2", plain)), "", "addq is silent");
    tap::is(talk.say(request(op_replaceq, "k", "3", plain)), "", "replaceq is silent");
    tap::is(talk.say(request(op_replaceq, "none", "3", plain)),
            reply(op_replaceq, 1, "Not found").bytes(), "replaceq of a missing key is not");
    tap::is(talk.say(request(op_appendq, "k", "4")), "", "appendq is silent");
    tap::is(talk.say(request(op_prependq, "k", "2")), "", "prependq is silent");
    tap::is(talk.say(request(op_appendq, "none", "4")), reply(op_appendq, 5, "Not stored.").bytes(),
            "appendq to a missing key is not");
    tap::is(talk.say(request(op_prependq, "none", "4")),
            reply(op_prependq, 5, "Not stored.").bytes(), "prependq to a missing key is not");
    tap::is(get(talk, "k"), "234", "all of it happened");
    tap::is(talk.say(request(op_incrq, "n", "", arith_extras(1, 10, 0))), "",
            "incrq creates silently");
    tap::is(talk.say(request(op_incrq, "n", "", arith_extras(5, 0, 0))), "", "incrq is silent");
    tap::is(talk.say(request(op_decrq, "n", "", arith_extras(1, 0, 0))), "", "decrq is silent");
    tap::is(get(talk, "n"), "14", "and counts");
    tap::is(talk.say(request(op_incrq, "none", "", arith_extras(1, 0, 0xffffffff))),
            reply(op_incrq, 1, "Not found").bytes(), "incrq that may not create is not silent");
    tap::is(talk.say(request(op_deleteq, "k")), "", "deleteq is silent");
    tap::is(talk.say(request(op_deleteq, "k")), reply(op_deleteq, 1, "Not found").bytes(),
            "deleteq of a missing key is not");
    tap::is(talk.say(request(op_flushq)), "", "flushq is silent");
    tap::is(get(talk, "n"), "(miss)", "and flushes");
    tap::is(talk.say(request(op_quitq)), "", "quitq is silent");
    tap::ok(talk.closed, "and closes");
}

void test_cas() {
    BinaryTalk talk;
    const std::string exists = "Data exists for key.", missing = "Not found";
    for (uint8_t opcode : {op_set, op_add, op_replace}) {
        tap::is(talk.say(request(opcode, "none", "v", plain, 99)),
                reply(opcode, 1, missing).bytes(),
                "with a cas, of a missing key: opcode " + std::to_string(opcode));
        uint64_t cas = set(talk, "k", "old");
        tap::is(talk.say(request(opcode, "k", "v", plain, cas + 100)),
                reply(opcode, 2, exists).bytes(), "another cas: opcode " + std::to_string(opcode));
        tap::is(get(talk, "k"), "old", "changes nothing");
        Packet stored = ask(talk, request(opcode, "k", "v", plain, cas));
        tap::ok(stored.status == 0 && stored.cas > cas, "the right cas");
        tap::is(get(talk, "k"), "v", "stores");
    }
    tap::is(talk.counters->cas_misses.get(), 3u, "cas_misses");
    tap::is(talk.class_sum(&ClassCounters::cas_hits), 3u, "cas_hits");
    tap::is(talk.class_sum(&ClassCounters::cas_badval), 3u, "cas_badval");
    uint64_t cas = set(talk, "k", "7");
    tap::is(talk.say(request(op_append, "k", "v", "", cas + 100)),
            reply(op_append, 2, exists).bytes(), "append with another cas");
    tap::is(talk.say(request(op_prepend, "k", "v", "", cas + 100)),
            reply(op_prepend, 2, exists).bytes(), "prepend with another cas");
    tap::is(talk.say(request(op_incr, "k", "", arith_extras(1, 0, 0), cas + 100)),
            reply(op_incr, 2, exists).bytes(), "incr with another cas");
    tap::is(talk.say(request(op_delete, "k", "", "", cas + 100)),
            reply(op_delete, 2, exists).bytes(), "delete with another cas");
    Packet incremented = ask(talk, request(op_incr, "k", "", arith_extras(1, 0, 0), cas));
    tap::is(incremented.value, big(8, 8), "incr with the right cas");
    Packet appended = ask(talk, request(op_append, "k", "9", "", incremented.cas));
    tap::is(appended.status, 0u, "append with the right cas");
    tap::is(get(talk, "k"), "89", "happened");
    tap::is(talk.say(request(op_delete, "k", "", "", appended.cas)), reply(op_delete, 0).bytes(),
            "delete with the right cas");
    tap::is(talk.class_sum(&ClassCounters::delete_hits), 1u, "delete_hits");
    tap::is(talk.counters->delete_misses.get(), 0u, "a wrong cas is no delete_miss");
}

void test_no_cas() {
    node::Config config = small_config();
    config.cas = false;
    BinaryTalk talk(config);
    tap::is(talk.say(request(op_set, "k", "1", plain)), reply(op_set, 0).bytes(),
            "-C: set answers cas 0");
    tap::is(talk.say(request(op_set, "k", "2", plain, 7)), reply(op_set, 0).bytes(),
            "-C: set with a cas stores");
    tap::is(talk.say(request(op_append, "k", "3", "", 7)), reply(op_append, 0).bytes(),
            "-C: append with a cas stores");
    tap::is(talk.say(request(op_delete, "k", "", "", 7)),
            reply(op_delete, 2, "Data exists for key.").bytes(), "-C: delete with a cas does not");
    tap::is(talk.say(request(op_get, "k")), reply(op_get, 0, "23", 0, big(0, 4)).bytes(),
            "-C: get answers cas 0");
}

void test_arith() {
    BinaryTalk talk;
    auto arith = [&](uint8_t opcode, uint64_t delta, uint64_t initial, uint32_t exptime) {
        return ask(talk, request(opcode, "n", "", arith_extras(delta, initial, exptime)));
    };
    tap::is(arith(op_incr, 1, 5, 0xffffffff).status, 1u,
            "incr of a missing key that may not create");
    tap::is(talk.counters->incr_misses.get(), 1u, "incr_misses");
    tap::is(arith(op_decr, 1, 5, 0xffffffff).status, 1u, "decr likewise");
    tap::is(talk.counters->decr_misses.get(), 1u, "decr_misses");
    Packet created = arith(op_incr, 1, UINT64_MAX, 0);
    tap::is(created.value, big(UINT64_MAX, 8), "incr creates with the initial value");
    tap::ok(created.cas != 0, "and a cas");
    tap::is(get(talk, "n"), "18446744073709551615", "stored in decimal");
    tap::is(arith(op_incr, 1, 0, 0).value, big(0, 8), "it wraps at 64 bits");
    tap::is(arith(op_incr, 211, 0, 0xffffffff).value, big(211, 8),
            "0xffffffff does not matter on a hit");
    tap::is(arith(op_decr, 11, 0, 0).value, big(200, 8), "decr");
    tap::is(arith(op_decr, 1000, 0, 0).value, big(0, 8), "decr ends at zero");
    tap::is(talk.class_sum(&ClassCounters::incr_hits), 2u, "incr_hits, without what was created");
    tap::is(talk.class_sum(&ClassCounters::decr_hits), 2u, "decr_hits");
    tap::is(talk.counters->incr_misses.get(), 1u, "what was created is no miss");
    set(talk, "n", "abc");
    tap::is(talk.say(request(op_incr, "n", "", arith_extras(1, 0, 0))),
            reply(op_incr, 6, "Non-numeric server-side value for incr or decr").bytes(),
            "incr of letters");
    talk.say(request(op_delete, "n"));
    arith(op_decr, 1, 3, 10);
    talk.context.now += 11;
    tap::is(get(talk, "n"), "(miss)", "what was created expires");
}

void test_expiry() {
    BinaryTalk talk;
    auto after = [&](uint32_t exptime, NodeSeconds seconds) {
        talk.context.now = BinaryTalk::start;
        talk.say(request(op_set, "k", "v", set_extras(0, exptime)));
        talk.context.now += seconds;
        return get(talk, "k");
    };
    tap::is(after(0, 100'000'000), "v", "0 never expires");
    tap::is(after(10, 9), "v", "10 seconds: alive after 9");
    tap::is(after(10, 10), "(miss)", "gone after 10");
    tap::is(after(2'592'000, 2'591'999), "v", "thirty days are relative");
    tap::is(after(2'592'001, 0), "(miss)", "more is a date, here long past");
    uint32_t date = uint32_t(BinaryTalk::started_unix + BinaryTalk::start + 50);
    tap::is(after(date, 49), "v", "a date to come");
    tap::is(after(date, 50), "(miss)", "has come");
    tap::is(after(0xffffffff, 1000), "v", "the last date of all is not negative");
}

void test_too_large() {
    BinaryTalk talk;
    const std::string huge(2'000'000, 'x');
    for (uint8_t opcode : {op_set, op_setq, op_add, op_replace, op_append, op_prepend}) {
        bool appends = opcode == op_append || opcode == op_prepend;
        set(talk, "k", "old");
        Packet p = request(opcode, "k", huge, appends ? "" : plain);
        p.opaque = 77;
        Packet want = reply(opcode, 3, "Too large.");
        want.opaque = 77;
        std::string name = "too large, opcode " + std::to_string(opcode);
        tap::is(talk.say(p.bytes() + request(op_noop).bytes()),
                want.bytes() + reply(op_noop, 0).bytes(), name + ": the connection lives");
        bool gone = opcode == op_set || opcode == op_setq;
        tap::is(get(talk, "k"), gone ? "(miss)" : "old",
                name + (gone ? ": set forgets" : ": kept"));
    }
    tap::is(talk.counters->store_too_large.get(), 0u, "only text counts store_too_large, as in memcached");
    // Refused when the key has arrived; the value is then swallowed in pieces without being kept.
    Packet p = request(op_set, "k", "", plain);
    std::string head = p.with_lengths(1, 8, 1 << 30);
    tap::is(talk.say(head.substr(0, head.size() - 1)), "",
            "a body of 1 GiB: the key is waited for");
    tap::is(talk.say(head.substr(head.size() - 1)), reply(op_set, 3, "Too large.").bytes(),
            "and nothing more");
    tap::is(talk.held(), 0u, "nothing is kept");
    for (int i = 0; i < 100; i++) talk.say(std::string(100'000, 'y'));
    tap::is(talk.held(), 0u, "of what comes");
    tap::is(talk.session.swallow, (UINT32_C(1) << 30) - 9 - 10'000'000, "it is counted down");
    tap::ok(talk.want_peak < (1 << 20) + 400, "and never asked for");
}

void test_grown_too_large() {
    BinaryTalk talk;
    set(talk, "k", std::string(600'000, 'x'));
    tap::is(talk.say(request(op_append, "k", std::string(600'000, 'y'))),
            reply(op_append, 5, "Not stored.").bytes(),
            "an append that outgrows an item is not stored");
    tap::is(get(talk, "k").size(), 600'000u, "and the old value stays");
}

void test_want() {
    BinaryTalk talk;
    std::string bytes = request(op_set, "key", std::string(100, 'v'), plain).bytes();
    talk.say(bytes.substr(0, 1));
    tap::is(talk.last.want, 24u, "of one byte: a header is wanted");
    talk.say(bytes.substr(1, 23));
    tap::is(talk.last.want, 24u + 11u, "of a header: extras and key are wanted");
    talk.say(bytes.substr(24, 11));
    tap::is(talk.last.want, bytes.size(), "of extras and key: the value is wanted");
    talk.say(bytes.substr(35, 99));
    tap::is(talk.requests, 0u, "all but one byte: nothing is done");
    tap::is(talk.say(bytes.substr(134)).size(), 24u, "the last byte: stored");
    tap::is(talk.last.want, 0u, "nothing is wanted");
}

void test_refusals() {
    struct {
        const char* name;
        Packet packet;
        uint16_t status;
        const char* text;
    } refusals[] = {
        {"get with extras", request(op_get, "k", "", "abcd"), 4, "Invalid arguments"},
        {"get without key", request(op_get), 4, "Invalid arguments"},
        {"getq without key", request(op_getq), 4, "Invalid arguments"},
        {"get with value", request(op_get, "k", "v"), 4, "Invalid arguments"},
        {"key of 251", request(op_get, std::string(251, 'k')), 4, "Invalid arguments"},
        {"set without extras", request(op_set, "k", "v"), 4, "Invalid arguments"},
        {"setq without extras", request(op_setq, "k", "v"), 4, "Invalid arguments"},
        {"noop with a body", request(op_noop, "", "v"), 4, "Invalid arguments"},
        {"version with a body", request(op_version, "k"), 4, "Invalid arguments"},
        {"quit with a body", request(op_quit, "", "v"), 4, "Invalid arguments"},
        {"flush with a key", request(op_flush, "k"), 4, "Invalid arguments"},
        {"incr with short extras", request(op_incr, "k", "", "abcd"), 4, "Invalid arguments"},
        {"touch without extras", request(op_touch, "k"), 4, "Invalid arguments"},
        {"stat with extras", request(op_stat, "", "", "abcd"), 4, "Invalid arguments"},
        {"delete with a value", request(op_delete, "k", "v"), 4, "Invalid arguments"},
        {"append with extras", request(op_append, "k", "v", plain), 4, "Invalid arguments"},
    };
    for (const auto& r : refusals) {
        BinaryTalk talk;
        Packet want = reply(r.packet.opcode, r.status, r.text);
        tap::is(talk.say(r.packet.bytes() + request(op_noop).bytes()), want.bytes(),
                std::string(r.name) + ": one error");
        tap::ok(talk.closed, std::string(r.name) + ": closes");
    }
    BinaryTalk lying;
    tap::is(lying.say(request(op_get, "key").with_lengths(3, 0, 2)),
            reply(op_get, 0x81, "Unknown command").bytes(), "a key longer than the body");
    tap::ok(lying.closed, "closes");
    BinaryTalk text;
    tap::is(text.say(request(op_noop).bytes() + "get foo\r\n"), reply(op_noop, 0).bytes(),
            "text on a binary connection is not answered");
    tap::ok(text.closed, "it closes");
}

void test_unknown() {
    BinaryTalk talk;
    const std::string noop = request(op_noop).bytes(), answer = reply(op_noop, 0).bytes();
    for (int opcode : {0x1b, 0x1f, 0x20, 0x21, 0x22, 0x25, 0x30, 0x7f, 0xff}) {
        bool bare = opcode == op_sasl_list, sasl = opcode == op_sasl_auth || opcode == op_sasl_step;
        Packet p = request(uint8_t(opcode), bare ? "" : "key", bare ? "" : "and a value",
                           bare || sasl ? "" : "extras");
        Packet want = reply(uint8_t(opcode), 0x81, "Unknown command");
        tap::is(talk.say(p.bytes() + noop), want.bytes() + answer,
                "opcode " + std::to_string(opcode) + " is unknown and stays in frame");
    }
    // A command also discards fields that it does not use.
    tap::is(talk.say(request(op_touch, "k", "a value", big(0, 4)).bytes() + noop),
            reply(op_touch, 1, "Not found").bytes() + answer, "touch with a value stays in frame");
    tap::is(talk.say(request(op_gatq, "k", "a value", big(0, 4)).bytes() + noop), answer,
            "gatq with a value stays in frame");
    tap::is(talk.say(request(op_stat, "none", "a value").bytes() + noop),
            reply(op_stat, 1, "Not found").bytes() + answer, "stat with a value stays in frame");
}

void test_others() {
    BinaryTalk talk;
    tap::is(talk.say(request(op_version)), reply(op_version, 0, "1.6.45").bytes(), "version");
    tap::is(talk.say(request(op_noop)), reply(op_noop, 0).bytes(), "noop");
    std::string stats = reply(op_stat, 0, "42", 0, "", "pid").bytes() +
                        reply(op_stat, 0, "", 0, "", "empty").bytes() + reply(op_stat, 0).bytes();
    tap::is(talk.say(request(op_stat)), stats, "stat ends with an empty packet");
    tap::is(talk.say(request(op_stat, "reset")), reply(op_stat, 0).bytes(), "a group of nothing");
    tap::is(talk.say(request(op_stat, "bogus")), reply(op_stat, 1, "Not found").bytes(),
            "a group that is not");
    std::vector<Packet> many;
    tap::ok(packets::split(talk.say(request(op_stat, "many")), many), "a large group is whole");
    tap::is(many.size(), size_t(BinaryAdmin::many + 1), "and complete");
    talk.say(request(op_flush, "", "", big(100, 4)));
    tap::is(talk.admin.told, "flush_at1100", "a delayed flush is the daemon's");
    talk.say(request(op_flush, "", "", big(2'592'001, 4)));
    tap::is(talk.admin.told, "flush_at1100", "one for a time long past does nothing");
    tap::is(talk.counters->cmd_flush.get(), 2u, "both are counted");
    talk.options.flush_enabled = false;
    set(talk, "k", "v");
    tap::is(talk.say(request(op_flush)), reply(op_flush, 0x20, "Auth failure.").bytes(),
            "-F: flush");
    tap::is(talk.say(request(op_flushq)), reply(op_flushq, 0x20, "Auth failure.").bytes(),
            "-F: flushq is answered too");
    tap::is(get(talk, "k"), "v", "and nothing is flushed");
    tap::is(talk.say(request(op_quit).bytes() + request(op_noop).bytes()),
            reply(op_quit, 0).bytes(), "quit is answered, what follows is not");
    tap::ok(talk.closed, "and closes");
}

void test_followers() {
    BinaryTalk talk;
    talk.options.detail_enabled = true;
    talk.watch.want(daemon::watch_fetchers | daemon::watch_mutations | daemon::watch_deletions);
    talk.say(request(op_setq, "k", "four", set_extras(0, 50)));
    talk.say(request(op_getq, "k"));
    talk.say(request(op_getq, "none"));
    talk.say(request(op_touch, "k", "", big(60, 4)));
    talk.say(request(op_replaceq, "none", "v", plain));
    talk.say(request(op_set, "k", "v", plain, 12345678));
    talk.say(request(op_incrq, "n", "", arith_extras(1, 100, 9)));
    talk.say(request(op_set, "big", std::string(2'000'000, 'x'), set_extras(0, 50)));
    talk.say(request(op_deleteq, "k"));
    talk.say(request(op_deleteq, "k"));
    tap::is(talk.admin.told, "set:k+k-none+kset:noneset:kset:bigdel:kdel:k",
            "stats detail gets its records");
    tap::is(talk.watch.lines,
            "get k not_found 7 0\n"
            "store k stored set 50 4\n"
            "get k found 7 4\n"
            "get none not_found 7 0\n"
            "get k found 7 4\n"
            "get none not_found 7 0\n"
            "store none not_stored replace 0 1\n"
            "get k found 7 4\n"
            "store k exists cas 0 1\n"
            "get n not_found 7 0\n"
            "get n not_found 7 0\n"
            "store n stored add 9 3\n"
            "store big too_large set 0 0\n"
            "get big not_found 7 0\n"
            "get k found 7 4\n"
            "deleted k delete 4\n"
            "get k not_found 7 0\n",
            "watchers get their lines");
}

// A pipeline of all commands; no cas in its replies depends on earlier mutations.
std::string pipeline() {
    std::string said;
    auto add = [&](const Packet& p) { said += p.bytes(); };
    for (int i = 0; i < 30; i++) {
        std::string key = "key" + std::to_string(i);
        add(request(i % 3 == 0 ? op_set : op_setq, key, std::string(size_t(i), 'v'), plain));
        add(request(op_getkq, key));
        add(request(op_getq, "none" + key));
    }
    for (int i = 0; i < 30; i++) add(request(op_getkq, "key" + std::to_string(29 - i)));
    add(request(op_noop));
    add(request(op_verbosity, "key", "value", "extras"));
    add(request(op_addq, "key1", "v", plain));
    add(request(op_incrq, "n", "", arith_extras(1, 1, 0)));
    add(request(op_incr, "n", "", arith_extras(1, 1, 0)));
    add(request(op_stat));
    add(request(op_gatkq, "key5", "to throw away", big(0, 4)));
    add(request(op_set, "big", std::string(1'050'000, 'x'), plain));
    add(request(op_deleteq, "key7"));
    add(request(op_getk, "key7"));
    add(request(op_quit));
    return said;
}

void test_splits() {
    const std::string said = pipeline();
    BinaryTalk whole;
    const std::string heard = whole.say(said);
    tap::ok(whole.closed, "a long pipeline in one piece");
    std::vector<Packet> replies;
    tap::ok(packets::split(heard, replies), "its replies are whole");
    size_t differing = 0;
    for (size_t size : {1, 2, 3, 7, 23, 24, 25, 31, 100, 1000, 4096, 65536}) {
        BinaryTalk pieces;
        if (pieces.say_in_pieces(said, size) != heard) differing++;
    }
    tap::is(differing, 0u, "pieces of many sizes change nothing");
    for (uint32_t budget : {1, 2, 7, 8, 9, 20}) {
        BinaryTalk small;
        small.budget = budget;
        if (small.say(said) != heard) differing++;
        if (small.yields == 0 || small.requests != whole.requests) differing++;
    }
    tap::is(differing, 0u, "nor do small budgets, but for yields");
    const std::string head = said.substr(0, 700);
    for (size_t cut = 0; cut <= head.size(); cut++) {
        BinaryTalk two;
        std::string sent = two.say(head.substr(0, cut));
        sent += two.say(head.substr(cut));
        if (sent != heard.substr(0, sent.size()) || sent.size() < 100) differing++;
    }
    tap::is(differing, 0u, "nor does a cut anywhere");
}

void test_output_bound() {
    BinaryTalk talk;
    set(talk, "k", std::string(500'000, 'x'));
    std::string said;
    for (int i = 0; i < 40; i++) said += request(op_getq, "k").bytes();
    std::string heard = talk.say(said + request(op_noop).bytes());
    tap::is(heard.size(), 40u * (24 + 4 + 500'000) + 24, "forty large hits in one pipeline");
    tap::ok(talk.out_peak < daemon::out_bytes_soft_max + 600'000, "never all at once");
    tap::ok(talk.yields >= 10, "but in turns");
}

void test_cluster_list() {
    constexpr uint8_t op_config_get = 0x60;
    BinaryTalk talk;
    const std::string unknown = reply(op_config_get, 0x81, "Unknown command").bytes();
    tap::is(talk.say(request(op_config_get, "cluster")), unknown, "60 without a view is unknown, as in memcached");
    daemon::ClusterView view;
    talk.options.cluster = &view;
    tap::is(talk.say(request(op_config_get, "cluster")), unknown, "and without a list");
    tap::is(talk.say(request(op_get, "AmazonElastiCache:cluster")), reply(op_get, 1, "Not found").bytes(), "the key is a miss");
    view.set({{"a", "10.0.0.1", 1}, {"b", "", 22}}, 7);
    const std::string text = "7\na|10.0.0.1|1 b||22\n", flags(4, '\0');
    tap::is(talk.say(request(op_config_get, "cluster")), reply(op_config_get, 0, text, 7, flags).bytes(),
            "60 answers with the list");
    tap::is(talk.say(request(op_config_get, "other")), reply(op_config_get, 1, "Not found").bytes(), "another name is not found");
    tap::is(talk.say(request(op_config_get, "cluster", "", flags)), unknown, "60 with extras is unknown");
    tap::is(talk.counters->cmd_config_get.get(), 1u, "one is counted");
    tap::is(talk.say(request(op_get, "AmazonElastiCache:cluster")), reply(op_get, 0, text, 7, flags).bytes(), "a get of the key");
    tap::is(talk.say(request(op_getkq, "AmazonElastiCache:cluster")),
            reply(op_getkq, 0, text, 7, flags, "AmazonElastiCache:cluster").bytes(), "a quiet one with its key");
    tap::is(talk.class_sum(&ClassCounters::get_hits) + talk.counters->get_misses.get(), talk.counters->get_cmds.get(),
            "hits and misses are the gets");
}

}  // namespace

int main() {
    test_cluster_list();
    test_get_family();
    test_lock_free();
    test_storing();
    test_quiet_storing();
    test_cas();
    test_no_cas();
    test_arith();
    test_expiry();
    test_too_large();
    test_grown_too_large();
    test_want();
    test_refusals();
    test_unknown();
    test_others();
    test_followers();
    test_splits();
    test_output_bound();
    return tap::done();
}
