// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/commands/watch_lines.h"

#include "protocol/layout.h"

namespace farcached::daemon {

namespace {

using protocol::Miss;
using protocol::StoreOp;
using protocol::StoreReply;

std::string_view word_of(Miss why) {
    switch (why) {
        case Miss::none: return "found";
        case Miss::absent: return "not_found";
        case Miss::expired: return "expired";
        case Miss::flushed: break;
    }
    return "flushed";
}

std::string_view word_of(StoreOp::Mode mode) {
    switch (mode) {
        case StoreOp::Mode::set: return "set";
        case StoreOp::Mode::add: return "add";
        case StoreOp::Mode::replace: return "replace";
        case StoreOp::Mode::append: return "append";
        case StoreOp::Mode::prepend: return "prepend";
        case StoreOp::Mode::cas: break;
    }
    return "cas";
}

std::string_view word_of(StoreReply::Status status) {
    switch (status) {
        case StoreReply::Status::stored: return "stored";
        case StoreReply::Status::not_stored: return "not_stored";
        case StoreReply::Status::exists: return "exists";
        case StoreReply::Status::not_found: return "not_found";
        case StoreReply::Status::too_large: return "too_large";
        case StoreReply::Status::no_memory: break;
    }
    return "no_memory";
}

// As watch lines show it: 0 also for an item that never expires.
int64_t ttl_of(NodeSeconds exptime, NodeSeconds now) {
    if (exptime == never_expires || exptime <= now) return 0;
    return int64_t(exptime - now);
}

// The result of a peek, for watchers only: without an answer there is no line.
class Lookup : Completing<NoRecord> {
  public:
    using Completing::Completing;
    bool wants_value() const { return false; }
    char* value_at(const protocol::ItemMeta&) { return nullptr; }
    void done(const protocol::GetReply& reply) {
        watching::get(to_.context, to_.fd, key_, reply.why, reply.meta.size_class, reply.meta.value_len);
    }
    void unavailable() {}
};

}  // namespace

namespace watching {

void get(Context& context, int fd, std::string_view key, Miss why, uint8_t size_class,
         uint32_t value_len) {
    bool hit = why == Miss::none;
    context.watch.item_get(key, word_of(why), hit ? size_class : 0, fd, hit ? value_len : 0);
}

[[gnu::noinline]] void note_get(Context& context, int fd, std::string_view key, Miss why, uint8_t size_class, uint32_t value_len) {
    if (context.options.detail_enabled) context.admin.detail(key, why == Miss::none ? KeyUse::hit : KeyUse::miss);
    watch_get(context, fd, key, why, size_class, value_len);
}

void lookup(const Submitter& asker, const protocol::Key& key) {
    protocol::GetOp op;
    op.key = key;
    op.peek = true;
    ask_get<Lookup>(asker, op, NoRecord());
}

void store(Context& context, int fd, std::string_view key, const StoreShown& shown,
           const StoreReply& reply) {
    using Status = StoreReply::Status;
    int64_t ttl = 0;
    uint32_t value_len = 0;
    if (reply.status == Status::stored) {
        ttl = ttl_of(reply.exptime, context.now);
        value_len = reply.value_len;
    } else if (reply.status != Status::too_large && reply.status != Status::no_memory) {
        ttl = ttl_of(shown.exptime, context.now);
        value_len = shown.value_bytes;
    }
    context.watch.item_store(key, word_of(reply.status), word_of(shown.mode), ttl,
                             reply.size_class, fd, value_len);
}

}  // namespace watching

void watch_created(Context& context, int fd, std::string_view key, const protocol::ArithReply& reply,
                   NodeSeconds exptime) {
    watch_get(context, fd, key, Miss::absent, 0, 0);
    if (!context.watch.wants(watch_mutations)) return;
    context.watch.item_store(key, word_of(StoreReply::Status::stored),
                             word_of(StoreOp::Mode::add), ttl_of(exptime, context.now),
                             reply.meta.size_class, fd, reply.meta.value_len);
}

void watch_delete(Context& context, std::string_view key, std::string_view command, const protocol::DeleteReply& reply) {
    if (!context.watch.wants(watch_deletions)) return;
    uint64_t without_value = layout::item_bytes(key.size(), 0);
    uint32_t value_len =
        reply.item_bytes < without_value ? 0 : uint32_t(reply.item_bytes - without_value);
    context.watch.deleted(key, command, reply.size_class, value_len);
}

}  // namespace farcached::daemon
