// SPDX-License-Identifier: BSD-3-Clause
// S4, S5, S13: the result of a READ through a pointer while the slot is written in place, dies, comes back to life, and
// is left and returned to. Built again with a rule broken on purpose, the test must find a violation, and reports it by
// its one check.
//
// A READ copies words in any order (S5), so each word of the copy has some value that stood there at some time. The
// test tries every value that each word ever had, in every combination. All interleavings of the reader's words and the
// writer's stores are among them. Those of a reader that goes through the words in one direction are counted
// separately.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/broken.h"
#include "fabric/validate.h"
#include "protocol/spilled.h"
#include "t/lib/tap.h"
#include "t/unit/proxy/in_place.h"

using namespace farcached;
using fabric::Outcome;
using in_place::Item;
using in_place::Stores;
using in_place::Words;

namespace {

constexpr in_place::Place place{0x5ec7e7, 4096};
constexpr uint64_t valid_until_ns = 1000;
constexpr NodeSeconds now = 5000;
constexpr size_t slot_words = 12;
constexpr uint64_t first = 64 * 7;  // generations of one partition

int violations = 0;

void violation(const std::string& what) {
    if (violations++ < 5) std::printf("# violation: %s\n", what.c_str());
}

Item item(std::string value, uint64_t cas) { return {"a key", std::move(value), cas, /* flags= */ 9}; }
Words words_of(const Item& item, uint64_t generation) { return in_place::words_of(item, generation, place); }

// The changes of one slot, store by store, and the items that it held alive on the way.
struct History {
    std::string name;
    Words start;  // the item that the pointer was granted for; the rest of the slot is zero
    Stores stores;
    std::vector<Words> alive;  // `start`, and what came to life later
    uint32_t copy_bytes = slot_words * 8;

    History(std::string what, const Item& item) : name(std::move(what)), start(words_of(item, first)), alive{start} {}
    History& die() {
        in_place::die(stores, layout::Guard{alive.back()[0]}.generation());
        return *this;
    }
    History& live(const Item& item) {
        alive.push_back(words_of(item, first + 64 * alive.size()));
        in_place::come_to_life(stores, alive.back());
        return *this;
    }
    History& write(const Item& item) { return die().live(item); }
    // Of a larger slot, the READ covers only the used part.
    History& copies(size_t bytes) {
        copy_bytes = uint32_t(bytes);
        return *this;
    }
};

uint64_t item_bytes(const uint64_t* words) {
    layout::ItemHeader header;
    std::memcpy(&header, words, sizeof header);
    return layout::item_bytes(header.key_len, header.value_len);
}
bool expired(const Words& words) {
    layout::ItemHeader header;
    std::memcpy(&header, words.data(), sizeof header);
    return has_expired(header.exptime, now);
}

// The copy holds that item, from its first byte on.
bool is(const Words& copy, const Words& item, uint32_t copy_bytes) {
    const uint64_t bytes = item_bytes(item.data());
    return bytes <= copy_bytes && std::memcmp(copy.data(), item.data(), bytes) == 0;
}

fabric::PointerCopy copy_of(const Words& copy, uint32_t copy_bytes, uint64_t at_ns) {
    fabric::PointerCopy made;
    made.words = copy.data();
    made.leased.ptr.offset = place.offset;
    made.leased.ptr.generation = first;
    made.leased.ptr.length = copy_bytes;
    made.leased.valid_until_ns = valid_until_ns;
    made.completed_ns = at_ns;
    made.item_bytes_max = 1 << 20;
    made.latest = now;
    return made;
}
fabric::PointerRead judge(const Words& copy, uint32_t copy_bytes, std::string_view key, uint64_t at_ns = 1) {
    return fabric::judge_copy(copy_of(copy, copy_bytes, at_ns), key, /* tokens_matter= */ false, place.secret);
}

// A hit is an item that was alive, whole, and every such copy is one. The guard's word in the copy dates it: the item
// was alive at a moment of the READ. Any other result keeps the pointer, since all bytes are of the key.
class Mixtures {
  public:
    explicit Mixtures(const History& history) : history_(history), values_(slot_words) {
        Words slot(slot_words);
        std::copy(history.start.begin(), history.start.end(), slot.begin());
        for (size_t i = 0; i < slot_words; i++) values_[i].push_back({slot[i], 0});
        for (size_t step = 0; step < history.stores.size(); step++) {
            auto& values = values_[history.stores[step].word];
            const uint64_t value = history.stores[step].value;
            const bool known = std::any_of(values.begin(), values.end(), [&](const Value& v) { return v.word == value; });
            if (!known) values.push_back({value, step + 1});
            since_.push_back(history.stores[step]);
        }
    }

