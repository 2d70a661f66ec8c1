// SPDX-License-Identifier: BSD-3-Clause
// For tests of node/disk/: a folder, a small store in it, records whose bytes follow from a number, and reads that wait.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "node/disk/disk_reads.h"
#include "node/store/node.h"

namespace farcached::node::disk_tests {

constexpr uint64_t kib = 1024;

class Folder {
  public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "farcached-disk-XXXXXX").string();
        CHECK(mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    const std::string& path() const { return path_; }
    std::string file() const { return path_ + "/values"; }

  private:
    std::string path_;
};

// Segments of 64 KiB, buffers of 16 KiB.
inline DiskConfig small(const Folder& folder, bool ring, uint64_t segments = 8) {
    DiskConfig config;
    config.path = folder.file();
    config.segment_bytes = 64 * kib;
    config.bytes = segments * config.segment_bytes;
    config.buffer_bytes = 16 * kib;
    config.threads = 2;
    config.depth = 16;
    config.io_uring = ring;
    return config;
}

// A node of one partition, all of whose values move to that disk, and back when they are read.
inline Config node_with(DiskStore& disk, uint64_t memory_bytes) {
    Config config;
    config.memory_bytes = memory_bytes;
    config.item_bytes_max = 60 * kib;
    config.grows = false;
    config.offered = false;
    config.partitions = 1;
    config.disk = &disk;
    config.spill.recache_rate = 1;
    config.spill.drop_unread = false;
    return config;
}

// A get; `place` says where a value is that is not in memory.
inline protocol::GetReply get(Node& node, std::string_view key, NodeSeconds now, std::string& value, Place& place) {
    protocol::GetOp op;
    op.key = node.key(key);
    const auto room = [&](const protocol::ItemMeta& meta) {
        value.resize(meta.value_len);
        return value.data();
    };
    return node.get(op, now, room, nullptr, &place);
}

inline std::unique_ptr<DiskStore> open(const DiskConfig& config) {
    auto opened = DiskStore::open(config);
    if (auto* const problem = std::get_if<Problem>(&opened)) {
        std::fprintf(stderr, "%s\n", problem->text.c_str());
        std::abort();
    }
    return std::move(std::get<0>(opened));
}

// Empty: no problem.
inline std::string problem_of(const DiskConfig& config) {
    const auto opened = DiskStore::open(config);
    const auto* const problem = std::get_if<Problem>(&opened);
    return problem == nullptr ? "" : problem->text;
}

inline std::string key_of(uint64_t number) { return "key-" + std::to_string(number); }
inline std::string value_of(uint64_t number, size_t bytes_max = 3000) {
    std::minstd_rand random(uint32_t(number * 2654435761u + 1));
    std::string value(random() % bytes_max, '\0');
    for (char& byte : value) byte = char(random() >> 8);
    return value;
}

inline std::optional<Place> put(DiskStore& store, uint64_t number) {
    return store.put(key_of(number), value_of(number), ~number);
}
// Repeats until a buffer is free.
inline Place put_surely(DiskStore& store, uint64_t number) {
    for (;;) {
        if (const std::optional<Place> place = put(store, number)) return *place;
        usleep(200);
    }
}

inline bool is_record(const DiskRecord& record, uint64_t number) {
    return record.key == key_of(number) && record.value == value_of(number) && record.tag == ~number;
}

// Waits for complete reads, and takes them.
template <class Done>
size_t wait_and_take(DiskReads& reads, Done done) {
    pollfd waiting{reads.fd(), POLLIN, 0};
    CHECK(poll(&waiting, 1, 60'000) == 1 || errno == EINTR);
    return reads.take(done);
}

struct Seen {
    std::string key, value;
    uint64_t tag = 0;
};
inline std::optional<Seen> read(DiskReads& reads, const Place& place) {
    std::optional<Seen> seen;
    uint32_t times = 0;
    CHECK(reads.get(place, 7));
    while (times == 0)
        wait_and_take(reads, [&](uint64_t cookie, const DiskRecord* record) {
            CHECK(cookie == 7);
            times++;
            if (record != nullptr) seen = Seen{std::string(record->key), std::string(record->value), record->tag};
        });
    CHECK(times == 1);
    return seen;
}
inline bool reads_as(DiskReads& reads, const Place& place, uint64_t number) {
    const std::optional<Seen> seen = read(reads, place);
    return seen.has_value() && is_record({seen->key, seen->value, seen->tag}, number);
}

template <class Done>
bool wait_for(Done done) {
    for (int i = 0; i < 60'000; i++) {
        if (done()) return true;
        usleep(1000);
    }
    return false;
}

// Waits until no buffer waits for the disk.
inline void settle(DiskStore& store) {
    CHECK(wait_for([&] { return store.statistics().buffers_waiting == 0; }));
}

}  // namespace farcached::node::disk_tests
