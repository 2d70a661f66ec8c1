// SPDX-License-Identifier: BSD-3-Clause
// Slots that are used without the partition's lock (HeldSlots). A borrowed value keeps its bytes for any change
// to its item (S1, S2). A value that arrives in parts is not found before it is whole. Built again with a rule broken
// on purpose (t/faulty/broken_rules.py), the test must find a violation, and reports it by its one check.
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/broken.h"
#include "fabric/local_read.h"
#include "node/store/impl.h"
#include "t/lib/tap.h"
#include "t/unit/node/invariants.h"

using namespace farcached;

namespace {

constexpr NodeSeconds at_start = 1000;
constexpr size_t page_item = 40'000, run_item = 200'000;  // values of a slot in a page, and of a run of pages
int violations = 0;

void expect(bool holds, const std::string& what) {
    if (!holds && violations++ < 8) std::printf("# violation: %s\n", what.c_str());
}

using Mode = protocol::StoreOp::Mode;
using Status = protocol::StoreReply::Status;

node::Config config_of(uint64_t megabytes, bool leases, uint32_t partitions) {
    node::Config config;
    config.memory_bytes = megabytes << 20;
    config.partitions = partitions;
    config.lease.enabled = leases;
    return config;
}

struct Lent {
    BorrowedBytes bytes;
    std::string copy;  // of the borrowed value
    bool same() const { return bytes.bytes() == copy; }
};

class Cache {
  public:
    explicit Cache(uint64_t megabytes = 4, bool leases = false, uint32_t partitions = 2)
        : node(config_of(megabytes, leases, partitions)) {}

    Status set(const std::string& key, std::string_view value, Mode mode = Mode::set, node::Upload* upload = nullptr) {
        protocol::StoreOp op;
        op.key = node.key(key);
        op.value = value;
        op.mode = mode;
        op.lease = true;
        if (mode == Mode::append) op.vivify.reset();
        return node.store(op, now, upload).status;
    }
    // Lent if it is large enough, else copied into `got`; false: a miss.
    bool get(const std::string& key, Lent& lent) {
        protocol::GetOp op;
        op.key = node.key(key);
        op.lease = true;
        got.clear();
        const auto sink = [&](const protocol::ItemMeta& meta) {
            got.resize(meta.value_len);
            return got.data();
        };
        const bool hit = node.get(op, now, sink, &lent.bytes).status == protocol::GetReply::Status::hit;
        lent.copy = lent.bytes.bytes();
        return hit;
    }
    void touch(const std::string& key, NodeSeconds exptime) {
        protocol::GetOp op;
        op.key = node.key(key);
        op.touch = exptime;
        node.get(op, now, [](const protocol::ItemMeta&) -> char* { return nullptr; });
    }
    void remove(const std::string& key, bool invalidate = false, bool value_only = false) {
        protocol::DeleteOp op;
        op.key = node.key(key);
        op.invalidate = invalidate;
        op.remove_value = value_only;
        node.remove(op, now);
    }
    protocol::ArithReply::Status increment(const std::string& key) {
        protocol::ArithOp op;
        op.key = node.key(key);
        op.delta = 1;
        return node.arith(op, now).status;
    }
    // Stores other keys until the free memory was reused many times.
    void churn(size_t value_bytes, int count) {
        for (int i = 0; i < count; i++) set("churn" + std::to_string(i), std::string(value_bytes, 'c'));
    }
    uint64_t lent_bytes() { return node.stats(now).bytes_lent; }
    uint64_t items() { return node.stats(now).items; }
    uint64_t page_of(const Lent& lent) {
        return uint64_t(lent.bytes.bytes().data() - reinterpret_cast<const char*>(node.impl().region.arena())) / layout::page_bytes;
    }

