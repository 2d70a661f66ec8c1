// SPDX-License-Identifier: BSD-3-Clause
// The parts special to the channel over RDMA, with a device: reads, hostile peers, teardown, no leftovers. Runs in a
// guest, or wherever FARCACHED_RDMA_ADDRESS is the address of a device; elsewhere it skips.
#include <string>
#include <vector>

#include "t/unit/fabric/verbs_fixture.h"

namespace {

using namespace verbs_test;

// ---- reads ------------------------------------------------------------------------------------------

void reads(Place& place) {
    Region region(small_region(4711));
    for (uint64_t i = 0; i < 4000; i++) region.arena()[i] = i * 3;
    const uint64_t arena = region.view().region_bytes - region.view().arena_bytes;
    Transport transport = verbs_transport(place.host, place.devices, {&region}, place.memory());
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
    tap::is(client.reads.size(), 0u, "posting and flushing cause no event");
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
    tap::ok(pump({&client}, [&] { return client.reads.size() == taken; }), "and all are reported");
    right = true;
    for (uint64_t i = 0; i < taken; i++)
        right = right && client.reads[i].first == i && words[8 * i] == 6 * i;
    tap::ok(right, "in order, each with its bytes");
    tap::is(idle_wakeups({&client, &server}, 150), 0u, "idle, neither end is woken");
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
    Transport transport = verbs_transport(place.host, place.devices, {&region},
                                          {{reinterpret_cast<char*>(landing.data()), words * 8}, {}});
    End client, server;
    if (!tap::ok(join(transport, client, server), "joined for a large read")) return;
    (void)client.channel->post_read({{5, arena, 1, 0, uint32_t(words * 8)}, landing.data(), 1});
    client.channel->flush();
    tap::ok(pump({&client}, [&] { return client.reads.size() == 1; }), "4 MiB are read at once");
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < words; i++) wrong += landing[i] == i * 7 ? 0 : 1;
    tap::is(wrong, 0u, "all of it");
}

// ---- what a proxy lends ---------------------------------------------------------------------------------

void fetches(Place& place) {
    std::vector<uint64_t> lent(1 << 17), landing(1 << 17);
    for (uint64_t i = 0; i < lent.size(); i++) lent[i] = i * 5;
    const auto memory_of = [](std::vector<uint64_t>& words) {
        return VerbsMemory{reinterpret_cast<char*>(words.data()), words.size() * 8};
    };
    const VerbsMemory lends = memory_of(lent);
    Transport transport = verbs_transport(place.host, place.devices, {nullptr, nullptr, 0, memory_of(landing)}, {{}, lends});
    End client, server;
    if (!tap::ok(join(transport, client, server), "joined for fetches")) return;
    tap::is(client.channel->lends(), lends.bytes, "the proxy knows how much the node may fetch");
    tap::ok(!client.channel->can_read() && server.channel->lends() == 0, "it has nothing to read, and the node lends nothing");
    tap::ok(!client.channel->post_fetch({0, 8, landing.data(), 1}), "a proxy fetches nothing");
    tap::ok(server.channel->post_fetch({800, 4096, landing.data(), 1}), "the node fetches");
    tap::ok(server.channel->post_fetch({lends.bytes - 8, 8, landing.data() + 1000, 2}), "to the end");
    tap::ok(!server.channel->post_fetch({lends.bytes - 8, 16, landing.data() + 2000, 3}), "and not beyond");
    tap::ok(!server.channel->post_fetch({UINT64_MAX, 16, landing.data() + 2000, 3}), "however far");
    server.channel->flush();
    tap::ok(pump({&server}, [&] { return server.reads.size() == 2; }), "both come, while the proxy does nothing");
    bool right = landing[1000] == lent.back();
    for (uint64_t i = 0; i < 512; i++) right = right && landing[i] == (i + 100) * 5;
    tap::ok(right, "with the bytes that are there");
    server.reads.clear();
    (void)server.channel->post_fetch({0, uint32_t(lends.bytes), landing.data(), 4});
    server.channel->flush();
    tap::ok(pump({&server}, [&] { return server.reads.size() == 1; }) && landing == lent, "all of it, too");

    // A proxy that closed with messages under way lingers; what it lent is not the node's any more.
    client.channel->out().append(std::string(2000, 'x'));
    client.channel->flush();
    client.channel->close();
    pump({&client}, [&] { return client.over; });
    server.reads.clear();
    landing[0] = 77;
    lent[0] = 78;
    if (server.channel->post_fetch({0, 8, landing.data(), 5})) server.channel->flush();
    pump({&server}, [&] { return server.over; });
    tap::ok(server.over && landing[0] == 77, "a closed end lends nothing (S12)");
}

// ---- counted reads, and what else a proxy might try ------------------------------------------------

constexpr uint64_t item_at = 3 * layout::page_bytes + 128;  // from the arena's start

