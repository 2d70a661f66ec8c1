// SPDX-License-Identifier: BSD-3-Clause
// The operations of a cache, independent of the protocol: one struct per operation and its reply. Text, meta and binary
// requests all become these; a node executes them (node/store/node.h).
//
// Times are NodeSeconds (base/node_clock.h), from to_node_seconds(). Keys and values are borrowed until the call that takes
// them returns.
//
// Value types and pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/enum_text.h"
#include "base/node_clock.h"

namespace farcached::protocol {

// LeaseDenial: why a lease was not granted, or not extended. A node decides and counts it. A reply that lacks a remote pointer
// for this reason has it, and the proxy counts it by the same row.

//        name      help
#define LEASE_DENIALS(X)                                                                   \
    X(young, "the item was touched too seldom")                                            \
    X(dead_key, "a dead slot of the key waits for its lease, and dead slots are many")     \
    X(dead, "dead slots hold twice the share of memory that they may")                     \
    X(no_room, "the lease zone has no slot for the item, or it is larger than 4 MiB")      \
    X(short, "the item expires too soon, or a flush is scheduled")                         \
    X(draining, "the item's page is draining")                                             \
    X(stopped, "a set found no memory, and leases are stopped for a while")                \
    X(tokens, "the item is stale, or a recache token of it is out")                        \
    X(sparse, "the item fills less than a quarter of its slot")

enum class LeaseDenial : uint8_t {
    none,
#define X(name, help) name##_,
    LEASE_DENIALS(X)
#undef X
        count
};

inline constexpr EnumText lease_denial_texts[] = {
    {"none", "none"},
#define X(name, help) {#name, help},
    LEASE_DENIALS(X)
#undef X
};
constexpr std::string_view lease_denial_name(LeaseDenial why) { return text_of(lease_denial_texts, why).name; }

// A key of 1 to limits::key_bytes_max bytes, any bytes, with its hash under the node's seed.
struct Key {
    std::string_view bytes;
    uint64_t hash;
};

// An item's fields for a reply. The access fields are as they were before the operation.
struct ItemMeta {
    uint64_t cas = 0;           // 0 when CAS is disabled
    uint32_t value_len = 0;     // bytes, without any trailing CRLF
    uint32_t flags = 0;         // the client's
    uint32_t item_bytes = 0;    // header, key and value
    NodeSeconds exptime = 0;    // after the operation's own touch
    NodeSeconds last_access = 0;
    uint8_t size_class = 0;     // 1-based, as in stats slabs
    bool fetched = false;       // had been fetched before
    bool stale = false;         // meta: X
    bool win = false;           // meta: W, this caller is to recache
    bool win_sent = false;      // meta: Z, another client already has the token
    bool key_binary = false;    // meta: the key was stored as base64 and is printed so
};

// A remote pointer under a lease (S2, S3): an item's place in the node's memory, and how long that slot holds no other
// key. The term counts from the first sending of the request that earned it.
struct Grant {
    uint64_t offset = 0;      // of the item, bytes from the region's start
    uint64_t generation = 0;  // the slot holds this one or a later one of the key
    uint32_t region = 0;      // RegionFact::id of the handshake
    uint32_t length = 0;      // bytes: header, key and value
    uint32_t term_ms = 0;
    uint32_t capacity = 0;    // bytes of the slot, at least `length`
    uint64_t incarnation = 0; // of the node that has the item, spilled there (protocol/spilled.h); 0: the replying node
};

enum class Miss : uint8_t { none, absent, expired, flushed };

// get, gat, mg, me, touch: a lookup that may touch, vivify or request a recache.
struct GetOp {
    Key key;
    bool peek = false;                        // me: change nothing, not even access times
    bool no_bump = false;                     // mg u: do not count as an access
    bool win_tokens = false;                  // mg: take part in win/stale; classic and binary gets do not
    std::optional<NodeSeconds> touch;         // gat, touch, mg T
    std::optional<NodeSeconds> vivify;        // mg N: on a miss create an empty item with this exptime
    std::optional<NodeSeconds> recache_before;  // mg R: win if the item expires before this moment
    bool recache_first = false;               // recache_before applies to the item as it was before `touch`
    std::optional<uint64_t> cas_set;          // mg E: the CAS a vivified item gets
    bool key_binary = false;                  // mg b: marks a vivified item
    bool lease = false;                       // the caller can read one-sided: grant a lease, if the policy allows it
    // Reads an item whose key moved to another node at this revision of etcd or later (node/store/hidden_items.h, F3), and changes
    // nothing. Only with the key.
    std::optional<uint64_t> moved_since;
};

struct GetReply {
    enum class Status : uint8_t {
        hit,
        miss,
        no_memory  // a vivify could not be stored
    } status = Status::miss;
    Miss why = Miss::absent;  // none on a hit
    bool vivified = false;    // a hit on an item that this call created
    ItemMeta meta;
    std::optional<Grant> grant;
    LeaseDenial denied = LeaseDenial::none;  // why there is no grant, if one was wanted
};

constexpr uint64_t mark_bit = UINT64_C(1) << 63;  // of a key's mark (node/keys/marks.h), and of a hold (node/keys/holds.h)
constexpr uint64_t hold_bit = UINT64_C(1) << 62;  // of a hold
constexpr bool is_mark(uint64_t word) { return (word & mark_bit) != 0; }
constexpr bool is_hold(uint64_t word) { return (word & (mark_bit | hold_bit)) == (mark_bit | hold_bit); }

// set add replace append prepend cas, and ms.
struct StoreOp {
    enum class Mode : uint8_t { set, add, replace, append, prepend, cas };
    Key key;
    Mode mode = Mode::set;
    std::string_view value;
    uint32_t flags = 0;                       // ignored by append and prepend
    NodeSeconds exptime = never_expires;      // ignored by append and prepend
    // Mode cas: required; append/prepend: must match if given. Mode cas with the mark of a missing key (node/keys/marks.h): the
    // value is stored if the key was not mutated since, else the status is not_found or exists. The same with a hold (HoldOp).
    std::optional<uint64_t> cas_compare;
    std::optional<uint64_t> cas_set;          // ms E
    bool invalidate = false;                  // ms I: with an older cas_compare store, but as stale
    std::optional<NodeSeconds> vivify;        // ms N with append/prepend: a miss is stored as by set
    bool key_binary = false;                  // ms b
    bool forget = false;                      // out of memory: remove the old item, too
    bool lease = false;                       // as in GetOp
    bool spilled = false;                     // another node's item (protocol/spilled.h); ignored by append and prepend
    // Mode cas of 0: the list of nodes changed at this revision of etcd. The reply has a mark only if no mutation here can have
    // touched the key since (node/keys/touched_keys.h).
    std::optional<uint64_t> moved_since;
};

struct StoreReply {
    enum class Status : uint8_t {
        stored,
        not_stored,  // add: it exists; replace, append, prepend: it does not
        exists,      // cas did not match
        not_found,   // cas of a missing key
        too_large,   // the item would exceed item_size_max; set has removed the old item
        no_memory    // -M and full, or every page pinned
    } status = Status::not_stored;
    uint64_t cas = 0;         // of the stored item; not_found: the key's mark
    uint32_t item_bytes = 0;
    uint32_t value_len = 0;   // of the stored item (append and prepend: the whole)
    uint8_t size_class = 0;   // of the stored item; else of the present one, or of the rejected one
    NodeSeconds exptime = never_expires;  // of the stored item
    std::optional<Grant> grant;
    LeaseDenial denied = LeaseDenial::none;  // why there is no grant, if one was wanted
};

// A copy of the key's item is about to change at another node, which orders the changes (node/keys/holds.h). The item is removed
// here, and the reply, not_found, has the hold in `cas`. A cas that compares with the hold and brings the changed item, or
// `release`, ends it.
struct HoldOp {
    static constexpr uint32_t seconds_max = 600;

