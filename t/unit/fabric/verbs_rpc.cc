// SPDX-License-Identifier: BSD-3-Clause
// Requests and replies in slots (fabric/verbs/verbs_rpc.h), both ends with a device. Every mode carries all bytes in order.
// A node that announced a look and sleeps is woken. Ends of other versions are served. Runs in a guest, or wherever
// FARCACHED_RDMA_ADDRESS is the address of a device; elsewhere it skips.
#include <memory>
#include <string>
#include <vector>

#include "t/unit/fabric/verbs_fixture.h"

namespace {

using namespace verbs_test;

constexpr uint32_t beat_ms = 3'600'000;  // no heartbeat wakes an end

VerbsConfig quiet(VerbsConfig config = {}) {
    config.beat_ms = beat_ms;
    return config;
}
constexpr uint64_t wraps = UINT64_C(1) << 32;  // the lower half of a message's number

VerbsConfig node_with(RpcMode most, uint32_t slots = 8, uint32_t look_us_max = 200) {
    VerbsConfig config = quiet();
    config.rpc = most;
    config.slots = slots;
    config.look_us_max = look_us_max;
    return config;
}

// A proxy and a node, connected. The proxy awaits replies until awaits = false.
struct Pair : Ends {
    ChannelCounters asked, served;
    bool awaits = true;

