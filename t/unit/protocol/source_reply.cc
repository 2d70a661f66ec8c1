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
        {"VA 5 f7 t60 O99\r\nhello\r\n", Status::item},
        {"VA 0 f0 t-1 O1\r\n\r\n", Status::item},
        {"VA 5 f7 t0 O99\r\nhello\r\n", Status::unusable},
        {"VA 5 f7 t60 O99 W\r\nhello\r\n", Status::unusable},
        {"VA 5 W X f7 t60 O99\r\nhello\r\n", Status::unusable},
        {"VA 0 f0 t60 Z\r\n\r\n", Status::unusable},
        {"EN\r\n", Status::miss},
        {"NF O4\r\n", Status::not_found},
        {"HD O18446744073709551615\r\n", Status::deleted},
        {"OK\r\n", Status::ok},
        {"MN\r\n", Status::version},
        {"ERROR\r\n", Status::refused},
        {"SERVER_ERROR Out of memory\r\n", Status::refused},
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
    tap::ok(item.value == "hello" && item.flags == 7 && item.ttl_s == 60 && item.opaque == 99U, "the fields of an item");
    tap::is(parse(all[1].text).ttl_s, -1, "an item that does not expire");
    tap::ok(!parse(all[6].text).opaque && parse(all[7].text).opaque == 4U && parse(all[8].text).opaque == UINT64_MAX,
            "the numbers of commands");
}

void refused() {
    const SourceReply large = parse("VA 1001 f0 t1 O5\r\nx");
    tap::ok(large.status == Status::too_large && large.skip == 1003 && large.bytes == 18 && large.opaque == 5U,
            "a value above the limit is not kept");
    for (std::string_view text : {"VA\r\n", "VA x f0 t1\r\n", "VA -1 f0 t1\r\n", "VA 99999999999999999999 f0 t1\r\n",
                                  "VA 1073741825 f0 t1\r\n", "VA 2 f0\r\nab\r\n", "VA 2 t1\r\nab\r\n", "VA 2 fx t1\r\nab\r\n",
                                  "VA 2 f0 t-2\r\nab\r\n", "VA 2 f0 t1\r\nabc\r\n", "VA 2 f0 t1 Ox\r\nab\r\n", "HD O-1\r\n",
                                  "VALUE k 0 1\r\n", "\r\n", "STORED\r\n"})
        tap::ok(parse(text).status == Status::invalid, "no reply: " + std::string(text));
    tap::ok(parse(std::string(2048, 'x')).status == Status::invalid, "a line without an end");
}

void commands() {
    std::string text;
    tap::ok(protocol::append_source_get(text, "key", 7) && protocol::append_source_delete(text, "key", 8), "commands for a word");
    tap::is(text, "mg key v f t O7\r\nmd key O8\r\n", "have its number");
    text.clear();
    const bool both = protocol::append_source_get(text, "a b", 9) && protocol::append_source_delete(text, {"\0\r\n", 3}, 10);
    tap::ok(both, "any other key");
    tap::is(text, "mg YSBi b v f t O9\r\nmd AA0K b O10\r\n", "goes as base64");
    for (size_t bytes : {186, 187, 250}) {
        text.clear();
        const bool fits = bytes == 186;
        tap::is(protocol::append_source_get(text, std::string(bytes, '\1'), 1), fits,
                std::to_string(bytes) + " bytes: only if memcached takes the base64");
        tap::is(text.empty(), !fits, "else nothing is appended");
    }
    tap::ok(protocol::append_source_get(text, std::string(250, 'k'), 1), "a word may have 250 bytes");
}

}  // namespace

int main() {
    kinds();
    refused();
    commands();
    return tap::done();
}
