// SPDX-License-Identifier: BSD-3-Clause
// What is special to the channel over RDMA, with a device: reads, peers that lie, teardown, nothing left behind. Runs in a
// guest, or wherever FARCACHED_RDMA_ADDRESS is the address of a device; elsewhere it skips.
#include <cstdlib>
#include <string>
#include <vector>

#include "fabric/verbs_greeting.h"
#include "fabric/verbs_queue.h"
#include "t/unit_channel_fixture.h"

namespace {

using namespace channel_test;

struct Place {
    std::string host;
    VerbsDevices devices{VerbsConfig()};
    alignas(4096) char landing[1 << 16];  // 64 bytes for each READ that can be under way
    LandingMemory memory() { return {landing, sizeof landing}; }
    uint64_t* words() { return reinterpret_cast<uint64_t*>(landing); }
};

void nothing_dies(Place& place) {
    const uint64_t until = now_ms() + patience_ms();
    while (place.devices.dying() > 0 && now_ms() < until) poll(nullptr, 0, 1);
}

// ---- reads ------------------------------------------------------------------------------------------

void reads(Place& place) {
    Region region(small_region(4711));
    for (uint64_t i = 0; i < 4000; i++) region.arena()[i] = i * 3;
    const uint64_t arena = region.view().region_bytes - region.view().arena_bytes;
    Transport transport = verbs_transport(place.host, place.devices, &region, place.memory());
    End client, server;
    if (!tap::ok(join(transport, client, server), "joined for reads")) return;
    tap::ok(client.channel->can_read() && !server.channel->can_read(), "the proxy's side can read");
    tap::ok(client.channel->mapped_region(0) == nullptr, "and has nothing mapped");
    while (turn({&client, &server}, 20)) {
    }
    uint64_t* words = place.words();
    words[10] = 4242;
    tap::ok(client.channel->post_read({{4711, arena + 80, 1, 0, 80}, words, 1}), "a read is taken");
    tap::ok(client.channel->post_read({{4712, arena + 80, 1, 0, 77}, words + 100, 2}), "and another");
    client.channel->flush();
    tap::is(client.reads.size(), 0u, "nothing is told by posting and flushing");
    tap::ok(pump({&client}, [&] { return client.reads.size() == 2; }), "but its owner is woken for it");
    bool right = client.reads.size() == 2;
    for (const auto& [token, status] : client.reads)
        right = right && status == (token == 1 ? ReadStatus::done : ReadStatus::failed);
    tap::ok(right, "a read of this incarnation is done, one of another fails");
    for (uint64_t i = 0; i < 10; i++) right = right && words[i] == (i + 10) * 3;
    tap::ok(right && words[10] == 4242, "with the bytes that are there, and no more");
    client.reads.clear();
    static_assert(sizeof(Place::landing) / 64 >= VerbsConfig().reads);
    size_t taken = 0;
    while (client.channel->post_read({{4711, arena + 16 * taken, 1, 0, 64}, words + 8 * taken, taken})) taken++;
    tap::is(taken, size_t(VerbsConfig().reads), "so many can be under way");
    client.channel->flush();
    tap::ok(pump({&client}, [&] { return client.reads.size() == taken; }), "and all are told");
    right = true;
    for (uint64_t i = 0; i < taken; i++)
        right = right && client.reads[i].first == i && words[8 * i] == 6 * i;
    tap::ok(right, "in order, each with its bytes");
    tap::is(idle_wakeups({&client, &server}, 150), 0u, "idle, nothing wakes anybody");
    for (uint64_t i = 0; i < 100; i++) (void)client.channel->post_read({{4711, arena, 1, 0, 64}, words, i});
    client.channel->flush();
    client.channel->close();
    pump({&client}, [&] { return client.over; });
    tap::is(client.reads.size(), taken, "after close() no read completes");
    words[0] = 99;
    region.arena()[0] = 98;
    poll(nullptr, 0, 20);
    tap::is(words[0], 99u, "and nothing lands any more (S12)");
}

void large_reads(Place& place) {
    RegionShape shape = small_region(5);
    shape.page_count = 64;
    Region region(shape);
    const uint64_t words = region.view().arena_bytes / 8;
    for (uint64_t i = 0; i < words; i++) region.arena()[i] = i * 7;
    const uint64_t arena = region.view().region_bytes - region.view().arena_bytes;
    std::vector<uint64_t> landing(words);
    Transport transport = verbs_transport(place.host, place.devices, &region,
                                          {reinterpret_cast<char*>(landing.data()), words * 8});
    End client, server;
    if (!tap::ok(join(transport, client, server), "joined for a large read")) return;
    (void)client.channel->post_read({{5, arena, 1, 0, uint32_t(words * 8)}, landing.data(), 1});
    client.channel->flush();
    tap::ok(pump({&client}, [&] { return client.reads.size() == 1; }), "4 MiB are read at once");
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < words; i++) wrong += landing[i] == i * 7 ? 0 : 1;
    tap::is(wrong, 0u, "all of it");
}

