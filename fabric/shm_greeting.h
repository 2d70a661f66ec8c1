// SPDX-License-Identifier: BSD-3-Clause
// The greeting of the shm transport, on its Unix socket (SOCK_SEQPACKET, one record each way): the
// proxy says what it was built from, the node answers with the descriptors of the connection, or
// with a sentence. Nothing else is ever said on the socket; its end is the end of the peer.
//
// Both are checked, sizes first (S10). `version` and all before it never move, so that versions to
// come are refused in words.
//
// A node answers in the version of the hello. A proxy that is refused by a node of an older one that
// it also speaks, asks again in that. Version 1 has no containers (shm_ring.h); all else is the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "fabric/channel.h"
#include "fabric/descriptor.h"
#include "fabric/shm_ring.h"

namespace farcached::fabric {

constexpr uint64_t shm_hello_magic = 0x6f6d687363616661;    // "afacshmo" in memory order
constexpr uint64_t shm_welcome_magic = 0x776d687363616661;  // "afacshmw" in memory order
constexpr uint32_t shm_version = link_version;  // of the greeting and of the memory, which go together
constexpr uint32_t shm_version_lowest = link_version_lowest;

enum class ShmRefusal : uint32_t { none = 0, handshake = 1, permission = 2, no_memory = 3 };

struct ShmHello {
    uint64_t magic;
    uint32_t version;
    uint32_t layout_version;  // of protocol/layout.h: a region of another layout is not given out
    uint64_t layout_hash;
    uint32_t ring_bytes;  // wanted; 0: as the node likes
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
    uint32_t region_count;  // 0 or 1; the next two are of it
    uint64_t region_bytes;
    uint64_t incarnation;
    char text[160];  // if refused: why; padded with NUL
};
static_assert(sizeof(ShmWelcome) == 200);
static_assert(offsetof(ShmWelcome, version) == 8);
static_assert(offsetof(ShmWelcome, text) == 40);
static_assert(std::has_unique_object_representations_v<ShmWelcome>);

// The descriptors of a welcome, in the order in which they are sent.
struct ShmDescriptors {
    Descriptor link;        // of LinkMemory
    Descriptor wake_node;   // eventfd
    Descriptor wake_proxy;  // eventfd
    Descriptor region;      // for reading only; none if there is none
};

// ---- sending: false: errno says why
// -------------------------------------------------------------------

bool send_hello(int socket, const ShmHello& hello);
bool send_welcome(int socket, const ShmWelcome& welcome, const ShmDescriptors& descriptors);
// With a sentence that fits, or is cut.
bool send_refusal(int socket, ShmRefusal reason, std::string_view text, uint32_t version = shm_version);

// ---- receiving
// ------------------------------------------------------------------------------------------

// Why there is no greeting (yet).
struct ShmNot {
    bool yet = false;  // nothing has come
    ChannelEnd why = ChannelEnd::handshake;
    std::string text;
    uint32_t version = 0;  // of a node that refused and speaks another
};
std::optional<ShmNot> receive_hello(int socket, ShmHello& hello);
std::optional<ShmNot> receive_welcome(int socket, ShmWelcome& welcome, ShmDescriptors& descriptors);

// Is the peer of this user, or root? Its process id, or nothing and a sentence.
std::optional<int> admitted_peer(int socket, std::string& error);

}  // namespace farcached::fabric
