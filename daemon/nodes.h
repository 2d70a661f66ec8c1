// SPDX-License-Identifier: BSD-3-Clause
// Nodes: the nodes behind this process, as all workers share them: what they are called, how they are reached, where
// keys are placed on them, and what has become of them.
//
// Owner: main. Made before the process forks; open() after, as the user that it will be.
// D1  What is configured is a NodeSet, which does not change. A reload makes another and puts it in its place; each
//     worker takes it between two requests. A node may be drained, which it tells every worker by one atomic.
// D2  Workers ask without a lock. Their backends report what happened to their connections; of all workers the first
//     whose connection comes up and the last that loses one are said in the log.
// D3  A node of the same name and address is the same before and after a reload: its connections stay, unless what is
//     said of all connections changed. What a node that is gone had counted is kept in a sum.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "conf/exit_status.h"
#include "conf/proxy_settings.h"
#include "conf/settings.h"
#include "daemon/host_addresses.h"
#include "daemon/nodes_view.h"
#include "daemon/proxy_events.h"
#include "daemon/watch.h"
#include "fabric/mapped_region.h"
#include "fabric/verbs_channel.h"
#include "process/log.h"
#include "proxy/node_link.h"
#include "proxy/placement.h"

namespace farcached::daemon {

// What all workers know of one node.
struct OneNode {
    uint32_t number = 0;  // as NodeShown's
    std::string name, address;
    conf::NodeChannel channel = conf::NodeChannel::shm;
    std::string place;                         // the name of its host; shm: its path
    uint16_t port = 0;                         // shm: 0
    std::shared_ptr<HostAddresses> host;       // tcp, verbs
    std::atomic<bool> drained{false};
    std::atomic<uint32_t> links_up{0};
    std::atomic<bool> tried{false};            // a first connection was made, or failed
    process::LimitedLines lines;               // of its coming and going
    std::atomic<uint64_t> incarnation{0};

  private:
    friend class Nodes;
    struct LinkCells {
        const proxy::LinkCounters* link;
        const proxy::LocalGetCounters* local;
    };
    // Under Nodes::lock_.
    std::vector<LinkCells> links;
    proxy::LinkCounters past;  // of connections that are over
    proxy::LocalGetCounters past_local;
    uint64_t hash_seed = 0;    // of that incarnation
    std::string down_reason;
    bool told_down = false;
};

struct NodeOptions {
    uint64_t timeout_ns = 1'000'000'000;  // until a request to a node is given up
    bool failover = false;
    bool local_read = true;
    bool cold_index = false;
    bool count_reads = false;             // where the node and the channel can
    uint64_t report_interval_ns = 0;      // of accesses that nodes did not see; 0: with requests

    // Do connections differ by nothing?
    bool same_links(const NodeOptions& other) const {
        return timeout_ns == other.timeout_ns && local_read == other.local_read && cold_index == other.cold_index &&
               count_reads == other.count_reads && report_interval_ns == other.report_interval_ns;
    }
};

// What is configured at one moment. Nodes are numbered from 0 as the placement numbers them.
struct NodeSet {
    struct Member {
        std::shared_ptr<OneNode> one;
        uint32_t weight = 1;
    };
    NodeOptions options;
    std::vector<Member> members;
    std::shared_ptr<const proxy::Placement> placement;
};

class Nodes final : public NodesView {
  public:
    using Made = std::variant<std::unique_ptr<Nodes>, conf::Problem>;
    // Looks up names, and waits for that, for a bounded time.
    static Made make(const conf::ProxySettings& settings, const conf::MemorySettings& memory,
                     const HostAddresses::LookUp& look_up = fabric::look_up);
    ~Nodes() override;
    Nodes(const Nodes&) = delete;
    Nodes& operator=(const Nodes&) = delete;

    // Attaches to the pointer table where one is of use, if that was not done. A table that is refused is told in a
    // sentence, else empty: gets are two-sided then.
    std::string open_table(const conf::ProxySettings& settings);
    // The same, for a set that is not yet in use.
    std::string open_table(const conf::ProxySettings& settings, const NodeSet& set);
    // Whoever watches proxyevents; before any worker starts. Outlives this.
    void tell(WatchLog& watch) { watch_ = &watch; }

