// SPDX-License-Identifier: BSD-3-Clause
// The layout of the remote-pointer table, a shared-memory object that several processes map at once. Little-endian,
// pinned here and by t/unit/proxy/pointer_table.cc. A change of the layout increments table_version.
//
//    | header, padded to a page | entries, 64 bytes each, in sets of four | report boards (report_board.h) |
//
// An entry is eight words. Any process may load or store each word whole, in any order, at any time. The word `check`,
// a keyed hash of the six words before it, ties an entry together. Interleaved or unfinished writes leave an entry
// whose check does not match: not a pointer.
//
// Types, constants and functions without state. Any thread of any process that has mapped the table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/broken.h"
#include "base/hash.h"
#include "fabric/remote_ptr.h"
#include "protocol/words.h"
#include "proxy/report_board.h"

namespace farcached::proxy {

constexpr uint64_t table_magic = 0x3130727470726166;  // "farptr01" in memory order
// 1 had no report boards; before 3 a pointer and a board cell named one generation, and `len` was its item's length.
constexpr uint32_t table_version = 3;
constexpr uint64_t table_entries_offset = 4096;  // bytes from the start; entries begin on a page

// ---- entry ------------------------------------------------------------------------------------------
//
//  0         8            16                     24                               32          40           48     56
//  | key hash| incarnation| region:16, offset:48 | reserved:16, filler:16, len:32 | generation| valid until| check| accesses |
//
// len: number of bytes to READ. generation: the oldest one accepted there. filler: number of the process that stored
// the entry. check: 0 if and only if the entry is free or dropped. accesses: number of uses, for statistics; outside
// the check, since it changes alone.
enum Word : uint32_t {
    word_key_hash,
    word_incarnation,
    word_place,
    word_extent,
    word_generation,
    word_valid_until,
    word_check,
    word_accesses,
};
constexpr uint32_t entry_words = 8;
constexpr uint32_t checked_words = 6;
static_assert(word_check == checked_words);
static_assert(word_accesses + 1 == entry_words);

using EntryCopy = std::array<uint64_t, entry_words>;
static_assert(sizeof(EntryCopy) == 64, "an entry is one cache line");

// Never 0, which marks a free entry.
inline uint64_t entry_check(const EntryCopy& copy, uint64_t seed) {
    uint64_t check = hash_bytes(copy.data(), checked_words * sizeof(uint64_t), seed);
    return check == 0 ? 1 : check;
}

// `leased.ptr` is well_formed(), so it fits.
inline EntryCopy pack_entry(uint64_t key_hash, const fabric::LeasedPtr& leased, uint16_t filler,
                            uint64_t seed) {
    const fabric::RemotePtr& ptr = leased.ptr;
    EntryCopy copy{};
    copy[word_key_hash] = key_hash;
    copy[word_incarnation] = ptr.incarnation;
    copy[word_place] = uint64_t(ptr.region) << 48 | ptr.offset;
    copy[word_extent] = uint64_t(filler) << 32 | ptr.length;
    copy[word_generation] = ptr.generation;
    copy[word_valid_until] = leased.valid_until_ns;
    copy[word_check] = entry_check(copy, seed);
    return copy;
}

inline fabric::LeasedPtr unpack_entry(const EntryCopy& copy) {
    fabric::LeasedPtr leased;
    leased.ptr.incarnation = copy[word_incarnation];
    leased.ptr.offset = copy[word_place] & fabric::remote_offset_max;
    leased.ptr.generation = copy[word_generation];
    leased.ptr.region = uint32_t(copy[word_place] >> 48);
    leased.ptr.length = uint32_t(copy[word_extent]);
    leased.valid_until_ns = copy[word_valid_until];
    return leased;
}

inline uint16_t filler_of(const EntryCopy& copy) { return uint16_t(copy[word_extent] >> 32); }

enum class EntryState : uint8_t {
    free,  // never filled, or dropped
    torn,  // being written, incomplete or damaged: unusable
    whole,
};

inline EntryState entry_state(const EntryCopy& copy, uint64_t seed) {
    if (copy[word_check] == 0) return EntryState::free;
    if (broken::s10_accept_unchecked) return EntryState::whole;
    return copy[word_check] == entry_check(copy, seed) ? EntryState::whole : EntryState::torn;
}

// Calls `pause(n)` before load or store number n, where tests stop or kill the process.
template <class Pause>
EntryCopy load_entry(const uint64_t* shared, Pause& pause) {
    EntryCopy copy;
    for (uint32_t n = 0; n < entry_words; n++) {
        pause(n);
        copy[n] = words::load_relaxed(shared + n);
    }
    return copy;
}

// Resets the accesses too, if they belong to another key.
template <class Pause>
void store_entry(uint64_t* shared, const EntryCopy& copy, bool reset_accesses, Pause& pause) {
    const uint32_t count = reset_accesses ? entry_words : entry_words - 1;
    for (uint32_t n = 0; n < count; n++) {
        pause(n);
        words::store_relaxed(shared + n, copy[n]);
    }
}

// Four neighbours are a set. The low bits of a key's hash choose its set, the top bits its home in the set; a hit
// usually touches one line. At half load, by Poisson, 4 % of the pointers do not fit in their set (21 % with sets of
// one). Sets of eight would double the cost of a miss.
constexpr uint32_t set_ways = 4;

struct SetPlace {
    uint64_t first;  // entry number
    uint32_t home;   // 0 to 3; probing goes home ^ 0, home ^ 1, ...

