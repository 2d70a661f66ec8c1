// SPDX-License-Identifier: BSD-3-Clause
// LinkPeer: a worker's connection to one node: the node's memory where it is mapped, the link, and the requests that are
// postponed. A get tries mapped memory first: mapped_memory(), then confirms(). Then ask() tries pointer, index and RPC
// (proxy/requests.h). proxy/onesided_share.h counts why a step was left for the next.
//
// Owner: Links, whose file states the rules M1 to M6. One thread, the worker's.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/engine/readiness.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/remote/nodes.h"
#include "fabric/buffer_pool.h"
#include "proxy/local_get.h"
#include "proxy/node_link.h"

namespace farcached::daemon {

constexpr size_t landing_bytes = size_t(4) << 20;  // for one-sided reads of a worker
constexpr size_t lending_bytes = size_t(4) << 20;  // for large values that nodes READ from a worker

class LinkPeer;

// Shared by the connections of one worker, and outlives them.
class LinkShared {
  public:
    LinkShared(Nodes& its_nodes, uint32_t worker, Waits& its_waits, ReplyPool& its_pool);

    // One reading for all work until clock_is_old().
    uint64_t now();
    void clock_is_old() { now_is_old_ = true; }

    Nodes& nodes;
    const uint32_t number;  // the worker's
    Waits& waits;
    ReplyPool& pool;
    fabric::BufferPool landing, lending;
    std::vector<LinkPeer*> touched;  // to be flushed at the end of the tick; there is room for all
    uint32_t mapped = 0;             // connections with mapped memory

  private:
    uint64_t now_ns_ = 0;
    bool now_is_old_ = true;
};

// PostponedRequests: one node's requests that wait for room, for the connection, or for an earlier one of their session.
//
// Owner: a LinkPeer.
// R1  The requests of a session leave in the order in which they were added. While one waits for room or the connection, all
//     new ones queue behind it; one that waits for its session delays that session only (M1).
// R2  A request owns what its views show: `bytes`, and options.value.
// R3  All have the same time limit, so the first one's deadline is the earliest (M2).
class PostponedRequests {
  public:
    // Both outlive this.
    PostponedRequests(LinkShared& shared, proxy::Requests& requests) : shared_(shared), requests_(requests) {}

    bool empty() const { return list_.empty(); }
    // One of this session waits, or one of another session with an equal remainder.
    bool any_of(uint64_t session) const { return waiting_[session % waiting_.size()] != 0; }
    // Must a new request of the session wait, too?
    bool must_queue(uint64_t session) const { return for_room_ || any_of(session); }
    void wait_for_room() { for_room_ = true; }
    // Throws std::bad_alloc, and then has changed nothing.
    template <class Op>
    void add(const Op& op, proxy::AskOptions options, proxy::ReplySink& sink);
    void send();
    // Fails those whose deadline is at or before this time; UINT64_MAX: all.
    void fail(uint64_t before_ns);
    // UINT64_MAX: none.
    uint64_t deadline_ns() const { return empty() ? UINT64_MAX : requests_.deadline_ns(list_.front().options); }

  private:
    struct Postponed {
        using Op = std::variant<protocol::GetOp, protocol::StoreOp, protocol::DeleteOp, protocol::ArithOp,
                                protocol::ForgetOp, protocol::FlushOp, protocol::StatsOp>;
        Op op;
        std::string bytes;
        proxy::AskOptions options;
        proxy::ReplySink* sink;
    };
    using Place = std::list<Postponed>::iterator;

    proxy::SubmitResult ask(const Postponed& request);
    static void fail(const Postponed& request, proxy::AskFailure why);
    Place erase(Place at);

