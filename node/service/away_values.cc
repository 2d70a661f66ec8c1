// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/away_values.h"

#include <new>

namespace farcached::node {

void AwayValues::get(Asker& asker, const RequestId& id, bool want_grant, std::string_view key, const protocol::GetReply& reply,
                     const Place& place) {
    const uint64_t number = next_++;
    asked_[number] = {&asker, id, want_grant};
    try {
        gets_.get(number, key, reply, place);
    } catch (const std::bad_alloc&) {
        asked_.erase(number);
        throw;
    }
}

void AwayValues::over(uint64_t number, const protocol::GetReply& reply, std::string_view value) {
    const auto found = asked_.find(number);
    if (found == asked_.end()) return;  // G1
    const Asked asked = found->second;
    asked_.erase(found);
    try {
        asked.asker->value_came(asked.id, asked.want_grant, reply, value);
    } catch (const std::bad_alloc&) {
        asked.asker->starve();
    }
}

}  // namespace farcached::node
