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

bool counters_possible(const VerbsWelcome& welcome) {
    if (welcome.counters_address > UINT64_MAX - welcome.counters_bytes) return false;
    if (welcome.counters_address % layout::counter_bytes != 0) return false;
    if (welcome.counters_bytes % layout::counter_bytes != 0) return false;
    return welcome.counters_from <= welcome.region_bytes && welcome.counters_reserved == 0;
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

bool parse_verbs_hello(std::string_view data, uint32_t flight_ms_max, VerbsHello& hello, VerbsRefusal& reason,
                       std::string& why) {
    reason = VerbsRefusal::version;
    if (!take(data, verbs_hello_magic, hello)) {
        why = "its request is not a proxy's greeting";
        return false;
    }
    if (hello.head.version != verbs_version) {
        why = versions(hello.head);
        return false;
    }
    if (hello.flight_ms > flight_ms_max) {
        reason = VerbsRefusal::flight;
        why = "its READs may be under way for " + std::to_string(hello.flight_ms) + " ms, the grace here allows for " +
              std::to_string(flight_ms_max);
        return false;
    }
    if (hello.lent_address > UINT64_MAX - hello.lent_bytes) {
        reason = VerbsRefusal::version;
        why = "its lent memory has an impossible address";
        return false;
    }
    if (possible(hello.receives)) return true;
    reason = VerbsRefusal::receives;
    why = std::to_string(hello.receives.count) + " receives of " + std::to_string(hello.receives.bytes) +
          " bytes cannot be";
    return false;
}

bool parse_verbs_welcome(std::string_view data, VerbsWelcome& welcome, std::string& why) {
    if (!take(data, verbs_welcome_magic, welcome, verbs_welcome_bytes_least)) {
        why = "its reply is not a node's greeting";
    } else if (welcome.head.version != verbs_version) {
        why = versions(welcome.head);
    } else if (!possible(welcome.receives)) {
        why = std::to_string(welcome.receives.count) + " receives of " + std::to_string(welcome.receives.bytes) +
              " bytes cannot be";
    } else if (welcome.region_address > UINT64_MAX - welcome.region_bytes) {
        why = "its region has an impossible address";
    } else if (!counters_possible(welcome)) {
        why = "its counters have an impossible address";
    } else if (welcome.container.bytes != 0 && !fabric::possible(welcome.container)) {
        why = "its container has an impossible address";
    } else {
        return true;
    }
    return false;
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
