// SPDX-License-Identifier: BSD-3-Clause
// The greeting on a connection between a proxy and a node: hello, then welcome or refuse. Pure: bytes to fields and back,
// and the decisions of both sides.
//
// H1  A proxy that cannot be served gets a sentence with both sides' versions. It can have any version: the beginning of a
//     hello never changes (HelloRecord).
// H2  The node chooses the highest version that both sides support, and sends it in the welcome.
// H3  Agreed limits are the smaller of both sides'.
// H4  A welcome has secrets of the incarnation (hash seed, check secret): it is never logged whole.
// H5  A peer older than version_with_in_place is served two-sided (S18). A node answers such a proxy with the layout that
//     the proxy named, without regions, leases and check secret. If a node refuses a proxy's versions, the proxy greets it
//     once more as the version before (versions_two_sided). It ignores every field of the answer that would let it read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/broken.h"
#include "base/node_clock.h"
#include "base/out_buffer.h"
#include "protocol/auth.h"
#include "protocol/frame.h"
#include "protocol/layout.h"
#include "protocol/layout_hash.h"

namespace farcached::protocol {

constexpr uint32_t name_bytes_max = 128;  // of a proxy, a host, a node: two fit into a sentence
constexpr uint32_t credits_highest = 1 << 16;
constexpr uint32_t credits_default = 256;
constexpr uint32_t regions_max = 64;
constexpr uint32_t copies_highest = 2;

struct Versions {
    uint32_t protocol = protocol_version;
    uint32_t protocol_lowest = protocol_version_lowest;
    uint32_t layout = layout::layout_version;
    uint64_t layout_hash = layout::layout_hash;
};

// The last versions without in-place writes of items (H5).
constexpr Versions versions_two_sided{version_with_in_place - 1, protocol_version_lowest, layout::before_in_place.version,
                                      layout::before_in_place.hash};

// The versions of this process.
inline Versions own_versions() {
    if (broken::faults.speaks < version_with_in_place) return versions_two_sided;
    Versions own;
    own.protocol = std::min(own.protocol, broken::faults.speaks);
    return own;
}

struct Hello {
    Versions speaks = own_versions();
    std::string name;  // of the proxy, for logs and farctl; printable, without blanks
    // Set only if the proxy supports a version of this process.
    std::string host;  // identifies the host, as the boot id does
    uint32_t pid = 0;
    uint32_t frame_bytes_max = frame_bytes_default;  // wanted; header and body
    uint32_t credits = credits_default;              // wanted: frames of requests in flight
    std::optional<AuthNonce> nonce;                  // the proxy has a key, and demands a proof of the node (S16)
    uint32_t copies = 0;                             // nodes that it keeps an item on: 1 or 2; 0: not sent
};

enum class RegionAccess : uint32_t {
    none,    // every read is two-sided
    mapped,  // through the descriptor from the Unix socket
    rdma_read,
};

struct RegionFact {
    uint32_t id = 0;
    uint64_t bytes = 0;
    RegionAccess access = RegionAccess::none;
};

struct Welcome {
    uint32_t version = protocol_version;  // of both sides from here on
    uint32_t layout_version = layout::layout_version;
    uint64_t layout_hash = layout::layout_hash;
    std::string name;           // of the node
    uint64_t incarnation = 0;   // random, not 0
    uint64_t hash_seed = 0;     // of the key hash
    uint64_t check_secret = 0;  // of the check in each item
    NodeReading now;            // of the node, after the hello had arrived; its fraction and its right by version
    int64_t started_unix = 0;   // Unix time at which that clock read 0
    uint64_t item_bytes_max = 0;
    uint32_t frame_bytes_max =
        frame_bytes_default;             // in a node's facts: offered; in an answer: agreed
    uint32_t credits = credits_default;  // in facts and in an answer, as above
    uint32_t term_ms_min = 0;  // the shortest and the longest lease; 0 and 0: no leases
    uint32_t term_ms_max = 0;
    uint32_t grace_ms = 0;  // from the end of the last lease until memory is reused
    std::vector<RegionFact> regions;
};

//        name              help
#define REFUSALS(X)                                                            \
    X(protocol_mismatch, "proxy and node speak no common protocol version")    \
    X(layout_mismatch, "proxy and node were built for different item layouts") \
    X(limits, "the limits that the proxy wants are too small to work with")    \
    X(full, "the node has as many connections as it may have")                 \
    X(stopping, "the node stops")                                              \
    X(authentication, "proxy and node do not hold the same key")               \
    X(copies, "the node does not serve proxies with this value of replicas")   \
    X(unknown, "the node gave a reason that this version does not know")

enum class Refusal : uint16_t {
#define X(name, help) name,
    REFUSALS(X)
#undef X
        count
};
inline constexpr EnumText refusal_texts[] = {
#define X(name, help) {#name, help},
    REFUSALS(X)
#undef X
};
constexpr std::string_view refusal_name(Refusal value) { return text_of(refusal_texts, value).name; }
constexpr std::string_view refusal_help(Refusal value) { return text_of(refusal_texts, value).help; }

struct Refuse {
    Refusal reason = Refusal::unknown;
    std::string text;  // one printable sentence for the other side's log
};

// ---- the decisions ----------------------------------------------------------------------------------

// The node's decision. `facts`: its welcome before agreement, with the limits that it offers.
std::variant<Welcome, Refuse> check(const Hello& hello, const Welcome& facts,
                                    const Versions& speaks = own_versions());

// The proxy's decision on a parsed welcome: why it cannot go on, or nothing. `hello` is the one that it sent.
std::optional<Refuse> check_welcome(const Welcome& welcome, const Hello& hello);

// Do peers that agreed on this version read one-sided? (S18)
inline bool reads_one_sided(uint32_t version) {
    return version >= std::min(version_with_in_place, own_versions().protocol) || broken::s18_ignore_versions;
}

// Removes from a welcome the fields that a peer needs to read one-sided.
void make_two_sided(Welcome& welcome);

// The limits of the receiver of `sender`'s frames from here on.
FrameLimits agreed_limits(const Welcome& welcome, Sender sender);

// ---- authentication (protocol/auth.h) --------------------------------------------------------------------

// A proxy's claims of its key.
struct Proof {
    AuthRole role = AuthRole::none;
    std::string_view name;
    AuthProof proof{};
    std::string_view claims;  // the whole frame without the proof's bytes
};
void append_challenge(OutBuffer& out, const AuthNonce& nonce);
FrameError parse_challenge(const Frame& frame, AuthNonce& nonce);
// False: no proof could be computed.
bool append_proof(OutBuffer& out, const AuthKey& key, std::string_view hello, std::string_view challenge);
// `bytes` is whole_frame() of the frame; the result's views point into it.
FrameError parse_proof(std::string_view bytes, Proof& proof);
// A welcome with the node's grant and proof. False: as above, and nothing was appended.
bool append_proved_welcome(OutBuffer& out, const Welcome& welcome, std::string_view grant, const AuthKey& key,
                           std::string_view hello, std::string_view challenge, std::string_view proof);
// Does the node hold the key? Tells nothing of the rest of the frame.
bool welcome_is_proved(const Frame& frame, const AuthKey& key, std::string_view hello, std::string_view challenge,
                       std::string_view proof);
// Of a frame for which that is true. The grant points into the frame.
FrameError parse_proved_welcome(const Frame& frame, Welcome& welcome, std::string_view& grant);
// Of a proxy: 1 to grant bytes of fabric/channel.h.
void append_grant(OutBuffer& out, std::string_view grant);

// ---- bytes ------------------------------------------------------------------------------------------

// Append one frame. Names that do not fit are our own bug (CHECK); a long sentence is cut.
void append_hello(OutBuffer& out, const Hello& hello);
void append_welcome(OutBuffer& out, const Welcome& welcome);
void append_refuse(OutBuffer& out, const Refuse& refuse);

// For a frame of that kind. On an error the result is unspecified.
// `speaks`: our versions. If the hello has none of them, only its versions and name are read.
FrameError parse_hello(const Frame& frame, Hello& hello, const Versions& speaks = own_versions());
FrameError parse_welcome(const Frame& frame, Welcome& welcome);
FrameError parse_refuse(const Frame& frame, Refuse& refuse);

// 1 to name_bytes_max printable bytes without blanks.
bool is_name(std::string_view name);

}  // namespace farcached::protocol
