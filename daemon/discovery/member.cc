// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/member.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "conf/addresses.h"
#include "conf/program.h"
#include "daemon/discovery/json_fields.h"
#include "process/json_text.h"

namespace farcached::daemon {

namespace {

using Parsed = Result<Member, std::string>;

bool is_printable(char c) { return c > ' ' && c < 0x7f; }

// False: there is something else than a text.
bool take_text(const JsonFields& fields, std::string_view path, std::string& to) {
    if (!fields.has(path)) return true;
    const std::string* const text = fields.text(path);
    if (text == nullptr) return false;
    to = *text;
    return true;
}

template <class Number>
bool take_number(const JsonFields& fields, std::string_view path, int64_t min, int64_t max, Number& to) {
    if (!fields.has(path)) return true;
    const std::optional<int64_t> number = fields.whole(path);
    if (!number.has_value() || *number < min || *number > max) return false;
    to = Number(*number);
    return true;
}

// 64 bits, as a text.
bool take_incarnation(const JsonFields& fields, uint64_t& to) {
    if (!fields.has("incarnation")) return true;
    const std::string* const text = fields.text("incarnation");
    if (text == nullptr || text->empty()) return false;
    const char* const end = text->data() + text->size();
    const auto [read, error] = std::from_chars(text->data(), end, to);
    return error == std::errc() && read == end;
}

bool is_address(const std::string& text) {
    std::string host;
    uint16_t port = 0;
    return text.empty() || !conf::parse_host_and_port(text, "", 1, host, port);
}

bool is_word(const std::string& text, size_t bytes_max) {
    return text.size() <= bytes_max && std::ranges::all_of(text, is_printable);
}

void take_socket(const JsonFields& fields, Member& member) {
    std::string path, identity;
    if (!take_text(fields, "addresses.shm", path) || !take_text(fields, "shm_socket", identity)) return;
    if (!path.starts_with('/') || !conf::is_socket_path(path)) return;
    if (identity.empty() || !is_word(identity, Member::socket_bytes_max)) return;
    member.shm = std::move(path);
    member.shm_socket = std::move(identity);
}

constexpr uint32_t ttl_s_max = 3600;  // more than any farnode asks for

}  // namespace

bool is_zone_name(std::string_view text) { return text.size() <= Member::word_bytes_max && conf::is_node_name(text); }

std::string member_text(const Member& member) {
    process::JsonText json;
    json.begin('{');
    json.add("name", member.name);
    json.begin("addresses", '{');
    if (!member.tcp.empty()) json.add("tcp", member.tcp);
    if (!member.verbs.empty()) json.add("verbs", member.verbs);
    if (!member.shm.empty()) json.add("shm", member.shm);
    json.end('}');
    if (!member.shm.empty()) json.add("shm_socket", member.shm_socket);
    json.add("weight", member.weight);
    if (!member.zone.empty()) json.add("zone", member.zone);
    json.add("incarnation", std::to_string(member.incarnation));
    json.add("version", member.version);
    json.add("ttl", member.ttl_s);
    json.end('}');
    return json.text();
}

Parsed parse_member(std::string_view name, std::string_view text) {
    if (!conf::is_node_name(name)) return "has a name that no node may have";
    if (text.size() > Member::bytes_max) return "has more than " + std::to_string(Member::bytes_max) + " bytes";
    const std::optional<JsonFields> fields = JsonFields::parse(text);
    if (!fields.has_value()) return "is no JSON";
    Member member;
    const std::string* const own_name = fields->text("name");
    if (own_name == nullptr || *own_name != name) return "does not repeat the name of its key";
    member.name = *own_name;
    if (!take_text(*fields, "addresses.tcp", member.tcp) || !take_text(*fields, "addresses.verbs", member.verbs) ||
        !is_address(member.tcp) || !is_address(member.verbs))
        return "has an address that is not HOST:PORT";
    if (member.tcp.empty() && member.verbs.empty()) return "has no address";
    take_socket(*fields, member);
    if (!take_number(*fields, "weight", 0, limits::node_weight_max, member.weight))
        return "has a weight that is not a whole number from 0 to " + std::to_string(limits::node_weight_max);
    if (!take_text(*fields, "zone", member.zone) || (!member.zone.empty() && !is_zone_name(member.zone)))
        return "has a zone that is not a name";
    if (!take_incarnation(*fields, member.incarnation)) return "has an incarnation that is not a number";
    if (!take_text(*fields, "version", member.version) || !is_word(member.version, Member::word_bytes_max))
        return "has a version that is not a word";
    if (!take_number(*fields, "ttl", 0, ttl_s_max, member.ttl_s)) return "has a ttl that is not a number of seconds";
    return member;
}

Result<conf::NodeSpec, std::string> spec_of(const Member& member, const MemberWays& ways, const std::string& origin) {
    conf::NodeSpec spec;
    const bool over_rdma = ways.channel == conf::NodeChannel::verbs && !member.verbs.empty();
    const std::string& address = over_rdma ? member.verbs : member.tcp;
    if (address.empty()) return std::string("has no address for tcp");
    if (conf::parse_host_and_port(address, "", 1, spec.host, spec.port)) return std::string("has an address that is not HOST:PORT");
    spec.name = member.name;
    spec.channel = over_rdma ? conf::NodeChannel::verbs : conf::NodeChannel::tcp;
    spec.weight = member.weight;
    spec.origin = origin;
    const bool is_here = !ways.boot.empty() && member.shm_socket.starts_with(ways.boot + ":");
    if (is_here && member.incarnation != 0) spec.socket = {member.shm, member.shm_socket, member.incarnation};
    return spec;
}

}  // namespace farcached::daemon
