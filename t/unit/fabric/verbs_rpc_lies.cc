// SPDX-License-Identifier: BSD-3-Clause
// Peers by hand that lie in slots, heads and immediates (fabric/verbs/verbs_rpc.h): each connection ends with a named reason, and
// others go on. A WRITE between the node's last look and its sleep. Memory that the keys of slots do not open. With a device:
// runs in a guest, or wherever FARCACHED_RDMA_ADDRESS is the address of a device; elsewhere it skips.
#include <arpa/inet.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "t/unit/fabric/verbs_fixture.h"

namespace {

using namespace verbs_test;

std::string message(SlotHead head, std::string_view bytes) {
    std::string made(sizeof head + bytes.size(), '\0');
    compose_message(made.data(), head.sequence, head, bytes, {});
    return made;
}
// A request that a node accepts as the first one after its welcome.
SlotHead first_head() {
    SlotHead head;
    head.sequence = head.seen = 1;
    head.flags = uint8_t(ReplyBy::fetch);
    return head;
}
std::string bytes_of(const SlotPlace& place) { return {reinterpret_cast<const char*>(&place), sizeof place}; }

constexpr uint64_t by_hand = UINT64_C(1) << 40;

// Posts one work request with these bytes, and waits until it has completed. The device's error; empty: none. The queue is not
// to collect() afterwards.
std::string posts(VerbsQueue& queue, ibv_send_wr work, std::string_view bytes = {}) {
    ibv_sge piece{};
    if (const ibv_mr* own = queue.reach().own(VerbsAccess::landing)) {
        if (!bytes.empty()) std::memcpy(own->addr, bytes.data(), bytes.size());
        piece = {reinterpret_cast<uint64_t>(own->addr), uint32_t(bytes.size()), own->lkey};
        work.sg_list = &piece;
        work.num_sge = bytes.empty() ? 0 : 1;
    }
    work.wr_id = WorkId{WorkKind::message, by_hand}.packed();
    work.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* refused = nullptr;
    if (ibv_post_send(queue.pair().get(), &work, &refused) != 0) tap::bail_out("ibv_post_send");
    ibv_wc done{};
    const uint64_t until = now_ms() + patience_ms();
    while (now_ms() < until) {
        if (ibv_poll_cq(queue.pair().get()->send_cq, 1, &done) == 0)
            poll(nullptr, 0, 1);
        else if (done.wr_id == work.wr_id || done.status != IBV_WC_SUCCESS)
            return done.status == IBV_WC_SUCCESS ? "" : ibv_wc_status_str(done.status);
    }
    return "no completion";
}

// A proxy by hand that the node has welcomed: the node's message 1.
struct Proxy {
    End server;
    RawProxy raw;

