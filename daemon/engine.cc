// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine.h"

#include <algorithm>
#include <array>

#include "daemon/backend.h"
#include "daemon/session_memory.h"

namespace farcached::daemon {

bool Context::has_room(size_t bytes) const {
    if (memory == nullptr || memory->has_room(bytes)) return true;
    return room != nullptr && room->make_room(bytes, Lack::buffer);
}

bool Context::too_large_for_backend(size_t key_bytes, uint64_t value_bytes) const {
    return backend->too_large(key_bytes, value_bytes);
}

void Context::expect(std::span<const protocol::Key> keys) const {
    if (backend != nullptr) return backend->expect(keys);
    for (const protocol::Key& key : keys) local.prefetch_bucket(key.hash);
    for (const protocol::Key& key : keys) local.prefetch_item(key.hash);
}

void Context::record_accesses() {
    if (backend != nullptr) backend->record_accesses();
    std::span<proxy::SeenAccess> seen = local.take_accesses();
    if (seen.empty()) return;
    std::array<node::Access, proxy::LocalGet::accesses_max> accesses;
    std::transform(seen.begin(), seen.end(), accesses.begin(), [](const proxy::SeenAccess& one) {
        return node::Access{one.slot_word, one.guard_word, one.hash, one.times};
    });
    node.record(std::span(accesses).first(seen.size()), now);
}

}  // namespace farcached::daemon
