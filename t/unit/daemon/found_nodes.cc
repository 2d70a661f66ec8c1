// SPDX-License-Identifier: BSD-3-Clause
// A worker's links to a node whose addresses DNS finds, while they change: which connections stay, and whose items are used.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "t/lib/tap.h"
#include "t/unit/daemon/links_fixture.h"

namespace {

using namespace links_test;

constexpr const char* here = "127.0.0.1";
constexpr const char* there = "127.0.0.2";
constexpr const char* nowhere = "127.0.0.3";

// Two servers at one port of different addresses.
struct Places {
    Desk desk;
    Server second{there, desk.server.port()};

    Places() {
        desk.server.node.incarnation = 7;
        second.node.incarnation = 8;
    }
    void at(const std::vector<std::string>& addresses) {
        desk.settings.nodes = {Desk::spec_of("a", desk.server)};
        desk.settings.nodes[0].addresses = addresses;
        desk.reload();
    }
    daemon::NodeShown shown() const { return desk.nodes->all()[0]; }
    template <class Is>
    bool until(Is is) {
        return desk.until([&] {
            second.serve();
            return is();
        });
    }
    bool until_used() {
        return until([&] { return shown().links_up == 1 && shown().fence.state == daemon::FenceState::in_use; });
    }
    bool until_down() {
        return until([&] { return shown().links_up == 0; });
    }
    std::string get(std::string_view key) {
        desk.get(key);
        return answer();
    }
    std::string set(std::string_view key, std::string_view value) {
        desk.set(key, value);
        return answer();
    }
    // Of the latest request.
    std::string answer() {
        until([&] { return desk.pool.anything_ready(); });
        return desk.answers();
    }
};

const daemon::OneNode* identity(const Places& places) { return places.desk.nodes->set()->members[0].one.get(); }

void address_stays() {
    Places places;
    places.at({here});
    tap::ok(places.until_used(), "a node that DNS finds is up");
    tap::is(places.set("k", "v"), "stored ", "it stores");
    const daemon::OneNode* const node = identity(places);
    const auto* const link = places.desk.links->peers().choose("k");
    for (const std::vector<std::string>& addresses :
         {std::vector<std::string>{here, there}, {nowhere, here}, {there, here}, {here}}) {
        places.at(addresses);
        tap::ok(identity(places) == node && places.desk.links->peers().choose("k") == link && places.shown().links_up == 1 &&
                    places.shown().fence.state == daemon::FenceState::in_use,
                "other addresses beside the one in use: the connection stays");
        tap::is(places.get("k"), "v ", "and the item");
    }
    tap::is(places.shown().address, "tcp:127.0.0.1:" + std::to_string(places.desk.server.port()), "the addresses are shown");
}

void address_goes() {
    Places places;
    places.at({here});
    places.until_used();
    places.set("k", "v");
    const daemon::OneNode* const node = identity(places);
    const auto* const link = places.desk.links->peers().choose("k");
    places.at({there});
    tap::ok(identity(places) == node && places.desk.links->peers().choose("k") != link,
            "its address has gone: the node is the same, its connection is renewed");
    tap::is(places.desk.get("k"), daemon::SubmitResult::crowded, "requests wait");
    tap::is(places.answer(), "miss ", "another process deletes its items first");
    tap::ok(places.until_used() && places.shown().incarnation == 8, "and is used then");
    places.set("k", "w");
    places.at({here});
    tap::is(places.get("k"), "miss ", "and back: the item of before is deleted");
    places.set("k", "x");
    places.second.node.incarnation = 7;
    places.at({there});
    tap::is(places.get("k"), "w ", "the same incarnation elsewhere is the same process: its items are used");
    tap::ok(places.until_used(), "at once");
}

void tries_the_next_address() {
    Places places;
    places.at({here, there});
    places.until_used();
    places.set("k", "v");
    places.desk.server.hang_up();
    tap::ok(places.until_down() && places.until_used() && places.shown().incarnation == 7 && places.get("k") == "v ",
            "a connection ends, and another one leads to the same process");
    places.desk.server.move();
    tap::ok(places.until_down() && places.until([&] { return places.shown().incarnation == 8; }),
            "the process ends, and the next address leads to another one");
    tap::is(places.get("k"), "miss ", "which has deleted its items");
    tap::ok(places.until_used() && places.set("k", "w") == "stored ", "and is used");
}

// A connection comes up within a tick; the worker attends at its end.
void waits_for_the_worker() {
    Places places;
    places.at({here});
    const auto comes_up = [&] {
        for (int i = 0; i < 5000; i++) {
            places.desk.begin_tick();
            if (places.shown().links_up == 1) return true;
            places.desk.links->end_tick();
        }
        return false;
    };
    tap::ok(comes_up(), "a connection comes up");
    tap::is(places.desk.get("k"), daemon::SubmitResult::crowded, "a get waits until the worker attends");
    tap::is(places.desk.ask(protocol::FlushOp()), daemon::SubmitResult::crowded, "so does a flush");
    tap::is(places.desk.answers(), "miss answered ", "then they are answered");
    tap::is(places.set("k", "v"), "stored ", "later ones go at once");
}

struct NoEvents final : fabric::ChannelEvents {
    void connected() override {}
    size_t received(std::string_view) override { return 0; }
    void read_done(uint64_t, fabric::ReadStatus) override {}
    void ended(fabric::ChannelEnd, const std::string&) override {}
};

// A node without links; a test is its workers.
struct Found {
    conf::ProxySettings settings;
    std::unique_ptr<daemon::Nodes> nodes;
    std::shared_ptr<daemon::OneNode> one;

