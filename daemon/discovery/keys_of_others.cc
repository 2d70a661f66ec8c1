// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/keys_of_others.h"

#include <algorithm>
#include <variant>

#include "base/limits.h"
#include "daemon/discovery/member.h"

namespace farcached::daemon {

namespace {

constexpr int64_t compacted = 11;  // gRPC: out of range

}  // namespace

void KeysOfOthers::begin(int64_t since) {
    since_ = watched_to_ = since;
    seen_ = knows_begin_ = false;
    end_watch();
}

bool KeysOfOthers::seen() {
    if (since_ == 0 || seen_) return seen_;
    if (!knows_begin_) {
        const std::optional<bool> had = have_keys(since_);
        knows_begin_ = had.has_value();
        seen_ = had.value_or(false);
    }
    try {
        seen_ = seen_ || have_keys(0).value_or(false) || watched();
    } catch (...) {
        end_watch();  // it has given a line that was not judged
        throw;
    }
    if (seen_) end_watch();
    return seen_;
}

bool KeysOfOthers::has_keys(const EtcdKey& record) const {
    if (record.key == own_ || !record.key.starts_with(keys_)) return false;
    const Result<Member, std::string> parsed = parse_member(record.key.substr(keys_.size()), record.value);
    const auto* const other = std::get_if<Member>(&parsed);
    return other != nullptr && other->weight != 0;
}

// At that revision; 0: now. If etcd has forgotten it they may have had. Nothing: etcd does not answer.
std::optional<bool> KeysOfOthers::have_keys(int64_t revision) {
    const EtcdClient::Reply reply = ask_("kv/range", range_request(keys_, limits::nodes_max, revision));
    if (const auto* const failure = std::get_if<EtcdFailure>(&reply))
        return failure->code == compacted ? std::optional(true) : std::nullopt;
    const std::optional<EtcdRange> found = read_range(std::get<std::string>(reply), Member::bytes_max);
    if (!found.has_value()) return std::nullopt;
    return std::ranges::any_of(found->keys, [this](const EtcdKey& one) { return has_keys(one); });
}

// Does a change that has come by the watch show it?
bool KeysOfOthers::watched() {
    if (client_.moves() != moves_) end_watch();  // it may be at an endpoint that does not answer
    if (!watches_) {
        client_.watch(watch_request(keys_, watched_to_ + 1));
        watches_ = true;
        moves_ = client_.moves();
    }
    for (std::string line;;) {
        const EtcdClient::Event event = client_.next(line, /* wait_ms= */ 0);
        if (event == EtcdClient::Event::ended) watches_ = false;
        if (event != EtcdClient::Event::line) return false;
        const std::optional<EtcdWatched> told = read_watched(line, Member::bytes_max);
        if (!told.has_value() || told->canceled) {
            if (told.has_value()) watched_to_ = std::max(watched_to_, told->compact_revision - 1);  // O2
            end_watch();
            return false;
        }
        int64_t shown_to = watched_to_;
        for (const EtcdEvent& one : told->events) {
            shown_to = std::max(shown_to, one.at.mod_revision);
            if (!one.deleted && has_keys(one.at)) return true;
        }
        watched_to_ = shown_to;
    }
}

void KeysOfOthers::end_watch() {
    if (std::exchange(watches_, false)) client_.end_watch();
}

}  // namespace farcached::daemon
