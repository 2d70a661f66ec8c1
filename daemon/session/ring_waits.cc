// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/session/ring_waits.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace farcached::daemon {

class RingWaits::Poll final : public Readiness {
  public:
    Poll(RingWaits& waits, size_t place, std::function<void()> ready)
        : waits_(waits), place_(place), ready_(std::move(ready)) {}
    ~Poll() override {
        stop();
        waits_.places_[place_].holder = nullptr;
    }

    void await(int fd, bool writable) override {
        stop();
        fd_ = fd;
        writable_ = writable;
        waits_.some_unarmed_ = true;
    }
    void stop() override {
        fd_ = -1;
        is_ready_ = false;
        if (!std::exchange(armed_, false)) return;
        waits_.ring_.cancel(waits_.name_of(place_), waits_.cancelling_);
        waits_.places_[place_].stops++;
    }

  private:
    friend class RingWaits;

    RingWaits& waits_;
    const size_t place_;
    const std::function<void()> ready_;
    int fd_ = -1;  // -1: not awaited
    bool writable_ = false;
    bool armed_ = false;
    bool is_ready_ = false;
};

std::unique_ptr<Readiness> RingWaits::make(std::function<void()> ready) {
    const auto place = size_t(std::ranges::find(places_, nullptr, &Place::holder) - places_.begin());
    if (place == places_.size()) places_.emplace_back();
    auto made = std::make_unique<Poll>(*this, place, std::move(ready));
    places_[place].holder = made.get();
    return made;
}

uint64_t RingWaits::name_of(size_t place) const {
    constexpr uint32_t stops_mask = (1u << (32 - kind_bits)) - 1;
    return uint64_t(place) << 32 | (places_[place].stops & stops_mask) << kind_bits | kind_;
}

void RingWaits::arm_all() {
    some_unarmed_ = false;
    for (size_t place = 0; place < places_.size(); place++) {
        Poll* const one = places_[place].holder;
        if (one == nullptr || one->fd_ < 0 || one->armed_) continue;
        one->armed_ = true;
        ring_.poll(one->fd_, one->writable_ ? POLLIN | POLLOUT : POLLIN, name_of(place));
    }
}

void RingWaits::note(uint64_t name) {
    const size_t place = name >> 32;
    Poll* const one = places_[place].holder;
    if (one == nullptr || !one->armed_ || name != name_of(place)) return;  // a stopped one
    one->armed_ = false;
    one->is_ready_ = true;
    some_unarmed_ = some_ready_ = true;
}

// By place, as a callback may make and end others (A2).
void RingWaits::tell() {
    some_ready_ = false;
    for (size_t place = 0; place < places_.size(); place++) {
        Poll* const one = places_[place].holder;
        if (one != nullptr && std::exchange(one->is_ready_, false)) one->ready_();
    }
}

}  // namespace farcached::daemon