    LinkShared& shared_;
    proxy::Requests& requests_;
    bool for_room_ = false;  // one waits for room or the connection
    std::list<Postponed> list_;  // a list: views in each point into itself
    std::array<uint32_t, 256> waiting_{};  // by session number
};

class LinkPeer final : private proxy::LinkEvents {
  public:
    LinkPeer(LinkShared& shared, std::shared_ptr<OneNode> node, const NodeOptions& options);
    ~LinkPeer() override;
    LinkPeer(const LinkPeer&) = delete;
    LinkPeer& operator=(const LinkPeer&) = delete;

    OneNode& node() const { return *node_; }
    const std::shared_ptr<OneNode>& shared_node() const { return node_; }

    // ---- life
    bool started() const { return started_; }
    void start();
    // Fails all unanswered requests.
    void stop();
    // Up, or its first attempt to connect has not ended (M3).
    bool reachable() const { return link_.up() || starting_; }
    bool has_answered() { return postponed_.empty() && link_.requests().under_way() == 0; }
    // Of a node that left the set: its unanswered requests fail then (M6).
    void leave_by(uint64_t at_ns) { leaves_by_ns_ = at_ns; }
    uint64_t leaves_by_ns() const { return leaves_by_ns_; }
    // When tick() is due, on boottime_ns(); UINT64_MAX: never.
    uint64_t next_tick_ns();
    void tick(uint64_t now_ns);
    // Lists it for flush().
    void touch();

    // ---- one key
    // The mapped memory that the session's get may read now (M4); nullptr: none.
    proxy::LocalGet* mapped_memory(uint64_t hash, uint64_t session);
    uint64_t hash(std::string_view key) const { return memory_.hash(key); }
    NodeSeconds node_seconds() { return link_.clock().latest(shared_.now()); }
    // After a hit in mapped_memory(). False: the memory's owner may be gone, so the hit does not count (S9).
    bool confirms() { return link_.channel()->owner_alive(); }
    // Reports the access of such a hit.
    void note_access(uint64_t hash, const fabric::Found& found);
    bool is_mapped() const { return mapped_ != nullptr; }
    // A get of this key follows: prefetches its bucket, or its set of the pointer table.
    void expect(std::string_view key) { link_.requests().expect(key); }
    const proxy::LocalGet& memory() const { return memory_; }

    // ---- requests
    // The sink gets the answer or the failure, perhaps before this returns. The value of `op` may move into options.value.
    template <class Op>
    SubmitResult ask(Op& op, proxy::AskOptions options, proxy::ReplySink& sink);
    // Sends what was submitted, and postponed requests while there is room.
    void flush();
    // Only READs to it are under way.
    bool waits_for_reads_alone() { return link_.only_reads(); }
    // Polls for completions of READs. True: some came, and flush() may have more to send.
    bool linger();

  private:
    void ready();

    void watch(int fd) override;
    void unwatch(int fd) override;
    void came_up() override;
    void went_down(proxy::LinkDown why, const std::string& text) noexcept override;
    void room() override { retry_ = true; }
    void read_failed(std::string_view key, bool by_index, std::string_view why) override;

    void listen(bool writable);
    void map(const fabric::RegionView* region);
    // Runs `body`. If memory runs out, the connection ends: false.
    template <class Do>
    bool with_memory(Do&& body) noexcept;
    void ask_postponed();

    LinkShared& shared_;
    const std::shared_ptr<OneNode> node_;
    const bool reads_mapped_;
    bool starting_ = true;     // neither up nor failed so far (M3)
    bool started_ = false;     // false: the connection before it must end first (M6)
    bool was_up_ = false;
    bool retry_ = false;       // postponed requests can be sent, or must fail
    bool is_touched_ = false;
    uint64_t leaves_by_ns_ = UINT64_MAX;
    const fabric::RegionView* mapped_ = nullptr;  // while up, if reads of its memory are on
    proxy::LocalGet memory_;
    int watched_fd_ = -1;  // -1: none
    bool is_listening_ = false, listens_to_write_ = false;
    const std::unique_ptr<Readiness> readiness_;
    proxy::NodeLink link_;
    PostponedRequests postponed_;
};

}  // namespace farcached::daemon
