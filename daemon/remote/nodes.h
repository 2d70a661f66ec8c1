// SPDX-License-Identifier: BSD-3-Clause
// Nodes: the nodes behind this process, shared by all workers: names, addresses, key placement and state.
//
// Owner: main. Created before the process forks; open_table() after, as the final user.
// D1  The configuration is a NodeSet, which does not change. A reload replaces it; each worker takes the new one between two
//     requests. Draining a node sets one atomic that every worker reads.
// D2  Workers read without a lock. Their backends report connection changes. The log has the first worker's connection that
//     comes up and the last that goes down.
// D3  A node keeps its identity across a reload if name and address are equal: its connections stay, unless the options of all
//     connections changed. The counters of removed nodes are kept in a sum. A node whose addresses DNS finds keeps it if the name
//     is equal (D5); its channel is, too, because `discover_channel` needs a restart.
// D4  A node of etcd may have a socket on this host, too. Connections prefer it, and fall back to the address. It is no part of the
//     identity. When it changes, because the node was restarted, connections end as at changed options, and new ones are made.
// D5  A new set replaces the addresses of a node that DNS finds. Its connections stay if all of them, and all attempts under way,
//     lead to addresses of the new set; else all end as at changed options. Attempts rotate through the addresses, per connection.
//     But while a connection to the process in use is up, others are made to its address. One that ends is first made there again.
//     Another process first deletes its items (Fences, F9).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "conf/program.h"
#include "conf/settings.h"
#include "daemon/remote/fence.h"
#include "daemon/remote/former_places.h"
#include "daemon/remote/host_addresses.h"
#include "daemon/remote/moved_keys.h"
#include "daemon/stats/server_view.h"
#include "daemon/stats/watch_hub.h"
#include "fabric/mapped_region.h"
#include "fabric/peer_tls.h"
#include "fabric/verbs/verbs_channel.h"
#include "process/log.h"
#include "proxy/node_link.h"
#include "proxy/placement.h"

namespace farcached::daemon {

// A worker's link to a node, as the workers that borrow it see it.
struct LentLink {
    enum class State : uint8_t { starting, up, down };
    std::atomic<State> state{State::starting};
    std::atomic<uint32_t> borrowers{0};  // present BorrowedLinks
};

using SharedSocket = std::shared_ptr<const conf::NodeSocket>;  // nullptr: none

// For messages: without memory they are lost, with no other effect.
template <class Tell>
void tell_if_memory(Tell&& tell) noexcept {
    try {
        tell();
    } catch (const std::bad_alloc&) {
        process::lose_line();
    }
}

// Of a node, by DNS.
struct FoundAddresses {
    std::vector<std::string> texts;        // as conf::addresses_of()
    std::string text;                      // as conf::address_of()
    std::shared_ptr<HostAddresses> host;   // in the order of the texts
};
using SharedFound = std::shared_ptr<const FoundAddresses>;  // nullptr: DNS finds none

// The state of one node that all workers share.
struct OneNode {
    uint32_t number = 0;  // as in NodeShown
    std::string name, address;                 // address: empty with `found`
    bool is_found = false;                     // DNS finds its addresses: `found`
    conf::NodeChannel channel = conf::NodeChannel::shm;
    std::string place;                         // host name; shm: path
    uint16_t port = 0;                         // shm: 0
    std::shared_ptr<HostAddresses> host;       // tcp, verbs; without `found`
    std::atomic<bool> has_socket{false};       // in the set in use (NodeSet::Member::socket)
    std::atomic<uint32_t> links_shm{0};     // connections over that socket
    std::atomic<bool> drained{false};
    std::atomic<uint32_t> links_up{0};
    std::atomic<bool> tried{false};            // a first connection was made or failed
    process::LimitedLines lines;               // log lines of connects and losses
    std::atomic<uint64_t> incarnation{0};
    Fence fence;
    std::array<LentLink, limits::workers_max> lent;  // by the owner's number (NodeOptions::links_per_node)

    // May its memory be mapped here?
    bool maps() const { return channel == conf::NodeChannel::shm || has_socket.load(std::memory_order_relaxed); }
    // Of a new connection's first attempt.
    conf::NodeChannel first_channel() const { return maps() ? conf::NodeChannel::shm : channel; }