struct Counted {
    Region region{small_region(4711)};
    uint64_t arena = region.view().region_bytes - region.view().arena_bytes;
    std::vector<uint64_t> counters = std::vector<uint64_t>(region.view().arena_bytes / layout::slot_bytes_min);
    VerbsOffer offer{&region, counters.data(), counters.size() * layout::counter_bytes, {}};
    uint64_t& of_item() { return counters[layout::counter_of(item_at)]; }
    std::string arena_bytes() const {
        return {region.view().base + arena, region.view().arena_bytes};
    }
    RemotePtr item() const { return {4711, arena + item_at, 1, 0, 64}; }
};

void counted_reads(Place& place) {
    Counted node;
    Transport transport = verbs_transport(place.host, place.devices, node.offer, place.memory());
    End client, server;
    if (!tap::ok(join(transport, client, server), "joined for counted reads")) return;
    tap::ok(client.channel->counts_reads() && !server.channel->counts_reads(), "the proxy's side can count");
    ChannelCounters counters;
    client.channel->count_in(counters);
    const std::string before = node.arena_bytes();
    for (uint64_t i = 0; i < 100; i++)
        (void)client.channel->post_read({node.item(), place.words() + 8 * i, i, i % 2 == 0});
    client.channel->flush();
    tap::ok(pump({&client}, [&] { return client.reads.size() == 100; }), "all are reported, once");
    bool right = true;
    for (uint64_t i = 0; i < client.reads.size(); i++) right = right && client.reads[i].first == i;
    tap::ok(right, "in order");
    tap::is(node.of_item(), 50u, "those that were to be counted were");
    tap::is(counters.rdma_atomics.get(), 50u, "by so many FETCH_AND_ADDs");
    tap::is(counters.rdma_reads.get(), 100u, "and so many READs");
    tap::is(counters.rdma_read_bytes.get(), 6400u, "of so many bytes");
    tap::is(counters.rdma_doorbells.get(), 1u, "with one doorbell");
    uint64_t sum = 0;
    for (const uint64_t one : node.counters) sum += one;
    tap::is(sum, 50u, "no other counter moved");
    tap::ok(node.arena_bytes() == before, "and no byte of the arena (S6)");
    client.reads.clear();
    size_t taken = 0;
    while (client.channel->post_read({node.item(), place.words() + 8 * taken, taken, true})) taken++;
    tap::is(taken, size_t(VerbsConfig().reads / 2), "half as many can be under way");
    client.channel->flush();
    tap::ok(pump({&client}, [&] { return client.reads.size() == taken; }), "and all are reported");
    tap::is(node.of_item(), 50 + taken, "and counted");
    client.reads.clear();
    const RemotePtr header{4711, 0, 1, 0, 64};
    (void)client.channel->post_read({header, place.words(), 1, true});
    client.channel->flush();
    tap::ok(pump({&client}, [&] { return client.reads.size() == 1; }), "what is no item's");
    tap::is(counters.rdma_atomics.get(), 50 + taken, "has no counter");

    Transport without = verbs_transport(place.host, place.devices, {&node.region}, place.memory());
    End other, far;
    if (!tap::ok(join(without, other, far), "a node without counters")) return;
    tap::ok(!other.channel->counts_reads(), "has none to offer");
    other.channel->count_in(counters);
    (void)other.channel->post_read({node.item(), place.words(), 1, true});
    other.channel->flush();
    tap::ok(pump({&other}, [&] { return other.reads.size() == 1; }), "and is read all the same");
    tap::is(counters.rdma_atomics.get(), 50 + taken, "without an atomic");
}

// A proxy that goes on sending and never returns credits.
void floods(Place& place) {
    Transport transport = verbs_transport(place.host, place.devices);
    auto& listener = static_cast<VerbsListener&>(*transport.listener);
    End server;
    RawProxy proxy(place, listener, server);
    int sent = 0;
    for (; sent < 1000 && !server.over; sent++) {
        ibv_send_wr work{}, *refused = nullptr;
        work.wr_id = WorkId{WorkKind::credits, 0}.packed();
        work.opcode = IBV_WR_SEND_WITH_IMM;
        work.send_flags = IBV_SEND_SIGNALED;
        if (ibv_post_send(proxy.queue->pair().get(), &work, &refused) != 0) break;
        bool left = false;  // and received, before the next one
        pump({&server}, [&] {
            ibv_wc done{};
            while (ibv_poll_cq(proxy.queue->pair().get()->send_cq, 1, &done) > 0)
                left = left || done.opcode != IBV_WC_RECV || done.status != IBV_WC_SUCCESS;
            return server.over || left;
        });
        turn({&server}, 1);
    }
    pump({&server}, [&] { return server.over; });
    tap::is(server.ending(), "corrupt", "a proxy that sends without credits is left");
    tap::note("after %d messages: %s", sent, server.text.c_str());
}

