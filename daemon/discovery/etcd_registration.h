// SPDX-License-Identifier: BSD-3-Clause
// EtcdRegistration: keeps this farnode, or this farcached, registered in etcd: its member record under a lease, which it keeps
// alive.
//
// Owner: main. Threads: its own; start() and stop() belong to main.
// M1  A lease that etcd no longer has (an answer without TTL, or lost data) means: take a new one, and put the record again.
// M2  The record of another process with the same name, at other addresses, is never replaced; this one waits for its end. A former
//     run's is.
// M3  stop() revokes the lease, so that the record is gone at once; after M10 it takes 2 * stop_ms at most.
// M4  Times are of CLOCK_BOOTTIME: a step of the wall clock changes nothing.
// M5  With each keepalive the process looks at its record. If that is gone it registers again. If another run has replaced it, the
//     process waits for its end.
// M6  Of a node: a proxy may have stored newer values elsewhere while the node was not registered. So before the record is put, the
//     node drops its items, unless its record was there since they were stored: this run's, or the one that the items came from. If
//     etcd lost its data, and the node was running, proxies have kept the node in their lists.
// M7  A node's serving right follows each answer of etcd, and each request without one (registration_right.h, S17). A farcached has
//     no such right.
// M8  The node executes no request from before it drops its items until it is registered, or etcd does not answer.
// M9  A changed weight changes the record, not the registration: the lease stays, and so do the node's right and its items. A node
//     that had weight 0 drops its items before it gets keys again, which other nodes had. A node with weight 0 refuses requests
//     of earlier lists as soon as etcd has acknowledged that weight. It does not if no other member had keys then, nor since
//     (KeysOfOthers): no farcached has a newer list that can be used. While etcd does not answer that question, it has
//     no right.
// M10 A proxy learns that stop() has ended the right by the next reply, and reads one-sided until then. So the node drops its items
//     before the record is deleted. If the record stays, it does so for longer than the right.
// M11 A strict node and the others exchange which lists they have received from farcached (SentLists). A failure of that has no
//     effect on its right. One with weight 0 receives no first list, and refuses earlier lists by itself (M9).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "base/recorder.h"
#include "daemon/discovery/etcd_client.h"
#include "daemon/discovery/etcd_messages.h"
#include "daemon/discovery/keys_of_others.h"
#include "daemon/discovery/member.h"
#include "daemon/discovery/registration_history.h"
#include "daemon/discovery/registration_right.h"
#include "daemon/discovery/sent_lists.h"
#include "process/log.h"

namespace farcached::daemon {

class EtcdRegistration {
  public:
    static constexpr uint32_t stop_ms = 1000;

    struct Items {
        uint64_t former_incarnation = 0;  // of the run that they came from; 0: none
        std::function<bool()> drop;       // returns whether there were any; none is stored by a request that began before (M8)
        // etcd has this revision, and was asked after the last call. empty_since: the record has weight 0 since that one; 0: it has
        // another weight, or no other member was seen with keys since.
        std::function<void(uint64_t revision, uint64_t empty_since)> looked = nullptr;
        bool strict = false;  // RegistrationRight, R6
        // M11, after each look. received: the epoch of the newest list that a farcached has sent; 0: none. elsewhere: that of any
        // other node. Both are empty, or none is.
        std::function<uint64_t()> received = nullptr;
        std::function<void(uint64_t)> elsewhere = nullptr;
    };
    // After each change. revision: of the record, by etcd; 0: none yet; INT64_MAX: it is about to be deleted.
    using ShowRight = std::function<void(const RegistrationRight&, uint64_t revision)>;
    // keys: the key of the record is this with the member's name behind it. member.ttl_s: of the lease. show_right: called by this
    // object's thread; empty for a farcached. Throws std::bad_alloc.
    EtcdRegistration(const EtcdAccess& access, const std::string& keys, Member member, Items items, ShowRight show_right);
    ~EtcdRegistration();
    EtcdRegistration(const EtcdRegistration&) = delete;
    EtcdRegistration& operator=(const EtcdRegistration&) = delete;

    void start();  // throws std::system_error
    // The record gets this weight within the third of a lease, or when the process registers. Any thread.
    void change_weight(uint32_t weight) { weight_.store(weight, std::memory_order_relaxed); }
    // keep_record: it stays until the lease ends. A restart within that time keeps its items.
    void stop(bool keep_record = false);

  private:
    void run();
    // One step; the time until the next one.
    uint32_t step();
    bool take_lease();
    enum class Put : uint8_t { done, taken, failed };
    Put put();
    bool keep_alive();
    bool look_at_record();
    void note_weight(const EtcdKey& record);
    void put_weight(const EtcdKey& record);
    bool knows_others();
    void exchange_lists();
    void end_right();
    uint64_t refused_before();
    uint32_t set_weight(uint32_t weight, int64_t revision);
    void say_weight(uint32_t former);
    void leave();
    void renew_right();
    void show_right();
    // Of a registered node: the functions that ended with its right, and why.
    enum class Ended : uint8_t {
        none,
        reads,    // etcd is silent, and requests are executed
        all,      // etcd is silent, and the right is strict
        refused,  // by etcd
    };
    Ended ended_now(uint64_t now_ns) const;
    enum class Gone : uint8_t { registration, weight };
    void drop_items(Gone former);
    EtcdClient::Reply ask(const std::string& path, const std::string& body);
    EtcdClient::Ask asks();
    void revoke();
    bool failed(const EtcdFailure& failure);
    uint32_t retry_ms() const;
    static EtcdAccess hurried(EtcdAccess access, uint32_t ttl_s);

    Member member_;
    const Items items_;
    const ShowRight show_right_;
    const std::string keys_, key_;
    std::atomic<uint32_t> weight_;  // as wanted
    EtcdClient client_;
    KeysOfOthers others_;  // M9
    SentLists lists_;      // M11
    RegistrationRight right_;
    EtcdLease lease_;            // id 0: none
    std::atomic<bool> keep_record_{false};
    RegistrationHistory history_;
    uint64_t lease_sent_ns_ = 0;   // before the last request for the lease that was answered
    int64_t record_revision_ = 0;  // at which this process registered
    Ended told_ended_ = Ended::none;  // in the log
    bool is_refused_ = false;      // by etcd, since it last renewed the right
    bool may_be_read_ = false;     // items that proxies count a right for
    bool registered_ = false, told_taken_ = false, told_failure_ = false;
    process::LimitedLines lines_;
    Recorder recorder_{"registration"};
    std::thread thread_;
};

}  // namespace farcached::daemon
