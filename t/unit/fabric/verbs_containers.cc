// SPDX-License-Identifier: BSD-3-Clause
// Containers over RDMA (fabric/channel.h, C7), with a device: how they are written, and which writes the device
// refuses. Runs in a guest, or wherever FARCACHED_RDMA_ADDRESS is the address of a device; elsewhere it skips.
#include <arpa/inet.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "t/unit/fabric/verbs_fixture.h"

namespace {

using namespace verbs_test;

std::string content(End& end) {
    std::string copy(container_bytes, '\0');
    end.channel->copy_container(copy.data(), copy.size());
    return copy;
}

// The device's reaction to a proxy that writes to arbitrary places. With windows, another's container is out of reach
// even for a proxy that knows its key.
void written_by_hand(Place& place, VerbsListener& listener, bool windows) {
    const std::string way = windows ? "by windows: " : "by keys: ";
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
        proxy.welcomed_by(server);
        other.welcomed_by(other_server);
        const VerbsContainer& to = (one.where == Where::other ? other : proxy).welcome.names.container;
        uint64_t at = to.address;
        if (one.where == Where::end) at += to.bytes - 8;
        if (one.where == Where::beyond) at += to.bytes - 4;
        if (one.where == Where::before) at -= 4;
        place.words()[0] = UINT64_MAX;
        is_granted(proxy.tries(access_to(one.opcode, at, to.key)), one.granted, way + one.name);
        const bool arrived = (content(one.where == Where::other ? other_server : server) != nothing);
        tap::is(arrived, one.granted && one.where != Where::end,
                way + (arrived ? "and arrives" : "and changes nothing of what is looked at"));
    }
}

// Both sides send only reports and frames, more than there are credits for: none is lost, and no side blocks forever.
void crossing(End& client, End& server, const std::string& way) {
    pump({&client, &server}, [&] { return client.channel->out_pending() == 0; });
    turn({&client, &server}, 100);
    constexpr size_t rounds = 400;
    const std::string report(200, 'r'), frame(3000, 'f');
    size_t told = 0, owed = 0, answered = 0, frames = 0;
    bool waits = false;
    client.bytes.clear(), server.bytes.clear(), client.reports.clear(), server.reports.clear();
    const bool all = pump({&client, &server}, [&] {
        if (!client.reports.empty()) waits = false;
        answered += std::exchange(client.reports, {}).size();
        if (!waits && told < rounds && client.channel->post_report(report)) told++, waits = true;
        owed += std::exchange(server.reports, {}).size();
        if (owed > 0 && server.channel->post_report(report)) owed--;
        if (frames < rounds && client.channel->out_pending() < 100'000) {
            for (End* end : {&client, &server}) end->channel->out().append(frame);
            frames++;
        }
        for (End* end : {&client, &server}) end->channel->flush();
        return answered == rounds && client.bytes.size() == rounds * frame.size() && server.bytes.size() == rounds * frame.size();
    });
    tap::ok(all, way + "reports and frames cross, and all arrive");
    if (!all)
        tap::note("told %zu, answered %zu, %zu and %zu bytes", told, answered, client.bytes.size(), server.bytes.size());
}

