// SPDX-License-Identifier: BSD-3-Clause
// Nodes: the nodes behind this process, as all workers share them: what they are called, how they are reached, where
// keys are placed on them, and what has become of them.
//
// Owner: main. Made before the process forks; open() after, as the user that it will be.
// D1  The list does not change; a node may be drained, which it tells every worker by one atomic.
// D2  Workers ask without a lock. Their backends report what happened to their connections; of all workers the first
//     whose connection comes up and the last that loses one are told on stderr.
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
#include "fabric/mapped_region.h"
#include "fabric/verbs_channel.h"
#include "proxy/node_link.h"
#include "proxy/placement.h"

namespace farcached::daemon {

class RemoteBackend;

class Nodes final : public NodesView {
  public:
    struct Options {
        uint64_t timeout_ns = 1'000'000'000;  // until a request to a node is given up
        bool failover = false;
        bool local_read = true;
        bool cold_index = false;
        bool count_reads = false;             // where the node and the channel can
        uint64_t report_interval_ns = 0;      // of accesses that nodes did not see; 0: with requests
        uint64_t item_bytes_max = 0;          // larger items are refused here
        bool cas = true;                      // false: clients of this process see no unique but 0, and compare in vain
    };
    using Made = std::variant<std::unique_ptr<Nodes>, conf::Problem>;
    // Looks up names, and may wait for that.
    static Made make(const conf::ProxySettings& settings, const conf::MemorySettings& memory,
                     const HostAddresses::LookUp& look_up = fabric::look_up);
    ~Nodes() override;
    Nodes(const Nodes&) = delete;
    Nodes& operator=(const Nodes&) = delete;

    // Attaches to the pointer table where one is of use. A table that is refused is told in a sentence, else empty:
    // gets are two-sided then.
    std::string open_table(const conf::ProxySettings& settings);

    // ---- for workers' backends, any thread ------------------------------------------------------
    const Options& options() const { return options_; }
    const proxy::Placement& placement() const { return *placement_; }
    proxy::LinkConfig link_config(uint32_t node, uint32_t worker) const;
    // memories: a worker's, where one-sided reads land and for what nodes READ; they outlive what is made.
    proxy::NodeLink::MakeChannel maker(uint32_t node, const fabric::VerbsMemories& memories);
    bool is_drained(uint32_t node) const {
        return nodes_[node]->drained.load(std::memory_order_relaxed);
    }
    // hash_seed: what keys are hashed with there, in that run of it.
    void came_up(uint32_t node, uint64_t incarnation, uint64_t hash_seed);
    // was_up: this connection had been.
    void went_down(uint32_t node, bool was_up, std::string_view reason);
    // Of each node a first connection was made, or failed.
    bool all_tried() const;
    // Before workers run, and after they have ended.
    void add(const RemoteBackend& backend) { backends_.push_back(&backend); }
    void remove(const RemoteBackend& backend);

    // ---- NodesView ------------------------------------------------------------------------------
    uint32_t count() const override { return uint32_t(nodes_.size()); }
    NodeShown shown(uint32_t node) const override;
    void each_link(uint32_t node, LinkVisit visit) const override;
    proxy::PointerTable* pointer_table() const override { return table_.get(); }
    bool drain(std::string_view name, bool on) override;
    Route route(std::string_view key) const override;

    const std::string& name(uint32_t node) const { return nodes_[node]->spec.name; }

  private:
    struct One {
        conf::NodeSpec spec;
        std::string address;
        std::shared_ptr<HostAddresses> host;       // tcp, verbs
        std::atomic<bool> drained{false};
        std::atomic<uint32_t> links_up{0};
        std::atomic<bool> tried{false};
        std::atomic<uint64_t> incarnation{0};
        uint64_t hash_seed = 0;   // under lock_: of that incarnation
        std::string down_reason;  // under lock_
        bool told_down = false;   // under lock_
    };

    Nodes();
    conf::Refusal add_node(const conf::NodeSpec& spec, const HostAddresses::LookUp& look_up);
    void find_pointer(uint32_t node, std::string_view key, Route& route) const;
    proxy::NodeLink::MakeChannel plain_maker(uint32_t node, const fabric::VerbsMemories& memories);

    Options options_;
    std::vector<std::unique_ptr<One>> nodes_;
    std::shared_ptr<const proxy::Placement> placement_;
    fabric::MappedRegions regions_;
    fabric::VerbsDevices devices_;
    std::unique_ptr<proxy::PointerTable> table_;
    std::string host_;
    std::vector<const RemoteBackend*> backends_;
    mutable std::mutex lock_;
};

}  // namespace farcached::daemon
