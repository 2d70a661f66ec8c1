// SPDX-License-Identifier: BSD-3-Clause
// A worker's links to a node: the replies when memory for a value to be kept is missing. A node whose name has moved to
// another address is found there.
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "daemon/remote/host_addresses.h"
#include "t/lib/refused_new.h"
#include "t/unit/daemon/links_fixture.h"

namespace {

// Allocations of this size and above fail, in this thread: a lookup of an earlier case may still run.
thread_local size_t too_much = SIZE_MAX;

}  // namespace

bool allocation_refused(size_t bytes) { return bytes >= too_much; }

namespace {

using links_test::Desk;
using farcached::daemon::SubmitResult;
using farcached::daemon::HostAddresses;
namespace daemon = farcached::daemon;
namespace conf = farcached::conf;
namespace fabric = farcached::fabric;
namespace protocol = farcached::protocol;

// Larger than a frame: it is sent in pieces, from a copy.
const std::string large(200'000, 'v');

SubmitResult set_without_memory(Desk& desk) {
    too_much = large.size();
    SubmitResult asked = SubmitResult::later;
    try {
        asked = desk.set("large", large);
    } catch (const std::bad_alloc&) {
        tap::ok(false, "asking throws nothing");
    }
    too_much = SIZE_MAX;
    return asked;
}

void no_memory_to_send() {
    Desk desk;
    tap::ok(desk.until_up(), "the node is up");
    desk.set("k", "v");
    tap::is(set_without_memory(desk), SubmitResult::later, "a value that there is no memory for is taken");
    desk.set("k", "w");
    tap::is(desk.answers(), "stored unavailable stored ", "and answered as unavailable, between others");
    desk.set("large", large);
    tap::is(desk.answers(), "stored ", "with memory, it is stored");
}

void no_memory_to_wait() {
    Desk desk;
    tap::is(desk.set("k", "v"), SubmitResult::crowded, "what is asked before the node is up waits");
    tap::is(set_without_memory(desk), SubmitResult::later, "if there is memory for it");
    desk.set("k", "w");
    tap::is(desk.answers(), "stored unavailable stored ", "else it is unavailable, and the others are not");
}

// Waiting requests are sent when the node is up; from then on no memory is available for many at once.
void no_memory_to_go_on() {
    Desk desk;
    for (int i = 0; i < 100; i++) desk.set("k", "v");
    const uint64_t deadline_ns = farcached::boottime_ns() + UINT64_C(10'000'000'000);
    bool threw = false;
    while (desk.nodes->all()[0].links_up == 0 && farcached::boottime_ns() < deadline_ns) {
        desk.begin_tick();
        too_much = 400;
        try {
            desk.links->end_tick();
        } catch (const std::bad_alloc&) {
            threw = true;
        }
        too_much = SIZE_MAX;
    }
    tap::ok(!threw, "what waited and finds no memory when the node is up ends nothing");
    const std::string answers = desk.answers();
    tap::ok(answers.find("unavailable ") != answers.npos, "it is unavailable");
    desk.set("k", "w");
    tap::is(desk.answers(), "stored ", "and what is asked with memory is stored");
}

// Knows one name, and its address is the test's.
struct NameServer {
    std::mutex lock;
    std::condition_variable changed;
    uint16_t port = 0;     // 0: the name is unknown
    bool answers = true;   // else a lookup waits
    bool memory = true;    // else a lookup has none
    int asked = 0;

    HostAddresses::Found look_up() {
        std::unique_lock hold(lock);
        asked++;
        changed.notify_all();
        changed.wait(hold, [&] { return answers; });
        if (!memory) throw std::bad_alloc();
        if (port == 0) return std::string("not known");
        return std::vector{*fabric::numeric_address("127.0.0.1", port)};
    }
    void say(uint16_t where, bool answer = true) {
        std::lock_guard hold(lock);
        port = where;
        answers = answer;
        changed.notify_all();
    }
    bool was_asked(int times) {
        std::unique_lock hold(lock);
        return changed.wait_for(hold, std::chrono::seconds(10), [&] { return asked >= times; });
    }
};

std::shared_ptr<HostAddresses> looked_up(const char* host, uint16_t port, const HostAddresses::LookUp& look_up) {
    return HostAddresses::make(host, port, std::get<0>(look_up(host, port)), look_up);
}

// 0: it is not known.
uint16_t port_of(const HostAddresses& host) {
    const auto found = host.at(0);
    const auto* const address = std::get_if<0>(&found);
    return address == nullptr ? uint16_t(0) : address->port();
}

bool becomes(const HostAddresses& host, uint16_t port) {
    const uint64_t deadline_ns = farcached::boottime_ns() + UINT64_C(10'000'000'000);
    while (port_of(host) != port && farcached::boottime_ns() < deadline_ns) std::this_thread::yield();
    return port_of(host) == port;
}

void lookups() {
    constexpr uint64_t pause_ns = HostAddresses::pause_ns;
    const auto names = std::make_shared<NameServer>();  // which a lookup may outlive the host with
    auto look_up = [names](const std::string&, uint16_t) { return names->look_up(); };
    names->say(0);
    const auto unknown = daemon::look_up_all({{"node.test", 1}}, look_up);
    tap::is(std::get<std::string>(unknown.front()), "not known", "a name that is not known at the start");
    names->say(11);
    auto host = looked_up("node.test", 1, look_up);
    names->say(12, /* answer= */ false);
    tap::ok(host->refresh(1) && names->was_asked(3), "it is looked up again, which is not waited for");
    tap::ok(!host->refresh(1 + 9 * pause_ns), "one at a time");
    tap::is(port_of(*host), uint16_t(11), "and the known address stays in use");
    names->say(12);
    tap::ok(becomes(*host, 12), "until it is there");
    names->say(0);
    tap::ok(!host->refresh(pause_ns), "not at once again");
    tap::ok(host->refresh(1 + pause_ns) && names->was_asked(4), "but later");
    names->say(13);
    uint64_t now_ns = 1 + 2 * pause_ns;
    while (!host->refresh(now_ns)) std::this_thread::yield();  // until the failing lookup has ended
    tap::ok(becomes(*host, 13), "a failed lookup changed nothing, and the next one did");
    const auto literal = HostAddresses::of_literals({"10.0.0.1", "fd00::1"}, 13);
    const auto text = [&](size_t turn) { return to_string(std::get<0>(literal->at(turn))); };
    tap::is(text(0) + " " + text(1) + " " + text(2),
            "10.0.0.1:13 [fd00::1]:13 10.0.0.1:13", "several literal addresses");
    tap::ok(!literal->refresh(100 * HostAddresses::pause_ns), "are not looked up");
    names->say(0);
    const auto late = HostAddresses::unknown("late.test", 1, "no such name", look_up);
    tap::is(std::get<farcached::Problem>(late->at(0)).text, "the host late.test is not known (no such name); it is looked up again",
            "a host without an address");
    names->say(15);
    tap::ok(late->refresh(pause_ns) && becomes(*late, 15), "has one as soon as a lookup finds it");
    auto numeric = looked_up("127.0.0.1", 14, look_up);
    tap::ok(!numeric->refresh(pause_ns), "an address is not looked up");
}

void lookups_without_memory() {
    constexpr uint64_t pause_ns = HostAddresses::pause_ns;
    const auto names = std::make_shared<NameServer>();
    names->say(11);
    auto look_up = [names](const std::string&, uint16_t) { return names->look_up(); };
    auto host = looked_up("node.test", 1, look_up);
    too_much = 1;
    bool begun = true;
    try {
        begun = host->refresh(1);
    } catch (const std::bad_alloc&) {
    }
    too_much = SIZE_MAX;
    tap::ok(!begun, "without memory for a thread no lookup begins");
    names->memory = false;
    tap::ok(host->refresh(1 + pause_ns) && names->was_asked(2), "but a later one does");
    uint64_t now_ns = 1 + 2 * pause_ns;
    while (!host->refresh(now_ns)) std::this_thread::yield();
    tap::ok(names->was_asked(3), "one that finds no memory has failed");
    now_ns += pause_ns;
    {
        std::lock_guard hold(names->lock);
        names->memory = true;
    }
    names->say(12);
    while (!host->refresh(now_ns)) std::this_thread::yield();
    tap::ok(becomes(*host, 12), "and changed nothing");
}

// Each lookup waits until all are under way, and one is never answered.
void lookups_together() {
    const auto names = std::make_shared<NameServer>();
    auto look_up = [names](const std::string& host, uint16_t port) -> HostAddresses::Found {
        std::unique_lock hold(names->lock);
        names->asked++;
        names->changed.notify_all();
        names->changed.wait(hold, [&] { return names->asked == 3 && (host != "slow.test" || names->answers); });
        if (host == "bad.test") throw std::bad_alloc();
        return std::vector{*fabric::numeric_address("127.0.0.1", port)};
    };
    names->answers = false;
    const auto found = daemon::look_up_all({{"good.test", 1}, {"slow.test", 2}, {"bad.test", 3}}, look_up, std::chrono::seconds(1));
    tap::is(found.size(), 3u, "hosts are looked up together");
    tap::ok(std::holds_alternative<std::vector<fabric::SocketAddress>>(found[0]), "one is known");
    auto why = [&](size_t i) { return std::get<std::string>(found[i]); };
    tap::is(why(1), "no name server answered in 1 s", "one is given up in time");
    tap::is(why(2), "there was no memory to look it up", "one fails");
    names->say(1);
    const auto none = daemon::look_up_all({}, look_up);
    tap::ok(none.empty(), "no host is no wait");
    const auto address = daemon::look_up_all({{"127.0.0.1", 7}}, fabric::look_up);
    tap::is(std::get<0>(address[0])[0].port(), 7, "an address is one");
}

void node_moves() {
    const auto names = std::make_shared<NameServer>();
    Desk desk([names](const std::string&, uint16_t port) {
        {
            std::lock_guard hold(names->lock);
            if (names->port == 0) names->port = port;
        }
        return names->look_up();
    });
    tap::ok(desk.until_up(), "a node is where its name leads");
    desk.server.move();
    names->say(desk.server.port());
    tap::ok(desk.until_down(), "it goes elsewhere");
    tap::ok(desk.until_up(), "and is found where its name leads by then");
    desk.set("k", "v");
    tap::is(desk.answers(), "stored ", "where it serves");
}

// A request that waits for another of its session holds up that session, and no other (M1).
void sessions() {
    Desk desk;
    tap::ok(desk.until_up(), "the node is up");
    desk.stands_still = true;
    tap::is(desk.set("k", large), SubmitResult::later, "a large value is on its way");
    tap::is(desk.set("k", "1"), SubmitResult::crowded, "its session's next set of the key waits for it");
    tap::is(desk.set("j", "1"), SubmitResult::crowded, "and what that session asks for then waits behind");
    desk.asking = &desk.other_queue;
    tap::is(desk.set("k", "2"), SubmitResult::later, "another session's set of the key does not wait");
    tap::is(desk.set("j", "2"), SubmitResult::later, "nor that of another");
    desk.stands_still = false;
    tap::is(desk.answers(), "stored stored stored stored stored ", "all is answered");
    desk.asking = &desk.queue;
    tap::is(desk.set("k", "3"), SubmitResult::later, "then nothing waits");
    tap::is(desk.answers(), "stored ", "for any session");

    // When one request waits for room, all later ones wait behind it.
    desk.stands_still = true;
    bool waits[2] = {false, false};  // each session; one alone may wait for a key that is counted with another
    for (int i = 0; i < 200 && !(waits[0] && waits[1]); i++) {
        desk.asking = i % 2 == 0 ? &desk.queue : &desk.other_queue;
        waits[i % 2] = desk.set("k" + std::to_string(i), large) == SubmitResult::crowded;
    }
    tap::ok(waits[0] && waits[1], "there is no room for more, and all sessions wait");
    desk.stands_still = false;
    const std::string answers = desk.answers();
    tap::ok(answers.find("stored ") == 0 && answers.find("unavailable") == answers.npos, "until there is");
}

// ---- reload -----------------------------------------------------------------------------------------------

uint64_t past_sets(const Desk& desk) {
    uint64_t sets = 0;
    desk.nodes->each_past_link([&](const auto& link, const auto&) { sets += link.set_twosided.get(); });
    return sets;
}

std::string names_of(const Desk& desk) {
    std::string names;
    for (const auto& shown : desk.nodes->all()) names += shown.name + " ";
    return names;
}

void a_node_leaves() {
    Desk desk;
    tap::ok(desk.until_up(), "a node is up");
    desk.stands_still = true;
    desk.set("k", "v");
    desk.links->end_tick();
    desk.settings.nodes = {Desk::spec_of("b", desk.other)};
    desk.reload();
    tap::is(names_of(desk), "b ", "another is in its place");
    desk.set("k", "w");
    tap::ok(desk.until([&] { return desk.nodes->all()[0].links_up == 1; }), "and connected to");
    desk.set("k", "x");
    desk.stands_still = false;
    tap::is(desk.answers(), "stored stored stored ", "the one that left answers what it was asked");
    tap::ok(desk.until([&] { return past_sets(desk) == 1; }), "and what it counted is kept");
    desk.settings.nodes = {Desk::spec_of("a", desk.server)};
    desk.reload();
    desk.set("k", "y");
    tap::is(desk.answers(), "stored ", "it comes back");
    tap::ok(desk.until([&] { return past_sets(desk) == 3; }), "as another leaves");
}

void a_silent_node_leaves() {
    Desk desk;
    desk.settings.node_timeout_ms = 100;
    desk.reload();
    tap::ok(desk.until_up(), "a node is up");
    desk.stands_still = true;
    desk.set("k", "v");
    desk.links->end_tick();
    desk.settings.nodes = {Desk::spec_of("b", desk.other)};
    desk.reload();
    desk.set("k", "w");
    tap::is(desk.answers(), "unavailable stored ", "a leaving node that is silent is given up after its timeout");
}

// A node joins and leaves while another does not delete the items of the keys that move between them (F7). No request fails.
void a_node_passes_by() {
    Desk desk;
    tap::ok(desk.until_up(), "a node is up");
    desk.settings.nodes = {Desk::spec_of("a", desk.server), Desk::spec_of("b", desk.other)};
    desk.stands_still = true;
    desk.reload();
    std::string key;  // of node b
    while (key.empty() || desk.links->peers().choose(key)->node().name != "b") key += "k";
    desk.until([&] { return desk.nodes->all()[1].links_up == 1; });
    tap::is(desk.set(key, "v"), SubmitResult::crowded, "another joins; a key that moves there waits for the first one");
    tap::is(desk.get(key), SubmitResult::crowded, "gets, too");
    desk.settings.nodes = {Desk::spec_of("a", desk.server)};
    desk.reload();
    desk.set(key, "w");
    desk.get(key);
    desk.stands_still = false;
    tap::is(desk.answers(), "stored v stored w ", "it leaves: what waits goes to the key's node, in its order");
}

// With copies one of two nodes gets weight 0, so the other one has all keys, without copies. The first one does not reply, and
// others may still read its copies.
void the_last_copies() {
    Desk desk;
    desk.settings.replicas.count = 2;
    desk.settings.nodes = {Desk::spec_of("b", desk.other), Desk::spec_of("a", desk.server)};
    desk.reload();
    tap::ok(desk.until([&] { return desk.nodes->all()[0].links_up + desk.nodes->all()[1].links_up == 2; }), "two nodes are up");
    tap::ok(desk.until([&] { return desk.nodes->all()[0].fence.state == daemon::FenceState::in_use; }), "and in use");
    std::string key;
    while (key.empty() || desk.links->peers().choose(key)->node().name != "b") key += "k";
    desk.set(key, "v");
    tap::is(desk.answers(), "stored ", "one has an item, the other one its copy");
    desk.stands_still = true;
    desk.settings.nodes[1].weight = 0;
    desk.reload();
    tap::is(desk.set(key, "w"), SubmitResult::crowded, "a change waits until the node of the copy has deleted it");
    desk.stands_still = false;
    tap::is(desk.answers(), "stored ", "and is executed then");
    desk.settings.nodes[1].weight = 1;
    desk.reload();
    tap::ok(desk.until([&] { return desk.nodes->all()[1].fence.state == daemon::FenceState::in_use; }), "it gets keys again");
    desk.stands_still = true;
    desk.settings.nodes[1].weight = 0;
    desk.reload();
    desk.server.hang_up();
    tap::ok(!desk.links->peers().copies_may_be_elsewhere(key), "it does not reply");
    tap::ok(desk.until([&] { return desk.links->peers().copies_may_be_elsewhere(key); }), "it loses its connection: no change");
    desk.stands_still = false;
    tap::ok(desk.until([&] { return !desk.links->peers().copies_may_be_elsewhere(key); }), "until it is back");
}

// A change of a connection's settings makes a new connection, behind the old one.
void connections_change() {
    Desk desk;
    tap::ok(desk.until_up(), "a node is up");
    desk.stands_still = true;
    desk.set("k", "1");
    desk.links->end_tick();
    for (const uint32_t timeout_ms : {9000, 8000}) {
        desk.settings.node_timeout_ms = timeout_ms;
        desk.reload();
        tap::is(desk.set("k", std::to_string(timeout_ms)), SubmitResult::crowded, "what is asked waits for the connection before");
    }
    desk.stands_still = false;
    tap::is(desk.answers(), "stored stored stored ", "all is answered, in its order");
    tap::ok(desk.until_up(), "the node is up again");
    tap::is(desk.nodes->all()[0].links, 1u, "by one connection");
    desk.reload();
    tap::is(desk.set("k", "2"), SubmitResult::later, "a reload of the same changes nothing");
    tap::is(desk.answers(), "stored ", "for any session");
    desk.settings.nodes[0].weight = 7;
    desk.reload();
    tap::is(desk.set("k", "3"), SubmitResult::later, "nor does another weight, but");
    tap::is(desk.nodes->all()[0].weight, 7u, "keys");
    tap::is(desk.answers(), "stored ", "and that is answered");
    desk.stands_still = true;
    desk.set("k", "4");
    desk.links->end_tick();
    desk.settings.node_timeout_ms = 7000;
    desk.reload();
}  // with connections that leave

// A node hangs up while its key changes; the other one has the change meanwhile.
void a_node_is_fenced() {
    Desk desk;
    desk.settings.failover = true;
    desk.settings.failover_ttl_s = 60;
    desk.settings.nodes.push_back(Desk::spec_of("b", desk.other));
    desk.reload();
    const auto is_up = [&](size_t i) { return desk.nodes->all()[i].state == daemon::NodeState::up; };
    tap::ok(desk.until([&] { return is_up(0) && is_up(1); }), "two nodes are up");
    std::string key = "k";
    while (desk.links->peers().choose(key)->node().name != "a") key += "k";
    desk.set(key, "1");
    tap::is(desk.answers(), "stored ", "one has a key");
    desk.stands_still = true;
    desk.server.hang_up();
    const auto fence = [&](size_t i) { return desk.nodes->all()[i].fence; };
    tap::ok(desk.until([&] { return fence(0).state == daemon::FenceState::out; }), "it hangs up, and is out of use");
    tap::is(desk.links->peers().choose(key)->node().name, "b", "the key goes to the other one");
    desk.set(key, "2");
    desk.set(key, "3");
    tap::is(desk.answers(), "stored stored ", "which stores it");
    tap::ok(fence(0).keys == 1 && fence(0).diverted == 2 && fence(0).capped == 2, "the change is known, and will not last");
    desk.server.node.hold = true;
    desk.stands_still = false;
    tap::ok(desk.until([&] { return desk.nodes->all()[0].state == daemon::NodeState::fenced && fence(0).keys == 0; }),
            "it is connected: its item is being deleted");
    tap::is(desk.links->peers().choose(key)->node().name, "b", "until then it is not used");
    desk.server.hang_up();
    tap::ok(desk.until([&] { return fence(0).failures == 1 && fence(0).keys == 1; }), "it hangs up again meanwhile");
    desk.server.node.hold = false;
    tap::ok(desk.until_up(), "and is back");
    tap::is(fence(0).killed, 1u, "its item was deleted");
    tap::is(desk.links->peers().choose(key)->node().name, "a", "it is used again");
    tap::ok(desk.until([&] { return fence(1).killed == 1; }), "the other's item is deleted, too");
}

// The former owner of a key has its old item. The key's present node is drained.
void a_former_owner() {
    Desk desk;
    tap::ok(desk.until_up(), "one node has all keys");
    for (int i = 0; i < 64; i++) desk.set("k" + std::to_string(i), "1");
    desk.answers();
    desk.settings.failover = true;
    desk.settings.nodes.push_back(Desk::spec_of("b", desk.other));
    desk.reload();
    const auto state = [&] { return desk.nodes->all()[1].fence.state; };
    tap::ok(desk.until([&] { return desk.nodes->all()[1].state == daemon::NodeState::up; }), "another one is added");
    std::vector<std::string> keys;
    daemon::PeerSet& peers = desk.links->peers();
    for (int i = 0; i < 64; i++)
        if (const std::string key = "k" + std::to_string(i); peers.choose(key)->node().name == "b") keys.push_back(key);
    for (const std::string& key : keys) desk.set(key, "2");
    desk.answers();
    if (keys.size() < 4) {
        tap::ok(false, "it has keys");
        return;
    }

    desk.nodes->drain("b", true);
    daemon::LinkPeer* const peer = peers.choose(keys[0]);
    tap::ok(peer != nullptr && peer->node().name == "b", "a drained node is used until all have stopped to use it");
    desk.links->end_tick();
    tap::ok(state() == daemon::FenceState::out && peers.choose(keys[0])->node().name == "a", "then the former one is");
    desk.get(keys[0]);
    tap::is(desk.answers(), "miss ", "its old item is not read");
    protocol::ArithOp add;
    add.key = {keys[0], 0};
    desk.ask(add);
    desk.get(keys[0]);
    protocol::StoreOp append;
    append.key = {keys[1], 0};
    append.mode = protocol::StoreOp::Mode::append;
    append.value = "x";
    desk.ask(append);
    append.mode = protocol::StoreOp::Mode::add;
    append.value = "3";
    desk.ask(append);
    desk.ask(add);
    desk.get(keys[1]);
    tap::is(desk.answers(), "answered miss answered stored answered 3 ", "no mutation depends on it");
    desk.set(keys[2], "4");
    desk.get(keys[2]);
    desk.get(keys[3]);
    tap::is(desk.answers(), "stored 4 miss ", "what is stored there now is read");
    desk.asking = &desk.other_queue;
    desk.get(keys[2]);
    tap::is(desk.answers(), "4 ", "by others, too");
    desk.asking = &desk.queue;
    desk.nodes->drain("b", false);
    tap::ok(desk.until([&] { return state() == daemon::FenceState::in_use; }), "the present one is used again");
    desk.get(keys[0]);
    desk.get(keys[3]);
    tap::is(desk.answers(), "miss 2 ", "with what did not change");
}

// Its keys move to the other one. It still has its connection, so it receives the delete of them.
void a_drained_node_is_told() {
    Desk desk;
    desk.settings.failover = true;
    desk.settings.distribution = farcached::Distribution::ketama_weighted;
    desk.settings.nodes.push_back(Desk::spec_of("b", desk.other));
    desk.reload();
    const auto state = [&](size_t i) { return desk.nodes->all()[i].state; };
    tap::ok(desk.until([&] { return state(0) == daemon::NodeState::up && state(1) == daemon::NodeState::up; }), "two nodes are up");
    desk.nodes->drain("a", true);
    tap::ok(desk.until([&] { return desk.nodes->all()[0].fence.state == daemon::FenceState::out; }), "one is drained");
    desk.settings.nodes[1].weight = 5;
    desk.reload();
    std::string want;
    for (int i = 0; i < 64; i++) desk.set("k" + std::to_string(i), "1"), want += "stored ";
    tap::is(desk.answers(), want, "keys that move away from it are stored at the other one");
    desk.nodes->drain("a", false);
    tap::ok(desk.until([&] { return state(0) == daemon::NodeState::up; }), "it is used again");
}

// F8
void unseen_list() {
    Desk desk;
    desk.settings.nodes.push_back(Desk::spec_of("b", desk.other));
    const auto list = [&](uint64_t epoch, uint64_t before) {
        desk.settings.list_epoch = std::make_shared<std::atomic<uint64_t>>(epoch);
        desk.settings.former_lists = std::make_shared<conf::FormerLists>(std::vector<conf::FormerList>(), before);
        desk.reload();
    };
    const auto settled = [&] {
        return desk.until([&] {
            const std::vector<daemon::NodeShown> all = desk.nodes->all();
            return std::ranges::all_of(all, [](const daemon::NodeShown& one) {
                return one.links_up == 1 && one.fence.state == daemon::FenceState::in_use;
            });
        });
    };
    list(10, 1);
    tap::ok(settled(), "two nodes of a list of etcd");
    list(11, 2);
    tap::ok(desk.set("k", "1") != daemon::SubmitResult::crowded, "the next list divides the keys as before: a change goes on");
    tap::is(desk.answers(), "stored ", "and is stored");
    tap::ok(settled(), "both nodes have the list");
    list(13, 4);
    tap::ok(desk.get("k") != daemon::SubmitResult::crowded, "there may have been a list in between: a get goes on");
    tap::is(desk.set("k", "2"), daemon::SubmitResult::crowded, "a change waits");
    tap::ok(settled(), "until both nodes have the list");
    tap::is(desk.set("k", "3"), daemon::SubmitResult::later, "then changes go on");
}

}  // namespace

int main() {
    a_drained_node_is_told();
    a_former_owner();
    a_node_is_fenced();
    no_memory_to_send();
    no_memory_to_wait();
    no_memory_to_go_on();
    lookups();
    sessions();
    a_node_leaves();
    a_node_passes_by();
    the_last_copies();
    a_silent_node_leaves();
    connections_change();
    lookups_without_memory();
    lookups_together();
    node_moves();
    unseen_list();
    return tap::done();
}
