// SPDX-License-Identifier: BSD-3-Clause
// OwnLink: a worker's own link to one node: the connection, the node's memory where it is mapped (MappedMemory), and the requests
// that are postponed (PostponedRequests). A get tries mapped memory first. Then ask() tries pointer, index and RPC
// (proxy/requests.h). proxy/onesided_share.h counts why a step was left for the next.
//
// Owner: a LinkPeer. daemon/engine/links.h states the rules M1 to M6. One thread, the worker's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/engine/link_shared.h"
#include "daemon/engine/mapped_memory.h"
#include "daemon/engine/postponed_requests.h"
#include "daemon/engine/readiness.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/remote/nodes.h"
#include "proxy/node_link.h"

namespace farcached::daemon {

// Up, or the last replies arrive.
constexpr bool is_connected(proxy::LinkState state) {
    return state == proxy::LinkState::up || state == proxy::LinkState::leaving;
}

// A link's requests wait for these.
enum class Awaited : uint8_t {
    anything,
    reads,            // READs alone
    reads_elsewhere,  // READs of other links alone
};

class OwnLink final : private proxy::LinkEvents {
  public:
    // Both outlive this.
    OwnLink(LinkShared& shared, LinkPeer& peer, const NodeOptions& options);
    ~OwnLink() override;
    OwnLink(const OwnLink&) = delete;
    OwnLink& operator=(const OwnLink&) = delete;

    // ---- life
    void start();
    // Fails all unanswered requests.
    void stop();
    // Up, or its first attempt to connect has not ended (M3).
    bool reachable() const { return link_.up() || starting_; }
    proxy::LinkState state() const { return link_.state(); }
    // The node owes replies, and has sent nothing for a quarter of the request timeout: perhaps it stands still.
    bool is_quiet() const { return link_.quiet_ns(shared_.now()) > quiet_ns_; }
    // While up.
    const protocol::Welcome& welcome() const { return link_.welcome(); }
    // A request that a borrower chose it for. It is counted. False: the caller refuses it.
    bool take_letter() {
        if (!reachable() || postponed_.fence() == FenceState::leaving || postponed_.fence() == FenceState::out) return false;
        link_.count_borrowed();
        return true;
    }
    bool has_answered() { return postponed_.empty() && link_.requests().under_way() == 0; }
    // When tick() is due, on boottime_ns(); UINT64_MAX: never.
    uint64_t next_tick_ns();
    void tick(uint64_t now_ns);
    // Shows its state to borrowers, unless its node left the set or another link replaces it.
    void publish();
    // Its node has left the set, or another link replaces it. A borrower with another set then asks this worker, instead of relying
    // on a state that nothing changes any more. For the same reason the requests that wait for the node to join, or for keys to
    // move, are to be asked elsewhere. So are those that wait for a connection that is not made (LinkPeer::leaves_at_once()).
    PostponedRequests::List withdraw() noexcept;
    // A new state of the rejoin fence: postponed requests fail when the node leaves, and wait while it joins.
    void follow(FenceState next);
    // Ends the connection. Its requests fail, also those that wait.
    void drop(proxy::LinkDown why) noexcept;
    // LinkShared::moving has changed. lost: the former home of some of the keys whose requests wait has no connection.
    void follow_moving(bool lost);

    // ---- one key
    // The mapped memory that the session's get may read now (M4); nullptr: none.
    proxy::LocalGet* mapped_memory(uint64_t hash, uint64_t session);
    const MappedMemory& mapped() const { return mapped_; }
    // A get of this key follows: prefetches its bucket, or its set of the pointer table.
    void expect(std::string_view key) { link_.requests().expect(key); }

    // ---- requests
    // The sink gets the answer or the failure, perhaps before this returns. The value of `op` may move into options.value.
    template <class Op>
    SubmitResult ask(Op& op, proxy::AskOptions options, proxy::ReplySink& sink);
    // Of the fence: not behind postponed requests. False: not accepted, and the sink is not called.
    template <class Op>
    bool ask_now(const Op& op, const proxy::AskOptions& options, proxy::ReplySink& sink) noexcept;
    // Sends what was submitted, and postponed requests while there is room.
    void flush();
    // looks: may the answer be `reads`? To find that out is slower.
    Awaited awaits(bool looks) {
        if (link_.requests().only_elsewhere()) return Awaited::reads_elsewhere;
        return looks && link_.only_reads() ? Awaited::reads : Awaited::anything;
    }
    // Polls for completions of READs. True: some came, and flush() may have more to send.
    bool linger();

  private:
    // Does NodeLink's time matter? Not of a leaving link without a connection.
    bool ticks() const;
    // Is this the link to that run of a node, and may new READs go there?
    bool reads_from(uint64_t incarnation) const;

    void watch(int fd) override { descriptor_.watch(fd); }
    void unwatch(int) override {
        if (node_->is_found) node_->addresses.ended(shared_.number, shared_.now());
        mapped_.map(nullptr);  // the channel unmaps it next
        descriptor_.unwatch();
    }
    void came_up() override;
    void went_down(proxy::LinkDown why, const std::string& text) noexcept override;
    void knows_newer_list(uint64_t epoch) override { shared_.nodes.list_is_old(epoch); }
    void room() override { postponed_.retry(); }
    void shortcut_failed(const std::string& why) noexcept override { shared_.nodes.channels().shortcut_failed(*node_, why); }
    void read_failed(std::string_view key, bool by_index, std::string_view why) override;
    proxy::Requests* find_node(uint64_t incarnation) override;
    void elsewhere_ended() noexcept override;

    // Runs `body`. If memory runs out, the connection ends: false.
    template <class Do>
    bool with_memory(Do&& body) noexcept;

    LinkShared& shared_;
    LinkPeer& peer_;
    const std::shared_ptr<OneNode>& node_;  // the peer's
    const bool reads_mapped_;
    const uint64_t quiet_ns_;
    bool starting_ = true;  // neither up nor failed so far (M3)
    bool was_up_ = false;
    proxy::Shortcut shortcut_;  // to the memory of a node in etcd on this host
    std::optional<HostSocket::Connection> over_socket_;  // while up
    AwaitedDescriptor descriptor_;               // the connection's
    proxy::NodeLink link_;
    MappedMemory mapped_;  // if reads of its memory are on
    PostponedRequests postponed_;
};

}  // namespace farcached::daemon
