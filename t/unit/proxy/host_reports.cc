// SPDX-License-Identifier: BSD-3-Clause
// Links of one host that report together. One link reports each item and each access of all links exactly once, although
// links join, leave, are late or die. Also: records that the node does not examine, a full board, and no board.
#include <deque>
#include <map>
#include <memory>

#include "protocol/frame.h"
#include "proxy/access_notes.h"
#include "t/unit/proxy/pointer_table_fixture.h"

using namespace table_test;
using protocol::ItemAccess;

namespace {

constexpr uint64_t interval = 10 * second;
constexpr uint32_t frame_bytes_max = 65536;

ItemAccess item_of(uint64_t hash, uint32_t count = 1) { return {hash, 16 * hash, count, 0, uint16_t(1000 + hash)}; }

// One link's notes, with a separate process id in the table, and the node's replies.
struct Link {
    explicit Link(const Name& name) : table(open(options(name, 1024))), notes(counters, config(*table)) {}
    explicit Link(proxy::PointerTable& of) : notes(counters, config(of)) {}
    ~Link() { notes.drop_all(); }
    static proxy::AccessNotes::Config config(proxy::PointerTable& of) {
        return {.interval_ns = interval, .table = &of, .share = true};
    }

    void greet(uint64_t at_ns, uint64_t incarnation = one_node, bool takes = true) {
        notes.greeted(at_ns, incarnation, frame_bytes_max, takes);
    }
    void read(uint64_t hash, uint32_t times = 1) {
        for (uint32_t n = 0; n < times; n++) notes.note(hash, 16 * hash, 0, 1000 + hash);
    }
    // Runs the link if it is due. Returns the reported counts by hash.
    std::map<uint64_t, uint64_t> turn(uint64_t at_ns, bool room = true) {
        if (notes.due_ns() > at_ns) return {};
        OutBuffer out;
        notes.report(out, at_ns, room);
        return hear(out);
    }
    std::map<uint64_t, uint64_t> hear(OutBuffer& out) {
        std::map<uint64_t, uint64_t> told;
        const protocol::FrameLimits limits{protocol::Sender::proxy, true, frame_bytes_max, protocol::protocol_version};
        std::string_view bytes(out.data(), out.size());
        while (!bytes.empty()) {
            const protocol::FrameParse parse = protocol::parse_frame(bytes, limits);
            if (parse.status != protocol::FrameParse::Status::frame) tap::bail_out("a frame");
            if (parse.frame.kind == protocol::FrameKind::report) number = parse.frame.sequence;
            last_bytes = parse.bytes;
            for (uint32_t n = 0; n < parse.frame.count; n++) {
                ItemAccess record;
                if (protocol::access_at(parse.frame, n, record) != protocol::FrameError::none) tap::bail_out("a record");
                told[record.hash] += record.count;
            }
            bytes.remove_prefix(parse.bytes);
        }
        out.clear(0);
        return told;
    }
    // The node examined this many records and has this much time left. Returns the next report.
    std::map<uint64_t, uint64_t> answered(uint32_t records, uint32_t left_us, uint64_t at_ns) {
        OutBuffer answer, out;
        const std::vector<uint32_t> terms_ms(records, 4000);
        protocol::append_reported(answer, number, left_us, terms_ms);
        const protocol::FrameLimits limits{protocol::Sender::node, true, frame_bytes_max, protocol::protocol_version};
        const protocol::FrameParse parse = protocol::parse_frame({answer.data(), answer.size()}, limits);
        const auto renewed = [&](const proxy::AccessNotes::Renewed& by) { renewals[by.item.hash] = by.sent_ns; };
        if (notes.reported(parse.frame, 4000, renewed) != protocol::FrameError::none) tap::bail_out("an answer");
        notes.report_more(out, at_ns);
        return hear(out);
    }
    // Runs the link; the reply examines the whole report.
    std::map<uint64_t, uint64_t> turn_answered(uint64_t at_ns) {
        const auto told = turn(at_ns);
        if (!told.empty()) answered(uint32_t(told.size()), 0, at_ns);
        return told;
    }
    bool reporter() const { return counters.reporter.get() == 1; }
    // H2: each noted or taken access is sent, dropped, shared, or still here.
    uint64_t settled() const {
        return counters.accesses_sent.get() + counters.accesses_dropped.get() + counters.accesses_shared.get() -
               counters.accesses_taken.get();
    }

