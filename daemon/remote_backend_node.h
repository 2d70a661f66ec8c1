// SPDX-License-Identifier: BSD-3-Clause
// RemoteBackend::Node: a worker's connection to one node, and its postponed requests. For the files of RemoteBackend only.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <variant>

#include "base/boottime.h"
#include "base/check.h"
#include "daemon/remote_backend.h"

namespace farcached::daemon {

// A request to be sent when there is room. Its views lie in `bytes` and in options.value.
struct RemoteBackend::Postponed {
    using Op = std::variant<protocol::GetOp, protocol::StoreOp, protocol::DeleteOp, protocol::ArithOp,
                            protocol::ForgetOp, protocol::FlushOp, protocol::StatsOp>;
    Op op;
    std::string bytes;
    proxy::AskOptions options;
    proxy::ReplySink* sink;
    bool gather;
};

struct RemoteBackend::Node final : proxy::LinkEvents {
    Node(RemoteBackend& backend, std::shared_ptr<OneNode> node, const NodeOptions& options)
        : owner(backend),
          one(std::move(node)),
          reads_local(options.local_read),
          local(fabric::RegionView()),
          link(backend.nodes_.link_config(*one, options, backend.number_),
               {backend.nodes_.maker(one, {{backend.landing_.data(), backend.landing_.size()},
                                           {backend.lending_.data(), backend.lending_.size()}}),
                boottime_ns, *this, backend.nodes_.pointer_table(), &backend.landing_, &backend.lending_}) {
        owner.nodes_.add(*one, link.counters(), local.counters());
    }
    ~Node() override {
        map(nullptr);
        owner.nodes_.remove(one, link.counters(), was_up);
    }

    void watch(int fd) override {
        watched_fd = fd;
        listen(EV_READ);
    }
    void unwatch(int) override {
        event_del(&readiness);
        watched_fd = -1;
        watched_for = 0;
    }
    void listen(short what) {
        if (watched_for == what) return;
        if (watched_for != 0) event_del(&readiness);
        watched_for = what;
        event_assign(&readiness, owner.base_, watched_fd, short(what | EV_PERSIST), on_ready, this);
        CHECK(event_add(&readiness, nullptr) == 0);
    }
    void came_up() override {
        starting = false;
        was_up = true;
        retry = true;
        owner.nodes_.came_up(*one, link.welcome());
        map(reads_local ? link.mapped_region() : nullptr);
        if (mapped != nullptr) local.aim(*mapped);
    }
    void went_down(proxy::LinkDown why, const std::string& text) noexcept override {
        starting = false;
        retry = true;
        map(nullptr);
        const uint64_t now_ns = owner.now(), retry_ns = link.next_tick_ns();
        const bool tries = retry_ns > now_ns && retry_ns != UINT64_MAX;
        const uint64_t retry_s = tries ? (retry_ns - now_ns + 999'999'999) / 1'000'000'000 : 0;
        owner.nodes_.went_down(*one, {was_up, why, text, link.requests_lost(), retry_s});
        was_up = false;
    }
    void room() override { retry = true; }
    void read_failed(std::string_view key, bool by_index, std::string_view why) override {
        owner.nodes_.read_failed(*one, key, by_index, why);
    }
    void map(const fabric::RegionView* region) {
        owner.mapped_ += uint32_t(region != nullptr) - uint32_t(mapped != nullptr);
        mapped = region;
    }
    bool reachable() const { return link.up() || starting; }
    // A request of this session is postponed, or one of another session with an equal remainder.
    bool waits(uint64_t session) const { return waiting[session % waiting.size()] != 0; }
    // True: the session's next request may be sent at once.
    bool asks_at_once(uint64_t session) const { return link.up() && !for_room && !waits(session); }
    bool has_answered() const { return postponed.empty() && link.requests_under_way() == 0; }

    RemoteBackend& owner;
    const std::shared_ptr<OneNode> one;
    const bool reads_local;
    bool starting = true;   // neither up nor failed so far (M3)
    uint64_t leaves_by_ns = UINT64_MAX;  // of a leaving node: unanswered requests fail then (M6)
    bool started = false;   // false: the connection before it must end first (M6)
    bool was_up = false;
    bool retry = false;     // postponed requests can be sent, or must fail
    bool is_touched = false;
    const fabric::RegionView* mapped = nullptr;  // while up, if reads of its memory are on
    proxy::LocalGet local;
    std::list<Postponed> postponed;  // a list: views in each point into itself
    bool for_room = false;           // some wait for room or the connection: new requests queue behind them
    std::array<uint32_t, 256> waiting{};  // postponed requests by session number
    event readiness{};
    int watched_fd = -1;
    short watched_for = 0;
    proxy::NodeLink link;
};

// Runs `body` for a connection. If memory runs out, the connection ends: false.
template <class Do>
bool RemoteBackend::with_memory(Node& node, Do&& body) noexcept {
    try {
        body();
        return true;
    } catch (const std::bad_alloc&) {
        node.link.starve(now());
        return false;
    }
}

}  // namespace farcached::daemon
