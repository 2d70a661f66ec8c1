// SPDX-License-Identifier: BSD-3-Clause
// The list of the cluster: its text, when its version rises, and how the options become members.
#include "daemon/remote/cluster_view.h"

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "conf/addresses.h"
#include "t/lib/tap.h"

using namespace farcached;
using daemon::ClusterView;
using Members = std::vector<ClusterView::Member>;

namespace {

std::string text_of(const ClusterView& view) {
    const auto list = view.list();
    return list == nullptr ? "(none)" : list->text;
}

void test_versions() {
    const Members one = {{"a", "10.0.0.1", 11211}}, two = {{"a", "10.0.0.1", 11211}, {"b", "2001:db8::1", 5}};
    ClusterView view;
    tap::is(text_of(view), "(none)", "there is no list at first");
    view.set({}, 100);
    tap::is(text_of(view), "(none)", "nor for no members");
    view.set(one, 100);
    tap::is(text_of(view), "100\na|10.0.0.1|11211\n", "the first list has the version that is asked for");
    const auto first = view.list();
    view.set(one, 200);
    tap::is(text_of(view), "100\na|10.0.0.1|11211\n", "the same members keep the version");
    view.set(two, 200);
    tap::is(text_of(view), "200\na|10.0.0.1|11211 b|2001:db8::1|5\n", "a change takes the next one that is asked for");
    tap::is(view.list()->version, 200u, "also as a number");
    tap::is(first->text, "100\na|10.0.0.1|11211\n", "who has the former list keeps it");
    view.set(one, 150);
    tap::is(text_of(view), "201\na|10.0.0.1|11211\n", "a clock that was set back does not lower it");
    view.set({}, 300);
    tap::is(text_of(view), "(none)", "without members the list is gone");
    view.set(one, 250);
    tap::is(text_of(view), "301\na|10.0.0.1|11211\n", "and later versions are above its own");
    view.set({{"c", "", 11211}}, 400);
    tap::is(text_of(view), "400\nc||11211\n", "an address that is not known is empty");
    view.set({{"c", "10.0.0.3", 11211}}, 500);
    tap::is(text_of(view), "500\nc|10.0.0.3|11211\n", "an address that is known later is a change");
}

void test_agreement() {
    const Members one = {{"a", "10.0.0.1", 1}}, two = {{"a", "10.0.0.1", 1}, {"b", "10.0.0.2", 1}};
    ClusterView view;
    view.agree(one, 100);
    view.agree(one, 100);
    tap::is(text_of(view), "100\na|10.0.0.1|1\n", "a version that all agree on");
    view.agree(one, 105);
    tap::is(text_of(view), "105\na|10.0.0.1|1\n", "a higher one is taken for the same members, too");
    view.agree(one, 3);
    tap::is(text_of(view), "105\na|10.0.0.1|1\n", "a lower one is not");
    view.agree(two, 3);
    tap::is(text_of(view), "106\na|10.0.0.1|1 b|10.0.0.2|1\n", "other members under a lower one raise the last version");
    view.agree({{"a", "", 1}, {"b", "", 1}}, 200);
    tap::is(text_of(view), "200\na|10.0.0.1|1 b|10.0.0.2|1\n", "a failed look-up keeps addresses");
}

void test_lost_addresses() {
    ClusterView view;
    view.set({{"a", "10.0.0.1", 1}, {"b", "10.0.0.2", 1}, {"c", "", 1}}, 100);
    view.set({{"a", "", 1}, {"b", "", 1}, {"c", "", 1}}, 200);
    tap::is(text_of(view), "100\na|10.0.0.1|1 b|10.0.0.2|1 c||1\n", "a failed look-up keeps addresses and version");
    view.set({{"b", "", 7}, {"d", "", 1}, {"a", "10.0.0.9", 1}}, 300);
    tap::is(text_of(view), "300\nb|10.0.0.2|7 d||1 a|10.0.0.9|1\n", "at another place and port too, but not over a new address");
    view.set({{"d", "", 1}}, 400);
    view.set({{"a", "", 1}}, 500);
    tap::is(text_of(view), "500\na||1\n", "the address of a host that left is forgotten");
}

void test_readers() {
    ClusterView view;
    std::thread setter([&view] {
        for (uint64_t i = 1; i <= 2000; i++) view.set({{"a", "", uint16_t(i)}}, i);
    });
    uint64_t last = 0, wrong = 0;
    while (last != 2000) {
        const auto list = view.list();
        if (list == nullptr) continue;
        const std::string version = std::to_string(list->version);
        if (list->version < last || list->text != version + "\na||" + version + "\n") wrong++;
        last = list->version;
    }
    setter.join();
    tap::is(wrong, 0u, "each list is whole, and versions only rise");
}

// "known" is a host with two addresses; literals are themselves.
daemon::HostAddresses::Found look_up(const std::string& host, uint16_t port) {
    if (host == "known") return std::vector{*fabric::numeric_address("10.0.0.7", port), *fabric::numeric_address("::1", port)};
    if (const auto literal = fabric::numeric_address(host, port)) return std::vector{*literal};
    return std::string("Name or service not known");
}

std::string members_text(const conf::ClusterSettings& settings, std::vector<std::string>& unknown) {
    ClusterView view;
    view.set(daemon::members_of(settings, 777, unknown, look_up), 1);
    return text_of(view);
}

void test_members() {
    std::vector<std::string> unknown;
    tap::is(members_text({}, unknown), "(none)", "without options there is no list");
    tap::is(members_text({"known", ""}, unknown), "1\nknown|10.0.0.7|777\n", "this process alone, at its own port");
    tap::is(members_text({"[::1]:5", ""}, unknown), "1\n::1|::1|5\n", "or at the port that is given");
    tap::is(members_text({"x:1", "known:1,127.0.0.1:2,[fe80::1]:3"}, unknown),
            "1\nknown|10.0.0.7|1 127.0.0.1|127.0.0.1|2 fe80::1|fe80::1|3\n", "a list of members is the whole list, in its order");
    tap::is(unknown.size(), 0u, "all are known");
    tap::is(members_text({"", "gone:1,known:2"}, unknown), "1\ngone||1 known|10.0.0.7|2\n", "an unknown host has no address");
    tap::is(unknown.size() == 1 ? unknown[0] : "",
            "the list of the cluster: the host gone is not known (Name or service not known); clients get its last known "
            "address or none; use a known name or an address", "and is told");
}

void test_words() {
    for (const char* bad : {"", "a", "a:0", "a:65536", "a:b", "a:1,", ",a:1", "a:1,,b:2", "a:1,a:1", "a|b:1", "a b:1", "::1:5",
                            "[::1]", "a:1 b:2", "[x]:1", "a:1\n"})
        tap::ok(!conf::is_cluster_list(bad), std::string("no list: '") + bad + "'");
    for (const char* good : {"a:1", "a:1,a:2", "[::1]:5,10.0.0.1:65535"})
        tap::ok(conf::is_cluster_list(good), std::string("a list: ") + good);
    for (const char* bad : {"", ":1", "a:", "a:0", "a|b", "::1", "[::1", "a,b", "a b"})
        tap::ok(!conf::is_advertised(bad), std::string("nothing to advertise: '") + bad + "'");
    for (const char* good : {"a", "a.example:1", "[::1]", "[::1]:1", "10.0.0.1"})
        tap::ok(conf::is_advertised(good), std::string("to advertise: ") + good);
}

}  // namespace

int main() {
    test_versions();
    test_agreement();
    test_lost_addresses();
    test_readers();
    test_members();
    test_words();
    return tap::done();
}
