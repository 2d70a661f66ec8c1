// SPDX-License-Identifier: BSD-3-Clause
// Fuzzes what a farcached reads from etcd: members' records, and etcd's answers. A member that is accepted is one that --node
// would accept, and reads back as it is written.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "conf/addresses.h"
#include "daemon/discovery/etcd_messages.h"
#include "daemon/discovery/member.h"

using namespace farcached;
using namespace farcached::daemon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto parsed = parse_member("a", text);
    if (const auto* const member = std::get_if<Member>(&parsed)) {
        CHECK(member->name == "a");
        CHECK(!member->tcp.empty() || !member->verbs.empty());
        const auto again = parse_member("a", member_text(*member));
        CHECK(std::holds_alternative<Member>(again) && std::get<Member>(again) == *member);
    }
    (void)read_range(text, 64);
    (void)read_watched(text, 64);
    (void)read_grant(text);
    (void)read_kept(text);
    (void)read_put(text);
    (void)read_token(text);
    (void)read_error(text);
    return 0;
}