    node::Node node;
    NodeSeconds now = at_start;
    std::string got;
};

void look(Cache& cache, const std::string& what) {
    const std::string wrong = node::wrong_in(cache.node, cache.now, /* zone_is_fixed= */ false);
    expect(wrong.empty(), what + ": " + wrong);
}

// ---- lent values ------------------------------------------------------------------------------------

// The borrowed bytes survive any change to the item, and then to the memory. The last release frees the memory.
void bytes_stay(size_t size, bool leases) {
    const std::vector<std::pair<std::string, std::function<void(Cache&)>>> changes = {
        {"replaced", [&](Cache& cache) { cache.set("k", std::string(size, 'b')); }},
        {"replaced by a smaller one", [](Cache& cache) { cache.set("k", "small"); }},
        {"appended to", [](Cache& cache) { cache.set("k", "tail", Mode::append); }},
        {"prepended to", [](Cache& cache) { cache.set("k", "head", Mode::prepend); }},
        {"touched", [](Cache& cache) { cache.touch("k", at_start + 5); }},
        {"stale", [](Cache& cache) { cache.remove("k", true); }},
        {"without its value", [](Cache& cache) { cache.remove("k", false, true); }},
        {"deleted", [](Cache& cache) { cache.remove("k"); }},
        {"flushed", [](Cache& cache) { cache.node.flush_all(cache.now); }},
        {"prefix deleted", [](Cache& cache) { cache.node.prefixes().remove("k", cache.now); }},
        {"expired", [](Cache& cache) { cache.touch("k", at_start + 1); cache.now += 2; }},
    };
    for (const auto& [what, change] : changes) {
        Cache cache(4, leases);
        cache.set("k", std::string(size, 'a'));
        Lent first, second;
        cache.get("k", first);
        cache.get("k", second);
        const std::string at_first = what + " (" + std::to_string(size) + (leases ? ", leased)" : ")");
        expect(first.bytes.size() == size, at_first + ": it is borrowed");
        // A lease may move the item in between.
        expect(second.bytes.size() == size, at_first + ": it is borrowed twice");
        change(cache);
        cache.churn(size, 200);
        Lent again;
        cache.get("k", again);
        expect(first.same() && second.same(), what + ": the borrowed value changed");
        look(cache, what);
        cache.now += 2000;  // no lease runs any more
        second.bytes = {};
        cache.churn(size, 200);
        expect(first.same(), what + ": it changed while one still held it");
        first.bytes = {};
        again.bytes = {};
        expect(cache.lent_bytes() == 0, what + ": nothing is borrowed at the end");
        look(cache, what + ", at the end");
    }
}

// A number with blanks behind it is as large as any value. Increments change it in place, but not while it is borrowed.
void numbers() {
    Cache cache;
    cache.set("k", "5" + std::string(page_item, ' '));
    Lent lent;
    cache.get("k", lent);
    expect(cache.increment("k") == protocol::ArithReply::Status::ok, "a borrowed number is incremented");
    expect(lent.same(), "and its borrowed bytes stay");
}

void small_values_are_copied() {
    Cache cache;
    Lent lent;
    cache.set("k", std::string(node::lent_bytes_min - 1, 's'));
    expect(cache.get("k", lent) && !lent.bytes && cache.got.size() == node::lent_bytes_min - 1, "a small value is copied");
}

// Half of the memory; then values are copied, and sets still find room.
void bounded() {
    Cache cache(8);
    std::vector<Lent> lent(100);
    size_t borrowed = 0;
    for (int i = 0; i < 100; i++) {
        cache.set("k" + std::to_string(i), std::string(page_item, char('a' + i % 26)));
        const bool hit = cache.get("k" + std::to_string(i), lent[size_t(i)]);
        expect(hit && (lent[size_t(i)].bytes || cache.got.size() == page_item), "it is borrowed, or copied");
        if (lent[size_t(i)].bytes) borrowed++;
    }
    expect(borrowed > 40 && borrowed < 66, "half of the memory is borrowed: " + std::to_string(borrowed));
    expect(cache.lent_bytes() <= 4 << 20, "and no more");
    expect(cache.set("new", std::string(run_item, 'n')) == Status::stored, "a set finds room all the same");
    for (const Lent& one : lent) expect(one.same(), "all is as it was lent");
    look(cache, "bounded");
    lent.clear();
    expect(cache.lent_bytes() == 0, "and given back");
}

// A pin keeps a whole page from other classes: one pin in each page must not keep all of them.
void pins_keep_pages() {
    Cache cache(8, false, 1);
    for (int i = 0; i < 400; i++) cache.set("k" + std::to_string(i), std::string(20'000, 'k'));
    std::map<uint64_t, Lent> lent;  // by page, one of each
    for (int i = 0; i < 400; i++) {
        Lent one;
        if (!cache.get("k" + std::to_string(i), one) || !one.bytes) continue;
        const uint64_t page = cache.page_of(one);
        lent.try_emplace(page, std::move(one));
    }
    expect(lent.size() == 64, "one pin in each of half of the pages: " + std::to_string(lent.size()));
    expect(cache.lent_bytes() == 4 << 20, "is half of the memory");
    expect(cache.set("tiny", "t") == Status::stored, "a set of another class finds a page");
    look(cache, "pins keep pages");
}

// Where every window has a held slot, no item is evicted for a value that needs a window.
void held_windows_are_spared() {
    Cache cache(8, false, 1);
    for (int i = 0; i < 400; i++) cache.set("k" + std::to_string(i), std::string(20'000, 'k'));
    std::map<uint64_t, Lent> lent;  // by parts of eight pages
    for (int i = 0; i < 400; i++) {
        Lent one;
        if (!cache.get("k" + std::to_string(i), one) || !one.bytes) continue;
        const uint64_t part = cache.page_of(one) / 8;
        lent.try_emplace(part, std::move(one));
    }
    expect(lent.size() == 16, "one page of eight has a pin: " + std::to_string(lent.size()));
    const uint64_t before = cache.items();
    expect(cache.set("large", std::string(1'000'000, 'l')) == Status::no_memory, "there are no 16 pages beside one another");
    expect(cache.items() == before, "nothing was evicted for them: " + std::to_string(before - cache.items()));
    lent.erase(3);
    lent.erase(4);
    expect(cache.set("large", std::string(1'000'000, 'l')) == Status::stored, "once there are, they are found");
    look(cache, "held windows");
}

// ---- uploads ----------------------------------------------------------------------------------------

std::string sent(size_t size, uint32_t seed) {
    std::string value(size, '\0');
    std::mt19937 random(seed);
    for (char& c : value) c = char(random());
    return value;
}

// In pieces of so many bytes.
std::unique_ptr<node::Upload> upload(Cache& cache, const std::string& key, const std::string& value, size_t piece) {
    auto made = cache.node.begin_upload(cache.node.key(key), value.size(), cache.now);
    if (made == nullptr) return nullptr;
    for (size_t at = 0; at < value.size(); at += piece) made->append(std::string_view(value).substr(at, piece));
    return made;
}

void arrives(size_t size, bool leases) {
    for (const size_t piece : {size_t(1), size_t(7), size_t(8), size_t(1461), size}) {
        Cache cache(4, leases);
        const std::string value = sent(size, uint32_t(piece)), key(1 + piece % 13, 'k');
        auto made = upload(cache, key, value, piece);
        expect(made != nullptr && made->missing() == 0 && made->value() == value, "the value is there as it was sent");
        Lent lent;
        expect(!cache.get(key, lent), "and no get finds it");
        expect(cache.node.stats(cache.now).bytes_arriving >= size, "it is counted");
        look(cache, "an upload");
        expect(cache.set(key, made->value(), Mode::set, made.get()) == Status::stored, "it is stored");
        made.reset();
        expect(cache.get(key, lent) && (lent.bytes ? lent.copy : cache.got) == value, "and found");
        fabric::Found found;
        std::string read;
        const protocol::Key named = cache.node.key(key);
        const auto sink = [&](const fabric::ReadMeta& meta) {
            read.resize(meta.value_len);
            return read.data();
        };
        const auto outcome =
            fabric::local_read(cache.node.view(), key, named.hash, cache.now, false, sink, found, fabric::no_steps);
        expect(outcome == fabric::Outcome::hit && read == value, "without the lock, too");
        expect(cache.node.stats(cache.now).bytes_arriving == 0, "nothing arrives any more");
        look(cache, "an upload that was stored");
    }
}

void conditions() {
    Cache cache;
    const std::string value = sent(page_item, 1);
    Lent lent;
    auto made = upload(cache, "k", value, 4096);
    expect(cache.set("k", made->value(), Mode::replace, made.get()) == Status::not_stored, "a replace without an item is refused");
    made = upload(cache, "k", value, 4096);
    expect(cache.set("k", made->value(), Mode::add, made.get()) == Status::stored, "an add is stored");
    made = upload(cache, "k", value, 4096);
    expect(cache.set("k", made->value(), Mode::add, made.get()) == Status::not_stored, "a second one is not");
    expect(cache.set("k", made->value(), Mode::append, made.get()) == Status::stored, "an append is stored");
    made.reset();
    expect(cache.get("k", lent) && lent.bytes.bytes() == value + value, "as both values");
    made = cache.node.begin_upload(cache.node.key("half"), page_item, cache.now);
    made->append(std::string_view(value).substr(0, 100));
    made.reset();
    expect(cache.node.stats(cache.now).bytes_arriving == 0, "an abandoned upload leaves nothing");
    look(cache, "conditions");
}

void uploads_are_bounded() {
    Cache cache(8);
    std::vector<std::unique_ptr<node::Upload>> made;
    for (int i = 0; i < 100; i++)
        if (auto one = cache.node.begin_upload(cache.node.key("k" + std::to_string(i)), page_item, cache.now))
            made.push_back(std::move(one));
    expect(made.size() > 20 && made.size() <= 50, "a quarter of the memory: " + std::to_string(made.size()));
    expect(cache.set("k", std::string(run_item, 'k')) == Status::stored, "a set finds room all the same");
    made.clear();
    expect(cache.node.begin_upload(cache.node.key("k"), page_item, cache.now) != nullptr, "and then there is room again");
    expect(cache.node.begin_upload(cache.node.key("k"), 2 << 20, cache.now) == nullptr, "what is too large is refused");
}

// An upload above the share is refused before it evicts anything, and does not count as a shortage of memory: leases go
// on.
void refused_uploads_cost_nothing() {
    Cache cache(8, /* leases= */ true);
    cache.churn(page_item, 300);
    std::vector<std::unique_ptr<node::Upload>> made;
    const auto begin = [&](size_t size) {
        made.push_back(cache.node.begin_upload(cache.node.key("u" + std::to_string(made.size())), size, cache.now));
        return made.back() != nullptr;
    };
    for (int i = 0; i < 15; i++) expect(begin(70'000), "two pages of 32");
    expect(begin(30'000), "a part of the last but one");
    const uint64_t before = cache.items();
    expect(!begin(70'000), "two pages more are refused");
    expect(cache.items() == before, "nothing was evicted for them: " + std::to_string(before - cache.items()));
    expect(!cache.node.stats(cache.now).leases.stopped, "and leases are granted");
    expect(begin(60'000) && !begin(30'000), "one page is left");
    made.clear();
    expect(cache.node.stats(cache.now).bytes_arriving == 0, "all is given back");
    look(cache, "refused uploads");
}

// ---- all at once ------------------------------------------------------------------------------------

// Any operation in any order: every borrowed value keeps its bytes, and every hit returns the last stored value.
void at_random(bool leases, uint32_t seed) {
    Cache cache(8, leases);
    std::mt19937 random(seed);
    const auto any = [&](uint32_t n) { return uint32_t(random() % n); };
    std::map<std::string, std::string> stored;
    std::vector<Lent> lent;
    std::vector<std::pair<std::string, std::unique_ptr<node::Upload>>> arriving;
    for (uint32_t i = 0; i < 6000; i++) {
        const std::string key = "key" + std::to_string(any(30));
        const size_t size = any(4) == 0 ? any(400'000) : any(60'000);
        const uint32_t what = any(20);
        if (what < 5) {
            const std::string value = sent(size, i);
            if (cache.set(key, value) == Status::stored) stored[key] = value;
        } else if (what < 8) {
            const std::string value = sent(size + 1, i);
            if (auto made = upload(cache, key, value, 1 + any(100'000))) arriving.emplace_back(key, std::move(made));
        } else if (what < 11 && !arriving.empty()) {
            auto [of, made] = std::move(arriving.back());
            arriving.pop_back();
            const std::string value(made->value());
            if (any(4) != 0 && cache.set(of, made->value(), Mode::set, made.get()) == Status::stored) stored[of] = value;
        } else if (what < 16) {
            Lent& one = lent.emplace_back();
            const bool hit = cache.get(key, one);
            expect(!hit || stored[key] == (one.bytes ? one.copy : cache.got), "a hit is what was stored");
        } else if (what == 16) {
            cache.remove(key);
            stored.erase(key);
        } else if (what == 17 && any(40) == 0) {
            cache.node.flush_all(cache.now);
            stored.clear();
        } else if (what == 18) {
            cache.now += any(3);
        } else if (what == 19 && any(100) == 0) {
            cache.node.set_memory_limit(uint64_t(6 + any(3)) << 20, cache.now);
        }
        while (lent.size() > 20) lent.erase(lent.begin() + any(uint32_t(lent.size())));
        for (const Lent& one : lent) expect(one.same(), "what is lent stays");
        if (i % 200 == 0) look(cache, "at random");
    }
    lent.clear();
    arriving.clear();
    const node::Stats stats = cache.node.stats(cache.now);
    expect(stats.bytes_lent == 0 && stats.bytes_arriving == 0, "all is given back");
    look(cache, "at random, at the end");
}

}  // namespace

int main() {
    for (const size_t size : {page_item, run_item})
        for (const bool leases : {false, true}) bytes_stay(size, leases);
    numbers();
    if (broken::must_catch()) {
        tap::ok(violations > 0, "the rule that was broken on purpose is caught");
        return tap::done();
    }
    small_values_are_copied();
    bounded();
    pins_keep_pages();
    held_windows_are_spared();
    for (const size_t size : {size_t(1), size_t(20'000), run_item})
        for (const bool leases : {false, true}) arrives(size, leases);
    conditions();
    uploads_are_bounded();
    refused_uploads_cost_nothing();
    for (uint32_t seed = 1; seed <= 4; seed++) at_random(seed % 2 == 0, seed);
    tap::is(violations, 0, "no violation of a safety rule");
    return tap::done();
}