    Key key;
    uint32_t seconds = 0;  // after that it has ended; 1 to seconds_max; 0: only `release`
    uint64_t release = 0;  // a hold to end; nothing else happens
};

// delete, md.
struct DeleteOp {
    Key key;
    std::optional<uint64_t> cas_compare;
    std::optional<uint64_t> cas_set;      // md E, with invalidate or remove_value
    std::optional<NodeSeconds> touch;     // md T, with invalidate
    bool invalidate = false;              // md I: mark stale instead of removing
    bool remove_value = false;            // md x: keep the item, empty its value and flags; exptime is
                                          // `touch`, or never
};

struct DeleteReply {
    enum class Status : uint8_t { deleted, not_found, exists } status = Status::not_found;
    uint8_t size_class = 0;
    uint32_t item_bytes = 0;
};

// incr, decr, ma.
struct ArithOp {
    Key key;
    bool decrement = false;
    uint64_t delta = 1;
    std::optional<NodeSeconds> vivify;    // on a miss store `initial` with this exptime
    uint64_t initial = 0;
    std::optional<uint64_t> cas_compare;
    std::optional<uint64_t> cas_set;
    std::optional<NodeSeconds> touch;     // ma T
    bool key_binary = false;              // ma b: marks a vivified item
    bool lease = false;                   // as in GetOp
};

struct ArithReply {
    enum class Status : uint8_t { ok, vivified, not_found, non_numeric, exists, no_memory };
    Status status = Status::not_found;
    uint64_t value = 0;
    ItemMeta meta;  // of the new item
    std::optional<Grant> grant;
    LeaseDenial denied = LeaseDenial::none;  // why there is no grant, if one was wanted
};

}  // namespace farcached::protocol
