// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/binary.h"

#include <array>
#include <concepts>
#include <cstring>

namespace farcached::protocol {

namespace {

uint16_t from_big_endian(uint16_t n) { return __builtin_bswap16(n); }
uint32_t from_big_endian(uint32_t n) { return __builtin_bswap32(n); }
uint64_t from_big_endian(uint64_t n) { return __builtin_bswap64(n); }

template <std::unsigned_integral T>
T read_big_endian(const char* from) {
    T n;
    std::memcpy(&n, from, sizeof n);
    return from_big_endian(n);
}

// ---- the shape of each opcode -----------------------------------------------------------------------

enum class Part : uint8_t { none, must, may };

struct Rule {
    BinaryVerb verb = BinaryVerb::unknown;
    uint8_t extras_bytes = 0;
    bool extras_optional = false;  // flush: its delay
    Part key = Part::may;
    Part value = Part::may;  // never must: every value may be empty
    bool quiet = false;
    bool with_key = false;
    bool any_shape = true;  // unknown opcode: only the checks of all opcodes apply
    bool else_unknown = false;  // another shape makes the opcode unknown, instead of the request impossible
};

constexpr Rule shape(BinaryVerb verb, uint8_t extras_bytes, Part key, Part value) {
    Rule rule;
    rule.verb = verb;
    rule.extras_bytes = extras_bytes;
    rule.key = key;
    rule.value = value;
    rule.any_shape = false;
    return rule;
}

constexpr Rule with_key(Rule rule) {
    rule.with_key = true;
    return rule;
}

constexpr Rule optional_extras(Rule rule) {
    rule.extras_optional = true;
    return rule;
}

// memcached does not know it: a request that cannot be for us gets memcached's answer.
constexpr Rule else_unknown(Rule rule) {
    rule.else_unknown = true;
    return rule;
}

constexpr size_t opcodes_known = 0x61;

// Longer than any item: memcached treats such a body as garbage and closes.
constexpr uint32_t body_bytes_max = uint32_t(1) << 30;

// The opcode table, each loud opcode with its quiet twin.
constexpr std::array<Rule, opcodes_known> make_opcode_rules() {
    using V = BinaryVerb;
    std::array<Rule, opcodes_known> opcode_rules{};
    auto both = [&](uint8_t loud, uint8_t quiet, Rule rule) {
        opcode_rules[loud] = rule;
        rule.quiet = true;
        opcode_rules[quiet] = rule;
    };
    const Rule get = shape(V::get, 0, Part::must, Part::none);
    const Rule gat = shape(V::gat, 4, Part::must, Part::may);
    both(0x00, 0x09, get);
    both(0x0c, 0x0d, with_key(get));
    both(0x1d, 0x1e, gat);
    both(0x23, 0x24, with_key(gat));
    opcode_rules[0x1c] = shape(V::touch, 4, Part::must, Part::may);
    both(0x01, 0x11, shape(V::set, 8, Part::must, Part::may));
    both(0x02, 0x12, shape(V::add, 8, Part::must, Part::may));
    both(0x03, 0x13, shape(V::replace, 8, Part::must, Part::may));
    both(0x0e, 0x19, shape(V::append, 0, Part::must, Part::may));
    both(0x0f, 0x1a, shape(V::prepend, 0, Part::must, Part::may));
    both(0x04, 0x14, shape(V::del, 0, Part::must, Part::none));
    both(0x05, 0x15, shape(V::incr, 20, Part::must, Part::none));
    both(0x06, 0x16, shape(V::decr, 20, Part::must, Part::none));
    both(0x07, 0x17, shape(V::quit, 0, Part::none, Part::none));
    both(0x08, 0x18, optional_extras(shape(V::flush, 4, Part::none, Part::none)));
    opcode_rules[0x0a] = shape(V::noop, 0, Part::none, Part::none);
    opcode_rules[0x0b] = shape(V::version, 0, Part::none, Part::none);
    opcode_rules[0x10] = shape(V::stat, 0, Part::may, Part::may);
    opcode_rules[0x20] = shape(V::sasl_list, 0, Part::none, Part::none);
    opcode_rules[0x21] = shape(V::sasl_auth, 0, Part::must, Part::may);
    opcode_rules[0x22] = shape(V::sasl_step, 0, Part::must, Part::may);
    opcode_rules[0x60] = else_unknown(shape(V::config_get, 0, Part::must, Part::none));
    return opcode_rules;
}

constexpr std::array<Rule, opcodes_known> opcode_rules = make_opcode_rules();
constexpr Rule unknown_rule{};

constexpr uint8_t extras_bytes_most() {
    uint8_t most = 0;
    for (const Rule& rule : opcode_rules) most = rule.extras_bytes > most ? rule.extras_bytes : most;
    return most;
}
static_assert(extras_bytes_most() == binary_extras_bytes_max);

struct Lengths {
    uint32_t key, extras, body;
    uint32_t head() const { return key + extras; }
};

bool fits(const Rule& rule, const Lengths& lengths) {
    if (rule.any_shape) return true;
    if (lengths.extras != rule.extras_bytes)
        if (!rule.extras_optional || lengths.extras != 0) return false;
    if (rule.key == Part::must && lengths.key == 0) return false;
    if (rule.key == Part::none && lengths.key != 0) return false;
    return rule.value != Part::none || lengths.body == lengths.head();
}

void read_extras(BinaryRequest& request, const char* extras, uint32_t extras_bytes) {
    switch (request.verb) {
        case BinaryVerb::set:
        case BinaryVerb::add:
        case BinaryVerb::replace:
            request.flags = read_big_endian<uint32_t>(extras);
            request.exptime = read_big_endian<uint32_t>(extras + 4);
            return;
        case BinaryVerb::touch:
        case BinaryVerb::gat:
        case BinaryVerb::flush:
            if (extras_bytes != 0) request.exptime = read_big_endian<uint32_t>(extras);
            return;
        case BinaryVerb::incr:
        case BinaryVerb::decr:
            request.delta = read_big_endian<uint64_t>(extras);
            request.initial = read_big_endian<uint64_t>(extras + 8);
            request.exptime = read_big_endian<uint32_t>(extras + 16);
            return;
        default: return;
    }
}

void refuse(BinaryParse& parse, BinaryStatus error) {
    parse.status = BinaryParse::Status::error;
    parse.error = error;
}

}  // namespace

std::string_view binary_status_text(BinaryStatus status) {
    switch (status) {
        case BinaryStatus::ok:
        case BinaryStatus::auth_continue: return "";
        case BinaryStatus::not_found: return "Not found";
        case BinaryStatus::exists: return "Data exists for key.";
        case BinaryStatus::too_large: return "Too large.";
        case BinaryStatus::invalid: return "Invalid arguments";
        case BinaryStatus::not_stored: return "Not stored.";
        case BinaryStatus::non_numeric: return "Non-numeric server-side value for incr or decr";
        case BinaryStatus::auth: return "Auth failure.";
        case BinaryStatus::no_access: return "Permission denied";
        case BinaryStatus::unknown_command: return "Unknown command";
        case BinaryStatus::temporary_failure: return "Temporary failure";
        case BinaryStatus::no_memory: break;
    }
    return "Out of memory";
}

bool binary_may_authenticate(std::string_view input) {
    for (size_t at = input.find(char(binary_request_magic)); at < input.size(); at = input.find(char(binary_request_magic), at + 1))
        if (at + 1 < input.size() && (input[at + 1] == 0x21 || input[at + 1] == 0x22)) return true;
    return false;
}

BinaryParse parse_binary(std::string_view input) {
    BinaryParse parse;
    if (!input.empty() && uint8_t(input[0]) != binary_request_magic) {
        parse.status = BinaryParse::Status::close;
        return parse;
    }
    parse.head_bytes = binary_header_bytes;
    if (input.size() < binary_header_bytes) return parse;

    const char* at = input.data();
    BinaryRequest& request = parse.request;
    request.opcode = uint8_t(at[1]);
    request.opaque = read_big_endian<uint32_t>(at + 12);
    const Lengths lengths{read_big_endian<uint16_t>(at + 2), uint8_t(at[4]),
                          read_big_endian<uint32_t>(at + 8)};
    const Rule& listed = request.opcode < opcodes_known ? opcode_rules[request.opcode] : unknown_rule;
    const Rule& rule = listed.else_unknown && !fits(listed, lengths) ? unknown_rule : listed;
    if (lengths.head() > lengths.body) {
        refuse(parse, BinaryStatus::unknown_command);
        return parse;
    }
    parse.body_too_long = lengths.body > body_bytes_max;
    if (parse.body_too_long || lengths.key > limits::key_bytes_max || !fits(rule, lengths)) {
        refuse(parse, BinaryStatus::invalid);
        return parse;
    }
    request.verb = rule.verb;
    request.quiet = rule.quiet;
    request.with_key = rule.with_key;
    request.cas = read_big_endian<uint64_t>(at + 16);
    if (rule.verb == BinaryVerb::unknown) {  // its content is not parsed
        parse.status = BinaryParse::Status::request;
        parse.value_bytes = lengths.body;
        return parse;
    }
    parse.head_bytes += lengths.head();
    if (input.size() < parse.head_bytes) return parse;
    parse.status = BinaryParse::Status::request;
    parse.value_bytes = lengths.body - lengths.head();
    read_extras(request, at + binary_header_bytes, lengths.extras);
    request.key = input.substr(binary_header_bytes + lengths.extras, lengths.key);
    return parse;
}

}  // namespace farcached::protocol