  private:
    friend class Nodes;
    struct LinkCells {
        const proxy::LinkCounters* link;
        const proxy::LocalGetCounters* local;
    };
    // Under Nodes::lock_.
    SharedFound found;         // of the set in use
    // By worker: the address (address_id()) of its connection or present attempt; 0: none.
    std::array<uint64_t, limits::workers_max> tried_at{};
    std::bitset<limits::workers_max> was_up;  // since its last attempt
    std::vector<LinkCells> links;
    proxy::LinkCounters past;  // of closed connections
    proxy::LocalGetCounters past_local;
    uint64_t hash_seed = 0;    // of the current incarnation
    uint32_t protocol_version = 0;
    uint64_t told_older = 0;   // the last incarnation whose older version was logged
    std::string down_reason;
    bool key_refused = false;  // by the reason of the last loss
    bool told_down = false;
    SharedSocket socket;         // of the set in use
    bool told_unmapped = false;  // of this socket
};

// D4
inline bool same_socket(const SharedSocket& a, const SharedSocket& b) { return a == nullptr || b == nullptr ? a == b : *a == *b; }

inline bool same_key(const std::shared_ptr<const protocol::AuthKey>& a, const std::shared_ptr<const protocol::AuthKey>& b) {
    return a == nullptr || b == nullptr ? a == b : a->same(*b);
}

struct NodeOptions {
    uint64_t timeout_ns = 1'000'000'000;  // request timeout
    bool failover = false;
    bool copies = false;                  // each item is on two nodes
    std::vector<std::string> copy_prefixes = {};  // only with these; empty: with all keys
    bool reads_both = false;              // both nodes serve very hot keys
    uint64_t refill_ns = 0;               // a miss asks the other node for so long after a change of the list
    uint32_t failover_ttl_s = 0;          // the longest time to live of a diverted item; 0: as the client wishes
    bool local_read = true;
    bool probe_index = false;
    bool count_reads = false;             // where node and channel support it
    fabric::RpcWish rpc;                  // over RDMA
    uint32_t links_per_node = 0;          // shared by the workers; 0: one for each; never over shm
    uint64_t report_interval_ns = 0;      // of accesses that nodes did not see; 0: sent with requests
    bool report_mapped = false;           // also of nodes with mapped memory; else with requests
    uint32_t report_items = 0;            // keys that are classified for reports
    std::shared_ptr<const protocol::AuthKey> key = nullptr;  // proved to nodes; nullptr: no authentication

    bool keeps_copy(std::string_view of_key) const {
        if (!copies || copy_prefixes.empty()) return copies;
        return std::ranges::any_of(copy_prefixes, [of_key](const std::string& prefix) { return of_key.starts_with(prefix); });
    }
    // Of a node over this channel.
    uint32_t links(conf::NodeChannel channel) const { return channel == conf::NodeChannel::shm ? 0 : links_per_node; }
    // True: existing connections over this channel suit both.
    bool same_links(const NodeOptions& other, conf::NodeChannel channel) const {
        return timeout_ns == other.timeout_ns && local_read == other.local_read && probe_index == other.probe_index &&
               count_reads == other.count_reads && (channel != conf::NodeChannel::verbs || rpc == other.rpc) &&
               links(channel) == other.links(channel) && report_interval_ns == other.report_interval_ns &&
               report_mapped == other.report_mapped && report_items == other.report_items && same_key(key, other.key);
    }
};

// The configuration at one moment. Nodes are numbered from 0, as in the placement; those without keys come last.
struct NodeSet {
    struct Member {
        std::shared_ptr<OneNode> one;
        uint32_t weight = 1;    // 0: no keys
        std::string zone = {};  // empty: none
        bool near = false;      // its zone is this process's
        SharedSocket socket = nullptr;
        SharedFound found = nullptr;
        uint64_t renewal = 0;   // Fences::renewal(); connections stay while it is the same (D5)
    };
    NodeOptions options;
    std::vector<Member> members;
    std::vector<ListChange> changes;  // the last ones, newest first; empty: items move nowhere
    std::shared_ptr<const conf::FormerLists> former_lists;  // of the changes
    bool has_near = false;  // one of them is
    std::shared_ptr<const proxy::Placement> placement;
    std::vector<FormerPlaces> former;  // of the set before, and of those whose deletes had not ended then (F7)
    SharedEpoch epoch;
    uint64_t since = 0;  // the first epoch
};

// How this process and its nodes know each other.
struct PeerTrust {
    const fabric::PeerTls* tls = nullptr;                    // of tcp links; outlives them; nullptr: none
    std::shared_ptr<const protocol::AuthKey> key = nullptr;  // that it proves; nullptr: none
};

class Nodes final : public NodesView {
  public:
    static constexpr uint32_t settle_ms = 2000;
    using Made = Result<std::unique_ptr<Nodes>>;
    // Looks up names, and waits for them, for a bounded time.
    static Made make(const conf::ProxySettings& settings, const conf::MemorySettings& memory,
                     const HostAddresses::LookUp& look_up = fabric::look_up, const PeerTrust& trust = {});
    ~Nodes() override;
    // PeerTls::expires_unix(); nothing without TLS.
    std::optional<int64_t> peer_certificate_expires() const {
        return tls_ == nullptr ? std::nullopt : std::optional(tls_->expires_unix());
    }
    Nodes(const Nodes&) = delete;
    Nodes& operator=(const Nodes&) = delete;

