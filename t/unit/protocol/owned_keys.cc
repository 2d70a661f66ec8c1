// SPDX-License-Identifier: BSD-3-Clause
// The text of KeptKeys: it is read as it was written, and what is damaged is refused. Which keys these are is in
// t/unit/proxy/placement.
#include <string>

#include "protocol/owned_keys.h"
#include "t/lib/tap.h"

using namespace farcached;
using namespace farcached::protocol;

namespace {

constexpr size_t record_bytes = 16;

KeptKeys some() {
    OwnedKeys ring;
    ring.place = {KeyHash::md5, '{', '}'};
    ring.arcs = {{0, 10}, {20, 20}, {21, UINT32_MAX}};
    OwnedKeys third;
    third.modulus = 3;
    third.remainder = 2;
    return {{ring, third}};
}

void whole_and_damaged() {
    const KeptKeys kept = some();
    const std::string text = kept_text(kept);
    const auto read = parse_kept(text);
    tap::ok(read.has_value() && *read == kept, "a text is read as it was written");
    bool any = false;
    for (size_t bytes = 0; bytes < text.size(); bytes++)
        any |= bytes != record_bytes + 24 && parse_kept(text.substr(0, bytes)).has_value();
    tap::ok(!any, "a part of it is not");
    tap::ok(!parse_kept(text + text).has_value(), "nor are too many lists");
    const auto with = [&](size_t at, char byte) {
        std::string damaged = text;
        damaged[at] = byte;
        return parse_kept(damaged).has_value();
    };
    tap::ok(!with(0, 0) && !with(0, char(key_hash_names.size())), "nor an unknown function");
    tap::ok(!with(1, 0) && !with(3, 2), "nor half a tag, or an unknown kind of list");
    tap::ok(!with(4, 1), "nor arcs and a modulus");
    tap::ok(!with(12, char(200)), "nor more arcs than there are");
    tap::ok(!with(record_bytes + 4, 30), "nor arcs that overlap");
    tap::ok(!with(text.size() - record_bytes + 8, 3), "nor a remainder as large as its modulus");
}

void unmoved() {
    KeptKeys kept = some();
    OwnedKeys ring;
    ring.arcs = {{5, 9}, {20, 20}};
    kept.unmoved = ring;
    kept.since = 7;
    kept.last = UINT64_C(1) << 60;
    kept.next = 9;
    const std::string text = kept_text(kept);
    const auto read = parse_kept(text);
    tap::ok(read.has_value() && *read == kept, "unmoved keys are read as they were written");
    const std::string lists = kept_text(some()), more = text.substr(lists.size());
    tap::ok(!parse_kept(more).has_value(), "alone they are refused");
    tap::ok(!parse_kept(text + more).has_value(), "and twice");
    bool any = false;
    for (size_t bytes = lists.size() + 1; bytes < text.size(); bytes++) any |= parse_kept(text.substr(0, bytes)).has_value();
    tap::ok(!any, "nor is a part of them read");
    kept.unmoved->arcs.clear();
    tap::ok(parse_kept(kept_text(kept)) == kept, "no key may be unmoved");
}

// A node of before gets the text without its end.
void tails() {
    KeptKeys first = some();
    first.lists.resize(1);
    first.first = true;
    const std::string text = kept_text(first), older = text.substr(0, text.size() - kept_tail_bytes);
    tap::ok(parse_kept(text) == first, "the first list is read as it was written");
    first.first = false;
    tap::ok(parse_kept(older) == first, "and without its end, as a list");
    KeptKeys changed = some();
    changed.unmoved = changed.lists[0];
    const std::string before = kept_text(changed);
    changed.identity = UINT64_C(0x123456789a);
    tap::ok(parse_kept(kept_text(changed)) == changed, "so is an identity");
    tap::is(kept_text(changed).substr(0, before.size()), before, "which is at the end");
    const std::string end = text.substr(older.size());
    tap::ok(!parse_kept(end).has_value() && !parse_kept(text + end).has_value(), "an end is refused alone, and twice");
    tap::ok(!parse_kept(kept_text(some()) + end).has_value(), "and behind two lists: a proxy that starts knows one");
    tap::ok(!parse_kept(text.substr(0, text.size() - 1)).has_value(), "and a part of one");
    const auto with = [&](size_t at, char byte) {
        std::string damaged = text;
        damaged[older.size() + at] = byte;
        return parse_kept(damaged).has_value();
    };
    tap::ok(!with(0, 1) && !with(2, 1) && !with(3, 3), "another kind of end");
    tap::ok(!with(4, 0) && !with(4, 2), "one that tells nothing, or too much");
    tap::ok(!with(8, 1), "and an identity without `unmoved`");
}

void keeps() {
    KeptKeys kept;
    tap::ok(kept.keeps("k"), "without a list all is kept");
    OwnedKeys even, all;
    even.modulus = 2;
    all.modulus = 1;
    kept.lists = {all, even};
    const bool is_even = even.place.of("k") % 2 == 0;
    tap::is(kept.keeps("k"), is_even, "a key is kept if each list has it");
    OwnedKeys none;
    tap::ok(!none.owns("k"), "no arc has no key");
    none.arcs = {{0, UINT32_MAX}};
    tap::ok(none.owns("k") && none.owns(""), "the whole ring has all");
}

void by_both() {
    OwnedKeys one, other;
    one.arcs = {{0, 10}, {20, 30}, {40, 50}, {60, UINT32_MAX}};
    other.arcs = {{5, 25}, {30, 30}, {31, 45}, {70, 80}, {90, UINT32_MAX}};
    const auto both = kept_by_both({{one}}, {{other}});
    const std::vector<OwnedKeys::Arc> want = {{5, 10}, {20, 25}, {30, 30}, {40, 45}, {70, 80}, {90, UINT32_MAX}};
    tap::ok(both.has_value() && both->lists.size() == 1 && both->lists[0].arcs == want, "two rings: the common parts");
    tap::ok(kept_by_both({{one, other}}, {{one}}) == both, "two lists are one with the others");
    tap::ok(kept_by_both({{one}}, {{OwnedKeys()}})->lists[0].arcs.empty(), "nothing with none");
    OwnedKeys even, third = some().lists[1], md5 = some().lists[0];
    even.modulus = 2;
    tap::ok(kept_by_both({{even}}, {{even}}) == KeptKeys{{even}}, "equal ones are one");
    tap::ok(!kept_by_both({{even}}, {{third}}).has_value(), "two moduli are not");
    tap::ok(!kept_by_both({{even, third}}, {{one}}).has_value(), "nor are remainders and a ring");
    tap::ok(!kept_by_both({{md5}}, {{one}}).has_value(), "nor are rings of two hashes");
    md5.arcs.clear();
    const KeptKeys none = {{OwnedKeys()}};
    tap::ok(kept_by_both({{even, third}}, {{md5}}) == none && kept_by_both({{md5, one}}, {{even}}) == none, "none with all: none");
}

void after_two_changes() {
    OwnedKeys one, other, third, all;
    one.arcs = {{0, 10}, {20, 30}};
    other.arcs = {{5, 25}};
    third.arcs = {{8, 22}, {100, 200}};
    all.modulus = 1;
    const std::vector<OwnedKeys::Arc> common = {{8, 10}, {20, 22}};
    const auto after = kept_after({{one, other}}, {{other, third}});
    tap::ok(after.has_value() && after->lists.size() == 2 && after->lists[1] == third,
            "after two changes a node has the last list,");
    tap::ok(kept_by_both(*after, *after)->lists[0].arcs == common, "and keeps what all three give it");
    tap::ok(kept_after({{all, one}}, {{one, all}}) == KeptKeys{{one, all}}, "also if it was the only node before, and is again");
    tap::ok(kept_after({{all, all}}, {{all, all}}) == KeptKeys{{all, all}}, "all, if it always was");
    tap::ok(kept_after({{OwnedKeys(), one}}, {{one, one}})->lists[0].none(), "nothing, if it was in no list");
    KeptKeys copies{{one}, one, 10, 20, 30}, next{{other}, third, 40, 50, 60};
    copies.identity = 1, next.identity = 2;
    const auto both = kept_after(copies, next);
    tap::ok(both.has_value() && both->lists == std::vector<OwnedKeys>{kept_by_both({{one}}, {{other}})->lists[0]},
            "with copies it keeps what both changes keep");
    tap::ok(both->unmoved == third && both->since == 40 && both->last == 50 && both->next == 60 && both->identity == 2,
            "and knows the last list");
    KeptKeys stays = next;
    stays.lists.push_back(third);
    tap::is(kept_after(copies, stays)->lists.size(), size_t(1), "if the first change took keys from it, one list remains");
    tap::is(kept_after(stays, stays)->lists.size(), size_t(2), "both remain if none did");
    tap::ok(!kept_after(copies, {{one, other}}).has_value() && !kept_after({{one, other}}, copies).has_value(),
            "not of one change with copies and one without");
    KeptKeys begun{{one}};
    begun.first = true;
    tap::ok(!kept_after(begun, {{one, other}}).has_value() && !kept_after({{one, other}}, begun).has_value(),
            "nor of a first list");
    OwnedKeys even, triple = some().lists[1];
    even.modulus = 2;
    tap::ok(!kept_after({{even, triple}}, {{triple, even}}).has_value(), "nor of two moduli");
}

}  // namespace

int main() {
    after_two_changes();
    whole_and_damaged();
    unmoved();
    tails();
    keeps();
    by_both();
    return tap::done();
}
