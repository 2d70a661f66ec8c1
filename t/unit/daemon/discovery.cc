// SPDX-License-Identifier: BSD-3-Clause
// Sources of the list of nodes: how --discover is parsed, how answers of DNS make lists, the time of the next look-up, and the
// state that is shown.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "conf/addresses.h"
#include "conf/discover.h"
#include "daemon/discovery/answers.h"
#include "daemon/discovery/board.h"
#include "daemon/discovery/shown.h"
#include "daemon/discovery/source.h"
#include "t/lib/tap.h"

using namespace farcached;
using namespace farcached::daemon;

namespace {

std::string parsed(const std::string& text) {
    const auto found = conf::parse_discover(text);
    if (const auto* why = std::get_if<std::string>(&found)) return *why;
    const auto& place = std::get<conf::DiscoverPlace>(found);
    return (place.kind == conf::DiscoverKind::dns ? "dns " : "srv ") + place.name + " " + std::to_string(place.port);
}

void test_parse() {
    tap::is(parsed("dns+nodes.example.org:11300"), "dns nodes.example.org 11300", "a name and a port");
    tap::is(parsed("dns+Nodes.Example.ORG.:1"), "dns nodes.example.org 1", "in lower case, without the final dot");
    tap::is(parsed("dnssrv+_farnode._tcp.nodes.example.org"), "srv _farnode._tcp.nodes.example.org 0", "a service");
    tap::is(parsed("dns+nodes"), "dns+ needs a host and a port, as in dns+10.0.0.1:11300; found 'nodes'", "no port");
    tap::is(parsed("dns+nodes:0"), "'0' is not a port; allowed: 1 to 65535", "port 0");
    const std::string long_label(64, 'a');
    for (const std::string& bad : {std::string("a..b"), long_label + ".b", std::string("a b"), std::string("a/b")})
        tap::ok(std::holds_alternative<std::string>(conf::parse_discover("dns+" + bad + ":1")), "no name: " + bad);
    for (const char* bad : {"", "nodes.test", "_a.test", "_a._tcp", "_a._tcp.", "_a._tcp..x", "_a._tcp.x:1", "a._tcp.x"})
        tap::ok(parsed(std::string("dnssrv+") + bad).find("is not a service") != std::string::npos,
                std::string("no service: ") + bad);
    tap::ok(parsed("consul://x").find("is not a source of nodes") != std::string::npos, "another source");
    tap::ok(conf::is_dns_server("10.0.0.1:53") && conf::is_dns_server("[::1]:5353"), "addresses of a server");
    for (const char* bad : {"", "10.0.0.1", "::1:53", "dns.test:53", "10.0.0.1:0", "10.0.0.1:53,10.0.0.2:53"})
        tap::ok(!conf::is_dns_server(bad), std::string("no address of a server: ") + bad);
}

std::string text_of(const std::vector<FoundNode>& nodes) {
    std::string text;
    for (const FoundNode& one : nodes)
        text += (text.empty() ? "" : ", ") + one.node.name + " " + conf::address_of(one.node) + " " +
                std::to_string(one.node.weight);
    return text;
}

void test_addresses() {
    const NodeTraits traits{conf::NodeChannel::tcp, "--discover dns+n:7"};
    const auto nodes = nodes_of_addresses({"10.0.0.2", "fd00::1", "10.0.0.1", "10.0.0.2"}, 7, traits);
    tap::is(text_of(nodes), "10.0.0.1:7 tcp:10.0.0.1:7 1, 10.0.0.2:7 tcp:10.0.0.2:7 1, [fd00::1]:7 tcp:[fd00::1]:7 1",
            "both families, sorted, each once");
    tap::is(nodes.at(0).node.origin, "--discover dns+n:7", "their origin");
    tap::ok(same_nodes(nodes, nodes_of_addresses({"fd00::1", "10.0.0.1", "10.0.0.2"}, 7, traits)), "the order does not count");
    tap::ok(!same_nodes(nodes, nodes_of_addresses({"fd00::1", "10.0.0.1"}, 7, traits)), "another list");
    tap::ok(!same_nodes(nodes, nodes_of_addresses({"fd00::1", "10.0.0.1", "10.0.0.2"}, 7, {conf::NodeChannel::verbs, ""})),
            "another channel");
    tap::is(text_of(nodes_of_addresses({}, 7, traits)), "", "no address");
}

void test_services() {
    const NodeTraits traits;
    const auto of = [&](std::vector<ServiceRecord> records) { return text_of(nodes_of_services(std::move(records), traits)); };
    tap::is(of({{"b.test", 0, 20, 7}, {"a.test", 0, 60, 8}}), "a.test:8 tcp:a.test:8 3, b.test:7 tcp:b.test:7 1",
            "weights by their greatest common divisor");
    tap::is(of({{"a", 0, 33, 7}, {"b", 0, 33, 7}, {"c", 0, 33, 7}}), "a:7 tcp:a:7 1, b:7 tcp:b:7 1, c:7 tcp:c:7 1",
            "equal ones are 1");
    tap::is(of({{"a", 0, 0, 7}, {"b", 0, 2, 7}}), "a:7 tcp:a:7 1, b:7 tcp:b:7 2", "0 counts as 1");
    tap::is(of({{"a", 0, 65535, 7}, {"b", 0, 1, 7}}), "a:7 tcp:a:7 65535, b:7 tcp:b:7 1", "the greatest one");
    tap::is(of({{"a", 5, 1, 7}, {"b", 4, 1, 7}}), "b:7 tcp:b:7 1", "the lowest priority alone");
    tap::is(of({{"a", 0, 1, 7}, {"a", 0, 3, 7}, {"a", 0, 1, 8}}), "a:7 tcp:a:7 3, a:8 tcp:a:8 1",
            "a target once, with its greater weight");
    tap::is(of({{"", 0, 1, 7}, {"a", 0, 1, 0}}), "", "no target, no port");
    tap::is(of({}), "", "no record");
}

void test_hosts() {
    const NodeTraits traits{conf::NodeChannel::verbs, "--discover dnssrv+s"};
    const auto listed =
        nodes_of_services({{"b.test", 0, 1, 7}, {"a.test", 0, 1, 8}, {"a.test", 0, 1, 7}, {"10.0.0.9", 0, 1, 7}}, traits);
    const std::vector<std::string> hosts = hosts_of(listed);
    tap::ok(hosts == std::vector<std::string>{"a.test", "b.test"}, "each host is looked up once, and no address");
    const auto with = [&](std::vector<std::vector<std::string>> addresses, std::string* without = nullptr) {
        std::vector<FoundNode> nodes = listed;
        const std::string first = set_addresses(nodes, hosts, std::move(addresses));
        if (without != nullptr) *without = first;
        return nodes;
    };
    const auto nodes = with({{"fd00::1", "10.0.0.2", "9.0.0.1", "10.0.0.2"}, {"fd00::2"}});
    tap::is(text_of(nodes),
            "10.0.0.9:7 verbs:10.0.0.9:7 1, a.test:7 verbs:10.0.0.2:7,verbs:9.0.0.1:7,verbs:[fd00::1]:7 1, "
            "a.test:8 verbs:10.0.0.2:8,verbs:9.0.0.1:8,verbs:[fd00::1]:8 1, b.test:7 verbs:[fd00::2]:7 1",
            "the names stay, and the addresses are those of the hosts: IPv4 first, each once");
    tap::is(nodes.at(1).node.host, "a.test", "which certificates name");
    tap::is(nodes.at(1).node.origin, "--discover dnssrv+s, node a.test:7", "the origin names the node");
    tap::ok(same_nodes(nodes, with({{"9.0.0.1", "fd00::1", "10.0.0.2"}, {"fd00::2"}})), "the order of addresses does not count");
    tap::ok(!same_nodes(nodes, with({{"9.0.0.1", "fd00::1", "10.0.0.2"}, {"fd00::3"}})), "another address is another list");
    std::string without;
    with({{"9.0.0.1"}, {}}, &without);
    tap::is(without, "b.test", "a host without an address");
    conf::ProxySettings settings;
    for (const FoundNode& one : with({{"9.0.0.1", "fd00::1"}, {"fd00::1"}})) settings.nodes.push_back(one.node);
    const conf::Complaints complaints = conf::check_nodes(settings);
    tap::is(complaints.empty() ? "" : complaints.front(),
            "--discover dnssrv+s, node b.test:7: the address verbs:[fd00::1]:7 is that of "
            "--discover dnssrv+s, node a.test:7 already",
            "two nodes with one address are refused");
}

void test_pauses() {
    tap::is(pause_after_answer(std::nullopt), 1u, "without a TTL");
    for (const auto& [ttl_s, pause_s] : {std::pair(0u, 1u), {1u, 1u}, {2u, 2u}, {60u, 60u}, {61u, 60u}, {2147483647u, 60u},
                                         {2147483648u, 1u}, {4294967295u, 1u}})
        tap::is(pause_after_answer(ttl_s), pause_s, "TTL " + std::to_string(ttl_s));
    std::string pauses;
    for (uint32_t failures = 1; failures <= 6; failures++) pauses += std::to_string(pause_after_failures(failures)) + " ";
    tap::is(pauses, "1 2 4 8 16 16 ", "after failures");
    tap::ok(smaller_ttl(3, 2) == 2u && smaller_ttl(3, std::nullopt) == 3u && smaller_ttl(std::nullopt, 3) == 3u &&
                !smaller_ttl(std::nullopt, std::nullopt).has_value(),
            "of two answers the smaller TTL");
    tap::is(pause_after_failures(UINT32_MAX), 16u, "after many");
}

void test_board() {
    int told = 0;
    SourceBoard board("dns+n:7", [&] { told++; });
    tap::ok(board.latest() == nullptr && !board.state().up && !board.state().answer_age_s.has_value(), "no list yet");
    board.failed("why");
    const auto list = [](std::vector<std::string> addresses) { return nodes_of_addresses(addresses, 7, {}); };
    board.answered(list({"10.0.0.1"}));
    const auto first = board.latest();
    tap::is(first->revision, 1u, "the first revision");
    board.answered(list({"10.0.0.1"}));
    tap::ok(board.latest() == first && told == 1, "the same list is no change");
    board.answered(list({"10.0.0.1", "10.0.0.2"}));
    tap::is(board.latest()->revision, 2u, "another list has the next revision");
    tap::is(told, 2, "and is told");
    board.failed("no answer");
    const SourceState state = board.state();
    tap::ok(!state.up && state.last_error == "no answer" && state.changes == 1 && state.answers == 3 && state.failures == 2,
            "the state counts answers and failures");
    tap::ok(board.latest()->nodes.size() == 2 && first->nodes.size() == 1, "a failure keeps the list, and a list does not change");
    const DiscoveryShown shown = shown_of(state, {.revision = 1, .nodes = 1, .refused = 4, .refusal = "unknown host"});
    tap::is(shown.state + " " + shown.nodes + " " + shown.revision + " " + shown.nodes_in_use + " " + shown.revision_in_use + " " +
                shown.refused + " " + shown.refusal,
            "down 2 2 1 1 4 unknown host", "the texts of stats discovery");
    board.answered(list({"10.0.0.1", "10.0.0.2"}), 77);
    tap::is(board.latest()->revision, 2u, "an equal list keeps its revision");
    board.answered(list({"10.0.0.2"}), 78);
    tap::is(board.latest()->revision, 78u, "a source's own revision");
    tap::ok(board.latest()->epoch == nullptr, "but it has no epoch");
    board.answered(list({"10.0.0.3"}), 79, 5);
    const auto third = board.latest();
    board.answered(list({"10.0.0.3"}), 80, 7);
    tap::is(third->epoch->load(), 7u, "a list's epoch rises without another list");
    board.set_epoch(8);
    board.answered(list({"10.0.0.4"}), 81, 9);
    tap::ok(third->epoch->load() == 8 && board.latest()->epoch->load() == 9, "until there is a newer list");
}

// The source ends while its look-up waits for a server that is silent.
void test_end_of_a_look_up() {
#ifdef FARCACHED_CARES
    const int server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    tap::ok(bind(server, reinterpret_cast<sockaddr*>(&at), size) == 0 &&
                getsockname(server, reinterpret_cast<sockaddr*>(&at), &size) == 0,
            "a server");
    conf::ProxySettings settings;
    settings.discovery.source = "dns+n.test:7";
    settings.discovery.dns_server = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    bool told = false;
    auto made = make_source(settings, [&] { told = true; });
    auto& source = std::get<std::unique_ptr<Source>>(made);
    std::array<char, 512> query{};
    tap::ok(recv(server, query.data(), query.size(), 0) > 12, "the look-up has begun");
    tap::ok(source->latest() == nullptr && source->state().answers == 0, "and has no result");
    source.reset();
    tap::ok(!told, "the source ends at once");
    close(server);
#else
    auto made = make_source({}, [] {});
    tap::ok(std::holds_alternative<Problem>(made), "without c-ares there is no source");
#endif
}

}  // namespace

int main() {
    test_end_of_a_look_up();
    test_parse();
    test_addresses();
    test_services();
    test_hosts();
    test_pauses();
    test_board();
    return tap::done();
}
