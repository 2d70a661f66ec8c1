// SPDX-License-Identifier: BSD-3-Clause
// A node's replies in frames equal those of direct calls, for every operation and for random histories. Large values
// both ways; pointers under leases; statistics; reported accesses.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/hash.h"
#include "node/store/prefix_deletes.h"
#include "node/store/shared_keys.h"
#include "protocol/layout.h"
#include "t/lib/tap.h"
#include "t/unit/protocol/frame_random.h"
#include "t/unit/service/service_fixture.h"

using namespace service_fixture;
using frame_words::describe;

namespace {

std::string pattern(size_t bytes, uint32_t seed) {
    std::mt19937 random(seed);
    std::string text(bytes, '\0');
    for (char& c : text) c = char(random());
    return text;
}

// ---- the same as the node itself ------------------------------------------------------------------------

// Calls the node directly, as a service should call it. `value`: of a hit.
class Twin {
  public:
    explicit Twin(const node::Config& config) : cache(config) {}

    std::string run(GetOp op, const RequestOptions& options, std::string& value) {
        op.key = cache.key(op.key.bytes);
        op.lease = options.want_grant;
        const auto sink = [&](const ItemMeta& meta) -> char* {
            if (options.no_value) return nullptr;
            value.resize(meta.value_len);
            return value.data();
        };
        const bool has_moved = op.moved_since.has_value();
        const GetReply reply = has_moved ? cache.shared_keys().get_moved(op, clock_reads, sink) : cache.get(op, clock_reads, sink);
        return describe(reply) + granted(reply.grant);
    }
    std::string run(StoreOp op, const RequestOptions& options, std::string&) {
        op.key = cache.key(op.key.bytes);
        op.lease = options.want_grant;
        const StoreReply reply = cache.store(op, clock_reads);
        return describe(reply) + granted(reply.grant);
    }
    std::string run(DeleteOp op, const RequestOptions&, std::string&) {
        op.key = cache.key(op.key.bytes);
        return describe(cache.remove(op, clock_reads));
    }
    std::string run(ArithOp op, const RequestOptions& options, std::string&) {
        op.key = cache.key(op.key.bytes);
        op.lease = options.want_grant;
        const ArithReply reply = cache.arith(op, clock_reads);
        return describe(reply) + granted(reply.grant);
    }
    std::string run(const ForgetOp& op, const RequestOptions&, std::string&) {
        cache.forget(cache.key(op.key.bytes), clock_reads);
        return describe(DoneReply());
    }
    std::string run(const FlushOp& op, const RequestOptions&, std::string&) {
        if (op.prefix.empty())
            cache.flush_all(clock_reads);
        else
            cache.prefixes().remove(op.prefix, clock_reads);
        return describe(DoneReply());
    }
    std::string run(const StatsOp&, const RequestOptions&, std::string&) { return "text"; }
    std::string run(const CopiesOp&, const RequestOptions&, std::string&) { return "text"; }
    // A release names no hold that the node has.
    std::string run(HoldOp op, const RequestOptions&, std::string&) {
        op.key = cache.key(op.key.bytes);
        return describe(cache.shared_keys().hold(op, clock_reads));
    }

