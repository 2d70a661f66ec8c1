// SPDX-License-Identifier: BSD-3-Clause
// Containers over shared memory (fabric/channel.h, C7): who has one, and whose bytes they are. That they are written, and
// before what is sent behind, is shown of every transport by unit_channel.
#include <cstring>
#include <string>

#include "t/unit_shm_fixture.h"

namespace {

using namespace shm_test;

// Builds of version 1 know no containers; all else is as it was.
void earlier_versions() {
    Folder folder;
    ShmNode node(folder / "node.sock");
    RawProxy proxy(node.owner->path());
    ShmHello hello = good_hello();
    hello.version = 1;
    (void)send_hello(proxy.socket.get(), hello);
    End server;
    accept_into(*node.listener, server);
    turn({&server}, 1000);
    const auto no = proxy.meet();
    tap::ok(!no && proxy.welcome.version == 1, "a proxy of version 1 is answered in that");
    tap::ok(!server.channel->has_container() && !server.channel->post_write("x"), "and there are no containers");

    const std::string path = folder / "raw.sock";
    RawNode raw(path);
    MappedRegions regions;
    End client;
    std::string error;
    client.channel = connect_shm(path, regions, client, {}, error);
    raw.knocked();
    tap::is(raw.hello.version, shm_version, "a proxy speaks the latest version");
    raw.refuse(1);
    turn({&client}, 1000);
    ShmWelcome welcome = good_welcome();
    welcome.version = 1;
    raw.answer(welcome, {});
    tap::is(raw.hello.version, 1u, "and another to a node that refuses in that");
    tap::ok(pump({&client}, [&] { return client.up || client.over; }) && client.up, "they meet");
    tap::ok(!client.channel->has_container() && !client.channel->post_write("x"), "without containers");
    client.send("hello");
    char got[8] = {};
    RingReader reader(raw.link->shared().to_node, raw.link->ring_to_node(), ring_bytes_min);
    tap::ok(reader.read(got, sizeof got) == size_t(5) && std::string(got) == "hello", "and talk");

    for (const uint32_t version : {0u, 2u, 3u}) {
        End refused;
        refused.channel = connect_shm(path, regions, refused, {}, error);
        raw.knocked();
        raw.refuse(version);
        pump({&refused}, [&] { return refused.over; });
        tap::is(refused.ending(), "handshake", "refused in version " + std::to_string(version) + ", it does not ask again");
    }
}

// What the other side does to a container while it is looked at is nobody's trouble but its own.
void containers_by_hand() {
    Folder folder;
    ShmNode node(folder / "node.sock");
    RawProxy proxy(node.owner->path());
    (void)send_hello(proxy.socket.get(), good_hello());
    End server;
    accept_into(*node.listener, server);
    turn({&server}, 1000);
    if (proxy.meet()) tap::bail_out("no welcome");
    char* const there = proxy.link->node_container();
    std::memset(there, 'a', container_bytes);
    std::string copy(container_bytes, '\0');
    server.channel->copy_container(copy.data(), copy.size());
    std::memset(there, 'b', container_bytes);
    tap::ok(copy == std::string(container_bytes, 'a'), "what was copied out stays what it was");
    (void)server.channel->post_write(std::string(container_bytes, 'c'));
    tap::ok(std::string_view(proxy.link->proxy_container(), container_bytes) == std::string(container_bytes, 'c') &&
                std::string_view(there, container_bytes) == std::string(container_bytes, 'b'),
            "each side writes the other's and no further");
    tap::ok(std::string_view(proxy.link->ring_to_proxy() + proxy.link->ring_bytes() - 64, 64) == std::string(64, '\0'),
            "nor into a ring");
}

}  // namespace

int main() {
    earlier_versions();
    containers_by_hand();
    return tap::done();
}
