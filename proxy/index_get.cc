// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/index_get.h"

#include "base/check.h"

namespace farcached::proxy {

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
        parts_.reads.failed_transport(read);
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
            parts_.reads.failed(read, probe.found().outcome);
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