// ---- peers that lie ---------------------------------------------------------------------------------

rdma_cm_event* wait_event(rdma_event_channel* from) {
    pollfd polled{from->fd, POLLIN, 0};
    rdma_cm_event* event = nullptr;
    if (poll(&polled, 1, int(patience_ms())) != 1) return nullptr;
    return rdma_get_cm_event(from, &event) == 0 ? event : nullptr;
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
    // Waits for who connects; a queue for him, if `with`.
    CmId knocked(bool with) {
        CmEvent event(wait_event(events.get()));
        if (event == nullptr) tap::bail_out("nobody connects");
        CmId from(event->id);
        event.reset();
        if (!with) return from;
        std::string error;
        CmEvents own(rdma_create_event_channel());
        if (rdma_migrate_id(from.get(), own.get()) != 0) tap::bail_out("rdma_migrate_id");
        auto device = place.devices.device_of(*from, error);
        queue = VerbsQueue::make(std::move(own), std::move(from), std::move(device), error);
        if (queue == nullptr) tap::bail_out(error);
        return nullptr;
    }
    void accept(const VerbsWelcome& welcome) {
        rdma_conn_param param{};
        param.private_data = &welcome;
        param.private_data_len = sizeof welcome;
        param.responder_resources = 1;
        if (rdma_accept(queue->id(), &param) != 0) tap::bail_out("rdma_accept");
    }
};

VerbsWelcome good_welcome() {
    VerbsWelcome welcome{};
    welcome.head = verbs_head(verbs_welcome_magic, sizeof welcome);
    welcome.receives = {32, 8192};
    welcome.incarnation = 7;
    welcome.region_address = 1 << 20;
    welcome.region_bytes = 1 << 20;
    welcome.region_key = 0x1234;
    return welcome;
}

// The connecting side moves on while the raw node waits for it.
template <class Act>
void meet(Place& place, RawNode& node, End& client, Act act) {
    std::string error;
    client.channel = connect_verbs(node.address, place.devices, place.memory(), client, error);
    if (client.channel == nullptr) tap::bail_out(error);
    pollfd knock{node.events->fd, POLLIN, 0};
    pump({&client}, [&] { return poll(&knock, 1, 0) == 1; });
    act();
    pump({&client}, [&] { return client.up || client.over; });
}

void nodes_that_lie(Place& place) {
    {
        RawNode node(place);
        End client;
        VerbsWelcome other = good_welcome();
        other.head.version = 2;
        meet(place, node, client, [&] { (void)node.knocked(true), node.accept(other); });
        tap::is(client.ending(), "handshake", "a node of another version is left");
        tap::is(client.text.substr(client.text.find('(')),
                "(it speaks version 2 of the greeting over RDMA, this side version 1)", "with both versions");
    }
    {
        RawNode node(place);
        End client;
        VerbsRefuse refuse{};
        refuse.head = verbs_head(verbs_refuse_magic, sizeof refuse);
        refuse.head.version = 3;
        refuse.reason = VerbsRefusal::version;
        meet(place, node, client, [&] {
            const CmId from = node.knocked(false);
            (void)rdma_reject(from.get(), &refuse, sizeof refuse);
        });
        tap::is(client.text.substr(client.text.find('(')),
                "(it speaks version 3 of the greeting over RDMA, this side version 1)", "one that refuses says why");
    }
    RawNode node(place);
    End client;
    meet(place, node, client, [&] { (void)node.knocked(true), node.accept(good_welcome()); });
    tap::ok(client.up && client.channel->can_read(), "a node that tells a key it does not have");
    (void)client.channel->post_read({{7, 4096, 1, 0, 64}, place.words(), 1});
    client.channel->flush();
    tap::ok(pump({&client}, [&] { return client.over; }), "ends the connection that reads with it");
    tap::is(client.ending(), "reset", "as reset");
    tap::ok(client.text.find("READ at") != std::string::npos, "and the sentence says what it was");
    tap::note("%s", client.text.c_str());
}

