// SPDX-License-Identifier: BSD-3-Clause
// A worker's datagrams: one reply sequence for all requests of a datagram, the limit on it, what is refused, a socket that takes no
// more, too many at once, replies that wait, and allocations that fail.
#include <algorithm>
#include <deque>
#include <string>
#include <string_view>

#include "daemon/farcached/udp_sockets.h"
#include "t/lib/refused_new.h"
#include "t/unit/daemon/datagram_fixture.h"

namespace {

uint64_t allocations_left = UINT64_MAX;

}  // namespace

bool allocation_refused(size_t) {
    if (allocations_left == UINT64_MAX) return false;
    if (allocations_left != 0) {
        allocations_left--;
        return false;
    }
    return true;
}

using namespace farcached;
using fixture::DatagramTalk;
using fixture::udp_frame;

namespace {

constexpr std::string_view too_long = "SERVER_ERROR reply exceeds udp_amplification\r\n";
constexpr std::string_view unfinished = "SERVER_ERROR request does not end in its datagram\r\n";
constexpr std::string_view refused = "CLIENT_ERROR not allowed over UDP\r\n";
constexpr std::string_view lacking = "SERVER_ERROR out of memory for datagrams\r\n";

std::string set(std::string_view key, size_t size) {
    return "set " + std::string(key) + " 0 0 " + std::to_string(size) + "\r\n" + std::string(size, 'v') + "\r\n";
}

std::string hit(std::string_view key, size_t size) {
    return "VALUE " + std::string(key) + " 0 " + std::to_string(size) + "\r\n" + std::string(size, 'v') + "\r\nEND\r\n";
}

void test_replies(bool later) {
    DatagramTalk t(later);
    const std::string title = later ? "with a reply queue: " : "";
    tap::is(t.ask("get a\r\n"), "END\r\n", title + "a miss");
    tap::is(t.ask(set("a", 3) + "get a\r\nmg a v\r\nincr a 1\r\n", 0xffff),
            "STORED\r\n" + hit("a", 3) + "VA 3\r\nvvv\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
            title + "several requests, one reply");
    tap::is(t.ask("set a 0 0 1 noreply\r\nx\r\n"), "", title + "noreply");
    tap::is(t.ask("get a\r\nquit\r\nget a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n", title + "nothing behind quit");
    t.live.requests_per_event = 3;
    std::string many, all;
    for (int i = 0; i < 500; i++) many += "mn\r\n", all += "MN\r\n";
    tap::is(t.ask(many), all, title + "more requests than a turn has");
    for (const size_t size : {1371, 1372, 1373, 5000, 12'000})
        tap::is(t.ask(set("large", size) + "get large\r\n"), "STORED\r\n" + hit("large", size), title + "a long reply");
    tap::is(t.ask("get " + std::string(3000, ' ') + "a large a\r\n").size(), size_t(16 + 12'023 + 16 + 5), title + "a long line");
    tap::is(t.talk.counters->udp_datagrams.get(), uint64_t(11), title + "all are counted");
    tap::ok(t.datagrams->ended() == false && t.talk.counters->udp_invalid.get() == 0, title + "none is invalid");
}

void test_invalid() {
    DatagramTalk t;
    for (const std::string& datagram : {std::string(), std::string("x"), udp_frame(1, ""), udp_frame(1, "mn\r\n", 2),
                                        udp_frame(1, "mn\r\n", 0), udp_frame(1, "ERROR\r\n")}) {
        t.send(datagram);
        t.run();
        tap::is(t.received().size(), size_t(0), "no reply to what is no request");
    }
    tap::is(t.talk.counters->udp_invalid.get(), uint64_t(6), "six are counted");
    tap::is(t.ask("get a"), "", "a line without an end");
    tap::is(t.ask("set a 0 0 5\r\nab"), unfinished, "an incomplete value");
    tap::is(t.ask("set a 0 0 5 noreply\r\nab"), "", "the same with noreply");
    tap::is(t.ask("set a 0 0 20000\r\n" + std::string(19'000, 'v')), unfinished, "a large one");
    tap::is(t.ask("mn\r\nms a 5\r\nab"), "MN\r\n" + std::string(unfinished), "the request before it is executed");
    tap::is(t.ask("get a\r\n"), "END\r\n", "nothing is stored");
    tap::is(t.talk.counters->udp_invalid.get(), uint64_t(11), "each is counted");
    tap::is(t.talk.node.stats(t.talk.context.now).bytes_arriving, uint64_t(0), "and holds no memory");
}

void test_refused() {
    DatagramTalk t;
    t.talk.options.shutdown_enabled = true;
    for (const std::string_view command : {"watch", "lru_crawler metadump all", "lru_crawler mgdump all", "shutdown", "verbosity 2",
                                           "cache_memlimit 64", "slabs automove 1", "lru tune 1 1 1 1", "lru_crawler disable"})
        tap::is(t.ask(std::string(command) + "\r\n"), refused, command);
    for (const std::string_view args : {"reset", "detail on", "detail dump", "detail", "cachedump 1 1", "hotkeys reset",
                                        "hotkeys  reset"})
        tap::is(t.ask("stats " + std::string(args) + "\r\n"), refused, "stats " + std::string(args));
    tap::is(t.talk.admin.told, "", "none of them is executed");
    tap::is(t.ask("stats\r\nstats hotkeys\r\nstats settings\r\n"), "END\r\nEND\r\nEND\r\n", "other statistics");
    tap::is(t.talk.admin.told, "stats[]stats[hotkeys]stats[settings]", "are");
    tap::is(t.ask("verbosity 1 noreply\r\n"), "", "noreply");
    tap::is(t.ask("flush_all\r\n"), "OK\r\n", "flush_all is");
}

void test_limit() {
    DatagramTalk t;
    t.live.udp_amplification = 4;  // 60 bytes for the 15 of "get k"
    t.ask(set("k", 31));
    tap::is(t.ask("get k\r\n"), hit("k", 31), "a reply as long as the limit");
    t.ask(set("k", 32));
    tap::is(t.ask("get k\r\n"), too_long, "one byte more");
    tap::is(t.ask("get k\r\nset other 0 0 1\r\nx\r\n"), "VALUE k 0 32\r\n" + std::string(32, 'v') + "\r\nEND\r\nSTORED\r\n",
            "a longer request may get it");
    t.live.udp_amplification = 1;
    tap::is(t.ask("get k\r\n"), "", "no reply where the error is too long, either");
    tap::is(t.ask("mn\r\n"), "MN\r\n", "a short one fits");
    tap::is(t.talk.counters->udp_replies_refused.get(), uint64_t(2), "both are counted");
    t.live.udp_amplification = 1000;
    t.ask(set("k", 20'000));
    tap::is(t.ask("get k k\r\nset behind 0 0 1\r\nx\r\n"), too_long, "a large value");
    tap::is(t.ask("get behind\r\n"), "END\r\n", "the requests behind it are not executed");
    tap::is(t.talk.node.bytes_lent(), uint64_t(0), "it lends no memory any more");
    std::string binary(25, '\0');
    binary[0] = char(0x80);
    binary[3] = 1;
    binary[11] = 1;
    binary[15] = 9;
    binary[24] = 'k';
    t.ask(set("k", 40'000));
    const std::string reply = t.ask(binary);
    tap::ok(reply.size() == 24 + 31 && uint8_t(reply[0]) == 0x81 && reply[1] == 0 && reply[7] == 3 && reply[15] == 9,
            "a binary request gets status 3 with its opaque");
}

void test_lost() {
    DatagramTalk t(/* later= */ false, /* unix_pair= */ true);
    t.ask(set("k", 60'000));
    const int small = 4096;
    (void)setsockopt(t.socket.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    t.send(udp_frame(1, "get " + std::string(100, 'n') + " k\r\n"));
    t.run();
    tap::is(t.talk.counters->udp_replies_lost.get(), uint64_t(1), "a full socket loses the rest of a reply");
    tap::ok(t.received().size() < 44, "which is incomplete");
    tap::is(t.ask("mn\r\n"), "MN\r\n", "the next one is whole");
}

struct CountedRoom final : daemon::RoomMaker {
    bool make_room(size_t, daemon::Lack) override {
        calls++;
        return false;
    }
    int calls = 0;
};

// As many as may be in flight, each with 400 kB of replies behind which the rest waits. Those beyond the bound are refused,
// the others are whole, and no session ends.
void test_kept(uint64_t limit, bool lent) {
    const std::string title = "of " + std::to_string(limit >> 20) + " MiB, " + (lent ? "lent" : "copied") + " values: ";
    daemon::SessionMemory memory(limit);
    DatagramTalk t(/* later= */ false, /* unix_pair= */ false, &memory);
    CountedRoom room;
    t.talk.context.room = &room;
    t.ask(set("k", lent ? 50'000 : 10'000));
    t.live.requests_per_event = 60;
    std::string request;
    for (int i = 0; i < (lent ? 8 : 40); i++) request += "get k\r\n";
    for (int i = 0; i < 100; i++) request += "mn\r\n";
    size_t most = 0;
    for (uint32_t i = 0; i < daemon::Datagrams::in_flight_max; i++) {
        t.send(udp_frame(uint16_t(i), request));
        t.waits.turn();
        most = std::max(most, size_t(memory.used()));
    }
    const uint64_t bound = std::min<uint64_t>(daemon::Datagrams::kept_bytes_max, limit / 2);
    tap::ok(most <= bound && most > bound / 2, title + "kept replies are charged, and bounded");
    tap::is(t.talk.node.bytes_lent(), uint64_t(0), title + "and pin no memory");
    const std::vector<std::string> sent = t.received();
    const auto is_refusal = [](std::string_view part) { return part.substr(8) == lacking; };
    const uint64_t kept = t.socket.in_flight.load();
    tap::ok(kept > 0 && kept < 64, title + "some wait");
    tap::ok(std::ranges::all_of(sent, is_refusal) && sent.size() == daemon::Datagrams::in_flight_max - kept,
            title + "all others are refused");
    tap::is(t.talk.counters->udp_no_memory.get(), uint64_t(sent.size()), title + "and counted");
    tap::is(room.calls, 0, title + "no session ends");
    t.run();
    tap::ok(!t.received().empty() && t.socket.in_flight.load() == 0, title + "those that waited are answered");
    tap::is(memory.used(), uint64_t(0), title + "and nothing is charged any more");
    t.ask(set("k", 20'000));
    t.live.requests_per_event = 1;
    tap::is(t.ask("get " + std::string(60, ' ') + "k\r\nmn\r\nget k\r\n"), hit("k", 20'000) + "MN\r\n" + hit("k", 20'000),
            title + "the next is served");
}

// Memory that sessions hold is left to them.
void test_room() {
    daemon::SessionMemory memory(1 << 20);
    DatagramTalk t(/* later= */ true, /* unix_pair= */ false, &memory);
    CountedRoom room;
    t.talk.context.room = &room;
    t.live.requests_per_event = 1;
    const std::string request = "mn\r\nmn\r\nget " + std::string(3000, ' ') + "none\r\n";
    if (!memory.take(1 << 19)) std::abort();
    tap::is(t.ask(request), lacking, "without room a datagram is refused");
    std::string binary;
    for (const char opaque : {5, 6, 7}) {
        std::string noop(24, '\0');
        noop[0] = char(0x80);
        noop[1] = 10;
        noop[15] = opaque;
        binary += noop;
    }
    const std::string reply = t.ask(binary);
    tap::ok(reply.size() == 24 + lacking.size() - 15 && uint8_t(reply[7]) == 0x82 && reply[15] == 5, "and a binary one");
    tap::is(room.calls, 0, "and no session ends for it");
    memory.give_back(1 << 19);
    std::deque<BorrowedBytes> pins;  // as many as there may be
    do {
        const std::string key = "pinned" + std::to_string(pins.size());
        t.ask(set(key, 20'000));
        protocol::GetOp op;
        op.key = t.talk.context.router.key(key);
        t.talk.node.get(op, t.talk.context.now, [](const protocol::ItemMeta&) -> char* { return nullptr; }, &pins.emplace_back());
    } while (pins.back());
    t.ask(set("k", 20'000));
    tap::is(t.ask("get " + std::string(60, ' ') + "k\r\n"), hit("k", 20'000), "a value that cannot be lent is copied");
    tap::is(room.calls, 0, "and no session ends for its pins");
    pins.clear();
    tap::is(t.ask(request), "MN\r\nMN\r\nEND\r\n", "with room it is served");
    tap::is(memory.used(), uint64_t(0), "and holds nothing afterwards");
}

void test_buffers() {
    DatagramTalk t;
    for (const int name : {SO_RCVBUF, SO_SNDBUF}) {
        const auto size = [&] {
            int value = 0;
            socklen_t bytes = sizeof value;
            (void)getsockopt(t.socket.fd, SOL_SOCKET, name, &value, &bytes);
            return value;
        };
        const int before = size();
        daemon::raise_buffer(t.socket.fd, name, 4096);
        tap::is(size(), before, "a socket's buffer is not lowered");
        const int small = 4096;
        (void)setsockopt(t.socket.fd, SOL_SOCKET, name, &small, sizeof small);
        daemon::raise_buffer(t.socket.fd, name, 65'536);
        tap::ok(size() > 2 * small, "but raised");
    }
}

// Each datagram waits for its turn, and nothing is read while as many wait as may.
void test_many() {
    DatagramTalk t;
    t.live.requests_per_event = 1;
    uint64_t answered = 0;
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 5; i++) t.send(udp_frame(uint16_t(i), "mn\r\nmn\r\nmn\r\n"));
        t.waits.turn();
        if (!t.waits.awaited()) {
            t.run();
            answered += t.received().size();
            t.waits.turn();
        }
    }
    t.run();
    t.waits.turn();
    t.run();
    answered += t.received().size();
    tap::ok(answered > 0, "datagrams above the limit wait in the socket");
    tap::ok(t.waits.awaited(), "which is read again");
}

void test_memory(bool later) {
    DatagramTalk t(later);
    t.live.requests_per_event = 2;
    t.ask(set("k", 5000));
    const std::string request = "get k\r\nmn\r\nget k\r\n" + set("x", 100) + "get x\r\n";
    const std::string reply = hit("k", 5000) + "MN\r\n" + hit("k", 5000) + "STORED\r\n" + hit("x", 100);
    uint64_t failed = 0, wrong = 0;
    for (uint64_t n = 0; n < 200; n++) {
        t.send(udp_frame(7, request));
        allocations_left = n;
        t.run();
        const bool ran_out = allocations_left == 0;
        allocations_left = UINT64_MAX;
        failed += ran_out;
        (void)t.received();
        wrong += t.ask(request) != reply;
        if (!ran_out) break;
    }
    tap::ok(failed > 0 && t.talk.counters->udp_no_memory.get() > 0, "allocations fail");
    tap::is(wrong, uint64_t(0), "and the next datagram is served");
}

}  // namespace

int main() {
    test_replies(false);
    test_replies(true);
    test_invalid();
    test_refused();
    test_limit();
    test_lost();
    test_many();
    for (const uint64_t limit : {4 << 20, 64 << 20})
        for (const bool lent : {false, true}) test_kept(limit, lent);
    test_room();
    test_buffers();
    test_memory(false);
    test_memory(true);
    return tap::done();
}