    explicit Found(const std::vector<std::string>& addresses) {
        conf::NodeSpec spec;
        spec.name = "a";
        spec.channel = conf::NodeChannel::tcp;
        spec.host = "node.test";
        spec.port = 1;
        spec.addresses = addresses;
        settings.nodes = {spec};
        auto made = daemon::Nodes::make(settings, {});
        nodes = std::get<std::unique_ptr<daemon::Nodes>>(std::move(made));
        one = nodes->set()->members[0].one;
    }
    void at(const std::vector<std::string>& addresses) {
        settings.nodes[0].addresses = addresses;
        auto prepared = nodes->prepare(settings);
        nodes->use(std::get<std::shared_ptr<const daemon::NodeSet>>(std::move(prepared)));
    }
    uint64_t renewal() const { return nodes->set()->members[0].renewal; }
    daemon::FenceState state() const { return nodes->all()[0].fence.state; }
};

struct Party {
    Found& found;
    uint32_t number;
    NoEvents events = {};
    proxy::NodeLink::MakeChannel make = found.nodes->channels().maker(found.one, {}, {}, nullptr, number);
    std::unique_ptr<fabric::Channel> channel = nullptr;
    bool up = false;
    uint64_t incarnation = 0, renewal = found.renewal();

    // Where it leads.
    std::string attempt() {
        channel = std::get<std::unique_ptr<fabric::Channel>>(make(events));
        const std::string name = channel->describe();  // ends with the host and the port
        const size_t end = name.rfind(':'), before = name.rfind(':', end - 1);
        return name.substr(before + 1, end - before - 1);
    }
    void come_up(uint64_t process) {
        protocol::Welcome welcome;
        welcome.version = protocol::protocol_version;
        welcome.incarnation = incarnation = process;
        found.nodes->came_up(*found.one, welcome, number);
        up = true;
    }
    void end() {
        channel = nullptr;
        found.one->addresses.ended(number, farcached::boottime_ns());
        if (std::exchange(up, false)) found.nodes->went_down(*found.one, {.was_up = true, .reason = "the test ends it"});
    }
    void take() {
        end();
        renewal = found.renewal();
        make = found.nodes->channels().maker(found.one, {}, {}, nullptr, number);
    }
    // True: it is another process than home.
    bool attend() {
        daemon::Fences::Seen seen[] = {
            {.fence = &found.one->fence, .owns_link = true, .up = up, .incarnation = incarnation, .renewal = renewal}};
        found.nodes->fences().attend(number, seen, /* failover= */ false, /* now_ns= */ 1);
        return seen[0].elsewhere;
    }
};

// Two workers' attempts at different addresses are under way when both succeed.
void two_farnodes() {
    Found found({here, there});
    Party one{found, 0}, two{found, 1};
    one.attend();
    two.attend();
    tap::ok(one.attempt() == here && two.attempt() == here && two.attempt() == there, "attempts rotate while none is up");
    one.come_up(7);
    one.attend();
    two.come_up(8);
    tap::ok(two.attend() && !one.attend(), "another worker is connected to another process at the next address");
    tap::is(found.state() == daemon::FenceState::joining, true, "the node is not used");
    two.end();
    two.attend();
    one.attend();
    tap::is(found.state() == daemon::FenceState::in_use, true, "the other connection ends: the node is used");
    tap::ok(two.attempt() == here && two.attempt() == here, "the next attempts lead to the process in use");
    two.come_up(7);
    tap::ok(!two.attend(), "which answers");
}

// One has a connection to process 7 at the first address. The other one's attempt leads to the second.
void tries_the_second(Party& one, Party& two) {
    one.attempt();
    two.attempt();
    two.attempt();
    one.come_up(7);
    one.attend();
}

void prefers_the_address_in_use() {
    Found found({here, nowhere});
    Party one{found, 0}, two{found, 1};
    tries_the_second(one, two);
    two.come_up(7);
    tap::ok(!two.attend() && !one.attend(), "one process at two addresses");
    const uint64_t renewal = found.renewal();
    found.at({there, here});
    tap::ok(found.renewal() != renewal, "one of the two goes: all connections are renewed");
    for (Party* party : {&one, &two}) {
        party->take();
        party->attend();
    }
    tap::is(one.attempt(), here, "the next one leads to the address that stays");
    tap::is(found.one->address, "", "addresses that DNS finds are no part of the node");
}

// A process that restarts is not there at first: the next address may lead to another one.
void tries_home_first() {
    constexpr uint64_t start_ns = 1'000'000'000, later_ns = start_ns + daemon::NodeAddresses::at_home_ns;
    Found found({here, there});
    daemon::NodeAddresses& addresses = found.one->addresses;
    daemon::Fences& fences = found.nodes->fences();
    Party one{found, 0}, two{found, 1};
    size_t turns[2] = {};
    const auto attempt = [&](const Party& party, uint64_t now_ns) {
        const uint32_t worker = party.number;
        const auto to = addresses.next(fences, found.one->fence, worker, turns[worker], now_ns);
        return fabric::to_string(std::get<fabric::SocketAddress>(to));
    };
    const std::string home = attempt(one, start_ns);
    one.come_up(7);
    one.attend();
    two.attend();
    addresses.ended(one.number, start_ns);
    one.end();
    one.attend();
    bool stays = true;
    for (int i = 0; i < 4; i++) stays = stays && attempt(one, later_ns - 1) == home;
    tap::ok(stays, "the process has ended: attempts are at its address for some time");
    tap::ok(attempt(one, later_ns) != attempt(one, later_ns), "then they rotate");
    while (attempt(one, later_ns) != home) continue;
    one.come_up(7);
    one.attend();
    int at_home = 0;
    for (int i = 0; i < 6; i++) at_home += attempt(two, later_ns) == home;
    tap::ok(at_home >= 3 && at_home < 6, "another worker has a connection: not each attempt is at its address");
}

void attempts_at_an_address_that_has_gone() {
    Found found({here, there});
    Party one{found, 0}, two{found, 1};
    tries_the_second(one, two);
    two.end();
    two.attend();
    const uint64_t renewal = found.renewal();
    found.at({here});
    tap::is(found.renewal(), renewal, "an attempt at an address has failed: when that goes the connections stay");
    found.at({here, there});
    Party three{found, 2};
    one.end();
    one.attend();
    tap::ok(one.attempt() == here && three.attempt() == here && three.attempt() == there, "an attempt is under way there");
    one.come_up(7);
    one.attend();
    found.at({here});
    tap::ok(found.renewal() != renewal, "when the address goes all connections are renewed");
    three.come_up(8);
    tap::ok(!three.attend() && found.nodes->fences().home_address(found.one->fence).is_up,
            "the attempt succeeds: the process there does not count");
}

}  // namespace

int main() {
    address_stays();
    address_goes();
    tries_the_next_address();
    waits_for_the_worker();
    two_farnodes();
    prefers_the_address_in_use();
    tries_home_first();
    attempts_at_an_address_that_has_gone();
    return tap::done();
}
