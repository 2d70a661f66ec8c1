// SPDX-License-Identifier: BSD-3-Clause
// The engines' watch lines. For the engines only.
//
// Every call first checks for watchers; without any that is its only cost.
//
// No state. Threads: the worker's that executes the request.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/commands/asking.h"
#include "daemon/engine/engine.h"
#include "protocol/op.h"

namespace farcached::daemon {

// The parts of a store that its watch lines show.
struct StoreShown {
    protocol::StoreOp::Mode mode = protocol::StoreOp::Mode::set;
    uint32_t value_bytes = 0;
    NodeSeconds exptime = never_expires;
};

inline StoreShown shown_of(const protocol::StoreOp& op) {
    return {op.mode, uint32_t(op.value.size()), op.exptime};
}

namespace watching {

void get(Context& context, int fd, std::string_view key, protocol::Miss why, uint8_t size_class,
         uint32_t value_len);
void note_get(Context& context, int fd, std::string_view key, protocol::Miss why, uint8_t size_class, uint32_t value_len);
void lookup(const Submitter& asker, const protocol::Key& key);
void store(Context& context, int fd, std::string_view key, const StoreShown& shown,
           const protocol::StoreReply& reply);

}  // namespace watching

// A fetch: the lookup's result.
inline void watch_get(Context& context, int fd, std::string_view key, protocol::Miss why,
                      uint8_t size_class, uint32_t value_len) {
    if (!context.watch.wants(watch_fetchers)) [[likely]] return;
    watching::get(context, fd, key, why, size_class, value_len);
}

// The same, and the use of the key for `stats detail`.
inline void note_get(Context& context, int fd, std::string_view key, protocol::Miss why, uint8_t size_class,
                     uint32_t value_len) {
    if (context.options.detail_enabled || context.watch.wants(watch_fetchers)) [[unlikely]]
        watching::note_get(context, fd, key, why, size_class, value_len);
}

// memcached looks a key up before it changes it, and shows that to watchers of fetchers: call before the change.
inline void watch_lookup(const Submitter& asker, const protocol::Key& key) {
    if (!asker.context.watch.wants(watch_fetchers)) [[likely]] return;
    watching::lookup(asker, key);
}

inline void watch_store(Context& context, int fd, std::string_view key, const StoreShown& shown,
                        const protocol::StoreReply& reply) {
    if (!context.watch.wants(watch_mutations)) [[likely]] return;
    watching::store(context, fd, key, shown, reply);
}

// An item created by incr, decr or ma: shown as a lookup and a store, as by add. exptime: the one shown.
void watch_created(Context& context, int fd, std::string_view key, const protocol::ArithReply& reply,
                   NodeSeconds exptime);
void watch_delete(Context& context, std::string_view key, std::string_view command, const protocol::DeleteReply& reply);

}  // namespace farcached::daemon
