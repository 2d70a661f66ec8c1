// SPDX-License-Identifier: BSD-3-Clause
// FaultChannel: wraps any channel and injects faults by a seed. For tests; linked wherever channels are, so that whole
// programs can be tested with it. Owner and threads: as any channel.
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
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/broken.h"
#include "base/result.h"
#include "fabric/channel.h"
#include "fabric/socket.h"

namespace farcached::fabric {

// The likelihoods of the fault points, of this channel alone.
struct FaultPlan : broken::Faults {
    std::function<void()> between = {};  // runs after the first part of a torn read is copied
    // Empty: CLOCK_BOOTTIME. With another clock, call ready() when it has moved.
    std::function<uint64_t()> now_ns = {};
};

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

    int fd() const override { return poller_.get(); }
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
    bool post_report(std::string_view bytes) override { return !silent() && inner_->post_report(bytes); }
    void count_in(ChannelCounters& counters) override { inner_->count_in(counters); }
    Result<std::string> grant() override { return inner_->grant(); }
    Refusal take_grant(std::string_view grant) override { return inner_->take_grant(grant); }
    void revoke() override { inner_->revoke(); }
    void close() override;
    std::string describe() const override { return "fault:" + inner_->describe(); }

  private:
    struct HeldRead {
        ReadRequest request;
        uint64_t due_ns = 0;
        bool arrived = false;  // only its delay remains
        ReadStatus status = ReadStatus::done;
        uint64_t rank = 0;             // of reads due together, the least comes first
        uint32_t unit_bytes = 0;       // of a line, or of a word
        std::vector<uint32_t> units;   // copied when it is due

        // Copies what is not left until it is due; a torn one leaves some.
        bool begin(const RegionView& view, bool torn, std::mt19937_64& dice);
        void copy(const RegionView& view, const std::vector<uint32_t>& which) const;
    };
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

    uint64_t now() const;
    bool chance(std::mt19937_64& dice, double probability);
    uint64_t delay(std::mt19937_64& dice, double probability);
    bool last_step();
    void drop();
    bool silent() const { return over_ || dropped_ || closing_; }
    void show();
    void send_held();
    void count_unsent();
    void tell_reads();
    void settle();
    void arm_timer();
    uint64_t next_due() const;
    void watch_inner();

    const FaultPlan plan_;
    ChannelEvents& events_;
    Descriptor poller_, timer_;
    std::unique_ptr<Channel> inner_;
    std::mt19937_64 read_dice_, send_dice_, receive_dice_, drop_dice_, end_dice_;
    uint64_t steps_ = 0, reads_ = 0;
    std::vector<HeldRead> held_reads_;
    std::string held_out_;  // flushed, but not passed to the inner channel
    uint64_t send_at_ns_ = 0;
    std::string in_;    // received, not consumed
    size_t shown_ = 0;  // bytes of in_ that were shown
    uint64_t show_at_ns_ = 0;
    bool show_again_ = false;
    bool refused_ = false;  // the inner channel has more than in_ had room for
    std::optional<Ending> ending_;
    bool dropped_ = false, closing_ = false, over_ = false;
    bool inner_writes_ = false;  // the poller watches the inner channel for writing
};

}  // namespace farcached::fabric
