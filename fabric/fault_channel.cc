// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/fault_channel.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/node_clock.h"
#include "fabric/region.h"
#include "protocol/words.h"

namespace farcached::fabric {

namespace {

constexpr size_t held_reads_max = 64;
constexpr uint64_t never = UINT64_MAX;
constexpr uint32_t line_bytes = 64;  // a cache, a bus and a network card move it at once
constexpr uint32_t word_bytes = 8;   // never torn

size_t landing_bytes(const ReadRequest& request) {
    return (size_t(request.ptr.length) + 7) / 8 * 8;
}

}  // namespace

FaultChannel::FaultChannel(const FaultPlan& plan, ChannelEvents& events)
    : plan_(plan),
      events_(events),
      poller_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC)),
      read_dice_(plan.seed * 4 + 0),
      send_dice_(plan.seed * 4 + 1),
      receive_dice_(plan.seed * 4 + 2),
      drop_dice_(plan.seed * 4 + 3),
      end_dice_(~plan.seed) {}

Result<std::unique_ptr<Channel>> FaultChannel::wrap(const FaultPlan& plan, ChannelEvents& events, const Maker& make) {
    std::unique_ptr<FaultChannel> channel(new FaultChannel(plan, events));
    if (!channel->poller_ || !channel->timer_) return no_descriptor("fault");
    auto inner = make(*channel);
    if (const auto* problem = std::get_if<Problem>(&inner)) return *problem;
    channel->inner_ = std::get<0>(std::move(inner));
    for (int fd : {channel->inner_->fd(), channel->timer_.get()}) {
        epoll_event event{};
        event.events = EPOLLIN;
        if (epoll_ctl(channel->poller_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return no_descriptor(channel->describe());
    }
    channel->watch_inner();
    return channel;
}

// ---- chance and time --------------------------------------------------------------------------------

uint64_t FaultChannel::now() const { return plan_.now_ns ? plan_.now_ns() : boottime_ns(); }

// Draws once per call, whether or not the result is used (F2).
bool FaultChannel::chance(std::mt19937_64& dice, double probability) {
    return double(dice() >> 11) * 0x1p-53 < probability;
}

uint64_t FaultChannel::delay(std::mt19937_64& dice, double probability) {
    const bool late = chance(dice, probability);
    const uint64_t least = uint64_t(plan_.delay_ms_min * 1e6), most = uint64_t(plan_.delay_ms * 1e6);
    const uint64_t ns = least + dice() % (most - least + 1);
    return late ? now() + ns : 0;
}

// Counts a step; true: the connection drops at it.
bool FaultChannel::last_step() { return ++steps_ == plan_.drop_at_step; }

void FaultChannel::drop() {
    dropped_ = true;
    ending_ = Ending{ChannelEnd::reset, describe() + ": dropped at step " + std::to_string(steps_)};
    inner_->close();
}

// ---- calls of the owner -----------------------------------------------------------------------------

void FaultChannel::ready() {
    if (over_) return;
    uint64_t expirations = 0;
    (void)!read(timer_.get(), &expirations, sizeof expirations);
    refused_ = false;
    if (!silent() && !ending_) inner_->ready();
    if (!silent()) send_held();
    count_unsent();
    if (!silent()) show();
    if (!silent() && !ending_) tell_reads();
    settle();
}

void FaultChannel::flush() {
    if (over_) return;
    if (!silent() && !out_.empty()) {
        held_out_.append(out_.data(), out_.size());
        out_.clear(0);
        if (last_step()) {
            // After a drop the sender cannot know whether its last bytes arrived.
            if (chance(drop_dice_, 0.5)) send_held();
            drop();
        } else if (send_at_ns_ == 0) {
            send_at_ns_ = delay(send_dice_, plan_.delay_send);
        }
    }
    if (!silent()) send_held();
    if (!silent()) inner_->flush();  // posted reads
    settle();
}

void FaultChannel::close() {
    if (silent()) return;
    send_at_ns_ = 0;
    send_held();  // bytes flushed before close() still leave
    closing_ = true;
    ending_ = Ending{ChannelEnd::closed,
                     describe() + ": " + std::string(channel_end_help(ChannelEnd::closed))};
    inner_->close();
    arm_timer();
}

void FaultChannel::send_held() {
    if (ending_ || send_at_ns_ > now()) return;  // a channel that has ended sends nothing
    send_at_ns_ = 0;
    if (held_out_.empty()) return;
    inner_->out().append(held_out_);
    held_out_.clear();
    inner_->flush();
    show_again_ = !in_.empty();  // an owner that stopped consuming may want to go on
}

void FaultChannel::count_unsent() { unsent_bytes_ = held_out_.size() + inner_->out_pending(); }

// The last step of every call: it may report the end, and after that nothing of the channel is touched.
void FaultChannel::settle() {
    count_unsent();
    if (ending_ && (silent() || (in_.empty() && ending_->due_ns <= now()))) {
        over_ = true;
        const Ending ending = std::move(*ending_);
        events_.ended(ending.why, ending.text);
        return;
    }
    watch_inner();
    arm_timer();
}

void FaultChannel::watch_inner() {
    if (ending_) {  // its descriptor would stay readable until the delayed end
        epoll_ctl(poller_.get(), EPOLL_CTL_DEL, inner_->fd(), nullptr);
        return;
    }
    if (inner_writes_ == inner_->wants_write()) return;
    inner_writes_ = inner_->wants_write();
    epoll_event event{};
    event.events = EPOLLIN | (inner_writes_ ? uint32_t(EPOLLOUT) : 0);
    CHECK(epoll_ctl(poller_.get(), EPOLL_CTL_MOD, inner_->fd(), &event) == 0);
}

uint64_t FaultChannel::next_due() const {
    uint64_t due = never;
    if (ending_) due = silent() ? 0 : in_.empty() ? ending_->due_ns : show_at_ns_;
    if (!held_out_.empty()) due = std::min(due, send_at_ns_);
    if (refused_ && in_.size() < input_bytes_default) due = 0;
    if (show_again_ || in_.size() > shown_) due = std::min(due, show_at_ns_);
    for (const HeldRead& read : held_reads_)
        if (read.arrived) due = std::min(due, read.due_ns);
    return due;
}

void FaultChannel::arm_timer() {
    const uint64_t due = next_due(), at = now();
    itimerspec timer{};
    if (due != never) {
        const uint64_t left = due > at ? due - at : 1;
        timer.it_value.tv_sec = time_t(left / 1'000'000'000);
        timer.it_value.tv_nsec = long(left % 1'000'000'000);
    }
    CHECK(timerfd_settime(timer_.get(), 0, &timer, nullptr) == 0);
}

// ---- events of the inner channel --------------------------------------------------------------------

void FaultChannel::connected() {
    if (silent()) return;
    if (last_step()) return drop();
    events_.connected();
}

size_t FaultChannel::received(std::string_view bytes) {
    if (silent()) return 0;
    const size_t taken = std::min(bytes.size(), input_bytes_default - in_.size());
    if (taken == 0) {
        refused_ = true;
        return 0;
    }
    in_.append(bytes.substr(0, taken));
    refused_ = taken < bytes.size();
    if (!last_step()) {
        if (show_at_ns_ == 0) show_at_ns_ = delay(receive_dice_, plan_.delay_receive);
        return taken;
    }
    if (chance(drop_dice_, 0.5)) {
        const size_t some = shown_ + drop_dice_() % (in_.size() - shown_ + 1);
        (void)events_.received(std::string_view(in_).substr(0, some));
    }
    drop();
    return taken;
}

void FaultChannel::written(size_t bytes) {
    if (silent()) return;
    if (last_step()) return drop();
    events_.written(bytes);
}

void FaultChannel::read_done(uint64_t token, ReadStatus status) {
    for (HeldRead& read : held_reads_) {
        if (read.request.token != token || read.arrived) continue;
        read.arrived = true;
        if (read.status == ReadStatus::done) read.status = status;
        return;
    }
    CHECK(silent());
}

void FaultChannel::ended(ChannelEnd why, const std::string& text) {
    if (!ending_) ending_ = Ending{why, text, delay(end_dice_, plan_.delay_end)};
}

// ---- events for the owner ---------------------------------------------------------------------------

void FaultChannel::show() {
    if (in_.empty() || show_at_ns_ > now()) return;
    show_at_ns_ = 0;
    show_again_ = false;
    size_t size = in_.size();
    if (size > shown_ && !ending_ && chance(receive_dice_, plan_.split_receive))
        size = shown_ + 1 + receive_dice_() % (size - shown_);
    const size_t consumed = events_.received(std::string_view(in_).substr(0, size));
    CHECK(consumed <= size);
    in_.erase(0, consumed);
    shown_ = size - consumed;
    if (ending_) in_.clear();  // all of it was shown
}

void FaultChannel::tell_reads() {
    const uint64_t at = now();
    for (;;) {
        auto first = held_reads_.end();
        for (auto read = held_reads_.begin(); read != held_reads_.end(); ++read)
            if (read->arrived && read->due_ns <= at &&
                (first == held_reads_.end() ||
                 std::pair(read->due_ns, read->rank) < std::pair(first->due_ns, first->rank)))
                first = read;
        if (first == held_reads_.end()) return;
        const HeldRead read = std::move(*first);
        held_reads_.erase(first);
        if (last_step()) return drop();
        ReadStatus status = read.status;
        if (!read.units.empty()) read.copy(*inner_->mapped_region(read.request.ptr.region), read.units);
        if (status == ReadStatus::done && !inner_->owner_alive()) status = ReadStatus::owner_dead;
        if (status != ReadStatus::done)
            std::memset(read.request.landing, 0xa5, landing_bytes(read.request));
        events_.read_done(read.request.token, status);
        if (silent()) return;
    }
}

// ---- reads ------------------------------------------------------------------------------------------

bool FaultChannel::post_read(const ReadRequest& request) {
    CHECK(can_read());
    CHECK(well_formed(request.ptr));
    if (held_reads_.size() == held_reads_max) return false;
    if (!silent() && last_step()) drop();
    if (silent()) {
        arm_timer();
        return true;  // never reported: the channel has ended
    }
    HeldRead read;
    read.request = request;
    const bool by_lines = chance(read_dice_, plan_.tear_read);
    const bool by_words = chance(read_dice_, plan_.tear_words);
    read.unit_bytes = by_words ? word_bytes : line_bytes;
    const bool unlucky = chance(read_dice_, plan_.fail_read);
    const bool fails = ++reads_ == plan_.fail_read_number || unlucky;
    read.due_ns = delay(read_dice_, plan_.delay_read);
    const bool behind = chance(read_dice_, plan_.shuffle_read);
    const uint64_t rank = read_dice_();
    read.rank = behind ? rank : 0;
    if (fails) read.status = ReadStatus::failed;
    if (const RegionView* view = inner_->mapped_region(request.ptr.region)) {
        const bool torn = by_lines || by_words;
        const bool begun = read.begin(*view, torn, read_dice_);
        if (begun && torn && plan_.between) plan_.between();
    } else if (!inner_->post_read(request)) {
        return false;
    }
    held_reads_.push_back(std::move(read));
    arm_timer();
    return true;
}

bool FaultChannel::HeldRead::begin(const RegionView& view, bool torn, std::mt19937_64& dice) {
    CHECK(inside(request.ptr, view.region_bytes));
    arrived = true;
    if (words::load_relaxed(&view.header->incarnation) != request.ptr.incarnation) {
        status = ReadStatus::failed;
        return false;
    }
    const uint64_t first = request.ptr.offset / unit_bytes;
    const uint64_t last = (request.ptr.offset + landing_bytes(request) - 1) / unit_bytes;
    std::vector<uint32_t> now(size_t(last - first + 1));
    std::iota(now.begin(), now.end(), 0U);
    std::shuffle(now.begin(), now.end(), dice);
    const size_t later = torn ? dice() % (now.size() + 1) : 0;
    units.assign(now.end() - long(later), now.end());
    now.resize(now.size() - later);
    copy(view, now);
    return true;
}

void FaultChannel::HeldRead::copy(const RegionView& view, const std::vector<uint32_t>& which) const {
    const uint64_t begin = request.ptr.offset, end = begin + landing_bytes(request);
    const uint64_t first = begin / unit_bytes * unit_bytes;
    for (uint32_t unit : which) {
        const uint64_t from = first + uint64_t(unit) * unit_bytes;
        const uint64_t stop = std::min(from + unit_bytes, end);
        for (uint64_t at = std::max(from, begin); at < stop; at += word_bytes)
            request.landing[(at - begin) / word_bytes] =
                words::load_relaxed(reinterpret_cast<const uint64_t*>(view.base + at));
    }
}

FaultPlan fault_plan_of_process() {
    static std::atomic<uint64_t> calls{0};
    FaultPlan plan{broken::faults, {}};
    plan.seed += calls.fetch_add(1) << 32;
    return plan;
}

}  // namespace farcached::fabric
