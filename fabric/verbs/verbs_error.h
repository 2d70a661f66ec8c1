// SPDX-License-Identifier: BSD-3-Clause
// Errors of a device as sentences: device, operation, status, and remedy; and the failure of one queue pair. Pure, but for
// verbs_not_here().
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "fabric/channel.h"
#include "fabric/verbs/verbs_device.h"

namespace farcached::fabric {

// For a call that set errno. device: empty if it is not known yet.
Problem verbs_call_failed(std::string_view call, std::string_view device, int error);
// For memory that could not be registered.
Problem verbs_memory_refused(std::string_view device, size_t bytes, int error);
// For rdma_create_event_channel(): RDMA is missing, or forbidden to this user.
Problem verbs_not_here(int error);

// Loads the libraries of RDMA (rdma_library.cc). Returns the cause if they are missing, else an empty string.
const std::string& rdma_libraries_missing();

// For a work request that completed badly.
struct VerbsBadCompletion {
    ChannelEnd why;
    std::string text;
    bool refused = false;  // by the other side's device: the cause, even if the other side has left since
};
VerbsBadCompletion verbs_completed_badly(std::string_view device, WorkKind kind, ibv_wc_status status);

// How a queue pair failed.
// Q3  bad() holds the first work request that completes badly. The queue pair is in error from then on, and later
//     completions mean nothing. A request is flushed because of another failure, and may complete before it. Then the
//     queue posts one more request, and bad() stays empty until that failure completes or the last request is flushed.
class VerbsFailure {
  public:
    const std::optional<VerbsBadCompletion>& bad() const { return bad_; }
    bool any() const { return bad_.has_value() || flushed_.has_value(); }
    void fail(ChannelEnd why, std::string text) {
        if (!bad_.has_value()) bad_ = VerbsBadCompletion{why, std::move(text), false};
    }
    // True: it is the first flushed request; the caller posts one more, and look_for()s it.
    bool completed_badly(WorkId id, bool flushed, VerbsBadCompletion bad) {
        if (bad_.has_value()) return false;
        if (!flushed) {
            bad_ = std::move(bad);
        } else if (!flushed_.has_value()) {
            flushed_ = std::move(bad);
            return true;
        } else if (id.kind != WorkKind::receive && id.number == last_number_) {
            look_no_further();
        }
        return false;
    }
    void look_for(uint64_t last_number) { last_number_ = last_number; }
    // Stops waiting for the cause of a flush.
    void look_no_further() {
        if (!bad_.has_value()) bad_ = flushed_;
    }

  private:
    std::optional<VerbsBadCompletion> bad_;
    std::optional<VerbsBadCompletion> flushed_;  // the first flushed request
    uint64_t last_number_ = 0;                    // of the request that was posted then
};

}  // namespace farcached::fabric