    // Attaches to the pointer table if it is of use and not attached yet. Returns an empty string, or why the table is refused,
    // for the log: gets are two-sided then.
    std::string open_table(const conf::ProxySettings& settings);
    // The same, for a set not yet in use.
    std::string open_table(const conf::ProxySettings& settings, const NodeSet& set);
    // Sets the log for proxyevents, before any worker starts. Outlives this.
    void tell(WatchLog& watch) { watch_ = &watch; }
    // Sets what wakes all workers, before any starts.
    void wake_with(std::function<void()> wake) { wake_workers_ = std::move(wake); }
    // Sets what looks for a newer list of nodes, before any starts.
    void look_with(std::function<void(uint64_t epoch)> look) { look_for_list_ = std::move(look); }

    // ---- a reload, main's thread ------------------------------------------------------------------
    // A set from the settings, with existing nodes where they match. Looks up names, and waits for them, for a bounded time.
    using Prepared = Result<std::shared_ptr<const NodeSet>>;
    // key: that connections prove. If it differs, they end after their last reply, and new ones prove the new key.
    Prepared prepare(const conf::ProxySettings& settings, const HostAddresses::LookUp& look_up = fabric::look_up,
                     std::shared_ptr<const protocol::AuthKey> key = nullptr);
    // Makes the set current, with its former places. Does not notify workers. Before that it waits until no node is `moving`
    // for the set before (Fences, F7), for settle_ms at most. Requests that wait for such a node fail if its link is
    // replaced.
    void use(std::shared_ptr<const NodeSet> prepared);

