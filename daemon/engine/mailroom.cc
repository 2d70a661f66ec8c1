// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/mailroom.h"

#include "base/hash.h"

namespace farcached::daemon {

uint32_t link_owner(std::string_view node, uint32_t links, uint32_t workers, uint32_t worker) {
    if (links == 0 || links >= workers) return worker;
    const uint32_t first = uint32_t(hash_key(node, 0) % workers);
    const uint32_t behind = (worker + workers - first) % workers;
    return (first + behind % links) % workers;
}

bool Desk::put(LetterQueue& letters) {
    bool was_empty = false;
    {
        std::lock_guard hold(lock_);
        if (closed_) return false;
        was_empty = letters_.empty();
        letters_.append(letters);
    }
    if (was_empty) wake();
    return true;
}

LetterQueue Desk::take() {
    waker_.take();
    takes_.fetch_add(1, std::memory_order_relaxed);
    std::lock_guard hold(lock_);
    return std::move(letters_);
}

LetterQueue Desk::close() {
    std::lock_guard hold(lock_);
    closed_ = true;
    return std::move(letters_);
}

void Mailroom::sessions_ended() {
    if (with_sessions_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    wake_all();
}

}  // namespace farcached::daemon