// S6, by the device: no work request of a proxy changes a byte of the region; counters change only by its additions.
void refused_by_the_device(Place& place) {
    Counted node;
    Transport transport = verbs_transport(place.host, place.devices, node.offer);
    auto& listener = static_cast<VerbsListener&>(*transport.listener);
    const std::string before = node.arena_bytes();
    struct Attempt {
        const char* name;
        ibv_wr_opcode opcode;
        bool counters, granted;
    };
    constexpr Attempt attempts[] = {
        {"a READ of the arena", IBV_WR_RDMA_READ, false, true},
        {"a WRITE to the arena", IBV_WR_RDMA_WRITE, false, false},
        {"a FETCH_AND_ADD in the arena", IBV_WR_ATOMIC_FETCH_AND_ADD, false, false},
        {"a COMPARE_AND_SWAP in the arena", IBV_WR_ATOMIC_CMP_AND_SWP, false, false},
        {"a FETCH_AND_ADD to a counter", IBV_WR_ATOMIC_FETCH_AND_ADD, true, true},
        {"a WRITE to a counter", IBV_WR_RDMA_WRITE, true, false},
        {"a READ of a counter", IBV_WR_RDMA_READ, true, false},
    };
    for (const Attempt& one : attempts) {
        End server;
        RawProxy proxy(place, listener, server);
        const uint64_t at = one.counters ? proxy.welcome.names.counters_address
                                         : proxy.welcome.names.region_address + proxy.welcome.names.counters_from;
        const uint32_t key = one.counters ? proxy.welcome.names.counters_key : proxy.welcome.names.region_key;
        is_granted(proxy.tries(access_to(one.opcode, at, key)), one.granted, one.name);
    }
    tap::ok(node.arena_bytes() == before, "no byte of the arena has changed");
    tap::is(node.counters[0], 1u, "a counter by one");
}

// ---- hostile peers ---------------------------------------------------------------------------------

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
                "(it speaks version 3 of the greeting over RDMA, this side version 1)", "one that refuses gives the reason");
    }
    RawNode node(place);
    End client;
    meet(place, node, client, [&] { (void)node.knocked(true), node.accept(good_welcome()); });
    tap::ok(client.up && client.channel->can_read(), "a node that sends a key it does not have");
    (void)client.channel->post_read({{7, 4096, 1, 0, 64}, place.words(), 1});
    client.channel->flush();
    tap::ok(pump({&client}, [&] { return client.over; }), "ends the connection that reads with it");
    tap::is(client.ending(), "reset", "as reset");
    tap::ok(client.text.find("READ at") != std::string::npos, "and the message names the READ");
    tap::note("%s", client.text.c_str());
}

void proxies_that_lie(Place& place) {
    std::string said;
    VerbsDevices telling(VerbsConfig(), [&](const std::string& text) { said = text; });
    Transport transport = verbs_transport(place.host, telling);
    auto& listener = static_cast<VerbsListener&>(*transport.listener);
    const auto queue = queue_towards(place, listener.address());
    rdma_conn_param param{};
    param.private_data = "nonsense";
    param.private_data_len = 8;
    if (queue->pair().connect(param) != 0) tap::bail_out("rdma_connect");
    pollfd polled{listener.fd(), POLLIN, 0};
    poll(&polled, 1, int(patience_ms()));
    End server;
    tap::ok(listener.accept(server) == nullptr, "a proxy without a greeting is not accepted");
    tap::ok(said.find("is refused: its request is not a proxy's greeting") != std::string::npos,
            "and the reason is reported");
    const CmEvent answer(wait_event(queue->id()->channel));
    tap::ok(answer != nullptr && answer->event == RDMA_CM_EVENT_REJECTED, "the other side gets the rejection");
}

// ---- ends -------------------------------------------------------------------------------------------

void refused(Place& place) {
    SocketAddress nobody;
    {
        Transport gone = verbs_transport(place.host, place.devices);
        nobody = static_cast<VerbsListener&>(*gone.listener).address();
    }
    End client;
    client.channel = value_of(connect_verbs(nobody, place.devices, {}, client));
    tap::ok(pump({&client}, [&] { return client.over; }), "an address without a listener");
    tap::is(client.text, "verbs:" + to_string(nobody) + ": no listener at this address", "is refused with a message");
    End stranger;
    stranger.channel = value_of(connect_verbs(*numeric_address("127.0.0.1", 1), place.devices, {}, stranger));
    tap::ok(pump({&stranger}, [&] { return stranger.over; }),
            "an address without a device is no way");
    tap::note("%s", stranger.text.c_str());
}

// With small queues, because they are faster to make.
void many_connections(Place& place) {
    constexpr int count = 1000;
    VerbsConfig small;
    small.reads = small.receives = small.sends = 8;
    small.message_bytes = 512;
    VerbsDevices devices(small);
    Region region(small_region(4711));
    Transport transport = verbs_transport(place.host, devices, {&region}, place.memory());
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
    transport.listener.reset();
    nothing_dies(devices);
}

}  // namespace

int main() {
    return run_with_device([](Place& place) {
        refused(place);
        reads(place);
        nothing_dies(place.devices);
        large_reads(place);
        fetches(place);
        counted_reads(place);
        refused_by_the_device(place);
        floods(place);
        nothing_dies(place.devices);
        nodes_that_lie(place);
        proxies_that_lie(place);
        many_connections(place);
    });
}
