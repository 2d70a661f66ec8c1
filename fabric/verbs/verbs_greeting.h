// SPDX-License-Identifier: BSD-3-Clause
// The greetings of both sides of a connection over RDMA, in the private data of the connection manager's messages. Pure:
// bytes to fields and back. The frames' own greeting follows over the connection.
//
// G1  A greeting holds its own length and version: a fabric pads private data, and a later version may append. Fields
//     missing from a shorter one are 0.
// G2  Private data has 56 bytes in a request, 196 in an answer, 148 in a refusal.
// G3  Each side checks the other's fields before it uses them (S10).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "fabric/channel.h"
#include "fabric/verbs/verbs_slots.h"

namespace farcached::fabric {

constexpr uint16_t verbs_version = 1;
constexpr uint64_t verbs_hello_magic = 0x3176687368636166;    // "fachshv1" in memory order
constexpr uint64_t verbs_welcome_magic = 0x3176777368636166;  // "fachswv1"
constexpr uint64_t verbs_refuse_magic = 0x3176727368636166;   // "fachsrv1"
// Of grants: a node's, and a proxy's, so that neither takes its own for the other end's.
constexpr uint64_t verbs_node_grant_magic = 0x316e677368636166;   // "fachsgn1"
constexpr uint64_t verbs_proxy_grant_magic = 0x3170677368636166;  // "fachsgp1"

struct VerbsHead {
    uint64_t magic;
    uint16_t version;
    uint16_t bytes;  // of the whole greeting
    uint32_t layout_version;
    uint64_t layout_hash;
};
static_assert(sizeof(VerbsHead) == 24);

// The receives that a side has posted: their number and size.
struct VerbsReceives {
    uint32_t count;
    uint32_t bytes;
};

// A container (fabric/channel.h, C7), as a WRITE names it. The node's is in its welcome. A hello has no room for the
// proxy's. So the node's container has a place for it, after the bytes for reports, and the proxy WRITEs that first.
struct VerbsContainer {
    uint64_t address;
    uint32_t bytes;  // verbs_container_bytes; 0: none
    uint32_t key;
};
static_assert(sizeof(VerbsContainer) == 16);
constexpr uint32_t verbs_container_bytes = container_bytes + sizeof(VerbsContainer);
// Can it lie there, with that size?
bool possible(const VerbsContainer& container);

struct VerbsHello {
    VerbsHead head;
    VerbsReceives receives;
    uint32_t flight_ms;  // the longest that one of its READs can be under way (verbs_flight_us())
    uint32_t lent_key;
    uint64_t lent_address;  // of the memory that the proxy lends, as the node's READs name it
    uint64_t lent_bytes;    // 0: none; a proxy that withholds: zeros, and its grant has them
};
static_assert(sizeof(VerbsHello) == 56);
static_assert(sizeof(VerbsHello) <= 56, "G2");

// Memory of one end that the other end may use, with keys: a node's, or what a proxy lends. In a welcome, or in a grant.
struct VerbsNames {
    uint64_t incarnation;
    uint64_t region_address;  // of the region with header, index and arena, as a READ names it; a proxy's: of its lent memory
    uint64_t region_bytes;    // 0: not readable
    uint32_t region_key;
    uint32_t fetch_bytes_max;  // the longest value that it READs from the proxy's lent memory; 0: none
    // Missing in the first build of this version: the counters of reads (protocol/layout.h), as a FETCH_AND_ADD names
    // them.
    uint64_t counters_address;
    uint64_t counters_bytes;  // 0: none
    uint64_t counters_from;   // start of the arena, in bytes from the region's start
    uint32_t counters_key;
    uint32_t counters_reserved;
    VerbsContainer container;  // also missing in the second build
    SlotPlace requests, replies;  // also missing in the third build: the node's slots (verbs_slots.h)
};
static_assert(sizeof(VerbsNames) == 112);
static_assert(std::has_unique_object_representations_v<VerbsNames>, "no byte of it is padding");

struct VerbsWelcome {
    VerbsHead head;
    VerbsReceives receives;
    VerbsNames names;  // a node that withholds: zeros, and its grant has them
};
constexpr size_t verbs_welcome_bytes_least = 64;
static_assert(offsetof(VerbsWelcome, names.counters_address) == verbs_welcome_bytes_least);
static_assert(sizeof(VerbsWelcome) == 144);
static_assert(sizeof(VerbsWelcome) <= 196, "G2");
static_assert(std::has_unique_object_representations_v<VerbsWelcome>, "no byte of it is padding");

// An end's grant() returns this (fabric/channel.h). Frames carry it, after a proof.
struct VerbsGrant {
    VerbsHead head;
    VerbsNames names;
};
static_assert(sizeof(VerbsGrant) == 136);
static_assert(sizeof(VerbsGrant) <= grant_bytes_max);
static_assert(std::has_unique_object_representations_v<VerbsGrant>, "no byte of it is padding");

enum class VerbsRefusal : uint32_t { version = 1, receives, flight, resources };

struct VerbsRefuse {
    VerbsHead head;
    VerbsRefusal reason;
    uint32_t reserved;
};
static_assert(sizeof(VerbsRefuse) == 32);
static_assert(sizeof(VerbsRefuse) <= 148, "G2");

VerbsHead verbs_head(uint64_t magic, uint16_t bytes);

struct VerbsNot {
    VerbsRefusal reason;
    std::string text;
};
// Bytes to fields, or the end of a sentence with both sides' values. flight_ms_max: of READs that this side's grace allows
// for.
Result<VerbsHello, VerbsNot> parse_verbs_hello(std::string_view data, uint32_t flight_ms_max);
Result<VerbsWelcome> parse_verbs_welcome(std::string_view data);
// magic: of the end that granted. A proxy names its lent memory and its container alone.
Result<VerbsGrant> parse_verbs_grant(std::string_view data, uint64_t magic);
// The cause in a node's refusal, for a proxy; empty: the refusal has none.
std::string verbs_refusal_text(std::string_view data);
// Can a proxy with this layout read the region?
bool same_layout(const VerbsHead& head);

}  // namespace farcached::fabric
