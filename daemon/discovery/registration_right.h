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
//     now. So the time of R2 is never more than runs_ns ahead; the running process extends it. If etcd does not answer twice, R2
//     holds again.
// R4  From the end of the registration until the next one no request is executed, unless etcd does not answer: then the node drops
//     its items, and begins anew. At the start none is executed before etcd answered; or did not answer twice, if the node has no
//     items of a former run.
// R5  An answer that refuses the request is an answer: R2 does not hold after it.
// R6  A strict right has no R2: a node that is cut off from etcd, together with proxies whose list still has it, answers nothing
//     once others may use another node.
#pragma once

#include <algorithm>
#include <cstdint>

namespace farcached::daemon {

class RegistrationRight {
  public:
    // A stop of the process that is shorter is not noticed. Between two calls of runs() it passes much less.
    static constexpr uint64_t runs_ns = 1'000'000'000;
    // Etcd counts as silent for so long after a request without an answer. The next one ends earlier, also with many endpoints.
    static constexpr uint64_t silence_ns = 60'000'000'000;

    // has_items: of a former run.
    explicit RegistrationRight(bool has_items, bool strict = false)
        : strict_(strict), standing_(has_items ? Standing::waits : Standing::serves) {}

    // The process runs.
    void runs(uint64_t now_ns) {
        if (standing_ != Standing::serves || !goes_on_ || strict_) return;
        if (now_ns >= serves_until_ns()) {  // R3
            goes_on_ = false;
            return;
        }
        alive_until_ns_ = std::max(alive_until_ns_, now_ns + runs_ns);
    }
    // etcd did not answer.
    void failed(uint64_t now_ns) {
        silent_until_ns_ = now_ns + silence_ns;
        if (standing_ == Standing::waits || strict_) return;
        const bool serves = standing_ == Standing::serves && now_ns < serves_until_ns();
        if (!serves && ++failures_ < failures_enough) return;
        if (standing_ == Standing::lost) return;  // must_drop()
        failures_ = 0;
        goes_on_ = true;
        alive_until_ns_ = std::max(alive_until_ns_, now_ns + runs_ns);
    }
    // etcd refused a request.
    void refused() {
        goes_on_ = false;
        failures_ = 0;
        alive_until_ns_ = silent_until_ns_ = 0;
    }
    // The record is there, under a lease whose request left then.
    void registered(uint64_t sent_ns, uint64_t ttl_ns) {
        standing_ = Standing::serves;
        goes_on_ = true;
        failures_ = 0;
        silent_until_ns_ = 0;
        reads_until_ns_ = sent_ns + ttl_ns - ttl_ns / rate_error;
    }
    // The record or its lease is gone, or the node is about to drop its items.
    void lost() {
        standing_ = Standing::lost;
        goes_on_ = false;
        failures_ = 0;
        reads_until_ns_ = alive_until_ns_ = silent_until_ns_ = 0;
    }
    // Without an answer of etcd, the node that lost its registration drops its items (R4).
    bool must_drop() const { return standing_ == Standing::lost && failures_ >= failures_enough; }
    // After lost(): it has none.
    void dropped() {
        standing_ = Standing::serves;
        failures_ = 0;
    }
    // Requests were executed without a registration since the items were dropped.
    bool served_unregistered() const { return reads_until_ns_ == 0 && alive_until_ns_ != 0; }

    // The node is about to end its registration: proxies that still have it in their lists, without an epoch, are served.
    void leaves() {
        alive_until_ns_ = strict_ ? 0 : serves_until_ns();
        reads_until_ns_ = 0;
    }

    // For statistics: etcd does not answer.
    bool is_silent(uint64_t now_ns) const { return now_ns < silent_until_ns_; }
    uint64_t reads_until_ns() const { return reads_until_ns_; }
    uint64_t serves_until_ns() const { return std::max(reads_until_ns_, alive_until_ns_); }

  private:
    static constexpr uint64_t rate_error = 500;  // two hosts' clocks differ in rate by at most one part in this many (S3)
    static constexpr uint32_t failures_enough = 2;

    enum class Standing : uint8_t {
        waits,   // has items of a former run, and etcd has not answered
        serves,  // registered, or without items of before
        lost,
    };
    const bool strict_;
    Standing standing_;
    bool goes_on_ = false;   // R2
    uint32_t failures_ = 0;  // in a row, while no request is executed
    uint64_t reads_until_ns_ = 0;
    uint64_t alive_until_ns_ = 0;   // R2, R3
    uint64_t silent_until_ns_ = 0;  // ends by itself: this object learns of no answer that changes no right
};

}  // namespace farcached::daemon
