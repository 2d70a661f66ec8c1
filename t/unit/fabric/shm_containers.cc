// SPDX-License-Identifier: BSD-3-Clause
// Containers over shared memory (fabric/channel.h, C7): which ends have one, whose bytes they hold, and checks of the
// word that holds the size. t/unit/fabric/channel shows for every transport that reports arrive.
#include <cstring>
#include <string>

#include "protocol/words.h"
#include "t/unit/fabric/shm_fixture.h"

namespace {

using namespace shm_test;

// Builds of version 1 know no containers, those of version 2 announce in frames what is there; all else is as it was.
void earlier_version(uint32_t version) {
    const std::string title = "version " + std::to_string(version);
    Folder folder;
    ShmNode node(folder / "node.sock");
    RawProxy proxy(node.owner->path());
    ShmHello hello = good_hello();
    hello.version = version;
    (void)send_hello(proxy.socket.get(), hello);
    End server;
    accept_into(*node.listener, server);
    turn({&server}, 1000);
    const auto no = proxy.meet();
    tap::ok(!no && proxy.welcome.version == version, "a proxy of " + title + " is answered in that");
    tap::ok(!server.channel->has_container() && !server.channel->post_report("x"), "and there are no containers");

    const std::string path = folder / "raw.sock";
    RawNode raw(path);
    MappedRegions regions;
    End client;
    client.channel = value_of(connect_shm(path, regions, client));
    raw.knocked();
    tap::is(raw.hello.version, shm_version, "a proxy speaks the latest version");
    raw.refuse(version);
    turn({&client}, 1000);
    ShmWelcome welcome = good_welcome();
    welcome.version = version;
    raw.answer(welcome, {});
    tap::is(raw.hello.version, version, "and another to a node that refuses in that");
    tap::ok(pump({&client}, [&] { return client.up || client.over; }) && client.up, "they meet");
    tap::ok(!client.channel->has_container() && !client.channel->post_report("x"), "without containers");
    client.send("hello");
    char got[8] = {};
    RingReader reader(raw.link->shared().to_node, raw.link->ring_to_node(), ring_bytes_min);
    tap::ok(reader.read(got, sizeof got) == size_t(5) && std::string(got) == "hello", "and talk");

    for (const uint32_t other : {0u, shm_version, shm_version + 1}) {
        End refused;
        refused.channel = value_of(connect_shm(path, regions, refused));
        raw.knocked();
        raw.refuse(other);
        pump({&refused}, [&] { return refused.over; });
        tap::is(refused.ending(), "handshake", "refused in version " + std::to_string(other) + ", it does not ask again");
    }
}

// A node, and a proxy by hand that it has welcomed.
struct Met {
    Met() : node(folder / "node.sock"), proxy(node.owner->path()) {
        (void)send_hello(proxy.socket.get(), good_hello());
        accept_into(*node.listener, server);
        turn({&server}, 1000);
        if (proxy.meet()) tap::bail_out("no welcome");
    }
    // The proxy's word of what it has written.
    void say(uint64_t word) {
        words::store_release(&proxy.link->shared().node_written, word);
        proxy.wake();
        turn({&server}, 1000);
    }

    Folder folder;
    ShmNode node;
    RawProxy proxy;
    End server;
};

// Changes to a container during a read harm only the side that makes them.
void containers_by_hand() {
    Met met;
    RawProxy& proxy = met.proxy;
    End& server = met.server;
    char* const there = proxy.link->node_container();
    std::memset(there, 'a', container_bytes);
    std::string copy(container_bytes, '\0');
    server.channel->copy_container(copy.data(), copy.size());
    std::memset(there, 'b', container_bytes);
    tap::ok(copy == std::string(container_bytes, 'a'), "what was copied out stays what it was");
    (void)server.channel->post_report(std::string(container_bytes, 'c'));
    tap::ok(std::string_view(proxy.link->proxy_container(), container_bytes) == std::string(container_bytes, 'c') &&
                std::string_view(there, container_bytes) == std::string(container_bytes, 'b'),
            "each side writes the other's and no further");
    tap::ok(std::string_view(proxy.link->ring_to_proxy() + proxy.link->ring_bytes() - 64, 64) == std::string(64, '\0'),
            "nor into a ring");
    tap::is(proxy.link->shared().proxy_written, written_word(1, container_bytes), "and announces how much, by a number");

    met.say(written_word(1, 5));
    met.say(written_word(2, 5));
    tap::ok(server.reports == std::vector<size_t>{5, 5}, "each number is reported once");
    met.say(written_word(2, 5));
    turn({&server}, 0);
    tap::is(server.reports.size(), size_t{2}, "and only once");
    met.say(written_word(9, container_bytes));
    tap::is(server.reports.back(), container_bytes, "whichever number it is");
    met.say(written_word(10, container_bytes + 1));
    tap::is(server.ending(), "corrupt", "a report that is longer than its container ends the connection");
    tap::is(server.reports.size(), size_t{3}, "and is not reported");
}

void of_nothing() {
    Met met;
    met.say(written_word(1, 0));
    tap::is(met.server.ending(), "corrupt", "so does one of nothing");
}

}  // namespace

int main() {
    for (uint32_t version = shm_version_lowest; version < shm_version; version++) earlier_version(version);
    containers_by_hand();
    of_nothing();
    return tap::done();
}
