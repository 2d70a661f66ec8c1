// SPDX-License-Identifier: BSD-3-Clause
// Fixture of the tests of the channel over RDMA that need a device: its address, two connected ends, a proxy and a node by hand.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
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

// A test's main(). Without a device it skips.
template <class Body>
int run_with_device(Body body) {
    const char* host = std::getenv("FARCACHED_RDMA_ADDRESS");
    if (host == nullptr) {
        tap::skip(1, "FARCACHED_RDMA_ADDRESS is no device's");
        return tap::done();
    }
    const auto place = std::make_unique<Place>();
    place->host = host;
    body(*place);
    nothing_dies(place->devices);
    return tap::done();
}

// A proxy and a node that are connected. They share no devices.
struct Ends {
    VerbsDevices node_devices, proxy_devices;
    std::unique_ptr<VerbsListener> listener;
    End client, server;

    Ends(Place& place, const VerbsConfig& node, const VerbsConfig& proxy, const VerbsOffer& offer = {}, const RpcWish& wish = {})
        : node_devices(node),
          proxy_devices(proxy),
          listener(value_of(VerbsListener::listen(*numeric_address(place.host, 0), offer, node_devices, 64))) {
        connect(place, client, server, wish);
    }
    ~Ends() {
        listener.reset();
        client.channel.reset();
        server.channel.reset();
        nothing_dies(node_devices);
        nothing_dies(proxy_devices);
    }
    // Two more ends of the same node.
    void connect(Place& place, End& from, End& to, const RpcWish& wish = {}) {
        from.channel = value_of(connect_verbs(listener->address(), proxy_devices, place.memory(), from, wish));
        if (!accept_into(*listener, to, &from)) tap::bail_out("no connection");
        pump({&from, &to}, [&] { return from.up || from.over; });
        if (!from.up) tap::bail_out(from.text);
    }
    // The node sends its first bytes, so the proxy may use the node's slots and container (B2).
    static void welcome(End& from, End& to) {
        to.send("welcome");
        pump({&from, &to}, [&] { return from.bytes == "welcome"; });
        from.bytes.clear();
    }
};

// ---- work requests by hand ------------------------------------------------------------------------------

// An access to remote memory.
inline ibv_send_wr access_to(ibv_wr_opcode opcode, uint64_t at, uint32_t key) {
    ibv_send_wr work{};
    work.opcode = opcode;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        work.wr.atomic.remote_addr = at;
        work.wr.atomic.rkey = key;
        work.wr.atomic.compare_add = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 1 : 0;
        work.wr.atomic.swap = 4711;
    } else {
        work.wr.rdma.remote_addr = at;
        work.wr.rdma.rkey = key;
    }
    return work;
}
// said: the device's error; empty: none.
inline void is_granted(const std::string& said, bool granted, const std::string& name) {
    if (granted)
        tap::is(said, "", name + " is granted");
    else
        tap::ok(said.starts_with("remote "), name + " is refused");
    if (!said.empty()) tap::note("%s: %s", name.c_str(), said.c_str());
}

inline rdma_cm_event* wait_event(rdma_event_channel* from) {
    pollfd polled{from->fd, POLLIN, 0};
    rdma_cm_event* event = nullptr;
    if (poll(&polled, 1, int(patience_ms())) != 1) return nullptr;
    return rdma_get_cm_event(from, &event) == 0 ? event : nullptr;
}