    // ---- for workers' backends, any thread ------------------------------------------------------
    std::shared_ptr<const NodeSet> set() const;
    // Items larger than this are refused here.
    uint64_t item_bytes_max() const { return item_bytes_max_; }
    // False: clients see no unique but 0, and cas cannot match.
    bool cas() const { return cas_; }
    proxy::LinkConfig link_config(const OneNode& node, const NodeOptions& options, uint32_t worker) const;
    // memories: a worker's, for one-sided reads and for values that nodes READ. They outlive the channels.
    // shortcut: outlives them, too. nullptr: the node is reached at its address alone.
    proxy::NodeLink::MakeChannel maker(std::shared_ptr<OneNode> node, const fabric::VerbsMemories& memories,
                                        const fabric::RpcWish& rpc, proxy::Shortcut* shortcut = nullptr, uint32_t worker = 0);
    // A connection over the node's socket is up; it failed, or the socket is not there.
    void shortcut_up(OneNode& node) noexcept;
    void shortcut_failed(OneNode& node, std::string_view why) noexcept;
    // If DNS finds the node, requests are to wait until the worker attends (Fences, F9).
    void came_up(OneNode& node, const protocol::Welcome& welcome, uint32_t worker) noexcept;
    // The worker's connection, or its attempt, has ended.
    void lost_channel(OneNode& node, uint32_t worker) noexcept;
    // A worker has a connection to another process than others, for some time now (F9).
    void two_processes(OneNode& node) noexcept;
    struct Loss {
        bool was_up = false;
        proxy::LinkDown why = proxy::LinkDown::channel_ended;
        std::string_view reason;  // a sentence
        uint32_t requests = 0;    // under way
        uint64_t retry_s = 0;     // until the next attempt
    };
    void went_down(OneNode& node, const Loss& loss) noexcept;
    Fences& fences() { return fences_; }
    // A node knows a newer list, of this epoch; 0: it has refused a request for that.
    void list_is_old(uint64_t newest = 0) const {
        if (look_for_list_) look_for_list_(newest);
    }
    // Of all workers: one could not note an item without a copy.
    void want_pass() { wants_pass_.store(true, std::memory_order_relaxed); }
    bool take_wanted_pass() { return wants_pass_.load(std::memory_order_relaxed) && wants_pass_.exchange(false); }
    // Until then a miss at a key's first node does not mean that its copy is missing, too. CLOCK_BOOTTIME.
    uint64_t refills_until_ns() const { return refills_until_ns_.load(std::memory_order_relaxed); }
    // The node is in use again, behind its fence.
    void rejoined(const OneNode& node) noexcept;
    // Deletes of the fence failed; they are repeated.
    void fence_failed(OneNode& node) noexcept;
    // A one-sided read of a key failed; why: proxy::ReadEvents.
    void read_failed(const OneNode& node, std::string_view key, bool by_index, std::string_view why) const;
    // True: a first connection to each node was made or failed.
    bool all_tried() const;
    // Shows a connection's counters until remove(), which adds them to the sums of closed ones. was_up: the connection was up
    // when it ended.
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
    using MadeNode = Result<std::shared_ptr<OneNode>>;
    std::vector<MadeNode> find_or_make(const std::vector<conf::NodeSpec>& specs, bool registered,
                                       const HostAddresses::LookUp& look_up);
    std::shared_ptr<OneNode> make_one(const conf::NodeSpec& spec);
    std::shared_ptr<OneNode> find(const conf::NodeSpec& spec) const;
    proxy::NodeLink::MakeChannel plain_maker(std::shared_ptr<OneNode> node, const fabric::VerbsMemories& memories,
                                        const fabric::RpcWish& rpc, uint32_t worker);
    // D5. All but the first are called under lock_.
    Result<fabric::SocketAddress> next_address(OneNode& node, uint32_t worker, size_t& turn);
    void replace_addresses(NodeSet& set) noexcept;
    void note_address(OneNode& node, uint32_t worker) noexcept;
    Result<std::unique_ptr<fabric::Channel>> connect_shm(const std::string& path, fabric::ChannelEvents& events);
    std::string take_shortcut(OneNode& node, proxy::Shortcut& shortcut);
    bool is_member(const OneNode& node) const;
    bool is_settled() const;
    bool moves(const NodeSet& set) const {
        return std::ranges::any_of(set.members, [&](const NodeSet::Member& member) { return fences_.moves(member.one->fence); });
    }
    // A node that has just joined, was restarted, or has more keys, lacks items.
    void refill(const NodeOptions& options, bool moves = false) noexcept {
        if (options.copies || moves) refills_until_ns_.store(boottime_ns() + options.refill_ns, std::memory_order_relaxed);
    }
    static NodePlace place_of(const OneNode& node) { return {node.name, node.place, node.port}; }
    template <class Line>
    void tell_event(Line&& line) const noexcept;
    bool watched() const { return watch_ != nullptr && watch_->wants(watch_proxyevents); }
    NodeShown shown_of(const NodeSet::Member& member) const;  // under lock_
    const proxy::PointerTable* table_for(const NodeOptions& options, const OneNode& node) const;
    std::string ways_of(const NodeOptions& options, const OneNode& node) const;
    void find_pointer(const NodeOptions& options, const OneNode& node, std::string_view key, Route& route) const;
    static void visit_links(const OneNode& node, LinkVisit visit);

    WatchLog* watch_ = nullptr;
    std::function<void()> wake_workers_;  // empty: there are none
    std::function<void(uint64_t epoch)> look_for_list_;  // empty: the list is static
    uint64_t item_bytes_max_ = 0;
    const fabric::PeerTls* tls_ = nullptr;
    bool authenticates_ = false;  // both ends withhold their memory until the other has proved its key
    bool shm_group_ = false;  // also trust nodes of this process's group
    bool cas_ = true;
    uint32_t next_number_ = 0;  // main's
    Fences fences_;
    fabric::MappedRegions regions_;
    fabric::VerbsDevices devices_;
    std::unique_ptr<proxy::PointerTable> table_;
    std::atomic<proxy::PointerTable*> shown_table_{nullptr};
    std::string host_;
    mutable std::mutex lock_;
    std::shared_ptr<const NodeSet> set_;             // under lock_
    std::vector<std::shared_ptr<OneNode>> leaving_;  // under lock_: removed from the set, still connected
    std::atomic<uint64_t> refills_until_ns_{0};
    std::atomic<bool> wants_pass_{false};
    MovedKeys moved_;                                // main's
    proxy::LinkCounters past_;                       // under lock_: of removed nodes
    proxy::LocalGetCounters past_local_;
};

}  // namespace farcached::daemon
