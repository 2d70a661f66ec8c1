// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/onesided_gets.h"

#include <algorithm>
#include <bit>
#include <new>
#include <string_view>
#include <variant>

#include "base/broken.h"
#include "base/check.h"

namespace farcached::proxy {

namespace {

uint64_t us_since_asked(const AskOptions& options, uint64_t now_ns) {
    const uint64_t asked_ns = options.deadline_ns - std::min(options.patience_ns, options.deadline_ns);
    return now_ns > asked_ns ? (now_ns - asked_ns + 500) / 1000 : 0;
}

// Counts and reports why a read failed.
void count_failure(const GetParts& parts, const Read& read, Counter& counter, std::string_view why) {
    counter.add(1);
    parts.events.read_failed(read.op.key.bytes, std::holds_alternative<fabric::IndexProbe>(read.way), why);
}

void count_failed_transport(const GetParts& parts, const Read& read) {
    count_failure(parts, read, parts.counters.read_failed, "transport");
}

void count_failed(const GetParts& parts, const Read& read, fabric::Outcome outcome) {
    using fabric::Outcome;
    LinkCounters& counters = parts.counters;
    switch (outcome) {
        case Outcome::generation: return count_failure(parts, read, counters.read_invalid_generation, "generation");
        case Outcome::guard_dead: return count_failure(parts, read, counters.read_invalid_dead, "dead");
        case Outcome::grown: return count_failure(parts, read, counters.read_invalid_grown, "grown");
        case Outcome::key: return count_failure(parts, read, counters.read_invalid_key, "key");
        case Outcome::bounds: return count_failure(parts, read, counters.read_invalid_length, "length");
        case Outcome::check: return count_failure(parts, read, counters.read_invalid_crc, "crc");
        case Outcome::lease: return count_failure(parts, read, counters.read_invalid_lease, "lease");
        case Outcome::expired: return count_failure(parts, read, counters.read_invalid_expired, "expired");
        case Outcome::flushed: return count_failure(parts, read, counters.read_invalid_flushed, "flushed");
        case Outcome::tokens: return count_failure(parts, read, counters.read_tokens, "tokens");
        case Outcome::hit:
        case Outcome::not_found:
        case Outcome::moved: break;  // impossible for a private copy
    }
    CHECK(outcome == Outcome::lease);
}

}  // namespace

void PointerGets::greeted(const protocol::Welcome& welcome) {
    CHECK(parts_.reads.live() == 0);
    spilled_.greeted(welcome);
    incarnation_ = welcome.incarnation;
    check_secret_ = welcome.check_secret;
    regions_ = welcome.regions;
}

const protocol::RegionFact* PointerGets::region(uint32_t id) const {
    auto is_it = [&](const protocol::RegionFact& fact) { return fact.id == id; };
    auto at = std::find_if(regions_.begin(), regions_.end(), is_it);
    return at == regions_.end() ? nullptr : &*at;
}

// Other processes write to the table, so its pointers are not trusted (S9, S10).
bool PointerGets::usable(const fabric::RemotePtr& ptr) const {
    if (broken::s9_trust_pointer) return true;
    if (ptr.incarnation != incarnation_) return false;
    if (!fabric::well_formed(ptr)) return false;
    const protocol::RegionFact* in = region(ptr.region);
    if (in == nullptr) return false;
    if (in->access == protocol::RegionAccess::none) return false;
    return fabric::inside(ptr, in->bytes);
}

// The largest possible item at that place: an item ends within its region.
uint64_t PointerGets::item_bytes_max(const fabric::RemotePtr& ptr) const {
    const protocol::RegionFact* in = region(ptr.region);
    return in == nullptr || in->bytes < ptr.offset ? 0 : in->bytes - ptr.offset;
}

// ---- pointers ---------------------------------------------------------------------------------------

void PointerGets::keep(const protocol::Grant& grant, const Earned& earned) {
    CHECK(earned.frame_sent_ns <= earned.received_ns);
    if (grant.incarnation != 0) return spilled_.keep(grant, earned);
    fabric::LeasedPtr leased;
    leased.ptr.incarnation = incarnation_;
    leased.ptr.offset = grant.offset;
    leased.ptr.generation = grant.generation;
    leased.ptr.region = grant.region;
    leased.ptr.length = fabric::read_length(grant.length, grant.capacity);
    const bool of_this_item = grant.length == layout::item_bytes(earned.key_len, earned.value_len);
    const protocol::RegionFact* in = region(grant.region);
    const bool fits = in != nullptr && protocol::grant_fits(grant, in->bytes);
    if (!of_this_item || !fits || !usable(leased.ptr)) {
        parts_.counters.lease_unusable.add(1);
        return;
    }
    parts_.counters.lease_granted.add(1);
    leased.valid_until_ns = lease_end(grant.term_ms, earned.frame_sent_ns, earned.received_ns);
    parts_.table->put(earned.key_hash, leased, earned.received_ns);
}

bool PointerGets::renew(const protocol::ItemAccess& item, uint32_t term_ms, uint64_t report_sent_ns,
                        uint64_t received_ns) {
    CHECK(report_sent_ns <= received_ns);
    if (parts_.table == nullptr) return false;
    return parts_.table->extend(item.hash, {incarnation_, item.offset, item.region},
                          lease_end(term_ms, report_sent_ns, received_ns), received_ns);
}

void PointerGets::forget(uint64_t key_hash) {
    if (parts_.table != nullptr) parts_.table->forget(key_hash, incarnation_);
}

void PointerGets::note_access(const Read& read, uint64_t generation) {
    const ByPointer& way = std::get<ByPointer>(read.way);
    const fabric::RemotePtr& ptr = way.leased.ptr;
    if (!read.op.no_bump && !read.counted)
        parts_.notes.note(read.op.key.hash, ptr.offset, ptr.region, generation);
    const uint64_t place = way.entry % uses_.size();
    Uses& uses = uses_[place];
    if (uses.entry != way.entry && uses.count != 0) {
        parts_.table->count_access(uses.entry, uses.count);
        uses.count = 0;
    }
    uses.entry = way.entry;
    uses.count++;
    used_ |= UINT64_C(1) << place;
}

void PointerGets::count_accesses() {
    for (; used_ != 0; used_ &= used_ - 1) {
        Uses& uses = uses_[size_t(std::countr_zero(used_))];
        parts_.table->count_access(uses.entry, uses.count);
        uses.count = 0;
    }
}

// ---- reads ------------------------------------------------------------------------------------------

bool PointerGets::begin(fabric::Channel& channel, const protocol::GetOp& op,
                        const AskOptions& options, ReplySink& sink, uint64_t now_ns) {
    const PointerTable::Lookup found = parts_.table->find(op.key.hash, incarnation_, now_ns);
    if (found.found != PointerTable::Found::hit && spilled_.begin(op, options, sink, now_ns)) return true;
    if (found.found == PointerTable::Found::miss) parts_.counters.pointer_misses.add(1);
    if (found.found == PointerTable::Found::expired) parts_.counters.pointer_expired.add(1);
    if (found.found != PointerTable::Found::hit) return false;
    parts_.counters.pointer_hits.add(1);
    if (found.shared) parts_.counters.pointer_shared_hits.add(1);
    const fabric::RemotePtr& ptr = found.leased.ptr;
    if (!usable(ptr)) {
        parts_.counters.read_invalid_length.add(1);
        parts_.table->drop(op.key.hash, ptr);
        return false;
    }
    Read* read = post(channel, op, options, sink, ptr);
    if (read == nullptr) return false;
    read->way = ByPointer{found.leased, found.entry};
    return true;
}

Read* PointerGets::post(fabric::Channel& channel, const protocol::GetOp& op, const AskOptions& options, ReplySink& sink,
                        const fabric::RemotePtr& ptr) {
    Read* read = parts_.reads.open(op, options, sink, (size_t(ptr.length) + 7) / 8 * 8);
    if (read == nullptr) return nullptr;
    try {
        if (parts_.reads.post_item(channel, *read, ptr, read->landing)) return read;
    } catch (const std::bad_alloc&) {  // before anything was posted
        parts_.reads.cancel(*read);
        throw;
    }
    parts_.reads.cancel(*read);
    return nullptr;
}

fabric::PointerCopy PointerGets::copy_of(const Read& read, const fabric::LeasedPtr& leased, uint64_t now_ns) const {
    return {read.landing, leased, now_ns, item_bytes_max(leased.ptr), parts_.clock.latest(now_ns)};
}

Read* PointerGets::begin_for_home(fabric::Channel& channel, const protocol::GetOp& op, const AskOptions& options,
                                  ReplySink& home, const ForHome& way) {
    if (!usable(way.leased.ptr)) return nullptr;
    Read* read = post(channel, op, options, home, way.leased.ptr);
    if (read != nullptr) read->way = way;
    return read;
}

// The home's link has its key, order and answer; all else of the READ is this link's.
void PointerGets::judge_for_home(Read& read, uint64_t now_ns) {
    const ForHome& way = std::get<ForHome>(read.way);
    if (read.status != fabric::ReadStatus::done) {
        count_failed_transport(parts_, read);
        return parts_.reads.leave_to_home(read);
    }
    const std::string_view key = read.op.key.bytes;
    const fabric::PointerRead judged =
        fabric::judge_spilled(copy_of(read, way.leased, now_ns), key, read.op.win_tokens, check_secret_);
    if (judged.outcome != fabric::Outcome::hit) {
        count_failed(parts_, read, judged.outcome);
        return parts_.reads.leave_to_home(read);
    }
    way.home->get_onesided.add(1);
    way.home->get_onesided_spilled.add(1);
    way.home->get_onesided_us.add(us_since_asked(read.options, now_ns));
    parts_.reads.answer(read, judged, layout::item_bytes(key.size(), judged.meta.value_len));
}

void PointerGets::judge(Read& read, uint64_t now_ns) {
    if (std::holds_alternative<ForHome>(read.way)) return judge_for_home(read, now_ns);
    const ByPointer& way = std::get<ByPointer>(read.way);
    if (read.status != fabric::ReadStatus::done) {
        count_failed_transport(parts_, read);
        parts_.reads.ask_node(read);
        return;
    }
    if (!parts_.clock.may_read(now_ns)) {  // G12
        parts_.counters.right_over.add(1);
        parts_.reads.ask_node(read);
        return;
    }
    const fabric::RemotePtr& ptr = way.leased.ptr;
    const uint64_t key_hash = read.op.key.hash;
    using fabric::Outcome;
    const fabric::PointerRead judged =
        fabric::judge_copy(copy_of(read, way.leased, now_ns), read.op.key.bytes, read.op.win_tokens, check_secret_);
    if (judged.outcome == Outcome::hit) {
        parts_.counters.get_onesided.add(1);
        parts_.counters.get_onesided_us.add(us_since_asked(read.options, now_ns));
        note_access(read, judged.generation);
        parts_.reads.answer(read, judged, layout::item_bytes(read.op.key.bytes.size(), judged.meta.value_len));
        return;
    }
    const bool stale =
        judged.outcome == Outcome::generation || judged.outcome == Outcome::guard_dead;
    if (stale) parts_.counters.pointer_stale.add(1);
    count_failed(parts_, read, judged.outcome);
    if (!fabric::keeps_pointer(judged.outcome)) parts_.table->drop(key_hash, ptr);
    if (judged.outcome == Outcome::key) parts_.notes.forget(key_hash);
    parts_.reads.ask_node(read);
}

namespace {

using fabric::IndexProbe;

constexpr uint32_t index_region = 0;  // has the header and the index

}  // namespace

void IndexGets::greeted(const protocol::Welcome& welcome) {
    CHECK(parts_.reads.live() == 0);
    check_secret_ = welcome.check_secret;
    readable_ = false;
    if (!on_) return;
    for (const protocol::RegionFact& fact : welcome.regions) {
        if (fact.id != index_region || fact.access == protocol::RegionAccess::none) continue;
        if (fact.bytes < sizeof(layout::RegionHeader)) continue;
        region_ = fabric::FarRegion(fact.bytes, welcome.incarnation, welcome.hash_seed);
        readable_ = true;
    }
}

bool IndexGets::begin(fabric::Channel& channel, const protocol::GetOp& op, const AskOptions& options,
                      ReplySink& sink) {
    IndexProbe probe;
    probe.begin(region_, op.key.hash);
    if (Read* read = parts_.reads.open(op, options, sink, probe.want_bytes())) {
        read->way = probe;
        if (post(channel, *read)) return true;
        parts_.reads.cancel(*read);
    }
    parts_.counters.index_unproven.add(1);
    return false;
}

// Posts the READs of one round. False: none was posted; if only some were, read.refused is set for judge().
bool IndexGets::post(fabric::Channel& channel, Read& read) {
    uint64_t* to = read.landing;
    bool any = false;
    const bool item = std::get<IndexProbe>(read.way).wants_item();
    for (const IndexProbe::Want& want : std::get<IndexProbe>(read.way).wants()) {
        fabric::RemotePtr piece;
        piece.incarnation = region_.incarnation;
        piece.offset = want.offset;
        piece.region = index_region;
        piece.length = want.bytes;
        CHECK(fabric::well_formed(piece));
        CHECK(fabric::inside(piece, region_.bytes));
        const bool posted = item ? parts_.reads.post_item(channel, read, piece, to)
                                 : parts_.reads.post(channel, read, piece, to);
        if (!posted) {
            read.refused = any;
            return any;
        }
        to += want.bytes / 8;
        any = true;
    }
    return true;
}

bool IndexGets::read_on(fabric::Channel* channel, Read& read) {
    if (channel == nullptr) return false;
    if (!parts_.reads.make_room(read, std::get<IndexProbe>(read.way).want_bytes())) return false;
    return post(*channel, read);
}

void IndexGets::judge(fabric::Channel* channel, Read& read, uint64_t now_ns) {
    IndexProbe& probe = std::get<IndexProbe>(read.way);
    LinkCounters& counters = parts_.counters;
    IndexProbe::Step step = IndexProbe::Step::out_of_reach;
    if (read.status != fabric::ReadStatus::done) {
        count_failed_transport(parts_, read);
    } else if (!parts_.clock.may_read(now_ns)) {
        counters.right_over.add(1);
    } else if (!read.refused) {
        const IndexProbe::Question question{read.op.key.bytes, read.op.win_tokens,
                                            parts_.clock.latest(now_ns), check_secret_};
        step = probe.fed(region_, read.landing, question);
    }
    switch (step) {
        case IndexProbe::Step::hit: answer(read); return;
        case IndexProbe::Step::read_on:
            if (read_on(channel, read)) return;
            counters.index_unproven.add(1);
            break;
        case IndexProbe::Step::not_found: counters.index_not_found.add(1); break;
        case IndexProbe::Step::invalid:
            count_failed(parts_, read, probe.found().outcome);
            counters.index_unproven.add(1);
            break;
        case IndexProbe::Step::out_of_reach: counters.index_unproven.add(1); break;
    }
    parts_.reads.ask_node(read);
}

void IndexGets::answer(Read& read) {
    const IndexProbe& probe = std::get<IndexProbe>(read.way);
    const fabric::PointerRead& found = probe.found();
    parts_.counters.get_index.add(1);
    if (!read.op.no_bump && !read.counted)
        parts_.notes.note(read.op.key.hash, probe.item_offset(), index_region, found.generation);
    const uint64_t item_bytes = layout::item_bytes(read.op.key.bytes.size(), found.meta.value_len);
    parts_.reads.answer(read, found, item_bytes);
}

}  // namespace farcached::proxy
