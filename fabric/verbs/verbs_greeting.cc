// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_greeting.h"

#include <algorithm>
#include <cstring>

#include "protocol/layout_hash.h"

namespace farcached::fabric {

namespace {

constexpr uint32_t receives_max = 65534;                // their count travels in 16 bits
constexpr uint32_t message_bytes_min = 256, message_bytes_max = 1 << 20;

bool possible(const VerbsReceives& receives) {
    if (receives.count < 4 || receives.count > receives_max) return false;
    return receives.bytes >= message_bytes_min && receives.bytes <= message_bytes_max;
}

// least: the length in the first build of this version (G1).
template <class Record>
bool take(std::string_view data, uint64_t magic, Record& record, size_t least = sizeof(Record)) {
    if (data.size() < least) return false;
    record = Record{};
    std::memcpy(&record.head, data.data(), sizeof record.head);
    const size_t says = record.head.bytes;
    if (record.head.magic != magic || says < least || says > data.size()) return false;
    std::memcpy(&record, data.data(), std::min(says, sizeof record));
    return true;
}

bool counters_possible(const VerbsNames& names) {
    if (names.counters_address > UINT64_MAX - names.counters_bytes) return false;
    if (names.counters_address % layout::counter_bytes != 0) return false;
    if (names.counters_bytes % layout::counter_bytes != 0) return false;
    return names.counters_from <= names.region_bytes && names.counters_reserved == 0;
}

// Are replies as many and as large as requests, if there are any?
bool one_shape(const VerbsNames& names) {
    if (names.replies.slots == 0) return true;
    return names.replies.slots == names.requests.slots && names.replies.slot_64s == names.requests.slot_64s;
}

Refusal refused(const VerbsNames& names) {
    if (names.region_address > UINT64_MAX - names.region_bytes) return system_problem("its region has an impossible address");
    if (!counters_possible(names)) return system_problem("its counters have an impossible address");
    if (names.container.bytes != 0 && !fabric::possible(names.container))
        return system_problem("its container has an impossible address");
    if (!fabric::possible(names.requests) || !fabric::possible(names.replies) || !one_shape(names))
        return system_problem("its slots have an impossible address or size");
    return {};
}

// Has it what only a node has?
bool of_node(const VerbsNames& names) {
    return (names.incarnation | names.fetch_bytes_max | names.counters_bytes) != 0 ||
           (names.requests.slots | names.replies.slots) != 0;
}

std::string impossible(const VerbsReceives& receives) {
    return std::to_string(receives.count) + " receives of " + std::to_string(receives.bytes) + " bytes cannot be";
}

std::string versions(const VerbsHead& theirs) {
    return "it speaks version " + std::to_string(theirs.version) + " of the greeting over RDMA, this side version " +
           std::to_string(verbs_version);
}

}  // namespace

bool possible(const VerbsContainer& container) {
    return container.bytes == verbs_container_bytes && container.address <= UINT64_MAX - container.bytes;
}

VerbsHead verbs_head(uint64_t magic, uint16_t bytes) {
    return {magic, verbs_version, bytes, layout::spoken().version, layout::spoken().hash};
}

bool same_layout(const VerbsHead& head) {
    return layout::may_read({head.layout_version, head.layout_hash});
}

Result<VerbsHello, VerbsNot> parse_verbs_hello(std::string_view data, uint32_t flight_ms_max) {
    VerbsHello hello;
    if (!take(data, verbs_hello_magic, hello)) return VerbsNot{VerbsRefusal::version, "its request is not a proxy's greeting"};
    if (hello.head.version != verbs_version) return VerbsNot{VerbsRefusal::version, versions(hello.head)};
    if (hello.flight_ms > flight_ms_max)
        return VerbsNot{VerbsRefusal::flight, "its READs may be under way for " + std::to_string(hello.flight_ms) +
                                                  " ms, the grace here allows for " + std::to_string(flight_ms_max)};
    if (hello.lent_address > UINT64_MAX - hello.lent_bytes)
        return VerbsNot{VerbsRefusal::version, "its lent memory has an impossible address"};
    if (!possible(hello.receives)) return VerbsNot{VerbsRefusal::receives, impossible(hello.receives)};
    return hello;
}

Result<VerbsWelcome> parse_verbs_welcome(std::string_view data) {
    VerbsWelcome welcome;
    if (!take(data, verbs_welcome_magic, welcome, verbs_welcome_bytes_least))
        return system_problem("its reply is not a node's greeting");
    if (welcome.head.version != verbs_version) return system_problem(versions(welcome.head));
    if (!possible(welcome.receives)) return system_problem(impossible(welcome.receives));
    if (Refusal no = refused(welcome.names)) return *std::move(no);
    return welcome;
}

Result<VerbsGrant> parse_verbs_grant(std::string_view data, uint64_t magic) {
    VerbsGrant grant;
    if (data.size() > grant_bytes_max || !take(data, magic, grant)) return system_problem("its grant is none of this transport");
    if (grant.head.version != verbs_version) return system_problem(versions(grant.head));
    if (Refusal no = refused(grant.names)) return *std::move(no);
    if (magic == verbs_proxy_grant_magic && of_node(grant.names)) return system_problem("its grant is none of a proxy");
    return grant;
}

std::string verbs_refusal_text(std::string_view data) {
    VerbsRefuse refuse;
    if (!take(data, verbs_refuse_magic, refuse)) return {};
    switch (refuse.reason) {
        case VerbsRefusal::version: return versions(refuse.head);
        case VerbsRefusal::receives: return "it does not support this side's posted receives";
        case VerbsRefusal::flight: return "its grace is shorter than this side's READs may take";
        case VerbsRefusal::resources: return "it is out of memory or queue pairs for a connection; see its log";
    }
    return "its reason is unknown to this version";
}

}  // namespace farcached::fabric
