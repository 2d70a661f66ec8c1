// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/away_values.h"

#include <new>

#include "node/store/away_items.h"

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

void AwayValues::over(const AwayGets::Done& done) {
    const auto found = asked_.find(done.asker);
    if (found == asked_.end()) return;  // G1
    const Asked asked = found->second;
    asked_.erase(found);
    try {
        asked.asker->value_came(asked.id, asked.want_grant, done);
    } catch (const std::bad_alloc&) {
        asked.asker->starve();
    }
}

void AwayValues::await_end(Asker& asker, uint64_t key_hash, const Place& place, uint64_t until_ns) {
    const uint64_t number = next_++;
    waits_[number] = {&asker, key_hash, place};
    try {
        gets_.await_end(number, place, until_ns);
    } catch (const std::bad_alloc&) {
        waits_.erase(number);
        throw;
    }
}

void AwayValues::ended(uint64_t number) {
    const auto found = waits_.find(number);
    if (found == waits_.end()) return;
    const Wait wait = found->second;
    waits_.erase(found);
    if (wait.place != Place{}) node_.away().sublease_over(wait.key_hash, wait.place);
    try {
        wait.asker->sublease_ended();
    } catch (const std::bad_alloc&) {
        wait.asker->starve();
    }
}

}  // namespace farcached::node
