// SPDX-License-Identifier: BSD-3-Clause
// The greeting: facts arrive unchanged, versions and limits are agreed or refused with a message, and invalid bytes are
// refused.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "t/lib/tap.h"
#include "t/unit/protocol/frame_streams.h"

namespace {

using namespace frame_streams;
using farcached::protocol::Refusal;

constexpr FrameLimits greeting_proxy{Sender::proxy, false, frame_bytes_lowest, 0};
constexpr FrameLimits greeting_node{Sender::node, false, frame_bytes_lowest, 0};

Hello some_hello() {
    Hello hello;
    hello.name = "proxy-a";
    hello.host = "5f1d2c7e-boot";
    hello.pid = 4711;
    hello.frame_bytes_max = 32 * 1024;
    hello.credits = 17;
    return hello;
}

Welcome some_facts() {
    Welcome facts;
    facts.name = "node-1";
    facts.incarnation = 0x1122334455667788;
    facts.hash_seed = 0x99aabbccddeeff00;
    facts.check_secret = 0x0123456789abcdef;
    facts.now = {12345, 678'901};
    facts.started_unix = 1'700'000'000;
    facts.item_bytes_max = 1 << 20;
    facts.frame_bytes_max = 64 * 1024;
    facts.credits = 8;
    facts.term_ms_min = 4000;
    facts.term_ms_max = 256'000;
    facts.grace_ms = 1100;
    facts.regions = {{0, UINT64_C(1) << 36, RegionAccess::mapped},
                     {7, 65536, RegionAccess::rdma_read}};
    return facts;
}

template <class T>
std::string bytes_of(void (*append)(OutBuffer&, const T&), const T& what) {
    OutBuffer out;
    append(out, what);
    return {out.data(), out.size()};
}
std::string bytes_of(const Hello& hello) { return bytes_of<Hello>(append_hello, hello); }
std::string bytes_of(const Welcome& welcome) { return bytes_of<Welcome>(append_welcome, welcome); }
std::string bytes_of(const Refuse& refuse) { return bytes_of<Refuse>(append_refuse, refuse); }

// The result of one frame: a reason, or the contents.
std::string outcome(std::string_view bytes, const FrameLimits& limits) {
    FrameParse parse = parse_frame(bytes, limits);
    if (parse.status == FrameParse::Status::need_more)
        return parse.bytes > bytes.size() ? "more" : "!stuck";
    if (parse.status == FrameParse::Status::bad) return bad(parse.error);
    const std::string seen = read_frame(parse.frame, limits);
    return seen.substr(seen.find(':') + 2);
}

void told_as_it_is() {
    const Hello hello = some_hello();
    tap::is(outcome(bytes_of(hello), greeting_proxy), describe(hello),
            "a hello arrives unchanged");
    const Welcome facts = some_facts();
    tap::is(outcome(bytes_of(facts), greeting_node), describe(facts), "so does a welcome");
    Welcome bare = facts;
    bare.regions.clear();
    bare.term_ms_min = bare.term_ms_max = bare.grace_ms = 0;
    tap::is(outcome(bytes_of(bare), greeting_node), describe(bare),
            "and one without regions and leases");
    const Refuse refuse{Refusal::full, "no more than 3 proxies"};
    tap::is(outcome(bytes_of(refuse), greeting_node), describe(refuse), "and a refusal");
}

void the_largest_greeting() {
    Welcome facts = some_facts();
    facts.name = std::string(name_bytes_max, 'n');
    facts.regions.clear();
    for (uint32_t i = 0; i < regions_max; i++)
        facts.regions.push_back({i, UINT64_MAX, RegionAccess::mapped});
    tap::is(outcome(bytes_of(facts), greeting_node), describe(facts), "the largest welcome fits");
    Hello hello = some_hello();
    hello.name = std::string(name_bytes_max, 'p');
    hello.host = std::string(name_bytes_max, 'h');
    tap::is(outcome(bytes_of(hello), greeting_proxy), describe(hello), "and the largest hello");
    hello.speaks.layout = UINT32_MAX;
    auto answer = check(hello, facts);
    const Refuse* refuse = std::get_if<Refuse>(&answer);
    tap::ok(refuse != nullptr && refuse->text.size() <= text_bytes_max,
            "the longest sentence is not cut");
    tap::ok(refuse != nullptr && printable(refuse->text), "and printable");
}

// ---- agreeing ---------------------------------------------------------------------------------------

void limits_are_the_smaller() {
    const Hello hello = some_hello();
    const Welcome facts = some_facts();
    auto answer = check(hello, facts);
    const Welcome* welcome = std::get_if<Welcome>(&answer);
    if (!tap::ok(welcome != nullptr, "a proxy of the same build is welcome")) return;
    tap::is(welcome->frame_bytes_max, 32u * 1024,
            "the frame limit is the proxy's, which is smaller");
    tap::is(welcome->credits, 8u, "the credits are the node's, which are fewer");
    tap::is(welcome->version, protocol_version, "the version is both sides'");
    tap::ok(!check_welcome(*welcome, hello).has_value(), "the proxy agrees");
    const FrameLimits limits = agreed_limits(*welcome, Sender::node);
    tap::ok(limits.greeted, "both go on from there");
    tap::is(limits.frame_bytes_max, 32u * 1024, "with frames of that size");
    tap::is(limits.value_bytes_max, uint64_t(1) << 20, "and values of an item's");
    Welcome greedy = *welcome;
    greedy.credits = hello.credits + 1;
    const auto no = check_welcome(greedy, hello);
    tap::is(no.has_value() ? no->text : "", "node node-1 agreed to more than proxy proxy-a wanted",
            "more than was wanted is refused");
}

std::string text_of(const std::variant<Welcome, Refuse>& answer) {
    if (const Refuse* refuse = std::get_if<Refuse>(&answer))
        return std::string(refusal_name(refuse->reason)) + ": " + refuse->text;
    return "welcome " + std::to_string(std::get<Welcome>(answer).version);
}

void versions_meet() {
    auto meet = [](uint32_t proxy_lowest, uint32_t proxy, uint32_t node_lowest, uint32_t node) {
        Hello hello = some_hello();
        hello.speaks.protocol = proxy;
        hello.speaks.protocol_lowest = proxy_lowest;
        Versions speaks;
        speaks.protocol = node;
        speaks.protocol_lowest = node_lowest;
        return text_of(check(hello, some_facts(), speaks));
    };
    tap::is(meet(1, 1, 1, 1), "welcome 1", "1 and 1 speak 1");
    tap::is(meet(1, 3, 1, 1), "welcome 1", "a newer proxy that speaks 1, too");
    tap::is(meet(1, 1, 1, 3), "welcome 1", "a newer node that speaks 1, too");
    tap::is(meet(2, 4, 1, 3), "welcome 3", "the highest of both");
    tap::is(meet(2, 3, 1, 1),
            "protocol_mismatch: node node-1 speaks protocol version 1, proxy proxy-a speaks 2 to 3",
            "a proxy that is too new gets both sides' versions");
    tap::is(meet(1, 1, 2, 5),
            "protocol_mismatch: node node-1 speaks protocol version 2 to 5, proxy proxy-a speaks 1",
            "so is one that is too old");
}

// The clock's fraction, of a node that knows it, to either version.
void a_clock_by_version() {
    Hello old = some_hello();
    old.speaks.protocol = 1;
    auto answer = check(old, some_facts());
    Welcome welcome = std::get<Welcome>(answer);
    const std::string bytes = bytes_of(welcome);
    uint32_t now_us = 1;
    std::memcpy(&now_us, bytes.data() + sizeof(FrameHeader) + offsetof(WelcomeRecord, now_us), sizeof now_us);
    tap::is(now_us, 0u, "a welcome of version 1 has 0 where the fraction would be");
    welcome.now.us.reset();
    tap::is(outcome(bytes, greeting_node), describe(welcome), "and holds none");
    tap::is(agreed_limits(welcome, Sender::node).version, 1u, "both go on in version 1");
    answer = check(some_hello(), some_facts());
    tap::is(agreed_limits(std::get<Welcome>(answer), Sender::node).version, protocol_version, "or in the newest");
}

void layouts_differ() {
    Hello hello = some_hello();
    hello.speaks.layout = 2;
    hello.speaks.layout_hash = 0xabc;
    Versions speaks;
    speaks.layout = 1;
    speaks.layout_hash = 0xdef;
    tap::is(text_of(check(hello, some_facts(), speaks)),
            "layout_mismatch: node node-1 has item layout version 1 (0000000000000def), "
            "proxy proxy-a has 2 (0000000000000abc)",
            "another layout version is refused with both sides' versions");
    hello.speaks.layout = 1;
    tap::is(text_of(check(hello, some_facts(), speaks)),
            "layout_mismatch: node node-1 has item layout version 1 (0000000000000def), "
            "proxy proxy-a has 1 (0000000000000abc)",
            "so is the same number of a different layout");
    Welcome welcome = some_facts();
    welcome.layout_hash ^= 1;
    tap::ok(check_welcome(welcome, some_hello()).has_value(),
            "a proxy does not go on with one either");
    welcome = some_facts();
    welcome.version = protocol_version + 1;
    tap::ok(check_welcome(welcome, some_hello()).has_value(),
            "nor with a version that it did not offer");
}

// A proxy from before writes in place is served, and gets nothing for one-sided reads (S18).
void proxies_of_before() {
    const Welcome facts = some_facts();
    Hello old = some_hello();
    old.speaks = versions_two_sided;
    const auto answer = check(old, facts);
    tap::is(text_of(answer), "welcome 3", "a proxy of the version before is welcome in that");
    const Welcome& welcome = std::get<Welcome>(answer);
    tap::is(welcome.layout_version, 2u, "its own layout is named to it,");
    tap::is(welcome.layout_hash, layout::before_in_place.hash, "as it named it,");
    tap::ok(!check_welcome(welcome, old).has_value(), "so the proxy accepts it");
    tap::ok(welcome.regions.empty(), "without a region,");
    tap::is(welcome.term_ms_min + welcome.term_ms_max + welcome.grace_ms, 0u, "without leases");
    tap::is(welcome.check_secret, 0u, "and without what verifies items");
    tap::is(outcome(bytes_of(welcome), greeting_node), describe(welcome), "as its frame holds");
    tap::is(welcome.incarnation, facts.incarnation, "all else is as it is for others");
    tap::is(welcome.hash_seed, facts.hash_seed, "keys are hashed alike");

    auto meets = [&](Versions speaks) {
        Hello hello = some_hello();
        hello.speaks = speaks;
        const auto said = check(hello, facts);
        const Welcome* to = std::get_if<Welcome>(&said);
        return text_of(said).substr(0, 17) + (to == nullptr ? "" : to->regions.empty() ? ", two-sided" : ", one-sided");
    };
    const Versions now;
    tap::is(meets(now), "welcome 13, one-sided", "this version reads");
    tap::is(meets({4, 1, now.layout, now.layout_hash}), "welcome 4, one-sided", "so does the one without spilled items");
    tap::is(meets({12, 1, now.layout, now.layout_hash}), "welcome 12, one-sided", "so does the last one before");
    tap::is(meets({3, 1, now.layout, now.layout_hash}), "welcome 3, two-sided", "an older protocol reads nothing");
    tap::is(meets({1, 1, 1, 77}), "welcome 1, two-sided", "nor do the oldest, with any layout");
    tap::is(meets({4, 1, 2, 77}), "welcome 3, two-sided", "an older layout gets a version without pointers");
    tap::is(meets({4, 4, 2, 77}), "protocol_mismatch", "and is refused without one");
    tap::is(meets({4, 1, now.layout, 77}), "layout_mismatch: ", "another layout of the same number is refused");
    tap::is(meets({4, 1, now.layout + 1, 77}), "layout_mismatch: ", "and a later layout, whose proxy greets again");
}

// An older node is greeted again, in its version; its offers are then ignored.
void nodes_of_before() {
    const Welcome facts = some_facts();
    tap::is(text_of(check(some_hello(), facts, versions_two_sided)).substr(0, 16), "layout_mismatch:",
            "a node of the version before refuses this one's layout");
    Hello again = some_hello();
    again.speaks = versions_two_sided;
    Welcome welcome = facts;
    welcome.version = versions_two_sided.protocol;
    welcome.layout_version = versions_two_sided.layout;
    welcome.layout_hash = versions_two_sided.layout_hash;
    welcome.credits = 8;
    welcome.frame_bytes_max = again.frame_bytes_max;
    tap::is(outcome(bytes_of(welcome), greeting_node), describe(welcome), "its welcome can be read");
    tap::ok(!check_welcome(welcome, again).has_value(), "and is accepted by a proxy that greeted in the older version");
    tap::ok(check_welcome(welcome, some_hello()).has_value(), "and by no other");
    tap::ok(!reads_one_sided(welcome.version), "nothing is read by that version");
    tap::ok(reads_one_sided(version_with_in_place), "but by the next");
    make_two_sided(welcome);
    tap::ok(welcome.regions.empty() && welcome.check_secret == 0 && welcome.term_ms_max == 0,
            "what would let it read is taken out");
}

void too_small_limits() {
    Hello hello = some_hello();
    hello.frame_bytes_max = frame_bytes_lowest - 1;
    tap::is(text_of(check(hello, some_facts())),
            "limits: node node-1 needs frames of at least 4096 bytes and 1 credit, "
            "proxy proxy-a wants 4095 bytes and 17 credits",
            "frames too small for a request");
    hello.frame_bytes_max = UINT32_MAX;
    hello.credits = 0;
    tap::is(text_of(check(hello, some_facts())).substr(0, 7), "limits:", "no credits");
    hello.credits = UINT32_MAX;
    tap::is(text_of(check(hello, some_facts())), "welcome " + std::to_string(protocol_version), "wanting all gets the maximum");
}

void copies_are_told() {
    Hello hello = some_hello();
    hello.copies = 2;
    tap::is(outcome(bytes_of(hello), greeting_proxy), describe(hello), "a hello tells on how many nodes an item is");
    std::string bytes = bytes_of(hello);
    bytes[bytes.size() - 8] = 3;
    tap::is(outcome(bytes, greeting_proxy), "!facts_invalid", "not on three");
    hello.speaks.protocol = version_with_moved - 1;
    Hello older = hello;
    older.copies = 0;
    tap::is(outcome(bytes_of(hello), greeting_proxy), describe(older), "an older version tells nothing");
}

// A hello of a later version: further fields may follow, and only its known beginning is read.
void hellos_from_the_future() {
    Hello hello = some_hello();
    hello.speaks.protocol = protocol_version + 1;
    std::string bytes = bytes_of(hello) + "more";
    bytes[0] = char(bytes[0] + 4);
    tap::is(outcome(bytes, greeting_proxy), describe(hello),
            "what a later version adds is passed over");
    hello.speaks.protocol_lowest = protocol_version + 1;
    OutBuffer out;
    append_hello(out, hello);
    std::string strange(out.data(), sizeof(FrameHeader) + sizeof(HelloRecord) + hello.name.size());
    strange += "\xff\xfe";
    strange[0] = char(strange.size() - sizeof(FrameHeader));
    Hello head;
    head.speaks = hello.speaks;
    head.name = hello.name;
    const std::string seen = outcome(strange, greeting_proxy);
    tap::ok(seen.find(describe(head.speaks)) != std::string::npos, "its versions can be read");
    tap::ok(seen.find("name='proxy-a'") != std::string::npos, "and its name");
}

// ---- bytes that are no greeting ---------------------------------------------------------------------

template <class T, class Change>
std::string changed(const T& what, const FrameLimits& limits, Change change) {
    std::string bytes = bytes_of(what);
    change(bytes.data() + sizeof(FrameHeader));
    return outcome(bytes, limits);
}

template <class T>
auto put_at(size_t offset, T value) {
    return [=](char* body) { std::memcpy(body + offset, &value, sizeof value); };
}

void hellos_that_cannot_be() {
    const Hello hello = some_hello();
    auto said = [&](auto change) { return changed(hello, greeting_proxy, change); };
    const size_t limits = sizeof(HelloRecord) + hello.name.size();
    tap::is(said(put_at(0, uint8_t(0))), "!magic_wrong", "another magic");
    tap::is(said(put_at(offsetof(HelloRecord, version_lowest), protocol_version + 1)), "!facts_invalid",
            "a lowest version above the highest");
    tap::is(said(put_at(offsetof(HelloRecord, name_bytes), uint16_t(0))), "!name_invalid",
            "no name");
    tap::is(said(put_at(offsetof(HelloRecord, name_bytes), uint16_t(129))), "!name_invalid",
            "too long a name");
    tap::is(said(put_at(offsetof(HelloRecord, name_bytes), uint16_t(100))), "!body_short",
            "a name cut short");
    tap::is(said(put_at(sizeof(HelloRecord), char(' '))), "!name_invalid", "a blank in it");
    tap::is(said(put_at(sizeof(HelloRecord), '\n')), "!name_invalid", "a line feed in it");
    tap::is(said(put_at(offsetof(HelloRecord, reserved), uint16_t(1))), "!reserved_set",
            "a reserved field");
    tap::is(said(put_at(limits + offsetof(HelloLimits, reserved), uint16_t(1))), "!reserved_set",
            "another");
    tap::is(said(put_at(limits + offsetof(HelloLimits, host_bytes), uint16_t(12))), "!body_excess",
            "a byte behind the host");
    tap::is(outcome("get key\r\nget key\r\n", greeting_proxy), "!kind_unknown",
            "a memcached client");
    tap::is(outcome("ERROR\r\nERROR\r\nERROR\r\n", greeting_node), "!kind_unknown",
            "a memcached server");
}

void welcomes_that_cannot_be() {
    const Welcome facts = some_facts();
    auto said = [&](auto change) { return changed(facts, greeting_node, change); };
    tap::is(said(put_at(0, uint8_t(0))), "!magic_wrong", "another magic");
    tap::is(said(put_at(offsetof(WelcomeRecord, version), protocol_version + 1)), "!version_wrong",
            "a version to come");
    tap::is(said(put_at(offsetof(WelcomeRecord, version), uint32_t(0))), "!version_wrong",
            "version 0");
    tap::is(said(put_at(offsetof(WelcomeRecord, version), uint32_t(1))), "!reserved_set",
            "version 1 with a fraction of its clock");
    auto invalid = [&](auto change) { return said(change) == "!facts_invalid"; };
    tap::ok(invalid(put_at(offsetof(WelcomeRecord, incarnation), uint64_t(0))), "incarnation 0");
    tap::ok(invalid(put_at(offsetof(WelcomeRecord, frame_bytes_max), uint32_t(4095))),
            "frames too small");
    tap::ok(invalid(put_at(offsetof(WelcomeRecord, frame_bytes_max), UINT32_MAX)),
            "frames too large");
    tap::ok(invalid(put_at(offsetof(WelcomeRecord, credits), uint32_t(0))), "no credits");
    tap::ok(invalid(put_at(offsetof(WelcomeRecord, credits), UINT32_MAX)), "too many credits");
    tap::ok(invalid(put_at(offsetof(WelcomeRecord, item_bytes_max), uint64_t(0))), "no items");
    tap::ok(invalid(put_at(offsetof(WelcomeRecord, item_bytes_max), value_bytes_highest + 1)),
            "too large items");
    tap::ok(invalid(put_at(offsetof(WelcomeRecord, term_ms_min), uint32_t(256'001))),
            "terms that cross");
    tap::ok(invalid(put_at(offsetof(WelcomeRecord, term_ms_max), UINT32_MAX)), "a lease of weeks");
    tap::ok(!is_bad(said(put_at(offsetof(WelcomeRecord, now_us), uint32_t(999'999)))), "a microsecond before the next");
    tap::ok(invalid(put_at(offsetof(WelcomeRecord, now_us), uint32_t(1'000'000))), "the next");
    tap::ok(invalid(put_at(offsetof(WelcomeRecord, region_count), uint16_t(65))),
            "too many regions");
    tap::ok(invalid(put_at(sizeof(WelcomeRecord) + offsetof(RegionRecord, access), uint32_t(3))),
            "an access that is none");
    tap::ok(invalid(put_at(sizeof(WelcomeRecord) + offsetof(RegionRecord, id), uint32_t(7))),
            "a region twice");
    tap::is(said(put_at(offsetof(WelcomeRecord, region_count), uint16_t(3))), "!body_short",
            "a region that is not there");
    tap::is(said(put_at(offsetof(WelcomeRecord, name_bytes), uint16_t(5))), "!body_excess",
            "a byte behind the name");
}

void refusals_from_the_future() {
    const std::string seen =
        changed(Refuse{Refusal::full, "text"}, greeting_node, put_at(0, uint16_t(500)));
    tap::is(seen, "refuse unknown text='text'",
            "a reason that we do not know is unknown, its text is kept");
    std::string help;
    for (size_t i = 0; i < size_t(Refusal::count); i++)
        if (refusal_help(Refusal(i)).empty()) help += refusal_name(Refusal(i));
    tap::is(help, "", "every refusal has a help text");
}

// Every prefix waits, or is refused when its header says that this is all; every byte takes every
// other value.
void cut_and_corrupted() {
    int wrong = 0, refused = 0;
    const std::vector<std::string> greetings = {bytes_of(some_hello()), bytes_of(some_facts()),
                                                bytes_of(Refuse{Refusal::full, "no more"})};
    for (const std::string& bytes : greetings) {
        const FrameLimits& limits = bytes == greetings[0] ? greeting_proxy : greeting_node;
        for (size_t size = 0; size < bytes.size(); size++) {
            Exact cut(std::string_view(bytes).substr(0, size));
            if (outcome(cut.view(), limits) != "more") wrong++;
            if (size < sizeof(FrameHeader)) continue;
            const uint32_t body_bytes = uint32_t(size - sizeof(FrameHeader));
            std::memcpy(cut.data.get(), &body_bytes, sizeof body_bytes);
            if (!is_bad(outcome(cut.view(), limits))) wrong++;
        }
        Exact copy(bytes);
        for (size_t at = 0; at < bytes.size(); at++) {
            for (int change = 1; change < 256; change++) {
                copy.data[at] = char(bytes[at] ^ change);
                const std::string seen = outcome(copy.view(), limits);
                if (seen == "!stuck") wrong++;
                if (is_bad(seen)) refused++;
            }
            copy.data[at] = bytes[at];
        }
    }
    tap::note("%d refused", refused);
    tap::is(wrong, 0,
            "every truncation is refused or waits, every corruption is refused or read in bounds");
}

// ---- pinned -----------------------------------------------------------------------------------------

void the_bytes() {
    Hello hello = some_hello();
    hello.speaks = {2, 1, 3, 0x1122334455667788};
    OutBuffer out;
    append_hello(out, hello);
    std::string want(
        "\x44\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0"
        "fachhello\0\0\0",
        16);
    want +=
        std::string("fachhelo\2\0\0\0\1\0\0\0\3\0\0\0\7\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11", 32);
    want += "proxy-a";
    want += std::string("\x67\x12\0\0\0\x80\0\0\x11\0\0\0\x0d\0\0\0", 16);
    want += "5f1d2c7e-boot";
    tap::is(std::string_view(out.data(), out.size()), std::string_view(want),
            "the bytes of a hello");
    tap::is(bytes_of(some_facts()).substr(16, 8), "fachcome", "a welcome begins with its magic");
}

// A change of protocol/layout.h raises layout_version and writes the new hash here.
void the_item_layout() {
    tap::is(layout::layout_version, 3u, "item layout version 3");
    tap::is(layout::layout_hash, UINT64_C(0x6701fa087cde3dea), "is this layout");
    tap::is(layout::before_in_place.version, 2u, "that of before is version 2");
    tap::is(layout::before_in_place.hash, UINT64_C(15839788792690209363), "which was this layout");
}

}  // namespace

int main() {
    told_as_it_is();
    the_largest_greeting();
    limits_are_the_smaller();
    versions_meet();
    a_clock_by_version();
    layouts_differ();
    proxies_of_before();
    nodes_of_before();
    too_small_limits();
    copies_are_told();
    hellos_from_the_future();
    hellos_that_cannot_be();
    welcomes_that_cannot_be();
    refusals_from_the_future();
    cut_and_corrupted();
    the_bytes();
    the_item_layout();
    return tap::done();
}
