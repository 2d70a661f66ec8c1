// SPDX-License-Identifier: BSD-3-Clause
// Nodes: the nodes behind this process, shared by all workers: names, addresses, key placement and state.
//
// Owner: main. Created before the process forks; its pointers are opened after, as the final user. Threads: any, but for what
// starts it and for a reload, which are main's.
// D1  The configuration is a NodeSet, which does not change. A reload replaces it; each worker takes the new one between two
//     requests. Draining a node sets one atomic that every worker reads.
// D2  Workers read without a lock. Their links report connection changes. The log has the first worker's connection that
//     comes up and the last that goes down.
// D3  A node keeps its identity across a reload if name and address are equal: its connections stay, unless the options of all
//     connections changed. The counters of removed nodes are kept in a sum. A node whose addresses DNS finds keeps it if the name
//     is equal (D5); its channel is, too, because `discover_channel` needs a restart.
// D4  A node of etcd may have a socket on this host, too. Connections prefer it, and fall back to the address. It is no part of the
//     identity. When it changes, because the node was restarted, connections end as at changed options, and new ones are made.
// D5  A new set replaces the addresses of a node that DNS finds. Its connections stay if all of them, and all attempts under way,
//     lead to addresses of the new set; else all end as at changed options. Attempts rotate through the addresses, per connection.
//     A worker whose connection ends tries the address of the process in use first, for some time (NodeAddresses::at_home_ns).
//     Another process first deletes its items (Fences, F9).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "conf/program.h"
#include "conf/settings.h"
#include "daemon/remote/fence.h"
#include "daemon/remote/host_addresses.h"
#include "daemon/remote/link_sums.h"
#include "daemon/remote/moved_keys.h"
#include "daemon/remote/node_channels.h"
#include "daemon/remote/node_log.h"
#include "daemon/remote/node_pointers.h"
#include "daemon/remote/node_set.h"
#include "daemon/stats/server_view.h"

namespace farcached::daemon {

// CopySearch: the search for missing copies (daemon/steps/key_passes.h), as the workers and the statistics see it. Any thread.
class CopySearch {
  public:
    // One could not note an item without a copy.
    void want_pass() { wants_pass_.store(true, std::memory_order_relaxed); }
    // By the worker that searches.
    bool take_wanted_pass() {
        if (!wants_pass_.load(std::memory_order_relaxed)) [[likely]] return false;
        left_.store(std::max<uint32_t>(left_.load(std::memory_order_relaxed), 1), std::memory_order_relaxed);
        return wants_pass_.exchange(false);
    }
    // By the same: what is left of the search after this change (Nodes::refills_until_ns()).
    void note(uint64_t change, uint32_t nodes_left) {
        left_.store(nodes_left, std::memory_order_relaxed);
        change_.store(change, std::memory_order_release);
    }
    // After the latest change. Some milliseconds pass until the worker that searches has noticed it.
    uint32_t left(uint64_t change) const {
        const bool is_noticed = change_.load(std::memory_order_acquire) == change;
        const uint32_t waits = !is_noticed || wants_pass_.load() ? 1 : 0;  // before left_
        return std::max(left_.load(std::memory_order_relaxed), waits);
    }

  private:
    std::atomic<uint64_t> change_{0};
    std::atomic<uint32_t> left_{0};
    std::atomic<bool> wants_pass_{false};
};

class Nodes final : public NodesView {
  public:
    static constexpr uint32_t settle_ms = 2000;
    using Made = Result<std::unique_ptr<Nodes>>;
    // Looks up names, and waits for them, for a bounded time.
    static Made make(const conf::ProxySettings& settings, const conf::MemorySettings& memory,
                     const HostAddresses::LookUp& look_up = fabric::look_up, const PeerTrust& trust = {});
    ~Nodes() override;
    Nodes(const Nodes&) = delete;
    Nodes& operator=(const Nodes&) = delete;

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

    // ---- for workers' links, any thread ---------------------------------------------------------
    std::shared_ptr<const NodeSet> set() const;
    // Items larger than this are refused here.
    uint64_t item_bytes_max() const { return item_bytes_max_; }
    // False: clients see no unique but 0, and cas cannot match.
    bool cas() const { return cas_; }
    NodeChannels& channels() { return channels_; }
    NodeLog& log() { return log_; }
    NodePointers& pointers() { return pointers_; }
    // If DNS finds the node, requests are to wait until the worker attends (Fences, F9).
    void came_up(OneNode& node, const protocol::Welcome& welcome, uint32_t worker) noexcept;
    void went_down(OneNode& node, const LinkLoss& loss) noexcept;
    Fences& fences() { return fences_; }
    // A node knows a newer list, of this epoch; 0: it has refused a request for that.
    void list_is_old(uint64_t newest = 0) const {
        if (look_for_list_) look_for_list_(newest);
    }
    CopySearch& copy_search() { return copy_search_; }
    // Until then a miss at a key's first node does not mean that its copy is missing, too. CLOCK_BOOTTIME.
    uint64_t refills_until_ns() const { return refills_until_ns_.load(std::memory_order_relaxed); }
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
    proxy::PointerTable* pointer_table() const override { return pointers_.table(); }
    uint32_t replica_search_left() const override {
        const std::shared_ptr<const NodeSet> list = set();
        return list != nullptr && list->options.copies ? copy_search_.left(refills_until_ns()) : 0;
    }
    bool drain(std::string_view name, bool on) override;
    Route route(std::string_view key) const override;

  private:
    Nodes(const conf::ProxySettings& settings, const conf::MemorySettings& memory, const PeerTrust& trust);
    using MadeNode = Result<std::shared_ptr<OneNode>>;
    std::vector<MadeNode> find_or_make(const std::vector<conf::NodeSpec>& specs, bool registered,
                                       const HostAddresses::LookUp& look_up);
    std::shared_ptr<OneNode> make_one(const conf::NodeSpec& spec);
    std::shared_ptr<OneNode> find(const conf::NodeSpec& spec) const;
    bool is_member(const OneNode& node) const;
    bool is_settled() const;
    bool moves(const NodeSet& set) const {
        return std::ranges::any_of(set.members, [&](const NodeSet::Member& member) { return fences_.moves(member.one->fence); });
    }
    // A node that has just joined, was restarted, or has more keys, lacks items.
    void refill(const NodeOptions& options, bool moves = false) noexcept {
        if (options.copies || moves) refills_until_ns_.store(boottime_ns() + options.refill_ns, std::memory_order_relaxed);
    }
    NodeShown shown_of(const NodeSet::Member& member) const;  // under lock_
    NodePointers::Hashed hash_of(const OneNode& node, std::string_view key) const;

    std::function<void()> wake_workers_;  // empty: there are none
    std::function<void(uint64_t epoch)> look_for_list_;  // empty: the list is static
    const uint64_t item_bytes_max_;
    const bool cas_;
    uint32_t next_number_ = 0;  // main's
    Fences fences_;
    NodeLog log_;
    NodeChannels channels_;
    NodePointers pointers_;
    mutable std::mutex lock_;
    std::shared_ptr<const NodeSet> set_;             // under lock_
    std::vector<std::shared_ptr<OneNode>> leaving_;  // under lock_: removed from the set, still connected
    std::atomic<uint64_t> refills_until_ns_{0};
    CopySearch copy_search_;
    MovedKeys moved_;                                // main's
    LinkSums past_;                                  // under lock_: of removed nodes
};

}  // namespace farcached::daemon
