// SPDX-License-Identifier: BSD-3-Clause
// FaultChannel: wraps any channel and injects faults by a seed. For tests; linked wherever channels are, so that whole
// programs can be tested with it. HeldReads has the reads, HeldInput the received bytes; FaultChannel drops the connection and
// delays sent bytes and the end. Owner and threads: as any channel.
//
// F1  It keeps the contract of channel.h and does only what a real fabric may do. Bytes arrive late and cut anywhere.
//     Reads complete late, in any order and torn. A connection can end between any two events.
// F2  Equal seeds and plans treat the nth read (send, receipt) equally. The seed does not control when the other side's
//     messages arrive.
// F3  It copies a read of a mapped region itself, line by line in random order, or word by word. A torn read copies some
//     of these when it is posted and the others when it completes, so that it mixes in every write in between. A bus
//     moves a line at once, and memory never tears a word: real hardware lies between the two.
// F4  Reads overtake one another: by delays, or because the channel reports one after others that complete in the same call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fabric/channel.h"
#include "fabric/fault_plan.h"
#include "fabric/fault_poller.h"
#include "fabric/held_input.h"
#include "fabric/held_reads.h"

namespace farcached::fabric {

// The plan of a program of t/faulty. Every call draws another seed from the first.
FaultPlan fault_plan_of_process();

// Steps, as drop_at_step counts them: connected(), each receipt, each report that was written, each posting of a read, each
// completion of a read, each flush() with bytes. The dropped step takes effect in part, as seen by the other side, or not
// at all.
class FaultChannel final : public Channel, private ChannelEvents {
  public:
    // `make` creates the inner channel for the given events.
    using Maker = std::function<Result<std::unique_ptr<Channel>>(ChannelEvents&)>;
    static Result<std::unique_ptr<Channel>> wrap(const FaultPlan& plan, ChannelEvents& events, const Maker& make);

    uint64_t steps() const { return steps_; }  // so far

    int fd() const override { return poller_.fd(); }
    bool wants_write() const override { return false; }
    void ready() override;
    void flush() override;
    bool linger() override { return !over_ && inner_->linger(); }
    bool looks() const override { return !over_ && inner_->looks(); }
    bool has_input() override { return !over_ && inner_->has_input(); }
    void expect_replies(bool any) override { inner_->expect_replies(any); }
    RpcMode rpc() const override { return inner_->rpc(); }
    void send_at_once() override { inner_->send_at_once(); }
    const RegionView* mapped_region(uint32_t region) const override {
        return inner_->mapped_region(region);
    }
    bool owner_alive() const override { return inner_->owner_alive(); }
    bool can_read() const override { return inner_->can_read(); }
    bool post_read(const ReadRequest& request) override;
    uint64_t lends() const override { return inner_->lends(); }
    bool counts_reads() const override { return inner_->counts_reads(); }
    bool has_container() const override { return inner_->has_container(); }
    void copy_container(char* to, size_t bytes) const override { inner_->copy_container(to, bytes); }
    bool post_report(std::string_view bytes) override { return !silent_ && inner_->post_report(bytes); }
    void count_in(ChannelCounters& counters) override { inner_->count_in(counters); }
    Result<std::string> grant() override { return inner_->grant(); }
    Refusal take_grant(std::string_view grant) override { return inner_->take_grant(grant); }
    void revoke() override { inner_->revoke(); }
    void close() override;
    std::string describe() const override { return "fault:" + inner_->describe(); }

  private:
    struct Ending {
        ChannelEnd why;
        std::string text;
        uint64_t due_ns = 0;
    };

    FaultChannel(const FaultPlan& plan, ChannelEvents& events);
    void connected() override;
    size_t received(std::string_view bytes) override;
    void read_done(uint64_t token, ReadStatus status) override;
    void written(size_t bytes) override;
    void ended(ChannelEnd why, const std::string& text) override;

    bool last_step();
    void drop();
    void send_held();
    void count_unsent();
    void tell_reads();
    void settle();
    uint64_t next_due() const;

    const FaultPlan plan_;
    ChannelEvents& events_;
    FaultPoller poller_;
    std::unique_ptr<Channel> inner_;
    FaultDice send_dice_, drop_dice_, end_dice_;
    uint64_t steps_ = 0;
    HeldReads reads_;
    HeldInput input_;
    std::string held_out_;  // flushed, but not passed to the inner channel
    uint64_t send_at_ns_ = 0;
    std::optional<Ending> ending_;
    bool silent_ = false;  // it has closed, dropped the connection, or ended: no more events but the end
    bool over_ = false;    // it has ended
};

}  // namespace farcached::fabric
