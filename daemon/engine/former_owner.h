// SPDX-License-Identifier: BSD-3-Clause
// FormerOwner: after a change of the list of nodes, the node that had a key by the list before hands its item to the node that has
// the key now. So a fleet that grows or shrinks keeps its hit ratio (warm_up_s).
//
//     get of a moved key     read at the owner -> take at the former owner -> store at the owner, if it accepts -> reply
//     set, delete of one     execute at the owner
//     other mutations        ask the owner for the item; if it has none, take and store as for a get; execute at the owner
//
// Owner: a worker's Links; its thread alone.
//
// O1  A take returns the item of the former owner and removes it, under one lock. So each item is handed over once, and no proxy
//     finds it there later.
// O2  The owner decides (node/store/changed_keys.h). It stores an item only if it misses the key and no proxy mutated the key there
//     since shortly before the first proxy used the new list. So a mutation needs no word of the former owner, which may be down.
//     Proxies that know nothing of the former owner do no harm (S7).
// O3  The reply to a get has a handed-over value only if the owner has stored it. Else the owner is asked again.
// O4  Each link sends its node the change before it hands over an item there, and how long ago this process took the new list.
//     The first proxy's time counts. A node that has started since then accepts nothing.
// O5  At the change a node hides the items of keys that it loses from every other request and reader (Fences, F7), and keeps them
//     until they are taken. A node that leaves the list hides nothing. Only the list just before the present one counts: the next
//     change ends the takes for the one before.
// O6  At the end of warm_up_s the nodes delete what was not taken.
// O7  With failover there are no former owners: their items may be older than those of nodes that stood in for them, and another
//     process knows that, not this one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/engine/link_peer.h"
#include "daemon/engine/link_shared.h"
#include "proxy/ask.h"

namespace farcached::daemon {

class FormerOwner {
  public:
    using Peers = std::span<const std::unique_ptr<LinkPeer>>;

    explicit FormerOwner(LinkShared& shared);
    ~FormerOwner();
    FormerOwner(const FormerOwner&) = delete;
    FormerOwner& operator=(const FormerOwner&) = delete;

    // A set of nodes is about to be taken. Throws std::bad_alloc: the present one stays.
    void prepare(const std::shared_ptr<const NodeSet>& set);
    // The worker has taken it, with these peers.
    void take(Peers list, Peers leaving) noexcept;
    // Leaving peers have ended.
    void find(Peers list, Peers leaving) noexcept;
    // Is a leaving peer needed as a former owner?
    bool needs(const LinkPeer& peer);
    uint64_t until_ns() const { return former_ == nullptr ? 0 : former_->until_ns; }

    // Can items arrive?
    bool open() { return former_ != nullptr && shared_.now() < former_->until_ns; }
    // The peer of the key's former owner; nullptr: none that can hand over. owner: chosen for the key, or nullptr.
    LinkPeer* of(std::string_view key, const LinkPeer* owner);
    // Identifies the present change.
    uint64_t change() const { return former_ == nullptr ? 0 : former_->change; }

    // When attend() is due, on boottime_ns(); UINT64_MAX: never. Any link that comes up makes it due, too.
    uint64_t attend_at_ns() const { return attend_at_ns_; }
    // Outside of a submission, with the peers of the set. Tells nodes of the change (O4), and later lets them delete what was not
    // taken (O6).
    void attend(Peers list) noexcept;

  private:
    enum class Step : uint8_t { to_do, asked, done };
    struct Told {
        Step change = Step::to_do, rest = Step::to_do;
        std::string kept = {};  // of the rest: what the node keeps; empty: it gave no key away
    };
    class Answers;
    static proxy::Ticket ticket(uint32_t run, size_t place, bool rest) {
        return proxy::Ticket(uint64_t(run) << 32 | place << 1 | uint64_t(rest));
    }

    bool tell(OwnLink& link, size_t place) noexcept;
    bool delete_rest(OwnLink& link, size_t place) noexcept;
    void ended(proxy::Ticket ticket, bool done) noexcept;

    LinkShared& shared_;
    const std::unique_ptr<Answers> answers_;
    std::shared_ptr<const FormerSet> former_, next_former_;  // nullptr: none
    std::vector<LinkPeer*> peers_, next_peers_;  // of its nodes; nullptr: no link
    std::vector<Told> told_, next_told_;         // by place in the list
    uint32_t run_ = 0;                         // of take()
    uint64_t attend_at_ns_ = UINT64_MAX;
};

}  // namespace farcached::daemon
