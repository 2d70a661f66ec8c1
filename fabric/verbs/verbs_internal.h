// SPDX-License-Identifier: BSD-3-Clause
// VerbsChannel: both sides of a connection over RDMA; made by connect_verbs() and VerbsListener.
//
// Owner and threads: as any channel (fabric/channel.h). VerbsConnection makes and ends the connection, VerbsAgreement knows which
// memory the ends use, and VerbsWakeups wakes this one. The channel moves bytes, READs and reports through the queue.
//
// C1  A channel whose peer has gone, or that hangs up, retires the connection before it calls ended(). Else its destructor does
//     (Y1).
// C2  Between two calls of its owner the completion queue is armed, or wakeups_ is kicked (T2).
// C3  After arming the completion queue the channel polls it once more before its owner sleeps.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/socket.h"
#include "fabric/stream_channel.h"
#include "fabric/verbs/verbs_channel.h"
#include "fabric/verbs/verbs_connection.h"
#include "fabric/verbs/verbs_queue.h"
#include "fabric/verbs/verbs_rights.h"
#include "fabric/verbs/verbs_wakeups.h"

namespace farcached::fabric {

class VerbsChannel final : public StreamChannel {
  public:
    VerbsChannel(Descriptor poller, std::string name, VerbsDevices& devices, ChannelEvents& events,
                 size_t input_bytes_max);
    ~VerbsChannel() override;

    // A proxy's start, refused if RDMA is unusable here.
    Refusal connect(const SocketAddress& to, const VerbsMemories& memories, const RpcWish& wish);
    // A node's start, with a queue that has accepted. fetch_bytes: size of the other side's memory that it may READ.
    Refusal accepted(std::unique_ptr<VerbsQueue> queue, uint64_t fetch_bytes);
    // Before that, of a node that withholds: what grant() gives (name_offer()).
    void withhold(const VerbsOffer& offer, bool layout_fits) { agreement_.withhold(offer, layout_fits); }

    bool linger() override;
    bool can_read() const override { return queue() != nullptr && agreement_.reads(); }
    bool post_read(const ReadRequest& request) override;
    uint64_t lends() const override { return queue() != nullptr ? agreement_.lends() : 0; }
    bool post_fetch(const FetchRequest& request) override;
    bool counts_reads() const override { return queue() != nullptr && queue()->reach().counts_reads(); }
    bool has_container() const override { return queue() != nullptr && queue()->reports().own() != nullptr; }
    void copy_container(char* to, size_t bytes) const override;
    bool post_report(std::string_view bytes) override;
    void count_in(ChannelCounters& counters) override;
    void expect_replies(bool any) override;
    RpcMode rpc() const override;
    void send_at_once() override {
        if (queue() != nullptr) queue()->rpc().send_at_once(true);
    }
    bool looks() const override;
    bool has_input() override;
    Result<std::string> grant() override;
    Refusal take_grant(std::string_view bytes) override;
    void revoke() override;

  private:
    void advance() override { take_events(); }
    void woken() override;
    size_t pull(char* to, size_t room) override;
    size_t push(std::string_view bytes) override;
    void look_for_end() override;
    void post() override;
    bool watch(const Interest& interest) override;
    void hang_up() override;
    void tell_reads() override;
    void tell_written() override;

    void take_events();
    void end_with_call(const char* call, int error);
    void beat();
    bool anything_for(const Interest& interest) const;
    VerbsQueue* queue() const { return connection_.queue(); }  // nullptr: none yet, or none any more
    VerbsQueue* open_queue() const { return open() && !ending() ? queue() : nullptr; }

    VerbsDevices& devices_;
    VerbsAgreement agreement_;
    VerbsConnection connection_;
    VerbsWakeups wakeups_;
    std::vector<uint64_t> reads_failed_, telling_;  // tokens
    uint64_t completed_seen_ = 0;                  // at the last beat()
    Interest interest_{true, false, false};        // of the last watch()
    Spins spins_;
    bool lingered_ = false;
};

// Makes a descriptor non-blocking and closed on exec.
bool set_up_descriptor(int fd);
// "verbs:10.0.0.1:11300".
std::string verbs_name(const SocketAddress& address);

}  // namespace farcached::fabric
