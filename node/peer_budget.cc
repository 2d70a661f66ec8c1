// SPDX-License-Identifier: BSD-3-Clause
#include "node/peer_budget.h"

#include <algorithm>

#include "base/check.h"

namespace farcached::node {

namespace {

constexpr uint64_t least_bytes = 8 << 20, share_of_memory = 8;  // the budget: least_bytes + memory / share_of_memory
constexpr uint64_t items_at_least = 2;

}  // namespace

uint64_t peer_budget_bytes(uint64_t memory_bytes, uint64_t item_bytes_max) {
    return std::max(least_bytes + memory_bytes / share_of_memory, items_at_least * item_bytes_max);
}

void PeerBudget::change(uint64_t bytes_max) {
    std::lock_guard hold(lock_);
    bytes_max_ = bytes_max;
}

uint64_t PeerBudget::bytes() const {
    std::lock_guard hold(lock_);
    return bytes_;
}

void PeerBudget::open(Account& account) {
    std::lock_guard hold(lock_);
    account.place_ = accounts_.insert(accounts_.end(), &account);
}

void PeerBudget::close(Account& account) {
    std::lock_guard hold(lock_);
    accounts_.erase(account.place_);
    count(bytes_ - account.bytes_);
    if (account.ousted_) leaving_ -= account.bytes_;
}

void PeerBudget::oust(Account& account) {
    account.ousted_ = true;
    leaving_ += account.bytes_;
    account.owner_.oust(ServiceEnd::over_budget);
}

bool PeerBudget::may_end(const Account& account, uint64_t now_ms, For what) {
    if (account.ousted_ || account.bytes_ == 0) return false;
    return what == For::frame || account.weight(now_ms) >= account.bytes_ * patience_ms;
}

// B3. Ends the accounts with the most byte-milliseconds until `bytes` are free. False: that many cannot be freed, and no
// account ends.
bool PeerBudget::make_room(const Account& asker, uint64_t bytes, uint64_t now_ms, For what) {
    const uint64_t least = may_end(asker, now_ms, what) ? asker.weight(now_ms) : 0;
    const auto goes_first = [&](const Account& one) {
        return &one != &asker && may_end(one, now_ms, what) && one.weight(now_ms) >= least;
    };
    uint64_t all = 0;
    for (const Account* one : accounts_)
        if (goes_first(*one)) all += one->bytes_;
    if (all < bytes) return false;
    for (uint64_t freed = 0; freed < bytes;) {
        Account* most = nullptr;
        for (Account* one : accounts_)
            if (goes_first(*one) && (most == nullptr || one->weight(now_ms) > most->weight(now_ms))) most = one;
        CHECK(most != nullptr);
        freed += most->bytes_;
        oust(*most);
    }
    return true;
}

bool PeerBudget::take(Account& account, uint64_t bytes, uint64_t since_ms, uint64_t now_ms, For what) {
    std::lock_guard hold(lock_);
    if (account.ousted_) return false;
    const uint64_t most = what == For::value ? bytes_max_ / 4 * 3 : bytes_max_;
    const uint64_t wanted = bytes_ - leaving_ + bytes;
    bool fits = bytes_ + bytes <= bytes_max_ + bytes_max_ / 4;
    if (fits && wanted > most) fits = make_room(account, wanted - most, now_ms, what);
    if (!fits) {
        if (what == For::frame) oust(account);
        return false;
    }
    count(bytes_ + bytes);
    account.bytes_ += bytes;
    account.began_ += bytes * since_ms;
    return true;
}

void PeerBudget::give_back(Account& account, uint64_t bytes, uint64_t since_ms) {
    std::lock_guard hold(lock_);
    CHECK(bytes <= account.bytes_);
    count(bytes_ - bytes);
    if (account.ousted_) leaving_ -= bytes;
    account.bytes_ -= bytes;
    account.began_ -= bytes * since_ms;
}

}  // namespace farcached::node
