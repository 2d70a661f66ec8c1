// SPDX-License-Identifier: BSD-3-Clause
// Reports at the node: leases are renewed of what is there as it is told, in the time that there is, up to the proxy's
// share; nothing else comes of them, whatever they say.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <random>

#include "base/hash.h"
#include "node/impl.h"
#include "t/tap.h"
#include "t/unit_node_service_fixture.h"

namespace {

using namespace service_fixture;

constexpr uint64_t us = 1000;

// A node of which leases are the longer, the later they are renewed: by clock_reads.
struct Reported : ServedNode {
    explicit Reported(const node::Config& config = node_config()) : ServedNode(config) {
        clock_reads = at_start;
        steady_step_ns = 0;
    }

    node::Descriptor& descriptor(const AccessRecord& record) {
        node::Arena& arena = cache.impl().arena;
        return arena.descriptor(arena.ref_at(record.offset - cache.view().header->arena_offset));
    }
    uint32_t lease_end(const AccessRecord& record) { return descriptor(record).lease_end; }
};

// Stores an item; what a report would say of it.
std::optional<AccessRecord> leased(Proxy& proxy, const std::string& key, std::string_view value) {
    proxy.ask(set_of(key, value));
    proxy.ask(get_of(key));
    const std::optional<Grant> grant = proxy.ask(get_of(key), wanting_grant()).reply.grant;
    if (!grant) return std::nullopt;
    return AccessRecord{hash_key(key, proxy.welcome.hash_seed), grant->generation, grant->offset, grant->region, 1};
}

void report(Proxy& proxy, const std::vector<AccessRecord>& records) {
    OutBuffer out;
    FrameWriter writer(out, proxy.welcome.frame_bytes_max);
    writer.begin(FrameKind::report, proxy.next_sequence++);
    for (const AccessRecord& record : records) CHECK(writer.add(record));
    writer.end();
    proxy.report_answered = 0;
    if (!proxy.channel.containers) return proxy.give(out);
    OutBuffer notice;
    proxy.channel.container.replace(0, out.size(), out.data(), out.size());
    append_written(notice, FrameKind::report_written, proxy.next_sequence - 1, uint32_t(out.size()));
    proxy.give(notice);
}

bool answered(const Proxy& proxy) { return proxy.report_answered == proxy.next_sequence - 1 && proxy.trouble.empty(); }

void renewed() {
    Reported served;
    Proxy proxy(served);
    const auto one = leased(proxy, "one", "value"), two = leased(proxy, "two", "value");
    if (!one || !two) return void(tap::ok(false, "two leases"));
    const uint32_t before = served.lease_end(*one);
    const uint32_t accesses = served.descriptor(*one).access_count;
    clock_reads += 2;
    report(proxy, {*one});
    tap::ok(answered(proxy), "a report is answered by its number");
    const uint32_t term_ms = served.cache.config().lease.term_ms;
    tap::ok(proxy.terms_ms == std::vector<uint32_t>{term_ms}, "with the term of the new lease");
    tap::is(proxy.left_us, node::report_us_max, "and all the time there is, for nothing has passed");
    tap::is(served.lease_end(*one), before + 2, "it runs as long from now");
    tap::is(served.lease_end(*two), before, "no other one does");
    tap::is(served.descriptor(*one).access_count, accesses + 1, "it was an access");
    tap::is(served.descriptor(*one).last_access, at_start + 2, "of now");

    clock_reads += 100;
    report(proxy, {*two, *one});
    tap::ok(proxy.terms_ms == std::vector<uint32_t>(2, term_ms), "leases that were over are granted again");
    tap::is(served.lease_end(*two), before + 102, "from now");
    tap::is(served.counters.reports.get(), 2u, "reports");
    tap::is(served.counters.report_records.get(), 3u, "report_records");
    tap::is(served.counters.report_renewed.get(), 3u, "report_renewed");
    tap::is(served.counters.accesses.get(), 3u, "accesses");
}

// What could be leased by the rules for new leases is, where it lies; nothing is moved for it.
void by_the_rules() {
    Reported served;
    Proxy proxy(served);
    const uint64_t seed = proxy.welcome.hash_seed;
    std::optional<AccessRecord> in_zone, outside;
    const uint64_t arena = served.cache.view().header->arena_offset;
    for (int i = 0; i < 40'000 && !(in_zone && outside); i++) {
        const std::string key = "k" + std::to_string(i);
        proxy.ask(set_of(key, std::string(400, 'v')));
        auto place = served.cache.impl().partitions[0].locate(served.cache.key(key));
        const layout::ItemHeader& header = served.cache.impl().arena.header(place.ref);
        const AccessRecord record{hash_key(key, seed), layout::Guard{header.guard}.generation(),
                                  arena + served.cache.impl().arena.offset(place.ref), 0, 1};
        (served.cache.impl().arena.leasable(place.ref) ? in_zone : outside) = record;
    }
    if (!in_zone || !outside) return void(tap::ok(false, "an item in the lease zone, and one outside"));
    tap::is(served.lease_end(*in_zone), 0u, "a set alone earns no lease");
    report(proxy, {*in_zone, *outside});
    tap::ok(proxy.terms_ms.at(0) != 0 && proxy.terms_ms.at(1) == 0,
            "what is reported is the second touch, and earns one, in the zone only");
    report(proxy, {*in_zone, *outside});
    tap::ok(served.lease_end(*in_zone) != 0 && served.lease_end(*outside) == 0, "and none is kept for the other");
    tap::is(served.descriptor(*outside).access_count, 2u, "whose accesses are counted");
    tap::is(served.cache.stats(clock_reads).leases.moved, 0u, "nothing is moved");

    StoreOp brief = set_of("brief", "value");
    brief.exptime = clock_reads + 30;
    proxy.ask(brief);
    proxy.ask(get_of("brief"));
    const auto grant = proxy.ask(get_of("brief"), wanting_grant()).reply.grant;
    if (!grant) return void(tap::ok(false, "a grant"));
    const AccessRecord item{hash_key("brief", seed), grant->generation, grant->offset, 0, 1};
    clock_reads += 27;
    report(proxy, {item});
    tap::is(proxy.terms_ms.at(0), 2000u, "a lease ends before its item expires");
    const uint16_t seen = served.descriptor(item).access_count;
    clock_reads += 3;
    report(proxy, {item});
    tap::is(proxy.terms_ms.at(0), 0u, "an expired item has none");
    tap::is(served.descriptor(item).access_count, seen, "nor accesses");
    tap::is(served.counters.report_refused_stranger.get(), 1u, "it is a stranger");
}

void strangers() {
    Reported served;
    Proxy proxy(served);
    const auto right = leased(proxy, "right", "value"), old = leased(proxy, "old", "value");
    const auto flushed = leased(proxy, "flushed", "value");
    if (!right || !old || !flushed) return void(tap::ok(false, "leases"));
    proxy.ask(set_of("old", "new"));
    clock_reads += 1;
    const uint32_t end = served.lease_end(*right);
    std::vector<AccessRecord> wrong(10, *right);
    wrong[0].region = 1;
    wrong[1].offset = 0;
    wrong[2].offset = UINT64_MAX - 15;
    wrong[3].offset += 16;
    wrong[4].generation++;
    wrong[5].offset = proxy.welcome.regions.at(0).bytes - 16;
    wrong[6].offset += layout::page_bytes;
    wrong[7].hash ^= 1;
    wrong[8].hash = ~wrong[8].hash;
    wrong[9] = *old;
    report(proxy, wrong);
    tap::ok(proxy.terms_ms == std::vector<uint32_t>(wrong.size(), 0), "what names no item of ours is not renewed");
    tap::is(served.counters.report_refused_stranger.get(), wrong.size(), "report_refused_stranger");
    std::mt19937_64 random(5);
    for (int i = 0; i < 200; i++) {
        std::vector<AccessRecord> many(report_records_max, *right);
        for (AccessRecord& record : many) {
            record.offset += random() % (8 << 20);
            if (random() % 2 == 0) record.offset &= ~UINT64_C(15);
            if (random() % 3 == 0) record.generation = random() & layout::generation_max;
            record.hash = random() % 2 == 0 ? random() : right->hash;
            record.region = random() % 8 == 0;
            record.count = uint32_t(random()) | 1;
            if (record.offset == right->offset) record.generation++;
        }
        report(proxy, many);
        if (!answered(proxy)) return void(tap::ok(false, "every report is answered"));
    }
    tap::is(served.counters.report_renewed.get(), 0u, "nor is anything drawn at random");
    tap::is(served.lease_end(*right), end, "and what is right is left alone");
    tap::ok(!proxy.service.close_wanted(), "none of it ends the connection");

    proxy.ask(FlushOp());
    report(proxy, {*flushed});
    tap::is(proxy.terms_ms.at(0), 0u, "what was flushed is not renewed");
    Proxy distant(served, true, RegionAccess::none);
    if (const auto there = leased(proxy, "there", "value")) {
        const uint32_t until = served.lease_end(*there);
        clock_reads += 1;
        report(distant, {*there});
        tap::ok(answered(distant) && distant.terms_ms.at(0) == 0 && served.lease_end(*there) == until,
                "nor anything for who cannot read it");
    }
}

void in_time() {
    Reported served;
    Proxy proxy(served);
    std::vector<AccessRecord> items;
    for (int i = 0; i < 20; i++)
        if (const auto item = leased(proxy, "k" + std::to_string(i), "value")) items.push_back(*item);
    tap::is(items.size(), 20u, "twenty leases");
    const uint32_t end = served.lease_end(items[0]);
    clock_reads += 1;
    steady_step_ns = 60 * us;
    report(proxy, items);
    tap::is(proxy.terms_ms.size(), 9u, "records are looked at until 500 us are over");
    tap::is(proxy.left_us, 0u, "which the answer says");
    tap::is(served.lease_end(items[8]), end + 1, "the last of them was renewed");
    tap::is(served.lease_end(items[9]), end, "the next was not");
    tap::is(served.counters.report_cut_short.get(), 1u, "report_cut_short");
    tap::is(served.counters.report_us.get(), 540u, "report_us");
    report(proxy, {items.begin() + 9, items.begin() + 14});
    tap::is(proxy.terms_ms.size(), 5u, "a shorter one is looked at whole");
    tap::is(proxy.left_us, 200u, "and leaves time");
    tap::is(served.counters.report_cut_short.get(), 1u, "it is not cut short");
    steady_step_ns = 10'000'000 * us;
    report(proxy, items);
    tap::is(proxy.terms_ms.size(), 1u, "where a thread was held up, a report still gets somewhere");
    tap::is(proxy.left_us, 0u, "and no time is left");
    steady_step_ns = 0;
}

// Of 16 MB half may be leased; a proxy's reports keep as much of that as the share says, the others' as much again.
void shares() {
    node::Config config = node_config();
    config.lease.term_ms = 60'000;
    Reported served(config);
    constexpr uint64_t items_in_share = 20;
    constexpr uint64_t item_bytes = sizeof(layout::ItemHeader) + 3 + 4000;
    served.shared.limits.report_share =
        double(items_in_share * item_bytes + 100) / double(served.cache.leasable_bytes());
    Proxy proxy(served);
    std::vector<AccessRecord> items;
    for (int i = 100; i < 160; i++)
        if (const auto item = leased(proxy, std::to_string(i), std::string(4000, 'v'))) items.push_back(*item);
    tap::is(items.size(), 60u, "sixty leases");
    clock_reads += 1000;
    auto renewed_of = [&](Proxy& by, const std::vector<AccessRecord>& records) {
        report(by, records);
        return std::count_if(by.terms_ms.begin(), by.terms_ms.end(), [](uint32_t term_ms) { return term_ms != 0; });
    };
    tap::is(renewed_of(proxy, items), long(items_in_share), "a report renews as much as the proxy's share");
    tap::is(served.counters.report_refused_quota.get(), 40u, "report_refused_quota");
    tap::is(served.cache.stats(clock_reads).leases.bytes, items_in_share * item_bytes, "no more is leased");
    const std::vector<AccessRecord> rest(items.begin() + items_in_share, items.end());
    tap::is(renewed_of(proxy, rest), 0, "another one nothing more");
    Proxy worker(served);
    tap::is(renewed_of(worker, rest), 0, "nor does one over another connection of the same proxy");
    {
        Proxy again(served);
        tap::is(renewed_of(again, rest), 0, "nor one over a new connection");
    }
    Proxy other(served, /* greet= */ false);
    other.hello.name = "other";
    other.greet_now();
    tap::is(renewed_of(other, rest), long(items_in_share), "another proxy has a share of its own");
    clock_reads += 30;
    tap::is(renewed_of(proxy, {items.begin(), items.begin() + items_in_share}), long(items_in_share),
            "what is leased anyway costs the time that is added");
    tap::is(served.cache.stats(clock_reads).leases.bytes, 2 * items_in_share * item_bytes, "and no memory");
    for (int i = 0; i < 50; i++) {
        clock_reads += 10;
        renewed_of(proxy, items);
    }
    const uint64_t leased = served.cache.stats(clock_reads).leases.bytes;
    tap::ok(leased <= 2 * items_in_share * item_bytes, "however long it goes on and whatever it asks");
    tap::ok(leased >= items_in_share * item_bytes / 2, "it has its share");
    clock_reads = at_start;
}

void versions() {
    Reported served;
    Proxy old(served, /* greet= */ false);
    old.hello.speaks.protocol = 1;
    old.greet_now();
    report(old, {{1, 2, 64, 0, 1}});
    tap::ok(old.goodbye == Goodbye::protocol_error && old.service.close_wanted(), "in version 1 there are no reports");
    Proxy invalid(served);
    report(invalid, {{1, 2, 64, 0, 1}, {1, 2, 64, 0, 0}});
    tap::ok(invalid.goodbye == Goodbye::protocol_error, "a record that cannot be ends the connection");
    tap::is(served.counted(FrameError::entry_invalid), 1u, "by its name");
}

// ---- containers -------------------------------------------------------------------------------------

void counted() {
    Reported served;
    Proxy proxy(served);
    const auto item = leased(proxy, "one", "value");
    if (!item) return void(tap::ok(false, "a lease"));
    report(proxy, {*item});
    const uint64_t written = with_containers ? 1 : 0;
    tap::ok(answered(proxy) && served.counters.reports.get() == 1, "a report is answered");
    tap::is(served.counters.reports_written.get(), written, "reports_written");
    tap::is(served.counters.report_answers_written.get(), written, "report_answers_written");
    const FrameKind kind = with_containers ? FrameKind::reported_written : FrameKind::reported;
    tap::ok(proxy.kinds.back() == kind, "in the way in which it came");
}

// Of what a proxy writes, or says that it has written. All of it ends the connection by a name, but what is a report.
void lying_containers() {
    struct Lie {
        const char* title;
        FrameError error;
        std::function<void(Proxy&, std::string& content, WrittenRecord&, uint64_t& sequence)> tell;
    };
    const Lie all[] = {
        {"what is so", FrameError::none, [](Proxy&, std::string&, auto&, uint64_t&) {}},
        {"another container", FrameError::written_stranger, [](Proxy&, std::string&, auto& w, uint64_t&) { w.container = 1; }},
        {"the last one", FrameError::written_stranger,
         [](Proxy&, std::string&, auto& w, uint64_t&) { w.container = UINT32_MAX; }},
        {"nothing", FrameError::written_length, [](Proxy&, std::string&, auto& w, uint64_t&) { w.bytes = 0; }},
        {"less than a frame", FrameError::written_length, [](Proxy&, std::string&, auto& w, uint64_t&) { w.bytes = 15; }},
        {"more than it holds", FrameError::written_length, [](Proxy&, std::string&, auto& w, uint64_t&) { w.bytes = 8193; }},
        {"more than there is", FrameError::written_length,
         [](Proxy&, std::string&, auto& w, uint64_t&) { w.bytes = UINT32_MAX; }},
        {"half a frame", FrameError::written_mismatch, [](Proxy&, std::string&, auto& w, uint64_t&) { w.bytes--; }},
        {"more than a frame", FrameError::written_mismatch, [](Proxy&, std::string&, auto& w, uint64_t&) { w.bytes++; }},
        {"another report", FrameError::written_mismatch, [](Proxy&, std::string&, auto&, uint64_t& n) { n++; }},
        {"more records than there are", FrameError::body_short, [](Proxy&, std::string& c, auto&, uint64_t&) { c[6]++; }},
        {"no records", FrameError::count_wrong, [](Proxy&, std::string& c, auto&, uint64_t&) { c[6] = 0; }},
        {"requests", FrameError::written_mismatch,
         [](Proxy&, std::string& c, auto&, uint64_t&) { c[4] = char(FrameKind::requests); }},
        {"a notification", FrameError::body_excess,
         [](Proxy&, std::string& c, auto&, uint64_t&) { c[4] = char(FrameKind::report_written), c[6] = 0; }},
        {"no frame", FrameError::kind_unknown, [](Proxy&, std::string& c, auto&, uint64_t&) { c.assign(c.size(), '\xff'); }},
        {"an item that cannot be", FrameError::entry_invalid,
         [](Proxy&, std::string& c, auto&, uint64_t&) { c.assign(c.substr(0, 16)).append(32, '\0'); }},
        {"where there is none", FrameError::written_stranger,
         [](Proxy& p, std::string&, auto&, uint64_t&) { p.channel.containers = false; }},
    };
    for (const Lie& lie : all) {
        Reported served;
        Proxy proxy(served);
        const auto item = leased(proxy, "one", "value");
        if (!item) return void(tap::ok(false, "a lease"));
        const uint32_t end = served.lease_end(*item);
        clock_reads += 1;
        OutBuffer out, notice;
        uint64_t sequence = proxy.next_sequence++;
        FrameWriter writer(out, proxy.welcome.frame_bytes_max);
        writer.begin(FrameKind::report, sequence);
        CHECK(writer.add(*item));
        writer.end();
        std::string content(out.data(), out.size());
        WrittenRecord written{0, uint32_t(content.size())};
        lie.tell(proxy, content, written, sequence);
        proxy.channel.container.replace(0, content.size(), content);
        append_written(notice, FrameKind::report_written, sequence, 16);
        std::memcpy(notice.at(sizeof(FrameHeader)), &written, sizeof written);
        proxy.give(notice);
        const bool good = lie.error == FrameError::none;
        tap::is(served.counted(lie.error), good ? 0u : 1u, std::string("written: ") + lie.title);
        tap::is(proxy.service.close_wanted(), !good, good ? "is taken" : "ends the connection");
        tap::is(served.lease_end(*item), end + (good ? 1 : 0), good ? "and renews" : "and renews nothing");
    }
}

}  // namespace

int main() {
    for (const bool containers : {false, true}) {
        tap::note("%s", containers ? "by containers" : "by frames");
        with_containers = containers;
        counted();
        renewed();
        by_the_rules();
        strangers();
        in_time();
        shares();
        versions();
    }
    lying_containers();
    return tap::done();
}
