// SPDX-License-Identifier: BSD-3-Clause
// What the engines tell watchers of the requests that they execute. For the engines only.
//
// Every call asks first whether anybody watches; that is all it costs while nobody does.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/engine.h"
#include "daemon/engine_ask.h"
#include "protocol/op.h"

namespace farcached::daemon {

// What lines about a store say of the request.
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
void lookup(const Asker& asker, const protocol::Key& key);
void store(Context& context, int fd, std::string_view key, const StoreShown& shown,
           const protocol::StoreReply& reply);

}  // namespace watching

// Is anybody told of gets: watchers, or `stats detail`?
inline bool gets_are_told(const Context& context) {
    return context.options.detail_enabled || context.watch.wants(watch_fetchers);
}

// A fetch: what a lookup found, or why it did not.
inline void watch_get(Context& context, int fd, std::string_view key, protocol::Miss why,
                      uint8_t size_class, uint32_t value_len) {
    if (!context.watch.wants(watch_fetchers)) [[likely]] return;
    watching::get(context, fd, key, why, size_class, value_len);
}

// memcached looks a key up before it changes anything under it, and shows that to those who watch
// fetchers: call before the change.
inline void watch_lookup(const Asker& asker, const protocol::Key& key) {
    if (!asker.context.watch.wants(watch_fetchers)) [[likely]] return;
    watching::lookup(asker, key);
}

inline void watch_store(Context& context, int fd, std::string_view key, const StoreShown& shown,
                        const protocol::StoreReply& reply) {
    if (!context.watch.wants(watch_mutations)) [[likely]] return;
    watching::store(context, fd, key, shown, reply);
}

// What incr, decr and ma create is looked up once more and stored, as by add. exptime: what is shown.
void watch_created(Context& context, int fd, std::string_view key, const protocol::ArithReply& reply,
                   NodeSeconds exptime);
void watch_delete(Context& context, int fd, std::string_view key, std::string_view command,
                  const protocol::DeleteReply& reply);

}  // namespace farcached::daemon
