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
    tap::is(places.shown().fence.state == daemon::FenceState::joining, true, "requests wait");
    tap::is(places.desk.get("k"), daemon::SubmitResult::crowded, "as this one");
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

struct NoEvents final : fabric::ChannelEvents {
    void connected() override {}
    size_t received(std::string_view) override { return 0; }
    void read_done(uint64_t, fabric::ReadStatus) override {}
    void ended(fabric::ChannelEnd, const std::string&) override {}
};

// Two workers' attempts at different addresses are under way when both succeed.
void two_farnodes() {
    const Server first;
    conf::ProxySettings settings;
    settings.nodes = {Desk::spec_of("a", first)};
    settings.nodes[0].addresses = {here, there};
    auto made = daemon::Nodes::make(settings, {});
    daemon::Nodes& nodes = *std::get<std::unique_ptr<daemon::Nodes>>(made);
    const std::shared_ptr<daemon::OneNode> one = nodes.set()->members[0].one;
    NoEvents events;
    const auto attempt = nodes.maker(one, {}, {}, nullptr, 0), other = nodes.maker(one, {}, {}, nullptr, 1);
    const auto at_first = attempt(events), other_at_first = other(events), other_at_second = other(events);
    protocol::Welcome welcome;
    welcome.version = protocol::protocol_version;
    welcome.incarnation = 7;
    tap::ok(nodes.came_up(*one, welcome, 0), "a worker is connected");
    tap::is(nodes.all()[0].fence.state == daemon::FenceState::in_use, true, "to a node in use");
    welcome.incarnation = 8;
    tap::ok(!nodes.came_up(*one, welcome, 1), "another worker is connected to another process at the next address");
    tap::is(nodes.all()[0].fence.state == daemon::FenceState::joining, true, "the node is not used");
}

}  // namespace

int main() {
    address_stays();
    address_goes();
    tries_the_next_address();
    two_farnodes();
    return tap::done();
}
