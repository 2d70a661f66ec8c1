// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "daemon/backend.h"

namespace farcached::daemon {

// proxy::SeenAccess is node::Access for those who do not know node/.
static_assert(sizeof(proxy::SeenAccess) == sizeof(node::Access));
static_assert(offsetof(proxy::SeenAccess, slot_word) == offsetof(node::Access, slot_word));
static_assert(offsetof(proxy::SeenAccess, guard_word) == offsetof(node::Access, guard_word));
static_assert(offsetof(proxy::SeenAccess, hash) == offsetof(node::Access, hash));
static_assert(offsetof(proxy::SeenAccess, times) == offsetof(node::Access, times));

bool Context::too_large_for_backend(size_t key_bytes, uint64_t value_bytes) const {
    return backend->too_large(key_bytes, value_bytes);
}

void Context::record_accesses() {
    if (backend != nullptr) backend->record_accesses();
    std::span<proxy::SeenAccess> seen = local.take_accesses();
    if (seen.empty()) return;
    std::array<node::Access, proxy::LocalGet::accesses_max> accesses;
    std::memcpy(accesses.data(), seen.data(), seen.size_bytes());
    node.record(std::span(accesses).first(seen.size()), now);
}

}  // namespace farcached::daemon
