// SPDX-License-Identifier: BSD-3-Clause
// Permissions of clients in the engines: what is refused, the replies in their place, the bytes that are discarded, counters and
// watch lines; the rights of a session through changes of its identity and of the table.
#include "daemon/engine/permissions.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/commands/passwords.h"
#include "fabric/socket.h"
#include "t/lib/tap.h"
#include "t/unit/daemon/binary_fixture.h"
#include "t/unit/daemon/text_fixture.h"

using namespace farcached;
using namespace std::string_view_literals;
using daemon::ClientRights;
using daemon::Permissions;
using fixture::BinaryTalk;
using fixture::Talk;

namespace {

#define DENIED "CLIENT_ERROR permission denied\r\n"

constexpr CommandClasses r = bit_of(CommandClass::read), w = bit_of(CommandClass::write), a = bit_of(CommandClass::admin),
                         s = bit_of(CommandClass::stats);

std::shared_ptr<const Permissions> table(std::map<std::string, CommandClasses, std::less<>> of) {
    return Permissions::of({std::move(of)});
}

template <class Client>
void use(Client& client, const std::shared_ptr<const Permissions>& permissions) {
    client.context.permissions = permissions.get();
    grant_rights(client.context, client.session);
}

void test_table() {
    tap::ok(Permissions::of({}) == nullptr, "without identities there is no table");
    const auto some = table({{"alice", r | w}, {"*", r}}), strict = table({{"alice", s}});
    tap::is(some->classes_of("alice"), r | w, "a named identity");
    tap::is(some->classes_of("bob"), r, "another one");
    tap::is(some->classes_of("anonymous"), r, "a client without one");
    tap::is(strict->classes_of("bob"), no_command_classes, "without * another one has nothing");
}

void test_rights() {
    ClientRights rights;
    tap::ok(rights.all() && rights.identity() == "anonymous", "a new session may do all");
    rights.set(r);
    rights.identify("alice");
    rights.identify(std::string(300, 'x'));
    tap::ok(rights.allow(r) && !rights.allow(w) && !rights.allow(r | w), "an identity keeps them");
    tap::ok(rights.allow(no_command_classes) && !rights.all(), "no class is always there");
    tap::is(rights.identity().size(), size_t(300), "and has its name");
    ClientRights moved = std::move(rights);
    tap::ok(moved.classes() == r && moved.identity().size() == 300 && rights.all(), "both move");
    moved = ClientRights();
    tap::ok(moved.all() && moved.identity() == "anonymous", "and end");
}

void test_reader() {
    Talk t;
    tap::is(t.say("set a 0 0 1\r\n1\r\n"), "STORED\r\n", "without a table");
    const auto readers = table({{"*", r}});
    use(t, readers);
    tap::is(t.say("get a\r\nset a 0 0 1\r\n2\r\nget a\r\n"), "VALUE a 0 1\r\n1\r\nEND\r\n" DENIED "VALUE a 0 1\r\n1\r\nEND\r\n",
            "a reader: the replies have their order");
    tap::is(t.say_in_pieces("set a 0 0 7\r\nget a\r\n\r\nadd b 0 0 1 noreply\r\nx\r\nms a 7 q\r\nget a\r\n\r\nmn\r\n", 1),
            DENIED DENIED "MN\r\n", "values are discarded, byte by byte");
    tap::is(t.say("mg a v\r\nmg a v T30\r\nmd a q\r\nma a\r\nme b\r\n"), "VA 1\r\n1\r\n" DENIED DENIED DENIED "EN\r\n", "meta");
    tap::is(t.say("stats\r\nstats reset\r\nflush_all\r\nflush_all noreply\r\nverbosity 1\r\nversion\r\nwatch\r\nshutdown\r\n"),
            DENIED DENIED DENIED DENIED "VERSION 1.6.45\r\n" DENIED DENIED, "administration");
    tap::is(t.admin.told, "", "none of it is executed");
    const daemon::WorkerCounters& counted = *t.counters;
    tap::is(counted.refused_write.get(), uint64_t(7), "refused_write");
    tap::is(counted.refused_admin.get(), uint64_t(6), "refused_admin");
    tap::is(counted.refused_stats.get(), uint64_t(1), "refused_stats");
    tap::is(counted.refused_read.get(), uint64_t(0), "refused_read");
    use(t, nullptr);
    tap::is(t.say("set a 0 0 1\r\n3\r\n"), "STORED\r\n", "without the table again");
}

void test_writer() {
    Talk t;
    const auto writers = table({{"*", w}});
    use(t, writers);
    tap::is(t.say("set a 0 0 1\r\n1\r\nget a\r\ngets a b\r\ngat 1 a\r\ntouch a 1\r\nmg a v\r\nincr a 1\r\n"),
            "STORED\r\n" DENIED DENIED DENIED "TOUCHED\r\n" DENIED "2\r\n", "a writer");
    std::string keys;
    for (int i = 0; i < 1000; i++) keys += " k" + std::to_string(i);
    tap::is(t.say_in_pieces("get" + keys + "\r\nmn\r\n", 700), DENIED "MN\r\n", "a long line is refused once");
    tap::is(t.counters->refused_read.get(), uint64_t(5), "and counted once");
}

// Q1: a value under way is stored, although the permission is gone when it is complete.
void test_pending() {
    const std::string value(node::lent_bytes_min + 100'000, 'v');
    const std::string head = "set a 0 0 " + std::to_string(value.size()) + "\r\n";
    const auto writers = table({{"*", r | w}}), readers = table({{"*", r}});
    Talk t;
    use(t, writers);
    tap::is(t.say(head + value.substr(0, 10)), "", "a large value begins");
    tap::ok(t.session.pending != nullptr, "in its slot");
    use(t, readers);
    tap::is(t.say(value.substr(10) + "\r\nmn\r\n"), "STORED\r\nMN\r\n", "and is stored");
    tap::is(t.say(head + value + "\r\nmn\r\n"), DENIED "MN\r\n", "the next one is not");
}

void test_own_sessions() {
    const auto nobody = table({{"alice", r}});
    for (const bool operators : {true, false}) {
        Talk t;
        t.session.admin = operators;
        t.session.own = !operators;
        use(t, nobody);
        tap::is(t.say("set a 0 0 1\r\n1\r\nget a\r\n"), "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n", "the operator, and this process");
    }
}

void test_login() {
    daemon::Passwords passwords;
    passwords.use({{"alice", "x"}, {"bob", "y"}});
    const auto users = table({{"alice", r | w}, {"*", no_command_classes}});
    Talk t;
    t.options.passwords = &passwords;
    use(t, users);
    OutBuffer out;
    std::unique_ptr<daemon::SaslExchange> exchange;
    const std::string line = "set k 0 0 7\r\nalice x\r\n";
    const daemon::Progress progress = run_locked(t.context, t.session, line, out, 10, exchange);
    tap::ok(progress.unlocked && t.session.rights.identity() == "alice", "-Y names the client");
    tap::is(t.say("set a 0 0 1\r\n1\r\n"), "STORED\r\n", "which then has its rights");
    const auto others = table({{"alice", r}});
    use(t, others);
    tap::is(t.say("set a 0 0 1\r\n1\r\nget b\r\n"), DENIED "END\r\n", "also after a reload");
}

class Watch final : public daemon::WatchLog {
  public:
    std::string lines;
    void want(uint32_t flags) { wanted_.store(flags, std::memory_order_relaxed); }
    void item_get(std::string_view, std::string_view, uint8_t, int, uint32_t) override {}
    void item_store(std::string_view, std::string_view, std::string_view, int64_t, uint8_t, int, uint32_t) override {}
    void deleted(std::string_view, std::string_view, uint8_t, uint32_t) override {}
    void eviction(std::string_view, const protocol::ItemMeta&, int64_t, NodeSeconds) override {}
    void connection(std::string_view) override {}
    void refusal(std::string_view line) override { lines += std::string(line) + "\n"; }
};

void test_watch() {
    Watch watch;
    Talk t;
    daemon::Context context{t.context.router, *t.counters, t.options, t.admin, watch, Talk::start, Talk::started_unix};
    const auto users = table({{"a b", r}});
    context.permissions = users.get();
    daemon::identify(context, t.session, "a b");
    const protocol::CommandNeeds needs{"delete", w};
    note_refusal(context, t.session, needs);
    tap::is(watch.lines, "", "without a watcher there is no line");
    watch.want(daemon::watch_refusals);
    note_refusal(context, t.session, needs);
    t.session.datagram = true;
    const auto sender = fabric::numeric_address("127.0.0.1", 40950);
    context.sender = &*sender;
    note_refusal(context, t.session, {"flush_all", a});
    tap::is(watch.lines,
            "type=refused identity=a%20b class=write command=delete client=unix cfd=7\n"
            "type=refused identity=a%20b class=admin command=flush_all client=udp:127.0.0.1:40950 cfd=7\n", "their lines");
}

void test_binary() {
    BinaryTalk t;
    const auto readers = table({{"*", r}});
    use(t, readers);
    const std::string extras(8, '\0');
    const auto no_access = [](uint8_t opcode) { return packets::reply(opcode, 0x24, "Permission denied").bytes(); };
    const auto missing = packets::reply(0x00, 1, "Not found").bytes(), noop = packets::reply(0x0a, 0).bytes();
    std::string asked, want;
    const auto refused = [&](const packets::Packet& one) {
        asked += one.bytes();
        want += no_access(one.opcode);
    };
    asked += packets::request(0x00, "k").bytes();
    want += missing;
    for (const uint8_t opcode : {0x01, 0x11, 0x02, 0x03}) refused(packets::request(opcode, "k", std::string(100, 'v'), extras));
    for (const uint8_t opcode : {0x0e, 0x19, 0x0f}) refused(packets::request(opcode, "k", "value"));
    for (const uint8_t opcode : {0x04, 0x14}) refused(packets::request(opcode, "k"));
    for (const uint8_t opcode : {0x05, 0x06}) refused(packets::request(opcode, "k", "", std::string(20, '\0')));
    for (const uint8_t opcode : {0x1c, 0x1d, 0x1e}) refused(packets::request(opcode, "k", "", std::string(4, '\0')));
    for (const uint8_t opcode : {0x08, 0x18, 0x10}) refused(packets::request(opcode));
    asked += packets::request(0x09, "k").bytes() + packets::request(0x0a).bytes();
    want += noop;
    tap::ok(t.say(asked) == want, "a reader in binary");
    tap::ok(t.say_in_pieces(asked, 1) == want, "byte by byte");
    tap::is(t.counters->refused_write.get(), uint64_t(28), "refused_write");
    tap::is(t.counters->refused_admin.get(), uint64_t(4), "refused_admin");
    tap::is(t.counters->refused_stats.get(), uint64_t(2), "refused_stats");
    const auto writers = table({{"*", w}});
    use(t, writers);
    tap::ok(t.say(packets::request(0x00, "k")) == no_access(0x00) && t.say(packets::request(0x09, "k")) == no_access(0x09),
            "a writer reads nothing, and quiet gets have an error");
}

}  // namespace

int main() {
    test_table();
    test_rights();
    test_reader();
    test_writer();
    test_pending();
    test_own_sessions();
    test_login();
    test_watch();
    test_binary();
    return tap::done();
}