    static std::string granted(const std::optional<Grant>& grant) {
        if (!grant) return "";
        return " granted " + std::to_string(grant->length) + " for " + std::to_string(grant->term_ms);
    }
    node::Node cache;
};

std::string answered(const Answer& answer) {
    const std::string text = std::visit([](const auto& op) { return describe(op); }, answer.reply.op);
    return text + Twin::granted(answer.reply.grant);
}

// Few keys, so that operations meet; times near the clock; numbers that arithmetic can use.
RequestOp draw_request(frame_random::Draw& draw, std::string& key, std::string& value) {
    RequestOp op = draw.request();
    key = "key" + std::to_string(draw.below(12));
    auto near = [&](std::optional<NodeSeconds>& moment) {
        if (moment) moment = NodeSeconds(draw.coin() ? 0 : clock_reads - 2 + draw.below(8));
    };
    if (auto* get = std::get_if<GetOp>(&op)) {
        get->key.bytes = key;
        near(get->touch);
        near(get->vivify);
        near(get->recache_before);
        if (!get->win_tokens) get->recache_before.reset();
    } else if (auto* store = std::get_if<StoreOp>(&op)) {
        store->key.bytes = key;
        value = draw.coin() ? std::to_string(draw.below(1000)) : std::string(draw.value());
        if (draw.below(8) == 0) value.resize(100'000 + draw.below(200'000), 'x');
        store->value = value;
        store->exptime = NodeSeconds(draw.coin() ? 0 : clock_reads - 1 + draw.below(8));
        if (store->cas_compare) store->cas_compare = draw.below(40);
        if (store->cas_set) store->cas_set = 1 + draw.below(40);
        near(store->vivify);
    } else if (auto* remove = std::get_if<DeleteOp>(&op)) {
        remove->key.bytes = key;
        if (remove->cas_compare) remove->cas_compare = draw.below(40);
        near(remove->touch);
    } else if (auto* arith = std::get_if<ArithOp>(&op)) {
        arith->key.bytes = key;
        if (arith->cas_compare) arith->cas_compare = draw.below(40);
        near(arith->vivify);
        near(arith->touch);
    } else if (auto* forget = std::get_if<ForgetOp>(&op)) {
        forget->key.bytes = key;
    } else if (auto* hold = std::get_if<HoldOp>(&op)) {
        hold->key.bytes = key;
    } else if (auto* copies = std::get_if<CopiesOp>(&op)) {
        copies->what = CopiesOp::What::next_keys;
    } else if (auto* flush = std::get_if<FlushOp>(&op)) {
        flush->at.reset();
        if (!flush->prefix.empty()) flush->prefix = std::string_view(key).substr(0, 1 + draw.below(key.size()));
    } else if (auto* stats = std::get_if<StatsOp>(&op)) {
        stats->group = draw.coin() ? "" : "leases";
    }
    return op;
}

// A reply in words. The mark of a missing key is another number in each node.
std::string without_mark(std::string text) {
    const size_t at = text.find("cas=");
    if (!text.starts_with("stored ") || at == text.npos) return text;
    const char* const begin = text.c_str() + at + 4;
    char* end = nullptr;
    if (protocol::is_mark(std::strtoull(begin, &end, 10))) text.replace(at + 4, size_t(end - begin), "mark");
    return text;
}

void random_histories() {
    int differences = 0;
    size_t requests = 0, hits = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        clock_reads = at_start;
        ServedNode served(node_config(32));
        Twin twin(node_config(32));
        Proxy first(served), second(served);
        frame_random::Draw draw(seed);
        for (int i = 0; i < 400; i++) {
            std::string key, value, got;
            const RequestOp op = draw_request(draw, key, value);
            if (std::holds_alternative<FlushOp>(op) && draw.below(10) != 0) continue;
            RequestOptions options = draw.options(op);
            options.value_follows = false;
            const std::string want =
                std::visit([&](const auto& o) { return twin.run(o, options, got); }, op);
            Proxy& proxy = draw.coin() ? first : second;
            const Answer& answer =
                std::visit([&](const auto& o) -> const Answer& { return proxy.ask(o, options); }, op);
            const bool stats = std::holds_alternative<StatsOp>(op) || std::holds_alternative<CopiesOp>(op);
            const bool equal = without_mark(answered(answer)) == without_mark(want);
            const bool same = answer.whole && equal && (stats || answer.value == got);
            if (!same && differences++ < 5)
                tap::note("seed %llu, %d: got %s want %s", static_cast<unsigned long long>(seed), i,
                          answered(answer).c_str(), want.c_str());
            requests++;
            hits += is_hit(answer);
            if (draw.below(20) == 0) clock_reads++;
        }
        if (!(first.trouble + second.trouble).empty()) {
            differences++;
            tap::note("%s", (first.trouble + second.trouble).c_str());
        }
    }
    clock_reads = at_start;
    tap::is(differences, 0, "in random histories a node answers in frames what it answers when called");
    tap::ok(hits > requests / 50, "with hits among them");
}

