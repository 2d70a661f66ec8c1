// SPDX-License-Identifier: BSD-3-Clause
// VerbsCredits: one side's account of posted receives, so that no SEND ever meets a queue without one. Pure.
//
// Each side posts a number of receives at the start; the other may send as many messages. Whoever has emptied and posted
// again a receive owes a credit, and pays with the next message it sends, in the message's immediate data. If it has
// nothing else to say, it sends a message of nothing.
//
// K1  available() is at most the number of receives that the other side has posted: more is the other side's lie.
// K2  The last credit is kept for a message of nothing. Nobody who must pay lacks it: it was last spent on such a message,
//     which paid for half of the receives at least. What has come since, and makes half of them again, was sent either
//     after that had arrived, and then returned the credit that it cost (messages of nothing are posted again at once);
//     or before, with all of the other half, the kept one included, which only leaves with a payment.
// K3  A message of nothing is owed for like any other, but half of the receives must be owed before one is sent: two of
//     them never answer each other for ever.
#pragma once

#include <cstdint>

#include "base/check.h"

namespace farcached::fabric {

class VerbsCredits {
  public:
    // Of receives: posted here, and there; both at least 4, those here even.
    VerbsCredits(uint32_t here, uint32_t there) : here_(here), there_(there), available_(there) {
        CHECK(here >= 4);
        CHECK(there >= 4);
        CHECK(here % 2 == 0);
    }

    bool may_send() const { return available_ > 1; }
    bool must_pay() const { return owed_ >= here_ / 2; }
    // A message leaves; what it pays.
    uint32_t spend() {
        CHECK(available_ > 0);
        available_--;
        const uint32_t paid = owed_;
        owed_ = 0;
        return paid;
    }
    // A message came that paid so much; false: that cannot be.
    bool earn(uint32_t paid) {
        if (paid > there_ - available_) return false;
        available_ += paid;
        return true;
    }
    // A receive was emptied and is posted again.
    void posted_again() {
        CHECK(owed_ < here_);
        owed_++;
    }
    uint32_t available() const { return available_; }
    uint32_t owed() const { return owed_; }  // posted again and not paid yet

  private:
    uint32_t here_, there_;
    uint32_t available_;
    uint32_t owed_ = 0;
};

}  // namespace farcached::fabric
