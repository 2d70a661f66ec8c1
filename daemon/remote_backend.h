// SPDX-License-Identifier: BSD-3-Clause
// RemoteBackend: a worker's way to the nodes: one connection to each, and for every operation the choice which node,
// and whether it is read in its memory, by a remote pointer, or asked.
//
// Owner: a worker's thread, whose event base tells when connections are ready and when time has passed.
//
// M1  A node that has no room for more is asked later, in order, and the client that asked waits (Backend::crowded);
//     everything asked of that node meanwhile waits behind it. Other nodes are asked as ever.
// M2  Whatever waits or was asked is answered within Nodes::Options::timeout_ns, as unavailable if need be, or within that
//     time after the node's last answer to what was asked before (NodeLink, K6).
// M3  A node that is down or drained is not asked for a key: its keys are unavailable at once, or with failover those of
//     the next node on the ring that is up. Until the first connection to it was made or failed, they wait.
// M4  A lock-free read of a node's mapped memory is answered only if no change of its key is unanswered, and the
//     owner of the memory is seen alive after the copy (S9).
// M5  What asks all nodes is unavailable if one of them is; the others are asked none the less. A drained one is asked,
//     too: it tells of itself, and what is flushed does not come back with it.
// M6  take() puts another set of nodes in the place of the one that was, between two requests. A node that is in both keeps
//     its connection, if what is said of connections is the same. One that is not is asked for nothing more; what it was
//     asked is answered by it, or given up in its time (M2), and then its connection ends, after four timeouts at the
//     latest. Only then is a new connection to the same node begun, so that nothing overtakes what was asked before (B3);
//     what is asked meanwhile waits.
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

class RemoteBackend final : public Backend {
  public:
    // All outlive this. number: the worker's.
    RemoteBackend(Nodes& nodes, uint32_t number, event_base* base, ReplyPool& pool);
    ~RemoteBackend() override;
    RemoteBackend(const RemoteBackend&) = delete;
    RemoteBackend& operator=(const RemoteBackend&) = delete;

    // Begins to connect; in the worker's thread.
    void start();
    // Takes the set of nodes of the moment (M6); in the worker's thread, outside of ask(). Throws std::bad_alloc: nothing
    // is taken then.
    void take();
    // Gives up what is unanswered; in the worker's thread, after which nothing is asked.
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
    // When its timer rings, on boottime_ns(); UINT64_MAX: it does not.
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
    Asked ask_link(Node& node, Op op, proxy::AskOptions options, proxy::ReplySink& sink, Ticket ticket, bool gather);
    template <class Op>
    void postpone(Node& node, const Op& op, proxy::AskOptions options, proxy::ReplySink& sink, bool gather);
    template <class Op>
    Asked ask_all(const Op& op, Ticket ticket, bool stats, Node* only);
    bool read_local(Node& node, const protocol::GetOp& op, ValueSink value, protocol::GetReply& now);
    Asked unavailable(Ticket ticket, proxy::AskFailure why);
    void ask_postponed(Node& node);
    void give_up_postponed(Node& node, uint64_t before_ns);
    void give_up(const Postponed& postponed, proxy::AskFailure why);
    Node* flush_touched();
    std::unique_ptr<Node> make_node(const NodeSet& set, size_t place);
    void start(Node& node);
    bool retire();
    void touched(Node& node);
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
    uint32_t mapped_ = 0;  // nodes whose memory is mapped here
    std::map<uint64_t, Gather> gathers_;
    uint64_t next_gather_ = 0;
    event timer_{};
    uint64_t timer_at_ns_ = UINT64_MAX;
    uint64_t now_ns_ = 0;
    bool now_is_old_ = true;
    uint32_t chance_;
};

}  // namespace farcached::daemon
