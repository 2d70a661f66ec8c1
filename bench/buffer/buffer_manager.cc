// SPDX-License-Identifier: BSD-3-Clause
#include "bench/buffer/buffer_manager.h"

#include "base/check.h"

namespace farcached::bench {

namespace {

std::string key_of(PageId page) { return "page-" + std::to_string(page.segment) + "-" + std::to_string(page.number); }

}  // namespace

BufferManager::Frame& BufferManager::fix(PageId page) {
    Frame& frame = fixed_[page.place()];
    CHECK(frame.bytes.empty());  // one user at a time
    Tier& tier = tier_of(page);
    const std::string key = key_of(page);
    frame.from = tier.get(key, frame.bytes);
    if (frame.from != From::nowhere) return frame;
    frame.bytes.assign(page_bytes, '\0');
    tier.set(key, frame.bytes);
    return frame;
}

void BufferManager::unfix(PageId page, bool dirty) {
    const auto found = fixed_.find(page.place());
    CHECK(found != fixed_.end());
    if (dirty) tier_of(page).set(key_of(page), found->second.bytes);
    fixed_.erase(found);
}

}  // namespace farcached::bench
