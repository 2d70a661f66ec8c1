// SPDX-License-Identifier: BSD-3-Clause
// protocol/binary: every opcode's shape, every split, false lengths, and replies.
#include "protocol/binary.h"

#include <string>
#include <utility>

#include "t/lib/tap.h"
#include "t/unit/protocol/binary_packets.h"

using namespace farcached::protocol;
using Status = BinaryParse::Status;

namespace {

struct Opcode {
    uint8_t number;
    BinaryVerb verb;
    bool quiet, with_key;
    int extras;  // bytes; flush may also have none
    bool key_must, key_may, value_may;
};

// Written a second time on purpose: memcached was observed to accept exactly this.
const Opcode opcodes[] = {
    {0x00, BinaryVerb::get, false, false, 0, true, true, false},
    {0x09, BinaryVerb::get, true, false, 0, true, true, false},
    {0x0c, BinaryVerb::get, false, true, 0, true, true, false},
    {0x0d, BinaryVerb::get, true, true, 0, true, true, false},
    {0x01, BinaryVerb::set, false, false, 8, true, true, true},
    {0x11, BinaryVerb::set, true, false, 8, true, true, true},
    {0x02, BinaryVerb::add, false, false, 8, true, true, true},
    {0x12, BinaryVerb::add, true, false, 8, true, true, true},
    {0x03, BinaryVerb::replace, false, false, 8, true, true, true},
    {0x13, BinaryVerb::replace, true, false, 8, true, true, true},
    {0x04, BinaryVerb::del, false, false, 0, true, true, false},
    {0x14, BinaryVerb::del, true, false, 0, true, true, false},
    {0x05, BinaryVerb::incr, false, false, 20, true, true, false},
    {0x15, BinaryVerb::incr, true, false, 20, true, true, false},
    {0x06, BinaryVerb::decr, false, false, 20, true, true, false},
    {0x16, BinaryVerb::decr, true, false, 20, true, true, false},
    {0x07, BinaryVerb::quit, false, false, 0, false, false, false},
    {0x17, BinaryVerb::quit, true, false, 0, false, false, false},
    {0x08, BinaryVerb::flush, false, false, 4, false, false, false},
    {0x18, BinaryVerb::flush, true, false, 4, false, false, false},
    {0x0a, BinaryVerb::noop, false, false, 0, false, false, false},
    {0x0b, BinaryVerb::version, false, false, 0, false, false, false},
    {0x0e, BinaryVerb::append, false, false, 0, true, true, true},
    {0x19, BinaryVerb::append, true, false, 0, true, true, true},
    {0x0f, BinaryVerb::prepend, false, false, 0, true, true, true},
    {0x1a, BinaryVerb::prepend, true, false, 0, true, true, true},
    {0x10, BinaryVerb::stat, false, false, 0, false, true, true},
    {0x1c, BinaryVerb::touch, false, false, 4, true, true, true},
    {0x1d, BinaryVerb::gat, false, false, 4, true, true, true},
    {0x1e, BinaryVerb::gat, true, false, 4, true, true, true},
    {0x23, BinaryVerb::gat, false, true, 4, true, true, true},
    {0x24, BinaryVerb::gat, true, true, 4, true, true, true},
    {0x20, BinaryVerb::sasl_list, false, false, 0, false, false, false},
    {0x21, BinaryVerb::sasl_auth, false, false, 0, true, true, true},
    {0x22, BinaryVerb::sasl_step, false, false, 0, true, true, true},
};

const std::string extras20 = "abcdefghijklmnopqrst";

packets::Packet shaped(const Opcode& o, int extras, bool key, bool value) {
    return packets::request(o.number, key ? "some key" : "", value ? "value" : "",
                            extras20.substr(0, size_t(extras)), 0x1122334455667788);
}

// Parses `bytes` at every split: nothing before the head is whole, the same afterwards.
bool same_at_every_split(const std::string& bytes, size_t head_bytes) {
    for (size_t size = 0; size <= bytes.size(); size++) {
        BinaryParse parse = parse_binary(std::string_view(bytes).substr(0, size));
        bool whole = size >= head_bytes;
        if ((parse.status == Status::need_more) == whole) return false;
        if (!whole && parse.head_bytes <= size) return false;
        if (parse.head_bytes > binary_head_bytes_max) return false;
        if (whole && parse.head_bytes != head_bytes) return false;
    }
    return true;
}

void test_good(const Opcode& o) {
    char name[64];
    for (int value = 0; value <= int(o.value_may); value++) {
        for (int key = int(o.key_must); key <= int(o.key_may); key++) {
            packets::Packet p = shaped(o, o.extras, key != 0, value != 0);
            std::string bytes = p.bytes();
            BinaryParse parse = parse_binary(bytes);
            const BinaryRequest& r = parse.request;
            bool good = parse.status == Status::request && r.verb == o.verb && r.quiet == o.quiet &&
                        r.with_key == o.with_key && r.opcode == o.number && r.opaque == p.opaque &&
                        r.cas == p.cas && r.key == p.key && parse.value_bytes == p.value.size() &&
                        parse.head_bytes == bytes.size() - p.value.size();
            std::snprintf(name, sizeof name, "%02x with%s key, with%s value", o.number,
                          key ? "" : "out", value ? "" : "out");
            tap::ok(good && same_at_every_split(bytes, parse.head_bytes), name);
        }
    }
}

bool refused(const packets::Packet& p) {
    // Answered from the header alone.
    BinaryParse parse = parse_binary(p.bytes().substr(0, binary_header_bytes));
    return parse.status == Status::error && parse.error == BinaryStatus::invalid &&
           parse.request.opcode == p.opcode && parse.request.opaque == p.opaque;
}

void test_bad(const Opcode& o) {
    size_t wrong = 0;
    bool flush = o.verb == BinaryVerb::flush;
    for (int extras = 0; extras <= 20; extras++) {
        bool good = extras == o.extras || (flush && extras == 0);
        if (!good && !refused(shaped(o, extras, o.key_must, false))) wrong++;
    }
    if (o.key_must && !refused(shaped(o, o.extras, false, false))) wrong++;
    if (!o.key_may && !refused(shaped(o, o.extras, true, false))) wrong++;
    if (!o.value_may && !refused(shaped(o, o.extras, o.key_must, true))) wrong++;
    packets::Packet p = shaped(o, o.extras, false, false);
    if (o.key_may) {
        p.key = std::string(251, 'k');
        if (!refused(p)) wrong++;
        p.key = std::string(250, 'k');
        if (parse_binary(p.bytes()).status != Status::request) wrong++;
    }
    char name[64];
    std::snprintf(name, sizeof name, "%02x refuses every other shape", o.number);
    tap::is(wrong, 0u, name);
}

void test_unknown() {
    bool known[256] = {};
    for (const Opcode& o : opcodes) known[o.number] = true;
    size_t wrong = 0;
    for (int opcode = 0; opcode < 256; opcode++) {
        if (known[opcode]) continue;
        packets::Packet p = packets::request(uint8_t(opcode), "key", "a value", "extras");
        BinaryParse parse = parse_binary(p.bytes().substr(0, binary_header_bytes));
        if (parse.status != Status::request || parse.request.verb != BinaryVerb::unknown) wrong++;
        if (parse.head_bytes != binary_header_bytes) wrong++;
        if (parse.value_bytes != p.body_bytes()) wrong++;
    }
    tap::is(wrong, 0u, "every other opcode is unknown, and its whole body is discarded");
    tap::ok(refused(packets::request(0x30, std::string(251, 'k'))),
            "unknown with a key of 251 bytes is refused");
}

// ElastiCache's, which memcached does not know: any other shape is that of an unknown opcode.
void test_config_get() {
    const std::string bytes = packets::request(0x60, "cluster").bytes();
    const BinaryParse parse = parse_binary(bytes);
    tap::ok(parse.status == Status::request && parse.request.verb == BinaryVerb::config_get, "60 with a key");
    tap::ok(parse.request.key == "cluster" && parse.head_bytes == bytes.size() && parse.value_bytes == 0, "is config get");
    tap::ok(same_at_every_split(bytes, bytes.size()), "at every split");
    const packets::Packet others[] = {packets::request(0x60), packets::request(0x60, "cluster", "v"),
                                      packets::request(0x60, "cluster", "", "extr"), packets::request(0x60, "", "value")};
    size_t wrong = 0;
    for (const packets::Packet& other : others) {
        const BinaryParse unknown = parse_binary(other.bytes().substr(0, binary_header_bytes));
        if (unknown.status != Status::request || unknown.request.verb != BinaryVerb::unknown) wrong++;
        if (unknown.value_bytes != other.body_bytes()) wrong++;
    }
    tap::is(wrong, 0u, "60 in another shape is unknown");
    tap::ok(refused(packets::request(0x60, std::string(251, 'k'))), "60 with a key of 251 bytes is refused");
}

void test_extras() {
    BinaryParse parse = parse_binary(
        packets::request(0x01, "k", "v", packets::set_extras(0x01020304, 0xfffffffe)).bytes());
    tap::is(parse.request.flags, 0x01020304u, "set: flags");
    tap::is(parse.request.exptime, 0xfffffffeu, "set: exptime");
    std::string arith = packets::arith_extras(0x0102030405060708, 0xf1f2f3f4f5f6f7f8, 0xffffffff);
    parse = parse_binary(packets::request(0x05, "k", "", arith).bytes());
    tap::is(parse.request.delta, UINT64_C(0x0102030405060708), "incr: delta");
    tap::is(parse.request.initial, UINT64_C(0xf1f2f3f4f5f6f7f8), "incr: initial");
    tap::is(parse.request.exptime, binary_no_create, "incr: expiration");
    parse = parse_binary(packets::request(0x1c, "k", "", packets::big(77, 4)).bytes());
    tap::is(parse.request.exptime, 77u, "touch: exptime");
    parse = parse_binary(packets::request(0x08, "", "", packets::big(99, 4)).bytes());
    tap::is(parse.request.exptime, 99u, "flush: delay");
    parse = parse_binary(packets::request(0x08).bytes());
    tap::ok(parse.status == Status::request, "flush without a delay");
    tap::is(parse.request.exptime, 0u, "flush: no delay is 0");
    packets::Packet p = packets::request(0x00, "k");
    p.datatype = 0xff;
    p.status = 0xffff;
    tap::ok(parse_binary(p.bytes()).status == Status::request, "datatype and vbucket are ignored");
}

void test_lies() {
    packets::Packet p = packets::request(0x01, "key", "", packets::set_extras(0, 0));
    for (size_t body : {size_t(0), size_t(1), size_t(3), size_t(8), size_t(10)}) {
        BinaryParse parse = parse_binary(p.with_lengths(3, 8, body).substr(0, 24));
        bool good = parse.status == Status::error && parse.error == BinaryStatus::unknown_command;
        tap::ok(good, "extras and key of 11 bytes in a body of " + std::to_string(body));
    }
    BinaryParse parse = parse_binary(p.with_lengths(3, 8, 1 << 30));
    tap::ok(parse.status == Status::request, "a body of 1 GiB: the head is accepted");
    tap::is(parse.head_bytes, 24u + 11u, "its head has 35 bytes");
    tap::is(parse.value_bytes, (1u << 30) - 11u, "its value is promised only");
    parse = parse_binary(p.with_lengths(3, 8, (1 << 30) + 1).substr(0, 24));
    tap::ok(parse.status == Status::error && parse.error == BinaryStatus::invalid, "a body above 1 GiB is none");
    parse = parse_binary(p.with_lengths(0xffff, 0xff, 0xffffffff));
    tap::ok(parse.status == Status::error, "a key of 65535 bytes is not waited for");
    parse = parse_binary(packets::request(0x77).with_lengths(250, 255, 1 << 30).substr(0, 24));
    tap::ok(parse.status == Status::request, "nor is the head of an unknown opcode");
    tap::is(parse.value_bytes, 1u << 30, "its whole body is discarded");
}

void test_magic() {
    size_t wrong = 0;
    for (int first = 0; first < 256; first++) {
        char c = char(first);
        Status status = parse_binary(std::string_view(&c, 1)).status;
        if (status != (first == 0x80 ? Status::need_more : Status::close)) wrong++;
    }
    tap::is(wrong, 0u, "the first byte is 0x80 or the connection closes");
    tap::ok(parse_binary("").status == Status::need_more, "no bytes: more are needed");
    std::string reply = packets::reply(0x00, 0).bytes();
    tap::ok(parse_binary(reply).status == Status::close, "a reply is no request");
}

void test_replies() {
    BinaryReply reply;
    reply.opcode = 0x0c;
    reply.status = BinaryStatus::unknown_command;
    reply.key_bytes = 0x0102;
    reply.extras_bytes = 4;
    reply.value_bytes = 0x01000000;
    reply.opaque = 0x11223344;
    reply.cas = 0x0102030405060708;
    char bytes[binary_header_bytes + 12];
    char* end = write_binary_header(bytes, reply);
    end = write_big_endian(end, uint32_t(0x0a0b0c0d));
    end = write_big_endian(end, uint64_t(0x1a1b1c1d1e1f2021));
    tap::is(std::string_view(bytes, size_t(end - bytes)),
            std::string_view("\x81\x0c\x01\x02\x04\x00\x00\x81\x01\x00\x01\x06\x11\x22\x33\x44"
                             "\x01\x02\x03\x04\x05\x06\x07\x08"
                             "\x0a\x0b\x0c\x0d\x1a\x1b\x1c\x1d\x1e\x1f\x20\x21",
                             36),
            "a reply's header, and numbers");
    const std::pair<BinaryStatus, const char*> texts[] = {
        {BinaryStatus::ok, ""},
        {BinaryStatus::not_found, "Not found"},
        {BinaryStatus::exists, "Data exists for key."},
        {BinaryStatus::too_large, "Too large."},
        {BinaryStatus::invalid, "Invalid arguments"},
        {BinaryStatus::not_stored, "Not stored."},
        {BinaryStatus::non_numeric, "Non-numeric server-side value for incr or decr"},
        {BinaryStatus::auth, "Auth failure."},
        {BinaryStatus::unknown_command, "Unknown command"},
        {BinaryStatus::no_memory, "Out of memory"},
    };
    for (auto [status, text] : texts)
        tap::is(binary_status_text(status), text, std::string("the text of a status: ") + text);
}

}  // namespace

int main() {
    for (const Opcode& o : opcodes) test_good(o);
    for (const Opcode& o : opcodes) test_bad(o);
    test_unknown();
    test_config_get();
    test_extras();
    test_lies();
    test_magic();
    test_replies();
    return tap::done();
}
