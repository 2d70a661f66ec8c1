// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_completions.h"

#include <fcntl.h>

#include <cerrno>

namespace farcached::fabric {

namespace {

bool must_not_wait(int fd) { return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0; }

}  // namespace

Refusal VerbsCompletions::make(const VerbsDevice& device, uint32_t entries) {
    auto refuse = [&](const char* call) { return verbs_call_failed(call, device.name(), errno); };
    channel_.reset(ibv_create_comp_channel(device.context()));
    if (channel_ == nullptr) return refuse("ibv_create_comp_channel");
    if (!must_not_wait(channel_->fd)) return refuse("fcntl");
    queue_.reset(ibv_create_cq(device.context(), int(entries), nullptr, channel_.get(), 0));
    if (queue_ == nullptr) return refuse("ibv_create_cq");
    return {};
}

int VerbsCompletions::arm() {
    if (armed_) return 0;
    const int failed = ibv_req_notify_cq(queue_.get(), /* solicited_only= */ 0);
    armed_ = failed == 0;
    return failed;
}

bool VerbsCompletions::take_event() {
    ibv_cq* of = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(channel_.get(), &of, &context) != 0) return false;
    ibv_ack_cq_events(queue_.get(), 1);
    armed_ = false;
    return true;
}

void VerbsCompletions::disarm() {
    (void)take_event();
    armed_ = false;
}

}  // namespace farcached::fabric