    Proxy(Place& place, VerbsListener& listener) : raw(place, listener, server) { raw.welcomed_by(server); }
    const SlotPlace& requests() const { return raw.welcome.names.requests; }
    const SlotPlace& replies() const { return raw.welcome.names.replies; }
    // Into slot `number`; then wakes the node, if `immediate` is one.
    std::string write(uint32_t number, std::string_view bytes, uint32_t immediate = 0) {
        ibv_send_wr work{};
        work.opcode = immediate == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
        work.imm_data = htonl(immediate << 16);
        work.wr.rdma.remote_addr = requests().address + number % std::max<uint32_t>(requests().slots, 1) * requests().slot_bytes();
        work.wr.rdma.rkey = requests().key;
        return posts(*raw.queue, work, bytes);
    }
    std::string wake(uint32_t immediate = VerbsImmediate::slot, uint32_t credits = 0) {
        ibv_send_wr work{};
        work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        work.imm_data = htonl(immediate << 16 | credits);
        work.wr.rdma.remote_addr = requests().address;
        work.wr.rdma.rkey = requests().key;
        return posts(*raw.queue, work);
    }
    std::string send(std::string_view bytes, uint32_t immediate = VerbsImmediate::numbered) {
        ibv_send_wr work{};
        work.opcode = IBV_WR_SEND_WITH_IMM;
        work.imm_data = htonl(immediate << 16);
        return posts(*raw.queue, work, bytes);
    }
    // READs the node's message `number`; empty: it is not there.
    std::string reply(uint32_t number) {
        ibv_send_wr work{};
        work.opcode = IBV_WR_RDMA_READ;
        work.wr.rdma.remote_addr = replies().address + number % replies().slots * replies().slot_bytes();
        work.wr.rdma.rkey = replies().key;
        if (!posts(*raw.queue, work, std::string(replies().slot_bytes(), '\0')).empty()) return {};
        std::vector<char> copy(replies().slot_bytes());
        const auto* slot = static_cast<const uint64_t*>(raw.queue->reach().own(VerbsAccess::landing)->addr);
        if (copy_message(copy.data(), slot, uint32_t(copy.size()), uint32_t(copy.size()), number) != MessageState::whole) return {};
        SlotHead head;
        std::memcpy(&head, copy.data(), sizeof head);
        return {copy.data() + sizeof head, head.length};
    }
    bool gets(std::string_view what) {
        return pump({&server}, [&] { return server.bytes == what || server.over; }) && server.bytes == what;
    }
    // The node takes what wakes it: the connection manager's last event, too.
    void settle() {
        while (turn({&server}, 20)) continue;
    }
    bool sleeps() {
        pollfd polled{server.channel->fd(), POLLIN, 0};
        return poll(&polled, 1, 50) == 0;
    }
};

// Another connection to the same node, which goes on.
struct Bystander {
    End client, server;
    explicit Bystander(Transport& transport) {
        if (!join(transport, client, server)) tap::bail_out("no bystander");
    }
    bool works() {
        client.bytes.clear();
        server.bytes.clear();
        client.channel->expect_replies(true);
        client.send("request");
        const auto got = [&] {
            if (server.bytes == "request" && client.bytes.empty() && server.channel->out_pending() == 0) {
                server.bytes += ".";
                server.send("reply");
            }
            return client.bytes == "reply" || client.over || server.over;
        };
        const bool well = pump({&client, &server}, got) && client.bytes == "reply";
        client.channel->expect_replies(false);
        return well;
    }
};

VerbsConfig config_with(RpcMode most, bool windows = true) {
    VerbsConfig config;
    config.rpc = most;
    config.windows = windows;
    config.beat_ms = 3'600'000;  // no heartbeat wakes an end
    config.look_us_max = 10'000'000;
    return config;
}

// ---- between the look and the sleep -------------------------------------------------------------------

void lands_before_sleep(Place& place) {
    VerbsDevices devices(config_with(RpcMode::automatic));
    Transport transport = verbs_transport(place.host, devices);
    Proxy proxy(place, static_cast<VerbsListener&>(*transport.listener));
    End& server = proxy.server;
    SlotHead head = first_head();
    tap::is(proxy.write(1, message(head, "one"), VerbsImmediate::slot), "", "a request with a wake");
    tap::ok(proxy.gets("one"), "is taken");
    server.send("reply one");
    tap::is(proxy.reply(2), "reply one", "its reply is in a slot");
    tap::ok(!server.channel->looks(), "the node knows no gap between requests, and sleeps");
    server.bytes.clear();
    proxy.settle();
    head.sequence = head.seen = 2;
    const std::string second = message(head, "two");
    tap::is(proxy.write(2, second), "", "a request without a wake lands");
    tap::ok(proxy.sleeps(), "nothing wakes the node");
    tap::is(proxy.wake(), "", "an empty WRITE with an immediate");
    tap::ok(!proxy.sleeps() && proxy.gets("two"), "wakes it, and it takes the request");
    (void)proxy.wake();
    (void)proxy.write(2, second, VerbsImmediate::slot);
    turn({&server}, 100);
    tap::ok(server.bytes == "two" && !server.over, "once, also if wake and request are repeated");
    server.send("reply two");
    tap::is(proxy.reply(3), "reply two", "and answers once");
    tap::ok(proxy.reply(4).empty(), "and not again");

    tap::ok(server.channel->looks(), "now it looks for a while");
    server.bytes.clear();
    head.sequence = head.seen = 3;
    (void)proxy.write(3, message(head, "three"));
    tap::ok(server.channel->has_input(), "and sees a request without a wake");
    server.channel->ready();
    tap::is(server.bytes, "three", "which it takes");
    server.channel->out().append("reply three");
    server.channel->flush();
    const uint64_t until = now_ms() + patience_ms();
    bool input = false;
    while (server.channel->looks() && now_ms() < until) input = server.channel->has_input() || input;
    proxy.settle();
    tap::ok(!server.channel->looks() && !input && !server.channel->has_input(), "its last look finds nothing");
    server.bytes.clear();
    head.sequence = head.seen = 4;
    (void)proxy.write(4, message(head, "four"));
    tap::ok(proxy.sleeps(), "a request that lands then wakes no node");
    (void)proxy.wake();
    tap::ok(proxy.gets("four"), "before the wake comes");
}

// ---- proxies that lie -----------------------------------------------------------------------------------

std::string with(std::string message, size_t at, uint32_t value) {
    std::memcpy(message.data() + at, &value, sizeof value);
    return message;
}

// Sends a request that names this place for replies.
void place_told(Proxy& p, const SlotPlace& place) {
    SlotHead head = first_head();
    head.flags = uint8_t(uint8_t(ReplyBy::write) | SlotHead::names_place);
    (void)p.write(1, message(head, bytes_of(place) + "request"), VerbsImmediate::slot);
}

struct Lie {
    const char* name;
    std::function<void(Proxy&)> tell;
    const char* ending;
    const char* text;
};

std::vector<Lie> lies_in_slots() {
    constexpr uint32_t slot = VerbsImmediate::slot;
    const std::string good = message(first_head(), "request");
    SlotHead beyond = first_head(), before = first_head(), named = first_head();
    beyond.seen = 2;
    before.seen = uint32_t(-1);
    named.flags |= SlotHead::names_place;
    constexpr uint32_t length = offsetof(SlotHead, length);
    return {
        {"a wrong check", [=](Proxy& p) { (void)p.write(1, with(good, 0, 4711), slot); }, "corrupt", "the check of a message"},
        {"a length beyond the slot", [=](Proxy& p) { (void)p.write(1, with(good, length, 1 << 20), slot); }, "corrupt",
         "the check of a message"},
        {"the longest length", [=](Proxy& p) { (void)p.write(1, with(good, length, UINT32_MAX), slot); }, "corrupt",
         "the check of a message"},
        {"`seen` beyond what was sent", [=](Proxy& p) { (void)p.write(1, message(beyond, "x"), slot); }, "corrupt",
         "the number of a message that was seen"},
        {"`seen` before anything was sent", [=](Proxy& p) { (void)p.write(1, message(before, "x"), slot); }, "corrupt",
         "the number of a message that was seen"},
        {"a place in too few bytes", [=](Proxy& p) { (void)p.write(1, message(named, "place"), slot); }, "corrupt",
         "the place of the slots"},
        {"a place at an odd address", [](Proxy& p) { place_told(p, {4097, 1, 8, 64}); }, "corrupt", "the place of the slots"},
        {"a place beyond all memory", [](Proxy& p) { place_told(p, {UINT64_MAX - 4095, 1, 8, 64}); }, "corrupt",
         "the place of the slots"},
        {"a place of more slots", [](Proxy& p) { place_told(p, {4096, 1, 9, 64}); }, "corrupt", "the place of the slots"},
        {"a place of longer slots", [](Proxy& p) { place_told(p, {4096, 1, 8, 128}); }, "corrupt", "the place of the slots"},
        {"a place that is not its own",
         [](Proxy& p) {
             place_told(p, {4096, 1, 8, 64});
             if (p.gets("request")) p.server.send("reply");
         },
         "reset", "WRITE"},
        {"too many credits", [](Proxy& p) { (void)p.wake(VerbsImmediate::slot, 0xffff); }, "corrupt", "number of credits"},
        {"an immediate of no meaning", [](Proxy& p) { (void)p.wake(0xfff0); }, "corrupt", "the length of a report"},
    };
}

std::vector<Lie> lies_in_sends() {
    const auto head_with = [](uint32_t sequence) {
        SlotHead head = first_head();
        head.sequence = sequence;
        return head;
    };
    const std::string good = message(first_head(), "request");
    constexpr const char *number = "the number of a message", *head_alone = "a head that was not agreed on";
    return {
        {"a SEND far ahead", [=](Proxy& p) { (void)p.send(message(head_with(1000), "x")); }, "corrupt", number},
        {"a SEND a little ahead", [=](Proxy& p) { (void)p.send(message(head_with(3), "x")); }, "corrupt", number},
        {"a SEND of a former number", [=](Proxy& p) { (void)p.send(message(head_with(0), "x")); }, "corrupt", number},
        {"a SEND shorter than a head", [=](Proxy& p) { (void)p.send(good.substr(0, 20)); }, "corrupt", head_alone},
        {"a SEND of a head alone", [=](Proxy& p) { (void)p.send(good.substr(0, 32)); }, "corrupt", head_alone},
        {"a SEND of another length", [=](Proxy& p) { (void)p.send(good + "more"); }, "corrupt", "the length of a message"},
        {"the same SEND twice",
         [=](Proxy& p) {
             (void)p.send(good);
             (void)p.send(good);
         },
         "corrupt", number},
    };
}

void tell(Place& place, VerbsDevices& devices, const std::vector<Lie>& lies) {
    Transport transport = verbs_transport(place.host, devices);
    Bystander other(transport);
    for (const Lie& lie : lies) {
        Proxy proxy(place, static_cast<VerbsListener&>(*transport.listener));
        lie.tell(proxy);
        pump({&proxy.server}, [&] { return proxy.server.over; });
        tap::is(proxy.server.ending(), lie.ending, std::string(lie.name) + " ends the connection");
        tap::ok(proxy.server.text.find(lie.text) != std::string::npos, std::string(lie.name) + ": with the cause");
        tap::note("%s", proxy.server.text.c_str());
        tap::ok(other.works(), std::string(lie.name) + ": others go on");
    }
}

// A message of another number ends no connection, and is not taken.
void strange(Place& place, VerbsDevices& devices) {
    Transport transport = verbs_transport(place.host, devices);
    Proxy proxy(place, static_cast<VerbsListener&>(*transport.listener));
    SlotHead ahead = first_head();
    ahead.sequence = 9;
    (void)proxy.write(1, message(ahead, "ahead"), VerbsImmediate::slot);
    turn({&proxy.server}, 100);
    tap::ok(proxy.server.bytes.empty() && !proxy.server.over, "a number ahead in a slot is not taken");
    (void)proxy.write(1, message(first_head(), "right"), VerbsImmediate::slot);
    tap::ok(proxy.gets("right"), "but the right one");
}

void liars(Place& place) {
    VerbsDevices devices(config_with(RpcMode::automatic)), without(config_with(RpcMode::send));
    lands_before_sleep(place);
    tell(place, devices, lies_in_slots());
    tell(place, devices, lies_in_sends());
    strange(place, devices);
    tell(place, without,
         {{"a WRITE for slots that are not there", [](Proxy& p) { (void)p.wake(); }, "corrupt", "slots that are not there"},
          {"a demand to send", [](Proxy& p) { (void)p.wake(VerbsImmediate::slot_send); }, "corrupt", "slots that are not there"},
          {"a head that was not agreed on", [](Proxy& p) { (void)p.send(message(first_head(), "request")); }, "corrupt",
           "a head that was not agreed on"}});
    nothing_dies(devices);
    nothing_dies(without);
}

// ---- nodes that lie ---------------------------------------------------------------------------------------

// A node by hand whose slots the test writes.
struct Node {
    RawNode raw;
    End client;
    SlotPlace requests, replies;