    proxy::LinkCounters counters;
    std::unique_ptr<proxy::PointerTable> table;
    proxy::AccessNotes notes;
    uint64_t number = 0;
    size_t last_bytes = 0;
    std::map<uint64_t, uint64_t> renewals;  // item hash -> start of its new lease
};

using Counts = std::map<uint64_t, uint64_t>;

void together() {
    Name name;
    Link a(name), b(name), c(name);
    for (Link* link : {&a, &b, &c}) link->greet(now);
    tap::is(a.notes.due_ns(), UINT64_MAX, "a link without reads has no deadline");
    a.read(1, 3), a.read(2);
    b.read(1, 4), b.read(3);
    c.read(1, 5), c.read(2);
    const uint64_t at = now + interval;
    tap::ok(a.turn(at) == Counts({{1, 3}, {2, 1}}) && a.reporter(), "the first reports");
    tap::ok(b.turn(at).empty() && c.turn(at).empty(), "the others do not");
    tap::ok(!b.reporter() && !c.reporter(), "there is one reporter");
    tap::ok(b.notes.due_ns() == at + interval, "the others check a later time that their accesses are reported");
    a.answered(2, 0, at);
    a.read(2, 1), b.read(3, 1);
    tap::ok(b.turn(at + interval).empty(), "in the next interval");
    tap::ok(a.turn_answered(at + interval) == Counts({{1, 9}, {2, 2}, {3, 2}}), "it reports all, once, added up");
    tap::ok(a.renewals.at(3) == at + interval, "and renews what others read");
    tap::is(c.counters.report_merged.get(), 1u, "report_merged");
    tap::ok(c.turn(at + interval).empty(), "a link whose accesses were reported");
    tap::is(c.notes.due_ns(), UINT64_MAX, "sleeps");
    tap::is(b.turn(at + 2 * interval).size(), 0u, "so does another");
    tap::is(b.notes.due_ns(), UINT64_MAX, "one interval later");
    a.turn(at + 2 * interval);
    tap::ok(!a.reporter() && a.notes.due_ns() == UINT64_MAX, "and the reporter, when there is nothing more");
    for (Link* link : {&a, &b, &c}) tap::is(link->counters.accesses_dropped.get(), 0u, "nothing is dropped");
    tap::is(a.settled() + b.settled() + c.settled(), 17u, "each access is accounted for");
    tap::is(a.counters.accesses_sent.get(), 17u, "and sent, all by one");
    c.read(4);
    tap::ok(c.turn(at + 3 * interval) == Counts({{4, 1}}) && c.reporter(), "the next link with an access reports at once");
    tap::is(c.counters.report_elected.get(), 1u, "report_elected");
    tap::is(a.counters.report_takeovers.get() + c.counters.report_takeovers.get(), 0u, "it took over from no other");
}

void late() {
    Name name;
    Link a(name), b(name);
    for (Link* link : {&a, &b}) link->greet(now);
    const uint64_t at = now + interval;
    a.read(1);
    a.turn_answered(at);
    for (uint64_t n = 1; n <= 3; n++) {  // a is stopped
        b.read(2);
        const Counts told = b.turn(at + n * interval);
        if (n == 1) tap::ok(told.empty() && !b.reporter(), "for an interval the reporter may be late");
        if (n == 2) tap::ok(told == Counts({{2, 2}}) && b.reporter(), "after two another reports");
        if (n == 3) tap::ok(told == Counts({{2, 1}}), "and goes on");
        if (!told.empty()) b.answered(1, 0, at + n * interval);
    }
    tap::is(b.counters.report_takeovers.get(), 1u, "report_takeovers");
    a.read(1);
    tap::ok(a.turn(at + 4 * interval).empty() && !a.reporter(), "a link that comes back is no longer reporter");
    b.read(3);
    tap::ok(b.turn_answered(at + 4 * interval) == Counts({{1, 1}, {3, 1}}), "the other reports its reads");
    tap::is(a.counters.accesses_sent.get() + b.counters.accesses_sent.get(), 6u, "each access once");
}

// The reporter is stopped with a report in flight and replaced; dies; leaves in order.
void ended() {
    Name name;
    auto a = std::make_unique<Link>(name);
    Link b(name), c(name);
    for (Link* link : {a.get(), &b, &c}) link->greet(now);
    const uint64_t at = now + interval;
    a->read(1, 2), b.read(1, 3);
    tap::ok(a->turn(at) == Counts({{1, 2}}), "a report is under way");
    b.turn(at);
    tap::ok(b.turn(at + 2 * interval) == Counts({{1, 3}}), "the successor does not report accesses under way");
    b.answered(1, 0, at + 2 * interval);
    a->answered(1, 0, at + 2 * interval);
    tap::is(a->counters.accesses_sent.get() + b.counters.accesses_sent.get(), 5u, "but the first reporter does, if it goes on");

    b.read(1), c.read(1);
    b.turn(at + 3 * interval);
    c.turn(at + 3 * interval);
    b.notes.drop_all();
    tap::is(b.counters.accesses_dropped.get(), 1u, "with a connection what was under way is dropped");
    tap::ok(!b.reporter(), "and has resigned its leadership");
    tap::ok(c.turn(at + 4 * interval) == Counts({{1, 1}}) && c.counters.report_elected.get() == 1, "which is free at once");
    c.answered(1, 0, at + 4 * interval);

    a->read(5);
    tap::ok(a->turn(at + 5 * interval).empty(), "another reports");
    c.notes.drop_all();
    a->read(5);
    a->turn_answered(at + 6 * interval);
    tap::ok(a->reporter(), "the first again");
}

void died() {
    Name name;
    Link b(name);
    b.greet(now);
    auto table = open(options(name, 1024));
    const proxy::BoardMember dead = table->new_member();
    const uint64_t at = now + interval;
    auto board = table->boards().of(one_node, at);
    board->seek(dead, at, at + 2 * interval, [](uint16_t) { return true; });
    board->put(item_of(9, 4));
    board->announce();
    b.read(2);
    tap::ok(b.turn(at).empty(), "there is a reporter");
    table.reset();
    tap::ok(b.turn(at + interval) == Counts({{2, 1}, {9, 4}}) && b.reporter(), "that dies, and is replaced in the next turn");
    tap::is(b.counters.report_takeovers.get(), 1u, "report_takeovers");
}

void not_looked_at() {
    Name name;
    Link a(name), b(name);
    for (Link* link : {&a, &b}) link->greet(now);
    const uint64_t at = now + interval;
    for (uint64_t hash = 0; hash < 8; hash++) a.read(hash, 2);
    tap::is(a.turn(at).size(), 8u, "a report");
    b.read(0), b.read(1);
    b.turn(at);
    tap::is(a.answered(3, 0, at).size(), 0u, "the node examines three of them");
    const Counts more = a.turn_answered(at + interval);
    uint64_t accesses = 0;
    for (const auto& [hash, count] : more) accesses += count;
    tap::is(accesses, 5 * 2 + 2u, "the others are reported again, together with later accesses");
    tap::is(a.counters.accesses_sent.get(), 8 * 2 + 2u, "each once");
    tap::is(a.counters.accesses_dropped.get(), 0u, "none is dropped");
}

void much() {
    Name name;
    Link a(name), b(name);
    for (Link* link : {&a, &b}) link->greet(now);
    const uint64_t at = now + interval;
    const uint64_t many = 300;  // of 64 cells
    for (uint64_t hash = 0; hash < many; hash++) a.read(hash), b.read(hash + many);
    b.turn(at, /* room= */ false);
    tap::ok(!b.reporter(), "a link that cannot send is no reporter");
    uint64_t told = 0, turns = 0;
    for (; turns < 40 && told < 2 * many; turns++) {
        Counts counts = a.turn(at + turns * interval);
        tap::ok(a.last_bytes <= protocol::report_bytes_max, "a report is no longer than may be");
        while (!counts.empty()) {
            told += counts.size();
            counts = a.answered(uint32_t(counts.size()), 100, at + turns * interval);
        }
        b.turn(at + turns * interval);
    }
    tap::is(told, 2 * many, "what finds no room on the board is put there later");
    tap::ok(turns < 20, "as it is taken");
    tap::is(a.counters.accesses_sent.get(), 2 * many, "each once");
    tap::is(a.counters.accesses_dropped.get() + b.counters.accesses_dropped.get(), 0u, "none is dropped");
}

void time_left() {
    Name name;
    auto table = open(options(name, 1 << 20));
    std::deque<Link> links;
    for (int n = 0; n < 7; n++) links.emplace_back(*table).greet(now);
    const uint64_t at = now + interval;
    uint64_t hash = 0, told = 0, reports = 0;
    for (Link& link : links)
        for (uint64_t n = 0; n < 1000; n++) link.read(hash++);
    for (size_t n = 1; n < links.size(); n++) links[n].turn(at, /* room= */ false);
    Link& a = links[0];
    for (Counts counts = a.turn(at); !counts.empty(); reports++) {
        told += counts.size();
        counts = a.answered(uint32_t(counts.size()), 400, at);
    }
    tap::is(reports, uint64_t{proxy::HostReports::reports_per_interval_max}, "while the node has time it gets more reports");
    tap::ok(told <= 4096, "up to a whole board in an interval");
    uint64_t accounted = told;
    for (Link& link : links) accounted += link.counters.accesses_dropped.get();
    for (uint64_t turn = 1; turn <= 4; turn++)
        for (Link& link : links) {
            Counts counts = link.turn(at + turn * interval);
            while (!counts.empty()) {
                accounted += counts.size();
                counts = link.answered(uint32_t(counts.size()), 400, at + turn * interval);
            }
        }
    tap::is(accounted, hash, "and of the rest later");
}

void alone() {
    Name name;
    Link a(name), b(name);
    for (uint64_t n = 1; n <= proxy::boards_max; n++) a.table->boards().of(one_node + n, now + interval);
    for (Link* link : {&a, &b}) link->greet(now);
    const uint64_t at = now + interval;
    a.read(1, 2), b.read(1);
    tap::ok(a.turn_answered(at) == Counts({{1, 2}}) && b.turn_answered(at) == Counts({{1, 1}}),
            "without a board each reports for itself");
    tap::is(a.counters.accesses_sent.get() + b.counters.accesses_sent.get(), 3u, "what it read");
    tap::is(a.counters.accesses_shared.get() + b.counters.accesses_shared.get(), 0u, "and shares nothing");
    const uint64_t later = at + proxy::ReportBoards::idle_ns;
    a.read(1), b.read(1);
    tap::ok(a.turn_answered(later) == Counts({{1, 1}}) && b.turn_answered(later).empty(), "until there is one");
}

// Another run of the node, and a node of an older version.
void others() {
    Name name;
    Link a(name), b(name);
    a.greet(now), b.greet(now, one_node + 1);
    const uint64_t at = now + interval;
    a.read(1), b.read(1, 2);
    tap::ok(a.turn_answered(at) == Counts({{1, 1}}) && b.turn_answered(at) == Counts({{1, 2}}), "nodes are apart");
    b.notes.drop_all();
    b.greet(at);
    b.read(2, 2);
    tap::ok(b.turn(at + interval).empty(), "a link that came again shares with the others");
    a.read(3);
    tap::ok(a.turn_answered(at + interval) == Counts({{2, 2}, {3, 1}}), "which report it");
    a.notes.drop_all();
    b.notes.drop_all();
    b.greet(at + interval, one_node, /* takes= */ false);
    b.read(4, 3);
    tap::is(b.notes.due_ns(), UINT64_MAX, "a node that takes no records gets none");
    tap::is(b.counters.accesses_dropped.get(), 3u, "and accesses there are dropped");
}

}  // namespace

int main() {
    together();
    late();
    ended();
    died();
    not_looked_at();
    much();
    time_left();
    alone();
    others();
    return tap::done();
}
