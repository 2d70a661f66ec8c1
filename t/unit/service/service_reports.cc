// SPDX-License-Identifier: BSD-3-Clause
// Reports at the node: a report renews leases of items that are in the reported place, in the time available, up to the
// proxy's share. No report has another effect.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <random>

#include "base/hash.h"
#include "node/store/impl.h"
#include "t/lib/tap.h"
#include "t/unit/service/service_fixture.h"

namespace {

using namespace service_fixture;

constexpr uint64_t us = 1000;

// A node whose leases are the longer, the later they are renewed: by clock_reads.
struct Reported : ServedNode {
    explicit Reported(const node::Config& config = node_config()) : ServedNode(config) {
        clock_reads = at_start;
        steady_step_ns = 0;
    }

    node::Descriptor& descriptor(const ItemAccess& record) {
        node::Arena& arena = cache.impl().arena;
        return arena.descriptor(arena.ref_at(record.offset - cache.view().header->arena_offset));
    }
    uint32_t lease_end(const ItemAccess& record) { return descriptor(record).lease_end; }
};

// Stores an item; returns its record in a report.
std::optional<ItemAccess> leased(Proxy& proxy, const std::string& key, std::string_view value) {
    proxy.ask(set_of(key, value));
    proxy.ask(get_of(key));
    const std::optional<Grant> grant = proxy.ask(get_of(key), wanting_grant()).reply.grant;
    if (!grant) return std::nullopt;
    return item_access(hash_key(key, proxy.welcome.hash_seed), grant->offset, grant->region, grant->generation, 1);
}

void report(Proxy& proxy, const std::vector<ItemAccess>& records) {
    OutBuffer out;
    FrameWriter writer(out, proxy.welcome.frame_bytes_max);
    writer.begin(FrameKind::report, proxy.next_sequence++);
    for (const ItemAccess& record : records) CHECK(writer.add(record));
    writer.end();
    proxy.report_answered = 0;
    if (!proxy.channel.containers) return proxy.give(out);
    proxy.channel.write({out.data(), out.size()});
    proxy.turns();
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

// An item that the rules for new leases allow is leased in place; nothing is moved for it.
void by_the_rules() {
    Reported served;
    Proxy proxy(served);
    const uint64_t seed = proxy.welcome.hash_seed;
    std::optional<ItemAccess> in_zone, outside;
    const uint64_t arena = served.cache.view().header->arena_offset;
    for (int i = 0; i < 40'000 && !(in_zone && outside); i++) {
        const std::string key = "k" + std::to_string(i);
        proxy.ask(set_of(key, std::string(400, 'v')));
        auto place = served.cache.impl().partitions[0].items().locate(served.cache.key(key));
        const layout::ItemHeader& header = served.cache.impl().arena.header(place.ref);
        const auto record = item_access(hash_key(key, seed), arena + served.cache.impl().arena.offset(place.ref), 0,
                                        layout::Guard{header.guard}.generation(), 1);
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
    const ItemAccess item = *item_access(hash_key("brief", seed), grant->offset, 0, grant->generation, 1);
    clock_reads += 27;
    report(proxy, {item});
    tap::is(proxy.terms_ms.at(0), 2000u, "a lease ends before its item expires");
    const uint16_t seen = served.descriptor(item).access_count;
    clock_reads += 3;
    report(proxy, {item});
    tap::is(proxy.terms_ms.at(0), 0u, "an expired item has none");
    tap::is(served.descriptor(item).access_count, seen, "nor accesses");
    tap::is(served.counters.report_unknown_items.get(), 1u, "it is a stranger");
}

void strangers() {
    Reported served;
    Proxy proxy(served);
    const auto right = leased(proxy, "right", "value"), gone = leased(proxy, "gone", "value");
    const auto flushed = leased(proxy, "flushed", "value");
    if (!right || !gone || !flushed) return void(tap::ok(false, "leases"));
    DeleteOp remove;
    remove.key = {"gone", 0};
    proxy.ask(remove);
    clock_reads += 1;
    const uint32_t end = served.lease_end(*right);
    std::vector<ItemAccess> wrong(10, *right);
    wrong[0].region = 1;
    wrong[1].offset = 0;
    wrong[2].offset = access_offset_max;
    wrong[3].offset += 16;
    wrong[4].region = access_region_max;
    wrong[5].offset = proxy.welcome.regions.at(0).bytes - 16;
    wrong[6].offset += layout::page_bytes;
    wrong[7].hash ^= 1;
    wrong[8].hash = ~wrong[8].hash;
    wrong[9] = *gone;
    report(proxy, wrong);
    tap::ok(proxy.terms_ms == std::vector<uint32_t>(wrong.size(), 0), "what names no item of ours is not renewed");
    tap::is(served.counters.report_unknown_items.get(), wrong.size(), "report_unknown_items");
    std::mt19937_64 random(5);
    for (int i = 0; i < 200; i++) {
        std::vector<ItemAccess> many(report_records_max, *right);
        for (ItemAccess& record : many) {
            record.offset += random() % (8 << 20) & ~UINT64_C(15);
            record.generation_tag = uint16_t(random());
            record.hash = random() % 2 == 0 ? random() : right->hash;
            record.region = random() % 8 == 0;
            record.count = uint32_t(random()) | 1;
            if (record.offset == right->offset) record.hash ^= 1;
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
                "nor does a report of a proxy that cannot read one-sided");
    }
}

void in_time() {
    Reported served;
    Proxy proxy(served);
    std::vector<ItemAccess> items;
    for (int i = 0; i < 20; i++)
        if (const auto item = leased(proxy, "k" + std::to_string(i), "value")) items.push_back(*item);
    tap::is(items.size(), 20u, "twenty leases");
    const uint32_t end = served.lease_end(items[0]);
    clock_reads += 1;
    steady_step_ns = 60 * us;
    report(proxy, items);
    tap::is(proxy.terms_ms.size(), 9u, "records are looked at until 500 us are over");
    tap::is(proxy.left_us, 0u, "as its answer shows");
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

// Of 16 MB half may be leased. A proxy's reports keep its share of that; the others' reports keep as much again.
void shares() {
    node::Config config = node_config();
    config.lease.term_ms = 60'000;
    Reported served(config);
    constexpr uint64_t items_in_share = 20;
    const std::string value(4000, 'v');
    uint64_t slot_bytes = 0;
    {
        Proxy asks(served);
        asks.ask(set_of("a", value));
        asks.ask(get_of("a"));
        slot_bytes = asks.ask(get_of("a"), wanting_grant()).reply.grant.value_or(Grant{}).capacity;
    }
    served.shared.limits.report_share =
        double(items_in_share * slot_bytes + 100) / double(served.cache.leasable_bytes());
    Proxy proxy(served);
    std::vector<ItemAccess> items;
    for (int i = 100; i < 160; i++)
        if (const auto item = leased(proxy, std::to_string(i), value)) items.push_back(*item);
    tap::is(items.size(), 60u, "sixty leases");
    clock_reads += 1000;
    auto renewed_of = [&](Proxy& by, const std::vector<ItemAccess>& records) {
        report(by, records);
        return std::count_if(by.terms_ms.begin(), by.terms_ms.end(), [](uint32_t term_ms) { return term_ms != 0; });
    };
    tap::is(renewed_of(proxy, items), long(items_in_share), "a report renews as much as the proxy's share");
    tap::is(served.counters.report_refused_quota.get(), 40u, "report_refused_quota");
    tap::is(served.cache.stats(clock_reads).leases.bytes, items_in_share * slot_bytes, "no more is leased");
    const std::vector<ItemAccess> rest(items.begin() + items_in_share, items.end());
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
    tap::is(renewed_of(other, rest), long(items_in_share), "another proxy has a separate share");
    clock_reads += 30;
    tap::is(renewed_of(proxy, {items.begin(), items.begin() + items_in_share}), long(items_in_share),
            "what is leased anyway costs the time that is added");
    tap::is(served.cache.stats(clock_reads).leases.bytes, 2 * items_in_share * slot_bytes, "and no memory");
    for (int i = 0; i < 50; i++) {
        clock_reads += 10;
        renewed_of(proxy, items);
    }
    const uint64_t leased = served.cache.stats(clock_reads).leases.bytes;
    tap::ok(leased <= 2 * items_in_share * slot_bytes, "after any number of reports");
    tap::ok(leased >= items_in_share * slot_bytes / 2, "it has its share");
    clock_reads = at_start;
}

void versions() {
    Reported served;
    Proxy old(served, /* greet= */ false);
    old.hello.speaks.protocol = version_with_in_place - 1;
    old.greet_now();
    report(old, {{1, 64, 1, 0, 2}});
    tap::ok(old.goodbye == Goodbye::protocol_error && old.service.close_wanted(), "in an older version there are no reports");
    Proxy invalid(served);
    report(invalid, {{1, 64, 1, 0, 2}, {1, 64, 0, 0, 2}});
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
    tap::is(proxy.answers_written, written, "in the way of the report");
    const bool framed = std::find(proxy.kinds.begin(), proxy.kinds.end(), FrameKind::reported) != proxy.kinds.end();
    tap::is(framed, !with_containers, "and in no other");
}

// Bytes that a proxy writes, with their size. All but reports end the connection, with a named reason.
void lying_containers() {
    struct Lie {
        const char* title;
        FrameError error;
        std::function<void(std::string& content, size_t& bytes)> tell;
    };
    const Lie all[] = {
        {"what is so", FrameError::none, [](std::string&, size_t&) {}},
        {"less than a frame", FrameError::written_mismatch, [](std::string&, size_t& n) { n = 15; }},
        {"half a frame", FrameError::written_mismatch, [](std::string&, size_t& n) { n--; }},
        {"more than a frame", FrameError::written_mismatch, [](std::string&, size_t& n) { n++; }},
        {"all there is", FrameError::written_mismatch, [](std::string&, size_t& n) { n = fabric::container_bytes; }},
        {"more records than there are", FrameError::body_short, [](std::string& c, size_t&) { c[6]++; }},
        {"no records", FrameError::count_wrong, [](std::string& c, size_t&) { c[6] = 0; }},
        {"requests", FrameError::written_mismatch, [](std::string& c, size_t&) { c[4] = char(FrameKind::requests); }},
        {"accesses", FrameError::written_mismatch, [](std::string& c, size_t&) { c[4] = char(FrameKind::accesses); }},
        {"an answer", FrameError::kind_unexpected, [](std::string& c, size_t&) { c[4] = char(FrameKind::reported); }},
        {"a greeting", FrameError::kind_unexpected, [](std::string& c, size_t&) { c[4] = char(FrameKind::hello); }},
        {"no frame", FrameError::kind_unknown, [](std::string& c, size_t&) { c.assign(c.size(), '\xff'); }},
        {"an item that cannot be", FrameError::entry_invalid,
         [](std::string& c, size_t&) { c.assign(c.substr(0, 16)).append(16, '\0'); }},
    };
    for (const Lie& lie : all) {
        Reported served;
        Proxy proxy(served);
        const auto item = leased(proxy, "one", "value");
        if (!item) return void(tap::ok(false, "a lease"));
        const uint32_t end = served.lease_end(*item);
        clock_reads += 1;
        OutBuffer out;
        FrameWriter writer(out, proxy.welcome.frame_bytes_max);
        writer.begin(FrameKind::report, proxy.next_sequence++);
        CHECK(writer.add(*item));
        writer.end();
        std::string content(out.data(), out.size());
        size_t bytes = content.size();
        lie.tell(content, bytes);
        proxy.channel.write(content, bytes);
        proxy.turns();
        const bool good = lie.error == FrameError::none;
        tap::is(served.counted(lie.error), good ? 0u : 1u, std::string("written: ") + lie.title);
        tap::is(proxy.service.close_wanted(), !good, good ? "is taken" : "ends the connection");
        tap::is(served.lease_end(*item), end + (good ? 1 : 0), good ? "and renews" : "and renews nothing");
    }
}

// A written report and frames have no order. Before the greeting a report ends the connection; after a goodbye it gets
// no answer.
void out_of_order() {
    Reported served;
    Proxy early(served, /* greet= */ false);
    early.channel.write(std::string(16, '\0'));
    early.turns();
    tap::ok(early.service.close_wanted() && served.counters.reports.get() == 0, "a report before the greeting is refused");
    Proxy late(served);
    const auto item = leased(late, "one", "value");
    if (!item) return void(tap::ok(false, "a lease"));
    OutBuffer out;
    append_goodbye(out, Goodbye::stopping, "");
    late.channel.feed({out.data(), out.size()});
    late.channel.room = 0;
    late.service.turn();
    out.truncate(0);
    FrameWriter writer(out, late.welcome.frame_bytes_max);
    writer.begin(FrameKind::report, 1);
    CHECK(writer.add(*item));
    writer.end();
    late.channel.write({out.data(), out.size()});
    late.turns();
    tap::is(served.counters.reports.get(), 0u, "a report after a goodbye is ignored");
    tap::ok(late.trouble.empty() && !late.goodbye, "and is no error");
}

// ---- of items that were overwritten -----------------------------------------------------------------

// A late report names an earlier generation in the same place: the key counts it, the slot's new item does not.
void late_report() {
    Reported served;
    Proxy proxy(served);
    const auto before = leased(proxy, "one", "first");
    if (!before) return void(tap::ok(false, "a lease"));
    clock_reads += 1;
    proxy.ask(set_of("one", "other"));
    const NodeSeconds set_at = clock_reads;
    auto place = served.cache.impl().partitions[0].items().locate(served.cache.key("one"));
    const uint64_t arena = served.cache.view().header->arena_offset;
    const uint64_t offset = arena + served.cache.impl().arena.offset(place.ref);
    const uint64_t generation = layout::Guard{served.cache.impl().arena.header(place.ref).guard}.generation();
    ItemAccess late = *before;
    late.offset = offset;  // its current place, which is the old one after an overwrite in place
    late.count = 5;
    GetOp peek = get_of("one");
    peek.peek = true;
    const auto meta = [&] { return std::get<GetReply>(proxy.ask(peek).reply.op).meta; };
    tap::ok(!meta().fetched && meta().last_access == set_at, "after a set an item was not fetched");
    const uint32_t counted = served.descriptor(late).access_count;
    clock_reads += 3;
    report(proxy, {late});
    const bool in_place = before->offset == offset;
    tap::ok(answered(proxy) && (!in_place || proxy.terms_ms.at(0) != 0),
            "a late report of the generation before renews the slot's lease");
    tap::ok(!meta().fetched, "h stays 0");
    tap::is(meta().last_access, set_at, "l is as after the set");
    tap::is(served.descriptor(late).access_count, counted + 5, "but the policy counted it");
    tap::is(served.counters.report_unknown_items.get(), 0u, "it is of a live slot of that key");

    OutBuffer out;
    FrameWriter writer(out, proxy.welcome.frame_bytes_max);
    writer.begin(FrameKind::accesses, 0);
    CHECK(writer.add(late));
    writer.end();
    proxy.give(out);
    tap::ok(!meta().fetched && served.descriptor(late).access_count == counted + 10, "so it is with records in front of requests");

    late.generation_tag = layout::generation_tag(generation);
    report(proxy, {late});
    tap::ok(meta().fetched && meta().last_access == clock_reads, "one of the present generation sets h and l");
    late.hash ^= 1;
    const uint32_t then = served.descriptor(late).access_count;
    report(proxy, {late});
    tap::ok(proxy.terms_ms.at(0) == 0 && served.descriptor(late).access_count == then, "one of another key does nothing");
    late.hash ^= 1, late.count = UINT32_MAX;
    const uint32_t many = served.descriptor(late).access_count;
    report(proxy, {late});
    tap::is(served.descriptor(late).access_count, many + 128, "and no record counts for more than 128");
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
        late_report();
    }
    lying_containers();
    out_of_order();
    return tap::done();
}
