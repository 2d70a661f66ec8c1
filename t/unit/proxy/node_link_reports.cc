// SPDX-License-Identifier: BSD-3-Clause
// Reports: without requests, the node receives the important one-sided hits every interval, within a size limit, and each
// access once. Its replies extend leases, and state what to report again and when.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "t/unit/proxy/link_fixture.h"

using namespace farcached;
using namespace link_test;

namespace {

constexpr uint64_t interval = 10 * second;

proxy::LinkConfig reporting() {
    proxy::LinkConfig config = link_config();
    config.report_interval_ns = interval;
    config.ping_ns = 0;
    config.seed = 0;
    return config;
}

// The accesses of each item that were reported to the node since the last call.
std::map<uint64_t, uint32_t> heard(World& world) {
    std::map<uint64_t, uint32_t> counts;
    for (const protocol::ItemAccess& record : world.node.accesses) counts[record.hash] += record.count;
    world.node.accesses.clear();
    return counts;
}

// Calls the link at its deadlines until the given time.
void upto(World& world, uint64_t at_ns) {
    for (int calls = 0; calls < 20 && world.link->next_tick_ns() <= at_ns; calls++) {
        world.advance(std::max(world.link->next_tick_ns(), world.now_ns) - world.now_ns);
        world.pump();
    }
    world.advance(at_ns - world.now_ns);
    world.pump();
}

// The time of the next report.
void upto_report(World& world, uint64_t at_ns) {
    upto(world, at_ns - 1);
    tap::is(world.node.accesses.size(), 0u, "no report before its time");
    tap::is(world.link->next_tick_ns(), at_ns, "it is to come");
    upto(world, at_ns);
}

void told_unasked() {
    World world(reporting());
    world.start();
    const uint64_t up_ns = world.now_ns;
    tap::is(world.link->next_tick_ns(), UINT64_MAX, "nothing was read: there is nothing to do, ever");
    world.hold_pointer("k", "value");
    world.hold_pointer("j", "other");
    for (int i = 0; i < 7; i++) world.fetch("k");
    world.fetch("j");
    const uint64_t frames = world.node.frames;
    tap::is(world.counters().get_onesided.get(), 8u, "one-sided hits");
    world.store("other", "value");
    tap::is(world.node.accesses.size(), 0u, "are not reported with requests");
    upto_report(world, up_ns + interval);
    tap::is(world.node.frames, frames + 1, "but one interval after the greeting, with no request");
    const auto first = heard(world);
    tap::ok(first.size() == 2 && first.at(world.hash("k")) == 7 && first.at(world.hash("j")) == 1,
            "with each item, and its count");
    tap::is(world.node.bad_frames, 0u, "in good frames");
    const proxy::LinkCounters& c = world.counters();
    tap::is(c.reports_sent.get(), 1u, "reports_sent");
    tap::is(c.report_items.get(), 2u, "report_items");
    tap::is(c.report_bytes.get(), sizeof(protocol::FrameHeader) + 2 * sizeof(protocol::AccessRecord), "report_bytes");
    tap::is(c.accesses_sent.get(), 8u, "accesses_sent");
    tap::ok(c.arc_t1.get() == 1 && c.arc_t2.get() == 1 && c.arc_b1.get() + c.arc_b2.get() == 0, "arc_t1, arc_t2");

    tap::is(world.link->next_tick_ns(), UINT64_MAX, "then there is nothing to tell");
    upto(world, up_ns + 2 * interval - second);
    tap::is(world.counters().reports_sent.get(), 1u, "and nothing is reported");
    world.fetch("k");  // its lease has ended and is granted again
    world.store("j", "another");
    world.fetch("k");
    upto_report(world, up_ns + 2 * interval);
    tap::ok(heard(world) == std::map<uint64_t, uint32_t>{{world.hash("k"), 1}}, "only of what was accessed since");
    tap::is(c.arc_t2.get(), 1u, "a gauge");
}

// A proxy with a mapped region; more items than a report holds.
void bounded() {
    World world(reporting());
    world.start();
    world.hold_pointer("k", "value");
    const fabric::RemotePtr at = world.pointer("k")->ptr;
    const uint64_t many = 2000, up_ns = world.now_ns;
    tap::ok(world.link->note_access(1, at.generation, at.offset, 0), "the first returns that there is something to report");
    for (uint64_t i = 2; i <= many; i++)
        if (world.link->note_access(i, at.generation, at.offset, 0)) tap::ok(false, "the others do not");
    const uint64_t each = (8192 - sizeof(protocol::FrameHeader)) / sizeof(protocol::AccessRecord);
    std::map<uint64_t, uint32_t> all;
    for (uint64_t report = 1; report * each < many; report++) {
        upto_report(world, up_ns + report * interval);
        const auto now = heard(world);
        tap::is(now.size(), each, "as many as fit into 8 KiB");
        tap::ok(now.rbegin()->first == many - (report - 1) * each, "the most recent");
        all.insert(now.begin(), now.end());
    }
    upto_report(world, up_ns + (many / each + 1) * interval);
    all.merge(heard(world));
    tap::is(all.size(), many, "in the end each was reported");
    tap::ok(world.counters().report_bytes.get() <= 8192 * world.counters().reports_sent.get(), "in 8 KiB each at most");
    tap::is(world.counters().accesses_sent.get(), many, "once");
}

// A transport without room, or the end of a connection, causes no access to be reported twice or to be left uncounted.
void troubled() {
    proxy::LinkConfig config = reporting();
    config.unsent_bytes_max = 1;
    config.silence_ns = 100 * second;
    World world(config);
    world.start();
    const uint64_t up_ns = world.now_ns;
    world.hold_pointer("k", "value");
    world.fetch("k");
    world.hold_pointer("j", "value");
    world.wire->takes_bytes = 0;
    world.get(1, "none", 100 * second);
    world.link->flush(world.now_ns);
    upto(world, up_ns + interval);
    tap::is(world.counters().reports_sent.get(), 0u, "no report is put behind what the transport does not take");
    world.wire->takes_bytes = SIZE_MAX;
    world.pump();
    upto_report(world, up_ns + 2 * interval);
    tap::is(world.counters().reports_sent.get(), 1u, "it is put off, and made when there is room");

    for (const char* key : {"k", "j"}) world.fetch(key);  // which grants j a new lease; the report renewed k's
    for (const char* key : {"k", "k", "j"}) world.fetch(key);
    const uint64_t dropped = world.counters().accesses_dropped.get();
    protocol::DeleteOp remove;
    remove.key = {"j", 0};
    world.link->requests().ask(remove, world.options(2), world.sink);
    world.pump();
    tap::is(world.counters().accesses_dropped.get(), dropped, "what is deleted is reported all the same: a set brings it back");
    world.wire->end = fabric::ChannelEnd::reset;
    world.link->ready(world.now_ns);
    tap::is(world.counters().accesses_dropped.get(), dropped + 4, "what is untold when the connection ends is not");
    tap::is(world.counters().arc_t1.get() + world.counters().arc_t2.get(), 0u, "it is forgotten");
    const proxy::LinkCounters& c = world.counters();
    tap::is(c.accesses_sent.get() + c.accesses_dropped.get(), c.get_onesided.get(), "each is counted once");
}

void not_at_once() {
    std::map<uint64_t, int> firsts;
    for (uint64_t seed = 0; seed < 8; seed++) {
        proxy::LinkConfig config = reporting();
        config.seed = seed * 1'234'567'890'123'457;
        World world(config);
        world.start();
        world.hold_pointer("k", "value");
        world.fetch("k");
        const uint64_t up_ns = world.now_ns;
        upto(world, up_ns + interval / 2 - 1);
        tap::is(world.node.accesses.size(), 0u, "no first report too early");
        firsts[world.link->next_tick_ns() - up_ns]++;
        upto(world, up_ns + interval);
        tap::is(world.node.accesses.size(), 1u, "but in time");
    }
    tap::is(firsts.size(), 8u, "links do not report all at once");
}

// ---- answers ----------------------------------------------------------------------------------------

// Remaining seconds of the pointer's lease; 0: no pointer.
double left_s(World& world, std::string_view key) {
    const auto held = world.pointer(key);
    return held ? double(held->valid_until_ns - world.now_ns) / double(second) : 0;
}

// As if the interval were shorter than a lease.
proxy::LinkConfig reporting_often() {
    proxy::LinkConfig config = reporting();
    config.report_interval_ns = 3 * second;
    return config;
}

// The node's reply to the report in flight.
void answer(World& world, uint64_t number, uint32_t left_us, const std::vector<uint32_t>& terms_ms) {
    OutBuffer out;
    protocol::append_reported(out, number, left_us, terms_ms);
    if (!world.wire->containers) return world.hear(out);
    FakeNode::write_answer(*world.wire, out);
    world.link->ready(world.now_ns);
}

void renewed() {
    World world(reporting_often());
    world.start();
    const uint64_t up_ns = world.now_ns;
    world.hold_pointer("k", "value");
    world.hold_pointer("j", "value");
    world.fetch("k");
    world.fetch("k");
    upto(world, up_ns + 3 * second);
    tap::is(world.node.accesses.size(), 1u, "the node gets one item");
    const double term_s = world.node.term_ms / 1000.0;
    tap::ok(left_s(world, "k") > term_s * 0.99 && left_s(world, "k") < term_s, "whose pointer is as good as new");
    tap::ok(left_s(world, "j") < 1.01, "the other one's lease goes on to its end");
    tap::is(world.counters().report_renewed.get(), 1u, "report_renewed");
    const uint64_t asked = world.counters().get_twosided.get();
    for (int i = 0; i < 10; i++) {  // 20 seconds: five leases
        upto(world, world.now_ns + 2 * second);
        world.fetch("k");
    }
    tap::is(world.counters().get_twosided.get(), asked, "in five leases' time the node is not asked");
    tap::is(world.counters().report_time_left.get(), 0u, "it answered that it had no time left");
}

// A lease belongs to the slot: an item that replaced another in its place is leased with it, one elsewhere is not.
void replaced() {
    World world(reporting_often());
    world.start();
    const uint64_t up_ns = world.now_ns;
    world.hold_pointer("k", "value");
    world.fetch("k");
    world.node.hold_reports = true;
    upto(world, up_ns + 3 * second);
    tap::is(world.node.reports, 1u, "a report is under way");
    const auto replace = [&](fabric::LeasedPtr newer) {
        newer.valid_until_ns = world.now_ns + second / 4;
        world.table().forget(world.hash("k"), world.node.incarnation);
        world.table().put(world.hash("k"), newer, world.now_ns);
        return newer;
    };
    fabric::LeasedPtr newer = *world.pointer("k");
    newer.ptr.generation += layout::partitions_max;
    newer = replace(newer);
    answer(world, world.node.report_number, 0, {world.node.term_ms});
    const auto held = world.pointer("k");
    tap::ok(held && held->valid_until_ns > newer.valid_until_ns && held->ptr == newer.ptr,
            "a pointer to another generation in the same place is as good as new, and names what it named");
    tap::is(world.counters().report_renewed.get(), 1u, "report_renewed");

    world.node.hold_reports = false;
    world.fetch("k");
    world.node.hold_reports = true;
    world.fetch("k");
    upto(world, up_ns + 6 * second);
    tap::is(world.node.reports, 2u, "another report");
    newer = *world.pointer("k");
    newer.ptr.offset += 4096;
    newer = replace(newer);
    answer(world, world.node.report_number, 0, {world.node.term_ms});
    tap::ok(world.pointer("k") && world.pointer("k")->valid_until_ns == newer.valid_until_ns,
            "a pointer to another place is left alone");
    tap::is(world.counters().report_renewed.get(), 1u, "report_renewed");
}

// A client that only reads, with reports more frequent than lease ends, sends one request per key. Keys that rest after
// eight reports, or that others report, stay one-sided. Leases of 4 seconds, for ten minutes.
void never_again(bool together) {
    proxy::LinkConfig config = reporting_often();
    config.report_interval_ns = second / 2;
    config.share_reports = together;
    World world(config);
    world.start();
    const std::array<std::string, 5> keys = {"a", "b", "c", "d", "e"};
    for (const std::string& key : keys) world.hold_pointer(key, "value");
    const uint64_t asked = world.counters().get_twosided.get();
    int wrong = 0;
    for (int n = 0; n < 1200; n++) {
        upto(world, world.now_ns + second / 2);
        for (const std::string& key : keys) wrong += world.fetch(key) != "value";
    }
    tap::is(wrong, 0, "all values are there");
    tap::is(world.counters().get_twosided.get(), asked, "and in 150 leases' time no get is two-sided");
    tap::is(world.counters().pointer_expired.get(), 0u, "since no lease ends");
    const uint64_t told = world.counters().report_items.get();
    tap::ok(told > 5 * 1200 / 8 && told < 5 * 1200 * 3 / 4, "although not every report holds every item");
    tap::note("%llu records of 6000", (unsigned long long)told);
}

// S3: the time that a report and its answer take is part of the lease.
void counted_from_sending() {
    World world(reporting_often());
    world.start();
    const uint64_t up_ns = world.now_ns;
    world.hold_pointer("k", "value");
    world.fetch("k");
    world.node.hold_reports = true;
    upto(world, up_ns + 3 * second);
    const uint64_t sent_ns = world.now_ns;
    tap::is(world.node.reports, 1u, "a report is under way");
    world.now_ns += second / 2;
    answer(world, world.node.report_number, 0, {world.node.term_ms});
    const auto held = world.pointer("k");
    const uint64_t term_ns = uint64_t(world.node.term_ms) * ms;
    tap::ok(held && held->valid_until_ns < sent_ns + term_ns && held->valid_until_ns > sent_ns + term_ns * 99 / 100,
            "the lease counts from when it was sent");

    world.fetch("k");
    upto(world, up_ns + 6 * second);
    tap::is(world.node.reports, 2u, "another one, answered after the end of the lease that it renews");
    world.now_ns = (held ? held->valid_until_ns : 0) + second / 10;
    tap::ok(!world.pointer("k"), "there is no pointer in between");
    answer(world, world.node.report_number, 0, {world.node.term_ms});
    tap::ok(world.pointer("k").has_value(), "and then it is good again");

    const uint64_t end_ns = world.pointer("k") ? world.pointer("k")->valid_until_ns : 0;
    world.fetch("k");
    upto(world, up_ns + 9 * second);
    tap::is(world.node.reports, 3u, "another one");
    answer(world, world.node.report_number, 0, {0});
    tap::ok(world.pointer("k") && world.pointer("k")->valid_until_ns == end_ns, "what is not renewed ends when it did");
}

// At most one report is unanswered. Records that the node did not examine are reported again, others are not.
void flow() {
    World world(reporting_often());
    world.start();
    const uint64_t up_ns = world.now_ns;
    for (const char* key : {"a", "b", "c"}) world.hold_pointer(key, "value");
    for (const char* key : {"a", "b", "c"}) world.fetch(key);
    world.node.hold_reports = true;
    upto(world, up_ns + 3 * second);
    tap::is(world.node.reports, 1u, "a report");
    world.fetch("a");
    tap::ok(world.link->next_tick_ns() > up_ns + 3 * second && world.counters().reports_sent.get() == 1,
            "that is not answered is the only one");
    tap::is(world.counters().accesses_sent.get(), 0u, "none of its accesses counts as sent yet");
    world.node.hold_reports = false;
    answer(world, world.node.report_number, 0, {0});
    tap::is(world.counters().accesses_sent.get(), 1u, "one record was looked at");
    upto(world, up_ns + 6 * second);
    const auto second_one = heard(world);
    tap::is(world.node.reports, 2u, "the others wait for the next report");
    tap::ok((second_one == std::map<uint64_t, uint32_t>{{world.hash("a"), 2}, {world.hash("b"), 1}}),
            "which holds them, and the accesses since");
    uint64_t told = 1;
    for (const auto& [hash, count] : second_one) told += count;
    tap::is(told, 4u, "of each access once");
    tap::is(world.counters().accesses_sent.get(), 4u, "accesses_sent");
    tap::is(world.counters().accesses_dropped.get(), 0u, "none is lost");

    world.fetch("a");
    world.fetch("a");
    world.node.hold_reports = true;
    upto(world, up_ns + 9 * second);
    const uint64_t untold = world.counters().get_onesided.get() - 4;
    world.wire->end = fabric::ChannelEnd::reset;
    world.link->ready(world.now_ns);
    tap::is(world.counters().accesses_dropped.get(), untold, "a report ends with its connection");
    tap::is(world.link->state(), proxy::LinkState::waiting, "the link goes on");
}

void time_left() {
    World world(reporting());
    world.start();
    world.hold_pointer("k", "value");
    const fabric::RemotePtr at = world.pointer("k")->ptr;
    const uint64_t many = 3000, up_ns = world.now_ns;
    for (uint64_t i = 1; i <= many; i++) world.link->note_access(i, at.generation, at.offset, 0);
    world.node.report_left_us = 300;
    upto(world, up_ns + interval);
    tap::is(world.node.reports, 4u, "while the node has time, it gets more at once: four reports an interval");
    tap::is(heard(world).size(), 4 * uint64_t(protocol::report_records_max), "each of other items");
    tap::is(world.counters().report_time_left.get(), 4u, "report_time_left");
    world.node.report_takes = 100;
    upto(world, up_ns + 2 * interval);
    tap::is(world.node.reports, 8u, "as many in the next");
    tap::is(heard(world).size(), 400u, "the node examines a part of each");
    world.node.report_left_us = 0;
    world.node.report_takes = UINT32_MAX;
    for (uint64_t n = 3; n <= 6; n++) upto(world, up_ns + n * interval);
    tap::is(heard(world).size(), many - 4 * protocol::report_records_max - 400, "all are reported in the end");
    tap::is(world.node.reports, 10u, "one an interval when it has no time left");
    tap::is(world.counters().accesses_sent.get(), many, "each once");
}

// An impossible reply ends the connection.
void lies() {
    struct Lie {
        const char* title;
        protocol::FrameError error;
        uint64_t number_off;
        std::vector<uint32_t> terms_ms;
    };
    const uint32_t term_ms = node_config().lease.term_ms;
    const Lie all[] = {
        {"more records than were sent", protocol::FrameError::report_invalid, 0, {0, 0, 0}},
        {"a lease longer than the greeting's maximum", protocol::FrameError::report_invalid, 0, {0, term_ms + 1}},
        {"another report", protocol::FrameError::reply_stranger, 1, {0, 0}},
    };
    for (const Lie& lie : all) {
        World world(reporting_often());
        world.start();
        const uint64_t up_ns = world.now_ns;
        for (const char* key : {"a", "b"}) world.hold_pointer(key, "value");
        for (const char* key : {"a", "b"}) world.fetch(key);
        world.node.hold_reports = true;
        upto(world, up_ns + 3 * second);
        const auto before = world.pointer("a");
        answer(world, world.node.report_number + lie.number_off, 0, lie.terms_ms);
        tap::is(world.counters().frame_errors[size_t(lie.error)].get(), 1u, lie.title);
        tap::ok(world.downs.size() == 1 && world.downs[0].first == proxy::LinkDown::bad_frame, "ends the connection");
        const auto after = world.pointer("a");
        tap::ok(before && after && before->valid_until_ns == after->valid_until_ns, "and renews nothing");
    }
    World world(reporting_often());
    world.start();
    answer(world, 0, 0, {0});
    tap::is(world.counters().frame_errors[size_t(protocol::FrameError::reply_stranger)].get(), 1u,
            "nor may it answer what was not sent");
}

// A node without a reply to a report counts as silent.
void silent() {
    World world(reporting_often());
    world.start();
    const uint64_t up_ns = world.now_ns;
    world.hold_pointer("k", "value");
    world.fetch("k");
    world.node.hold_reports = true;
    upto(world, up_ns + 3 * second);
    tap::is(world.link->next_tick_ns(), up_ns + 3 * second + reporting_often().silence_ns, "an answer is waited for");
    upto(world, up_ns + 3 * second + reporting_often().silence_ns);
    tap::ok(world.downs.size() == 1 && world.downs[0].first == proxy::LinkDown::silent, "but not for ever");
}

// By WRITE, where the connection has containers, and else in frames; an answer may come either way.
void by_container() {
    World world(reporting_often());
    world.start();
    const uint64_t up_ns = world.now_ns;
    world.hold_pointer("k", "value");
    world.fetch("k");
    upto(world, up_ns + 3 * second);
    const proxy::LinkCounters& c = world.counters();
    tap::is(c.reports_sent.get(), 1u, "a report");
    tap::is(c.reports_written.get(), uint64_t(with_containers), "written where that can be");
    tap::is(world.node.reports_written, uint64_t(with_containers), "the node finds it there");
    tap::is(c.report_answers_written.get(), uint64_t(with_containers), "and so are answers");
    tap::is(c.report_renewed.get(), 1u, "it renews a lease either way");
    world.fetch("k");
    world.node.hold_reports = true;
    upto(world, up_ns + 6 * second);
    OutBuffer out;
    protocol::append_reported(out, world.node.report_number, 0, std::array<uint32_t, 1>{world.node.term_ms});
    world.hear(out);
    tap::ok(c.report_renewed.get() == 2 && world.link->up(), "one whose answer comes in a frame, too");
    tap::is(c.report_answers_written.get(), uint64_t(with_containers), "which is counted as what it is");
}

// Arbitrary bytes and lengths written by a node renew no unreported item; at worst they end its connection.
void lying_containers() {
    using protocol::FrameError;
    using protocol::FrameKind;
    struct Lie {
        const char* title;
        FrameError error;
        std::function<void(std::string& content, size_t& bytes)> tell;
    };
    const Lie all[] = {
        {"less than a frame", FrameError::written_mismatch, [](std::string&, size_t& n) { n = 15; }},
        {"all there is", FrameError::written_mismatch, [](std::string&, size_t& n) { n = fabric::container_bytes; }},
        {"half a frame", FrameError::written_mismatch, [](std::string&, size_t& n) { n--; }},
        {"more than a frame", FrameError::written_mismatch, [](std::string&, size_t& n) { n++; }},
        {"another report's answer", FrameError::reply_stranger, [](std::string& c, size_t&) { c[8]++; }},
        {"another kind of frame", FrameError::body_short, [](std::string& c, size_t&) { c[4] = char(FrameKind::replies); }},
        {"a report", FrameError::kind_unexpected, [](std::string& c, size_t&) { c[4] = char(FrameKind::report); }},
        {"no frame", FrameError::kind_unknown, [](std::string& c, size_t&) { c.assign(c.size(), '\xff'); }},
    };
    for (const Lie& lie : all) {
        World world(reporting_often());
        world.start();
        const uint64_t up_ns = world.now_ns;
        world.hold_pointer("a", "value");
        world.fetch("a");
        world.node.hold_reports = true;
        upto(world, up_ns + 3 * second);
        const auto before = world.pointer("a");
        OutBuffer frame;
        protocol::append_reported(frame, world.node.report_number, 0, std::array<uint32_t, 1>{world.node.term_ms});
        std::string content(frame.data(), frame.size());
        size_t bytes = content.size();
        lie.tell(content, bytes);
        world.wire->proxy_container.replace(0, content.size(), content);
        world.wire->proxy_written.push_back(bytes);
        world.link->ready(world.now_ns);
        tap::is(world.counters().frame_errors[size_t(lie.error)].get(), 1u, std::string("written: ") + lie.title);
        tap::ok(world.downs.size() == 1 && world.downs[0].first == proxy::LinkDown::bad_frame, "ends the connection");
        const auto after = world.pointer("a");
        tap::ok(before && after && before->valid_until_ns == after->valid_until_ns, "and renews nothing");
    }
}

// A node of an older version receives no reports (S18).
void older() {
    for (const uint64_t every : {uint64_t(0), 3 * second}) {
        proxy::LinkConfig config = reporting_often();
        config.report_interval_ns = every;
        World world(config);
        world.node.version = protocol::version_with_in_place - 1;
        world.start();
        const uint64_t up_ns = world.now_ns;
        for (uint64_t i = 1; i <= 3; i++) tap::ok(!world.link->note_access(i, 64, 64, 0), "what is read there");
        world.store("k", "value");
        upto(world, up_ns + 9 * second);
        tap::is(world.node.accesses.size() + world.node.reports, 0u, "is not reported to a node of an older version");
        tap::is(world.counters().accesses_dropped.get(), 3u, "but dropped");
        tap::is(world.node.bad_frames, 0u, "and nothing comes that it does not know");
    }
    World world(reporting_often());
    world.start();
    world.link->note_access(1, 64, protocol::access_offset_max + 16, 0);
    world.link->note_access(1, 64, 64, protocol::access_region_max + 1);
    tap::is(world.counters().accesses_dropped.get(), 2u, "what no record can name is dropped, too");
}

// Processes that share the table (t/unit/proxy/host_reports.cc): reports come from its board, and leases are written to it.
void shared() {
    proxy::LinkConfig config = reporting_often();
    config.share_reports = true;
    World world(config);
    world.start();
    const uint64_t up_ns = world.now_ns;
    world.hold_pointer("k", "value");
    for (int i = 0; i < 2; i++) world.fetch("k");
    const auto board = [&] { return *world.table().boards().of(world.node.incarnation, world.now_ns); };
    const fabric::RemotePtr ptr = world.pointer("k")->ptr;
    const auto by_another = *protocol::item_access(world.hash("k"), ptr.offset, ptr.region, ptr.generation, 40);
    board().put(by_another);
    const uint64_t end_ns = world.pointer("k")->valid_until_ns;
    upto_report(world, up_ns + 3 * second);
    tap::ok(heard(world) == std::map<uint64_t, uint32_t>{{world.hash("k"), 42}}, "one report holds all links' accesses");
    tap::ok(world.pointer("k") && world.pointer("k")->valid_until_ns > end_ns, "the lease is renewed for all");
    tap::is(world.counters().reporter.get(), 1u, "this is the reporter");
    tap::is(world.link->next_tick_ns(), up_ns + 6 * second, "which looks again after an interval");
    board().put(by_another);
    board().announce();
    upto(world, up_ns + 6 * second);
    tap::ok(heard(world) == std::map<uint64_t, uint32_t>{{world.hash("k"), 40}}, "and reports what others read since");
    upto(world, up_ns + 9 * second);
    tap::is(world.link->next_tick_ns(), UINT64_MAX, "when there was nothing, no more");
    tap::is(world.counters().reporter.get(), 0u, "then it is no reporter");
    world.fetch("k");
    upto(world, up_ns + 12 * second);
    world.fetch("k");
    tap::is(world.counters().reporter.get(), 1u, "until it read something");
    world.wire->end = fabric::ChannelEnd::reset;
    world.link->ready(world.now_ns);
    tap::is(world.counters().reporter.get(), 0u, "without a connection it is none");
    const auto alive = [](uint16_t) { return true; };
    const auto leadership = board().seek({60000, 1}, world.now_ns, world.now_ns + second, alive);
    tap::is(leadership, proxy::ReportBoard::Leadership::elected, "and has resigned");
}

}  // namespace

int main() {
    not_at_once();
    for (const bool containers : {false, true}) {
        tap::note("%s", containers ? "by containers" : "by frames");
        with_containers = containers;
        told_unasked();
        bounded();
        troubled();
        renewed();
        replaced();
        counted_from_sending();
        flow();
        time_left();
        lies();
        silent();
        older();
        never_again(/* together= */ false);
        never_again(/* together= */ true);
        by_container();
        shared();
    }
    lying_containers();
    return tap::done();
}