    void in_any_order() { choose(0); }
    void upwards() { follow(0, 0, +1); }
    void downwards() { follow(slot_words - 1, 0, -1); }

    uint64_t copies = 0, hits = 0;
    std::set<Outcome> outcomes;

  private:
    struct Value {
        uint64_t word;
        size_t since;  // after how many stores it stood there first
    };

    void choose(size_t word) {
        if (word == slot_words) return look();
        for (const Value& value : values_[word]) {
            copy_[word] = value.word;
            choose(word + 1);
        }
    }
    // One word after the other; each is read no earlier than the one before, as early as it can be.
    void follow(size_t word, size_t from, int direction) {
        if (word >= slot_words) return look();  // or below the first
        std::set<uint64_t> seen;
        for (size_t step = from; step <= since_.size(); step++) {
            if (step != from && since_[step - 1].word != word) continue;
            const uint64_t value = at(word, step);
            if (!seen.insert(value).second) continue;
            copy_[word] = value;
            follow(word + size_t(direction), step, direction);
        }
    }
    uint64_t at(size_t word, size_t step) const {
        while (step > 0 && since_[step - 1].word != word) step--;
        return step > 0 ? since_[step - 1].value : values_[word][0].word;
    }

    void look() {
        copies++;
        const fabric::PointerRead read = judge(copy_, history_.copy_bytes, "a key");
        outcomes.insert(read.outcome);
        const Words* whole = nullptr;
        for (const Words& item : history_.alive)
            if (is(copy_, item, history_.copy_bytes)) whole = &item;
        const bool good = whole != nullptr && !expired(*whole);
        if (read.outcome != Outcome::hit) {
            if (good) violation(history_.name + ": a whole item is no hit");
            if (!fabric::keeps_pointer(read.outcome)) violation(history_.name + ": the pointer is dropped");
            return;
        }
        hits++;
        if (!good) violation(history_.name + ": a hit is no item that was alive");
        const size_t value_at = sizeof(layout::ItemHeader) + 5;
        const char* bytes = reinterpret_cast<const char*>(copy_.data());
        if (read.value != std::string_view(bytes + value_at, item_bytes(copy_.data()) - value_at))
            violation(history_.name + ": a hit has another value");
    }

