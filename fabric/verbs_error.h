// SPDX-License-Identifier: BSD-3-Clause
// What went wrong with a device, as a sentence: device, operation, status, and what to do about it.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "fabric/channel.h"
#include "fabric/verbs_objects.h"

namespace farcached::fabric {

// Of a call that set errno. device: empty where there is none yet.
std::string verbs_call_failed(std::string_view call, std::string_view device, int error);
// Of memory that could not be registered.
std::string verbs_memory_refused(std::string_view device, size_t bytes, int error);
// rdma_create_event_channel(): RDMA as such is not there, or not for us.
std::string verbs_not_here(int error);

// Of a work request that completed badly.
struct VerbsBadCompletion {
    ChannelEnd why;
    std::string text;
    bool refused = false;  // by the other side's device: that is why, even if the other side has left since
};
VerbsBadCompletion verbs_completed_badly(std::string_view device, WorkKind kind, ibv_wc_status status);

}  // namespace farcached::fabric