    Node(Place& place, RpcMode mode, const std::function<void(VerbsWelcome&)>& lie = {}) : raw(place) {
        const auto act = [&] {
            (void)raw.knocked(true);
            VerbsQueue& queue = *raw.queue;
            queue.rpc().offer(queue.device());
            VerbsWelcome welcome = good_welcome();
            welcome.names.requests = requests = queue.rpc().requests();
            welcome.names.replies = replies = queue.rpc().replies();
            if (lie) lie(welcome);
            queue.messages().met({32, 8192});
            raw.accept(welcome);
            queue.messages().push("welcome");
            queue.ring();
        };
        meet(place, raw, client, act, {mode, 0});
        pump({&client}, [&] { return client.bytes == "welcome" || client.over; });
        client.bytes.clear();
        if (client.over) return;
        client.channel->expect_replies(true);
        client.send("request");
    }
    static uint64_t* slot(const SlotPlace& of, uint32_t number) {
        return reinterpret_cast<uint64_t*>(of.address + number % of.slots * of.slot_bytes());
    }
    // The client's first request has landed.
    bool asked() {
        std::vector<char> copy(requests.slot_bytes());
        const uint32_t bytes = requests.slot_bytes();
        return pump({&client}, [&] {
            return copy_message(copy.data(), slot(requests, 1), bytes, bytes, 1) == MessageState::whole;
        });
    }
    void leave(uint32_t number, std::string_view message) { std::memcpy(slot(replies, number), message.data(), message.size()); }
    bool gets(std::string_view what) {
        return pump({&client}, [&] { return client.bytes == what || client.over; }) && client.bytes == what;
    }
};

void node_lies(Place& place, const std::string& name, std::string_view reply, const char* text) {
    Node node(place, RpcMode::rfp);
    if (!tap::ok(node.asked(), name + ": asked")) return;
    node.leave(2, reply);
    pump({&node.client}, [&] { return node.client.over; });
    tap::is(node.client.ending(), "corrupt", name + " ends the connection");
    tap::ok(node.client.text.find(text) != std::string::npos, name + ": with the cause");
    tap::note("%s", node.client.text.c_str());
}

void nodes_that_lie(Place& place) {
    SlotHead head;
    head.sequence = 2;
    head.seen = 1;
    {
        Node node(place, RpcMode::rfp);
        SlotHead ahead = head;
        ahead.sequence = 10;
        tap::ok(node.asked(), "a node by hand is asked");
        node.leave(2, message(ahead, "ahead"));
        turn({&node.client}, 50);
        tap::ok(node.client.bytes.empty() && !node.client.over, "a number ahead in a slot is not taken");
        node.leave(2, message(head, "reply"));
        tap::ok(node.gets("reply"), "but the right one");
    }
    const std::string good = message(head, "reply");
    node_lies(place, "a reply with a wrong check", with(good, 0, 4711), "the check of a message");
    node_lies(place, "a reply longer than its slot", with(good, offsetof(SlotHead, length), 1 << 20), "the check of a message");
    SlotHead credits = head, seen = head;
    credits.credits = 1000;
    seen.seen = 7;
    node_lies(place, "a reply with too many credits", message(credits, "reply"), "number of credits");
    node_lies(place, "a reply that has `seen` what was not sent", message(seen, "reply"), "the number of a message that was seen");
    {
        Node node(place, RpcMode::send);
        ibv_send_wr work{};
        work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        work.imm_data = htonl(VerbsImmediate::slot << 16);
        (void)posts(*node.raw.queue, work);
        pump({&node.client}, [&] { return node.client.over; });
        tap::is(node.client.ending(), "corrupt", "a WRITE to a proxy without slots ends the connection");
    }
    using Mend = std::function<void(VerbsWelcome&)>;
    const std::pair<const char*, Mend> places[] = {
        {"too many slots", [](VerbsWelcome& w) { w.names.requests.slots = w.names.replies.slots = slots_most + 1; }},
        {"slots without room", [](VerbsWelcome& w) { w.names.requests.slot_64s = w.names.replies.slot_64s = 0; }},
        {"slots at an odd address", [](VerbsWelcome& w) { w.names.requests.address++; }},
        {"slots beyond all memory", [](VerbsWelcome& w) { w.names.replies.address = UINT64_MAX - 7; }},
        {"replies of another size", [](VerbsWelcome& w) { w.names.replies.slot_64s = 1; }},
    };
    for (const auto& [name, lie] : places) {
        Node node(place, RpcMode::rfp, lie);
        tap::is(node.client.ending(), "handshake", std::string("a welcome with ") + name + " is refused");
    }
    Node node(place, RpcMode::rfp, [](VerbsWelcome& w) { w.names.requests.key ^= 0xff00; });
    pump({&node.client}, [&] { return node.client.over; });
    tap::is(node.client.ending(), "reset", "slots that are not the node's end the connection");
}

// ---- keys -----------------------------------------------------------------------------------------------

enum class At { requests, replies, arena, other_requests, other_replies };
struct Attempt {
    const char* name;
    ibv_wr_opcode opcode;
    At at, key_of;
    int64_t from;  // of its first byte; negative: before the end, or before the start if it is the least
    bool granted;
};
constexpr int64_t before_start = INT64_MIN;

void keys(Place& place, bool windows) {
    const std::string way = windows ? "by windows: " : "by keys: ";
    VerbsDevices devices(config_with(RpcMode::automatic, windows));
    Region region(small_region(4711));
    Transport transport = verbs_transport(place.host, devices, {&region});
    auto& listener = static_cast<VerbsListener&>(*transport.listener);
    const Attempt attempts[] = {
        {"a WRITE to its request slots", IBV_WR_RDMA_WRITE, At::requests, At::requests, 0, true},
        {"a WRITE to their end", IBV_WR_RDMA_WRITE, At::requests, At::requests, -8, true},
        {"a WRITE beyond them", IBV_WR_RDMA_WRITE, At::requests, At::requests, -4, false},
        {"a WRITE before them", IBV_WR_RDMA_WRITE, At::requests, At::requests, before_start, false},
        {"a READ of its request slots", IBV_WR_RDMA_READ, At::requests, At::requests, 0, false},
        {"a FETCH_AND_ADD in them", IBV_WR_ATOMIC_FETCH_AND_ADD, At::requests, At::requests, 0, false},
        {"a READ of its reply slots", IBV_WR_RDMA_READ, At::replies, At::replies, 0, true},
        {"a READ beyond them", IBV_WR_RDMA_READ, At::replies, At::replies, -4, false},
        {"a WRITE to its reply slots", IBV_WR_RDMA_WRITE, At::replies, At::replies, 0, false},
        {"a WRITE to its reply slots with the other key", IBV_WR_RDMA_WRITE, At::replies, At::requests, 0, false},
        {"a WRITE to the arena", IBV_WR_RDMA_WRITE, At::arena, At::requests, 0, false},
        {"a READ of the arena", IBV_WR_RDMA_READ, At::arena, At::replies, 0, false},
        {"a WRITE to another's request slots", IBV_WR_RDMA_WRITE, At::other_requests, At::other_requests, 0, !windows},
        {"a READ of another's reply slots", IBV_WR_RDMA_READ, At::other_replies, At::other_replies, 0, !windows},
        {"a READ of another's reply slots with its own key", IBV_WR_RDMA_READ, At::other_replies, At::replies, 0, false},
    };
    for (const Attempt& one : attempts) {
        Proxy proxy(place, listener), other(place, listener);
        const uint64_t arena = proxy.raw.welcome.names.region_address + region.view().region_bytes - region.view().arena_bytes;
        const SlotPlace in_arena{arena, proxy.raw.welcome.names.region_key, 8, 64};
        const auto of = [&](At at) {
            const SlotPlace all[] = {proxy.requests(), proxy.replies(), in_arena, other.requests(), other.replies()};
            return all[size_t(at)];
        };
        const SlotPlace to = of(one.at);
        const uint64_t from = one.from < 0 && one.from != before_start ? to.bytes() + uint64_t(one.from) : uint64_t(one.from);
        const uint64_t at = to.address + (one.from == before_start ? uint64_t(-8) : from);
        const std::string arena_before(region.view().base + (arena - proxy.raw.welcome.names.region_address), 4096);
        is_granted(proxy.raw.tries(access_to(one.opcode, at, of(one.key_of).key)), one.granted, way + one.name);
        tap::ok(arena_before == std::string_view(region.view().base + (arena - proxy.raw.welcome.names.region_address), 4096),
                way + one.name + " changes no item");
    }
    transport.listener.reset();
    nothing_dies(devices);
}

}  // namespace

int main() {
    return run_with_device([](Place& place) {
        liars(place);
        nodes_that_lie(place);
        keys(place, true);
        keys(place, false);
    });
}
