// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/handshake.h"

#include <algorithm>
#include <cstdio>

#include "base/check.h"
#include "protocol/frame_reply.h"
#include "protocol/wire.h"

namespace farcached::protocol {

static_assert(sizeof(FrameHeader) + sizeof(HelloRecord) + sizeof(HelloLimits) +
                  2 * name_bytes_max <=
              frame_bytes_lowest);
static_assert(sizeof(FrameHeader) + sizeof(WelcomeRecord) + regions_max * sizeof(RegionRecord) +
                      name_bytes_max <=
                  frame_bytes_lowest,
              "a greeting fits into the frame that is allowed before limits are agreed");

namespace {

// ---- sentences --------------------------------------------------------------------------------------

std::string range(uint32_t lowest, uint32_t highest) {
    std::string text = std::to_string(lowest);
    if (lowest != highest) text += " to " + std::to_string(highest);
    return text;
}

std::string layout_name(uint32_t version, uint64_t hash) {
    return std::to_string(version) + " (" + hex_text(hash) + ")";
}

bool overlap(const Versions& a, const Versions& b) {
    return a.protocol >= b.protocol_lowest && b.protocol >= a.protocol_lowest;
}

Refuse refuse_protocol(const std::string& node, const Versions& nodes, const Hello& hello) {
    return {Refusal::protocol_mismatch,
            "node " + node + " speaks protocol version " +
                range(nodes.protocol_lowest, nodes.protocol) + ", proxy " + hello.name +
                " speaks " + range(hello.speaks.protocol_lowest, hello.speaks.protocol)};
}

Refuse refuse_layout(const std::string& node, uint32_t version, uint64_t hash, const Hello& hello) {
    return {Refusal::layout_mismatch,
            "node " + node + " has item layout version " + layout_name(version, hash) + ", proxy " +
                hello.name + " has " + layout_name(hello.speaks.layout, hello.speaks.layout_hash)};
}

bool limits_work(uint32_t frame_bytes_max, uint32_t credits) {
    return frame_bytes_max >= frame_bytes_lowest && credits >= 1;
}

Refuse refuse_limits(const Welcome& facts, const Hello& hello) {
    return {Refusal::limits, "node " + facts.name + " needs frames of at least " +
                                 std::to_string(frame_bytes_lowest) +
                                 " bytes and 1 credit, proxy " + hello.name + " wants " +
                                 std::to_string(hello.frame_bytes_max) + " bytes and " +
                                 std::to_string(hello.credits) + " credits"};
}

// ---- bytes ------------------------------------------------------------------------------------------

void append_header(OutBuffer& out, FrameKind kind, size_t body_bytes) {
    CHECK(body_bytes <= frame_bytes_lowest - sizeof(FrameHeader));
    append_frame_header(out, kind, 0, body_bytes);
}

FrameError take_name(wire::Cursor& at, size_t size, std::string& name) {
    std::string_view bytes;
    if (size > name_bytes_max) return FrameError::name_invalid;
    if (!at.take_bytes(size, bytes)) return FrameError::body_short;
    if (!is_name(bytes)) return FrameError::name_invalid;
    name = bytes;
    return FrameError::none;
}

FrameError parse_hello_limits(wire::Cursor& at, Hello& hello) {
    HelloLimits limits;
    if (!at.take(limits)) return FrameError::body_short;
    if (limits.reserved != 0) return FrameError::reserved_set;
    hello.pid = limits.pid;
    hello.frame_bytes_max = limits.frame_bytes_max;
    hello.credits = limits.credits;
    return take_name(at, limits.host_bytes, hello.host);
}

bool tells_us(uint32_t version) { return version >= version_with_now_us; }

bool facts_possible(const WelcomeRecord& record) {
    if (record.frame_bytes_max < frame_bytes_lowest) return false;
    if (record.frame_bytes_max > frame_bytes_highest) return false;
    if (record.credits == 0 || record.credits > credits_highest) return false;
    if (record.item_bytes_max == 0 || record.item_bytes_max > value_bytes_highest) return false;
    if (record.term_ms_min > record.term_ms_max) return false;
    if (record.term_ms_max > term_ms_highest) return false;
    if (record.incarnation == 0) return false;
    if (record.now_us > reading_us_max) return false;
    return record.region_count <= regions_max;
}

FrameError take_regions(wire::Cursor& at, uint32_t count, std::vector<RegionFact>& regions) {
    regions.clear();
    for (uint32_t i = 0; i < count; i++) {
        RegionRecord record;
        if (!at.take(record)) return FrameError::body_short;
        if (record.access > uint32_t(RegionAccess::rdma_read)) return FrameError::facts_invalid;
        auto same = [&](const RegionFact& known) { return known.id == record.id; };
        if (std::any_of(regions.begin(), regions.end(), same)) return FrameError::facts_invalid;
        regions.push_back({record.id, record.bytes, RegionAccess(record.access)});
    }
    return FrameError::none;
}

}  // namespace

bool is_name(std::string_view name) {
    if (name.empty() || name.size() > name_bytes_max) return false;
    return std::all_of(name.begin(), name.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

// ---- the decisions ----------------------------------------------------------------------------------

std::variant<Welcome, Refuse> check(const Hello& hello, const Welcome& facts,
                                    const Versions& speaks) {
    // A proxy with an older layout is served two-sided at any protocol version.
    const bool older = hello.speaks.layout < speaks.layout;
    Versions ours = speaks;
    if (older) ours.protocol = std::min(ours.protocol, version_with_in_place - 1);
    if (!overlap(hello.speaks, speaks) || !overlap(hello.speaks, ours)) return refuse_protocol(facts.name, speaks, hello);
    const bool same = hello.speaks.layout == speaks.layout && hello.speaks.layout_hash == speaks.layout_hash;
    if (!same && !older) return refuse_layout(facts.name, speaks.layout, speaks.layout_hash, hello);
    if (!limits_work(hello.frame_bytes_max, hello.credits)) return refuse_limits(facts, hello);
    Welcome welcome = facts;
    welcome.version = std::min(hello.speaks.protocol, ours.protocol);
    welcome.layout_version = hello.speaks.layout;
    welcome.layout_hash = hello.speaks.layout_hash;
    if (!reads_one_sided(welcome.version)) make_two_sided(welcome);
    welcome.frame_bytes_max = std::min(hello.frame_bytes_max, facts.frame_bytes_max);
    welcome.credits = std::min(hello.credits, facts.credits);
    return welcome;
}

std::optional<Refuse> check_welcome(const Welcome& welcome, const Hello& hello) {
    const Versions chosen{welcome.version, welcome.version, welcome.layout_version,
                          welcome.layout_hash};
    if (!overlap(chosen, hello.speaks)) return refuse_protocol(welcome.name, chosen, hello);
    if (chosen.layout != hello.speaks.layout || chosen.layout_hash != hello.speaks.layout_hash)
        return refuse_layout(welcome.name, chosen.layout, chosen.layout_hash, hello);
    if (welcome.frame_bytes_max > hello.frame_bytes_max || welcome.credits > hello.credits)
        return Refuse{Refusal::limits, "node " + welcome.name + " agreed to more than proxy " +
                                           hello.name + " wanted"};
    return std::nullopt;
}

void make_two_sided(Welcome& welcome) {
    welcome.regions.clear();
    welcome.check_secret = 0;
    welcome.term_ms_min = welcome.term_ms_max = welcome.grace_ms = 0;
}

FrameLimits agreed_limits(const Welcome& welcome, Sender sender) {
    return {sender, true, welcome.frame_bytes_max, welcome.item_bytes_max, welcome.version};
}

// ---- bytes ------------------------------------------------------------------------------------------

void append_hello(OutBuffer& out, const Hello& hello) {
    CHECK(is_name(hello.name));
    CHECK(is_name(hello.host));
    append_header(
        out, FrameKind::hello,
        sizeof(HelloRecord) + hello.name.size() + sizeof(HelloLimits) + hello.host.size());
    wire::append(out, HelloRecord{hello_magic, hello.speaks.protocol, hello.speaks.protocol_lowest,
                                   hello.speaks.layout, uint16_t(hello.name.size()), 0,
                                   hello.speaks.layout_hash});
    out.append(hello.name);
    wire::append(out, HelloLimits{hello.pid, hello.frame_bytes_max, hello.credits,
                                   uint16_t(hello.host.size()), 0});
    out.append(hello.host);
}

FrameError parse_hello(const Frame& frame, Hello& hello, const Versions& speaks) {
    CHECK(frame.kind == FrameKind::hello);
    wire::Cursor at(frame.body);
    HelloRecord record;
    if (!at.take(record)) return FrameError::body_short;
    if (record.magic != hello_magic) return FrameError::magic_wrong;
    if (record.reserved != 0) return FrameError::reserved_set;
    if (record.version_lowest > record.version) return FrameError::facts_invalid;
    hello = {};
    hello.speaks = {record.version, record.version_lowest, record.layout_version,
                    record.layout_hash};
    FrameError error = take_name(at, record.name_bytes, hello.name);
    if (error != FrameError::none) return error;
    if (!overlap(hello.speaks, speaks)) return FrameError::none;
    error = parse_hello_limits(at, hello);
    if (error != FrameError::none) return error;
    // A later version may have appended fields.
    const bool may_have_more = record.version > speaks.protocol;
    return at.left() == 0 || may_have_more ? FrameError::none : FrameError::body_excess;
}

void append_welcome(OutBuffer& out, const Welcome& welcome) {
    CHECK(is_name(welcome.name));
    WelcomeRecord record{};
    record.magic = welcome_magic;
    record.version = welcome.version;
    record.layout_version = welcome.layout_version;
    record.layout_hash = welcome.layout_hash;
    record.incarnation = welcome.incarnation;
    record.hash_seed = welcome.hash_seed;
    record.check_secret = welcome.check_secret;
    record.started_unix = welcome.started_unix;
    record.item_bytes_max = welcome.item_bytes_max;
    record.now = welcome.now.seconds;
    record.frame_bytes_max = welcome.frame_bytes_max;
    record.credits = welcome.credits;
    record.term_ms_min = welcome.term_ms_min;
    record.term_ms_max = welcome.term_ms_max;
    record.grace_ms = welcome.grace_ms;
    record.name_bytes = uint16_t(welcome.name.size());
    record.region_count = uint16_t(welcome.regions.size());
    if (tells_us(welcome.version)) record.now_us = welcome.now.us.value_or(0);
    CHECK(welcome.regions.size() <= regions_max);
    CHECK(facts_possible(record));
    append_header(
        out, FrameKind::welcome,
        sizeof record + welcome.regions.size() * sizeof(RegionRecord) + welcome.name.size());
    wire::append(out, record);
    for (const RegionFact& region : welcome.regions)
        wire::append(out, RegionRecord{region.bytes, region.id, uint32_t(region.access)});
    out.append(welcome.name);
}

FrameError parse_welcome(const Frame& frame, Welcome& welcome) {
    CHECK(frame.kind == FrameKind::welcome);
    wire::Cursor at(frame.body);
    WelcomeRecord record;
    if (!at.take(record)) return FrameError::body_short;
    if (record.magic != welcome_magic) return FrameError::magic_wrong;
    if (record.version > protocol_version) return FrameError::version_wrong;
    if (record.version < protocol_version_lowest) return FrameError::version_wrong;
    if (!tells_us(record.version) && record.now_us != 0) return FrameError::reserved_set;
    if (!facts_possible(record)) return FrameError::facts_invalid;
    welcome.version = record.version;
    welcome.layout_version = record.layout_version;
    welcome.layout_hash = record.layout_hash;
    welcome.incarnation = record.incarnation;
    welcome.hash_seed = record.hash_seed;
    welcome.check_secret = record.check_secret;
    welcome.started_unix = record.started_unix;
    welcome.item_bytes_max = record.item_bytes_max;
    welcome.now = {record.now, std::nullopt};
    if (tells_us(record.version)) welcome.now.us = record.now_us;
    welcome.frame_bytes_max = record.frame_bytes_max;
    welcome.credits = record.credits;
    welcome.term_ms_min = record.term_ms_min;
    welcome.term_ms_max = record.term_ms_max;
    welcome.grace_ms = record.grace_ms;
    FrameError error = take_regions(at, record.region_count, welcome.regions);
    if (error != FrameError::none) return error;
    error = take_name(at, record.name_bytes, welcome.name);
    if (error != FrameError::none) return error;
    return at.left() == 0 ? FrameError::none : FrameError::body_excess;
}

void append_refuse(OutBuffer& out, const Refuse& refuse) {
    append_sentence(out, FrameKind::refuse, uint16_t(refuse.reason), refuse.text);
}

FrameError parse_refuse(const Frame& frame, Refuse& refuse) {
    CHECK(frame.kind == FrameKind::refuse);
    uint16_t reason = 0;
    std::string_view text;
    FrameError error = parse_sentence(frame, reason, text);
    if (error != FrameError::none) return error;
    refuse.reason = reason < uint16_t(Refusal::count) ? Refusal(reason) : Refusal::unknown;
    refuse.text = text;
    return FrameError::none;
}

}  // namespace farcached::protocol
