// SPDX-License-Identifier: BSD-3-Clause
// What the engines tell watchers of the requests that they execute. For the engines only.
//
// Every call asks first whether anybody watches; that is all it costs while nobody does.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/engine.h"
#include "protocol/op.h"

namespace farcached::daemon {

namespace watching {

void get(Context& context, int fd, std::string_view key, protocol::Miss why, uint8_t size_class,
         uint32_t value_len);
void lookup(Context& context, int fd, const protocol::Key& key);
void store(Context& context, int fd, const protocol::StoreOp& op,
           const protocol::StoreReply& reply);

}  // namespace watching

// A fetch: what a lookup found, or why it did not.
inline void watch_get(Context& context, int fd, std::string_view key, protocol::Miss why,
                      uint8_t size_class, uint32_t value_len) {
    if (!context.watch.wants(watch_fetchers)) [[likely]] return;
    watching::get(context, fd, key, why, size_class, value_len);
}

// memcached looks a key up before it changes anything under it, and shows that to those who watch
// fetchers: call before the change.
inline void watch_lookup(Context& context, int fd, const protocol::Key& key) {
    if (!context.watch.wants(watch_fetchers)) [[likely]] return;
    watching::lookup(context, fd, key);
}

inline void watch_store(Context& context, int fd, const protocol::StoreOp& op,
                        const protocol::StoreReply& reply) {
    if (!context.watch.wants(watch_mutations)) [[likely]] return;
    watching::store(context, fd, op, reply);
}

// What incr, decr and ma create is looked up once more and stored, as by add. exptime: what is shown.
void watch_created(Context& context, int fd, const protocol::ArithOp& op,
                   const protocol::ArithReply& reply, NodeSeconds exptime);
void watch_delete(Context& context, int fd, std::string_view key, std::string_view command,
                  const protocol::DeleteReply& reply);

}  // namespace farcached::daemon
