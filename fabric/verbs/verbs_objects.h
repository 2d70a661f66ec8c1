// SPDX-License-Identifier: BSD-3-Clause
// The objects of libibverbs and librdmacm, each released with its owner; and the fields of a work request's id. An owner
// of several declares them so that each is released before the objects that it depends on.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>

namespace farcached::fabric {

template <auto release>
struct VerbsRelease {
    template <class T>
    void operator()(T* object) const {
        (void)release(object);
    }
};

using CmEvents = std::unique_ptr<rdma_event_channel, VerbsRelease<rdma_destroy_event_channel>>;
using CmId = std::unique_ptr<rdma_cm_id, VerbsRelease<rdma_destroy_id>>;  // waits until its events are acknowledged
using CmEvent = std::unique_ptr<rdma_cm_event, VerbsRelease<rdma_ack_cm_event>>;
using QueuePair = std::unique_ptr<rdma_cm_id, VerbsRelease<rdma_destroy_qp>>;  // the queue pair of an id
using ProtectionDomain = std::unique_ptr<ibv_pd, VerbsRelease<ibv_dealloc_pd>>;
using MemoryRegion = std::unique_ptr<ibv_mr, VerbsRelease<ibv_dereg_mr>>;
// ibv_dealloc_mw() is static inline: each unit has its own, so it cannot be the argument of a shared template.
struct WindowRelease {
    void operator()(ibv_mw* window) const { (void)ibv_dealloc_mw(window); }
};
using MemoryWindow = std::unique_ptr<ibv_mw, WindowRelease>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, VerbsRelease<ibv_destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, VerbsRelease<ibv_destroy_cq>>;

// The id of a work request: its kind and number. 56 bits of a counter outlast any connection.
enum class WorkKind : uint8_t { message = 1, credits, read, count, beat, receive, write, bind };

struct WorkId {
    WorkKind kind;
    uint64_t number;  // in the send queue's order; of a receive: its buffer

    uint64_t packed() const { return uint64_t(kind) << 56 | number; }
    static WorkId unpack(uint64_t id) { return {WorkKind(id >> 56), id & ((UINT64_C(1) << 56) - 1)}; }
};

}  // namespace farcached::fabric
