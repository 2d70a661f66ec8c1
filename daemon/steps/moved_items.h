// SPDX-License-Identifier: BSD-3-Clause
// MovedItems: brings an item from the node that had its key before the list of nodes changed, when a client asks for it. A node has
// joined, or its weight has changed, perhaps to 0. Requests for such a key take these steps for warm_up_s after the change, each
// only if the one before it has not answered:
//
//     get               its node -> the key's mark there -> get at the former node -> store here, if the mark is the same -> reply
//     set               as without steps
//     other mutations   mark -> get at the former node -> store, as a get; then as without steps
//
// Owner: a Worker; its thread alone. The requests of a key take their steps as in SteppedRequests.
//
// G1  The item that a step brings is the key's present one: every mutation since the change was executed at the key's node. It
//     gives no mark for a key that a mutation has touched since (node/keys/touched_keys.h). It stores nothing under a mark that is
//     not the key's last one.
// G2  The former node gives no item that had moved away from it before the change (node/store/hidden_items.h, F3). So the key was
//     its own by the list before the change, and by every list that the node had known.
// G3  PeerSet::former_home() knows every list of etcd's since the change (Found::former). By all of them the key's node is the
//     present one. So no other node had the key in between. If there are newer lists that this process does not know, a node that
//     knows one gives no mark.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/steps/stepped_requests.h"

namespace farcached::daemon {

class MovedItems final : public SteppedRequests {
  public:
    // Both outlive this.
    MovedItems(ReplyPool& replies, Context& context) : SteppedRequests(replies, context) {}

    bool must_wait(std::string_view key, uint64_t session) const override { return queues().waits(key, session); }
    bool takes_gets(std::string_view key) const override;
    bool takes_changes(std::string_view key) const override;

  private:
    static Step step(void (MovedItems::*then)(Request&, ReplySlot&)) { return static_cast<Step>(then); }

    bool goes_ahead(const Request& request) const override;
    void begin(Request& request) override;
    void first_answered(Request& request, ReplySlot& slot);
    void take_mark(Request& request);
    void mark_answered(Request& request, ReplySlot& slot);
    void fetch(Request& request);
    void fetched(Request& request, ReplySlot& slot);
    void filled(Request& request, ReplySlot& slot);
    void bring_nothing(Request& request);
    void execute(Request& request);
    void executed(Request& request, ReplySlot& slot);
};

}  // namespace farcached::daemon
