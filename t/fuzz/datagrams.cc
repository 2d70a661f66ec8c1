// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: datagrams of a UDP client (daemon/session/datagrams.h). The input's first byte chooses the protocol, how much a turn
// executes, whether replies are queued, and the limit on a reply. The rest is one datagram, or several with 0xfe 0xff between them.
// Each reply is well formed and within the limit, and afterwards a request is served.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "t/unit/daemon/datagram_fixture.h"

namespace {

using namespace farcached;

constexpr std::string_view boundary = "\xfe\xff";

void pass(fixture::DatagramTalk& talk, std::string_view datagram) {
    talk.send(datagram);
    talk.run();
    const std::vector<std::string> parts = talk.received();
    size_t bytes = 0;
    for (size_t i = 0; i < parts.size(); i++) {
        bytes += parts[i].size();
        CHECK(parts[i].size() > protocol::udp_header_bytes);
        CHECK(parts[i].size() <= protocol::udp_datagram_max);
        CHECK(std::string_view(parts[i]).substr(0, 2) == datagram.substr(0, 2));
        CHECK(uint8_t(parts[i][3]) == (i & 0xff));
        CHECK(uint8_t(parts[i][5]) == (parts.size() & 0xff));
    }
    CHECK(bytes <= protocol::udp_reply_max(datagram.size(), talk.live.udp_amplification));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
    if (size < 2) return 0;
    static fixture::DatagramTalk talks[] = {fixture::DatagramTalk(false), fixture::DatagramTalk(true)};
    fixture::DatagramTalk& talk = talks[bytes[0] & 1];
    talk.live.requests_per_event = (bytes[0] & 2) != 0 ? 2 : 1000;
    talk.live.udp_amplification = (bytes[0] & 4) != 0 ? 30 : 3;
    constexpr daemon::SessionProtocol protocols[] = {daemon::SessionProtocol::any, daemon::SessionProtocol::any,
                                                     daemon::SessionProtocol::text, daemon::SessionProtocol::binary};
    talk.socket.protocol = protocols[bytes[0] >> 3 & 3];
    std::string_view rest(reinterpret_cast<const char*>(bytes) + 1, size - 1);
    while (!rest.empty()) {
        const size_t end = std::min(rest.find(boundary), rest.size());
        pass(talk, rest.substr(0, end));
        rest.remove_prefix(std::min(rest.size(), end + boundary.size()));
    }
    talk.socket.protocol = daemon::SessionProtocol::any;
    talk.live.udp_amplification = 3;
    CHECK(talk.ask("mn\r\n") == "MN\r\n");
    return 0;
}
