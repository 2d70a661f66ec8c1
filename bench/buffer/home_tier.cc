// SPDX-License-Identifier: BSD-3-Clause
#include "bench/buffer/home_tier.h"

#include <poll.h>

#include <cstdio>
#include <ctime>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>

#include "node/store/away_items.h"
#include "node/store/pages.h"

namespace farcached::bench {

namespace {

constexpr uint64_t second_ns = 1'000'000'000;
constexpr uint64_t zero_before_ns = 2 * second_ns;  // a node's clock begins at 2
constexpr uint64_t disk_bytes = UINT64_C(64) << 20;
constexpr uint64_t segment_bytes = UINT64_C(1) << 20;
constexpr uint32_t item_bytes_max = 32 << 10;

void say(const std::string& text) { std::fprintf(stderr, "farbench buffer: %s\n", text.c_str()); }

node::RunClock clock_from(uint64_t zero_ns) {
    const int64_t running_s = int64_t((boottime_ns() - zero_ns) / second_ns);
    return {int64_t(zero_ns / second_ns), int64_t(std::time(nullptr)) - running_s};
}

std::unique_ptr<node::DiskStore> open_disk(const std::string& path, uint64_t former_store) {
    node::DiskConfig config;
    config.path = path;
    config.bytes = disk_bytes;
    config.segment_bytes = segment_bytes;
    config.buffer_bytes = segment_bytes;
    config.former_store = former_store;
    config.say = say;
    auto opened = node::DiskStore::open(config);
    if (const auto* problem = std::get_if<Problem>(&opened)) throw std::runtime_error(problem->text);
    return std::get<0>(std::move(opened));
}

}  // namespace

HomeTier::HomeTier(const Config& config)
    : zero_ns_(boottime_ns() - zero_before_ns),
      restart_(config.files + ".items", clock_from(zero_ns_), [](bool warning, const std::string& text) {
          if (warning) say(text);
      }),
      disk_(open_disk(config.files + ".values", restart_.former_disk())) {
    node_ = restart_.made([&] {
        node::Config of_node;
        of_node.grows = false;
        of_node.offered = false;
        of_node.memory_bytes = config.memory_bytes;
        of_node.item_bytes_max = item_bytes_max;
        of_node.partitions = 1;
        of_node.workers = 1;
        of_node.file = restart_.file();
        of_node.disk = disk_.get();
        of_node.spill.recache_rate = config.recache_rate;
        of_node.spill.drop_unread = false;  // H2
        return std::make_unique<node::Node>(of_node);
    });
    restart_.carry_out(*node_, 1, now());
    gets_ = std::make_unique<node::AwayGets>(
        *node_, [this](const node::AwayGets::Done& done) { over(done.reply, done.value); },
        [](uint64_t) { return true; });
}

HomeTier::~HomeTier() {
    gets_.reset();
    (void)disk_->flush();  // it has reported errors
    restart_.stop(now());
}

NodeSeconds HomeTier::now() const { return NodeSeconds((boottime_ns() - zero_ns_) / second_ns); }

void HomeTier::over(const protocol::GetReply& reply, std::string_view value) {
    done_ = true;
    hit_ = reply.status == protocol::GetReply::Status::hit;
    value_->assign(value);
}

From HomeTier::get(std::string_view key, std::string& value) {
    protocol::GetOp op;
    op.key = node_->key(key);
    const auto sink = [&](const protocol::ItemMeta& meta) {
        value.resize(meta.value_len);
        return value.data();
    };
    node::Place place{};
    const protocol::GetReply reply = node_->get(op, now(), sink, /* lent= */ nullptr, &place);
    if (reply.status != protocol::GetReply::Status::hit) return From::nowhere;
    if (place == node::Place{}) return From::memory;
    value_ = &value;
    done_ = false;
    gets_->get(0, key, reply, place);
    while (!done_) {
        pollfd one{gets_->fd(), POLLIN, 0};
        (void)poll(&one, 1, -1);
        gets_->ready(now());
    }
    if (!hit_) throw std::runtime_error("the file has lost a value");
    return From::file;
}

void HomeTier::set(std::string_view key, std::string_view value) {
    protocol::StoreOp op;
    op.key = node_->key(key);
    op.value = value;
    if (node_->store(op, now()).status != protocol::StoreReply::Status::stored)
        throw std::runtime_error("a value was not stored");
}

uint64_t HomeTier::statistic(std::string_view name) {
    const node::DiskStatistics numbers = disk_->statistics();
    for (const auto& row : node::DiskStatistics::rows())
        if (row.name == name) return row.of(numbers);
    throw std::runtime_error("the node has no statistic " + std::string(name));
}

void HomeTier::write_through(std::string_view key, std::string_view value) {
    const std::optional<node::Place> place = disk_->put(key, value, 0);
    if (!place.has_value() || !disk_->flush()) throw std::runtime_error("a value was not written to the file");
    disk_->forget(*place);
}

void HomeTier::write_buffers_out() {
    if (!disk_->flush()) throw std::runtime_error("a value was not written to the file");
}

void HomeTier::all_to_file() {
    node_->away().rules().idle_s = 0;
    for (uint64_t page = 0; page < node_->pages().count(); page++) node_->pages().sweep(page, now());
    node_->away().rules().idle_s = UINT32_MAX;
    write_buffers_out();
}

}  // namespace farcached::bench
