// SPDX-License-Identifier: BSD-3-Clause
// Shared by the meta commands only: meta_engine.cc (ms, md, ma) and meta_get.cc (mg, me).
//
// Owner and threads: as of the text engine (daemon/commands/text_engine.h). A MetaCall lives for one command.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/limits.h"
#include "daemon/commands/text_engine.h"
#include "protocol/meta.h"

namespace farcached::daemon::text {

using protocol::MetaFlags;
using protocol::MetaSet;
using protocol::MetaShown;

constexpr size_t status_bytes_max = 3 + 10;  // "VA ", length

// me has one flag and ignores all others.
std::string_view flags_of_me(std::string_view words);

struct Meta {
    ReplyTarget to;
    std::string_view key;
    const MetaFlags& flags;  // `words` among them

    Context& context() const { return to.context; }
    NodeSeconds seconds(int64_t exptime) const { return to.context.seconds(exptime); }
    std::optional<NodeSeconds> seconds_if(char letter, int64_t exptime) const {
        if (!flags.has(letter)) return std::nullopt;
        return seconds(exptime);
    }
    std::optional<uint64_t> number_if(char letter, uint64_t number) const {
        if (!flags.has(letter)) return std::nullopt;
        return number;
    }
};

struct MetaRecord {
    MetaFlags flags;
    StoreShown shown;                  // ms
    std::optional<int64_t> old_ttl_s;  // mg, ma with t before T
    bool ttl_follows = false;          // an earlier answer leaves old_ttl_s in the carry
};
inline void restore(MetaRecord& record, const ReplySlot& slot) { record.flags.words = slot.words(); }

// A command under submission. `key` is decoded if it was base64.
struct MetaCall {
    Call& call;
    std::string_view key;
    char decoded[limits::key_bytes_max];
    MetaRecord asked;

    MetaCall(Call& c, const protocol::TextRequest& request)
        : call(c), key(request.key), asked{flags_of(request), {}, std::nullopt, false} {}
    MetaFlags flags_of(const protocol::TextRequest& request) {
        const bool me = request.verb == protocol::TextVerb::me;
        const std::string_view words = me ? flags_of_me(request.args) : request.args;
        return protocol::parse_meta_flags(request.verb, words, key, decoded);
    }
    const MetaFlags& flags() const { return asked.flags; }
    Meta meta() const { return {call.target(), key, asked.flags}; }
    protocol::Key hashed_key() const { return call.context.router.key(key); }
};

inline char* write_text(char* to, std::string_view text) {
    std::memcpy(to, text.data(), text.size());
    return to + text.size();
}

inline int64_t ttl_of(const protocol::ItemMeta& item, NodeSeconds now) {
    return item.exptime == never_expires ? -1 : seconds_left(item.exptime, now);
}

// A one-line reply: status and requested flags.
void reply_line(const Meta& meta, std::string_view status, const MetaShown& shown);
// Without an item: only the key, as received, and the opaque.
void reply_bare(const Meta& meta, std::string_view status);

// True: `first` precedes `second` in the request. Flags take effect, and are shown, in this order.
bool asked_before(const MetaFlags& flags, char first, char second);
// Expiry of an item created by N: N and T take effect in the order of the request.
std::optional<NodeSeconds> vivify_exptime(const Meta& meta);
// The value of `t` for it: before N and T, that of an item that never expires.
int64_t vivified_ttl(const Meta& meta);

// `t` before `T` shows the time left before this touch: submits a get for it if needed. asker.carry is set.
void ask_old_ttl(const Submitter& asker, const protocol::Key& key, MetaRecord& asked);
inline std::optional<int64_t> old_ttl_s(const ReplyTarget& to, const MetaRecord& asked) {
    return asked.ttl_follows ? to.carry->ttl_s : asked.old_ttl_s;
}

// ---- meta_get.cc -----------------------------------------------------------------------
void run_mg(MetaCall& of);
void run_me(const MetaCall& of);

}  // namespace farcached::daemon::text
