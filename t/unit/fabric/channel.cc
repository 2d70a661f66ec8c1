// SPDX-License-Identifier: BSD-3-Clause
// The promises of every channel, over each transport, in one process and between two: order, bytes, bounds, endings,
// and no work when idle.
#include <fcntl.h>

#include <atomic>
#include <csignal>
#include <optional>
#include <string>
#include <thread>

#include "t/unit/fabric/channel_fixture.h"
#include "t/unit/fabric/tls_fixture.h"

namespace {

using namespace channel_test;

std::string named(const Transport& transport, const char* what) {
    return transport.name + ": " + what;
}

void greets_and_talks(Transport& transport) {
    End client, server;
    if (!tap::ok(join(transport, client, server), named(transport, "a connection is made"))) return;
    client.send("hello");
    tap::ok(pump({&client, &server}, [&] { return server.bytes == "hello"; }),
            named(transport, "a proxy's bytes arrive"));
    server.send("welcome");
    server.send(", friend");
    tap::ok(pump({&client, &server}, [&] { return client.bytes == "welcome, friend"; }),
            named(transport, "and a node's, in order"));
    tap::ok(!client.channel->describe().empty(), named(transport, "it has a name"));
    tap::is(idle_wakeups({&client, &server}, 150), 0u,
            named(transport, "idle, neither end is woken"));
    client.channel->close();
    tap::ok(!client.over, named(transport, "close() itself makes no event"));
    tap::ok(pump({&client}, [&] { return client.over; }), named(transport, "but wakes its owner"));
    tap::is(client.ending(), "closed", named(transport, "the event is: closed"));
    tap::ok(pump({&server}, [&] { return server.over; }),
            named(transport, "the other end notices"));
    tap::is(server.ending(), "peer_closed", named(transport, "as closed by its peer"));
    client.channel->ready();
    client.channel->flush();
    client.channel->close();
    server.channel->ready();
    tap::is(client.ends + server.ends, 2, named(transport, "an end is reported once"));
}

// Both ways at once, in a thread each.
void bulk_between_threads(Transport& transport) {
    constexpr uint32_t count = 6000;
    End client, server;
    if (!tap::ok(join(transport, client, server), named(transport, "joined for bulk"))) return;
    Messages at_server, at_client;
    serve_echo(server, at_server);
    std::thread other([&] { pump({&server}, [&] { return server.over; }); });
    Sender sender(count, 60'000, 300'000);
    client.take = [&](End&, std::string_view bytes) { return at_client.take(bytes); };
    sender.fill(*client.channel);
    const bool all = pump({&client}, [&] {
        if (!sender.done()) sender.fill(*client.channel);
        return at_client.next == count || client.over;
    });
    client.channel->close();
    pump({&client}, [&] { return client.over; });
    other.join();
    tap::ok(all && at_client.next == count,
            named(transport, "6000 messages of all sizes come back"));
    tap::is(at_client.wrong + at_server.wrong, 0u, named(transport, "in order and unchanged"));
    tap::ok(client.shown_max <= input_bytes_default,
            named(transport, "no more is shown than agreed"));
    tap::ok(sender.pending_seen() < 400'000,
            named(transport, "and no more kept than was appended"));
}

void echo_once(ChannelListener& listener) {
    End server;
    Messages messages;
    serve_echo(server, messages);
    if (accept_into(listener, server)) pump({&server}, [&] { return server.over; });
}

void bulk_between_processes(Transport& transport) {
    constexpr uint32_t count = 3000;
    std::optional<Child> node;
    if (!transport.connect_far) node.emplace([&] { echo_once(*transport.listener); });
    End client;
    Messages messages;
    client.take = [&](End&, std::string_view bytes) { return messages.take(bytes); };
    client.channel = transport.connect_far ? transport.connect_far(client) : transport.connect(client);
    Sender sender(count, 60'000, 300'000);
    const bool up = pump({&client}, [&] { return client.up || client.over; }) && client.up;
    const bool all = up && pump({&client}, [&] {
                         if (!sender.done()) sender.fill(*client.channel);
                         return messages.next == count || client.over;
                     });
    tap::ok(all && messages.next == count,
            named(transport, "3000 messages come back from another process"));
    tap::is(messages.wrong, 0u, named(transport, "in order and unchanged from there"));
    if (!up) return;
    client.take = nullptr;
    if (node)
        node->kill_now();
    else
        transport.kill_far();
    tap::ok(pump({&client}, [&] { return client.over; }),
            named(transport, "its SIGKILL is noticed"));
    tap::ok(client.ending() == "peer_closed" || client.ending() == "reset",
            named(transport, "as closed or reset"));
}

// A reader that consumes nothing: both ends stay bounded and are not woken; later all bytes arrive.
void back_pressure(Transport& transport) {
    constexpr uint32_t count = 10'000;  // more than the kernel's buffers take
    End client, server;
    if (!tap::ok(join(transport, client, server), named(transport, "joined for back-pressure")))
        return;
    bool open = false;
    Messages messages;
    messages.stop = [&] { return !open; };
    server.take = [&](End&, std::string_view bytes) { return messages.take(bytes); };
    Sender sender(count, 30'000, 100'000);
    while (!sender.done()) {  // until nothing moves any more
        sender.fill(*client.channel);
        while (turn({&client, &server}, 20)) sender.fill(*client.channel);
        if (client.channel->out_pending() > 0) break;
    }
    tap::ok(!sender.done() && client.channel->out_pending() > 0,
            named(transport, "a sender is held up"));
    tap::ok(sender.pending_seen() < 140'000, named(transport, "and keeps no more than its bound"));
    tap::ok(server.shown_max <= input_bytes_default,
            named(transport, "a reader is shown so much at most"));
    tap::is(idle_wakeups({&client, &server}, 150), 0u,
            named(transport, "and neither end is woken"));
    open = true;
    server.channel->ready();
    const bool all = pump({&client, &server}, [&] {
        sender.fill(*client.channel);
        return messages.next == count;
    });
    tap::ok(all, named(transport, "when the reader goes on, all comes"));
    tap::is(messages.wrong, 0u, named(transport, "in order and unchanged after all"));
}

// A node that stops consuming while its replies wait goes on by itself when they have left.
void replies_held_up(Transport& transport) {
    constexpr uint32_t count = 2000;
    End client, server;
    if (!tap::ok(join(transport, client, server), named(transport, "joined for slow replies")))
        return;
    Messages at_server, at_client;
    serve_echo(server, at_server);
    at_server.stop = [&] { return server.channel->out_pending() > 4000; };
    client.take = [&](End&, std::string_view bytes) { return at_client.take(bytes); };
    Sender sender(count, 3000, 1 << 20);
    sender.fill(*client.channel);
    const bool all = pump({&client, &server}, [&] {
        if (!sender.done()) sender.fill(*client.channel);
        return at_client.next == count;
    });
    tap::ok(all, named(transport, "consuming goes on when replies have left"));
    tap::is(at_client.wrong, 0u, named(transport, "and they are right"));
}

// One message at a time, there and back: a lost wake-up stops the exchange until the deadline.
void ping_pong(Transport& transport, uint32_t count) {
    End client, server;
    if (!tap::ok(join(transport, client, server), named(transport, "joined for ping-pong"))) return;
    server.take = [](End& end, std::string_view bytes) {
        end.channel->out().append(bytes);
        return bytes.size();
    };
    std::thread other([&] {
        pump({&server}, [&] {
            while (!server.over && server.channel->linger()) {
                server.channel->ready();
                if (!server.over) server.channel->flush();
            }
            return server.over;
        });
    });
    uint32_t answered = 0;
    client.take = [&](End& end, std::string_view bytes) {
        answered++;
        if (answered < count) end.channel->out().append("ping");
        return bytes.size();
    };
    const uint64_t from = now_ms();
    client.send("ping");
    const bool all = pump({&client}, [&] { return answered >= count || client.over; });
    tap::note("%s: %u round trips in %llu ms, %llu wake-ups of the client", transport.name.c_str(),
              count, static_cast<unsigned long long>(now_ms() - from),
              static_cast<unsigned long long>(client.wakeups));
    client.channel->close();
    pump({&client}, [&] { return client.over; });
    other.join();
    tap::ok(all && answered >= count, named(transport, "no wake-up is lost"));
}

void ends_with_all_that_was_sent(Transport& transport) {
    End client, server;
    if (!tap::ok(join(transport, client, server), named(transport, "joined for a last word")))
        return;
    client.send("a word");  // with TLS a node's end is up when it has the proxy's part of the handshake
    pump({&client, &server}, [&] { return server.bytes == "a word"; });
    server.send("the last word");
    server.channel->close();
    pump({&server}, [&] { return server.over; });
    server.channel.reset();
    tap::ok(pump({&client}, [&] { return client.over; }), named(transport, "the end is reported"));
    tap::is(client.bytes, "the last word", named(transport, "after all that came before it"));
    End other, gone;
    if (!join(transport, other, gone)) return;
    other.on_end = [](End& end) { end.channel.reset(); };
    gone.channel.reset();
    tap::ok(pump({&other}, [&] { return other.over; }),
            named(transport, "and may destroy the channel"));
}

// Bytes sent before the connection is up wait for it.
void said_early(Transport& transport) {
    End client, server;
    client.channel = transport.connect(client);
    client.send("early");
    if (!tap::ok(accept_into(*transport.listener, server, &client), named(transport, "accepted"))) return;
    tap::ok(pump({&client, &server}, [&] { return server.bytes == "early"; }),
            named(transport, "early bytes wait"));
    End given_up;
    given_up.channel = transport.connect(given_up);
    given_up.channel->close();
    tap::ok(pump({&given_up}, [&] { return given_up.over; }),
            named(transport, "a connection can be given up"));
    tap::is(given_up.ending(), "closed", named(transport, "before it is made"));
    if (!transport.knocks_at_once) return;
    End from_nobody;
    accept_into(*transport.listener, from_nobody);
    tap::ok(pump({&from_nobody}, [&] { return from_nobody.over; }),
            named(transport, "which the listener's side notices"));
}

// Both ends report to each other (C7) while both send frames.
void containers(Transport& transport) {
    End client, server;
    if (!tap::ok(join(transport, client, server), named(transport, "joined for containers"))) return;
    if (!client.channel->has_container()) {
        tap::ok(!client.channel->post_report("x") && !server.channel->has_container(),
                named(transport, "there are no containers, and nothing is written"));
        return;
    }
    server.send("welcome");
    pump({&client, &server}, [&] { return client.bytes == "welcome"; });
    int wrong = 0, unwritten = 0, untold = 0;
    std::mt19937 random(1);
    std::string copy(container_bytes, '\0');
    const auto one_way = [&](End& from, End& to, size_t size) {
        std::string written(size, '\0');
        for (char& c : written) c = char(random());
        to.reports.clear();
        to.bytes.clear();
        if (random() % 3 == 0) from.channel->out().append("before");
        if (!from.channel->post_report(written)) unwritten++;
        if (random() % 3 == 0) from.channel->out().append("behind");
        const size_t said = from.channel->out().size();
        from.channel->flush();
        pump({&client, &server}, [&] { return !to.reports.empty() && to.bytes.size() == said; });
        if (to.reports != std::vector<size_t>{size} || to.bytes.size() != said) untold++;
        to.channel->copy_container(copy.data(), size);
        if (std::string_view(copy).substr(0, size) != written) wrong++;
    };
    for (int i = 0; i < 100; i++) {
        one_way(client, server, i == 0 ? container_bytes : 1 + random() % container_bytes);
        one_way(server, client, i == 1 ? container_bytes : 1 + random() % container_bytes);
    }
    tap::is(unwritten, 0, named(transport, "containers are written, both ways"));
    tap::is(untold, 0, named(transport, "each report arrives once, with its size, and no frame is lost"));
    tap::is(wrong, 0, named(transport, "and what was written is there then"));
    tap::is(idle_wakeups({&client, &server}, 150), 0u, named(transport, "after that neither idle end is woken"));
    client.channel->close();
    tap::ok(!client.channel->post_report("x"), named(transport, "a closed end writes nothing"));
}

void suite(Transport transport, uint32_t round_trips) {
    greets_and_talks(transport);
    said_early(transport);
    bulk_between_threads(transport);
    bulk_between_processes(transport);
    back_pressure(transport);
    replies_held_up(transport);
    ends_with_all_that_was_sent(transport);
    ping_pong(transport, round_trips);
    containers(transport);
}

void refused_tcp() {
    SocketAddress nobody;
    {
        Transport gone = tcp_transport("127.0.0.1");
        nobody = static_cast<TcpListener&>(*gone.listener).address();
    }
    End client;
    client.channel = value_of(connect_tcp(nobody, client));
    tap::ok(!client.over, "tcp: no event while it connects");
    tap::ok(pump({&client}, [&] { return client.over; }), "tcp: an address without a listener");
    tap::is(client.ending(), "refused", "is refused");
    tap::is(client.text, "tcp:" + to_string(nobody) + ": no listener at this address (Connection refused)",
            "with a sentence");
    const auto taken = value_of(TcpListener::listen(*numeric_address("127.0.0.1", 0), 1));
    tap::is(error_of(TcpListener::listen(taken->address(), 1)),
            "bind: cannot listen at " + taken->describe() + ": Address already in use", "an address can be listened at once");
    tap::ok(!numeric_address("localhost", 1).has_value(), "names are not resolved here");
    std::string helps;
    for (size_t i = 0; i < size_t(ChannelEnd::count); i++)
        if (channel_end_help(ChannelEnd(i)).empty()) helps += channel_end_name(ChannelEnd(i));
    tap::is(helps, "", "every ending has a help text");
}

bool has_ipv6() {
    return error_of(TcpListener::listen(*numeric_address("::1", 0), 1)).empty();
}

FaultPlan some_faults() {
    FaultPlan plan;
    plan.delay_send = plan.delay_receive = 0.1;
    plan.split_receive = 0.3;
    plan.delay_ms = 0.3;
    return plan;
}

// A process that listens over RDMA by itself: a device opened before a fork is useless after it. So this process starts
// before any device is opened, and sends its port through a pipe.
struct VerbsEcho {
    int ports[2] = {-1, -1};
    std::optional<Child> child;

    explicit VerbsEcho(const std::string& host) {
        if (pipe2(ports, O_CLOEXEC) != 0) tap::bail_out("pipe2");
        child.emplace([&] {
            VerbsDevices devices{VerbsConfig()};
            const auto listener = value_of(VerbsListener::listen(*numeric_address(host, 0), {}, devices, 4));
            const uint16_t port = listener->address().port();
            if (write(ports[1], &port, sizeof port) == sizeof port) echo_once(*listener);
        });
    }
    ~VerbsEcho() {
        close(ports[0]);
        close(ports[1]);
    }
    void behind(Transport& transport, const std::string& host, VerbsDevices& devices) {
        uint16_t port = 0;
        if (read(ports[0], &port, sizeof port) != sizeof port) tap::bail_out("no port");
        transport.connect_far = [to = *numeric_address(host, port), &devices](ChannelEvents& events) {
            return value_of(connect_verbs(to, devices, {}, events));
        };
        transport.kill_far = [this] { child->kill_now(); };
    }
};

void over_verbs(const std::string& host) {
    VerbsEcho first(host), second(host);
    VerbsDevices devices(VerbsConfig(), [](const std::string& text) { tap::note("%s", text.c_str()); });
    {
        Transport verbs = verbs_transport(host, devices);
        first.behind(verbs, host, devices);
        suite(std::move(verbs), 5000);
    }
    Transport verbs = verbs_transport(host, devices);
    second.behind(verbs, host, devices);
    suite(faulty(std::move(verbs), some_faults()), 1000);
}

void over_tls([[maybe_unused]] const Folder& folder) {
#ifdef FARCACHED_OPENSSL
    const Authority authority(folder / ".", "authority");
    PeerTls tls;
    tls.use(value_of(PeerTls::load(authority.issue("peer", "IP:127.0.0.1"))));
    suite(tcp_transport("127.0.0.1", input_bytes_default, &tls), 5000);
    suite(faulty(tcp_transport("127.0.0.1", input_bytes_default, &tls), some_faults()), 1000);
#else
    tap::skip(1, "this build has no OpenSSL");
#endif
}

}  // namespace

int main() {
    std::signal(SIGPIPE, SIG_IGN);
    if (const char* host = std::getenv("FARCACHED_RDMA_ADDRESS")) {  // in a guest: only a guest has a device
        over_verbs(host);
        return tap::done();
    }
    suite(tcp_transport("127.0.0.1"), 20'000);
    if (has_ipv6())
        suite(tcp_transport("::1"), 1000);
    else
        tap::skip(1, "this host has no IPv6");
    refused_tcp();
    Folder folder;
    over_tls(folder);
    {
        ShmNode node(folder / "node.sock");
        MappedRegions regions;
        suite(shm_transport(node, regions), 100'000);
    }
    {
        ShmOptions tight;
        tight.ring_bytes = ring_bytes_min;
        tight.spins_max = 0;
        ShmNode node(folder / "tight.sock", tight);
        MappedRegions regions;
        Transport transport = shm_transport(node, regions, tight);
        transport.name = "shm with small rings";
        suite(std::move(transport), 20'000);
    }
    const FaultPlan plan = some_faults();
    suite(faulty(tcp_transport("127.0.0.1"), plan), 3000);
    {
        ShmNode node(folder / "fault.sock");
        MappedRegions regions;
        suite(faulty(shm_transport(node, regions), plan), 3000);
    }
    return tap::done();
}
