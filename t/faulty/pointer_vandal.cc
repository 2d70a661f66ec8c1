// SPDX-License-Identifier: BSD-3-Clause
// Writes invalid entries into a table of remote pointers, again and again until its input ends.
//
//     pointer_vandal NAME places    whole pointers, to places behind the end of every region
//     pointer_vandal NAME leases    entries whose lease ends an hour later than their check covers
//     pointer_vandal NAME boards    noise, into the report boards
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "base/node_clock.h"
#include "proxy/pointer_table.h"
#include "t/unit/proxy/pointer_table_fixture.h"

namespace {

using namespace farcached;

constexpr uint64_t hour_ns = UINT64_C(3'600'000'000'000);
constexpr int pause_ms = 5;

bool input_ended() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    char byte = 0;
    return poll(&input, 1, pause_ms) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

void spoil_places(proxy::PointerTable& table) {
    std::vector<proxy::PointerTable::Record> records;
    table.walk(0, table.entries(), [&](const proxy::PointerTable::Record& record) { records.push_back(record); });
    for (auto& [key_hash, leased, filler, accesses] : records) {
        if (leased.ptr.offset > fabric::remote_offset_max / 2) continue;
        leased.ptr.offset += fabric::remote_offset_max / 2 + 1;
        leased.ptr.generation++;
        leased.valid_until_ns += hour_ns;
        (void)table.put(key_hash, leased, boottime_ns());
    }
}

void spoil_leases(table_test::Raw& raw, uint64_t entries) {
    for (uint64_t i = 0; i < entries; i++) {
        uint64_t* entry = raw.entry(i);
        const uint64_t end = words::load_relaxed(entry + proxy::word_valid_until);
        if (end != 0 && end < boottime_ns() + hour_ns / 2)
            words::store_relaxed(entry + proxy::word_valid_until, end + hour_ns);
    }
}

void spoil_boards(table_test::Raw& raw, uint64_t entries, uint64_t& random) {
    auto* words = reinterpret_cast<uint64_t*>(raw.byte(proxy::table_boards_offset(entries)));
    const uint64_t count = proxy::boards_bytes(entries) / sizeof(uint64_t);
    for (uint64_t i = 0; i < count; i++) {
        random = table_test::mix(random);
        if (random >> 60 == 0) words::store_relaxed(words + i, random);
    }
}

int fail(const std::string& what) {
    std::fprintf(stderr, "pointer_vandal: %s\n", what.c_str());
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string name = argc == 3 ? argv[1] : "", what = argc == 3 ? argv[2] : "";
    if (what != "places" && what != "leases" && what != "boards") return fail("pointer_vandal NAME places|leases|boards");
    proxy::TableOptions options;
    options.name = name;
    options.seed = 1;
    auto host = proxy::TableHost::of_this_process();
    if (auto* failure = std::get_if<proxy::TableFailure>(&host)) return fail(failure->message);
    options.host = std::get<proxy::TableHost>(host);
    auto opened = proxy::PointerTable::open(options);
    if (auto* failure = std::get_if<proxy::TableFailure>(&opened)) return fail(failure->message);
    proxy::PointerTable& table = *std::get<0>(opened);
    table_test::Raw raw(name);
    uint64_t random = 1;
    while (!input_ended()) {
        if (what == "places") spoil_places(table);
        if (what == "leases") spoil_leases(raw, table.entries());
        if (what == "boards") spoil_boards(raw, table.entries(), random);
    }
    return 0;
}
