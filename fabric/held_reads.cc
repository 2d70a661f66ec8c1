// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/held_reads.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "fabric/region.h"
#include "protocol/words.h"

namespace farcached::fabric {

namespace {

constexpr size_t held_reads_max = 64;
constexpr uint32_t line_bytes = 64;  // a cache, a bus and a network card move it at once
constexpr uint32_t word_bytes = 8;   // never torn

size_t landing_bytes(const ReadRequest& request) { return (size_t(request.ptr.length) + 7) / 8 * 8; }

}  // namespace

// ---- one read ---------------------------------------------------------------------------------------

bool HeldRead::begin(const RegionView& view, bool torn, std::mt19937_64& numbers) {
    CHECK(inside(request.ptr, view.region_bytes));
    arrived = true;
    if (words::load_relaxed(&view.header->incarnation) != request.ptr.incarnation) {
        status = ReadStatus::failed;
        return false;
    }
    const uint64_t first = request.ptr.offset / unit_bytes;
    const uint64_t last = (request.ptr.offset + landing_bytes(request) - 1) / unit_bytes;
    std::vector<uint32_t> now(size_t(last - first + 1));
    std::iota(now.begin(), now.end(), 0U);
    std::shuffle(now.begin(), now.end(), numbers);
    const size_t later = torn ? numbers() % (now.size() + 1) : 0;
    units.assign(now.end() - long(later), now.end());
    now.resize(now.size() - later);
    copy(view, now);
    return true;
}

ReadStatus HeldRead::complete(const Channel& inner) const {
    ReadStatus ended = status;
    if (!units.empty()) copy(*inner.mapped_region(request.ptr.region), units);
    if (ended == ReadStatus::done && !inner.owner_alive()) ended = ReadStatus::owner_dead;
    if (ended != ReadStatus::done) std::memset(request.landing, 0xa5, landing_bytes(request));
    return ended;
}

void HeldRead::copy(const RegionView& view, const std::vector<uint32_t>& which) const {
    const uint64_t begin = request.ptr.offset, end = begin + landing_bytes(request);
    const uint64_t first = begin / unit_bytes * unit_bytes;
    for (uint32_t unit : which) {
        const uint64_t from = first + uint64_t(unit) * unit_bytes;
        const uint64_t stop = std::min(from + unit_bytes, end);
        for (uint64_t at = std::max(from, begin); at < stop; at += word_bytes)
            request.landing[(at - begin) / word_bytes] =
                words::load_relaxed(reinterpret_cast<const uint64_t*>(view.base + at));
    }
}

// ---- all --------------------------------------------------------------------------------------------

bool HeldReads::full() const { return reads_.size() == held_reads_max; }

bool HeldReads::post(const ReadRequest& request, Channel& inner) {
    HeldRead read;
    read.request = request;
    const bool by_lines = dice_.chance(plan_.tear_read);
    const bool by_words = dice_.chance(plan_.tear_words);
    read.unit_bytes = by_words ? word_bytes : line_bytes;
    const bool unlucky = dice_.chance(plan_.fail_read);
    const bool fails = ++posted_ == plan_.fail_read_number || unlucky;
    read.due_ns = dice_.delay(plan_.delay_read);
    const bool behind = dice_.chance(plan_.shuffle_read);
    const uint64_t rank = dice_.numbers()();
    read.rank = behind ? rank : 0;
    if (fails) read.status = ReadStatus::failed;
    if (const RegionView* view = inner.mapped_region(request.ptr.region)) {
        const bool torn = by_lines || by_words;
        const bool begun = read.begin(*view, torn, dice_.numbers());
        if (begun && torn && plan_.between) plan_.between();
    } else if (!inner.post_read(request)) {
        return false;
    }
    reads_.push_back(std::move(read));
    return true;
}

bool HeldReads::arrive(uint64_t token, ReadStatus status) {
    for (HeldRead& read : reads_) {
        if (read.request.token != token || read.arrived) continue;
        read.arrived = true;
        if (read.status == ReadStatus::done) read.status = status;
        return true;
    }
    return false;
}

std::optional<HeldRead> HeldReads::take_due(uint64_t now_ns) {
    auto first = reads_.end();
    for (auto read = reads_.begin(); read != reads_.end(); ++read)
        if (read->arrived && read->due_ns <= now_ns &&
            (first == reads_.end() || std::pair(read->due_ns, read->rank) < std::pair(first->due_ns, first->rank)))
            first = read;
    if (first == reads_.end()) return std::nullopt;
    std::optional<HeldRead> taken = std::move(*first);
    reads_.erase(first);
    return taken;
}

uint64_t HeldReads::due_ns() const {
    uint64_t due = UINT64_MAX;
    for (const HeldRead& read : reads_)
        if (read.arrived) due = std::min(due, read.due_ns);
    return due;
}

}  // namespace farcached::fabric
