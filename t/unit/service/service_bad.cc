// SPDX-License-Identifier: BSD-3-Clause
// Faults of a proxy on a connection to a node, and which of them end it. Greetings do not fit, frames are impossible,
// announced values do not come, a proxy does not read. Memory stays bounded, nothing waits, and every ending is counted
// by its name.
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "protocol/layout.h"
#include "protocol/owned_keys.h"
#include "t/lib/tap.h"
#include "t/unit/protocol/frame_random.h"
#include "t/unit/service/service_fixture.h"

using namespace service_fixture;
using node::ServiceEnd;

namespace {

std::string bytes_of(const OutBuffer& out) { return {out.data(), out.size()}; }

std::string frame(FrameKind kind, uint16_t count, uint64_t sequence, std::string_view body) {
    std::string bytes(sizeof(FrameHeader), '\0');
    write_frame_header(bytes.data(), {uint32_t(body.size()), uint16_t(kind), count, sequence});
    return bytes.append(body);
}

std::string request(const RequestHeader& header, std::string_view rest) {
    std::string bytes(sizeof header, '\0');
    wire::put(bytes.data(), header);
    return frame(FrameKind::requests, 1, 9, bytes.append(rest));
}

std::string chunk_of(uint64_t sequence, uint32_t tag, uint64_t offset, std::string_view bytes) {
    std::string text(chunk_head_bytes, '\0');
    write_chunk_head(text.data(), sequence, tag, offset, uint32_t(bytes.size()));
    return text.append(bytes);
}

std::string announced(uint64_t sequence, std::vector<uint32_t> tags, uint32_t value_bytes) {
    OutBuffer out;
    FrameWriter writer(out, frame_bytes_default);
    writer.begin(FrameKind::requests, sequence);
    const std::string value(value_bytes, 'v');
    for (uint32_t tag : tags) {
        RequestOptions options;
        options.tag = tag;
        options.value_follows = true;
        const std::string key = "k" + std::to_string(tag);
        writer.add(set_of(key, value), options);
    }
    writer.end();
    return bytes_of(out);
}

// ---- greetings --------------------------------------------------------------------------------------------

// S17, S20: copies need a list with an order, and a right that ends.
void copies_without_a_right() {
    ServedNode served;
    Proxy two(served, /* greet= */ false), one(served, /* greet= */ false);
    two.hello.copies = 2, one.hello.copies = 1;
    two.greet_now();
    one.greet_now();
    tap::ok(two.refused && two.refused->reason == protocol::Refusal::copies,
            "a node without a serving right refuses a proxy that keeps copies");
    tap::ok(two.refused && two.refused->text.find("node n1 has no serving right") != std::string::npos, "  in a sentence");
    tap::ok(one.welcomed, "another one is welcome");
}

void greetings() {
    ServedNode served;
    {
        Proxy proxy(served);
        tap::ok(proxy.welcomed && proxy.trouble.empty(), "a hello is welcomed");
        tap::is(proxy.welcome.name, "n1", "with the node's name");
        tap::is(proxy.welcome.incarnation, served.cache.view().header->incarnation, "its incarnation");
        tap::is(proxy.welcome.check_secret, served.cache.check_secret(), "its secret");
        tap::is(proxy.welcome.now.seconds, at_start, "its clock");
        tap::is(proxy.welcome.regions.size(), 1u, "its region");
        tap::ok(!check_welcome(proxy.welcome, proxy.hello), "in a way that the proxy accepts");
        tap::is(proxy.service.greeting().peer(), "p@h:7", "its peer's name is known");
        Proxy distant(served, true, RegionAccess::none);
        tap::ok(distant.welcomed && distant.welcome.check_secret == 0, "a proxy that may not read memory gets no secret");
        tap::is(proxy.welcome.hash_seed, served.cache.view().hash_seed, "a proxy that may gets the index's seed");
        tap::ok(distant.welcome.hash_seed != 0 && distant.welcome.hash_seed != served.cache.view().hash_seed,
                "the other does not");
    }
    tap::is(served.shared.seats.seated(), 0u, "its place is free when it has gone");
    auto refused = [&](const char* what, protocol::Refusal reason, const char* words, auto change) {
        Proxy proxy(served, /* greet= */ false);
        change(proxy);
        proxy.greet_now();
        tap::ok(proxy.refused && proxy.refused->reason == reason, what);
        tap::ok(proxy.refused && proxy.refused->text.find(words) != std::string::npos, "  in a sentence");
        tap::ok(proxy.service.close_wanted(), "  and the connection ends");
        tap::is(served.counters.refusals[size_t(reason)].get(), 1u, "  which is counted");
    };
    refused("another protocol version is refused", protocol::Refusal::protocol_mismatch, "proxy p speaks 14",
            [](Proxy& p) { p.hello.speaks.protocol = p.hello.speaks.protocol_lowest = 14; });
    refused("another layout is refused", protocol::Refusal::layout_mismatch, "proxy p has",
            [](Proxy& p) { p.hello.speaks.layout_hash++; });
    served.shared.right.limit();
    {
        Proxy two(served, /* greet= */ false), unsaid(served, /* greet= */ false);
        two.hello.copies = 2;
        two.greet_now();
        unsaid.greet_now();
        tap::ok(!two.refused && !unsaid.refused, "a proxy that keeps copies is welcome, and one that does not say");
        refused("another proxy that keeps none is refused", protocol::Refusal::copies, "proxy p keeps each item on 1 of the nodes",
                [](Proxy& p) { p.hello.copies = 1; });
    }
    {
        Proxy one(served, /* greet= */ false);
        one.hello.copies = 1;
        one.greet_now();
        tap::ok(!one.refused, "when that has gone, it is welcome");
    }
    served.shared.right.set(UINT64_MAX, UINT64_MAX);
    refused("limits too small are refused", protocol::Refusal::limits, "node n1 needs",
            [](Proxy& p) { p.hello.credits = 0; });
    refused("a node that stops refuses every proxy", protocol::Refusal::stopping, "stops",
            [](Proxy& p) { p.service.stop(Goodbye::stopping); });
    tap::is(served.counted(ServiceEnd::refused), 5u, "five refusals");
    served.facts.connections_max = 1;
    Proxy first(served);
    first.ask(get_of("used"));
    refused("a node with all connections it may have is full", protocol::Refusal::full, "has the 1 connections",
            [](Proxy&) {});
    served.facts.connections_max = 2;
    Proxy second(served);
    tap::ok(first.welcomed && second.welcomed, "until it may have more");
}

// Of before items were written in place: served as any other, and without anything to read by (S18).
void proxy_of_before() {
    ServedNode served;
    {
        Proxy proxy(served, /* greet= */ false);
        proxy.hello.speaks = versions_two_sided;
        proxy.greet_now();
        tap::ok(proxy.welcomed && !check_welcome(proxy.welcome, proxy.hello), "a proxy of the version before is welcome");
        tap::is(proxy.welcome.version, 3u, "in that");
        tap::ok(proxy.service.greeting().two_sided(), "as one to be served two-sided");
        tap::ok(proxy.welcome.regions.empty() && proxy.welcome.term_ms_max == 0, "without regions and leases");
        tap::is(proxy.welcome.check_secret, 0u, "and without the secret of checks");
        RequestOptions wants;
        wants.want_grant = true;
        proxy.ask(set_of("k", "value"), wants);
        for (int i = 0; i < 5; i++) {
            const Answer& answer = proxy.ask(get_of("k"), wants);
            tap::ok(answer.value == "value" && !answer.reply.grant.has_value(), "a key is there, and no pointer to it");
            tap::ok(answer.reply.denied == LeaseDenial::none, "without a reason, which its frames do not have");
        }
        tap::is(proxy.trouble, "", "no frame has fields that its version lacks");
        tap::is(served.cache.stats(at_start).leases.granted, 0u, "no lease was granted");
    }
    tap::is(served.counters.connections_two_sided.get(), 1u, "it is counted");
    Proxy now(served);
    tap::ok(now.welcomed && !now.service.greeting().two_sided(), "a proxy of this version is not two-sided");
    tap::is(served.counters.connections_two_sided.get(), 1u, "nor counted");
}

// S17: a member of a fleet tells the rest of its right, grants no longer leases, and executes nothing without one.
void serving_right() {
    constexpr uint64_t ms = 1'000'000;
    ServedNode served;
    steady_ns = 500'000 * ms;
    served.shared.right.limit();
    RequestOptions wants;
    wants.want_grant = true;
    Proxy proxy(served);
    tap::is(proxy.welcome.now.right_ms.value_or(1), 0u, "a node that is not registered has no right");
    tap::is(refusal(proxy.ask(set_of("k", "value"), wants)), "no_right", "and stores nothing");
    tap::is(refusal(proxy.ask(set_of("k", std::string(100'000, 'v')), wants)), "no_right", "nor a value in pieces");
    tap::is(refusal(proxy.ask(get_of("k"), wants)) + refusal(proxy.ask(FlushOp())), "no_rightno_right", "nor gets, nor flushes");
    StatsOp stats;
    stats.group = "leases";
    tap::is(refusal(proxy.ask(stats)), "done", "it tells its statistics");

    served.shared.right.set(steady_ns + 700 * ms, steady_ns + 700 * ms);
    for (int i = 0; i < 3; i++) proxy.ask(set_of("k", "value"), wants);
    const Answer& hit = proxy.ask(get_of("k"), wants);
    tap::is(hit.value, "value", "a member executes requests");
    tap::is(hit.now.right_ms.value_or(0), 700u, "and tells the rest of its right");
    tap::ok(hit.reply.grant.has_value() && hit.reply.grant->term_ms > 700, "a lease is as long as without membership");
    steady_ns += 699 * ms + ms / 2;
    tap::ok(!proxy.ask(get_of("k"), wants).reply.grant.has_value(), "nor is there one when nothing is left");

    served.shared.right.set(steady_ns, steady_ns + 1000 * ms);  // etcd does not answer
    const Answer& late = proxy.ask(get_of("k"), wants);
    tap::ok(late.value == "value" && !late.reply.grant.has_value(), "without a right it serves two-sided");
    tap::is(late.now.right_ms.value_or(1), 0u, "and tells that it has none");
    OutBuffer out;
    append_ping(out, 77);
    proxy.give(out);
    tap::is(proxy.pong.right_ms.value_or(1), 0u, "a pong tells it, too");
    tap::is(proxy.trouble, "", "no frame is wrong");

    Proxy of_6(served, /* greet= */ false);
    of_6.hello.speaks.protocol = 6;
    of_6.greet_now();
    tap::ok(of_6.refused.has_value() && of_6.refused->reason == protocol::Refusal::protocol_mismatch,
            "a proxy that knows no rights is refused where it would read");
    Proxy distant(served, /* greet= */ false, RegionAccess::none);
    distant.hello.speaks.protocol = 6;
    distant.greet_now();
    tap::ok(distant.welcomed && distant.ask(get_of("k")).value == "value", "elsewhere it is served");
    served.shared.right.limit();
    tap::is(refusal(distant.ask(get_of("k"))), "stopping", "or refused by a word that it knows");
    tap::is(distant.trouble, "", "in frames that it knows");
    steady_ns = 0;
}

// The clock's readings, to proxies of either version.
void clock_by_version() {
    ServedNode served;
    clock_us = 123'456;
    for (uint32_t version : {1u, 2u}) {
        Proxy proxy(served, /* greet= */ false);
        proxy.hello.speaks.protocol = version;
        proxy.greet_now();
        clock_us++;
        const NodeReading replied = proxy.ask(get_of("k")).now;
        clock_us++;
        OutBuffer out;
        append_ping(out, 77);
        proxy.give(out);
        const std::string in = "version " + std::to_string(version) + ": ";
        tap::is(proxy.welcome.version, version, in + "is agreed");
        tap::is(proxy.trouble, "", in + "no frame has fields that it lacks");
        auto us = [&](const NodeReading& now) { return now.us.has_value() ? std::to_string(*now.us) : "untold"; };
        const std::string want = version == 1 ? "untold untold untold" : "123458 123459 123460";
        tap::is(us(proxy.welcome.now) + " " + us(replied) + " " + us(proxy.pong), want,
                in + "the clock's fraction in welcome, replies and pong");
        tap::is(proxy.pong.seconds, at_start, in + "its seconds");
    }
    clock_us = 0;
}

// ---- frames that cannot be ------------------------------------------------------------------------------------

struct Bad {
    FrameError error;
    std::string bytes;
};

std::vector<Bad> bad_frames() {
    OutBuffer hello;
    append_hello(hello, [] {
        Hello h;
        h.name = h.host = "x";
        return h;
    }());
    const auto get = uint8_t(RequestKind::get), store = uint8_t(RequestKind::store);
    const auto cas = uint8_t(StoreOp::Mode::cas);
    const auto follows = uint32_t(RequestFlag::value_follows);
    std::string long_frame(sizeof(FrameHeader), '\0');
    write_frame_header(long_frame.data(), {1 << 30, uint16_t(FrameKind::requests), 1, 9});
    return {
        {FrameError::frame_too_long, long_frame},
        {FrameError::kind_unknown, frame(FrameKind(99), 0, 9, "")},
        {FrameError::kind_unexpected, bytes_of(hello)},
        {FrameError::kind_unexpected, frame(FrameKind::replies, 1, 9, std::string(24, '\0'))},
        {FrameError::count_wrong, frame(FrameKind::requests, 0, 9, std::string(16, '\0'))},
        {FrameError::body_short, frame(FrameKind::requests, 2, 9, std::string(16, '\0'))},
        {FrameError::body_excess, request({get, 0, 1, 0, 0, 0}, "kx")},
        {FrameError::reserved_set, frame(FrameKind::pong, 0, 9, std::string(8, '\1'))},
        {FrameError::entry_truncated, request({get, 0, 5, 0, 0, 0}, "k")},
        {FrameError::op_unknown, request({77, 0, 1, 0, 0, 0}, "k")},
        {FrameError::mode_unknown, request({store, 77, 1, 0, 0, 0}, std::string(9, 'k'))},
        {FrameError::flag_unknown, request({get, 0, 1, 1u << 31, 0, 0}, "k")},
        {FrameError::key_length, request({get, 0, 0, 0, 0, 0}, "k")},
        {FrameError::value_unexpected, request({store, 0, 1, follows, 0, 0}, std::string(9, 'k'))},
        {FrameError::value_too_long, request({store, 0, 1, follows, 1u << 31, 0}, std::string(9, 'k'))},
        {FrameError::cas_missing, request({store, cas, 1, 0, 0, 0}, std::string(9, 'k'))},
        {FrameError::entry_invalid, frame(FrameKind::accesses, 1, 0, std::string(sizeof(AccessRecord), '\0'))},
        {FrameError::entry_invalid, frame(FrameKind::report, 1, 1, std::string(sizeof(AccessRecord), '\0'))},
        {FrameError::frame_too_long,
         frame(FrameKind::report, report_records_max + 1, 1, std::string((report_records_max + 1) * sizeof(AccessRecord), '\1'))},
        {FrameError::kind_unexpected, frame(FrameKind::reported, 1, 1, std::string(12, '\0'))},
        {FrameError::entry_invalid,
         frame(FrameKind::lease_returns, 1, 0, std::string(20, '\xff') + std::string(4, '\0'))},
        {FrameError::chunk_empty, frame(FrameKind::chunk, 0, 9, std::string(16, '\0'))},
        {FrameError::chunk_stranger, chunk_of(9, 0, 0, "v")},
        {FrameError::chunk_stranger, announced(9, {1}, 5000) + chunk_of(9, 2, 0, "v")},
        {FrameError::chunk_stranger, announced(9, {1}, 5000) + chunk_of(8, 1, 0, "v")},
        {FrameError::chunk_order, announced(9, {1}, 5000) + chunk_of(9, 1, 1, "v")},
        {FrameError::chunk_overrun, announced(9, {1}, 5000) + chunk_of(9, 1, 0, std::string(5001, 'v'))},
        {FrameError::request_repeated, announced(9, {1}, 5000) + announced(9, {2}, 5000)},
        {FrameError::request_repeated, announced(9, {1, 1}, 5000)},
        {FrameError::text_invalid, frame(FrameKind::goodbye, 0, 0, std::string("\0\0\1\0\0\0\0\0\1", 9))},
    };
}

void bad_ones() {
    ServedNode served;
    for (const Bad& bad : bad_frames()) {
        const std::string name(frame_error_name(bad.error));
        for (size_t piece : {size_t(1), bad.bytes.size()}) {
            const uint64_t before = served.counted(bad.error);
            Proxy proxy(served);
            for (size_t at = 0; at < bad.bytes.size(); at += piece)
                proxy.give(std::string_view(bad.bytes).substr(at, piece));
            const bool good = proxy.service.close_wanted() &&
                              proxy.goodbye == Goodbye::protocol_error && proxy.trouble.empty() &&
                              served.counted(bad.error) == before + 1 &&
                              proxy.service.end() == ServiceEnd::bad_frame;
            tap::ok(good, name + (piece == 1 ? ", byte by byte," : "") + " ends the connection");
        }
    }
    const uint64_t before = served.counted(ServiceEnd::bad_frame);
    Proxy stranger(served, /* greet= */ false);
    stranger.give("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    tap::ok(stranger.service.close_wanted() && stranger.kinds.empty(), "a peer without a greeting gets no reply");
    Proxy liar(served, /* greet= */ false);
    liar.give(frame(FrameKind::hello, 0, 0, std::string(60, 'x')));
    tap::ok(liar.service.close_wanted(), "nor does one with a wrong magic");
    tap::is(served.counted(FrameError::magic_wrong), 1u, "the magic is wrong");
    tap::is(served.counted(ServiceEnd::bad_frame), before + 2, "both are counted");
    Proxy good(served);
    tap::ok(is_stored(good.ask(set_of("k", "v"))), "others are served as before");
    // Requests before the bad frame were executed, those behind it were not.
    OutBuffer out;
    const uint64_t first = good.put(out, set_of("k", "w"), {});
    out.append(frame(FrameKind(99), 0, 9, ""));
    good.put(out, set_of("k", "x"), {});
    good.give(out);
    tap::ok(is_stored(good.answers[{first, 0}]) && good.answers.size() == 2, "up to the bad frame all is answered");
    tap::is(Proxy(served).ask(get_of("k")).value, "w", "and behind it nothing is done");
}

// Bytes drawn at random, and good streams with a byte changed: each connection ends, or it is served.
void noise() {
    ServedNode served;
    uint64_t ended = 0;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        std::mt19937_64 random(seed);
        Proxy proxy(served);
        frame_random::Draw draw(seed, /* brief= */ true);
        OutBuffer out;
        for (int i = 0; i < 6; i++) {
            const RequestOp op = draw.request();
            std::visit([&](const auto& o) { proxy.put(out, o, draw.options(op)); }, op);
        }
        std::string bytes = bytes_of(out);
        for (uint64_t i = 0; i < 1 + seed % 3; i++) bytes[random() % bytes.size()] ^= char(1 + random() % 255);
        for (size_t at = 0; at < bytes.size();) {
            const size_t n = 1 + random() % 100;
            proxy.give(std::string_view(bytes).substr(at, n));
            at += n;
        }
        ended += proxy.service.close_wanted();
    }
    tap::ok(ended > 100 && ended < 600, "changed bytes end a connection, or are another request");
    tap::is(served.counted(ServiceEnd::bad_frame), ended, "each ending is counted");
    tap::is(served.shared.seats.seated(), 0u, "and nothing of them is left");
}

// ---- values that were announced ---------------------------------------------------------------------------------

void announced_values() {
    ServedNode served;
    served.shared.limits.incoming_bytes_max = 20'000;
    served.shared.limits.incoming_values_max = 5;
    Proxy proxy(served);
    proxy.give(announced(1, {0, 1, 2}, 9000));
    for (uint32_t tag : {0, 1, 2}) proxy.give(chunk_of(1, tag, 0, std::string(9000, char('a' + tag))));
    tap::ok(is_stored(proxy.answers[{1, 0}]) && is_stored(proxy.answers[{1, 1}]), "values with room are stored");
    tap::ok(refusal_of(proxy.answers[{1, 2}]) == RequestRefusal::no_memory, "a value without room is refused");
    tap::is(proxy.ask(get_of("k1")).value, std::string(9000, 'b'), "each value is its own");
    tap::ok(!is_hit(proxy.ask(get_of("k2"))), "the refused one is nowhere");
    proxy.give(announced(2, {0}, 50'000));
    proxy.give(chunk_of(2, 0, 0, std::string(50'000, 'z')));
    tap::ok(is_stored(proxy.answers[{2, 0}]), "a single value may be larger than the room");

    proxy.give(announced(3, {7}, 9000));
    proxy.give(chunk_of(3, 7, 0, std::string(4000, 'x')));
    OutBuffer out;
    append_abandoned(out, 3, 7);
    proxy.give(out);
    tap::ok(refusal_of(proxy.answers[{3, 7}]) == RequestRefusal::abandoned, "an abandoned value is answered so");
    tap::ok(!is_hit(proxy.ask(get_of("k7"))), "and not stored");
    tap::ok(proxy.service.quiet(), "nothing of it is left");
    proxy.give(chunk_of(3, 7, 4000, "x"));
    tap::is(served.counted(FrameError::chunk_stranger), 1u, "nothing comes behind it");

    Proxy greedy(served);
    for (uint32_t i = 0; i < 6; i++) greedy.give(announced(i, {i}, 100));
    tap::ok(greedy.service.close_wanted() && greedy.goodbye == Goodbye::no_memory, "too many at once end it");
    tap::is(served.counted(ServiceEnd::no_memory), 1u, "by that name");

    // A connection ends in the middle of a value: the next proxy finds nothing of it.
    Proxy gone(served);
    gone.give(announced(1, {3}, 9000) + chunk_of(1, 3, 0, std::string(8999, 'x')));
    gone.channel.end(fabric::ChannelEnd::reset);
    gone.turns();
    tap::ok(gone.service.close_wanted() && gone.service.end() == ServiceEnd::transport, "a reset ends it");
    tap::is(served.counters.channel_ends[size_t(fabric::ChannelEnd::reset)].get(), 1u, "by that name");
    tap::ok(!is_hit(Proxy(served).ask(get_of("k3"))), "half a value is stored nowhere");
}

void credits() {
    ServedNode served;
    Proxy proxy(served, /* greet= */ false);
    proxy.hello.credits = 3;
    proxy.greet_now();
    tap::is(proxy.welcome.credits, 3u, "the smaller wish is agreed");
    for (uint64_t i = 1; i <= 3; i++) proxy.give(announced(i, {uint32_t(i)}, 100));
    proxy.give(chunk_of(2, 2, 0, std::string(100, 'v')));
    OutBuffer out;
    const uint64_t asked = proxy.next_sequence = 40;
    proxy.put(out, get_of("k2"), {});
    proxy.give(out);
    tap::ok(is_hit(proxy.answers[{asked, 0}]), "an answered frame's credit is used again");
    proxy.give(announced(50, {9}, 100));
    tap::ok(!proxy.service.close_wanted(), "as many as agreed are in flight");
    proxy.put(out, get_of("k2"), {});
    proxy.give(out);
    tap::ok(proxy.goodbye == Goodbye::protocol_error, "one more is not as agreed");
    tap::is(served.counted(FrameError::credits_exceeded), 1u, "and is counted");
}

// ---- a proxy that does not read ------------------------------------------------------------------------------------

void back_pressure() {
    ServedNode served(node_config(64));
    served.shared.limits.out_bytes_mark = 100'000;
    Proxy proxy(served);
    const std::string small(2000, 's'), large(900'000, 'l');
    proxy.ask(set_of("small", small));
    proxy.ask(set_of("large", large));
    OutBuffer out;
    FrameWriter writer(out, proxy.welcome.frame_bytes_max);
    writer.begin(FrameKind::requests, 500);
    constexpr uint32_t count = 1500;
    for (uint32_t i = 0; i < count; i++) {
        RequestOptions options;
        options.tag = i;
        CHECK(writer.add(get_of(i % 100 == 99 ? "large" : "small"), options));
    }
    writer.end();
    for (int i = 0; i < 20; i++) proxy.put(out, get_of("small"), {});
    proxy.channel.room = 0;
    proxy.channel.most_pending = 0;
    proxy.give(out);
    tap::ok(proxy.channel.out_pending() >= 100'000, "replies wait for a proxy that does not read");
    tap::ok(proxy.channel.unconsumed() > 0, "and so do requests, in their channel");
    tap::ok(!proxy.service.turn_wanted(), "and the service wants no turn for them");
    tap::ok(served.counters.stalls.get() > 0, "which is counted");
    const uint64_t executed = served.counters.requests.get();
    for (int i = 0; i < 10; i++) proxy.turns();
    tap::is(served.counters.requests.get(), executed, "and nothing is executed until then");
    Proxy other(served);
    tap::is(other.ask(get_of("small")).value, small, "other connections are served");
    proxy.drip(3001);
    uint32_t good = 0;
    for (uint32_t i = 0; i < count; i++) {
        const Answer& answer = proxy.answers[{500, i}];
        good += answer.whole && answer.value == (i % 100 == 99 ? large : small);
    }
    tap::is(good, count, "when it reads, it finds every answer");
    tap::ok(proxy.trouble.empty() && proxy.service.quiet(), "as agreed");
    tap::ok(proxy.channel.most_pending <= 100'000 + 2 * frame_bytes_default, "no more waited than is allowed");
}

// ---- ends ---------------------------------------------------------------------------------------------------------

void ends() {
    ServedNode served;
    auto say_goodbye = [](Proxy& proxy) {
        OutBuffer out;
        append_goodbye(out, Goodbye::stopping, "bye");
        proxy.give(out);
    };
    Proxy polite(served);
    polite.give(announced(1, {1}, 100));
    say_goodbye(polite);
    tap::ok(!polite.service.close_wanted(), "after a goodbye what is in flight goes on");
    polite.give(chunk_of(1, 1, 0, std::string(100, 'v')));
    tap::ok(is_stored(polite.answers[{1, 1}]) && polite.service.close_wanted(), "and then the connection ends");
    tap::is(served.counted(ServiceEnd::peer_goodbye), 1u, "by that name");

    Proxy chatty(served);
    chatty.give(announced(1, {1}, 100));
    say_goodbye(chatty);
    chatty.ask(get_of("k"));
    tap::is(served.counted(FrameError::kind_unexpected), 1u, "nothing is asked after a goodbye");

    Proxy warned(served);
    warned.next_sequence = 100;
    warned.give(announced(1, {1}, 100));
    warned.service.stop(Goodbye::stopping);
    warned.turns();
    tap::ok(warned.goodbye == Goodbye::stopping, "a node that stops sends a goodbye");
    tap::ok(refusal_of(warned.ask(get_of("k1"))) == RequestRefusal::stopping, "refuses what is new");
    warned.give(announced(90, {2}, 100));
    warned.give(chunk_of(90, 2, 0, std::string(100, 'v')));
    tap::ok(refusal_of(warned.answers[{90, 2}]) == RequestRefusal::stopping, "announced values, too");
    tap::ok(!warned.service.quiet(), "something is in flight");
    warned.give(chunk_of(1, 1, 0, std::string(100, 'v')));
    tap::ok(is_stored(warned.answers[{1, 1}]), "and is carried out");
    tap::ok(warned.service.quiet() && !warned.service.close_wanted(), "the proxy is waited for");
    warned.channel.end(fabric::ChannelEnd::peer_closed);
    warned.turns();
    tap::ok(warned.service.end() == ServiceEnd::stopped, "when it goes, it was because of that");
    Proxy slow(served);
    slow.service.stop(Goodbye::draining);
    slow.service.give_up();
    tap::ok(slow.service.close_wanted(), "one that does not go is left");
    tap::is(served.counted(ServiceEnd::stopped), 2u, "both by that name");
    uint64_t all = 0;
    for (const Counter& counter : served.counters.ends) all += counter.get();
    tap::is(all, 4u, "every ending was counted once");
}

}  // namespace

int main() {
    copies_without_a_right();
    greetings();
    proxy_of_before();
    clock_by_version();
    serving_right();
    bad_ones();
    noise();
    announced_values();
    credits();
    back_pressure();
    ends();
    return tap::done();
}
