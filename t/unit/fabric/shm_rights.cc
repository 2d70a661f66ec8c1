// SPDX-License-Identifier: BSD-3-Clause
// A node's region over shm that is withheld until grant() (fabric/channel.h, S16): who gets it, when, and records that lie.
#include <memory>
#include <string>
#include <utility>

#include "t/unit/fabric/shm_fixture.h"

namespace {

using namespace shm_test;

ShmOptions withholding(bool withholds = true) {
    ShmOptions options;
    options.withholds = withholds;
    return options;
}

struct Pair {
    Folder folder;
    ShmNode node;
    MappedRegions regions;
    End client, server;

    Pair(bool at_node, bool at_proxy) : node(folder / "owner", withholding(at_node)) {
        client.channel = value_of(connect_shm(node.owner->path(), regions, client, withholding(at_proxy)));
        if (!accept_into(*node.listener, server)) tap::bail_out("no connection");
        pump({&client, &server}, [&] { return client.up || client.over; });
        if (!client.up) tap::bail_out(client.text);
    }
    bool talks() { return talk(client, server); }
    bool mapped() const { return client.channel->mapped_region(0) != nullptr || client.channel->can_read(); }
};

void ends_that_withhold(bool in_time) {
    const std::string way = in_time ? "the record is seen first: " : "the token is seen first: ";
    Pair pair(true, true);
    End &client = pair.client, &server = pair.server;
    tap::ok(pair.talks() && !pair.mapped() && client.channel->owner_alive(), way + "frames travel without a region");
    tap::is(value_of(client.channel->grant()), "", way + "a proxy has nothing to grant");
    tap::ok(!server.channel->take_grant("").has_value(), way + "as the node takes");
    tap::ok(server.channel->take_grant("x").has_value(), way + "and nothing else");
    tap::ok(client.channel->take_grant("x").has_value() && !pair.mapped(), way + "no token is of use without the record");
    const std::string token = value_of(server.channel->grant());
    tap::ok(!token.empty() && token.size() <= grant_bytes_max, way + "the node's token");
    if (in_time) tap::is(idle_wakeups({&client, &server}, 50), 0u, way + "a record wakes the proxy once");
    tap::ok(client.channel->take_grant(token + "x").has_value() && !pair.mapped(), way + "another token is refused");
    tap::ok(!client.channel->take_grant(token).has_value() && pair.mapped(), way + "with it the proxy has the region");
    tap::is(client.channel->mapped_region(0)->header->incarnation, pair.node.region.header().incarnation, way + "the node's");
    tap::ok(client.channel->owner_alive() && pair.talks(), way + "and frames travel as before");
    tap::is(value_of(server.channel->grant()), "", way + "a second grant has nothing");
    tap::ok(client.channel->take_grant(token).has_value(), way + "and a second token is refused");
    client.channel->revoke(), server.channel->revoke();
    tap::ok(pair.talks(), way + "revoke() leaves the connection");
}

void ends_that_differ() {
    Pair node(true, false);
    tap::ok(node.talks() && !node.mapped(), "a proxy that expects the region at once gets none from a node that withholds it");
    Pair proxy(false, true);
    tap::ok(proxy.talks() && !proxy.mapped(), "a proxy that withholds does not use a region that comes at once");
    tap::is(value_of(proxy.server.channel->grant()), "", "nor has the node another for it");
    tap::ok(proxy.talks(), "frames travel");
}

void through_a_channel_of_faults() {
    Folder folder;
    ShmNode node(folder / "owner", withholding());
    MappedRegions regions;
    End client, server;
    client.channel = value_of(FaultChannel::wrap({}, client, [&](ChannelEvents& events) {
        return connect_shm(node.owner->path(), regions, events, withholding());
    }));
    if (!accept_into(*node.listener, server)) tap::bail_out("no connection");
    pump({&client, &server}, [&] { return client.up || client.over; });
    tap::is(value_of(client.channel->grant()), "", "a channel of faults passes on grant()");
    tap::ok(!client.channel->take_grant(value_of(server.channel->grant())) && client.channel->can_read(), "and take_grant()");
}

Descriptor read_only(const Region& region) { return Descriptor(region.open_read_only()); }

struct Lie {
    const char* name;
    void (*tell)(ShmGrant&);
    const char* ending;  // "taken", or "none": take_grant() refuses it
};

void records_that_lie() {
    Folder folder;
    const ShmNode owner(folder / "owner");
    const Region& region = owner.region;
    const Lie lies[] = {
        {"the truth", [](ShmGrant&) {}, "taken"},
        {"another magic", [](ShmGrant& grant) { grant.magic++; }, "corrupt"},
        {"a reserved field", [](ShmGrant& grant) { grant.reserved = 1; }, "corrupt"},
        {"another version", [](ShmGrant& grant) { grant.version = 1; }, "none"},
        {"another size", [](ShmGrant& grant) { grant.region_bytes *= 2; }, "none"},
        {"another incarnation", [](ShmGrant& grant) { grant.incarnation++; }, "none"},
    };
    const std::string path = folder / "liar";
    RawNode node(path);
    for (const Lie& lie : lies) {
        MappedRegions regions;
        End client;
        client.channel = value_of(connect_shm(path, regions, client, withholding()));
        node.answer(good_welcome(), {});
        pump({&client}, [&] { return client.up || client.over; });
        ShmGrant grant{shm_grant_magic, shm_version, 0, region.view().region_bytes, region.view().header->incarnation};
        lie.tell(grant);
        if (!send_grant(node.peer.get(), grant, read_only(region))) tap::bail_out("send_grant");
        pump({&client}, [&] { return !turn({&client}, 50); });
        const std::string ending = lie.ending;
        if (ending == "corrupt") {
            tap::is(client.ending(), "corrupt", std::string("a record with ") + lie.name + " ends the connection");
            continue;
        }
        const Refusal no = client.channel->take_grant({reinterpret_cast<const char*>(&grant), sizeof grant});
        const bool taken = ending == "taken";
        tap::ok(no.has_value() != taken && !client.over && client.channel->can_read() == taken,
                std::string(taken ? "taken: " : "refused: ") + lie.name);
        if (no) tap::note("%s", no->text.c_str());
    }
    for (const int count : {0, 2}) {
        MappedRegions regions;
        End client;
        client.channel = value_of(connect_shm(path, regions, client, withholding()));
        node.answer(good_welcome(), {});
        pump({&client}, [&] { return client.up || client.over; });
        ShmGrant grant{shm_grant_magic, shm_version, 0, region.view().region_bytes, region.view().header->incarnation};
        if (count == 0) {
            (void)send(node.peer.get(), &grant, sizeof grant, 0);
        } else {
            const Descriptor one = read_only(region);
            if (!send_grant(node.peer.get(), grant, one) || !send_grant(node.peer.get(), grant, one)) tap::bail_out("send_grant");
        }
        pump({&client}, [&] { return client.over; });
        tap::is(client.ending(), "corrupt", count == 0 ? "a record without a descriptor ends the connection" : "and two records");
    }
}

}  // namespace

int main() {
    ends_that_withhold(true);
    ends_that_withhold(false);
    ends_that_differ();
    through_a_channel_of_faults();
    records_that_lie();
    return tap::done();
}