    Pair(Place& place, const VerbsConfig& node, const RpcWish& wish, const VerbsOffer& offer = {})
        : Ends(place, node, begins_like(node), offer, wish) {
        client.channel->count_in(asked);
        server.channel->count_in(served);
        welcome(client, server);
    }
    ~Pair() {  // before the counters are gone
        client.channel.reset();
        server.channel.reset();
    }
    static VerbsConfig begins_like(const VerbsConfig& node) {
        VerbsConfig proxy = quiet();
        proxy.messages_before = node.messages_before;
        return proxy;
    }
    // As a node's loop does it. True: it had work.
    bool node_looks() {
        if (!server.channel->looks() || !server.channel->has_input()) return false;
        server.channel->ready();
        if (!server.over) server.channel->flush();
        return true;
    }
    template <class Condition>
    bool run(Condition&& condition) {
        const uint64_t until = now_ms() + patience_ms();
        while (!condition()) {
            if (now_ms() >= until) return false;
            if (!client.over) client.channel->expect_replies(awaits);
            turn({&client, &server}, !server.over && server.channel->looks() ? 0 : 200);
            if (!server.over) node_looks();
        }
        return true;
    }
    void ask(std::string_view what) {
        client.channel->expect_replies(awaits = true);
        client.send(what);
    }
    bool gets(std::string_view reply) {
        const bool all = run([&] {
            awaits = client.bytes.size() < reply.size();
            return !awaits || client.over || server.over;
        });
        const bool right = all && client.bytes == reply;
        client.bytes.clear();
        if (!client.over) client.channel->expect_replies(false);
        return right;
    }
    // The node runs until it has answered; the proxy only to wake it.
    bool answers(std::string_view with) {
        const uint64_t until = now_ms() + patience_ms();
        while (server.bytes.empty() && now_ms() < until) {
            if (server.channel->looks())
                node_looks();
            else if (!turn({&server}, 20))
                turn({&client}, 0);
        }
        const bool came = !server.bytes.empty();
        server.bytes.clear();
        if (came) server.send(with);
        return came;
    }
    std::string failures() const { return client.text + server.text; }
};

std::string named(const RpcWish& wish) {
    return std::string(rpc_mode_name(wish.mode)) + (wish.fetch_bytes == 0 ? "" : " " + std::to_string(wish.fetch_bytes)) + ": ";
}

void note(const Pair& pair) {
    tap::note("proxy: %llu SENDs, %llu WRITEs, %llu READs, %llu early, %llu second, %llu wakes, %llu switched",
              (unsigned long long)pair.asked.rdma_sends.get(), (unsigned long long)pair.asked.rdma_writes.get(),
              (unsigned long long)pair.asked.rfp_fetches.get(), (unsigned long long)pair.asked.rfp_fetches_early.get(),
              (unsigned long long)pair.asked.rfp_second_reads.get(), (unsigned long long)pair.asked.rfp_wakeups.get(),
              (unsigned long long)pair.asked.rfp_switched.get());
    tap::note("node: %llu SENDs, %llu WRITEs, %llu doorbells", (unsigned long long)pair.served.rdma_sends.get(),
              (unsigned long long)pair.served.rdma_writes.get(), (unsigned long long)pair.served.rdma_doorbells.get());
}

// ---- bytes ------------------------------------------------------------------------------------------

// Requests that the node echoes, so many under way.
void echoes(Pair& pair, const std::string& title, uint32_t count, uint32_t bytes_max, uint32_t window) {
    Messages at_client, at_server;
    serve_echo(pair.server, at_server);
    pair.client.take = [&](End&, std::string_view bytes) { return at_client.take(bytes); };
    uint32_t sent = 0;
    const bool all = pair.run([&] {
        bool more = false;
        for (; sent < count && sent - at_client.next < window; sent++, more = true)
            append_message(pair.client.channel->out(), sent, message_size(sent, bytes_max));
        if (more) pair.client.channel->flush();
        return at_client.next == count || pair.client.over || pair.server.over;
    });
    tap::ok(all && at_client.next == count && at_client.wrong + at_server.wrong == 0, title + ", and all bytes are equal");
    if (at_client.next != count) tap::note("%u of %u: %s", at_client.next, count, pair.failures().c_str());
    pair.client.take = pair.server.take = {};
}

// Both ends send as fast as they may, in one direction each, so that slots and credits run out.
void streams(Pair& pair, const std::string& title, uint32_t count, uint32_t bytes_max) {
    Messages at_client, at_server;
    Sender from_client(count, bytes_max, 100'000), from_server(count, bytes_max, 100'000);
    pair.client.take = [&](End&, std::string_view bytes) { return at_client.take(bytes); };
    pair.server.take = [&](End&, std::string_view bytes) { return at_server.take(bytes); };
    const bool all = pair.run([&] {
        from_client.fill(*pair.client.channel);
        from_server.fill(*pair.server.channel);
        return (at_client.next == count && at_server.next == count) || pair.client.over || pair.server.over;
    });
    tap::ok(all && at_client.wrong + at_server.wrong == 0, title + ", and all bytes are equal");
    if (at_client.next != count || at_server.next != count)
        tap::note("%u and %u of %u: %s", at_client.next, at_server.next, count, pair.failures().c_str());
    pair.client.take = pair.server.take = {};
}

// before: the number before the first message of each end.
void carries(Place& place, const RpcWish& wish, uint32_t slots, uint32_t look_us_max, uint64_t before = 0) {
    const std::string title = named(wish) + std::to_string(slots) + " slots" +
                              (before == 0 ? ": " : ", from message " + std::to_string(before + 1) + " on: ");
    VerbsConfig node = node_with(RpcMode::automatic, slots, look_us_max);
    node.messages_before = before;
    Pair pair(place, node, wish);
    tap::is(rpc_mode_name(pair.client.channel->rpc()), rpc_mode_name(wish.mode == RpcMode::automatic ? RpcMode::send : wish.mode),
            title + "the mode is in use");
    echoes(pair, title + "one request after another", 60, 300, 1);
    echoes(pair, title + "sixteen requests at once", 200, 300, 16);
    echoes(pair, title + "messages longer than slots", 40, 50'000, 3);
    streams(pair, title + "both ends send at once", 300, 300);
    streams(pair, title + "both ends send long messages at once", 60, 50'000);
    const bool slotted = wish.mode != RpcMode::send;
    tap::is(pair.asked.rdma_writes.get() > 0, slotted, title + (slotted ? "requests were WRITTEN" : "nothing was WRITTEN"));
    tap::ok(pair.asked.rdma_sends.get() > 0 && pair.served.rdma_sends.get() > 0, title + "the long ones were SENT");
    if (wish.mode == RpcMode::rfp) tap::ok(pair.asked.rfp_fetches.get() > 0, title + "replies were READ");
    if (wish.mode == RpcMode::write) tap::ok(pair.served.rdma_writes.get() > 0, title + "replies were WRITTEN");
    note(pair);
    pair.awaits = false;
    pair.run([&] { return true; });
    pair.client.channel->expect_replies(false);
    idle_wakeups({&pair.client, &pair.server}, 50);  // the last READ, if there is one, and the end of the node's looking
    const uint64_t reads = pair.asked.rfp_fetches.get();
    idle_wakeups({&pair.client, &pair.server}, 100);
    tap::is(pair.asked.rfp_fetches.get(), reads, title + "without a due reply nothing is READ");
}

void automatic(Place& place) {
    Pair pair(place, node_with(RpcMode::automatic), {});
    echoes(pair, "auto: one request after another", 3 * RpcChoice::trial_replies + 20, 100, 1);
    tap::ok(pair.asked.rdma_writes.get() > 0 && pair.served.rdma_writes.get() > 0 && pair.asked.rfp_fetches.get() > 0 &&
                pair.served.rdma_sends.get() > 0,
            "auto: every way was tried");
    tap::note("auto chose %s", std::string(rpc_mode_name(pair.client.channel->rpc())).c_str());
    note(pair);
}

// ---- what the node posts, and the switch ----------------------------------------------------------------

// The proxy is not run before the node has answered, so no two READs in a row come too early.
void posts_nothing(Place& place, uint32_t look_us_max, uint32_t fetch_bytes) {
    const RpcWish wish{RpcMode::rfp, fetch_bytes};
    const std::string title = named(wish) + (look_us_max == 0 ? "a node that sleeps: " : "a node that looks: ");
    Pair pair(place, node_with(RpcMode::automatic, 8, look_us_max), wish);
    constexpr uint32_t count = 200;
    uint32_t answered = 0;
    const uint64_t doorbells = pair.served.rdma_doorbells.get(), sends = pair.served.rdma_sends.get();
    for (uint32_t i = 0; i < count; i++) {
        pair.ask("request " + std::to_string(i));
        const std::string reply = "reply " + std::to_string(i) + std::string(i % 3 == 0 ? i * 10 : 0, 'x');
        answered += pair.answers(reply) && pair.gets(reply) ? 1 : 0;
    }
    tap::is(answered, count, title + "requests are answered");
    tap::is(pair.served.rdma_sends.get() - sends, 0u, title + "the node sent nothing");
    tap::is(pair.asked.rdma_sends.get(), 0u, title + "nor did the proxy");
    // The proxy may have to wake a slow node that looks.
    const uint64_t switched = pair.asked.rfp_switched.get();
    if (look_us_max == 0) tap::is(switched, 0u, title + "no service was slow");
    if (switched == 0) {
        tap::is(pair.served.rdma_doorbells.get() - doorbells, 0u, title + "it posted nothing to answer");
        tap::ok(pair.asked.rfp_fetches.get() >= count, title + "the proxy READ the replies");
        if (fetch_bytes != 0) tap::is(pair.asked.rfp_second_reads.get(), count, title + "each by two READs");
    }
    if (look_us_max != 0) tap::ok(pair.asked.rfp_wakeups.get() < count, title + "some requests left without a wake");
    note(pair);
}

// Two READs without a reply demand that the node sends. Short service, compared with READs, ends that.
void switches(Place& place) {
    Pair pair(place, node_with(RpcMode::automatic), {RpcMode::rfp, 0});
    pair.ask("first");
    pair.answers("one");
    tap::ok(pair.gets("one") && pair.served.rdma_writes.get() == 0, "the first reply was READ");
    pair.ask("slow");
    const auto slowly = [&] {  // so each READ takes long
        poll(nullptr, 0, 20);
        return pair.asked.rfp_switched.get() > 0;
    };
    tap::ok(pump({&pair.client}, slowly), "a proxy that READs in vain switches");
    pair.answers("two");
    tap::ok(pair.gets("two"), "the reply arrives");
    tap::is(pair.served.rdma_writes.get(), 1u, "by a WRITE of the node");
    tap::is(pair.asked.rfp_switched.get(), 1u, "after one switch");
    const uint64_t fetches = pair.asked.rfp_fetches.get();
    uint32_t replies = 0;
    const auto is_back = [&] { return replies > FetchPlan::fast_min && pair.served.rdma_writes.get() < replies; };
    // No end sleeps in between: service from a cold cache may take longer than a READ.
    for (const uint64_t until = now_ms() + patience_ms(); !is_back() && now_ms() < until;) {
        pair.ask("fast");
        replies += pair.answers("reply") && pair.gets("reply") ? 1 : 0;
    }
    tap::ok(is_back() && pair.asked.rfp_fetches.get() > fetches, "when service is short again, replies are READ again");
    tap::note("after %u replies", replies);
    note(pair);
}

// ---- waking -----------------------------------------------------------------------------------------

// The node has announced that it looks, and then sleeps without another look. A plain WRITE alone does not wake it.
void wakes(Place& place) {
    Pair pair(place, node_with(RpcMode::automatic, 8, /* look_us_max= */ 3'600'000'000), {RpcMode::rfp, 0});
    uint64_t plain = 0;
    uint32_t right = 0;
    constexpr uint32_t count = 20;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t wakeups = pair.asked.rfp_wakeups.get();
        pair.ask("request");
        plain += pair.asked.rfp_wakeups.get() == wakeups ? 1 : 0;
        // Neither end looks: descriptors alone.
        const bool taken = pump({&pair.client, &pair.server}, [&] { return !pair.server.bytes.empty(); });
        right += taken && pair.server.bytes == "request" ? 1 : 0;
        pair.server.bytes.clear();
        pair.server.send("reply");
        if (!pair.gets("reply")) break;
    }
    tap::is(right, count, "each request is seen once, though the node does not look");
    tap::ok(plain > 0, "some left without a wake");
    note(pair);
}

// ---- a node that ends the connection ------------------------------------------------------------------

// So many replies stand in slots; the proxy has READ none of them. Then the node says goodbye and ends.
void answers_and_ends(End& client, End& server, uint32_t replies) {
    client.channel->expect_replies(true);
    for (uint32_t i = 0; i < replies; i++) {
        client.send("?");
        const auto came = [&] { return server.bytes == "?" || server.over; };
        if (!pump({&server}, came)) tap::bail_out("a request did not arrive");
        server.bytes.clear();
        server.send(std::to_string(i));
    }
    server.channel->out().append("goodbye");
    server.channel->send_at_once();
    server.channel->flush();
    server.channel->close();
    pump({&server}, [&] { return server.over; });
}

void ends_by_itself(Place& place) {
    Region region(small_region(4711));
    for (const uint32_t replies : {1U, 3U, 8U}) {
        const std::string title = "a node that ends with " + std::to_string(replies) + " replies to be READ: ";
        Pair pair(place, node_with(RpcMode::automatic, 16), {RpcMode::rfp, 0}, {&region});
        const auto posted = [&] { return pair.served.rdma_sends.get() + pair.served.rdma_writes.get(); };
        const uint64_t before = posted();
        answers_and_ends(pair.client, pair.server, replies);
        tap::is(posted() - before, 1u, title + "it sent the goodbye alone");
        tap::is(pair.node_devices.deferred_closes(), 1u, title + "it waits");
        pump({&pair.client}, [&] { return pair.client.bytes.ends_with("goodbye") || pair.client.over; });
        tap::is(pair.client.bytes, std::string("01234567").substr(0, replies) + "goodbye", title + "all arrives, in order");
        pair.client.channel.reset();
        nothing_dies(pair.node_devices);
        tap::is(pair.node_devices.deferred_closes(), 0u, title + "until the proxy has left");
    }
    Pair pair(place, node_with(RpcMode::automatic), {RpcMode::rfp, 0}, {&region});
    pair.ask("one");
    pair.answers("first");
    const bool right = pair.gets("first");
    pair.client.channel->expect_replies(true);
    pair.client.send("x");  // it tells that the first reply was taken; its own is never made
    pump({&pair.server}, [&] { return !pair.server.bytes.empty(); });
    pair.server.channel.reset();
    pump({&pair.client}, [&] { return pair.client.over; });
    tap::ok(right && pair.client.over, "without a reply to be READ the proxy sees the end at once");
}

// A proxy that neither READs nor leaves is waited for no longer than D3 says.
void proxy_that_stays(Place& place) {
    Region region(small_region(4711));
    Pair pair(place, node_with(RpcMode::automatic), {RpcMode::rfp, 0}, {&region});
    answers_and_ends(pair.client, pair.server, 2);
    nothing_dies(pair.node_devices);
    tap::is(pair.node_devices.deferred_closes(), 0u, "a node does not wait for ever for a proxy that stays");
    pump({&pair.client}, [&] { return pair.client.over; });
    tap::ok(pair.client.over, "whose end then ends, too");
    tap::note("%s", pair.client.text.c_str());
}

// The bound on such waits: the node's timeouts are long here, so that none ends by them.
void many_that_stay(Place& place) {
    VerbsConfig patient = node_with(RpcMode::automatic);
    patient.ack_timeout = 22;
    Ends ends(place, patient, quiet(), {}, {RpcMode::rfp, 0});
    std::vector<std::unique_ptr<End>> clients, servers;
    for (size_t i = 0; i < deferred_reads_max + 2; i++) {
        clients.push_back(std::make_unique<End>());
        servers.push_back(std::make_unique<End>());
        ends.connect(place, *clients.back(), *servers.back(), {RpcMode::rfp, 0});
        Ends::welcome(*clients.back(), *servers.back());
        answers_and_ends(*clients.back(), *servers.back(), 1);
    }
    End& last = *clients.back();
    // The node's last words to the others arrive in a moment.
    pump({&last}, [&] { return last.over && ends.node_devices.deferred_closes() <= deferred_reads_max; });
    tap::is(ends.node_devices.deferred_closes(), deferred_reads_max, "the node waits for so many proxies");
    tap::ok(last.over, "others are not waited for");
    clients.clear();
    ends.client.channel.reset();
    pump({&ends.server}, [&] { return ends.server.over; });
    nothing_dies(ends.node_devices);
    tap::is(ends.node_devices.deferred_closes(), 0u, "all that leave are let go");
}

// ---- ends of other kinds ------------------------------------------------------------------------------

void without_slots(Place& place) {
    for (const RpcMode most : {RpcMode::send, RpcMode::write}) {
        for (const RpcMode mode : {RpcMode::automatic, RpcMode::write, RpcMode::rfp}) {
            const std::string title = "a node with " + std::string(rpc_mode_name(most)) + ", a proxy with " +
                                      std::string(rpc_mode_name(mode)) + ": ";
            Pair pair(place, node_with(most), {mode, 0});
            echoes(pair, title + "it is served", 300, 300, 4);
            const bool writes = most == RpcMode::write && mode != RpcMode::rfp;
            tap::is(pair.asked.rfp_fetches.get(), 0u, title + "nothing is READ");
            tap::is(pair.asked.rdma_writes.get() > 0, writes, title + (writes ? "by WRITEs" : "by SENDs alone"));
        }
    }
}

// Bytes that arrive at an end by hand.
std::string pulled(VerbsQueue& queue, End& other, size_t bytes) {
    std::string all(bytes, '\0');
    size_t got = 0;
    pump({&other}, [&] {
        queue.collect();
        got += queue.messages().pull(all.data() + got, bytes - got);
        queue.ring();
        return got == bytes || queue.failure().any();
    });
    all.resize(got);
    return all;
}

// Ends of builds without slots, which know neither heads nor their immediates.
void older(Place& place) {
    {
        RawNode node(place);
        End client;
        VerbsWelcome welcome = good_welcome();
        constexpr uint16_t bytes_then = offsetof(VerbsWelcome, names.requests);
        static_assert(bytes_then == 112);
        welcome.head.bytes = bytes_then;
        welcome.names.requests.slots = 77;  // what follows is not the greeting's
        meet(place, node, client,
             [&] {
                 (void)node.knocked(true);
                 node.queue->messages().met({32, 8192});
                 node.accept(welcome, bytes_then);
             },
             {RpcMode::rfp, 0});
        tap::ok(client.up, "an older node is accepted");
        client.send("first");
        tap::is(pulled(*node.queue, client, 5), "first", "and gets plain messages");
        node.queue->messages().push("answer");
        node.queue->ring();
        pump({&client}, [&] { return client.bytes == "answer"; });
        client.channel->expect_replies(true);
        client.send("second");
        tap::is(pulled(*node.queue, client, 6), "second", "also after it has answered");
        tap::ok(!node.queue->failure().any() && !client.over, "without a failure");
        tap::is(rpc_mode_name(client.channel->rpc()), "send", "the mode is send");
    }
    VerbsDevices devices(node_with(RpcMode::automatic));
    auto listener = value_of(VerbsListener::listen(*numeric_address(place.host, 0), {}, devices, 16));
    {
        End server;
        RawProxy proxy(place, *listener, server);
        proxy.queue->messages().push("hello");
        proxy.queue->ring();
        pump({&server}, [&] { return server.bytes == "hello"; });
        tap::is(server.bytes, "hello", "an older proxy is served");
        server.send("welcome");
        tap::is(pulled(*proxy.queue, server, 7), "welcome", "and gets plain messages");
        proxy.queue->messages().push("more");
        proxy.queue->ring();
        pump({&server}, [&] { return server.bytes == "hellomore"; });
        server.send("replied");
        tap::is(pulled(*proxy.queue, server, 7), "replied", "always");
        tap::ok(!proxy.queue->failure().any() && !server.over, "without a failure");
    }
    listener.reset();
    nothing_dies(devices);
}

}  // namespace

int main() {
    return run_with_device([](Place& place) {
        for (const RpcMode mode : {RpcMode::send, RpcMode::write, RpcMode::rfp}) carries(place, {mode, 0}, 8, 200);
        carries(place, {RpcMode::rfp, 36}, 8, 200);
        carries(place, {RpcMode::rfp, 0}, 1, 1'000'000);
        carries(place, {RpcMode::write, 0}, slots_most, 1'000'000);
        for (const uint64_t before : {wraps - 20, 2 * wraps - 150, wraps - 1}) {
            carries(place, {RpcMode::rfp, 0}, 7, 200, before);
            carries(place, {RpcMode::write, 0}, 5, 200, before);
        }
        automatic(place);
        posts_nothing(place, 0, 0);
        posts_nothing(place, 0, 36);
        posts_nothing(place, 10'000'000, 0);
        switches(place);
        wakes(place);
        ends_by_itself(place);
        proxy_that_stays(place);
        many_that_stay(place);
        without_slots(place);
        older(place);
    });
}
