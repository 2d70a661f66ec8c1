// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/sent_lists.h"

#include <algorithm>
#include <variant>

#include "base/limits.h"
#include "daemon/discovery/etcd_messages.h"
#include "daemon/discovery/json_fields.h"

namespace farcached::daemon {

namespace {

constexpr size_t epoch_bytes_max = 20;

// 0: it is none.
uint64_t epoch_of(const EtcdKey& key, int64_t revision) {
    const std::optional<JsonFields> number = JsonFields::parse(key.value);
    const int64_t epoch = number.has_value() ? number->whole("").value_or(0) : 0;
    return epoch > 0 && epoch <= revision ? uint64_t(epoch) : 0;
}

}  // namespace

Result<uint64_t, EtcdFailure> SentLists::read() {
    EtcdClient::Reply reply = ask_("kv/range", range_request(keys_, limits::nodes_max));
    if (auto* const failure = std::get_if<EtcdFailure>(&reply)) return std::move(*failure);
    const std::optional<EtcdRange> found = read_range(std::get<std::string>(reply), epoch_bytes_max);
    if (!found.has_value()) return EtcdFailure{"the answer is not etcd's"};
    uint64_t newest = 0;
    written_ = 0;
    revision_ = lease_ = 0;
    for (const EtcdKey& key : found->keys) {
        const uint64_t epoch = epoch_of(key, found->revision);
        if (key.key != own_) {
            newest = std::max(newest, epoch);
            continue;
        }
        written_ = epoch;
        revision_ = key.mod_revision;
        lease_ = key.lease;
    }
    return newest;
}

std::optional<EtcdFailure> SentLists::write(uint64_t received, int64_t lease) {
    if (received == 0 || (received == written_ && lease == lease_)) return std::nullopt;
    EtcdClient::Reply reply = ask_("kv/txn", put_request(own_, std::to_string(received), lease, revision_));
    if (auto* const failure = std::get_if<EtcdFailure>(&reply)) return std::move(*failure);
    return std::nullopt;
}

}  // namespace farcached::daemon
