// SPDX-License-Identifier: BSD-3-Clause
// What both sides of a connection over RDMA tell each other while it is made, in the private data of the connection
// manager's messages. Pure: bytes to facts and back. The frames' own greeting follows over the connection.
//
// G1  A greeting says its own length and version: a fabric pads private data, and a later version may append. What a
//     shorter one does not say is 0.
// G2  Private data has 56 bytes in a request, 196 in an answer, 148 in a refusal.
// G3  What the other side says is checked before it is used (S10).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "fabric/channel.h"

namespace farcached::fabric {

constexpr uint16_t verbs_version = 1;
constexpr uint64_t verbs_hello_magic = 0x3176687368636166;    // "fachshv1" in memory order
constexpr uint64_t verbs_welcome_magic = 0x3176777368636166;  // "fachswv1"
constexpr uint64_t verbs_refuse_magic = 0x3176727368636166;   // "fachsrv1"

struct VerbsHead {
    uint64_t magic;
    uint16_t version;
    uint16_t bytes;  // of all of it, this included
    uint32_t layout_version;
    uint64_t layout_hash;
};
static_assert(sizeof(VerbsHead) == 24);

// The receives that a side has posted: so many, of so many bytes.
struct VerbsReceives {
    uint32_t count;
    uint32_t bytes;
};

// A container (fabric/channel.h, C7), as a WRITE names it. The node's is in its welcome. There is no room in a hello for
// the proxy's: behind what the proxy writes there is a place in the node's for where its own is, and that it writes first.
struct VerbsContainer {
    uint64_t address;
    uint32_t bytes;  // verbs_container_bytes; 0: there is none
    uint32_t key;
};
static_assert(sizeof(VerbsContainer) == 16);
constexpr uint32_t verbs_container_bytes = container_bytes + sizeof(VerbsContainer);
// Whether it can be where it says.
bool possible(const VerbsContainer& container);

struct VerbsHello {
    VerbsHead head;
    VerbsReceives receives;
    uint32_t flight_ms;  // the longest that one of its READs can be under way (verbs_flight_us())
    uint32_t lent_key;
    uint64_t lent_address;  // of the memory that it lends, as the node's READs name it
    uint64_t lent_bytes;    // 0: none
};
static_assert(sizeof(VerbsHello) == 56);
static_assert(sizeof(VerbsHello) <= 56, "G2");

struct VerbsWelcome {
    VerbsHead head;
    VerbsReceives receives;
    uint64_t incarnation;
    uint64_t region_address;  // of the region with header, index and arena, as a READ names it
    uint64_t region_bytes;    // 0: it cannot be read
    uint32_t region_key;
    uint32_t fetch_bytes_max;  // the longest value that it READs from what the proxy lends; 0: none
    // Not in the first build of this version: the counters of reads (protocol/layout.h), as a FETCH_AND_ADD names
    // them.
    uint64_t counters_address;
    uint64_t counters_bytes;  // 0: there are none
    uint64_t counters_from;   // where the arena begins, in bytes from the region's start
    uint32_t counters_key;
    uint32_t counters_reserved;
    VerbsContainer container;  // nor in the second: the node's
};
constexpr size_t verbs_welcome_bytes_least = 64;
static_assert(offsetof(VerbsWelcome, counters_address) == verbs_welcome_bytes_least);
static_assert(sizeof(VerbsWelcome) == 112);
static_assert(sizeof(VerbsWelcome) <= 196, "G2");
static_assert(std::has_unique_object_representations_v<VerbsWelcome>, "no byte of it is padding");

enum class VerbsRefusal : uint32_t { version = 1, receives, flight, resources };

struct VerbsRefuse {
    VerbsHead head;
    VerbsRefusal reason;
    uint32_t reserved;
};
static_assert(sizeof(VerbsRefuse) == 32);
static_assert(sizeof(VerbsRefuse) <= 148, "G2");

VerbsHead verbs_head(uint64_t magic, uint16_t bytes);

// Bytes to facts; false: `why` is a sentence's end with what both sides speak. flight_ms_max: of READs that this side's
// grace allows for.
bool parse_verbs_hello(std::string_view data, uint32_t flight_ms_max, VerbsHello& hello, VerbsRefusal& reason,
                       std::string& why);
bool parse_verbs_welcome(std::string_view data, VerbsWelcome& welcome, std::string& why);
// What a proxy says of a node that refused with these bytes; empty: the node did not say.
std::string verbs_refusal_text(std::string_view data);
// Can a proxy that was built like this read the region?
bool same_layout(const VerbsHead& head);

}  // namespace farcached::fabric
