// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/report_board.h"

#include <algorithm>

#include "base/check.h"
#include "fabric/remote_ptr.h"
#include "protocol/layout.h"
#include "protocol/words.h"

namespace farcached::proxy {

namespace {

using protocol::ItemAccess;

constexpr uint32_t races_max = 4;  // after that many races the call returns without effect

bool exchange(uint64_t* word, uint64_t expected, uint64_t wanted) {
    return __atomic_compare_exchange_n(word, &expected, wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

CellItem pack(const ItemAccess& item) { return {item.hash, uint64_t(item.region) << 48 | item.offset}; }

ItemAccess unpack(const CellItem& item, uint64_t meter) {
    return {item[cell_key_hash], item[cell_place] & fabric::remote_offset_max, meter_count(meter),
            uint16_t(item[cell_place] >> 48), meter_generation(meter)};
}

CellItem load_item(const uint64_t* cell) {
    CellItem item;
    for (uint32_t n = 0; n < cell_item_words; n++) item[n] = words::load_relaxed(cell + n);
    return item;
}

uint64_t leader_word(BoardMember who, uint64_t until_ns) {
    const uint64_t until = std::min(until_ns >> leader_until_shift, leader_until_max);
    return uint64_t(who.filler) << 48 | uint64_t(who.link) << 36 | until;
}

BoardMember holder_of(uint64_t leader) {
    return {uint16_t(leader >> 48), uint16_t(leader >> 36 & leader_links_max)};
}

}  // namespace

// ---- counts -----------------------------------------------------------------------------------------

// The item's own cell, or an empty one. The search starts at a place that depends on the item, so that two searches
// rarely meet. nullptr: the set is full.
uint64_t* ReportBoard::find(const CellItem& item, uint32_t tag) const {
    const uint64_t first = item[cell_key_hash] % (count_ / board_set_ways) * board_set_ways;
    uint64_t* room = nullptr;
    for (uint32_t n = 0; n < board_set_ways; n++) {
        uint64_t* at = cell(first + (n + tag) % board_set_ways);
        const uint64_t meter = words::load_acquire(at + cell_meter);
        if (meter_tag(meter) == tag && load_item(at) == item) return at;
        if (meter_count(meter) == 0 && room == nullptr) room = at;
    }
    return room;
}

ReportBoard::Put ReportBoard::put(const ItemAccess& item) {
    return put(item, [](uint32_t) {});
}

ReportBoard::Put ReportBoard::put(const ItemAccess& record, Steps steps) {
    CHECK(record.count != 0);
    CHECK(protocol::has_record(record.offset, record.region));
    const CellItem item = pack(record);
    const uint32_t tag = cell_tag(item, incarnation_, seed_);
    for (uint32_t attempt = 0; attempt < races_max; attempt++) {
        uint64_t* at = find(item, tag);
        if (at == nullptr) return {};
        const uint64_t meter = words::load_acquire(at + cell_meter);
        const bool own = meter_tag(meter) == tag && load_item(at) == item;
        const uint32_t before = meter_count(meter);
        if (!own && before != 0) continue;  // another process took it
        for (uint32_t n = 0; !own && n < cell_item_words; n++) {
            steps(n);
            words::store_relaxed(at + n, item[n]);
        }
        const uint16_t known = meter_generation(meter);
        const bool later = before == 0 || protocol::later_tag(record.generation_tag, known);
        const uint32_t more = std::min(record.count, meter_count_max - before);
        const uint64_t wanted = make_meter(tag, later ? record.generation_tag : known, before + more);
        steps(cell_meter);
        if (exchange(at + cell_meter, meter, wanted)) return {more, before != 0};
    }
    return {};
}

// Takes the cell's count; `item` gets its words as they were at that count. False: the count is 0, or changes
// constantly.
bool ReportBoard::take_from(uint64_t* at, CellItem& item, uint64_t& meter) const {
    for (uint32_t attempt = 0; attempt < races_max; attempt++) {
        meter = words::load_acquire(at + cell_meter);
        if (meter_count(meter) == 0) return false;
        item = load_item(at);
        if (exchange(at + cell_meter, meter, make_meter(meter_tag(meter), meter_generation(meter), 0))) return true;
    }
    return false;
}

ReportBoard::Taken ReportBoard::take(uint32_t items_max, uint32_t& cursor,
                                     FunctionRef<void(const ItemAccess&)> visit) {
    Taken taken;
    const uint64_t puts = __atomic_load_n(&header_->puts, __ATOMIC_ACQUIRE);
    const uint64_t first = cursor;
    for (uint64_t n = 0; n < count_; n++) {
        const uint64_t number = (first + n) % count_;
        cursor = uint32_t(number);
        if (taken.items == items_max) return taken;
        CellItem item;
        uint64_t meter;
        if (!take_from(cell(number), item, meter)) continue;
        const ItemAccess record = unpack(item, meter);
        const bool known = meter_tag(meter) == cell_tag(item, incarnation_, seed_);
        if (known && protocol::has_record(record.offset, record.region)) {
            visit(record);
            taken.items++;
        } else {
            taken.lost += record.count;
        }
    }
    words::store_relaxed(&header_->drained, puts);
    return taken;
}

uint64_t ReportBoard::announce() { return __atomic_add_fetch(&header_->puts, 1, __ATOMIC_ACQ_REL); }

bool ReportBoard::waiting(uint64_t number) const {
    return waiting() && int64_t(number - words::load_relaxed(&header_->drained)) > 0;
}

bool ReportBoard::waiting() const {
    return words::load_relaxed(&header_->puts) != words::load_relaxed(&header_->drained);
}

// ---- the reporter ------------------------------------------------------------------------------------

ReportBoard::Leadership ReportBoard::seek(BoardMember me, uint64_t now_ns, uint64_t until_ns,
                                          FunctionRef<bool(uint16_t)> alive) {
    CHECK(me.filler != 0);
    CHECK(me.link != 0);
    CHECK(me.link <= leader_links_max);
    const uint64_t leader = words::load_relaxed(&header_->leader);
    const BoardMember holder = holder_of(leader);
    Leadership by = Leadership::held;
    if (leader == 0) {
        by = Leadership::elected;
    } else if (holder != me) {
        const uint64_t until = leader & leader_until_max;
        const bool late = until <= now_ns >> leader_until_shift;
        const bool nonsense = until > (now_ns + leader_term_ns_max) >> leader_until_shift;
        if (!late && !nonsense && alive(holder.filler)) return Leadership::others;
        by = Leadership::taken_over;
    }
    return exchange(&header_->leader, leader, leader_word(me, until_ns)) ? by : Leadership::others;
}

void ReportBoard::resign(BoardMember me) {
    const uint64_t leader = words::load_relaxed(&header_->leader);
    if (leader != 0 && holder_of(leader) == me) exchange(&header_->leader, leader, 0);
}

// ---- all boards -------------------------------------------------------------------------------------

ReportBoards::ReportBoards(void* memory, uint64_t entries, uint64_t seed)
    : headers_(static_cast<BoardHeader*>(memory)),
      cells_(reinterpret_cast<uint64_t*>(headers_ + boards_max)),
      cells_each_(board_cells(entries)),
      seed_(seed) {}

ReportBoard ReportBoards::board(uint32_t number, uint64_t incarnation) const {
    return {header(number), cells_ + number * cells_each_ * cell_words, cells_each_, incarnation, seed_};
}

bool ReportBoards::idle(const BoardHeader& header, uint64_t now_ns) const {
    const uint64_t used_ns = words::load_relaxed(&header.used_ns);
    return used_ns + idle_ns <= now_ns || used_ns > now_ns + idle_ns;
}

// All processes search in the same order, so that two that add a node at once take the same board. If they take two,
// the first is used from then on, and accesses on the other are lost when another node takes it.
std::optional<ReportBoard> ReportBoards::of(uint64_t incarnation, uint64_t now_ns) {
    if (incarnation == 0) return std::nullopt;
    const auto in_order = [&](uint32_t n) { return uint32_t((incarnation + n) % boards_max); };
    for (uint32_t attempt = 0; attempt < races_max; attempt++) {
        std::optional<uint32_t> room;
        for (uint32_t n = 0; n < boards_max; n++) {
            BoardHeader& at = header(in_order(n));
            const uint64_t whose = words::load_relaxed(&at.incarnation);
            if (whose == incarnation) {
                words::store_relaxed(&at.used_ns, now_ns);
                return board(in_order(n), incarnation);
            }
            if (!room.has_value() && (whose == 0 || idle(at, now_ns))) room = in_order(n);
        }
        if (!room.has_value()) return std::nullopt;
        BoardHeader& at = header(*room);
        const uint64_t whose = words::load_relaxed(&at.incarnation);
        if (whose != 0 && !idle(at, now_ns)) continue;
        words::store_relaxed(&at.used_ns, now_ns);
        if (!exchange(&at.incarnation, whose, incarnation)) continue;
        words::store_relaxed(&at.leader, 0);
        return board(*room, incarnation);
    }
    return std::nullopt;
}

}  // namespace farcached::proxy
