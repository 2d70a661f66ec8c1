// SPDX-License-Identifier: BSD-3-Clause
// The pure parts of the channel over RDMA: limits of devices, the account of credits, greetings, the grace. Without a
// device the channel reports that and does nothing.
#include <cstdlib>
#include <deque>
#include <random>
#include <string>

#include "fabric/verbs/verbs_device.h"
#include "fabric/verbs/verbs_greeting.h"
#include "fabric/verbs/verbs_work.h"
#include "protocol/layout_hash.h"
#include "t/unit/fabric/channel_fixture.h"

namespace {

using namespace channel_test;

void configuration() {
    const VerbsConfig wanted;
    const VerbsConfig large = wanted.clamped({16384, 1 << 22, 16, 128});
    tap::is(large.describe(), wanted.describe(), "a device that can do more gives what is wanted");
    const VerbsConfig fewer = wanted.clamped({16384, 1 << 22, 4, 128});
    tap::is(uint32_t(fewer.reads_at_once), 4u, "READs at once are what the device has");
    const VerbsConfig none = wanted.clamped({0, 0, 0, 0});
    tap::is(uint32_t(none.reads_at_once), 1u, "one at least");
    uint32_t wrong = 0;
    for (uint32_t requests = 0; requests < 700; requests++) {
        for (const uint32_t completions : {0U, 20U, 64U, 300U, 1U << 20}) {
            const VerbsConfig use = wanted.clamped({requests, completions, 16, 16});
            if (use.receives % 2 != 0 || use.receives < 4 || use.sends < 4 || use.reads < 1) wrong++;
            if (requests >= 12 && (use.send_queue() > requests || use.receives > requests)) wrong++;
            if (completions >= 64 && use.send_queue() + use.receives > completions) wrong++;
        }
    }
    tap::is(wrong, 0u, "no queue exceeds a device's limits");
    tap::is(verbs_flight_us(14, 7), 536'870u, "a READ is under way for so long at most");
    tap::is(verbs_grace_ms(wanted, 256'000), 4u * 537 + 512, "and the grace is four times that, and 0.2 % of a term");
}

// Two sides that send, receive and consume in random order: no receive queue runs empty, and no side blocks forever.
struct Side {
    VerbsCredits credits;
    enum class Kind { bytes, written, nothing };
    std::deque<std::pair<Kind, uint32_t>> coming = {};  // and what it pays
    uint32_t unread = 0, to_send = 0, arrived = 0, to_write = 0, written = 0;

    void send(Side& other, Kind kind) { other.coming.emplace_back(kind, credits.spend()); }
    bool act(Side& other, Kind kind) {
        uint32_t& left = kind == Kind::bytes ? to_send : to_write;
        if (left == 0 || !credits.may_send()) return false;
        send(other, kind);
        left--;
        return true;
    }
    bool pay(Side& other) {
        if (!credits.must_pay()) return false;
        if (credits.available() == 0) std::abort();  // K2
        send(other, Kind::nothing);
        return true;
    }
    bool receive() {
        if (coming.empty()) return false;
        const auto [kind, paid] = coming.front();
        coming.pop_front();
        if (!credits.earn(paid)) std::abort();
        if (kind == Kind::written) written++;
        if (kind == Kind::bytes)
            unread++;
        else
            credits.posted_again();
        return true;
    }
    bool consume() {
        if (unread == 0) return false;
        unread--;
        arrived++;
        credits.posted_again();
        return true;
    }
};

void credits() {
    uint32_t stuck = 0, overrun = 0;
    for (uint32_t seed = 0; seed < 400; seed++) {
        std::mt19937 random(seed);
        auto dice = [&] { return uint32_t(random()); };
        const uint32_t posted[2] = {4 + 2 * (dice() % 8), 4 + 2 * (dice() % 8)};
        Side sides[2] = {{VerbsCredits(posted[0], posted[1])}, {VerbsCredits(posted[1], posted[0])}};
        const uint32_t messages[2] = {dice() % 500, seed % 3 == 0 ? 0 : dice() % 500};
        const uint32_t reports[2] = {seed % 2 == 0 ? 0 : dice() % 200, seed % 5 == 0 ? 0 : dice() % 200};
        for (int i = 0; i < 2; i++) sides[i].to_send = messages[i], sides[i].to_write = reports[i];
        const uint32_t laziness = 1 + dice() % 40;  // of consuming
        for (int idle = 0; idle < 400;) {
            const uint32_t who = dice() % 2;
            Side &side = sides[who], &other = sides[1 - who];
            bool moved = false;
            switch (dice() % 4) {
                case 0: moved = side.act(other, dice() % 4 == 0 ? Side::Kind::written : Side::Kind::bytes); break;
                case 1: moved = side.pay(other); break;
                case 2: moved = side.receive(); break;
                default: moved = dice() % laziness == 0 && side.consume();
            }
            idle = moved ? 0 : idle + (laziness > 1 ? int(dice() % laziness == 0) : 1);
            if (other.coming.size() + other.unread > posted[1 - who]) overrun++;
        }
        for (int i = 0; i < 2; i++)
            if (sides[i].arrived != messages[1 - i] || sides[i].written != reports[1 - i]) stuck++;
    }
    tap::is(overrun, 0u, "no message meets an empty receive queue");
    tap::is(stuck, 0u, "and all messages arrive");
    VerbsCredits lied(4, 4);
    (void)lied.spend();
    tap::ok(!lied.earn(2) && lied.earn(1), "more credits than there can be are refused");
}

void immediates() {
    tap::is(VerbsImmediate({.credits = 5}).packed(), 5u, "a SEND's immediate is its credits, as in the first build");
    tap::is(VerbsImmediate({0x1234, 0x2000}).packed(), 0x20001234u, "a WRITE's has the bytes of the report above them");
    int wrong = 0;
    for (const uint32_t credits : {0u, 1u, 65534u})
        for (const uint32_t written : {0u, 1u, uint32_t(container_bytes)}) {
            const VerbsImmediate read = VerbsImmediate::unpack(VerbsImmediate{credits, written}.packed());
            wrong += read.credits != credits || read.written != written;
        }
    tap::is(wrong, 0, "and is read as it was written");
}

template <class Record>
std::string_view bytes_of(const Record& record) {
    return {reinterpret_cast<const char*>(&record), sizeof record};
}

VerbsHello good_hello() {
    VerbsHello hello{};
    hello.head = verbs_head(verbs_hello_magic, sizeof hello);
    hello.receives = {32, 8192};
    hello.flight_ms = 536;
    return hello;
}

// A node of the first build sends no counters' place, and its proxies ignore bytes behind its welcome.
void counters_in_greetings() {
    VerbsWelcome welcome{}, read{};
    // Is it a greeting? Then it is read.
    auto parsed = [&](std::string_view data) {
        const auto result = parse_verbs_welcome(data);
        if (const auto* good = std::get_if<VerbsWelcome>(&result)) read = *good;
        return error_of(result).empty();
    };
    welcome.head = verbs_head(verbs_welcome_magic, sizeof welcome);
    welcome.receives = {32, 8192};
    welcome.names.region_address = 4096;
    welcome.names.region_bytes = 1 << 20;
    welcome.names.counters_address = 1 << 21;
    welcome.names.counters_bytes = 1 << 14;
    welcome.names.counters_from = 1 << 12;
    welcome.names.counters_key = 77;
    welcome.names.container = {1 << 22, verbs_container_bytes, 78};
    const std::string now = std::string(bytes_of(welcome)) + std::string(196 - sizeof welcome, '\0');
    tap::ok(parsed(now) && read.names.counters_bytes == 1 << 14 && read.names.counters_key == 77,
            "a node's counters");
    tap::ok(read.names.container.address == 1 << 22 && read.names.container.key == 78, "and its container");
    welcome.head.bytes = verbs_welcome_bytes_least;
    std::string earlier(bytes_of(welcome));
    tap::ok(parsed(earlier) && read.names.counters_bytes == 0 && read.names.counters_key == 0,
            "an older node has none, for any padding of its fabric");
    welcome.head.bytes = offsetof(VerbsWelcome, names.container);
    tap::ok(parsed(bytes_of(welcome)) && read.names.counters_key == 77 && read.names.container.bytes == 0,
            "nor a container one that has but counters");
    earlier.resize(verbs_welcome_bytes_least);
    tap::ok(parsed(earlier) && read.names.region_bytes == 1 << 20, "nor is that missed");
    welcome.head.bytes = 150;
    std::string later(bytes_of(welcome));
    tap::ok(!parsed(later), "a newer one that is cut is no greeting");
    later.resize(196, '\1');
    tap::ok(parsed(later) && read.names.counters_key == 77, "of a whole one what is known is taken");
    uint32_t taken = 0;
    auto changed = [&](auto change) {
        VerbsWelcome other = welcome;
        other.head.bytes = sizeof other;
        change(other);
        taken += parsed(bytes_of(other)) ? 1 : 0;
    };
    changed([](VerbsWelcome& other) { other.names.counters_address = UINT64_MAX - 7; });
    changed([](VerbsWelcome& other) { other.names.counters_address++; });
    changed([](VerbsWelcome& other) { other.names.counters_bytes++; });
    changed([](VerbsWelcome& other) { other.names.counters_from = (1 << 20) + 1; });
    changed([](VerbsWelcome& other) { other.names.counters_reserved = 1; });
    changed([](VerbsWelcome& other) { other.names.container.bytes--; });
    changed([](VerbsWelcome& other) { other.names.container.address = UINT64_MAX - 8000; });
    tap::is(taken, 0u, "an impossible address or size is refused");
}

void greetings() {
    const VerbsHello good = good_hello();
    const std::string padded = std::string(bytes_of(good)) + std::string(56 - sizeof good, '\0');
    const auto hello = parse_verbs_hello(padded, 536);
    if (!tap::ok(hello.index() == 0, "a greeting in padded private data")) return;
    tap::ok(same_layout(std::get<0>(hello).head), "of the same layout");
    uint32_t taken = 0;
    for (size_t size = 0; size < sizeof good; size++)
        taken += parse_verbs_hello(std::string_view(padded).substr(0, size), 536).index() == 0 ? 1 : 0;
    tap::is(taken, 0u, "none that is cut");
    // Of a refused greeting.
    auto refused = [](const VerbsHello& one) { return std::get<VerbsNot>(parse_verbs_hello(bytes_of(one), 536)); };
    VerbsHello other = good;
    other.head.version = 9;
    tap::ok(refused(other).reason == VerbsRefusal::version, "another version is refused");
    tap::is(refused(other).text, "it speaks version 9 of the greeting over RDMA, this side version 1", "in a sentence with both");
    other = good;
    other.receives.count = 1 << 20;
    tap::ok(refused(other).reason == VerbsRefusal::receives, "so are receives that cannot be");
    other = good;
    other.flight_ms = 537;
    tap::ok(refused(other).reason == VerbsRefusal::flight, "and READs that take longer than the grace allows for");
    other = good;
    other.head.bytes = 57;
    tap::ok(refused(other).reason == VerbsRefusal::version, "and a length that is not there");
    VerbsWelcome welcome{};
    welcome.head = verbs_head(verbs_welcome_magic, sizeof welcome);
    welcome.receives = {32, 8192};
    welcome.names.region_address = 4096;
    welcome.names.region_bytes = 1 << 20;
    tap::is(error_of(parse_verbs_welcome(bytes_of(welcome))), "", "a node's answer");
    welcome.names.region_address = UINT64_MAX - 100;
    tap::is(error_of(parse_verbs_welcome(bytes_of(welcome))), "its region has an impossible address",
            "not with a region beyond all addresses");
    counters_in_greetings();
    VerbsRefuse refuse{};
    refuse.head = verbs_head(verbs_refuse_magic, sizeof refuse);
    refuse.reason = VerbsRefusal::flight;
    tap::is(verbs_refusal_text(bytes_of(refuse)),
            "its grace is shorter than this side's READs may take", "a refusal has a text");
    tap::is(verbs_refusal_text("nonsense"), "", "one that is none is not");
}

void sentences() {
    const auto late = verbs_completed_badly("mlx5_0", WorkKind::read, IBV_WC_RETRY_EXC_ERR);
    tap::is(late.text, "READ at mlx5_0: transport retry counter exceeded; its host, its process or the network does "
                       "not respond", "a bad completion names operation, device and status");
    tap::ok(late.why == ChannelEnd::timed_out, "and how the channel ended");
    tap::ok(verbs_memory_refused("mlx5_0", 1 << 30, ENOMEM).text.find("LimitMEMLOCK=infinity") != std::string::npos,
            "memory that cannot be locked: the line for the unit file");
    tap::ok(verbs_not_here(EACCES).text.find("group rdma") != std::string::npos, "no permission: which group");
    const WorkId id = WorkId::unpack(WorkId{WorkKind::beat, 12345}.packed());
    tap::ok(id.kind == WorkKind::beat && id.number == 12345, "a work request's id holds its kind");
}

void without_device() {
    End client;
    VerbsDevices devices{VerbsConfig()};
    const SocketAddress nowhere = *numeric_address("127.0.0.1", 1);
    std::string error = error_of(connect_verbs(nowhere, devices, {}, client));
    if (error.empty()) {
        tap::skip(1, "RDMA can be used here");
        return;
    }
    tap::ok(error.starts_with("verbs:127.0.0.1:1: RDMA cannot be used: "), "without a device, a sentence");
    tap::note("%s", error.c_str());
    error = error_of(VerbsListener::listen(nowhere, {}, devices, 4));
    tap::ok(error.starts_with("cannot listen at verbs:127.0.0.1:1: RDMA cannot be used: "), "no listener without a device");
}

}  // namespace

int main() {
    configuration();
    credits();
    immediates();
    greetings();
    sentences();
    without_device();
    return tap::done();
}
