// SPDX-License-Identifier: BSD-3-Clause
// Frames of UDP, and the limit on a reply.
#include "protocol/udp_frame.h"

#include <array>
#include <string>
#include <string_view>

#include "t/lib/tap.h"

using namespace farcached::protocol;

namespace {

std::string frame(uint16_t id, uint16_t number, uint16_t total, uint16_t reserved, std::string_view bytes) {
    std::string text;
    for (const uint16_t word : {id, number, total, reserved}) {
        text += char(word >> 8);
        text += char(word & 0xff);
    }
    return text + std::string(bytes);
}

std::string parsed(std::string_view datagram) {
    const auto request = parse_udp_request(datagram);
    return request.has_value() ? std::to_string(request->id) + " " + std::string(request->bytes) : "none";
}

void test_requests() {
    tap::is(parsed(frame(0x1234, 0, 1, 0, "get a\r\n")), "4660 get a\r\n", "a request");
    tap::is(parsed(frame(0xffff, 7, 1, 9, "x")), "65535 x", "number and reserved bytes are not read");
    const std::string whole = frame(1, 0, 1, 0, "x");
    size_t accepted = 0;
    for (size_t size = 0; size < whole.size(); size++) accepted += parsed(std::string_view(whole).substr(0, size)) != "none";
    tap::is(accepted, size_t(0), "a shorter datagram is none");
    for (const uint16_t total : {0, 2, 255, 256, 257, 0xffff})
        tap::is(parsed(frame(1, 0, total, 0, "get a\r\n")), "none", "nor one of several");
    for (const std::string_view reply : {"ERROR\r\n", "CLIENT_ERROR x\r\n", "SERVER_ERROR x\r\n", "\x81..."})
        tap::is(parsed(frame(1, 0, 1, 0, reply)), "none", "nor a reply");
    tap::is(parsed(frame(1, 0, 1, 0, "\x80...")), "1 \x80...", "a binary request");
}

void test_headers() {
    std::array<char, udp_header_bytes> header{};
    tap::ok(write_udp_header(header.data(), 0x1234, 0x102, 0x304) == header.data() + header.size(), "a header has eight bytes");
    tap::is(std::string(header.data(), header.size()), frame(0x1234, 0x102, 0x304, 0, ""), "big-endian");
    constexpr struct {
        size_t bytes, datagrams, sent;
    } sizes[] = {{0, 0, 0}, {1, 1, 9}, {1392, 1, 1400}, {1393, 2, 1409}, {2784, 2, 2800}, {20'029, 15, 20'149}};
    for (const auto& one : sizes) {
        tap::is(udp_datagrams_of(one.bytes), one.datagrams, "datagrams of " + std::to_string(one.bytes) + " bytes");
        tap::is(udp_sent_bytes(one.bytes), one.sent, "their bytes with frames");
    }
}

void test_limit() {
    tap::is(udp_reply_max(15, 1), size_t(15), "once the request");
    tap::is(udp_reply_max(15, 1000), size_t(15'000), "a thousand times");
    tap::is(udp_reply_max(2000, 1000), udp_reply_total_max, "1 MiB at most");
    tap::is(udp_reply_max(65'507, 65'535), udp_reply_total_max, "of the longest datagram and the highest factor, too");
    // The longest reply that a limit allows, at each border between datagrams.
    size_t wrong = 0;
    for (size_t limit = 9; limit < 5000; limit++) {
        size_t longest = 0;
        while (udp_sent_bytes(longest + 1) <= limit) longest++;
        wrong += udp_sent_bytes(longest) > limit;
        wrong += longest + udp_header_bytes * udp_datagrams_of(longest) != udp_sent_bytes(longest);
    }
    tap::is(wrong, size_t(0), "frames count towards the limit");
}

}  // namespace

int main() {
    test_requests();
    test_headers();
    test_limit();
    return tap::done();
}
