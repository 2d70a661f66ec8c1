// SPDX-License-Identifier: BSD-3-Clause
// VerbsCredits: one side's account of posted receives, so that every SEND finds a posted receive. Pure.
//
// Each side posts a number of receives at the start; the other may send as many messages. A message is a SEND, or a WRITE
// with immediate data, which signals a report and also takes a receive. A side that empties a receive and posts it again
// owes a credit. It pays with its next message, in the immediate data, and without one it sends an empty message.
//
// K1  available() is at most the number of receives that the other side has posted: a higher payment is an error.
// K2  The last credit is reserved for an empty message. A side that must pay always has it. It was last spent on an empty
//     message E, which paid for half of the receives at least. Since then messages have made half of them owed again. If
//     one was sent after E had arrived, it returned the credit of E: a receive that holds no bytes (of an empty message or
//     of a WRITE) is posted again at once. Otherwise all were sent before, with all of the other half. That includes the
//     sender's reserved credit, which only leaves with a payment.
// K3  An empty message is owed for like any other. But a side sends one only when half of its receives are owed: two empty
//     messages never answer each other for ever.
// K4  A WRITE with immediate data costs a credit and pays the owed ones as a SEND does. It never takes the last credit. For
//     K2 it is one more message that is not empty: the last credit still leaves only with a payment. The receive that a
//     WRITE takes is owed again as soon as the WRITE arrives.
#pragma once

#include <cstdint>

#include "base/check.h"

namespace farcached::fabric {

// The immediate data of a message, in 32 bits: | written:16 | credits:16 |.
struct VerbsImmediate {
    uint32_t credits = 0;  // paid
    uint32_t written = 0;  // bytes of a WRITE's report; 0: it is a SEND

    static constexpr uint32_t most = 0xffff;  // of either

    uint32_t packed() const {
        CHECK(credits <= most);
        CHECK(written <= most);
        return written << 16 | credits;
    }
    static VerbsImmediate unpack(uint32_t word) { return {word & most, word >> 16}; }
};

class VerbsCredits {
  public:
    // Numbers of receives posted here and there; both at least 4, those here even.
    VerbsCredits(uint32_t here, uint32_t there) : here_(here), there_(there), available_(there) {
        CHECK(here >= 4);
        CHECK(there >= 4);
        CHECK(here % 2 == 0);
    }

    bool may_send() const { return available_ > 1; }
    bool must_pay() const { return owed_ >= here_ / 2; }
    // A message leaves; returns the credits that it pays.
    uint32_t spend() {
        CHECK(available_ > 0);
        available_--;
        const uint32_t paid = owed_;
        owed_ = 0;
        return paid;
    }
    // A message has paid so many credits; false: impossible.
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
