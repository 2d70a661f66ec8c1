// SPDX-License-Identifier: BSD-3-Clause
// A channel in memory whose every event the test chooses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric/channel.h"

namespace link_test {

using namespace farcached;

inline bool with_containers = false;  // what a new wire begins with

// Both directions of one connection, and the test's settings for it. Outlives the channel.
struct Wire {
    std::string to_node, to_proxy;
    size_t takes_bytes = SIZE_MAX;  // of a flush; the rest waits for the next ready()
    bool may_connect = true;
    bool mapped = true;                 // can_read()
    bool counts = false;                // counts_reads()
    size_t reads_most = SIZE_MAX;
    bool no_memory_to_read = false;
    std::optional<fabric::ChannelEnd> end;  // reported at the next ready()
    std::vector<fabric::ReadRequest> posted;
    std::deque<std::pair<uint64_t, fabric::ReadStatus>> completed;  // reported at the next ready()
    uint64_t posts = 0;
    uint64_t overlaps = 0;  // posted into memory that an earlier read still has (S12)
    uint64_t outside = 0;   // posted for what lies outside of the region (S9)
    uint64_t region_bytes = UINT64_MAX;
    const fabric::RegionView* view = nullptr;  // mapped_region(0)
    uint64_t lends = 0;
    bool containers = with_containers;
    std::deque<size_t> node_written, proxy_written;  // reported at the next take, or ready()
    std::string node_container = std::string(fabric::container_bytes, '\0'), proxy_container = node_container;
    bool connected = false, ended = false, alive = true;
    int64_t events_left = INT64_MAX;  // then it ends by itself
    bool looks = false;
    bool due = false;       // expect_replies()
    uint64_t due_ever = 0;  // times that it became true
    uint64_t sent_while_due = 0, sent_while_not_due = 0, told_after_end = 0;
};

class MemoryChannel final : public fabric::Channel {
  public:
    MemoryChannel(std::shared_ptr<Wire> wire, fabric::ChannelEvents& events)
        : wire_(std::move(wire)), events_(events) {}
    ~MemoryChannel() override { wire_->alive = false; }

    int fd() const override { return 77; }
    bool wants_write() const override { return out_.size() > 0; }
    void ready() override {
        if (wire_->ended) return;
        if (!wire_->connected && wire_->may_connect && spend()) {
            wire_->connected = true;
            events_.connected();
        }
        move_out();
        while (!wire_->completed.empty() && spend()) {
            const auto [token, status] = wire_->completed.front();
            wire_->completed.pop_front();
            events_.read_done(token, status);
        }
        while (!wire_->proxy_written.empty() && spend()) {
            const size_t bytes = wire_->proxy_written.front();
            wire_->proxy_written.pop_front();
            events_.written(bytes);
        }
        if (!wire_->to_proxy.empty() && spend()) {
            const std::string shown = wire_->to_proxy;  // of exact size: a read beyond it is detected
            wire_->to_proxy.erase(0, events_.received(shown));
        }
        if (wire_->end.has_value()) tell_end();
    }
    void flush() override {
        if (wire_->ended) return;
        if (wire_->connected) move_out();
        if (wire_->end.has_value()) tell_end();
    }
    const fabric::RegionView* mapped_region(uint32_t region) const override {
        return region == 0 ? wire_->view : nullptr;
    }
    bool owner_alive() const override { return true; }
    bool can_read() const override { return wire_->mapped; }
    bool counts_reads() const override { return wire_->counts; }
    bool post_read(const fabric::ReadRequest& request) override {
        if (wire_->posted.size() >= wire_->reads_most) return false;
        if (wire_->no_memory_to_read) throw std::bad_alloc();
        wire_->posts++;
        const char* from = reinterpret_cast<const char*>(request.landing);
        for (const fabric::ReadRequest& other : wire_->posted) {
            const char* at = reinterpret_cast<const char*>(other.landing);
            if (from < at + other.ptr.length && at < from + request.ptr.length) wire_->overlaps++;
        }
        if (!fabric::inside(request.ptr, wire_->region_bytes)) wire_->outside++;
        wire_->posted.push_back(request);
        return true;
    }
    void expect_replies(bool any) override {
        if (wire_->ended) wire_->told_after_end++;
        if (any && !wire_->due) wire_->due_ever++;
        wire_->due = any;
    }
    bool looks() const override { return wire_->looks; }
    uint64_t lends() const override { return wire_->lends; }
    bool has_container() const override { return wire_->containers; }
    void copy_container(char* to, size_t bytes) const override { wire_->proxy_container.copy(to, bytes); }
    bool post_report(std::string_view bytes) override {
        if (!wire_->containers) return false;
        wire_->node_container.replace(0, bytes.size(), bytes);
        wire_->node_written.push_back(bytes.size());
        return true;
    }
    void close() override { wire_->end = fabric::ChannelEnd::closed; }
    std::string describe() const override { return "memory:1"; }

  private:
    bool spend() {
        if (wire_->events_left == 0) wire_->end = fabric::ChannelEnd::reset;
        if (wire_->end.has_value()) return false;
        wire_->events_left--;
        return true;
    }
    void tell_end() {
        wire_->ended = true;
        events_.ended(*wire_->end, "memory:1: the connection was reset");
    }
    void move_out() {
        const size_t n = std::min(wire_->takes_bytes, out_.size());
        if (n == 0 || !spend()) return;
        (wire_->due ? wire_->sent_while_due : wire_->sent_while_not_due)++;
        wire_->to_node.append(out_.data(), n);
        const std::string rest(out_.data() + n, out_.size() - n);
        out_.clear(0);
        if (!rest.empty()) out_.append(rest);
    }

    std::shared_ptr<Wire> wire_;
    fabric::ChannelEvents& events_;
};

}  // namespace link_test
