// SPDX-License-Identifier: BSD-3-Clause
// Fixture of the tests of the channel over RDMA that need a device: its address, and a proxy by hand.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "fabric/verbs/verbs_greeting.h"
#include "fabric/verbs/verbs_queue.h"
#include "t/unit/fabric/channel_fixture.h"

namespace verbs_test {

using namespace channel_test;

struct Place {
    std::string host;
    VerbsDevices devices{VerbsConfig()};
    alignas(4096) char landing[1 << 16];  // 64 bytes for each READ that can be under way
    VerbsMemories memory() { return {{landing, sizeof landing}, {}}; }
    uint64_t* words() { return reinterpret_cast<uint64_t*>(landing); }
};

inline void nothing_dies(VerbsDevices& devices) {
    const uint64_t until = now_ms() + patience_ms();
    while (devices.deferred_closes() > 0 && now_ms() < until) poll(nullptr, 0, 1);
}

inline rdma_cm_event* wait_event(rdma_event_channel* from) {
    pollfd polled{from->fd, POLLIN, 0};
    rdma_cm_event* event = nullptr;
    if (poll(&polled, 1, int(patience_ms())) != 1) return nullptr;
    return rdma_get_cm_event(from, &event) == 0 ? event : nullptr;
}

// A proxy by hand that can post any work request.
struct RawProxy {
    std::unique_ptr<VerbsQueue> queue;
    VerbsWelcome welcome{};

    RawProxy(Place& place, VerbsListener& listener, End& server);
    // The device's error for one work request; empty: it completed well.
    std::string tries(ibv_send_wr work);
};

inline RawProxy::RawProxy(Place& place, VerbsListener& listener, End& server) {
    CmEvents events(rdma_create_event_channel());
    rdma_cm_id* made = nullptr;
    if (rdma_create_id(events.get(), &made, nullptr, RDMA_PS_TCP) != 0) tap::bail_out("rdma_create_id");
    CmId id(made);
    SocketAddress to = listener.address();
    if (rdma_resolve_addr(made, nullptr, to.get(), 2000) != 0) tap::bail_out("rdma_resolve_addr");
    CmEvent(wait_event(events.get())).reset();
    auto device = value_of(place.devices.device_of(*made));
    queue = value_of(VerbsQueue::make(std::move(events), std::move(id), std::move(device)));
    if (const Refusal no = queue->reach().use(queue->device(), {place.landing, sizeof place.landing}, VerbsAccess::landing))
        tap::bail_out(no->text);
    if (rdma_resolve_route(made, 2000) != 0) tap::bail_out("rdma_resolve_route");
    CmEvent(wait_event(queue->id()->channel)).reset();
    VerbsHello hello{};
    hello.head = verbs_head(verbs_hello_magic, sizeof hello);
    hello.receives = queue->receives();
    rdma_conn_param param{};
    param.private_data = &hello;
    param.private_data_len = sizeof hello;
    param.initiator_depth = param.responder_resources = 1;
    if (rdma_connect(made, &param) != 0) tap::bail_out("rdma_connect");
    pollfd polled{listener.fd(), POLLIN, 0};
    poll(&polled, 1, int(patience_ms()));
    server.channel = listener.accept(server);
    const CmEvent answer(wait_event(queue->id()->channel));
    if (answer == nullptr || answer->event != RDMA_CM_EVENT_ESTABLISHED) tap::bail_out("not established");
    const rdma_conn_param& said = answer->param.conn;
    welcome = value_of(parse_verbs_welcome({static_cast<const char*>(said.private_data), said.private_data_len}));
    queue->met(welcome.receives, {});
}

inline std::string RawProxy::tries(ibv_send_wr work) {
    const ibv_mr& landing = *queue->reach().own(VerbsAccess::landing);
    ibv_sge piece{reinterpret_cast<uint64_t>(landing.addr), 8, landing.lkey};
    work.wr_id = WorkId{WorkKind::read, 0}.packed();
    work.sg_list = &piece;
    work.num_sge = 1;
    work.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* refused = nullptr;
    if (ibv_post_send(queue->id()->qp, &work, &refused) != 0) tap::bail_out("ibv_post_send");
    ibv_wc done{};
    const uint64_t until = now_ms() + patience_ms();
    while (ibv_poll_cq(queue->id()->qp->send_cq, 1, &done) == 0 && now_ms() < until) poll(nullptr, 0, 1);
    return done.status == IBV_WC_SUCCESS ? "" : ibv_wc_status_str(done.status);
}

}  // namespace verbs_test