// Many requests in one frame, of two connections in turn: each is answered once, by its tag.
void many_in_a_frame() {
    ServedNode served;
    Proxy a(served), b(served);
    OutBuffer out_a, out_b;
    constexpr uint32_t count = 500;
    for (auto [proxy, out, name] : {std::tuple(&a, &out_a, "a"), std::tuple(&b, &out_b, "b")}) {
        FrameWriter writer(*out, proxy->welcome.frame_bytes_max);
        for (bool store : {true, false}) {
            writer.begin(FrameKind::requests, store ? 100 : 101);
            for (uint32_t i = 0; i < count; i++) {
                const std::string key = name + std::to_string(i);
                RequestOptions options;
                options.tag = i * 3;
                if (store)
                    writer.add(set_of(key, "value of " + key), options);
                else
                    writer.add(get_of(key), options);
            }
            writer.end();
        }
    }
    // Interleaved, in pieces.
    for (size_t at = 0; at < std::max(out_a.size(), out_b.size()); at += 777) {
        for (auto [proxy, out] : {std::pair(&a, &out_a), std::pair(&b, &out_b)})
            if (at < out->size())
                proxy->give(std::string_view(out->data() + at, std::min<size_t>(777, out->size() - at)));
    }
    bool good = true;
    for (auto [proxy, name] : {std::pair(&a, "a"), std::pair(&b, "b")}) {
        good = good && proxy->answers.size() == 2 * count && proxy->trouble.empty();
        for (uint32_t i = 0; i < count; i++) {
            good = good && is_stored(proxy->answers[{100, i * 3}]);
            good = good && proxy->answers[{101, i * 3}].value == "value of " + std::string(name) + std::to_string(i);
        }
    }
    tap::ok(good, "frames of 500 requests on two connections at a time: each answered once, by its tag");
    tap::is(served.counters.get_hits.get(), uint64_t(2 * count), "hits are counted");
    tap::is(served.counters.request_frames.get(), 4u, "and frames");
}

// ---- large values -----------------------------------------------------------------------------------------

void large_values() {
    const uint64_t item_max = 8 << 20;
    ServedNode served(node_config(64, item_max));
    for (uint32_t frame_bytes : {frame_bytes_lowest, frame_bytes_default}) {
        Proxy proxy(served, /* greet= */ false);
        proxy.hello.frame_bytes_max = frame_bytes;
        proxy.greet_now();
        bool good = proxy.welcome.frame_bytes_max == frame_bytes;
        const std::string key = "k";
        const uint64_t largest = item_max - layout::item_bytes(key.size(), 0);
        for (uint64_t bytes : {uint64_t(frame_bytes) - 64, uint64_t(frame_bytes), uint64_t(frame_bytes) + 1,
                               uint64_t(3'000'000), largest}) {
            const std::string value = pattern(bytes, uint32_t(bytes));
            good = good && is_stored(proxy.ask(set_of(key, value)));
            const Answer& got = proxy.ask(get_of(key));
            good = good && is_hit(got) && got.whole && got.value == value;
        }
        tap::ok(good && proxy.trouble.empty(),
                "values of all sizes go both ways in frames of " + std::to_string(frame_bytes));
        RequestOptions no_value;
        no_value.no_value = true;
        const Answer& bare = proxy.ask(get_of(key), no_value);
        tap::ok(is_hit(bare) && bare.reply.form == ValueForm::none && bare.value.empty(),
                "a hit without its value, if it is not wanted");
        const Answer& too_large = proxy.ask(set_of(key, std::string(largest + 1, 'x')));
        const auto* reply = std::get_if<StoreReply>(&too_large.reply.op);
        tap::ok(reply != nullptr && reply->status == StoreReply::Status::too_large,
                "one byte more is too large, and answered when it has come");
        tap::is(proxy.ask(get_of(key)).value.size(), size_t(largest), "it changed nothing");
    }
    tap::ok(served.counters.values_received.get() > 0 && served.counters.values_sent.get() > 0,
            "values in pieces are counted");
}