    constexpr uint64_t way(uint32_t n) const { return first + (home ^ n); }
};
constexpr SetPlace set_of(uint64_t key_hash, uint64_t entries) {
    return {(key_hash & (entries / set_ways - 1)) * set_ways, uint32_t(key_hash >> 62)};
}

// ---- header -----------------------------------------------------------------------------------------
struct alignas(64) TableHeader {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;  // this struct's
    uint64_t
        layout_hash;  // of sizes and places: differs between incompatible builds, whatever the version
    uint64_t boot_id[2];  // of the kernel's run, whose clock lease ends use
    uint64_t clock_id;    // the time namespace whose CLOCK_BOOTTIME lease ends use
    uint64_t seed;        // of the checks; random
    uint64_t entries;     // a power of two
    uint64_t check;       // hash of everything above, under the magic
    uint64_t fillers;     // processes attached so far; the only word that changes
    uint64_t reserved[6];
};
static_assert(sizeof(TableHeader) == 128);
static_assert(sizeof(TableHeader) <= table_entries_offset);
static_assert(offsetof(TableHeader, layout_hash) == 16);
static_assert(offsetof(TableHeader, boot_id) == 24);
static_assert(offsetof(TableHeader, seed) == 48);
static_assert(offsetof(TableHeader, check) == 64);
static_assert(offsetof(TableHeader, fillers) == 72);
static_assert(std::is_trivially_copyable_v<TableHeader>);

constexpr uint64_t table_boards_offset(uint64_t entries) { return table_entries_offset + entries * sizeof(EntryCopy); }
constexpr uint64_t table_bytes(uint64_t entries) { return table_boards_offset(entries) + boards_bytes(entries); }

// An attached process holds a lock on one byte far behind the object's end, at its number (PointerTable, T6).
constexpr uint64_t table_attached_offset = UINT64_C(1) << 62;

inline uint64_t header_check(const TableHeader& header) {
    return hash_bytes(&header, offsetof(TableHeader, check), table_magic);
}

// FNV-1a over all constants that a reader of the table relies on.
constexpr uint64_t table_layout_hash() {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint64_t n : {uint64_t(table_version), uint64_t(sizeof(TableHeader)), table_entries_offset,
                       uint64_t(sizeof(EntryCopy)), uint64_t(set_ways), uint64_t(checked_words),
                       uint64_t(word_key_hash), uint64_t(word_incarnation), uint64_t(word_place),
                       uint64_t(word_extent), uint64_t(word_generation), uint64_t(word_valid_until),
                       uint64_t(word_check), uint64_t(word_accesses), uint64_t(boards_max), board_cells_min,
                       board_cells_max, board_entries_per_cell, uint64_t(board_set_ways), uint64_t(cell_words),
                       uint64_t(cell_meter), uint64_t(sizeof(BoardHeader)), uint64_t(leader_until_shift),
                       uint64_t(leader_links_max), table_attached_offset, fabric::remote_offset_max,
                       uint64_t(layout::stride_bytes), layout::generation_max}) {
        for (unsigned shift = 0; shift < 64; shift += 8)
            hash = (hash ^ (n >> shift & 0xff)) * UINT64_C(0x100000001b3);
    }
    return hash;
}

}  // namespace farcached::proxy