void proxies_that_lie(Place& place) {
    std::string said;
    VerbsDevices telling(VerbsConfig(), [&](const std::string& text) { said = text; });
    Transport transport = verbs_transport(place.host, telling);
    auto& listener = static_cast<VerbsListener&>(*transport.listener);
    CmEvents events(rdma_create_event_channel());
    rdma_cm_id* made = nullptr;
    if (rdma_create_id(events.get(), &made, nullptr, RDMA_PS_TCP) != 0) tap::bail_out("rdma_create_id");
    CmId id(made);
    SocketAddress to = listener.address();
    if (rdma_resolve_addr(made, nullptr, to.get(), 2000) != 0) tap::bail_out("rdma_resolve_addr");
    CmEvent(wait_event(events.get())).reset();
    if (rdma_resolve_route(made, 2000) != 0) tap::bail_out("rdma_resolve_route");
    CmEvent(wait_event(events.get())).reset();
    std::string error;
    auto device = place.devices.device_of(*made, error);
    auto queue = VerbsQueue::make(std::move(events), std::move(id), std::move(device), error);
    rdma_conn_param param{};
    param.private_data = "nonsense";
    param.private_data_len = 8;
    if (rdma_connect(made, &param) != 0) tap::bail_out("rdma_connect");
    pollfd polled{listener.fd(), POLLIN, 0};
    poll(&polled, 1, int(patience_ms()));
    End server;
    tap::ok(listener.accept(server) == nullptr, "a proxy without a greeting is not accepted");
    tap::ok(said.find("is refused: its request is no greeting of a proxy") != std::string::npos,
            "and it is said why");
    const CmEvent answer(wait_event(queue->events()));
    tap::ok(answer != nullptr && answer->event == RDMA_CM_EVENT_REJECTED, "it is told so");
}

// ---- ends -------------------------------------------------------------------------------------------

void refused(Place& place) {
    SocketAddress nobody;
    {
        Transport gone = verbs_transport(place.host, place.devices);
        nobody = static_cast<VerbsListener&>(*gone.listener).address();
    }
    End client;
    std::string error;
    client.channel = connect_verbs(nobody, place.devices, {}, client, error);
    tap::ok(pump({&client}, [&] { return client.over; }), "an address where nobody listens");
    tap::is(client.text, "verbs:" + to_string(nobody) + ": nobody listens there", "is refused with a sentence");
    End stranger;
    stranger.channel = connect_verbs(*numeric_address("127.0.0.1", 1), place.devices, {}, stranger, error);
    tap::ok(stranger.channel == nullptr || pump({&stranger}, [&] { return stranger.over; }),
            "an address without a device is no way");
    tap::note("%s", stranger.text.c_str());
}

// With small queues, which are sooner made.
void many_connections(Place& place) {
    constexpr int count = 1000;
    VerbsConfig small;
    small.reads = small.receives = small.sends = 8;
    small.message_bytes = 512;
    VerbsDevices devices(small);
    Region region(small_region(4711));
    Transport transport = verbs_transport(place.host, devices, &region, place.memory());
    int made = 0, told = 0;
    for (int i = 0; i < count; i++) {
        End client, server;
        if (!join(transport, client, server)) break;
        made++;
        client.send("one");
        End& leaves = i % 2 == 0 ? client : server;
        End& stays = i % 2 == 0 ? server : client;
        leaves.channel.reset();
        pump({&stays}, [&] { return stays.over; });
        told += stays.ending() == "peer_closed" ? 1 : 0;
        if (stays.ending() != "peer_closed") tap::note("%s", stays.text.c_str());
    }
    tap::is(made, count, "one thousand connections, one after another");
    tap::is(told, count, "each end is noticed");
}

}  // namespace

int main() {
    const char* host = std::getenv("FARCACHED_RDMA_ADDRESS");
    if (host == nullptr) {
        tap::skip(1, "FARCACHED_RDMA_ADDRESS is no device's");
        return tap::done();
    }
    const auto place = std::make_unique<Place>();
    place->host = host;
    refused(*place);
    reads(*place);
    nothing_dies(*place);
    large_reads(*place);
    nodes_that_lie(*place);
    proxies_that_lie(*place);
    many_connections(*place);
    nothing_dies(*place);
    return tap::done();
}
