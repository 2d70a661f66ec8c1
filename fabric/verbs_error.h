// SPDX-License-Identifier: BSD-3-Clause
// Errors of a device as sentences: device, operation, status, and remedy. Pure, but for verbs_not_here().
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "fabric/channel.h"
#include "fabric/verbs_objects.h"

namespace farcached::fabric {

// For a call that set errno. device: empty if it is not known yet.
std::string verbs_call_failed(std::string_view call, std::string_view device, int error);
// For memory that could not be registered.
std::string verbs_memory_refused(std::string_view device, size_t bytes, int error);
// For rdma_create_event_channel(): RDMA is missing, or forbidden to this user.
std::string verbs_not_here(int error);

// For a work request that completed badly.
struct VerbsBadCompletion {
    ChannelEnd why;
    std::string text;
    bool refused = false;  // by the other side's device: the cause, even if the other side has left since
};
VerbsBadCompletion verbs_completed_badly(std::string_view device, WorkKind kind, ibv_wc_status status);

}  // namespace farcached::fabric
