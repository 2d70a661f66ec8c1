// SPDX-License-Identifier: BSD-3-Clause
// RegistrationRight: what a farnode may do by its registration in etcd: until when proxies may read its memory one-sided, and until
// when it executes requests (S17). Pure: times are arguments, CLOCK_BOOTTIME in nanoseconds.
//
// Owner: an EtcdRegistration, in its thread.
//
// R1  The right to be read ends before the lease: its ttl counts from before the answered request left, less 0.2 % for clocks of
//     another rate. etcd counts from later.
// R2  Requests are executed longer, as long as etcd is asked and does not answer. So a fleet whose etcd is away serves on,
//     two-sided.
// R3  A node that stood still until its lease was over executes no request before it has asked etcd: its keys may be elsewhere by
//     now. If etcd does not answer twice, R2 holds again.
// R4  From the end of the registration until the next one no request is executed. At the start none is before etcd answered; or did
//     not answer twice, if the node has no items of a former run.
#pragma once

#include <algorithm>
#include <cstdint>

namespace farcached::daemon {

class RegistrationRight {
  public:
    // silence_ns: longest time between two requests without an answer, unless the process stands still. has_items: of a former run.
    RegistrationRight(uint64_t silence_ns, bool has_items) : silence_ns_(silence_ns), may_serve_(!has_items) {}

    // etcd did not answer.
    void failed(uint64_t now_ns) {
        if (!may_serve_) return;
        if (now_ns >= serves_until_ns() && ++failures_ < 2) return;
        failures_ = 0;
        alive_until_ns_ = now_ns + silence_ns_;
    }
    // The record is there, under a lease whose request left then.
    void registered(uint64_t sent_ns, uint64_t ttl_ns) {
        may_serve_ = true;
        failures_ = 0;
        reads_until_ns_ = sent_ns + ttl_ns - ttl_ns / rate_error;
    }
    // The record or its lease is gone.
    void lost() {
        may_serve_ = false;
        reads_until_ns_ = alive_until_ns_ = 0;
    }

    // The node is about to end its registration: proxies that still have it in their lists are served.
    void leaves() {
        alive_until_ns_ = serves_until_ns();
        reads_until_ns_ = 0;
    }

    uint64_t reads_until_ns() const { return reads_until_ns_; }
    uint64_t serves_until_ns() const { return std::max(reads_until_ns_, alive_until_ns_); }

  private:
    static constexpr uint64_t rate_error = 500;  // two hosts' clocks differ in rate by at most one part in this many (S3)

    const uint64_t silence_ns_;
    bool may_serve_;
    uint32_t failures_ = 0;  // in a row, since the process stood still
    uint64_t reads_until_ns_ = 0;
    uint64_t alive_until_ns_ = 0;  // R2
};

}  // namespace farcached::daemon