    const History& history_;
    std::vector<std::vector<Value>> values_;  // that each word had
    Stores since_;
    Words copy_ = Words(slot_words);
};

std::vector<History> histories() {
    const Item old = item("elf bytes..", 1), longer = item("twenty-seven bytes in value", 2), shorter = item("5byte", 3);
    const Item alike = item("same length", 4), again = item("elf bytes..", 5);
    Item touched = old, short_lived = again, token = old;
    touched.exptime = now + 100;
    short_lived.exptime = now;
    token.format = layout::format_tokens;
    const size_t old_bytes = layout::item_bytes(5, old.value.size());
    std::vector<History> all;
    all.push_back(History("a longer item", old).write(longer));
    all.push_back(History("a shorter item", longer).write(shorter));
    all.push_back(History("an item of the same length", old).write(alike));
    all.push_back(History("there and back", old).write(alike).write(again));
    all.push_back(History("one after another", old).write(longer).write(shorter).write(again));
    all.push_back(History("a touch", old).write(touched).write(old));
    all.push_back(History("a token", old).write(token));
    all.push_back(History("a delete", old).die());
    all.push_back(History("a delete and a revival", old).die().live(shorter));
    all.push_back(History("revived, deleted and revived", old).die().live(longer).die().live(alike));
    // In between the key's item is elsewhere, and its generations with it.
    History returned("outgrown and returned to", old);
    returned.die();
    returned.alive.push_back(returned.start);  // a generation passes
    returned.live(shorter).write(alike);
    all.push_back(std::move(returned));
    all.push_back(History("longer than the copy", old).write(longer).write(shorter).copies(old_bytes));
    all.push_back(History("expired at once", old).write(short_lived));
    all.push_back(History("expired, then set again", old).write(short_lived).write(alike));
    return all;
}

void mixtures() {
    uint64_t copies = 0, hits = 0, in_order = 0;
    std::set<Outcome> outcomes;
    for (const History& history : histories()) {
        Mixtures any(history), up(history), down(history);
        any.in_any_order();
        up.upwards();
        down.downwards();
        copies += any.copies;
        hits += any.hits;
        in_order += up.copies + down.copies;
        outcomes.insert(any.outcomes.begin(), any.outcomes.end());
        if (up.hits == 0 || down.hits == 0) violation(history.name + ": a reader in one direction never has a hit");
    }
    tap::note("%llu copies, %llu of them hits; %llu by readers that go in one direction", (unsigned long long)copies,
              (unsigned long long)hits, (unsigned long long)in_order);
    if (outcomes != std::set<Outcome>{Outcome::hit, Outcome::guard_dead, Outcome::check, Outcome::grown, Outcome::expired})
        violation("tears show something else than they can");
}

// ---- what no tear can show --------------------------------------------------------------------------

struct Odd {
    const char* name;
    Words copy;
    Outcome outcome;
    uint32_t copy_bytes = slot_words * 8;
};

Words padded(Words words) {
    words.resize(slot_words);
    return words;
}
template <class T>
Words with(Words words, size_t offset, T value) {
    std::memcpy(reinterpret_cast<char*>(words.data()) + offset, &value, sizeof value);
    return words;
}

void dropped() {
    using layout::ItemHeader;
    const Item ours = item("elf bytes..", 1);
    Item other_key = ours, longer_key = ours;
    other_key.key = "b key";
    longer_key.key = "a key more";
    const Words good = padded(words_of(ours, first));
    const auto dead = layout::Guard::make(first - 64, layout::GuardState::dead).word;
    const Odd odd[] = {
        {"an older generation", padded(words_of(ours, first - 64)), Outcome::generation},
        {"an older generation, dead", with(good, 0, dead), Outcome::generation},
        {"unused memory", padded({}), Outcome::generation},
        {"another key", padded(words_of(other_key, first + 64)), Outcome::key},
        {"a longer key", padded(words_of(longer_key, first + 64)), Outcome::key},
        {"another key, longer than the copy", padded(words_of(other_key, first + 64)), Outcome::key, 48},
        {"no key", with<uint16_t>(good, offsetof(ItemHeader, key_len), 0), Outcome::bounds},
        {"a key longer than any", with<uint16_t>(good, offsetof(ItemHeader, key_len), 251), Outcome::bounds},
        {"a key that is not in the copy", good, Outcome::bounds, 44},
        {"a value longer than there is room", with<uint32_t>(good, offsetof(ItemHeader, value_len), 1 << 20), Outcome::bounds},
        {"a huge value", with(good, offsetof(ItemHeader, value_len), UINT32_MAX), Outcome::bounds},
    };
    for (const Odd& one : odd) {
        const Outcome outcome = judge(one.copy, one.copy_bytes, "a key").outcome;
        if (outcome != one.outcome) violation(std::string(one.name) + " is taken for something else");
        if (fabric::keeps_pointer(outcome)) violation(std::string(one.name) + " does not drop the pointer");
    }
    const auto possible = with<uint32_t>(good, offsetof(ItemHeader, value_len), 1000);
    if (judge(possible, slot_words * 8, "a key").outcome != Outcome::grown) violation("a longer item has not grown");
}

// A copy that is complete after the lease's end never counts.
void over() {
    for (const History& history : histories())
        for (const Words& item : history.alive)
            if (judge(padded(item), slot_words * 8, "a key", valid_until_ns).outcome != Outcome::lease)
                violation("a copy that was complete when the lease was over is something");
}

// ---- an item of another node ------------------------------------------------------------------------

constexpr uint64_t home = 0x1122334455667788;

Item spilled(std::string_view key, std::string_view value, uint32_t exptime = never_expires) {
    const protocol::SpilledKey name = protocol::spilled_key(home, 3);
    Item item{std::string(protocol::view_of(name)), std::string(key) + std::string(value), 4, 9, exptime};
    item.format = layout::format_spilled;
    return item;
}

struct SpilledCase {
    const char* name;
    Words copy;
    Outcome outcome;
    uint32_t copy_bytes = slot_words * 8;
    uint64_t at_ns = 1;
};

// Every state of the slot, and what is no such item.
void of_another_node() {
    using layout::ItemHeader;
    Item plain = spilled("a key", "its value"), token = plain, other_mark = plain, other_key_len = plain;
    plain.format = layout::format_plain;
    token.format |= layout::format_tokens;
    other_mark.key[0] = 2;
    other_key_len.key.pop_back();
    const Words good = padded(words_of(spilled("a key", "its value"), first));
    const auto dead = layout::Guard::make(first, layout::GuardState::dead).word;
    const uint32_t item_bytes = uint32_t(protocol::spilled_item_bytes(5, 9));
    const SpilledCase cases[] = {
        {"the item", good, Outcome::hit},
        {"in a copy of its length", good, Outcome::hit, item_bytes},
        {"an empty value", padded(words_of(spilled("a key", ""), first)), Outcome::hit},
        {"when the lease is over", good, Outcome::lease, slot_words * 8, valid_until_ns},
        {"dead", with(good, 0, dead), Outcome::guard_dead},
        {"of a later generation", padded(words_of(spilled("a key", "its value"), first + 64)), Outcome::generation},
        {"of an earlier one", padded(words_of(spilled("a key", "its value"), first - 64)), Outcome::generation},
        {"another key's", padded(words_of(spilled("b key", "its value"), first)), Outcome::key},
        {"a part of the key", padded(words_of(spilled("a k", ""), first)), Outcome::key},
        {"not marked as spilled", padded(words_of(plain, first)), Outcome::key},
        {"of another kind of key", padded(words_of(other_mark, first)), Outcome::key},
        {"of a shorter key", padded(words_of(other_key_len, first)), Outcome::key},
        {"longer than the copy", good, Outcome::key, item_bytes - 1},
        {"expired", padded(words_of(spilled("a key", "its value", now), first)), Outcome::expired},
        {"torn", with(good, 64, ~good[8]), Outcome::check},
        {"no key", with<uint16_t>(good, offsetof(ItemHeader, key_len), 0), Outcome::bounds},
        {"a huge value", with(good, offsetof(ItemHeader, value_len), UINT32_MAX), Outcome::bounds},
    };
    for (const SpilledCase& one : cases) {
        fabric::PointerCopy copy = copy_of(one.copy, one.copy_bytes, one.at_ns);
        const fabric::PointerRead read = fabric::judge_spilled(copy, "a key", /* tokens_matter= */ false, place.secret);
        if (read.outcome != one.outcome) violation("spilled, " + std::string(one.name) + ": taken for something else");
    }
    const auto judged = [](const Words& copy, bool tokens_matter) {
        return fabric::judge_spilled(copy_of(copy, slot_words * 8, 1), "a key", tokens_matter, place.secret);
    };
    const fabric::PointerRead read = judged(good, false);
    if (read.value != "its value" || read.meta.value_len != 9 || read.meta.flags != 9)
        violation("spilled: the result is not the home's item");
    const Words with_token = padded(words_of(token, first));
    if (judged(with_token, true).outcome != Outcome::tokens || judged(with_token, false).outcome != Outcome::hit)
        violation("spilled: tokens are taken for something else");
}

}  // namespace

int main() {
    mixtures();
    dropped();
    over();
    of_another_node();
    if (broken::must_catch()) {
        tap::ok(violations > 0, "the rule that was broken on purpose is caught");
        return tap::done();
    }
    tap::is(violations, 0, "a copy is a hit if it is one item, whole, that was alive while it was made, and only then");
    return tap::done();
}
