// SPDX-License-Identifier: BSD-3-Clause
// For tests of restarts (-e): a folder in memory, a run of a node with its file, and what a client stores and gets.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.h"
#include "node/store/impl.h"
#include "node/store/restart.h"

namespace farcached::node::restart_tests {

constexpr RunClock first_clock{1'000'000, 2'000'000'000};
constexpr NodeSeconds now = 1000;

class Folder {
  public:
    Folder() {
        char name[] = "/dev/shm/farcached-restart-XXXXXX";
        CHECK(mkdtemp(name) != nullptr);
        path_ = name;
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string file() const { return path_ + "/items"; }

  private:
    std::string path_;
};

inline Config small() {
    Config config;
    config.memory_bytes = 8 << 20;
    config.item_bytes_max = 4 << 20;
    config.grows = false;
    config.partitions = 4;
    config.policy = PolicyKind::s3fifo;  // as in the daemons
    config.offered = false;
    return config;
}

// A process that has the file: from its start to its stop, or, without stop(), to its kill.
struct Run {
    explicit Run(const std::string& path, Config config = small(), RunClock clock = first_clock, NodeSeconds at = now)
        : restart(path, clock, [this](bool, const std::string& text) { said += text + "\n"; }) {
        config.file = restart.file();
        node = std::make_unique<Node>(config);
        flush_at = restart.carry_out(*node, 2, at);
    }
    void stop(NodeSeconds at = now) { restart.stop(at); }

    std::string said;
    Restart restart;
    std::unique_ptr<Node> node;
    NodeSeconds flush_at = 0;
};

inline protocol::StoreOp store_op(Node& node, std::string_view key, std::string_view value, NodeSeconds exptime = 0) {
    protocol::StoreOp op;
    op.key = node.key(key);
    op.value = value;
    op.exptime = exptime;
    return op;
}

inline uint64_t set(Node& node, std::string_view key, std::string_view value, NodeSeconds exptime = 0, uint32_t flags = 0) {
    protocol::StoreOp op = store_op(node, key, value, exptime);
    op.flags = flags;
    const protocol::StoreReply reply = node.store(op, now);
    CHECK(reply.status == protocol::StoreReply::Status::stored);
    return reply.cas;
}

struct Got {
    std::string value;
    protocol::ItemMeta meta;
};

inline std::optional<Got> get(Node& node, std::string_view key, NodeSeconds at = now) {
    protocol::GetOp op;
    op.key = node.key(key);
    Got got;
    const auto sink = [&](const protocol::ItemMeta& meta) {
        got.value.resize(meta.value_len);
        got.meta = meta;
        return got.value.data();
    };
    if (node.get(op, at, sink).status != protocol::GetReply::Status::hit) return std::nullopt;
    return got;
}

inline std::string value_of(Node& node, std::string_view key, NodeSeconds at = now) {
    const auto got = get(node, key, at);
    return got.has_value() ? got->value : "(none)";
}

inline bool remove(Node& node, std::string_view key) {
    protocol::DeleteOp op;
    op.key = node.key(key);
    return node.remove(op, now).status == protocol::DeleteReply::Status::deleted;
}

inline void touch(Node& node, std::string_view key, NodeSeconds exptime) {
    protocol::GetOp op;
    op.key = node.key(key);
    op.touch = exptime;
    CHECK(node.get(op, now, [](const protocol::ItemMeta&) -> char* { return nullptr; }).status ==
          protocol::GetReply::Status::hit);
}

inline void sweep(Node& node) {
    const uint64_t order = node.prefixes().unswept();
    for (uint64_t page = 0; page < node.pages().count(); page++) node.pages().sweep(page, now);
    node.prefixes().swept(order);
}

inline std::string long_value(size_t bytes, char fill) {
    std::string value(bytes, fill);
    for (size_t i = 0; i + 8 < bytes; i += 4096) value.replace(i, 6, std::to_string(100000 + i / 4096));
    return value;
}

inline void overwrite(const std::string& path, uint64_t at, const void* bytes, size_t size) {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && pwrite(fd, bytes, size, off_t(at)) == ssize_t(size));
    close(fd);
}

inline layout::RegionHeader header_in(const std::string& path) {
    layout::RegionHeader header{};
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && pread(fd, &header, sizeof header, 0) == ssize_t(sizeof header));
    close(fd);
    return header;
}

inline void make_file(const std::string& path, bool stopped = true) {
    std::filesystem::remove(path);
    Run run(path);
    for (int i = 0; i < 300; i++) set(*run.node, "k" + std::to_string(i), std::string(size_t(i), 'v'));
    set(*run.node, "large", long_value(300'000, 'l'));
    CHECK(run.node->prefixes().remove("other", now));
    if (stopped) run.stop();
}

}  // namespace farcached::node::restart_tests
