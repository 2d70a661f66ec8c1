// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/owned_keys.h"

#include <algorithm>

#include "base/out_buffer.h"
#include "protocol/wire.h"

namespace farcached::protocol {

namespace {

struct ListRecord {
    uint8_t hash;  // KeyHash
    char tag_open, tag_close;
    uint8_t unmoved;  // 1: KeptKeys::unmoved; 0: one of the lists
    uint32_t modulus, remainder, arcs;  // as in OwnedKeys
};
static_assert(sizeof(ListRecord) == 16);

bool is_plausible(const ListRecord& record) {
    if (record.hash == 0 || record.hash >= key_hash_names.size() || record.unmoved > 1) return false;
    if ((record.tag_open == 0) != (record.tag_close == 0)) return false;
    if (record.modulus == 0) return record.remainder == 0;
    return record.remainder < record.modulus && record.arcs == 0;
}

struct EpochsRecord {
    uint64_t since, last, next;  // as in KeptKeys; behind the ListRecord of `unmoved`
};

bool take_list(wire::Cursor& at, OwnedKeys& keys, std::optional<EpochsRecord>& epochs) {
    ListRecord record;
    if (!at.take(record) || !is_plausible(record)) return false;
    if (record.unmoved != 0 && !at.take(epochs.emplace())) return false;
    if (record.arcs > at.left() / sizeof(OwnedKeys::Arc)) return false;
    keys.place = {KeyHash(record.hash), record.tag_open, record.tag_close};
    keys.modulus = record.modulus;
    keys.remainder = record.remainder;
    keys.arcs.resize(record.arcs);
    uint64_t next = 0;
    for (OwnedKeys::Arc& arc : keys.arcs) {
        if (!at.take(arc) || arc.first < next || arc.last < arc.first) return false;
        next = uint64_t(arc.last) + 1;
    }
    return true;
}

using Arcs = std::vector<OwnedKeys::Arc>;

Arcs common(const Arcs& one, const Arcs& other) {
    Arcs both;
    for (auto a = one.begin(), b = other.begin(); a != one.end() && b != other.end();) {
        const uint32_t first = std::max(a->first, b->first), last = std::min(a->last, b->last);
        if (first <= last) both.push_back({first, last});
        if (a->last < b->last)
            ++a;
        else
            ++b;
    }
    return both;
}

}  // namespace

bool OwnedKeys::owns(std::string_view key) const {
    const uint32_t spot = place.of(key);
    if (modulus != 0) return spot % modulus == remainder;
    const auto after = std::ranges::upper_bound(arcs, spot, {}, &Arc::first);
    return after != arcs.begin() && spot <= (after - 1)->last;
}

bool KeptKeys::keeps(std::string_view key) const {
    return std::ranges::all_of(lists, [key](const OwnedKeys& list) { return list.owns(key); });
}

bool KeptKeys::keeps_all() const { return std::ranges::all_of(lists, &OwnedKeys::all); }

std::optional<KeptKeys> kept_by_both(const KeptKeys& one, const KeptKeys& other) {
    KeptKeys both;
    for (const KeptKeys* const part : {&one, &other}) {
        for (const OwnedKeys& list : part->lists) {
            if (list.modulus == 0 && list.arcs.empty()) return KeptKeys{{OwnedKeys()}};  // no key, whatever the others have
            const auto same = std::ranges::find_if(both.lists, [&](const OwnedKeys& at) {
                return at == list || (at.place == list.place && at.modulus == 0 && list.modulus == 0);
            });
            if (same == both.lists.end())
                both.lists.push_back(list);
            else if (same->modulus == 0)
                same->arcs = common(same->arcs, list.arcs);
        }
    }
    if (both.lists.size() > std::max(one.lists.size(), other.lists.size())) return {};
    return both;
}

std::string kept_text(const KeptKeys& kept) {
    OutBuffer out;
    const auto append = [&](const OwnedKeys& list, bool unmoved) {
        wire::append(out, ListRecord{uint8_t(list.place.hash), list.place.tag_open, list.place.tag_close, unmoved, list.modulus,
                                     list.remainder, uint32_t(list.arcs.size())});
        if (unmoved) wire::append(out, EpochsRecord{kept.since, kept.last, kept.next});
        for (const OwnedKeys::Arc& arc : list.arcs) wire::append(out, arc);
    };
    for (const OwnedKeys& list : kept.lists) append(list, /* unmoved= */ false);
    if (kept.unmoved.has_value()) append(*kept.unmoved, /* unmoved= */ true);
    return std::string(out.own());
}

std::optional<KeptKeys> parse_kept(std::string_view text) {
    if (!hashkit_error().empty()) return {};
    KeptKeys kept;
    for (wire::Cursor at(text); at.left() != 0;) {
        OwnedKeys list;
        std::optional<EpochsRecord> epochs;
        if (!take_list(at, list, epochs) || !has_hash(list.place.hash)) return {};
        if (epochs.has_value() ? kept.unmoved.has_value() : kept.lists.size() == KeptKeys::lists_max) return {};
        if (!epochs.has_value()) {
            kept.lists.push_back(std::move(list));
            continue;
        }
        kept.unmoved = std::move(list);
        kept.since = epochs->since;
        kept.last = epochs->last;
        kept.next = epochs->next;
    }
    if (kept.lists.empty()) return {};
    return kept;
}

}  // namespace farcached::protocol
