// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/owned_keys.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

#include "base/out_buffer.h"
#include "protocol/wire.h"

namespace farcached::protocol {

namespace {

struct ListRecord {
    enum class Kind : uint8_t { list, unmoved, tail };

    uint8_t hash;  // KeyHash
    char tag_open, tag_close;
    Kind kind;
    uint32_t modulus, remainder, arcs;  // as in OwnedKeys
};
static_assert(sizeof(ListRecord) == 16);

struct TailRecord {
    uint8_t reserved[3];
    ListRecord::Kind kind;
    uint32_t first;     // 0 or 1
    uint64_t identity;  // as in KeptKeys
};
static_assert(sizeof(TailRecord) == kept_tail_bytes && kept_tail_bytes == sizeof(ListRecord));
static_assert(offsetof(TailRecord, kind) == offsetof(ListRecord, kind));

bool is_plausible(const ListRecord& record) {
    if (record.hash == 0 || record.hash >= key_hash_names.size() || record.kind > ListRecord::Kind::unmoved) return false;
    if ((record.tag_open == 0) != (record.tag_close == 0)) return false;
    if (record.modulus == 0) return record.remainder == 0;
    return record.remainder < record.modulus && record.arcs == 0;
}

bool take_tail(const ListRecord& record, KeptKeys& kept) {
    const auto tail = std::bit_cast<TailRecord>(record);
    kept.first = tail.first != 0;
    kept.identity = tail.identity;
    const bool is_whole = tail.first <= 1 && (kept.first || kept.identity != 0) && kept.unmoved.has_value() == (kept.identity != 0);
    return is_whole && std::ranges::all_of(tail.reserved, [](uint8_t byte) { return byte == 0; });
}

struct EpochsRecord {
    uint64_t since, last, next;  // as in KeptKeys; behind the ListRecord of `unmoved`
};

// Behind its record.
bool take_arcs(wire::Cursor& at, const ListRecord& record, OwnedKeys& keys) {
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

bool take_unmoved(wire::Cursor& at, const ListRecord& record, KeptKeys& kept) {
    EpochsRecord epochs;
    if (kept.unmoved.has_value() || !at.take(epochs)) return false;
    kept.since = epochs.since;
    kept.last = epochs.last;
    kept.next = epochs.next;
    return take_arcs(at, record, kept.unmoved.emplace());
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
    if (unmoved.has_value()) return lists.front().owns(key);
    return std::ranges::all_of(lists, [key](const OwnedKeys& list) { return list.owns(key); });
}

bool KeptKeys::keeps_all() const { return std::ranges::all_of(lists, &OwnedKeys::all); }

std::optional<KeptKeys> kept_by_both(const KeptKeys& one, const KeptKeys& other) {
    KeptKeys both;
    for (const KeptKeys* const part : {&one, &other}) {
        for (const OwnedKeys& list : part->lists) {
            if (list.none()) return KeptKeys{{OwnedKeys()}};  // then the node keeps no key
            if (list.all()) continue;
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
    if (both.lists.empty()) both.lists.push_back(one.lists.at(0));
    return both;
}

std::optional<KeptKeys> kept_after(const KeptKeys& former, const KeptKeys& next) {
    if (former.first || next.first || former.unmoved.has_value() != next.unmoved.has_value()) return {};
    std::optional<KeptKeys> kept = kept_by_both({former.lists}, {{next.lists.at(0)}});
    if (!kept.has_value() || kept->lists.size() != 1) return {};
    KeptKeys after = next;
    after.lists[0] = std::move(kept->lists[0]);
    if (after.unmoved.has_value() && former.lists.size() == 1) after.lists.resize(1);  // the node may have lost keys then
    return after;
}

std::string kept_text(const KeptKeys& kept) {
    OutBuffer out;
    const auto append = [&](const OwnedKeys& list, ListRecord::Kind kind) {
        wire::append(out, ListRecord{uint8_t(list.place.hash), list.place.tag_open, list.place.tag_close, kind, list.modulus,
                                     list.remainder, uint32_t(list.arcs.size())});
        if (kind == ListRecord::Kind::unmoved) wire::append(out, EpochsRecord{kept.since, kept.last, kept.next});
        for (const OwnedKeys::Arc& arc : list.arcs) wire::append(out, arc);
    };
    for (const OwnedKeys& list : kept.lists) append(list, ListRecord::Kind::list);
    if (kept.unmoved.has_value()) append(*kept.unmoved, ListRecord::Kind::unmoved);
    if (kept.first || kept.identity != 0) wire::append(out, TailRecord{{}, ListRecord::Kind::tail, kept.first, kept.identity});
    return std::string(out.own());
}

std::optional<KeptKeys> parse_kept(std::string_view text) {
    KeptKeys kept;
    for (wire::Cursor at(text); at.left() != 0;) {
        ListRecord record;
        if (!at.take(record)) return {};
        if (record.kind == ListRecord::Kind::tail) {
            if (at.left() != 0 || !take_tail(record, kept)) return {};
            break;
        }
        if (!is_plausible(record)) return {};
        const bool is_list = record.kind == ListRecord::Kind::list;
        if (is_list && (kept.lists.size() == KeptKeys::lists_max || kept.unmoved.has_value())) return {};
        if (!(is_list ? take_arcs(at, record, kept.lists.emplace_back()) : take_unmoved(at, record, kept))) return {};
    }
    if (kept.lists.empty() || (kept.first && kept.lists.size() != 1)) return {};
    return kept;
}

bool can_tell(const KeptKeys& kept) {
    if (!hashkit_error().empty()) return false;
    const auto has = [](const OwnedKeys& keys) { return has_hash(keys.place.hash); };
    return std::ranges::all_of(kept.lists, has) && (!kept.unmoved.has_value() || has(*kept.unmoved));
}

}  // namespace farcached::protocol
