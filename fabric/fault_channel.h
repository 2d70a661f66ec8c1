// SPDX-License-Identifier: BSD-3-Clause
// FaultChannel: any channel, with what can go wrong going wrong, by a seed. For tests; linked
// wherever channels are, so that whole programs can be tested with it.
//
// F1  It keeps the contract of channel.h, and whatever it does a real fabric may do: bytes come
// late and cut
//     anywhere, reads late, in any order and torn, and a connection can end between any two things
//     that happen.
// F2  Of equal seeds and plans the nth read (send, receipt) is treated equally. When things happen
// that the other
//     side sends is not in its hands.
// F3  A read of a mapped region is copied here, line by line in random order. One that is torn
// copies some lines when
//     it is posted and the others when it completes, so that it tears around whatever is written in
//     between.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/channel.h"
#include "fabric/descriptor.h"

namespace farcached::fabric {

struct FaultPlan {
    uint64_t seed = 1;
    // How likely, 0 to 1.
    double delay_read = 0;  // it completes later than it could
    double fail_read = 0;   // it completes as failed, with garbage in its landing buffer
    double tear_read = 0;   // F3; only where regions are mapped
    double delay_send = 0;  // what is flushed leaves later, together with what is flushed meanwhile
    double delay_receive = 0;  // what came is shown later, together with what comes meanwhile
    double split_receive = 0;  // what came is shown in parts
    double delay_end = 0;      // that the other side is gone is told later
    uint64_t delay_ns_min = 0;          // of each; drawn evenly from the one
    uint64_t delay_ns_max = 2'000'000;  // to the other, which is not less
    uint64_t fail_read_number = 0;      // this one fails, counted from 1; 0: none
    uint64_t drop_at_step = 0;          // the connection is reset at this step; 0: never
    std::function<void()> between;      // runs when the first part of a torn read is copied
    std::function<uint64_t()>
        now_ns;  // empty: CLOCK_BOOTTIME. With another clock, call ready() when it has moved
};

// What environment the process was started with says: FARCACHED_FAULTS, "seed=1,tear_read=0.5,delay_ms=3". For programs
// of their own, which t/faulty.cc defines it for; every call draws another seed from the first.
FaultPlan fault_plan_of_environment();

// Steps, as drop_at_step counts them: connected(), each receipt, each posting of a read, each
// completion of one, each flush() of something. At the step it happens in part, as far as the other
// side sees it, or not at all.
class FaultChannel final : public Channel, private ChannelEvents {
  public:
    // `make` makes the channel within, for the events that it is given; nullptr if that returned
    // nullptr, or if there are no descriptors.
    using Maker = std::function<std::unique_ptr<Channel>(ChannelEvents&)>;
    static std::unique_ptr<FaultChannel> wrap(const FaultPlan& plan, ChannelEvents& events,
                                              const Maker& make);

    uint64_t steps() const { return steps_; }  // that have been

    int fd() const override { return poller_.get(); }
    bool wants_write() const override { return false; }
    void ready() override;
    void flush() override;
    bool linger() override { return !over_ && inner_->linger(); }
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
    bool post_write(std::string_view bytes) override { return !silent() && inner_->post_write(bytes); }
    void count_in(ChannelCounters& counters) override { inner_->count_in(counters); }
    void close() override;
    std::string describe() const override { return "fault:" + inner_->describe(); }

  private:
    struct HeldRead {
        ReadRequest request;
        uint64_t due_ns = 0;
        bool arrived = false;  // all there is to wait for is the time
        ReadStatus status = ReadStatus::done;
        std::vector<uint32_t> lines;  // to be copied when it is due
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
    void copy_lines(const ReadRequest& request, const std::vector<uint32_t>& lines);
    void plan_copy(HeldRead& read, bool torn);
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
    std::string held_out_;  // flushed and not given to the channel within
    uint64_t send_at_ns_ = 0;
    std::string in_;    // came and not consumed
    size_t shown_ = 0;  // of it
    uint64_t show_at_ns_ = 0;
    bool show_again_ = false;
    bool refused_ = false;  // the channel within has more than there was room for
    std::optional<Ending> ending_;
    bool dropped_ = false, closing_ = false, over_ = false;
    bool inner_writes_ = false;  // as the poller watches it
};

}  // namespace farcached::fabric
