// SPDX-License-Identifier: BSD-3-Clause
// The pure parts of --discover etcd://: its URL, etcd's messages, members' records, and the lists made of them.
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/limits.h"
#include "conf/addresses.h"
#include "conf/advertise.h"
#include "conf/etcd_url.h"
#include "daemon/discovery/etcd_messages.h"
#include "daemon/discovery/json_fields.h"
#include "daemon/discovery/member.h"
#include "daemon/discovery/member_book.h"
#include "t/lib/tap.h"

using namespace farcached;
using namespace farcached::daemon;

namespace {

constexpr uint64_t second_ns = 1'000'000'000;

bool is_refused(std::string_view url) { return std::holds_alternative<Problem>(conf::parse_etcd_url(url)); }

void check_urls() {
    const auto parsed = conf::parse_etcd_url("etcds://a.example:2379,[::1]:2380/far/one/");
    const auto* const url = std::get_if<conf::EtcdUrl>(&parsed);
    const std::vector<std::string> endpoints{"https://a.example:2379", "https://[::1]:2380"};
    tap::ok(url != nullptr && url->tls && url->endpoints == endpoints &&
                url->nodes() == "/far/one/nodes/",
            "a URL has endpoints, TLS and a prefix");
    int refused = 0;
    const std::string_view bad[] = {"", "etcd://", "etcd:///far", "etcd://a:1", "etcd://a:1/", "etcd://a/far", "etcd://a:0/far",
                                    "etcd://a:65536/far", "etcd://a:1,/far", "etcd://,a:1/far", "etcd://u:p@a:1/far",
                                    "etcd://a:1/fa r", "http://a:1/far", "etcd://a:1/\x01", "etcd://[::1/far"};
    for (const std::string_view one : bad) refused += is_refused(one);
    tap::is(refused, int(std::size(bad)), "malformed URLs are refused");
    std::string many = "etcd://a:1";
    for (int i = 0; i < 16; i++) many += ",a:1";
    tap::ok(is_refused(many + "/far") && is_refused("etcd://a:1/" + std::string(300, 'x')),
            "too many endpoints, and a long prefix");
}

void check_addresses() {
    const auto parsed = conf::parse_advertised("tcp:10.0.0.2:11300,verbs:[fe80::1]:11301");
    const auto* const found = std::get_if<conf::Advertised>(&parsed);
    tap::ok(found != nullptr && found->tcp == "10.0.0.2:11300" && found->verbs == "[fe80::1]:11301", "addresses to announce");
    int refused = 0;
    const std::string_view bad[] = {"", "10.0.0.2:11300", "tcp:*:1", "tcp:0.0.0.0:1", "tcp:[::]:1", "tcp:a:0", "tcp:a:1,tcp:b:1",
                                    "shm:/x", "tcp:a:1,"};
    for (const std::string_view one : bad) refused += std::holds_alternative<std::string>(conf::parse_advertised(one));
    tap::is(refused, int(std::size(bad)), "wildcards, two of a transport and others are refused");
}

// ---- JSON ---------------------------------------------------------------------------------------------

void check_fields() {
    const auto fields = JsonFields::parse(R"({"a":{"b":[{"c":"12"},{"c":-3},4.5]},"t":true,"n":null})");
    tap::ok(fields.has_value() && fields->whole("a.b.0.c") == 12 && fields->whole("a.b.1.c") == -3 && !fields->whole("a.b.2") &&
                fields->count("a.b") == 3 && fields->boolean("t") == true && fields->has("n") && !fields->has("a.b.3"),
            "values by their paths; numbers may be in quotes");
    const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
    std::string wide = "[0";
    for (size_t i = 0; i < JsonFields::values_max; i++) wide += ",0";
    const std::string long_name = "{\"" + std::string(10'000, 'x') + "\":1}";
    tap::ok(!JsonFields::parse(deep) && !JsonFields::parse(wide + "]") && !JsonFields::parse(long_name) && !JsonFields::parse("") &&
                !JsonFields::parse("{} {}") && !JsonFields::parse("{\"a\":") && !JsonFields::parse("{\"a\":1e999}"),
            "deep, wide and broken text gives nothing");
}

void check_messages() {
    const auto range = read_range(R"({"header":{"cluster_id":"13365657597529941441","revision":"9007199254740993"},)"
                                  R"("kvs":[{"key":"Zm9v","mod_revision":"3","value":"YmFy","lease":"1715768221500028167"},)"
                                  R"({"key":"Zm9vMg==","mod_revision":"4","value":"YWFhYWFhYWFhYWFhYWFhYQ=="}],"count":"2"})",
                                  8);
    tap::ok(range.has_value() && range->revision == 9007199254740993 && range->cluster == 13365657597529941441u &&
                range->keys.size() == 2 && range->keys[0].key == "foo" && range->keys[0].value == "bar" &&
                range->keys[1].too_long && range->keys[1].value.empty(),
            "a range: 64 bits in quotes, base64, and a value that is too long");
    tap::ok(!read_range(R"({"kvs":[]})", 8) && !read_range(R"({"header":{"revision":"1"},"kvs":[{"key":"*"}]})", 8) &&
                !read_range(R"({"header":{"revision":"1"},"kvs":[{}]})", 8) && !read_range("[]", 8),
            "a range of another shape is none");
    tap::ok(range->count == 2 && range->keys[0].lease == 1715768221500028167 && !range->keys[0].created, "with count and lease");
    tap::ok(!read_range(R"({"header":{"revision":"9223372036854775807"}})", 8), "a revision has a successor");
    const auto gone = read_watched(R"({"result":{"header":{"revision":"5"},"canceled":true,"compact_revision":"4"}})", 8);
    tap::ok(gone.has_value() && gone->canceled && gone->compact_revision == 4, "a watch below the compacted revision");
    const auto events = read_watched(R"({"result":{"header":{"revision":"4"},"events":[{"type":"DELETE","kv":{"key":"Zm9v",)"
                                     R"("mod_revision":"4"}},{"kv":{"key":"Zm9v","value":"YmFy","mod_revision":"5"}}]}})",
                                     8);
    tap::ok(events.has_value() && events->events.size() == 2 && events->events[0].deleted && !events->events[1].deleted &&
                events->events[1].at.value == "bar",
            "events of a watch");
    const auto dead = read_kept(R"({"result":{"header":{"revision":"1"},"ID":"99"}})");
    const auto kept = read_kept(R"({"result":{"header":{"revision":"1"},"ID":"99","TTL":"10"}})");
    tap::ok(dead && dead->ttl_s == 0 && kept && kept->ttl_s == 10 && !read_kept("{}"), "a keepalive without TTL is a dead lease");
    tap::ok(needs_token(read_error(R"({"error":"etcdserver: invalid auth token","code":16})")) &&
                !needs_token(read_error(R"({"message":"etcdserver: requested lease not found","code":5})")) &&
                read_error("Not Found").text == "Not Found",
            "errors, and which one asks for a token");
    tap::is(range_request("/f", 5, 7), R"({"key":"L2Y=","range_end":"L2c=","limit":"5","revision":"7"})", "a range at a revision");
    tap::is(range_request("/far/nodes/", 5), R"({"key":"L2Zhci9ub2Rlcy8=","range_end":"L2Zhci9ub2RlczA=","limit":"5"})",
            "a request");
    tap::ok(end_of_prefix("a\xff") == "b" && end_of_prefix("\xff") == std::string(1, '\0'), "the end of a prefix");
}

// ---- members ------------------------------------------------------------------------------------------

// Each at another address.
Member member_named(const std::string& name) {
    Member member;
    member.name = name;
    member.tcp = "10.0.0.2:" + std::to_string(11300 + (name.empty() ? 0 : name[0]));
    member.zone = "east";
    member.incarnation = UINT64_MAX;
    member.version = "1.2";
    member.weight = 7;
    member.ttl_s = 10;
    member.shm = "/run/farnode/" + name;
    member.shm_socket = "00ff:5:77";
    return member;
}

void check_members() {
    const Member member = member_named("a");
    const auto back = parse_member("a", member_text(member));
    tap::ok(std::holds_alternative<Member>(back) && std::get<Member>(back) == member, "a record reads back as it was written");
    const std::string bad[] = {
        "", "{", "[]", "null", R"({"name":"b","addresses":{"tcp":"h:1"}})", R"({"name":"a"})",
        R"({"name":7,"addresses":{"tcp":"h:1"}})",
        R"({"name":"a","addresses":{"tcp":"h"}})", R"({"name":"a","addresses":{"tcp":7}})", R"({"name":"a","addresses":"h:1"})",
        R"({"name":"a","addresses":{"tcp":"h:1"},"weight":-1})", R"({"name":"a","addresses":{"tcp":"h:1"},"weight":65536})",
        R"({"name":"a","addresses":{"tcp":"h:1"},"weight":1.5})", R"({"name":"a","addresses":{"tcp":"h:1"},"weight":1e300})",
        R"({"name":"a","addresses":{"tcp":"h:1"},"weight":[1]})", R"({"name":"a","addresses":{"tcp":"h:1"},"zone":"a b"})",
        R"({"name":"a","addresses":{"tcp":"h:1"},"incarnation":"-1"})", R"({"name":"a","addresses":{"tcp":"h:1"},"version":"\n"})",
        R"({"name":"a","addresses":{"tcp":"h:1"},"ttl":"99999999999999999999"})", "{\"name\":\"a\xff\"}", std::string(20'000, ' ')};
    int refused = 0;
    for (const std::string& text : bad) refused += std::holds_alternative<std::string>(parse_member("a", text));
    tap::is(refused, int(std::size(bad)), "records that are no members are refused");
    const std::string long_name(64, 'n');
    tap::ok(std::holds_alternative<std::string>(parse_member(long_name, member_text(member_named(long_name)))) &&
                std::holds_alternative<std::string>(parse_member("", member_text(member_named("")))),
            "so are names that no node may have");
    tap::ok(std::holds_alternative<Member>(parse_member("a", R"({"name":"a","addresses":{"tcp":"h:1"},"later":{"x":[1]}})")),
            "unknown fields are allowed");
}

// A node's socket is used on its host alone. One that cannot be a socket does not cost the member.
void check_sockets() {
    const std::string before = R"({"name":"a","addresses":{"tcp":"h:1")", after = R"("incarnation":"5"})";
    const std::string no_sockets[] = {
        before + "}," + after,
        before + R"(,"shm":"/run/a"},)" + after,
        before + R"(},"shm_socket":"00ff:5:77",)" + after,
        before + R"(,"shm":"run/a"},"shm_socket":"00ff:5:77",)" + after,
        before + R"(,"shm":""},"shm_socket":"00ff:5:77",)" + after,
        before + R"(,"shm":"/\n"},"shm_socket":"00ff:5:77",)" + after,
        before + R"(,"shm":"/)" + std::string(200, 'a') + R"("},"shm_socket":"00ff:5:77",)" + after,
        before + R"(,"shm":7},"shm_socket":"00ff:5:77",)" + after,
        before + R"(,"shm":["/run/a"]},"shm_socket":"00ff:5:77",)" + after,
        before + R"(,"shm":"/run/a"},"shm_socket":"",)" + after,
        before + R"(,"shm":"/run/a"},"shm_socket":7,)" + after,
        before + R"(,"shm":"/run/a"},"shm_socket":"00ff: 5",)" + after,
        before + R"(,"shm":"/run/a"},"shm_socket":"00ff:)" + std::string(200, '5') + R"(",)" + after,
        before + R"(,"shm":"/run/a"},"shm_socket":"00fe:5:77",)" + after,
        before + R"(,"shm":"/run/a"},"shm_socket":"00ff",)" + after,
        before + R"(,"shm":"/run/a"},"shm_socket":"00ff:5:77"})",
        before + R"(,"shm":"/run/a"},"shm_socket":"00ff:5:77","incarnation":"0"})"};
    int over_tcp = 0;
    const auto spec_at = [](const std::string& text, const MemberWays& ways) {
        const auto parsed = parse_member("a", text);
        const Member* const member = std::get_if<Member>(&parsed);
        const auto spec = member == nullptr ? Result<conf::NodeSpec, std::string>("none") : spec_of(*member, ways, "etcd");
        const auto* const one = std::get_if<conf::NodeSpec>(&spec);
        return one == nullptr ? conf::NodeSpec() : *one;
    };
    const MemberWays here{conf::NodeChannel::tcp, "00ff"};
    for (const std::string& text : no_sockets) {
        const conf::NodeSpec spec = spec_at(text, here);
        over_tcp += conf::address_of(spec) == "tcp:h:1" && spec.socket == conf::NodeSocket();
    }
    tap::is(over_tcp, int(std::size(no_sockets)), "a member without a socket that can be used is reached over tcp");
    const std::string good = before + R"(,"shm":"/run/a"},"shm_socket":"00ff:5:77",)" + after;
    const conf::NodeSpec spec = spec_at(good, here);
    tap::ok(spec.socket == conf::NodeSocket{"/run/a", "00ff:5:77", 5}, "on its host a node has a socket");
    tap::is(conf::address_of(spec), "tcp:h:1", "beside its address");
    tap::ok(spec_at(good, {conf::NodeChannel::tcp, ""}).socket.path.empty(), "without the option it has none");
    const auto alone = parse_member("a", R"({"name":"a","addresses":{"shm":"/a"},"shm_socket":"00ff:5:7"})");
    tap::ok(std::holds_alternative<std::string>(alone), "a socket alone is no address");
}

// Any bytes: neither a crash nor a member that --node would refuse.
void check_random_records() {
    std::mt19937 random(7);
    const std::string good = member_text(member_named("a"));
    int wrong = 0, members = 0;
    for (int i = 0; i < 20'000; i++) {
        std::string text = good;
        for (uint32_t changes = random() % 4; changes > 0; changes--) text[random() % text.size()] = char(random());
        if (i % 5 == 0) text.resize(random() % text.size());
        const auto parsed = parse_member("a", text);
        const Member* const member = std::get_if<Member>(&parsed);
        if (member == nullptr) continue;
        members++;
        const auto spec = spec_of(*member, MemberWays(), "");
        const auto* const one = std::get_if<conf::NodeSpec>(&spec);
        wrong += one == nullptr || !conf::is_node_name(one->name) || one->weight > limits::node_weight_max || one->port == 0;
    }
    tap::is(wrong, 0, "changed records: no member that a node could not be");
    tap::ok(members > 100, "and some are still members");
}

// ---- lists --------------------------------------------------------------------------------------------

EtcdKey key_of(const Member& member, int64_t revision) {
    return {"/far/nodes/" + member.name, member_text(member), false, revision};
}

std::string names_of(const std::shared_ptr<const Found>& list) {
    if (list == nullptr) return "none";
    std::string names = std::to_string(list->revision);
    for (const FoundNode& one : list->nodes) names += " " + one.node.name;
    return names;
}

void check_lists() {
    MemberBook book("/far/nodes/", MemberWays(), "etcd");
    tap::is(names_of(book.next_list(0)), "none", "an empty book makes no list");
    (void)book.take(EtcdRange{10, 1, {key_of(member_named("b"), 4), key_of(member_named("a"), 3)}, false}, 0);
    tap::is(names_of(book.next_list(0)), "10 a b", "a range makes a sorted list");
    tap::is(book.last_change(), 4, "the last change is of a member, not of etcd");
    tap::is(names_of(book.next_list(0)), "none", "the same once only");
    (void)book.take(EtcdWatched{11, false, false, 0, "", {{key_of(member_named("c"), 11), false}}});
    tap::is(names_of(book.next_list(0)), "11 a b c", "an event adds one");
    (void)book.take(EtcdWatched{12, false, false, 0, "", {{{"/far/nodes/a", "", false, 12}, true}}});
    tap::is(names_of(book.next_list(0)), "12 b c", "another takes one away");
    tap::is(book.last_change(), 12, "which is the last change");
    const auto complaints = book.take(EtcdWatched{13, false, false, 0, "", {{{"/far/nodes/b", "no JSON", false, 13}, false}}});
    tap::is(names_of(book.next_list(0)), "13 c", "a value that is no member takes it away, too");
    tap::ok(complaints.size() == 1 && complaints[0] == "the member at /far/nodes/b is no JSON" && book.skipped() == 1,
            "and is complained of");
    (void)book.take(EtcdWatched{14, false, false, 0, "", {{{"/far/nodes/c", "", false, 14}, true}}});
    tap::is(names_of(book.next_list(0)), "none", "the last list stays if there are no members");
}

// etcd lost its data: its revision goes back.
void check_lost_history() {
    MemberBook book("/far/nodes/", MemberWays(), "etcd");
    (void)book.take(EtcdRange{100, 1, {key_of(member_named("a"), 3), key_of(member_named("b"), 4)}, false}, 0);
    (void)book.next_list(0);
    (void)book.take(EtcdRange{1, 2, {}, false}, second_ns);
    tap::is(names_of(book.next_list(second_ns)), "none", "etcd without its data: all members stay");
    tap::ok(book.next_ns() == 13 * second_ns, "for the ttl and two seconds");
    tap::is(book.epoch(), 0u, "and the list has no epoch");
    (void)book.take(EtcdWatched{2, false, false, 0, "", {{key_of(member_named("a"), 2), false}}});
    tap::is(names_of(book.next_list(12 * second_ns)), "none", "one that registers again changes nothing");
    tap::is(names_of(book.next_list(13 * second_ns)), "101 a", "the other leaves then; the revision goes on from the last list's");
    (void)book.take(EtcdRange{5, 2, {key_of(member_named("c"), 5)}, false}, 14 * second_ns);
    tap::is(names_of(book.next_list(14 * second_ns)), "102 c", "with a history that goes on, a missing one leaves at once");
    tap::ok(book.last_change() == 5 && book.epoch() == 5, "and that is a change");
}

void check_keys() {
    MemberBook book("/far/nodes/", MemberWays(), "etcd");
    (void)book.take(EtcdRange{10, 1, {key_of(member_named("a"), 3)}, true, 5}, 0);
    tap::ok(book.keys() == 5 && book.newest() == 10, "a range tells the number of all keys; none changed after it");
    EtcdKey created = key_of(member_named("b"), 11);
    created.created = true;
    (void)book.take(EtcdWatched{12, false, false, 0, "", {{created, false}, {key_of(member_named("b"), 12), false}}});
    tap::ok(book.keys() == 6 && book.newest() == 12, "a new key counts once");
    (void)book.take(EtcdWatched{13, false, false, 0, "", {{{"/far/nodes/b", "", false, 13}, true}}});
    tap::is(book.keys(), int64_t(5), "and no longer when it is deleted");
}

// A book, and the lists that were there before its last one.
struct Former {
    MemberBook book{"/far/nodes/", MemberWays(), "etcd"};
    std::shared_ptr<const conf::FormerLists> last;

    void puts(const Member& member, int64_t revision, bool created = true) {
        EtcdKey key = key_of(member, revision);
        key.created = created;
        (void)book.take(EtcdWatched{revision, false, false, 0, "", {{key, false}}});
    }
    void joins(const std::string& name, int64_t revision) { puts(member_named(name), revision); }
    void weighs(const std::string& name, uint32_t weight, int64_t revision) {
        Member member = member_named(name);
        member.weight = weight;
        puts(member, revision, /* created= */ false);
    }
    void leaves(const std::string& name, int64_t revision) {
        (void)book.take(EtcdWatched{revision, false, false, 0, "", {{{"/far/nodes/" + name, "", false, revision}, true}}});
    }
    std::string shown(uint64_t now_ns = 0) {
        const auto list = book.next_list(now_ns);
        if (list == nullptr) return "no list";
        std::string text;
        last = list->former;
        for (const conf::FormerList& one : list->former->lists) {
            text += (text.empty() ? "" : " ") + std::to_string(one.ended) + ":";
            for (const conf::NodeSpec& node : one.nodes)
                text += node.name + (node.weight == 7 ? "" : "*" + std::to_string(node.weight));
        }
        return text;
    }
};

void check_former() {
    Former with;
    (void)with.book.take(EtcdRange{10, 1, {key_of(member_named("a"), 3)}, false}, 0);
    tap::is(with.shown(), "", "before the first range no list is known");
    with.joins("b", 12);
    tap::is(with.shown(), "12:a", "a node joins");
    with.joins("c", 15);
    tap::is(with.shown(), "15:ab 12:a", "and one more");
    with.weighs("b", 0, 16);
    tap::is(with.shown(), "16:abc 15:ab 12:a", "one gets no more keys");
    with.joins("d", 17);
    with.leaves("b", 18);
    with.leaves("d", 19);
    const uint64_t count = with.last->lists_before;
    tap::is(with.shown(), "19:acd 18:ab*0cd 17:ab*0c 16:abc 15:ab 12:a", "lists of several events count one by one");
    tap::is(with.last->lists_before, count + 3, "so does the number of lists before");
    for (uint32_t weight = 2; weight < 6; weight++) with.weighs("a", weight, 18 + weight);
    tap::is(with.shown(), "23:a*4c 22:a*3c 21:a*2c 20:ac 19:acd 18:ab*0cd 17:ab*0c 16:abc", "the last eight are known");
    with.weighs("a", 5, 24);
    tap::is(with.shown().substr(0, 10), "23:a*4c 22", "an equal record changes no list");
    const uint64_t before = with.last->lists_before;
    (void)with.book.take(EtcdRange{30, 1, {key_of(member_named("a"), 29)}, false}, 0);
    (void)with.shown();
    tap::is(with.last->lists_before, before + 2, "before a new range there may have been others");
}

void check_former_unknown() {
    Former with;
    (void)with.book.take(EtcdRange{10, 1, {key_of(member_named("a"), 3)}, false}, 0);
    with.joins("c", 12);
    Member again = member_named("c");
    again.incarnation = 99;
    with.puts(again, 25, /* created= */ false);
    tap::is(with.shown(), "", "a node that was restarted ends former lists");
    with.joins("e", 26);
    tap::is(with.shown(), "26:ac", "for what was before");
    (void)with.book.take(EtcdWatched{27, false, false, 0, "", {{{"/far/nodes/f", "no member", false, 27}, false}}});
    tap::is(with.shown(), "", "so does a record that is skipped");
    with.joins("g", 28);
    (void)with.shown();
    tap::ok(!with.last->over, "former lists count");
    const auto range = {key_of(member_named("a"), 3), key_of(again, 25), key_of(member_named("e"), 26),
                        key_of(member_named("g"), 28)};
    (void)with.book.take(EtcdRange{30, 1, range, false}, 0);
    tap::ok(with.last->over && with.shown() == "no list", "until a new range: others may have come and gone before it");
    int64_t revision = 31;
    for (const char* name : {"a", "c", "e"}) with.leaves(name, revision++);
    (void)with.shown();
    with.leaves("g", 34);
    with.joins("h", 35);
    tap::is(with.shown(), "", "without any member the last list stays, so the next one does not follow it in etcd");
    Member at_h = member_named("i");
    at_h.tcp = member_named("h").tcp;
    with.puts(at_h, 36);
    tap::is(with.shown(), "", "nor does one with a member left out");
    (void)with.book.take(EtcdRange{1, 2, {}, false}, 0);
    with.joins("j", 2);
    with.joins("k", 3);
    tap::is(with.shown(), "", "nor one with a member that etcd lost");
    tap::is(with.shown(30 * second_ns), "", "or that left since");
    with.joins("l", 4);
    tap::is(with.shown(30 * second_ns), "4:jk", "until these are gone");
}

void check_one_address() {
    MemberBook book("/far/nodes/", MemberWays(), "etcd");
    const auto at_one_address = [](const std::string& name) {
        Member member = member_named(name);
        member.tcp = "10.0.0.9:1";
        return member;
    };
    (void)book.take(EtcdRange{10, 1, {key_of(at_one_address("b"), 4), key_of(at_one_address("a"), 5), key_of(member_named("c"), 6)},
                              false}, 0);
    tap::is(names_of(book.next_list(0)), "10 a c", "of two members at one address the newer one is listed");
    const auto complaints = book.left_out();
    tap::ok(complaints.size() == 1 && book.skipped() == 1 && complaints[0] == "the member at /far/nodes/b has the address "
            "tcp:10.0.0.9:1 of a, which registered later", "and the other is complained of");
    (void)book.take(EtcdWatched{11, false, false, 0, "", {{key_of(at_one_address("b"), 11), false}}});
    tap::is(names_of(book.next_list(0)), "11 b c", "a later one replaces it");
    tap::is(book.left_out().size(), size_t(1), "with a complaint");
    (void)book.take(EtcdWatched{12, false, false, 0, "", {{{"/far/nodes/b", "", false, 12}, true}}});
    tap::is(names_of(book.next_list(0)), "12 a c", "and the former one is back when it leaves");
    tap::ok(book.left_out().empty(), "without a complaint");
    (void)book.take(EtcdRange{2, 2, {key_of(at_one_address("d"), 2)}, false}, 0);
    tap::is(names_of(book.next_list(0)), "13 c d", "after etcd lost its data, a held member gives way to a registered one");
}

}  // namespace

int main() {
    check_urls();
    check_addresses();
    check_fields();
    check_messages();
    check_members();
    check_sockets();
    check_random_records();
    check_lists();
    check_lost_history();
    check_former();
    check_former_unknown();
    check_one_address();
    check_keys();
    return tap::done();
}
