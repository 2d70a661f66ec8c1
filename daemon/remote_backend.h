// SPDX-License-Identifier: BSD-3-Clause
// RemoteBackend: a worker's connections to the nodes, one each. Per operation it chooses the node, and the way: mapped memory,
// remote pointer or RPC.
//
// Owner: a worker's thread, whose event base reports ready connections and timers.
//
// M1  Requests to a node without room are postponed in order, and their clients wait (Backend::crowded). Later requests to that
//     node queue behind them; other nodes are not affected. A request that waits for an earlier one of its session (NodeLink,
//     K3) delays that session only.
// M2  Every waiting or submitted request is answered within NodeOptions::timeout_ns, as unavailable if need be, or within that
//     time after the node's last answer to an earlier request (NodeLink, K6).
// M3  A down or drained node gets no requests for keys: they are unavailable at once, or with failover go to the next node on
//     the ring that is up. Until the first connection is made or has failed, they wait.
// M4  A lock-free read of a node's mapped memory counts only if its session has no unanswered mutation of the key, and the
//     memory's owner is seen alive after the copy (S9).
// M5  A request to all nodes is unavailable if one of them is; the others still get it. A drained node gets it too: it reports
//     its statistics, and flushed items do not come back with it.
// M6  take() replaces the set of nodes between two requests. A node in both sets keeps its connection if the connection options
//     are equal. A removed node gets no new requests; those under way are answered or time out (M2), and then its connection
//     ends, after four timeouts at the latest. Only then does a new connection to the same node begin, and new requests wait
//     for it: none overtakes an earlier one (B3).
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/backend.h"
#include "daemon/nodes.h"
#include "daemon/reply_queue.h"
#include "fabric/buffer_pool.h"
#include "proxy/local_get.h"
#include "proxy/node_link.h"

namespace farcached::daemon {

constexpr size_t landing_bytes = size_t(4) << 20;  // for one-sided reads of a worker
constexpr size_t lending_bytes = size_t(4) << 20;  // for large values that nodes READ from a worker

class RemoteBackend final : public Backend {
  public:
    // All outlive this. number: the worker's.
    RemoteBackend(Nodes& nodes, uint32_t number, event_base* base, ReplyPool& pool);
    ~RemoteBackend() override;
    RemoteBackend(const RemoteBackend&) = delete;
    RemoteBackend& operator=(const RemoteBackend&) = delete;

    // Begins to connect. In the worker's thread.
    void start();
    // Takes the current set of nodes (M6). In the worker's thread, outside of ask(). Throws std::bad_alloc: the old set stays.
    void take();
    // Fails all unanswered requests. In the worker's thread, after the last ask().
    void stop();

    Asked ask(const protocol::GetOp& op, Wanted wanted, Ticket ticket, ValueSink value,
              protocol::GetReply& now) override;
    Asked ask(const protocol::StoreOp& op, Ticket ticket, protocol::StoreReply& now) override;
    Asked ask(const protocol::DeleteOp& op, Ticket ticket, protocol::DeleteReply& now) override;
    Asked ask(const protocol::ArithOp& op, Ticket ticket, protocol::ArithReply& now) override;
    Asked ask(const protocol::ForgetOp& op, Ticket ticket) override;
    Asked ask(const protocol::FlushOp& op, Ticket ticket) override;
    Asked ask(const protocol::StatsOp& op, std::string_view node, Ticket ticket) override;
    void expect(std::span<const protocol::Key> keys) override;
    bool too_large(size_t key_bytes, uint64_t value_bytes) const override;
    void end_tick() override;
    // When its timer expires, on boottime_ns(); UINT64_MAX: never.
    uint64_t timer_at_ns() const { return timer_at_ns_; }

  private:
    struct Node;
    struct Postponed;
    struct Gather;
    class GatherSink;
    class TicketSink;

    static void on_ready(evutil_socket_t, short what, void* node);
    static void on_timer(evutil_socket_t, short, void* backend);

    uint64_t now();
    proxy::AskOptions options(Ticket ticket);
    Node* choose(std::string_view key);
    Node* usable(uint32_t place);
    template <class Op>
    Asked ask_node(const Op& op, Ticket ticket);
    template <class Op>
    Asked ask_leased(const Op& op, Ticket ticket);
    template <class Op>
    Asked ask_link(Node& node, Op op, proxy::AskOptions options, proxy::ReplySink& sink, Ticket ticket, bool gather);
    template <class Op>
    void postpone(Node& node, const Op& op, proxy::AskOptions options, proxy::ReplySink& sink, bool gather);
    template <class Op>
    Asked ask_all(const Op& op, Ticket ticket, bool stats, Node* only);
    bool read_local(Node& node, const protocol::GetOp& op, uint64_t session, ValueSink value, protocol::GetReply& now);
    Asked unavailable(Ticket ticket, proxy::AskFailure why);
    void ask_postponed(Node& node);
    proxy::Asked ask_again(Node& node, Postponed& postponed);
    void give_up_postponed(Node& node, uint64_t before_ns);
    void give_up(const Postponed& postponed, proxy::AskFailure why);
    Node* flush_touched();
    std::unique_ptr<Node> make_node(const NodeSet& set, size_t place);
    void start(Node& node);
    bool retire();
    void touched(Node& node);
    template <class Do>
    bool with_memory(Node& node, Do&& body) noexcept;
    void come_again(Node& node);
    void set_timer();
    void gathered(uint64_t cookie, bool ok, std::string_view text);
    void answer_stats(const Gather& done);

    Nodes& nodes_;
    const uint32_t number_;
    event_base* const base_;
    ReplyPool& pool_;
    fabric::BufferPool landing_, lending_;
    std::unique_ptr<TicketSink> tickets_;
    std::unique_ptr<GatherSink> gathers_sink_;
    std::shared_ptr<const NodeSet> set_;
    std::vector<std::unique_ptr<Node>> list_;     // of set_, in its order
    std::vector<std::unique_ptr<Node>> leaving_;  // M6
    std::vector<Node*> touched_;
    uint32_t mapped_ = 0;  // nodes with mapped memory
    std::map<uint64_t, Gather> gathers_;
    uint64_t next_gather_ = 0;
    event timer_{};
    uint64_t timer_at_ns_ = UINT64_MAX;
    uint64_t now_ns_ = 0;
    bool now_is_old_ = true;
    uint32_t chance_;
};

}  // namespace farcached::daemon
