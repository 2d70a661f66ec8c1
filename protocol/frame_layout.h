// SPDX-License-Identifier: BSD-3-Clause
// The records of the frames between a proxy and a node. Little-endian, without padding, at any alignment; pinned here and,
// byte by byte, by t/unit/protocol/frame. A change of a record raises protocol_version.
//
//   frame    | FrameHeader | body                                              |
//   requests | FrameHeader | request | request | ...                           |
//   request  | RequestHeader | fixed part of the operation | optionals | key | value |
//   replies  | FrameHeader | ClockRecord | RightRecord | reply | reply | ...   |
//   reply    | ReplyHeader | record of the kind | GrantRecord | incarnation | value |
//
// Types and constants; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "protocol/layout.h"

namespace farcached::protocol {

// Negotiated by the greeting (protocol/handshake.h).
constexpr uint32_t protocol_version = 13;
constexpr uint32_t protocol_version_lowest = 1;

// Additions by version.
constexpr uint32_t version_with_now_us = 2;   // before it, now_us is reserved
constexpr uint32_t version_with_prefix_deletes = 3;  // before it, flush_prefix is missing.
// A peer of an earlier version is served two-sided: it gets no pointers, maps nothing and reports nothing. Its validation
// of reads is unsafe where items are written in place (S18).
constexpr uint32_t version_with_in_place = 4;
constexpr uint32_t version_with_spilled = 5;  // before it, `spilled` and `grant_elsewhere` are unknown flags
constexpr uint32_t version_with_auth = 6;     // before it, no peer authenticates (protocol/auth.h)
constexpr uint32_t version_with_right = 7;    // before it, clock_with_right is reserved (S17)
constexpr uint32_t version_with_epoch = 8;    // before it, no proxy names the epoch of its list of nodes
constexpr uint32_t version_with_holds = 9;    // before it, no node has copies of another one's items
constexpr uint32_t version_with_moved = 10;   // before it, `moved_since` is unknown, and CopiesRecord has no name
constexpr uint32_t version_with_list_of_mark = 11;  // before it, `moved_since` counts by older lists, too
constexpr uint32_t version_with_first_list = 12;    // before it, no proxy sends its first list (KeptKeys::first)
constexpr uint32_t version_with_newest_epoch = 13;  // before it, no node names an epoch

// ---- every frame ------------------------------------------------------------------------------------
//
//  0          4      6       8          16
//  | body     | kind | count | sequence |
//  | bytes    |      |       |          |
struct FrameHeader {
    uint32_t body_bytes;  // after this header
    uint16_t kind;        // FrameKind
    uint16_t count;       // entries in the body; 0 in kinds without entries
    uint64_t sequence;    // the exchange, numbered by its proxy
};
static_assert(sizeof(FrameHeader) == 16);
static_assert(offsetof(FrameHeader, kind) == 4);
static_assert(offsetof(FrameHeader, count) == 6);
static_assert(offsetof(FrameHeader, sequence) == 8);

enum class FrameKind : uint16_t {
    hello = 1,
    welcome = 2,
    refuse = 3,
    requests = 4,
    replies = 5,
    chunk = 6,
    ping = 7,
    pong = 8,
    goodbye = 9,
    lease_returns = 10,
    accesses = 11,
    lent = 12,
    unlent = 13,
    report = 14,
    reported = 15,
    challenge = 16,
    proof = 17,
    grant = 18,
    epoch = 19,
};

// ---- requests ---------------------------------------------------------------------------------------
//
//  0    1      2         4       8           12    16
//  | op | mode | key_len | flags | value_len | tag |
struct RequestHeader {
    uint8_t op;          // RequestKind
    uint8_t mode;        // of a store: StoreOp::Mode; else 0
    uint16_t key_len;    // bytes; of stats: the group's name
    uint32_t flags;      // RequestFlag
    uint32_t value_len;  // bytes, here or in chunks
    uint32_t tag;        // the proxy's; its reply repeats it
};
static_assert(sizeof(RequestHeader) == 16);
static_assert(offsetof(RequestHeader, key_len) == 2);
static_assert(offsetof(RequestHeader, flags) == 4);
static_assert(offsetof(RequestHeader, value_len) == 8);
static_assert(offsetof(RequestHeader, tag) == 12);

enum class RequestKind : uint8_t {
    get = 1,
    store = 2,  // fixed part: StoreRecord
    remove = 3,
    arith = 4,  // fixed part: ArithRecord
    forget = 5,
    flush = 6,
    flush_at = 7,  // fixed part: ClockRecord, the moment
    stats = 8,
    flush_prefix = 9,  // the key is the prefix
    keep = 10,         // the value is the text of KeptKeys (protocol/owned_keys.h)
    hold = 11,         // fixed part: HoldRecord
    copies = 12,       // fixed part: CopiesRecord
};

// The presence of each optional field, in the order of the fields, then switches.
enum class RequestFlag : uint32_t {
    cas_compare = 1u << 0,  // u64
    cas_set = 1u << 1,      // u64
    touch = 1u << 2,        // u32, NodeSeconds, as the next two
    vivify = 1u << 3,
    recache_before = 1u << 4,
    moved_since = 1u << 5,  // u64
    key_binary = 1u << 8,
    peek = 1u << 9,
    no_bump = 1u << 10,
    win_tokens = 1u << 11,
    recache_first = 1u << 12,
    invalidate = 1u << 13,
    remove_value = 1u << 14,
    decrement = 1u << 15,
    no_value = 1u << 16,       // get: the reply may leave the value out
    want_grant = 1u << 17,     // get, store, arith: the reply may have pointer and lease
    value_follows = 1u << 18,  // store: in chunks
    forget = 1u << 19,
    spilled = 1u << 20,        // store: protocol/spilled.h
};

struct StoreRecord {
    uint32_t flags;    // the client's
    uint32_t exptime;  // NodeSeconds
};
static_assert(sizeof(StoreRecord) == 8);

struct ArithRecord {
    uint64_t delta;
    uint64_t initial;
};
static_assert(sizeof(ArithRecord) == 16);

//  0         8         12  16
//  | release | seconds | 0 |
struct HoldRecord {
    uint64_t release;  // as in HoldOp; if it is not 0, `seconds` is 0
    uint32_t seconds;
    uint32_t reserved;
};
static_assert(sizeof(HoldRecord) == 16);

struct CopiesRecord {
    uint32_t what;  // CopiesOp::What
    uint32_t name;  // as in CopiesOp; before version_with_moved 0
};
static_assert(sizeof(CopiesRecord) == 8);

// ---- replies ----------------------------------------------------------------------------------------
//
//  0      1        2      3   4       8           12    16
//  | kind | status | miss | denied | flags | value_len | tag |
struct ReplyHeader {
    uint8_t kind;    // ReplyKind
    uint8_t status;  // the Status of that reply; of refused: RequestRefusal; else 0
    uint8_t miss;    // of a get: Miss
    uint8_t denied;  // LeaseDenial: why a wanted grant is missing
    uint32_t flags;      // ReplyFlag
    uint32_t value_len;  // bytes, here or in chunks
    uint32_t tag;        // the request's
};
static_assert(sizeof(ReplyHeader) == 16);
static_assert(offsetof(ReplyHeader, flags) == 4);
static_assert(offsetof(ReplyHeader, value_len) == 8);
static_assert(offsetof(ReplyHeader, tag) == 12);

enum class ReplyKind : uint8_t {
    get = 1,     // MetaRecord on a hit
    store = 2,   // StoredRecord; of hold, too
    remove = 3,  // RemovedRecord
    arith = 4,   // ArithReplyRecord
    done = 5,    // forget, flush
    stats = 6,   // the text is the value; of copies, too
    refused = 7,
};

enum class ReplyFlag : uint32_t {
    vivified = 1u << 0,
    grant = 1u << 1,          // a GrantRecord, which may be empty
    value_follows = 1u << 2,  // in chunks
    no_value = 1u << 3,       // a hit without its value
    grant_elsewhere = 1u << 4,  // of a hit: behind the GrantRecord, the incarnation (u64) of the node that has the item
};

//  0     8       16          20       24        28         32           36     37     38  40
//  | cas | flags | item_bytes | exptime | last_    | value_len | class | bits | 0 |
//  |     | u32   |            |         | access   |           |       |      |   |
struct MetaRecord {
    uint64_t cas;
    uint32_t flags;
    uint32_t item_bytes;
    uint32_t exptime;  // NodeSeconds, as the next
    uint32_t last_access;
    uint32_t value_len;
    uint8_t size_class;
    uint8_t bits;  // MetaBit
    uint16_t reserved;
};
static_assert(sizeof(MetaRecord) == 32);
static_assert(offsetof(MetaRecord, flags) == 8);
static_assert(offsetof(MetaRecord, value_len) == 24);
static_assert(offsetof(MetaRecord, size_class) == 28);

enum class MetaBit : uint8_t {
    fetched = 1u << 0,
    stale = 1u << 1,
    win = 1u << 2,
    win_sent = 1u << 3,
    key_binary = 1u << 4,
};
constexpr uint8_t meta_bits_all = 0x1f;

//  0     8            12          16        20      21  24
//  | cas | item_bytes | value_len | exptime | class | 0 |
struct StoredRecord {
    uint64_t cas;
    uint32_t item_bytes;
    uint32_t value_len;
    uint32_t exptime;
    uint8_t size_class;
    uint8_t reserved[3];
};
static_assert(sizeof(StoredRecord) == 24);
static_assert(offsetof(StoredRecord, size_class) == 20);

struct RemovedRecord {
    uint32_t item_bytes;
    uint8_t size_class;
    uint8_t reserved[3];
};
static_assert(sizeof(RemovedRecord) == 8);

struct ArithReplyRecord {
    uint64_t value;
    MetaRecord meta;
};
static_assert(sizeof(ArithReplyRecord) == 40);

//  0        8            16       20       24        28  32
//  | offset | generation | region | length | term_ms | capacity |
struct GrantRecord {
    uint64_t offset;  // of the item, from the region's start
    uint64_t generation;
    uint32_t region;
    uint32_t length;   // header, key and value
    uint32_t term_ms;  // of the lease; 0: the whole record is empty
    uint32_t capacity; // of the slot, bytes
};
static_assert(sizeof(GrantRecord) == 32);
static_assert(offsetof(GrantRecord, region) == 16);
static_assert(offsetof(GrantRecord, term_ms) == 24);

// Opens the body of replies; the body of a pong; the fixed part of flush_at.
struct ClockRecord {
    uint32_t now;     // NodeSeconds at the node, read after the requests arrived; in a proxy's pong 0
    uint32_t now_us;  // since the clock reached `now`, to 999'999, and clock_with_right; from a proxy 0
};
static_assert(sizeof(ClockRecord) == 8);

// Of a node's now_us: a RightRecord follows the ClockRecord, or the name of a welcome. Without it the right has no end.
constexpr uint32_t clock_with_right = 1u << 31;

struct RightRecord {
    uint32_t left_ms;  // of the node's serving right; 0: none
    uint32_t reserved;
};
static_assert(sizeof(RightRecord) == 8);

// ---- pieces of a large value, then the small frames -------------------------------------------------
//
//  0     4       8        16
//  | tag | flags | offset | bytes
struct ChunkHeader {
    uint32_t tag;     // of the request, or of the reply, that announced the value
    uint32_t flags;   // chunk_abandoned or 0
    uint64_t offset;  // of the first byte, in the value
};
static_assert(sizeof(ChunkHeader) == 16);
static_assert(offsetof(ChunkHeader, offset) == 8);

// The sender abandons the value: no bytes, no more chunks of it. A node answers the request with RequestRefusal::abandoned.
constexpr uint32_t chunk_abandoned = 1;

// lent, in place of chunks: the whole value lies in the proxy's memory, where the node can READ it.
//
//  0     4   8        16      24
//  | tag | 0 | offset | check |
struct LentRecord {
    uint32_t tag;  // of the request that announced the value
    uint32_t reserved;
    uint64_t offset;  // of the value's first byte, in that memory
    uint64_t check;   // lent_check() of the value
};
static_assert(sizeof(LentRecord) == 24);

// unlent, the node's answer if it does not READ it: the proxy may reuse the memory, and the value follows in chunks.
struct UnlentRecord {
    uint32_t tag;
    uint32_t reserved;
};
static_assert(sizeof(UnlentRecord) == 8);

// epoch, of a proxy: it chose this node for the later requests of the connection by the list of nodes of this epoch. Of a node: the
// newest list that it knows of has this epoch, and the proxy's list an older one.
struct EpochRecord {
    uint64_t epoch;  // revision of etcd; 0: the list has none
};
static_assert(sizeof(EpochRecord) == 8);

// goodbye, refuse: | reason | text bytes | 0 | text
struct SentenceRecord {
    uint16_t reason;
    uint16_t text_bytes;
    uint32_t reserved;
};
static_assert(sizeof(SentenceRecord) == 8);

//  0        8            16       20  24
//  | offset | generation | region | 0 |
struct LeaseReturnRecord {
    uint64_t offset;
    uint64_t generation;
    uint32_t region;
    uint32_t reserved;
};
static_assert(sizeof(LeaseReturnRecord) == 24);

//  0      8                                                        16
//  | hash | place:36, region:4, count:8, generation tag:16         |
//
// hash: of the key, under the node's seed. The word has four fields, from its lowest bit on (ItemAccess).
// place: of the slot, from the region's start, in strides. count: accesses that the node did not see, at least 1; 255 means
// 255 or more. generation tag: layout::generation_tag() of the item that was read there last.
struct AccessRecord {
    uint64_t hash;
    uint64_t word;
};
static_assert(sizeof(AccessRecord) == 16);

// reported: the node's answer to a report of AccessRecords, with a RenewalRecord for each that it examined, from the first
// on.
//
//  0         4   8         12
//  | left_us | 0 | term_ms | term_ms | ...
struct ReportedRecord {
    uint32_t left_us;  // time that the node would still spend on the proxy's reports now; 0: none
    uint32_t reserved;
};
static_assert(sizeof(ReportedRecord) == 8);

struct RenewalRecord {
    uint32_t term_ms;  // of the item's lease, counted from the sending of the report; 0: not renewed
};
static_assert(sizeof(RenewalRecord) == 4);

// ---- the greeting -----------------------------------------------------------------------------------
//
// hello: | HelloRecord | name | HelloLimits | host |. The record and the name are the same in every version, so that any
// node can send any proxy the versions that it accepts. A later version may append fields.
//
//  0       8         12        16       20       22  24            32
//  | magic | version | lowest  | layout | name   | 0 | layout hash |
//  |       |         | version | version| bytes  |   |             |
struct HelloRecord {
    uint64_t magic;
    uint32_t version;  // the highest of the proxy
    uint32_t version_lowest;
    uint32_t layout_version;  // protocol/layout.h
    uint16_t name_bytes;
    uint16_t reserved;
    uint64_t layout_hash;  // protocol/layout_hash.h
};
static_assert(sizeof(HelloRecord) == 32);
static_assert(offsetof(HelloRecord, layout_version) == 16);
static_assert(offsetof(HelloRecord, layout_hash) == 24);

struct HelloLimits {
    uint32_t pid;
    uint32_t frame_bytes_max;
    uint32_t credits;
    uint16_t host_bytes;
    uint16_t reserved;
};
static_assert(sizeof(HelloLimits) == 16);

// hello of a proxy with a key: | ... | host | HelloNonce |
struct HelloNonce {
    uint64_t magic;
    char nonce[32];
};
static_assert(sizeof(HelloNonce) == 40);

// hello of a proxy with the number of nodes that it keeps an item on, from version_with_moved on: | ... | HelloCopies |
struct HelloCopies {
    uint64_t magic;
    uint32_t copies;
    uint32_t reserved;
};
static_assert(sizeof(HelloCopies) == 16);

// challenge: | ChallengeRecord |
struct ChallengeRecord {
    uint64_t magic;
    char nonce[32];
};
static_assert(sizeof(ChallengeRecord) == 40);

// proof: | ProofRecord | key's name | HMAC, 32 bytes |
struct ProofRecord {
    uint64_t magic;
    uint32_t role;  // AuthRole
    uint16_t name_bytes;
    uint16_t reserved;
};
static_assert(sizeof(ProofRecord) == 16);

// welcome after a proof: | ... | RightRecord | WelcomeGrant | grant | HMAC, 32 bytes |. The frame `grant` has a proxy's grant.
struct WelcomeGrant {
    uint32_t grant_bytes;
    uint32_t reserved;
};
static_assert(sizeof(WelcomeGrant) == 8);

constexpr uint64_t nonce_magic = 0x65636e6f6e636166;      // "facnonce" in memory order
constexpr uint64_t copies_magic = 0x7365697063636166;     // "faccpies"
constexpr uint64_t challenge_magic = 0x6c61686368636166;  // "fachchal" in memory order
constexpr uint64_t proof_magic = 0x666f6f7270636166;      // "facproof" in memory order
constexpr uint64_t hello_magic = 0x6f6c656868636166;    // "fachhelo" in memory order
constexpr uint64_t welcome_magic = 0x656d6f6368636166;  // "fachcome" in memory order

// welcome: | WelcomeRecord | RegionRecord ... | name | RightRecord |
struct WelcomeRecord {
    uint64_t magic;
    uint32_t version;  // the agreed one
    uint32_t layout_version;
    uint64_t layout_hash;
    uint64_t incarnation;
    uint64_t hash_seed;
    uint64_t check_secret;
    int64_t started_unix;
    uint64_t item_bytes_max;
    uint32_t now;
    uint32_t frame_bytes_max;
    uint32_t credits;
    uint32_t term_ms_min;
    uint32_t term_ms_max;
    uint32_t grace_ms;
    uint16_t name_bytes;
    uint16_t region_count;
    uint32_t now_us;  // since the clock reached `now`, to 999'999, and clock_with_right
};
static_assert(sizeof(WelcomeRecord) == 96);
static_assert(offsetof(WelcomeRecord, incarnation) == 24);
static_assert(offsetof(WelcomeRecord, item_bytes_max) == 56);
static_assert(offsetof(WelcomeRecord, name_bytes) == 88);
static_assert(offsetof(WelcomeRecord, now_us) == 92);

struct RegionRecord {
    uint64_t bytes;
    uint32_t id;
    uint32_t access;  // RegionAccess
};
static_assert(sizeof(RegionRecord) == 16);

// ---- ItemAccess ------------------------------------------------------------------------------------
//
// ItemAccess: accesses to one slot that its node did not see. A proxy counts them, and a node gets them in the AccessRecord
// of a frame. Pure values.
//
// A1  A slot belongs to its key while a lease runs (S1): place and key hash identify its items of all generations. The
//     generation's tag only shows whether the accesses were to the present item.
// A2  A record can name places below 1 TiB of the first sixteen regions. Accesses to other places are not counted.
// A3  A record's count of 255 means 255 or more: a node's policies count fewer per record.

struct ItemAccess {
    uint64_t hash = 0;    // of the key, under the node's seed
    uint64_t offset = 0;  // of the slot, from the region's start; a multiple of a stride
    uint32_t count = 0;
    uint16_t region = 0;
    uint16_t generation_tag = 0;  // layout::generation_tag()

