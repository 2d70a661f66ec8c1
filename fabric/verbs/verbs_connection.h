// SPDX-License-Identifier: BSD-3-Clause
// VerbsConnection: the life of one connection over RDMA, by the connection manager's events, and its queue.
// VerbsChannel moves what travels on the queue.
//
// The proxy's side, by those events (next()):
//
//   resolving --ADDR_RESOLVED: queue made--> routing --ROUTE_RESOLVED: connect()--> connecting --CONNECT_RESPONSE--> open
//
// The node's is open as soon as it has accepted. Both can end in any state.
//
// Owner and thread: those of a VerbsChannel.
// Y1  queue() exists from `routing` to the end, at the latest that of the channel. retire() destroys it, or hands it to
//     VerbsDevices::defer_close(). So no READ lands in the memory of the channel's owner after the channel is destroyed (S12).
// Y2  An id whose event is held cannot be destroyed: functions that may destroy it get a released event.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "fabric/socket.h"
#include "fabric/verbs/verbs_device.h"
#include "fabric/verbs/verbs_queue.h"
#include "fabric/verbs/verbs_rights.h"

namespace farcached::fabric {

class VerbsConnection {
  public:
    struct Failed {
        ChannelEnd why;
        std::string text;  // the cause; empty: `why` names it
    };
    enum class Progress : uint8_t {
        waits,      // for the next event
        goes_on,    // there may be one more event
        has_queue,  // the same, and queue() exists from now on
        connected,  // a proxy's: the transport is up
    };
    // Both outlive this.
    VerbsConnection(VerbsDevices& devices, VerbsAgreement& agreement) : devices_(devices), agreement_(agreement) {}

    // A proxy's start, in this order. begin() is refused if RDMA is unusable here.
    Refusal begin();
    std::optional<Failed> resolve(const SocketAddress& to);
    // A node's, with a queue that has accepted.
    void accepted(std::unique_ptr<VerbsQueue> queue) { queue_ = std::move(queue); }

    // Readable while next() has an event. It never changes.
    int events_fd() const { return events()->fd; }
    // Takes the next event. open: it is connected.
    Result<Progress, Failed> next(bool open);
    VerbsQueue* queue() const { return queue_.get(); }
    bool peer_gone() const { return peer_gone_; }
    // Ends it, when its channel ends; no-op without a queue (Y1).
    void retire(bool open);

  private:
    using Step = Result<Progress, Failed>;
    rdma_event_channel* events() const { return queue_ != nullptr ? queue_->id()->channel : cm_events_.get(); }
    Step take(CmEvent event, bool open);
    Step address_resolved();
    Step route_resolved();
    Step answered(std::string_view private_data);

    VerbsDevices& devices_;
    VerbsAgreement& agreement_;
    // Until queue_ exists.
    CmEvents cm_events_;
    CmId id_;
    std::unique_ptr<VerbsQueue> queue_;
    bool peer_gone_ = false;
};

}  // namespace farcached::fabric