    // ---- a reload, main's thread ------------------------------------------------------------------
    // What the settings say, with the nodes that there are already. Looks up names, and waits for that, for a bounded
    // time.
    using Prepared = std::variant<std::shared_ptr<const NodeSet>, conf::Problem>;
    Prepared prepare(const conf::ProxySettings& settings, const HostAddresses::LookUp& look_up = fabric::look_up);
    // Is what workers take from now on. Workers are not told.
    void use(std::shared_ptr<const NodeSet> set);

    // ---- for workers' backends, any thread ------------------------------------------------------
    std::shared_ptr<const NodeSet> set() const;
    // Larger items are refused here.
    uint64_t item_bytes_max() const { return item_bytes_max_; }
    // False: clients of this process see no unique but 0, and compare in vain.
    bool cas() const { return cas_; }
    proxy::LinkConfig link_config(const OneNode& node, const NodeOptions& options, uint32_t worker) const;
    // memories: a worker's, where one-sided reads land and for what nodes READ; they outlive what is made.
    proxy::NodeLink::MakeChannel maker(std::shared_ptr<OneNode> node, const fabric::VerbsMemories& memories);
    // hash_seed: what keys are hashed with there, in that run of it.
    void came_up(OneNode& node, uint64_t incarnation, uint64_t hash_seed);
    // Of a connection.
    struct Loss {
        bool was_up = false;
        proxy::LinkDown why = proxy::LinkDown::channel_ended;
        std::string_view reason;  // a sentence
        uint32_t requests = 0;    // that were under way
        uint64_t retry_s = 0;     // until it is made anew
    };
    void went_down(OneNode& node, const Loss& loss);
    // One-sided, of a key; why: proxy::ReadEvents.
    void read_failed(const OneNode& node, std::string_view key, bool by_index, std::string_view why) const;
    // Of each node a first connection was made, or failed.
    bool all_tried() const;
    // A connection's counters are shown, until remove(), which adds them to what is over. was_up: it is at its end.
    void add(OneNode& node, const proxy::LinkCounters& link, const proxy::LocalGetCounters& local);
    void remove(const std::shared_ptr<OneNode>& node, const proxy::LinkCounters& link, bool was_up);

    // ---- NodesView ------------------------------------------------------------------------------
    std::vector<NodeShown> all() const override;
    void each_link(uint32_t number, LinkVisit visit) const override;
    void each_past_link(LinkVisit visit) const override;
    proxy::PointerTable* pointer_table() const override { return shown_table_.load(std::memory_order_acquire); }
    bool drain(std::string_view name, bool on) override;
    Route route(std::string_view key) const override;

  private:
    Nodes();
    using MadeNode = std::variant<std::shared_ptr<OneNode>, conf::Problem>;
    std::vector<MadeNode> find_or_make(const std::vector<conf::NodeSpec>& specs, const HostAddresses::LookUp& look_up);
    std::shared_ptr<OneNode> make_one(const conf::NodeSpec& spec);
    std::shared_ptr<OneNode> find(std::string_view name, std::string_view address) const;
    proxy::NodeLink::MakeChannel plain_maker(std::shared_ptr<OneNode> node, const fabric::VerbsMemories& memories);
    bool is_member(const OneNode& node) const;
    static NodePlace place_of(const OneNode& node) { return {node.name, node.place, node.port}; }
    bool watched() const { return watch_ != nullptr && watch_->wants(watch_proxyevents); }
    static NodeShown shown_of(const NodeSet::Member& member);  // under lock_
    void find_pointer(const NodeOptions& options, const OneNode& node, std::string_view key, Route& route) const;
    static void visit_links(const OneNode& node, LinkVisit visit);

    WatchLog* watch_ = nullptr;
    uint64_t item_bytes_max_ = 0;
    bool cas_ = true;
    uint32_t next_number_ = 0;  // main's
    fabric::MappedRegions regions_;
    fabric::VerbsDevices devices_;
    std::unique_ptr<proxy::PointerTable> table_;
    std::atomic<proxy::PointerTable*> shown_table_{nullptr};
    std::string host_;
    mutable std::mutex lock_;
    std::shared_ptr<const NodeSet> set_;             // under lock_
    std::vector<std::shared_ptr<OneNode>> leaving_;  // under lock_: no members, but there are connections
    proxy::LinkCounters past_;                       // under lock_: of nodes that are gone
    proxy::LocalGetCounters past_local_;
};

}  // namespace farcached::daemon