// Values that a proxy sends in the immediate data.
void told_by_hand(Place& place, VerbsListener& listener, const std::string& way) {
    struct Attempt {
        const char* name;
        ibv_wr_opcode opcode;
        uint32_t immediate;
        bool good;
    };
    const Attempt attempts[] = {
        {"a WRITE that announces 8 bytes", IBV_WR_RDMA_WRITE_WITH_IMM, 8u << 16, true},
        {"one that announces the maximum", IBV_WR_RDMA_WRITE_WITH_IMM, uint32_t(container_bytes) << 16, true},
        {"one that announces more", IBV_WR_RDMA_WRITE_WITH_IMM, uint32_t(container_bytes + 1) << 16, false},
        {"one that announces nothing", IBV_WR_RDMA_WRITE_WITH_IMM, 0, false},
        {"one that pays what is not owed", IBV_WR_RDMA_WRITE_WITH_IMM, 8u << 16 | 0xffff, false},
        {"a SEND that announces 8 bytes", IBV_WR_SEND_WITH_IMM, 8u << 16, false},
        {"a WRITE that announces 8 bytes without immediate data", IBV_WR_RDMA_WRITE, 8u << 16, true},
    };
    for (const Attempt& one : attempts) {
        End server;
        RawProxy proxy(place, listener, server);
        proxy.welcomed_by(server);
        ibv_send_wr work{};
        work.opcode = one.opcode;
        work.imm_data = htonl(one.immediate);
        work.wr.rdma.remote_addr = proxy.welcome.names.container.address;
        work.wr.rdma.rkey = proxy.welcome.names.container.key;
        tap::is(proxy.tries(work), "", way + one.name + " arrives");
        const bool tells = one.good && one.opcode != IBV_WR_RDMA_WRITE;
        if (tells || !one.good) pump({&server}, [&] { return server.over || !server.reports.empty(); });
        tap::is(server.reports.size(), size_t(tells), way + (tells ? "and is reported" : "and is not reported"));
        if (!one.good) tap::is(server.ending(), "corrupt", way + "it ends the connection");
    }
}

void containers(Place& place, bool windows) {
    const std::string way = windows ? "by windows: " : "by keys: ";
    VerbsConfig config;
    config.windows = windows;
    Ends ends(place, config, config);
    End &client = ends.client, &server = ends.server;
    ChannelCounters counters;
    client.channel->count_in(counters);
    tap::ok(client.channel->has_container() && server.channel->has_container(), way + "both ends have one");
    tap::ok(!client.channel->post_report("x"), way + "none is written before something came from there");
    Ends::welcome(client, server);
    tap::ok(!server.channel->post_report("x"), way + "nor before its address is known");
    const std::string report(container_bytes, 'r'), answer(1000, 'a');
    tap::ok(client.channel->post_report(report), way + "the proxy writes");
    client.channel->flush();
    pump({&client, &server}, [&] { return !server.reports.empty(); });
    tap::ok(server.reports == std::vector<size_t>{container_bytes} && content(server) == report,
            way + "the written bytes are there when the node gets the event");
    tap::ok(server.channel->post_report(answer), way + "and the node answers");
    server.channel->flush();
    pump({&client, &server}, [&] { return !client.reports.empty(); });
    tap::ok(client.reports == std::vector<size_t>{1000} && content(client).starts_with(answer), way + "in the same way");
    tap::is(counters.rdma_sends.get(), 0u, way + "without any SEND");
    tap::is(counters.rdma_writes.get(), 2u, way + "by a WRITE, and one with the address of its own container");
    tap::is(counters.rdma_write_bytes.get(), container_bytes + sizeof(VerbsContainer), way + "of so many bytes");
    tap::is(counters.rdma_doorbells.get(), 1u, way + "with one doorbell");
    tap::ok(client.channel->post_report(report), way + "another report");
    client.channel->flush();
    pump({&client, &server}, [&] { return server.reports.size() == 2; });
    tap::is(counters.rdma_writes.get(), 3u, way + "is one WRITE");
    int refused = 0;
    while (client.channel->post_report(report)) refused++;
    tap::ok(refused >= 8 && refused <= 32, way + "there is room for some at once");
    client.channel->flush();
    pump({&client, &server}, [&] { return client.channel->post_report(report); });
    tap::ok(true, way + "and again when they have arrived");
    client.channel->flush();
    crossing(client, server, way);
    told_by_hand(place, *ends.listener, way);
    written_by_hand(place, *ends.listener, windows);
}

}  // namespace

int main() {
    return run_with_device([](Place& place) {
        containers(place, true);
        containers(place, false);
    });
}
