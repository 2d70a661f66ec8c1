// SPDX-License-Identifier: BSD-3-Clause
// VerbsPair: the queue pair of one connection, its way from INIT to RTS, and the rights that it gives the other end.
//
//   make(): INIT, receives can be posted --ready(): RTR, RTS--> may send, gives no right --allow()--> gives rights
//
// librdmacm's own queue pairs admit READs, WRITEs and atomics from INIT on. So this class makes the transitions itself, with
// librdmacm's attributes but for the rights.
//
// Owner and thread: those of a VerbsQueue.
// A1  Before allow() the device refuses each READ, WRITE and atomic of the other end, with any key.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "fabric/verbs/verbs_device.h"

namespace farcached::fabric {

class VerbsPair {
  public:
    // For an id that has a device. Both outlive this. wanted: its cap gets the true sizes. Returns an errno.
    int make(const VerbsDevice& device, rdma_cm_id* id, ibv_qp_init_attr& wanted);

    ibv_qp* get() const { return pair_.get(); }
    // The connection manager's calls, which name this queue pair. A proxy: connect(), ready() at the reply, establish(). A node:
    // ready(), accept(). They return an errno.
    int connect(rdma_conn_param how);
    int establish();
    int accept(rdma_conn_param how);
    // The connection's path and limits. how: a node's limits of READs at once; nullptr: those of the reply. Checks that its
    // timeouts are at most those of the settings, on which the grace is built (S2).
    Refusal ready(const rdma_conn_param* how);
    // IBV_ACCESS_REMOTE_READ and the like, in force at once. Returns an errno.
    int allow(unsigned rights);
    // Ends sending and receiving at once; what is posted is flushed.
    void stop();

  private:
    int move(ibv_qp_state to, const rdma_conn_param* how);

    struct Destroy {
        void operator()(ibv_qp* pair) const;
    };
    const VerbsDevice* device_ = nullptr;
    rdma_cm_id* id_ = nullptr;
    std::unique_ptr<ibv_qp, Destroy> pair_;
};

}  // namespace farcached::fabric
