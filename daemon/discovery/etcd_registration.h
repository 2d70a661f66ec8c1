// SPDX-License-Identifier: BSD-3-Clause
// EtcdRegistration: keeps this farnode registered in etcd: its member record under a lease, which it keeps alive.
//
// Owner: main. Threads: its own; start() and stop() belong to main.
// M1  A lease that etcd no longer has (an answer without TTL, or lost data) means: take a new one, and put the record again.
// M2  The record of another node with the same name, at other addresses, is never replaced; the node waits for its end. A former
//     run's is.
// M3  stop() revokes the lease, so that the record is gone at once; it takes stop_ms at most for each endpoint.
// M4  Times are of CLOCK_BOOTTIME: a step of the wall clock changes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <thread>

#include "base/recorder.h"
#include "daemon/discovery/etcd_client.h"
#include "daemon/discovery/etcd_messages.h"
#include "daemon/discovery/member.h"
#include "process/log.h"

namespace farcached::daemon {

class EtcdRegistration {
  public:
    static constexpr uint32_t stop_ms = 1000;

    // member.ttl_s: of the lease. Throws std::bad_alloc.
    EtcdRegistration(const EtcdAccess& access, Member member);
    ~EtcdRegistration();
    EtcdRegistration(const EtcdRegistration&) = delete;
    EtcdRegistration& operator=(const EtcdRegistration&) = delete;

    void start();  // throws std::system_error
    void stop();

  private:
    void run();
    // One step; the time until the next one.
    uint32_t step();
    bool take_lease();
    enum class Put : uint8_t { done, taken, failed };
    Put put();
    bool keep_alive();
    void revoke();
    bool failed(const EtcdFailure& failure);
    uint32_t retry_ms() const;
    static EtcdAccess hurried(EtcdAccess access, uint32_t ttl_s);

    const Member member_;
    const std::string key_, record_;
    EtcdClient client_;
    EtcdLease lease_;            // id 0: none
    bool registered_ = false, told_taken_ = false, told_failure_ = false;
    process::LimitedLines lines_;
    Recorder recorder_{"registration"};
    std::thread thread_;
};

}  // namespace farcached::daemon
