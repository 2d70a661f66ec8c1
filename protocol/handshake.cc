// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/handshake.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/check.h"
#include "protocol/frame_reply.h"
#include "protocol/wire.h"

namespace farcached::protocol {

static_assert(sizeof(FrameHeader) + sizeof(HelloRecord) + sizeof(HelloLimits) +
                  2 * name_bytes_max + sizeof(HelloNonce) + sizeof(HelloCopies) <=
              frame_bytes_lowest);
static_assert(sizeof(FrameHeader) + sizeof(WelcomeRecord) + regions_max * sizeof(RegionRecord) +
                      name_bytes_max + sizeof(RightRecord) + sizeof(WelcomeGrant) + grant_frame_bytes_max + auth_proof_bytes <=
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

template <class Record>
void append_nonce(OutBuffer& out, uint64_t magic, const AuthNonce& nonce) {
    Record record;
    record.magic = magic;
    std::memcpy(record.nonce, nonce.data(), nonce.size());
    wire::append(out, record);
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
    if ((record.now_us & ~clock_with_right) > reading_us_max) return false;
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
    const bool says_copies = hello.copies != 0 && hello.speaks.protocol >= version_with_moved;
    append_header(
        out, FrameKind::hello,
        sizeof(HelloRecord) + hello.name.size() + sizeof(HelloLimits) + hello.host.size() +
            (hello.nonce.has_value() ? sizeof(HelloNonce) : 0) + (says_copies ? sizeof(HelloCopies) : 0));
    wire::append(out, HelloRecord{hello_magic, hello.speaks.protocol, hello.speaks.protocol_lowest,
                                   hello.speaks.layout, uint16_t(hello.name.size()), 0,
                                   hello.speaks.layout_hash});
    out.append(hello.name);
    wire::append(out, HelloLimits{hello.pid, hello.frame_bytes_max, hello.credits,
                                   uint16_t(hello.host.size()), 0});
    out.append(hello.host);
    if (hello.nonce.has_value()) append_nonce<HelloNonce>(out, nonce_magic, *hello.nonce);
    if (says_copies) wire::append(out, HelloCopies{copies_magic, hello.copies, 0});
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
    HelloNonce nonce;
    if (record.version >= version_with_auth && at.left() >= sizeof nonce) {
        wire::Cursor ahead = at;
        ahead.take(nonce);
        if (nonce.magic == nonce_magic) {
            hello.nonce = std::to_array(nonce.nonce);
            at = ahead;
        }
    }
    HelloCopies copies;
    if (record.version >= version_with_moved && at.left() >= sizeof copies) {
        wire::Cursor ahead = at;
        ahead.take(copies);
        if (copies.magic == copies_magic) {
            if (copies.copies == 0 || copies.copies > copies_highest) return FrameError::facts_invalid;
            if (copies.reserved != 0) return FrameError::reserved_set;
            hello.copies = copies.copies;
            at = ahead;
        }
    }
    // A later version may have appended fields.
    const bool may_have_more = record.version > speaks.protocol;
    return at.left() == 0 || may_have_more ? FrameError::none : FrameError::body_excess;
}

namespace {

// more: bytes that the caller appends.
void append_welcome(OutBuffer& out, const Welcome& welcome, size_t more) {
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
    if (tells_us(welcome.version)) record.now_us = told_us(welcome.now);
    const bool has_right = welcome.now.right_ms.has_value();
    CHECK(!has_right || welcome.version >= version_with_right);
    CHECK(welcome.regions.size() <= regions_max);
    CHECK(facts_possible(record));
    append_header(
        out, FrameKind::welcome,
        sizeof record + welcome.regions.size() * sizeof(RegionRecord) + welcome.name.size() +
            (has_right ? sizeof(RightRecord) : 0) + more);
    wire::append(out, record);
    for (const RegionFact& region : welcome.regions)
        wire::append(out, RegionRecord{region.bytes, region.id, uint32_t(region.access)});
    out.append(welcome.name);
    if (has_right) wire::append(out, RightRecord{*welcome.now.right_ms, 0});
}

FrameError take_welcome(wire::Cursor& at, Welcome& welcome) {
    WelcomeRecord record;
    if (!at.take(record)) return FrameError::body_short;
    if (record.magic != welcome_magic) return FrameError::magic_wrong;
    if (record.version > protocol_version) return FrameError::version_wrong;
    if (record.version < protocol_version_lowest) return FrameError::version_wrong;
    if (!tells_us(record.version) && record.now_us != 0) return FrameError::reserved_set;
    if (!facts_possible(record)) return FrameError::facts_invalid;
    welcome.now = {record.now};
    if (FrameError error = read_clock_us(record.now_us, record.version, welcome.now); error != FrameError::none) return error;
    welcome.version = record.version;
    welcome.layout_version = record.layout_version;
    welcome.layout_hash = record.layout_hash;
    welcome.incarnation = record.incarnation;
    welcome.hash_seed = record.hash_seed;
    welcome.check_secret = record.check_secret;
    welcome.started_unix = record.started_unix;
    welcome.item_bytes_max = record.item_bytes_max;
    welcome.frame_bytes_max = record.frame_bytes_max;
    welcome.credits = record.credits;
    welcome.term_ms_min = record.term_ms_min;
    welcome.term_ms_max = record.term_ms_max;
    welcome.grace_ms = record.grace_ms;
    FrameError error = take_regions(at, record.region_count, welcome.regions);
    if (error != FrameError::none) return error;
    error = take_name(at, record.name_bytes, welcome.name);
    return error == FrameError::none ? take_right(at, welcome.now) : error;
}

}  // namespace

void append_welcome(OutBuffer& out, const Welcome& welcome) { append_welcome(out, welcome, 0); }

FrameError parse_welcome(const Frame& frame, Welcome& welcome) {
    CHECK(frame.kind == FrameKind::welcome);
    wire::Cursor at(frame.body);
    if (FrameError error = take_welcome(at, welcome); error != FrameError::none) return error;
    return at.left() == 0 ? FrameError::none : FrameError::body_excess;
}

// ---- authentication -----------------------------------------------------------------------------------

void append_challenge(OutBuffer& out, const AuthNonce& nonce) {
    append_header(out, FrameKind::challenge, sizeof(ChallengeRecord));
    append_nonce<ChallengeRecord>(out, challenge_magic, nonce);
}

FrameError parse_challenge(const Frame& frame, AuthNonce& nonce) {
    CHECK(frame.kind == FrameKind::challenge);
    const ChallengeRecord record = wire::get<ChallengeRecord>(frame.body.data());
    if (record.magic != challenge_magic) return FrameError::magic_wrong;
    nonce = std::to_array(record.nonce);
    return FrameError::none;
}

bool append_proof(OutBuffer& out, const AuthKey& key, std::string_view hello, std::string_view challenge) {
    OutBuffer frame;
    append_header(frame, FrameKind::proof, sizeof(ProofRecord) + key.name().size() + auth_proof_bytes);
    wire::append(frame, ProofRecord{proof_magic, uint32_t(key.role()), uint16_t(key.name().size()), 0});
    frame.append(key.name());
    const auto proof = proof_of_proxy(key, hello, challenge, frame.own());
    if (!proof.has_value()) return false;
    frame.append({proof->data(), proof->size()});
    out.append(frame.own());
    return true;
}

FrameError parse_proof(std::string_view bytes, Proof& proof) {
    CHECK(bytes.size() >= sizeof(FrameHeader));
    wire::Cursor at(bytes.substr(sizeof(FrameHeader)));
    ProofRecord record;
    if (!at.take(record)) return FrameError::body_short;
    if (record.magic != proof_magic) return FrameError::magic_wrong;
    if (record.reserved != 0) return FrameError::reserved_set;
    if (record.role == 0 || record.role >= uint32_t(AuthRole::count)) return FrameError::facts_invalid;
    proof.role = AuthRole(record.role);
    if (!at.take_bytes(record.name_bytes, proof.name)) return FrameError::body_short;
    if (!is_auth_name(proof.name)) return FrameError::name_invalid;
    if (!at.take(proof.proof)) return FrameError::body_short;
    proof.claims = bytes.substr(0, bytes.size() - auth_proof_bytes);
    return at.left() == 0 ? FrameError::none : FrameError::body_excess;
}

bool append_proved_welcome(OutBuffer& out, const Welcome& welcome, std::string_view grant, const AuthKey& key,
                           std::string_view hello, std::string_view challenge, std::string_view proof) {
    OutBuffer frame;
    append_welcome(frame, welcome, sizeof(WelcomeGrant) + grant.size() + auth_proof_bytes);
    wire::append(frame, WelcomeGrant{uint32_t(grant.size()), 0});
    if (!grant.empty()) frame.append(grant);
    const auto of_node = proof_of_node(key, hello, challenge, proof, frame.own());
    if (!of_node.has_value()) return false;
    frame.append({of_node->data(), of_node->size()});
    out.append(frame.own());
    return true;
}

bool welcome_is_proved(const Frame& frame, const AuthKey& key, std::string_view hello, std::string_view challenge,
                       std::string_view proof) {
    CHECK(frame.kind == FrameKind::welcome);
    CHECK(frame.body.size() >= auth_proof_bytes);
    const std::string bytes = whole_frame(frame);
    const size_t size = bytes.size() - auth_proof_bytes;
    const AuthProof claimed = wire::get<AuthProof>(bytes.data() + size);
    return same_proof(proof_of_node(key, hello, challenge, proof, std::string_view(bytes).substr(0, size)), claimed);
}

FrameError parse_proved_welcome(const Frame& frame, Welcome& welcome, std::string_view& grant) {
    CHECK(frame.kind == FrameKind::welcome);
    wire::Cursor at(frame.body.substr(0, frame.body.size() - auth_proof_bytes));
    if (FrameError error = take_welcome(at, welcome); error != FrameError::none) return error;
    WelcomeGrant record;
    if (!at.take(record)) return FrameError::body_short;
    if (record.reserved != 0) return FrameError::reserved_set;
    if (!at.take_bytes(record.grant_bytes, grant)) return FrameError::body_short;
    return at.left() == 0 ? FrameError::none : FrameError::body_excess;
}

void append_grant(OutBuffer& out, std::string_view grant) {
    CHECK(!grant.empty());
    CHECK(grant.size() <= grant_frame_bytes_max - sizeof(FrameHeader));
    append_frame_header(out, FrameKind::grant, 0, grant.size());
    out.append(grant);
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
