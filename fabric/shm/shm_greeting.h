// SPDX-License-Identifier: BSD-3-Clause
// The greeting of the shm transport, on its Unix socket (SOCK_SEQPACKET, one record each way). The proxy sends the
// versions that it was built with. The node answers with the descriptors of the connection, or with a sentence. A node that
// withholds its region (fabric/channel.h, S16) answers without the region's descriptor, which a record of its own brings after
// the proof. The socket carries nothing else; its end is the end of the peer. Owner: a ShmChannel, whose thread calls all of this.
//
// Each side checks the other's record, sizes first (S10). `version` and all before it never move, so that this version
// can refuse later ones with a sentence.
//
// A node answers in the version of the hello. If an older node refuses, a proxy that also speaks its version tries again
// in it. Version 1 has no containers (shm_ring.h); all else is the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/broken.h"
#include "base/result.h"
#include "fabric/channel.h"
#include "fabric/shm/shm_ring.h"
#include "fabric/socket.h"
#include "protocol/frame_layout.h"

namespace farcached::fabric {

constexpr uint64_t shm_hello_magic = 0x6f6d687363616661;    // "afacshmo" in memory order
constexpr uint64_t shm_welcome_magic = 0x776d687363616661;  // "afacshmw" in memory order
constexpr uint64_t shm_grant_magic = 0x676d687363616661;    // "afacshmg" in memory order
constexpr uint32_t shm_version = link_version;  // of the greeting and of the memory, which change together
constexpr uint32_t shm_version_lowest = link_version_lowest;

// The highest version of this process.
inline uint32_t shm_version_spoken() {
    return broken::faults.speaks < protocol::version_with_in_place ? link_version_with_reports - 1 : shm_version;
}

enum class ShmRefusal : uint32_t { none = 0, handshake = 1, permission = 2, no_memory = 3 };

struct ShmHello {
    uint64_t magic;
    uint32_t version;
    uint32_t layout_version;  // of protocol/layout.h: the node keeps back a region of another layout
    uint64_t layout_hash;
    uint32_t ring_bytes;  // wanted; 0: the node chooses
    uint32_t reserved;
};
static_assert(sizeof(ShmHello) == 32);
static_assert(offsetof(ShmHello, version) == 8);
static_assert(std::has_unique_object_representations_v<ShmHello>);

struct ShmWelcome {
    uint64_t magic;
    uint32_t version;
    uint32_t refused;  // ShmRefusal
    uint32_t ring_bytes;
    uint32_t region_count;  // 0 or 1; the next two describe it
    uint64_t region_bytes;
    uint64_t incarnation;
    char text[160];  // the cause of a refusal; padded with NUL
};
static_assert(sizeof(ShmWelcome) == 200);
static_assert(offsetof(ShmWelcome, version) == 8);
static_assert(offsetof(ShmWelcome, text) == 40);
static_assert(std::has_unique_object_representations_v<ShmWelcome>);

// A node's grant() returns these bytes. Before, it sends a record of the same bytes, with the region's descriptor.
struct ShmGrant {
    uint64_t magic;
    uint32_t version;  // that of the welcome
    uint32_t reserved;
    uint64_t region_bytes;
    uint64_t incarnation;
};
static_assert(sizeof(ShmGrant) == 32);
static_assert(sizeof(ShmGrant) <= grant_bytes_max);
static_assert(offsetof(ShmGrant, version) == 8);
static_assert(std::has_unique_object_representations_v<ShmGrant>);

// The descriptors of a welcome, in the order of sending.
struct ShmDescriptors {
    Descriptor link;        // of LinkMemory
    Descriptor wake_node;   // eventfd
    Descriptor wake_proxy;  // eventfd
    Descriptor region;      // for reading only; none without a region
};

// ---- sending: false: errno has the cause ------------------------------------------------------------

bool send_hello(int socket, const ShmHello& hello);
bool send_welcome(int socket, const ShmWelcome& welcome, const ShmDescriptors& descriptors);
bool send_grant(int socket, const ShmGrant& grant, const Descriptor& region);
// Cuts a sentence that is too long.
bool send_refusal(int socket, ShmRefusal reason, std::string_view text, uint32_t version = shm_version_spoken());

// ---- receiving --------------------------------------------------------------------------------------

// The reason for a missing greeting.
struct ShmNot {
    bool yet = false;  // no record has arrived yet
    ChannelEnd why = ChannelEnd::handshake;
    std::string text;
    uint32_t version = 0;  // that of a node that refused
};
std::optional<ShmNot> receive_hello(int socket, ShmHello& hello);
std::optional<ShmNot> receive_welcome(int socket, ShmWelcome& welcome, ShmDescriptors& descriptors);
std::optional<ShmNot> receive_grant(int socket, ShmGrant& grant, Descriptor& region);

// Refuses a peer that is not of this user, root, or, with `group`, of this process's primary group.
Refusal refuse_peer(int socket, bool group);

}  // namespace farcached::fabric
