// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/engine.h"

#include <algorithm>

#include "daemon/engine/session_memory.h"

namespace farcached::daemon {

bool Context::has_room(size_t bytes) const {
    if (memory == nullptr || memory->has_room(bytes)) return true;
    return room != nullptr && room->make_room(bytes, Lack::buffer);
}

bool begin_pending(Context& context, SessionState& session, const protocol::Key& key, std::string_view head,
                   std::string_view here, uint32_t value_bytes, size_t tail_bytes) {
    LocalPeer* const peer = context.router.local();
    if (peer == nullptr || value_bytes < node::lent_bytes_min) return false;
    auto set = std::make_unique<PendingSet>();
    set->head = head;
    set->tail_bytes = tail_bytes;
    set->upload = peer->node().begin_upload(key, value_bytes, context.now);
    if (set->upload == nullptr) return false;
    feed_pending(*set, here);
    session.pending = std::move(set);
    session.line.sends_values = true;
    return true;
}

size_t feed_pending(PendingSet& set, std::string_view input) {
    const size_t value = size_t(std::min<uint64_t>(set.upload->missing(), input.size()));
    set.upload->append(input.substr(0, value));
    if (set.upload->missing() != 0) return value;
    const size_t tail = std::min(set.tail_bytes - set.tail.size(), input.size() - value);
    set.tail.append(input.substr(value, tail));
    return value + tail;
}

bool is_whole(const PendingSet& set) { return set.upload->missing() == 0 && set.tail.size() == set.tail_bytes; }

}  // namespace farcached::daemon