    bool operator==(const ItemAccess&) const = default;
};
static_assert(sizeof(ItemAccess) == 24);
static_assert(std::has_unique_object_representations_v<ItemAccess>, "no byte of it is padding");

constexpr uint32_t access_place_bits = 36;
constexpr uint32_t access_region_bits = 4;
constexpr uint32_t access_count_bits = 8;
constexpr uint32_t access_tag_bits = 16;
static_assert(access_place_bits + access_region_bits + access_count_bits + access_tag_bits == 64);

constexpr uint64_t access_offset_max = ((UINT64_C(1) << access_place_bits) - 1) * layout::stride_bytes;
constexpr uint32_t access_region_max = (1u << access_region_bits) - 1;
constexpr uint32_t access_count_max = (1u << access_count_bits) - 1;

// A2
constexpr bool has_record(uint64_t offset, uint32_t region) {
    return offset <= access_offset_max && offset % layout::stride_bytes == 0 && region <= access_region_max;
}

// Nothing: no record can name that place (A2).
constexpr std::optional<ItemAccess> item_access(uint64_t hash, uint64_t offset, uint32_t region, uint64_t generation,
                                                uint32_t count) {
    if (!has_record(offset, region)) return std::nullopt;
    return ItemAccess{hash, offset, count, uint16_t(region), layout::generation_tag(generation)};
}

constexpr bool same_place(const ItemAccess& a, const ItemAccess& b) {
    return a.offset == b.offset && a.region == b.region;
}

// Of two tags of one slot, at most 2^15 generations of its partition apart: is `a` the later one?
constexpr bool later_tag(uint16_t a, uint16_t b) { return int16_t(uint16_t(a - b)) > 0; }

// Adds the count of `more`, of the same place, to `item`; returns how many a count cannot hold.
constexpr uint32_t merge(ItemAccess& item, const ItemAccess& more) {
    if (item.count == 0 || later_tag(more.generation_tag, item.generation_tag)) item.generation_tag = more.generation_tag;
    const uint32_t added = std::min(more.count, UINT32_MAX - item.count);
    item.count += added;
    return more.count - added;
}

// Only for the result of item_access(), with a count that is not 0.
constexpr AccessRecord record_of(const ItemAccess& item) {
    uint64_t word = item.offset / layout::stride_bytes;
    uint32_t at = access_place_bits;
    word |= uint64_t(item.region) << at;
    at += access_region_bits;
    word |= uint64_t(std::min(item.count, access_count_max)) << at;
    at += access_count_bits;
    word |= uint64_t(item.generation_tag) << at;
    return {item.hash, word};
}

constexpr ItemAccess access_of(const AccessRecord& record) {
    ItemAccess item;
    item.hash = record.hash;
    uint64_t word = record.word;
    item.offset = (word & ((UINT64_C(1) << access_place_bits) - 1)) * layout::stride_bytes;
    word >>= access_place_bits;
    item.region = uint16_t(word & access_region_max);
    word >>= access_region_bits;
    item.count = uint32_t(word & access_count_max);
    item.generation_tag = uint16_t(word >> access_count_bits);
    return item;
}

}  // namespace farcached::protocol
