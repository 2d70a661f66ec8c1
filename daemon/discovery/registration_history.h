// SPDX-License-Identifier: BSD-3-Clause
// RegistrationHistory: what a process and its etcd have been through since the last registration: whether the process stood still,
// and whether etcd lost its data. Pure: times are arguments, CLOCK_BOOTTIME in nanoseconds.
//
// Owner: an EtcdRegistration (etcd_registration.h), in its thread.
//
// Y1  A process that sends or ends no request for longer than its lease stood still: its lease was over.
// Y2  Etcd lost its data if its revision went back, or if it is another cluster.
#pragma once

#include <cstdint>

#include "daemon/discovery/etcd_messages.h"

namespace farcached::daemon {

class RegistrationHistory {
  public:
    explicit RegistrationHistory(uint64_t ttl_ns) : ttl_ns_(ttl_ns) {}

    // A request begins.
    void asks(uint64_t now_ns) {
        if (asked_ns_ != 0 && now_ns - asked_ns_ > ttl_ns_) stood_still_ = true;
    }
    // It has ended.
    void asked(uint64_t now_ns) {
        asks(now_ns);
        asked_ns_ = now_ns;
    }
    // The record was put, after etcd answered with this range.
    void registered(const EtcdRange& found) {
        was_registered_ = true;
        stood_still_ = false;
        revision_ = found.revision;
        cluster_ = found.cluster;
    }

    // Ever.
    bool was_registered() const { return was_registered_; }
    // Etcd lost its data while the process ran, and proxies have kept the process in their lists.
    bool was_kept(const EtcdRange& found) const {
        const bool lost = was_registered_ && (found.revision < revision_ || found.cluster != cluster_);
        return lost && !stood_still_;
    }

  private:
    const uint64_t ttl_ns_;
    bool was_registered_ = false;
    bool stood_still_ = false;  // Y1, since the last registration
    uint64_t asked_ns_ = 0;     // the last request ended
    int64_t revision_ = 0;      // of etcd, as seen at the last registration
    uint64_t cluster_ = 0;
};

}  // namespace farcached::daemon
