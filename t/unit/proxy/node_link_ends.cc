// SPDX-License-Identifier: BSD-3-Clause
// Faults of a node or a connection towards a link: bytes that are no frames, unmatched replies, values in turns or
// abandoned, late answers, an end at every event.
#include <cstring>
#include <map>
#include <string>

#include "t/unit/proxy/link_fixture.h"

using namespace link_test;
using proxy::AskResult;
using proxy::AskFailure;
using proxy::LinkDown;

namespace {

void bad_nodes() {
    struct Case {
        const char* name;
        std::function<void(World&, OutBuffer&)> bytes;
    };
    auto miss = [](OutBuffer& out, uint64_t sequence, uint32_t tag) {
        protocol::ReplyWriter writer(out, 65536, sequence, {1300});
        protocol::ReplyOptions with;
        with.tag = tag;
        writer.add(protocol::GetReply(), with);
        writer.end();
    };
    const Case cases[] = {
        {"no frame", [](World&, OutBuffer& out) { out.append(std::string(40, '\xff')); }},
        {"a reply to what was not asked", [&](World&, OutBuffer& out) { miss(out, 77, 0); }},
        {"a reply with another tag", [&](World&, OutBuffer& out) { miss(out, 1, 9); }},
        {"a reply to what was not sent", [&](World& world, OutBuffer& out) {
             world.get(2, "other");
             miss(out, 2, 1);
         }},
        {"two replies to one request", [&](World&, OutBuffer& out) {
             miss(out, 1, 0);
             miss(out, 1, 0);
         }},
        {"a reply of another kind", [](World&, OutBuffer& out) {
             protocol::ReplyWriter writer(out, 65536, 1, {1300});
             writer.add(protocol::DoneReply(), {});
             writer.end();
         }},
        {"a piece of nothing", [](World&, OutBuffer& out) {
             char* to = out.reserve(protocol::chunk_head_bytes + 1);
             *protocol::write_chunk_head(to, 1, 0, 0, 1) = 'x';
             out.commit(protocol::chunk_head_bytes + 1);
         }},
        {"a pong to no ping", [](World&, OutBuffer& out) { protocol::append_pong(out, 1, {1300}); }},
        {"a second welcome", [](World& world, OutBuffer& out) {
             protocol::append_welcome(out, world.link->welcome());
         }},
    };
    for (const Case& one : cases) {
        World world(link_config(), false);
        world.start();
        world.get_unanswered(1, "k");
        OutBuffer out;
        one.bytes(world, out);
        world.hear(out);
        tap::ok(world.downs.size() == 1 && world.downs[0].first == LinkDown::bad_frame &&
                    world.sink[1].times == 1 && world.link->requests().under_way() == 0,
                std::string(one.name) + " ends the connection");
    }
}

// It maps a region of one size and welcomes with another (S10).
void two_sizes() {
    for (const uint64_t less : {0, 4096}) {
        World world(link_config(), false);
        fabric::RegionView view = world.node.cache->view();
        view.region_bytes -= less;
        world.prepare = [&](Wire& wire) { wire.view = &view; };
        world.start();
        tap::is(world.link->up(), less == 0, less == 0 ? "one size of a region" : "two sizes of it");
        if (less == 0) continue;
        tap::ok(world.downs.size() == 1 && world.downs[0].first == LinkDown::refused, "end the connection");
        world.prepare = nullptr;
        world.advance(second);
        world.pump();
        tap::ok(world.link->up(), "which is made again when the node agrees with itself");
    }
}

// The node gives large values in turns, and gives one up.
void interleaved() {
    proxy::LinkConfig config = link_config();
    config.large_bytes_max = 0;
    World world(config, false);
    world.start();
    world.node.hold = true;
    for (uint64_t i = 0; i < 5; i++) world.get(i, "k");
    world.link->flush(world.now_ns);
    const uint32_t size = 3 << 20;
    OutBuffer out;
    protocol::ReplyWriter writer(out, 65536, 1, {1300});
    for (uint32_t tag = 0; tag < 5; tag++) {
        protocol::GetReply reply;
        reply.status = protocol::GetReply::Status::hit;
        reply.why = protocol::Miss::none;
        reply.meta.value_len = size;
        protocol::ReplyOptions with;
        with.tag = tag;
        with.value = protocol::ValueForm::follows;
        writer.add(reply, with);
    }
    writer.end();
    world.hear(out);
    tap::is(world.link->requests().bytes_under_way() < 100'000, true, "what is announced takes no memory yet");
    protocol::append_abandoned(out, 1, 4);
    world.hear(out);
    tap::ok(world.sink.failed_as(4, AskFailure::refused), "a value that the node gives up has failed");
    for (uint32_t at = 0; at < size; at += 32768)
        for (uint32_t tag = 0; tag < 4; tag++) {
            char* to = out.reserve(protocol::chunk_head_bytes + 32768);
            to = protocol::write_chunk_head(to, 1, tag, at, 32768);
            std::memset(to, char('a' + tag), 32768);
            out.commit(protocol::chunk_head_bytes + 32768);
            if (tag == 3) world.hear(out);
        }
    int whole = 0, refused = 0;
    for (uint64_t i = 0; i < 4; i++) {
        if (world.sink[i].value == std::string(size, char('a' + i))) whole++;
        if (world.sink.failed_as(i, AskFailure::no_memory)) refused++;
    }
    tap::is(whole, 2, "values that come in turns are put together, as far as memory is allowed");
    tap::is(refused, 2, "others fail with that reason");
    tap::is(world.counters().values_no_memory.get(), 2u, "and are counted");
    tap::ok(world.link->up() && world.link->requests().under_way() == 0, "which harms nothing else");
}

// A node whose answers the test sends one by one: misses, in separate frames.
struct Patient {
    World world{link_config(), false};

    Patient() {
        world.start();
        world.node.hold = true;
    }
    // Gets, each in a separate frame, with a patience of a second.
    void ask(uint64_t from, uint64_t to) {
        for (uint64_t ticket = from; ticket < to; ticket++) {
            proxy::AskOptions with = world.options(ticket);
            with.patience_ns = second;
            world.link->requests().get(World::get_op("k"), with, world.sink, world.now_ns);
            while (world.link->flush(world.now_ns)) {}
        }
    }
    // Frames are numbered from 1.
    void answer(uint64_t sequence, uint32_t tag) {
        OutBuffer out;
        protocol::ReplyWriter writer(out, 65536, sequence, {1300});
        protocol::ReplyOptions with;
        with.tag = tag;
        writer.add(protocol::GetReply(), with);
        writer.end();
        world.wire->to_proxy.append(out.data(), out.size());
        world.link->ready(world.now_ns);
    }
    bool timed_out(uint64_t ticket) { return world.sink.failed_as(ticket, AskFailure::timed_out); }
};

void answers_in_order() {
    Patient slow;
    slow.ask(0, 8);
    for (uint32_t i = 0; i < 6; i++) {
        slow.world.advance(second - 1);
        slow.answer(i + 1, i);
    }
    tap::is(slow.world.counters().node_timeouts.get(), 0u, "what a node answers one by one has time");
    tap::is(slow.world.link->requests().under_way(), 2u, "all of it");
    slow.world.advance(second - 1);
    tap::ok(!slow.world.sink.has(6), "a second since the last answer");
    slow.world.advance(1);
    tap::ok(slow.timed_out(6) && slow.timed_out(7), "and no more");
}

void answers_out_of_order() {
    Patient odd;
    odd.ask(0, 4);
    odd.world.advance(second - 1);
    for (uint32_t i = 1; i < 3; i++) odd.answer(i + 1, i);
    odd.world.advance(1);
    tap::ok(odd.timed_out(0) && odd.timed_out(3), "answers to what was asked later put nothing off");
    odd.ask(4, 5);
    odd.world.advance(second - 1);
    odd.answer(1, 0);
    odd.world.advance(second - 1);
    tap::ok(!odd.world.sink.has(4), "a late answer in its turn does");
    odd.world.advance(1);
    tap::ok(odd.timed_out(4), "for its time");
}

// The connection ends at its nth event, for every n; no reply comes twice, and no request is carried out twice.
void ends_everywhere() {
    int wrong = 0;
    uint64_t n = 0;
    bool whole = false;
    for (; !whole && n < 400; n++) {
        World world;
        world.node.frame_bytes_max = 8192;
        world.prepare = [&](Wire& wire) {
            if (world.connections == 1) wire.events_left = int64_t(n);
            wire.takes_bytes = 9000;
        };
        world.link->start(world.now_ns);
        world.pump();
        std::map<uint64_t, bool> accepted;
        uint64_t incrs = 0, ticket = 0;
        for (int round = 0; round < 4; round++) {
            protocol::ArithOp incr;
            incr.key = {"n", 0};
            incr.vivify = never_expires;
            incr.initial = 1;
            auto note = [&](AskResult asked) { accepted[ticket++] = asked == AskResult::accepted; };
            note(world.link->requests().ask(incr, world.options(ticket), world.sink));
            incrs += accepted[ticket - 1];
            for (const char* key : {"k", "large"}) note(world.get(ticket, key));
            note(world.set(ticket, "k", "value"));
            note(world.set(ticket, "large", std::string(30'000, 'l')));
            world.pump();
        }
        whole = world.connections == 1 && world.link->up();
        if (whole) world.wire->events_left = INT64_MAX;
        world.advance(second);
        world.pump();
        if (!world.link->up()) wrong++;
        uint64_t done = 0;
        for (const auto& [asked, was] : accepted)
            if (world.sink[asked].times != (was ? 1 : 0)) wrong++;
        for (const auto& [asked, told] : world.sink.by_ticket)
            if (std::holds_alternative<protocol::ArithReply>(told.op) && told.times == 1) done++;
        const std::string counted = world.fetch("n");
        const uint64_t executed = counted.empty() ? 0 : std::stoull(counted);
        if (executed > incrs || executed < done) wrong++;
        if (!whole && executed > done + 1) wrong++;
        if (world.node.bad_frames != 0) wrong++;
    }
    tap::note("%llu events", static_cast<unsigned long long>(n));
    tap::ok(whole && n > 20, "every event of a conversation was the last once");
    tap::is(wrong, 0, "each request is answered once, no change is made twice");
}

}  // namespace

int main() {
    bad_nodes();
    two_sizes();
    interleaved();
    answers_in_order();
    answers_out_of_order();
    ends_everywhere();
    return tap::done();
}
