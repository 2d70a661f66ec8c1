// SPDX-License-Identifier: BSD-3-Clause
// The memory of one connection between two processes of a host: two rings of bytes, one each way,
// each with one writer and one reader, and for each side a word that says what it sleeps for.
//
//  0       fixed: magic, version, ring_bytes
//  128     to_node   | tail (the writer's) ... 64 | head (the reader's) ... 64 |
//  256     to_proxy  | tail                       | head                       |
//  384     node's sleep word ... 128 | 512  proxy's sleep word ...
//  4096    the bytes of to_node (ring_bytes), then those of to_proxy
//  ...     the node's container, then the proxy's (container_bytes each; not in version 1)
//
// G1  A position counts all bytes ever written or read; the byte at position p lies at p modulo
// ring_bytes. G2  Each side keeps its own positions to itself and only publishes them. What the
// other side publishes is taken
//     if it is possible, and ends the connection if not: nothing that stands there can lead outside
//     a ring (S10).
// G3  Whoever goes to sleep says so, then looks once more; whoever publishes a position looks then
// whether the other
//     sleeps. Between both steps of each is a full fence: at least one of them sees the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "fabric/channel.h"
#include "fabric/descriptor.h"

namespace farcached::fabric {

constexpr uint32_t ring_bytes_min = 16 * 1024;
constexpr uint32_t ring_bytes_max = 64 * 1024 * 1024;
constexpr uint32_t ring_bytes_default = 256 * 1024;  // four frames of the usual size
constexpr uint64_t link_magic = 0x6b6e696c63616663;  // "cfaclink" in memory order
constexpr uint32_t link_version = 2;
constexpr uint32_t link_version_lowest = 1;
constexpr uint32_t link_version_with_containers = 2;

struct RingPositions {
    alignas(64) uint64_t tail;
    alignas(64) uint64_t head;
};

// What a side sleeps for: bits; 0: it is awake.
constexpr uint32_t sleeps_for_input = 1;
constexpr uint32_t sleeps_for_room = 2;

struct alignas(128) LinkShared {
    uint64_t magic;
    uint32_t version;
    uint32_t ring_bytes;
    alignas(128) RingPositions to_node;
    alignas(128) RingPositions to_proxy;
    alignas(128) uint32_t node_sleeps;
    alignas(128) uint32_t proxy_sleeps;
};
static_assert(offsetof(LinkShared, to_node) == 128);
static_assert(offsetof(LinkShared, to_proxy) == 256);
static_assert(offsetof(LinkShared, node_sleeps) == 384);
static_assert(offsetof(LinkShared, proxy_sleeps) == 512);
static_assert(sizeof(LinkShared) <= 4096);

constexpr size_t link_rings_offset = 4096;
constexpr bool ring_bytes_valid(uint32_t n) {
    return n >= ring_bytes_min && n <= ring_bytes_max && (n & (n - 1)) == 0;
}

class RingWriter {
  public:
    RingWriter(RingPositions& shared, char* ring, uint32_t ring_bytes)
        : shared_(shared), ring_(ring), ring_bytes_(ring_bytes) {}
    // Writes what there is room for; how much that was. Nothing: the reader's position is
    // impossible.
    std::optional<size_t> write(std::string_view bytes);
    bool has_room();  // true too if the reader's position is impossible: write() tells

  private:
    bool look();
    RingPositions& shared_;
    char* ring_;
    uint32_t ring_bytes_;
    uint64_t tail_ = 0, head_seen_ = 0;
};

class RingReader {
  public:
    RingReader(RingPositions& shared, const char* ring, uint32_t ring_bytes)
        : shared_(shared), ring_(ring), ring_bytes_(ring_bytes) {}
    // Copies at most `room` bytes; how much that was. Nothing: the writer's position is impossible.
    std::optional<size_t> read(char* to, size_t room);
    bool has_bytes() const;  // true too if the writer's position is impossible: read() tells

  private:
    RingPositions& shared_;
    const char* ring_;
    uint32_t ring_bytes_;
    uint64_t head_ = 0;
};

// One side's mapping of the memory of a connection.
class LinkMemory {
  public:
    ~LinkMemory();
    LinkMemory(const LinkMemory&) = delete;
    LinkMemory& operator=(const LinkMemory&) = delete;

    // The node makes it, of a size that cannot change; nullptr: errno says why.
    static std::unique_ptr<LinkMemory> make(uint32_t ring_bytes, uint32_t version = link_version);
    // The proxy gets it; nullptr: `error` says what is wrong with it.
    static std::unique_ptr<LinkMemory> adopt(Descriptor file, uint32_t ring_bytes, std::string& error,
                                             uint32_t version = link_version);

    int fd() const { return file_.get(); }
    void close_file() { file_.reset(); }  // the mapping stays
    LinkShared& shared() { return *reinterpret_cast<LinkShared*>(base_); }
    char* ring_to_node() { return base_ + link_rings_offset; }
    char* ring_to_proxy() { return base_ + link_rings_offset + ring_bytes_; }
    uint32_t ring_bytes() const { return ring_bytes_; }
    // nullptr: there are none.
    char* node_container() { return containers(0); }
    char* proxy_container() { return containers(container_bytes); }
    static size_t bytes(uint32_t ring_bytes, uint32_t version = link_version) {
        const size_t behind = version >= link_version_with_containers ? 2 * container_bytes : 0;
        return link_rings_offset + 2 * size_t(ring_bytes) + behind;
    }

  private:
    LinkMemory(Descriptor file, char* base, uint32_t ring_bytes, uint32_t version);
    char* containers(size_t offset) {
        if (version_ < link_version_with_containers) return nullptr;
        return base_ + bytes(ring_bytes_, link_version_lowest) + offset;
    }
    Descriptor file_;
    char* base_;
    uint32_t ring_bytes_, version_;
};

}  // namespace farcached::fabric