inline void time_out_as_configured(VerbsQueue& queue) {
    uint8_t timeout = queue.device().config().ack_timeout;
    if (rdma_set_option(queue.id(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout) != 0)
        tap::bail_out("rdma_set_option");
}

// The queue of a proxy by hand, which may connect.
inline std::unique_ptr<VerbsQueue> queue_towards(Place& place, SocketAddress to) {
    CmEvents events(rdma_create_event_channel());
    rdma_cm_id* made = nullptr;
    if (rdma_create_id(events.get(), &made, nullptr, RDMA_PS_TCP) != 0) tap::bail_out("rdma_create_id");
    CmId id(made);
    if (rdma_resolve_addr(made, nullptr, to.get(), 2000) != 0) tap::bail_out("rdma_resolve_addr");
    CmEvent(wait_event(events.get())).reset();
    auto device = value_of(place.devices.device_of(*made));
    auto queue = value_of(VerbsQueue::make(std::move(events), std::move(id), std::move(device)));
    time_out_as_configured(*queue);
    if (rdma_resolve_route(made, 2000) != 0) tap::bail_out("rdma_resolve_route");
    CmEvent(wait_event(queue->id()->channel)).reset();
    return queue;
}

// The device's error for one work request of a queue by hand, whose landing memory it uses; empty: it completed well.
inline std::string tries_by(VerbsQueue& queue, ibv_send_wr work) {
    const ibv_mr& landing = *queue.reach().own(VerbsAccess::landing);
    ibv_sge piece{reinterpret_cast<uint64_t>(landing.addr), 8, landing.lkey};
    work.wr_id = WorkId{WorkKind::read, 0}.packed();
    work.sg_list = &piece;
    work.num_sge = 1;
    work.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* refused = nullptr;
    if (ibv_post_send(queue.pair().get(), &work, &refused) != 0) tap::bail_out("ibv_post_send");
    ibv_wc done{};
    const uint64_t until = now_ms() + patience_ms();
    while (ibv_poll_cq(queue.pair().get()->send_cq, 1, &done) == 0) {
        if (now_ms() >= until) tap::bail_out("no completion");
        poll(nullptr, 0, 1);
    }
    return done.status == IBV_WC_SUCCESS ? "" : ibv_wc_status_str(done.status);
}

// A proxy by hand that can post any work request.
struct RawProxy {
    std::unique_ptr<VerbsQueue> queue;
    VerbsWelcome welcome{};

    // early: runs when it may send, before the connection manager's last message.
    RawProxy(Place& place, VerbsListener& listener, End& server, const std::function<void(RawProxy&)>& early = {});
    // The node sends its first bytes: its windows are bound (B2).
    void welcomed_by(End& server) {
        server.send("come in");
        const uint64_t until = now_ms() + patience_ms();
        while (!queue->messages().anything_came() && now_ms() < until) {
            turn({&server}, 1);
            queue->collect();
        }
    }
    // The device's error for one work request; empty: it completed well.
    std::string tries(ibv_send_wr work) { return tries_by(*queue, work); }
};

inline RawProxy::RawProxy(Place& place, VerbsListener& listener, End& server, const std::function<void(RawProxy&)>& early)
    : queue(queue_towards(place, listener.address())) {
    if (const Refusal no = queue->reach().use(queue->device(), {place.landing, sizeof place.landing}, VerbsAccess::landing))
        tap::bail_out(no->text);
    VerbsHello hello{};
    hello.head = verbs_head(verbs_hello_magic, sizeof hello);
    hello.receives = queue->receives();
    rdma_conn_param param{};
    param.private_data = &hello;
    param.private_data_len = sizeof hello;
    param.initiator_depth = param.responder_resources = 1;
    param.retry_count = 6;  // soft-RoCE retries for ever with 7
    if (queue->pair().connect(param) != 0) tap::bail_out("rdma_connect");
    pollfd polled{listener.fd(), POLLIN, 0};
    poll(&polled, 1, int(patience_ms()));
    server.channel = listener.accept(server);
    const CmEvent answer(wait_event(queue->id()->channel));
    if (answer == nullptr || answer->event != RDMA_CM_EVENT_CONNECT_RESPONSE) tap::bail_out("no answer");
    if (const Refusal no = queue->pair().ready(nullptr)) tap::bail_out(no->text);
    if (queue->allow()) tap::bail_out("no rights");
    if (early) early(*this);
    if (queue->pair().establish() != 0) tap::bail_out("not established");
    const rdma_conn_param& said = answer->param.conn;
    welcome = value_of(parse_verbs_welcome({static_cast<const char*>(said.private_data), said.private_data_len}));
    queue->messages().met(welcome.receives);
}

// A node by hand, that answers what the test wants.
struct RawNode {
    Place& place;
    CmEvents events{rdma_create_event_channel()};
    CmId id;
    SocketAddress address;
    std::unique_ptr<VerbsQueue> queue;

    explicit RawNode(Place& at) : place(at), address(*numeric_address(at.host, 0)) {
        rdma_cm_id* made = nullptr;
        if (rdma_create_id(events.get(), &made, nullptr, RDMA_PS_TCP) != 0) tap::bail_out("rdma_create_id");
        id.reset(made);
        if (rdma_bind_addr(made, address.get()) != 0 || rdma_listen(made, 4) != 0) tap::bail_out("rdma_listen");
        std::memcpy(&address.storage, rdma_get_local_addr(made), sizeof(sockaddr_in));
    }
    // Waits for a connection; makes a queue for it, if `with`.
    CmId knocked(bool with) {
        CmEvent event(wait_event(events.get()));
        if (event == nullptr) tap::bail_out("nobody connects");
        CmId from(event->id);
        event.reset();
        if (!with) return from;
        CmEvents own(rdma_create_event_channel());
        if (rdma_migrate_id(from.get(), own.get()) != 0) tap::bail_out("rdma_migrate_id");
        auto device = value_of(place.devices.device_of(*from));
        queue = value_of(VerbsQueue::make(std::move(own), std::move(from), std::move(device)));
        return nullptr;
    }
    // reads: READs of the other end's memory at once.
    void accept(const VerbsWelcome& welcome, uint8_t bytes = sizeof(VerbsWelcome), uint8_t reads = 0) {
        rdma_conn_param param{};
        param.private_data = &welcome;
        param.private_data_len = bytes;
        param.responder_resources = 1;
        param.initiator_depth = reads;
        time_out_as_configured(*queue);
        if (queue->pair().ready(&param) || queue->allow() || queue->pair().accept(param) != 0) tap::bail_out("rdma_accept");
    }
};

inline VerbsWelcome good_welcome() {
    VerbsWelcome welcome{};
    welcome.head = verbs_head(verbs_welcome_magic, sizeof welcome);
    welcome.receives = {32, 8192};
    welcome.names.incarnation = 7;
    welcome.names.region_address = 1 << 20;
    welcome.names.region_bytes = 1 << 20;
    welcome.names.region_key = 0x1234;
    return welcome;
}

// The connecting side moves on while the raw node waits for it.
template <class Act>
void meet(Place& place, RawNode& node, End& client, Act act, const RpcWish& wish = {}) {
    client.channel = value_of(connect_verbs(node.address, place.devices, place.memory(), client, wish));
    pollfd knock{node.events->fd, POLLIN, 0};
    pump({&client}, [&] { return poll(&knock, 1, 0) == 1; });
    act();
    pump({&client}, [&] { return client.up || client.over; });
}

}  // namespace verbs_test
