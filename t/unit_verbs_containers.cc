// SPDX-License-Identifier: BSD-3-Clause
// Containers over RDMA (fabric/channel.h, C7), with a device: what they are written with, and what the device refuses. Runs
// in a guest, or wherever FARCACHED_RDMA_ADDRESS is the address of a device; elsewhere it skips.
#include <cstdlib>
#include <memory>
#include <string>

#include "t/unit_verbs_fixture.h"

namespace {

using namespace verbs_test;

// Says something, so that the proxy knows the container to be open (C7).
void open_container(RawProxy& proxy, End& server) {
    server.send("come in");
    const uint64_t until = now_ms() + patience_ms();
    while (!proxy.queue->anything_came() && now_ms() < until) {
        turn({&server}, 1);
        proxy.queue->collect();
    }
}

std::string content(End& end) {
    std::string copy(container_bytes, '\0');
    end.channel->copy_container(copy.data(), copy.size());
    return copy;
}

// What the device makes of a proxy that writes where it likes. With windows, another's container is out of reach even for
// who knows its key.
void written_by_hand(Place& place, VerbsDevices& devices, bool windows) {
    const std::string way = windows ? "by windows: " : "by keys: ";
    Transport transport = verbs_transport(place.host, devices);
    auto& listener = static_cast<VerbsListener&>(*transport.listener);
    const std::string nothing(container_bytes, '\0');
    enum class Where { own, end, beyond, before, other };
    struct Attempt {
        const char* name;
        ibv_wr_opcode opcode;
        Where where;
        bool granted;
    };
    const Attempt attempts[] = {
        {"a WRITE to its container", IBV_WR_RDMA_WRITE, Where::own, true},
        {"a WRITE to its end", IBV_WR_RDMA_WRITE, Where::end, true},
        {"a WRITE beyond it", IBV_WR_RDMA_WRITE, Where::beyond, false},
        {"a WRITE before it", IBV_WR_RDMA_WRITE, Where::before, false},
        {"a READ of it", IBV_WR_RDMA_READ, Where::own, false},
        {"a FETCH_AND_ADD in it", IBV_WR_ATOMIC_FETCH_AND_ADD, Where::own, false},
        {"a WRITE to another's container", IBV_WR_RDMA_WRITE, Where::other, !windows},
    };
    for (const Attempt& one : attempts) {
        End server, other_server;
        RawProxy proxy(place, listener, server), other(place, listener, other_server);
        open_container(proxy, server);
        open_container(other, other_server);
        const VerbsContainer& to = (one.where == Where::other ? other : proxy).welcome.container;
        uint64_t at = to.address;
        if (one.where == Where::end) at += to.bytes - 8;
        if (one.where == Where::beyond) at += to.bytes - 4;
        if (one.where == Where::before) at -= 4;
        ibv_send_wr work{};
        work.opcode = one.opcode;
        if (one.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
            work.wr.atomic.remote_addr = at;
            work.wr.atomic.rkey = to.key;
            work.wr.atomic.compare_add = 1;
        } else {
            work.wr.rdma.remote_addr = at;
            work.wr.rdma.rkey = to.key;
        }
        place.words()[0] = UINT64_MAX;
        const std::string said = proxy.tries(work);
        if (one.granted)
            tap::is(said, "", way + one.name + " is granted");
        else
            tap::ok(said.starts_with("remote "), way + one.name + " is refused");
        if (!said.empty()) tap::note("%s: %s", one.name, said.c_str());
        const bool arrived = (content(one.where == Where::other ? other_server : server) != nothing);
        tap::is(arrived, one.granted && one.where != Where::end,
                way + (arrived ? "and arrives" : "and changes nothing of what is looked at"));
    }
}

void containers(Place& place, bool windows) {
    const std::string way = windows ? "by windows: " : "by keys: ";
    VerbsConfig config;
    config.windows = windows;
    VerbsDevices devices(config);
    Transport transport = verbs_transport(place.host, devices);
    End client, server;
    if (!tap::ok(join(transport, client, server), way + "joined for containers")) return;
    ChannelCounters counters;
    client.channel->count_in(counters);
    tap::ok(client.channel->has_container() && server.channel->has_container(), way + "both ends have one");
    tap::ok(!client.channel->post_write("x"), way + "none is written before something came from there");
    server.send("welcome");
    pump({&client, &server}, [&] { return client.bytes == "welcome"; });
    tap::ok(!server.channel->post_write("x"), way + "nor before it was said where it is");
    const std::string report(container_bytes, 'r'), answer(1000, 'a');
    tap::ok(client.channel->post_write(report), way + "the proxy writes");
    client.send("written");
    pump({&client, &server}, [&] { return server.bytes == "written"; });
    tap::ok(content(server) == report, way + "what it has written is there");
    tap::ok(server.channel->post_write(answer), way + "and the node answers");
    server.send("written");
    pump({&client, &server}, [&] { return client.bytes == "welcomewritten"; });
    tap::ok(content(client).starts_with(answer), way + "in the same way");
    tap::is(counters.rdma_writes.get(), 2u, way + "by a WRITE, and one that says where its own container is");
    tap::is(counters.rdma_write_bytes.get(), container_bytes + sizeof(VerbsContainer), way + "of so many bytes");
    tap::is(counters.rdma_doorbells.get(), 1u, way + "with one doorbell, the notification included");
    int refused = 0;
    while (client.channel->post_write(report)) refused++;
    tap::ok(refused >= 8 && refused <= 32, way + "there is room for some at once");
    client.channel->flush();
    pump({&client, &server}, [&] { return client.channel->post_write(report); });
    tap::ok(true, way + "and again when they have arrived");
    written_by_hand(place, devices, windows);
    transport.listener.reset();
    client.channel.reset();
    server.channel.reset();
    nothing_dies(devices);
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
    containers(*place, true);
    containers(*place, false);
    nothing_dies(place->devices);
    return tap::done();
}
