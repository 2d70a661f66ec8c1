// SPDX-License-Identifier: BSD-3-Clause
// The memory of one connection between two processes of a host: two rings of bytes, one each way, each with one writer and
// one reader. Each side has a sleep word: the events that it sleeps for.
//
//  0       fixed: magic, version, ring_bytes
//  128     to_node   | tail (the writer's) ... 64 | head (the reader's) ... 64 |
//  256     to_proxy  | tail                       | head                       |
//  384     node's sleep word ... 128 | 512  proxy's sleep word ...
//  640     word of the proxy's last report, in the node's container ... 128 | 768  word of the node's, in the proxy's
//  4096    the bytes of to_node (ring_bytes), then those of to_proxy
//  ...     the node's container, then the proxy's (container_bytes each; not in version 1; not used by version 2)
//
// Owner: a ShmChannel at each end, in its thread. The process at the other end reads and writes this memory at any time.
//
// G1  A position counts all bytes ever written or read; the byte at position p lies at p modulo ring_bytes.
// G2  Each side uses its own private positions and only publishes them. It takes the other side's position if it is
//     possible, and ends the connection if not: no value there can lead outside a ring (S10).
// G3  A side that goes to sleep sets its sleep word, then checks the ring once more. A side that publishes a position then
//     checks whether the other sleeps. A full fence separates both steps of each: at least one of them sees the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "base/result.h"
#include "fabric/channel.h"
#include "fabric/socket.h"
#include "protocol/words.h"

namespace farcached::fabric {

constexpr uint32_t ring_bytes_min = 16 * 1024;
constexpr uint32_t ring_bytes_max = 64 * 1024 * 1024;
constexpr uint32_t ring_bytes_default = 256 * 1024;  // four frames of the usual size
constexpr uint64_t link_magic = 0x6b6e696c63616663;  // "cfaclink" in memory order
constexpr uint32_t link_version = 3;
constexpr uint32_t link_version_lowest = 1;
constexpr uint32_t link_version_with_containers = 2;
constexpr uint32_t link_version_with_reports = 3;  // a word describes the report in a container

struct RingPositions {
    alignas(64) uint64_t tail;
    alignas(64) uint64_t head;
};

// The last report in a container: | number:32, of reports so far | bytes:32 |. Stored after the bytes (release).
constexpr uint64_t written_word(uint32_t number, uint32_t bytes) { return uint64_t(number) << 32 | bytes; }

// A sleep word: bits for the events that a side sleeps for; 0: it is awake.
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
    alignas(128) uint64_t node_written;   // by the proxy
    alignas(128) uint64_t proxy_written;  // by the node
};
static_assert(offsetof(LinkShared, to_node) == 128);
static_assert(offsetof(LinkShared, to_proxy) == 256);
static_assert(offsetof(LinkShared, node_sleeps) == 384);
static_assert(offsetof(LinkShared, proxy_sleeps) == 512);
static_assert(offsetof(LinkShared, node_written) == 640);
static_assert(offsetof(LinkShared, proxy_written) == 768);
static_assert(sizeof(LinkShared) <= 4096);

constexpr size_t link_rings_offset = 4096;
constexpr bool ring_bytes_valid(uint32_t n) {
    return n >= ring_bytes_min && n <= ring_bytes_max && (n & (n - 1)) == 0;
}

class RingWriter {
  public:
    RingWriter(RingPositions& shared, char* ring, uint32_t ring_bytes)
        : shared_(shared), ring_(ring), ring_bytes_(ring_bytes) {}
    // Writes as much as there is room for; returns how much. Nothing: the reader's position is impossible.
    std::optional<size_t> write(std::string_view bytes);
    bool has_room();  // also true if the reader's position is impossible: write() reports that

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
    // Copies at most `room` bytes; returns how many. Nothing: the writer's position is impossible.
    std::optional<size_t> read(char* to, size_t room);
    bool has_bytes() const;  // also true if the writer's position is impossible: read() reports that

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

    // The node makes it, of a size that cannot change; nullptr: errno has the cause.
    static std::unique_ptr<LinkMemory> make(uint32_t ring_bytes, uint32_t version = link_version);
    // The proxy gets it.
    static Result<std::unique_ptr<LinkMemory>> adopt(Descriptor file, uint32_t ring_bytes, uint32_t version = link_version);

    int fd() const { return file_.get(); }
    void close_file() { file_.reset(); }  // the mapping stays
    LinkShared& shared() { return *reinterpret_cast<LinkShared*>(base_); }
    char* ring_to_node() { return base_ + link_rings_offset; }
    char* ring_to_proxy() { return base_ + link_rings_offset + ring_bytes_; }
    uint32_t ring_bytes() const { return ring_bytes_; }
    // nullptr: this version has none, or has no words for reports.
    char* node_container() { return containers(0); }
    char* proxy_container() { return containers(container_bytes); }
    static size_t bytes(uint32_t ring_bytes, uint32_t version = link_version) {
        const size_t behind = version >= link_version_with_containers ? 2 * container_bytes : 0;
        return link_rings_offset + 2 * size_t(ring_bytes) + behind;
    }

  private:
    LinkMemory(Descriptor file, char* base, uint32_t ring_bytes, uint32_t version);
    char* containers(size_t offset) {
        if (version_ < link_version_with_reports) return nullptr;
        return base_ + bytes(ring_bytes_, link_version_lowest) + offset;
    }
    Descriptor file_;
    char* base_;
    uint32_t ring_bytes_, version_;
};

// The containers of both ends (fabric/channel.h, C7), each with its word. Each end writes only the other's.
class ShmReports {
  public:
    struct End {
        char* container;
        uint64_t* word;
    };
    ShmReports(const End& own, const End& other) : own_(own), other_(other) {}

    void copy(char* to, size_t bytes) const {
        CHECK(bytes <= container_bytes);
        std::memcpy(to, own_.container, bytes);
    }
    void write(std::string_view bytes) {
        std::memcpy(other_.container, bytes.data(), bytes.size());
        words::store_release(other_.word, written_word(++written_, uint32_t(bytes.size())));
    }
    bool arrived() const { return words::load_relaxed(own_.word) != seen_; }
    // The length that the other end gives for its last report; any value.
    uint32_t take() {
        seen_ = words::load_acquire(own_.word);
        return uint32_t(seen_);
    }

  private:
    End own_, other_;
    uint64_t seen_ = 0;
    uint32_t written_ = 0;
};

}  // namespace farcached::fabric
