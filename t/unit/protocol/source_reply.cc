// SPDX-License-Identifier: BSD-3-Clause
// Replies of another memcached: every kind, at every split; and what is no reply.
#include "protocol/source_reply.h"

#include <string>

#include "t/lib/tap.h"

using namespace farcached;
using protocol::SourceReply;
using Status = SourceReply::Status;

namespace {

constexpr uint64_t value_bytes_max = 1000;

SourceReply parse(std::string_view input) { return protocol::parse_source_reply(input, value_bytes_max); }

void kinds() {
    struct Case {
        std::string_view text;
        Status status;
    };
    const Case all[] = {
        {"VA 5 f7 t60 c99\r\nhello\r\n", Status::item},
        {"VA 0 f0 t-1 c1\r\n\r\n", Status::item},
        {"VA 5 f7 t0 c99\r\nhello\r\n", Status::absent},
        {"VA 5 f7 t60 c99 W\r\nhello\r\n", Status::absent},
        {"VA 5 f7 t60 c99 X W\r\nhello\r\n", Status::absent},
        {"VA 0 f0 t60 c99 Z\r\n\r\n", Status::absent},
        {"EN\r\n", Status::absent},
        {"NF\r\n", Status::absent},
        {"HD\r\n", Status::done},
        {"OK\r\n", Status::done},
        {"MN\r\n", Status::done},
        {"ERROR\r\n", Status::refused},
        {"SERVER_ERROR out of memory\r\n", Status::refused},
        {"CLIENT_ERROR bad command line format\r\n", Status::refused},
    };
    for (const Case& one : all) {
        bool waits = true;
        for (size_t cut = 0; cut < one.text.size(); cut++)
            waits = waits && parse(one.text.substr(0, cut)).status == Status::need_more;
        const SourceReply reply = parse(std::string(one.text) + "EN\r\n");
        tap::ok(waits && reply.status == one.status && reply.bytes == one.text.size(),
                "parsed at every split: " + std::string(one.text.substr(0, 12)));
    }
    const SourceReply item = parse(all[0].text);
    tap::ok(item.value == "hello" && item.flags == 7 && item.ttl_s == 60 && item.cas == 99, "the fields of an item");
    tap::is(parse(all[1].text).ttl_s, -1, "an item that does not expire");
}

void refused() {
    const SourceReply large = parse("VA 1001 f0 t1 c1\r\nx");
    tap::ok(large.status == Status::too_large && large.skip == 1003 && large.bytes == 18, "a value above the limit is not kept");
    for (std::string_view text : {"VA\r\n", "VA x f0 t1 c1\r\n", "VA -1 f0 t1 c1\r\n", "VA 99999999999999999999 f0 t1 c1\r\n",
                                  "VA 2 f0 t1\r\nab\r\n", "VA 2 f0 c1\r\nab\r\n", "VA 2 t1 c1\r\nab\r\n", "VA 2 fx t1 c1\r\nab\r\n",
                                  "VA 2 f0 t-2 c1\r\nab\r\n", "VA 2 f0 t1 c1\r\nabc\r\n", "VALUE k 0 1\r\n", "\r\n", "STORED\r\n"})
        tap::ok(parse(text).status == Status::invalid, "no reply: " + std::string(text));
    tap::ok(parse(std::string(2048, 'x')).status == Status::invalid, "a line without an end");
}

void commands() {
    std::string text;
    protocol::append_source_get(text, "key");
    protocol::append_source_delete(text, "key");
    tap::is(text, "mg key v f t c\r\nmd key\r\n", "commands for a word");
    text.clear();
    protocol::append_source_get(text, "a b");
    protocol::append_source_delete(text, std::string_view("\0\r\n", 3));
    tap::is(text, "mg YSBi b v f t c\r\nmd AA0K b\r\n", "any other key goes as base64");
}

}  // namespace

int main() {
    kinds();
    refused();
    commands();
    return tap::done();
}