// Announces a value that the node may READ from the proxy's memory.
void lend(Proxy& proxy, uint64_t sequence, const std::string& key, std::string_view value, uint64_t check) {
    OutBuffer out;
    RequestOptions options;
    options.value_follows = true;
    FrameWriter writer(out, proxy.welcome.frame_bytes_max);
    writer.begin(FrameKind::requests, sequence);
    CHECK(writer.add(set_of(key, value), options));
    writer.end();
    const uint64_t offset = proxy.channel.lent.size();
    proxy.channel.lent.append(value);
    append_lent(out, sequence, {options.tag, 0, offset, check});
    proxy.give(out);
}

void lent_values() {
    ServedNode served(node_config(64, 4 << 20));
    Proxy proxy(served);
    const std::string value = pattern(200'000, 3);
    lend(proxy, 100, "k", value, lent_check(value));
    tap::ok(proxy.channel.fetches.size() == 1 && proxy.answers.empty(), "a value in the proxy's memory is READ");
    tap::ok(!proxy.service.quiet(), "which is waited for");
    tap::ok(!is_hit(proxy.ask(get_of("k"))), "it is not there before");
    proxy.channel.fetched(0);
    proxy.turns();
    tap::ok(is_stored(proxy.answers[{100, 0}]), "and stored when it has come");
    tap::is(proxy.ask(get_of("k")).value, value, "as it is");
    tap::is(served.counters.values_fetched.get(), 1u, "it is counted");

    lend(proxy, 101, "a", value, lent_check(value));
    lend(proxy, 102, "b", value, lent_check(value));
    lend(proxy, 103, "c", value, lent_check(value));
    tap::ok(proxy.channel.fetches.size() == 2 && proxy.unlent.has_value(), "there is room for two; the third is given back");
    tap::is(served.counters.values_unfetched.get(), 1u, "which is counted");
    OutBuffer out;
    proxy.put_chunks(out, 103, 0, value);
    proxy.give(out);
    tap::ok(is_stored(proxy.answers[{103, 0}]) && proxy.ask(get_of("c")).value == value, "it comes in pieces");
    proxy.channel.fetched(1);
    proxy.channel.fetched(0, fabric::ReadStatus::failed);
    proxy.turns();
    tap::ok(is_stored(proxy.answers[{102, 0}]), "they come in any order");
    tap::is(served.counters.values_unfetched.get(), 2u, "one that cannot be READ is requested in pieces");
    proxy.put_chunks(out, 101, 0, value);
    proxy.give(out);
    tap::ok(is_stored(proxy.answers[{101, 0}]) && proxy.service.quiet(), "and nothing is left");

    const std::string too_long(size_t(4) << 20, 'x');
    lend(proxy, 104, "k", too_long, lent_check(too_long));
    const auto* reply = std::get_if<StoreReply>(&proxy.answers[{104, 0}].reply.op);
    tap::ok(reply != nullptr && reply->status == StoreReply::Status::too_large && proxy.channel.fetches.empty(),
            "what is too large is not READ");
    tap::is(proxy.ask(get_of("k")).value, value, "and changes nothing");
    tap::is(proxy.trouble, "", "every frame to the proxy was valid");

    // The proxy may write into what it lends.
    lend(proxy, 105, "k", pattern(200'000, 4), lent_check(value));
    proxy.channel.fetched(0);
    proxy.turns();
    tap::ok(proxy.goodbye == Goodbye::protocol_error && proxy.service.close_wanted(), "another value than announced ends it");
    tap::is(served.counted(FrameError::lent_mismatch), 1u, "by that name");
    Proxy next(served);
    tap::is(next.ask(get_of("k")).value, value, "and is not stored");

    {
        Proxy gone(served);
        lend(gone, 1, "k", value, lent_check(value));
        lend(gone, 2, "k", value, lent_check(value));
    }
    lend(next, 200, "n", value, lent_check(value));
    tap::is(next.channel.fetches.size(), size_t(1), "a proxy that disconnects frees its buffers");
    next.put_chunk(out, 200, 0, value, 0);
    next.give(out);
    tap::ok(next.goodbye == Goodbye::protocol_error, "a piece of what is being READ ends the connection");
    next.channel.fetched(0);
    tap::ok(!is_hit(Proxy(served).ask(get_of("n"))), "and a READ that comes then stores nothing");
}

// Small requests go between the pieces of two large values; both directions at once. One piece of input makes several
// times as many replies as may wait to be sent. None of it may be left when the service wants no more turns.
void long_pipeline() {
    ServedNode served;
    Proxy proxy(served);
    const std::string value = pattern(10'000, 7);
    proxy.ask(set_of("k", value));
    const size_t before = proxy.answers.size();
    for (const uint32_t count : {150u, 200u, 1500u}) {
        OutBuffer out;
        for (uint32_t i = 0; i < count; i++) proxy.put(out, get_of("k"), {});
        proxy.answers.clear();
        proxy.give(out);
        size_t right = 0;
        for (const auto& [address, answer] : proxy.answers) right += answer.value == value;
        tap::is(right, size_t(count), "a pipeline of " + std::to_string(count) + " gets of 10 KB is answered");
    }
    tap::ok(before > 0 && proxy.trouble.empty(), "as frames should be");
}

void interleaved_values() {
    ServedNode served(node_config(64, 4 << 20));
    Proxy proxy(served);
    const std::string one = pattern(1'000'000, 1), two = pattern(700'000, 2);
    OutBuffer out;
    FrameWriter writer(out, proxy.welcome.frame_bytes_max);
    RequestOptions first, second;
    first.value_follows = second.value_follows = true;
    second.tag = 1;
    writer.begin(FrameKind::requests, 50);
    writer.add(set_of("one", one), first);
    writer.add(set_of("two", two), second);
    writer.end();
    uint64_t at_one = 0, at_two = 0;
    while (at_one < one.size() || at_two < two.size()) {
        if (at_one < one.size()) at_one += proxy.put_chunk(out, 50, 0, one, at_one);
        if (at_two < two.size()) at_two += proxy.put_chunk(out, 50, 1, two, at_two);
        proxy.put(out, set_of("small", std::to_string(at_one)), {});
    }
    proxy.give(out);
    tap::ok(is_stored(proxy.answers[{50, 0}]) && is_stored(proxy.answers[{50, 1}]),
            "two values come in pieces, in turns");
    tap::is(proxy.ask(get_of("small")).value, std::to_string(one.size()), "small ones between them");

    proxy.kinds.clear();
    writer.begin(FrameKind::requests, 60);
    writer.add(get_of("one"), {});
    writer.end();
    for (uint64_t i = 0; i < 10; i++) proxy.put(out, get_of("small"), {});
    writer.begin(FrameKind::requests, 61);
    writer.add(get_of("two"), {});
    writer.end();
    proxy.give(out);
    tap::ok(proxy.answers[{60, 0}].value == one && proxy.answers[{61, 0}].value == two, "and leave so");
    auto last_small = std::find(proxy.kinds.rbegin(), proxy.kinds.rend(), FrameKind::replies);
    const auto chunks_before = std::count(last_small, proxy.kinds.rend(), FrameKind::chunk);
    tap::ok(chunks_before <= 11, "no reply waits for more than a piece behind each frame");
    tap::is(proxy.trouble, "", "all of it as agreed");
}

// ---- leases -------------------------------------------------------------------------------------------------

void leases() {
    ServedNode served;
    Proxy proxy(served);
    const std::string key = "leased", value = pattern(300, 3);
    tap::ok(!proxy.ask(set_of(key, value), wanting_grant()).reply.grant, "the first touch earns no lease");
    tap::ok(!proxy.ask(get_of(key)).reply.grant, "nor does a get that does not ask");
    const std::optional<Grant> grant = proxy.ask(get_of(key), wanting_grant()).reply.grant;
    tap::ok(grant.has_value(), "one that asks does");
    if (!grant) return;
    tap::is(grant->term_ms, served.cache.config().lease.term_ms, "of the node's term");
    tap::is(proxy.welcome.term_ms_max, grant->term_ms, "as in the greeting");
    tap::ok(grant_fits(*grant, proxy.welcome.regions.at(0).bytes), "its pointer lies in the region");
    const char* at = served.cache.view().base + grant->offset;
    layout::ItemHeader header;
    std::memcpy(&header, at, sizeof header);
    tap::ok(layout::Guard{header.guard} == layout::Guard::make(grant->generation, layout::GuardState::live),
            "to a live item of that generation");
    tap::is(std::string(at + sizeof header, grant->length - sizeof header), key + value,
            "that is the key's");
    proxy.ask(set_of(key, "new"));
    std::memcpy(&header, at, sizeof header);
    tap::ok(layout::Guard{header.guard}.state() == layout::GuardState::live &&
                layout::Guard{header.guard}.generation() > grant->generation,
            "once it is replaced, to a live item of a later one");
    tap::is(std::string(at + sizeof header, key.size() + 3), key + "new", "in the same place");
    proxy.ask(set_of(key, pattern(3000, 4)));
    std::memcpy(&header, at, sizeof header);
    tap::ok(layout::Guard{header.guard}.state() == layout::GuardState::dead, "and dead once the item needs another slot");
    tap::is(std::string(at + sizeof header, key.size() + 3), key + "new", "its bytes as they were");

    Proxy distant(served, true, RegionAccess::none);
    proxy.ask(set_of("other", value));
    proxy.ask(get_of("other"));
    tap::ok(!distant.ask(get_of("other"), wanting_grant()).reply.grant,
            "a proxy that cannot read one-sided gets no lease");
    tap::ok(proxy.ask(get_of("other"), wanting_grant()).reply.grant.has_value(), "one that can does");
}

// ---- statistics and reports -----------------------------------------------------------------------------

void statistics() {
    ServedNode served;
    Proxy proxy(served);
    proxy.ask(set_of("a", "v"));
    const std::string general = proxy.ask(StatsOp{""}).value;
    for (const char* line : {"node n1\n", "curr_items 1\n", "cmd_set 1\n", "connections_opened 1\n",
                             "limit_maxbytes 16777216\n", "evictions 0\n", "lease_granted 0\n"})
        tap::ok(("\n" + general).find("\n" + std::string(line)) != std::string::npos,
                "stats: " + std::string(line, std::strlen(line) - 1));
    tap::is(proxy.ask(StatsOp{"general"}).value.substr(0, 8), general.substr(0, 8), "it has a name, too");
    tap::ok(proxy.ask(StatsOp{"leases"}).value.find("lease_term_ms 4000\n") != std::string::npos, "leases");
    tap::ok(proxy.ask(StatsOp{"classes"}).value.find(":slots_used 1\n") != std::string::npos, "classes");
    const std::string ends = proxy.ask(StatsOp{"connections"}).value;
    for (const char* name : {"end_bad_frame", "channel_end_reset", "frame_kind_unknown", "refusal_full"})
        tap::ok(ends.find(name) != std::string::npos, name);
    const Answer& unknown = proxy.ask(StatsOp{"colours"});
    tap::ok(refusal_of(unknown) == RequestRefusal::stats_unknown, "another group is refused");

    Proxy narrow(served, /* greet= */ false);
    narrow.hello.frame_bytes_max = frame_bytes_lowest;
    narrow.greet_now();
    for (int i = 0; i < 300; i++)
        narrow.ask(set_of("size" + std::to_string(i), std::string(size_t(i) * 200, 'x')));
    const Answer& classes = narrow.ask(StatsOp{"classes"});
    tap::ok(classes.reply.form == ValueForm::follows && classes.whole, "a long text goes in pieces");
}

void accesses() {
    ServedNode served;
    Proxy proxy(served);
    proxy.ask(set_of("seen", "v"));
    proxy.ask(get_of("seen"));
    const std::optional<Grant> grant = proxy.ask(get_of("seen"), wanting_grant()).reply.grant;
    if (!grant) return void(tap::ok(false, "a grant"));
    GetOp peek = get_of("seen");
    peek.peek = true;
    auto last_access = [&] { return std::get<GetReply>(proxy.ask(peek).reply.op).meta.last_access; };
    const uint64_t hash = hash_key("seen", proxy.welcome.hash_seed);
    auto report = [&](const ItemAccess& record) {
        OutBuffer out;
        FrameWriter writer(out, proxy.welcome.frame_bytes_max);
        writer.begin(FrameKind::accesses, 0);
        for (int i = 0; i < 300; i++) writer.add(record);
        writer.end();
        proxy.give(out);
    };
    const ItemAccess right = *item_access(hash, grant->offset, grant->region, grant->generation, 1);
    clock_reads += 10;
    std::vector<ItemAccess> wrong(8, right);
    wrong[0].region = 1;
    wrong[1].offset = 0;
    wrong[2].offset = access_offset_max;
    wrong[3].offset += 16;
    wrong[4].generation_tag++;  // the key's, but of another generation
    wrong[5].offset = proxy.welcome.regions.at(0).bytes - 16;
    wrong[6].offset += layout::page_bytes;
    wrong[7].hash ^= 1;
    for (const ItemAccess& record : wrong) report(record);
    tap::is(last_access(), at_start, "what names no item of ours is no access");
    std::mt19937_64 random(5);
    for (int i = 0; i < 2000; i++) {
        ItemAccess record = right;
        record.offset += random() % (8 << 20) & ~UINT64_C(15);
        record.generation_tag = uint16_t(record.generation_tag + 1 + random() % 65'535);
        if (i % 5 == 0) record.hash = random();
        OutBuffer out;
        FrameWriter writer(out, proxy.welcome.frame_bytes_max);
        writer.begin(FrameKind::accesses, 0);
        writer.add(record);
        writer.end();
        proxy.give(out);
    }
    tap::is(last_access(), at_start, "nor is anything drawn at random");
    report(right);
    tap::is(last_access(), at_start + 10, "what does is one");
    tap::ok(!proxy.service.close_wanted(), "none of it ends the connection");
    tap::ok(served.counters.accesses_invalid.get() > 0, "the impossible are counted");

    OutBuffer out;
    FrameWriter writer(out, proxy.welcome.frame_bytes_max);
    writer.begin(FrameKind::lease_returns, 0);
    writer.add(LeaseReturnRecord{grant->offset, grant->generation, grant->region, 0});
    writer.end();
    append_ping(out, 77);
    append_pong(out, 78, {});
    proxy.give(out);
    tap::is(served.counters.lease_returns.get(), 1u, "returned leases are counted");
    tap::is(proxy.pongs, 1u, "a ping is answered");
    clock_reads = at_start;
}

}  // namespace

int main() {
    random_histories();
    many_in_a_frame();
    large_values();
    lent_values();
    long_pipeline();
    interleaved_values();
    leases();
    statistics();
    accesses();
    return tap::done();
}
