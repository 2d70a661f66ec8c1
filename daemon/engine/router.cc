// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/router.h"

#include "daemon/engine/links.h"

namespace farcached::daemon {

bool Router::too_large(size_t key_bytes, uint64_t value_bytes) const {
    return local_ != nullptr ? local_->node().too_large(key_bytes, value_bytes) : links_->too_large(key_bytes, value_bytes);
}

void Router::expect(std::span<const protocol::Key> keys) const {
    if (local_ != nullptr) return local_->expect(keys);
    links_->expect(keys);
}

}  // namespace farcached::daemon
