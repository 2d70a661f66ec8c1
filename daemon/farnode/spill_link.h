// SPDX-License-Identifier: BSD-3-Clause
// SpillLink: the thread that brings values of evicted items to the farnode of --spill-to, and reads them there. To that node it is
// a proxy: it stores, gets and deletes items over one link.
//
//   PeerStore (node/peer/peer_store.h) -> take() -> requests of the link -> replies -> PeerStore
//
// Owner: the program. The store outlives it. Threads: its own; start(), stop() and watched() belong to the main thread.
//
// J1  All work that it took is reported to the store, once: also what fails, and what a connection loses. Deletes that were not
//     sent follow on the next connection; a wait ends at its time at the latest.
// J2  Its pointers to the peer's items are under the peer's leases. Those that it reports permit shorter ones to proxies.
// J3  No delete is sent before a read that was asked for earlier.
// J4  A value whose store has an unknown outcome counts as stored: a read finds it, or not (V2).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/recorder.h"
#include "conf/settings.h"
#include "daemon/farnode/key_handover.h"
#include "daemon/farnode/spill_requests.h"
#include "daemon/farnode/spill_waits.h"
#include "daemon/remote/nodes.h"
#include "fabric/buffer_pool.h"
#include "node/peer/peer_store.h"
#include "process/log.h"
#include "process/supervisor.h"
#include "proxy/node_link.h"
#include "proxy/pointer_table.h"

namespace farcached::node {

class SpillLink final : private proxy::LinkEvents, private proxy::ReplySink {
  public:
    // own_incarnation: of this node's memory, which is no peer of itself. A problem: the host of the address is not known. Throws
    // std::bad_alloc.
    static Result<std::unique_ptr<SpillLink>> make(PeerStore& store, const conf::Settings& settings, uint64_t own_incarnation,
                                                    const daemon::PeerTrust& trust);
    // On a reload, from the main thread: the connection ends if the key differs, and the next one proves the new key.
    void use_key(std::shared_ptr<const protocol::AuthKey> key);
    ~SpillLink() override;
    SpillLink(const SpillLink&) = delete;
    SpillLink& operator=(const SpillLink&) = delete;

    // Throws std::system_error.
    void start();
    void stop();
    process::Watched watched() { return waker_.watched("spill"); }
    // "b=tcp:10.0.0.2:11300"
    std::string describe() const { return peer_->name + "=" + peer_->address; }

  private:
    using Request = SpillRequests::Request;
    enum class Submitted : uint8_t { yes, not_now, down };

    SpillLink(PeerStore& store, std::unique_ptr<daemon::Nodes> nodes, uint64_t own_incarnation, bool has_disk,
              std::unique_ptr<proxy::PointerTable> table);

    void run();
    void take_key();
    void wait();
    void step();
    void submit();
    template <class Op>
    Submitted ask(const Op& op, proxy::AskOptions options, Request&& request);
    Submitted put(const std::shared_ptr<const PeerRecord>& record);
    Submitted read(const PeerStore::Read& read);
    Submitted remove(const protocol::SpilledKey& key, Request&& request);
    Submitted forget(const protocol::SpilledKey& key);
    Submitted kill(const std::shared_ptr<SpillWaits::Wait>& wait);
    fabric::LeasedPtr lease_on(const protocol::SpilledKey& key);
    void fail_work();
    void say(process::Level level, const std::string& what) noexcept;

    // proxy::LinkEvents
    void watch(int fd) override { fd_ = fd; }
    void unwatch(int) override { fd_ = -1; }
    void came_up() override;
    void went_down(proxy::LinkDown why, const std::string& text) noexcept override;
    void room() override { retry_ = true; }
    // proxy::ReplySink
    void answered(proxy::Ticket ticket, proxy::Answer& answer) override;
    void failed(proxy::Ticket ticket, const proxy::Failed& failed) override;

    PeerStore& store_;
    const std::unique_ptr<daemon::Nodes> nodes_;
    const std::shared_ptr<daemon::OneNode> peer_;
    const daemon::NodeOptions options_;
    const uint64_t own_incarnation_;
    const bool has_disk_;
    Recorder recorder_{"spill"};
    process::LoopWaker waker_;
    process::LimitedLines lines_;
    std::atomic<bool> stopping_{false};
    KeyHandover key_;
    bool told_down_ = false, retry_ = false, usable_ = false;
    uint64_t peer_incarnation_ = 0;  // 0: none yet
    int fd_ = -1;  // of the connection
    PeerStore::Work work_;
    SpillWaits waits_;
    SpillRequests requests_;
    std::unique_ptr<proxy::PointerTable> table_;  // of this link alone; nullptr: no pointers
    fabric::BufferPool landing_;
    proxy::NodeLink link_;
    std::thread thread_;
};

}  // namespace farcached::node
