// SPDX-License-Identifier: BSD-3-Clause
// The RDMA devices of this process: their limits, their registered memory, and the queue pairs that are being closed.
// Setup only: a connection that is up only reads constants here, until it ends.
//
// D1  A device's protection domain and registered memory live as long as a connection or a listener uses them.
// D2  Memory is registered once per device and kind of access, however many connections use it. The node's region and memory that
//     a proxy lends get REMOTE_READ and nothing else (S6), or MW_BIND and nothing else, where only windows reach them
//     (fabric/verbs/verbs_reach.h, B4). Landing memory for READs gets LOCAL_WRITE and nothing else. The counters of reads get
//     REMOTE_ATOMIC, which requires LOCAL_WRITE. Each connection has its own container.
// D3  A connection closed with messages under way stays until they have arrived, or until its own timeouts rule that out.
//     One of a node whose replies are to be READ stays until its proxy has left, no longer than that. A thread watches it, so
//     that no caller of close() waits. While deferred_reads_max of them stay, others do not wait for their proxies (S10).
// D4  When the host removes a device, each thread destroys its own ids of it, and then librdmacm's descriptors are closed:
//     the kernel waits for that. A thread watches one more id on each device, which gets the event of the removal even
//     without any other id.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/limits.h"
#include "base/result.h"
#include "base/rpc_mode.h"
#include "fabric/channel.h"
#include "fabric/socket.h"

namespace farcached::fabric {

// VerbsConfig: every attribute of a connection over RDMA that is ours to choose, clamped to the limits of a device. Pure.
//
// V1  VerbsConfig::clamped() is in force: no request to a device exceeds the limits that it reports.
// V2  The grace of a node (S2) is computed from the timeouts in force here, and changes with them. A queue pair with
//     longer timeouts is rejected (VerbsPair::ready()).

struct VerbsConfig {
    uint32_t message_bytes = 8 * 1024;  // of one posted receive, and most of one SEND
    uint32_t receives = 32;             // posted: the other side's credits; even, 4 to 65534
    uint32_t sends = 32;                // SENDs and WRITEs under way
    uint32_t reads = 1024;              // READs and FETCH_AND_ADDs posted and not completed; 2 at least
    uint32_t inline_bytes = 220;        // a SEND up to this size leaves with the work request itself
    uint8_t reads_at_once = 16;         // READs that the other side's device serves at once (max_rd_atomic)
    uint8_t fetches_at_once = 4;        // READs that a proxy's device serves at once: a node fetches few long values
    uint8_t ack_timeout = 14;           // time until a retry: 4.096 us * 2^n; 1 to 31
    static constexpr uint8_t retries_max = 7;  // that nodes accept: proxies of earlier versions have so many
    uint8_t retries = 6;                // after these the connection ends; soft-RoCE never ends one with 7
    uint32_t spins_max = 200;           // most polls of the completion queue by one linger(); 0: none
    bool windows = true;                // the other end reaches containers through memory windows (fabric/channel.h, C7)
    bool sleeps = true;                 // false: fd() is useless once connected; call ready() again and again
    uint32_t beat_ms = 5000;            // silence after which a heartbeat (an empty WRITE) is sent
    RpcMode rpc = RpcMode::automatic;   // a node: send: it offers no slots; write: none for replies
    uint32_t slots = 8;                 // for requests, and as many for replies, of each connection; 0: none; 64 at most
    uint32_t slot_bytes = limits::rfp_slot_bytes;  // of one slot; a multiple of 64
    uint64_t messages_before = 0;       // number before a connection's first message; not 0 in tests alone, at both ends
    // A node: the longest that it looks at the slots of a connection after a reply. Waking takes about 5 us of CPU, and a look
    // lasts four gaps between requests: it pays below a gap of 10 us.
    uint32_t look_us_max = 50;

    struct Device {  // from ibv_query_device()
        uint32_t work_requests_max = 0, completions_max = 0;
        uint32_t reads_at_once_out = 0, reads_at_once_in = 0;  // posted by it, served by it; atomics as well
    };
    // Work requests that one queue pair's send queue holds: SENDs and WRITEs, READs, the bindings of four windows, a
    // heartbeat, and a last one.
    uint32_t send_queue() const { return sends + reads + 6; }
    VerbsConfig clamped(const Device& device) const;
    // "8192 bytes a message, 32 receives, ..., 16 READs at once", for a log.
    std::string describe() const;
};

// The longest time that a READ can be under way by a queue pair's own settings, in microseconds.
constexpr uint64_t verbs_flight_us(uint8_t ack_timeout, uint8_t retries) {
    return (UINT64_C(4096) << ack_timeout) * (uint64_t(retries) + 1) / 1000;
}

// S2: how long after the end of a lease a node keeps its memory unused, with terms up to term_ms_max.
constexpr uint32_t verbs_grace_ms(const VerbsConfig& config, uint32_t term_ms_max) {
    const uint64_t flight_ms = (verbs_flight_us(config.ack_timeout, VerbsConfig::retries_max) + 999) / 1000;
    return uint32_t(4 * flight_ms + (uint64_t(term_ms_max) * 2 + 999) / 1000);
}
static_assert(verbs_grace_ms(VerbsConfig(), 4000) == 2156);

// The objects of libibverbs and librdmacm, each released with its owner; and the fields of a work request's id. An owner
// of several declares them so that each is released before the objects that it depends on.
template <auto release>
struct VerbsRelease {
    template <class T>
    void operator()(T* object) const {
        (void)release(object);
    }
};

using CmEvents = std::unique_ptr<rdma_event_channel, VerbsRelease<rdma_destroy_event_channel>>;
using CmId = std::unique_ptr<rdma_cm_id, VerbsRelease<rdma_destroy_id>>;  // waits until its events are acknowledged
using CmEvent = std::unique_ptr<rdma_cm_event, VerbsRelease<rdma_ack_cm_event>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, VerbsRelease<ibv_dealloc_pd>>;
using MemoryRegion = std::unique_ptr<ibv_mr, VerbsRelease<ibv_dereg_mr>>;
// ibv_dealloc_mw() is static inline: each unit has its own, so it cannot be the argument of a shared template.
struct WindowRelease {
    void operator()(ibv_mw* window) const { (void)ibv_dealloc_mw(window); }
};
using MemoryWindow = std::unique_ptr<ibv_mw, WindowRelease>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, VerbsRelease<ibv_destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, VerbsRelease<ibv_destroy_cq>>;

// The id of a work request: its kind and number. 56 bits of a counter outlast any connection.
enum class WorkKind : uint8_t { message = 1, credits, read, count, beat, receive, write, bind, fetch };

struct WorkId {
    WorkKind kind;
    uint64_t number;  // in the send queue's order; of a receive: its buffer

    uint64_t packed() const { return uint64_t(kind) << 56 | number; }
    static WorkId unpack(uint64_t id) { return {WorkKind(id >> 56), id & ((UINT64_C(1) << 56) - 1)}; }
};

class VerbsQueue;

constexpr size_t deferred_reads_max = 32;  // D3

// Memory that is registered as a whole, once. No bytes: none.
struct VerbsMemory {
    const void* data = nullptr;
    size_t bytes = 0;
};

// Others READ it, our own READs land in it, others count in it, or others READ it through windows alone.
enum class VerbsAccess : uint8_t { remote_read, landing, counters, windowed, count };

class VerbsDevice {
  public:
    struct Facts {
        uint64_t message_bytes_max;  // also of one READ
        bool atomics;                // FETCH_AND_ADD
        bool windows;                // memory windows, bound to a queue pair
    };
    VerbsDevice(ibv_context* context, ProtectionDomain domain, const VerbsConfig& config, const Facts& facts)
        : context_(context), domain_(std::move(domain)), config_(config), facts_(facts), windows_(facts.windows) {}

    ibv_context* context() const { return context_; }
    ibv_pd* domain() const { return domain_.get(); }
    const char* name() const { return ibv_get_device_name(context_->device); }
    const VerbsConfig& config() const { return config_; }  // clamped to this device
    uint64_t read_bytes_max() const { return facts_.message_bytes_max; }
    bool atomics() const { return facts_.atomics; }
    // Any thread. False from the first failed binding on.
    bool windows() const { return windows_; }
    void set_windowless() { windows_ = false; }
    // The host has removed the device (D4). Any thread.
    void set_removed() { removed_ = true; }
    bool removed() const { return removed_; }
    Result<std::shared_ptr<MemoryRegion>> registered(const VerbsMemory& memory, VerbsAccess access);
    // Deregisters memory while others READ it. Only t/'s faulty build.
    void take_back();

  private:
    ibv_context* context_;  // librdmacm's, open as long as an id of that device exists
    ProtectionDomain domain_;
    VerbsConfig config_;
    Facts facts_;
    std::atomic<bool> removed_{false}, windows_;
    std::mutex lock_;
    std::map<std::pair<const void*, VerbsAccess>, std::weak_ptr<MemoryRegion>> registered_;
};

// Owner: main. Outlives all channels and listeners over RDMA. Any thread may call it.
class VerbsDevices {
  public:
    using Log = std::function<void(const std::string&)>;
    // config: wanted. log: gets each device with its clamped settings, and each refused proxy; called from any thread, may
    // be empty.
    explicit VerbsDevices(const VerbsConfig& config, Log log = {});
    ~VerbsDevices();
    VerbsDevices(const VerbsDevices&) = delete;
    VerbsDevices& operator=(const VerbsDevices&) = delete;

    const VerbsConfig& config() const { return config_; }
    void log(const std::string& text) const {
        if (log_) log_(text);
    }
    // The same, once for each text.
    void log_once(const std::string& text);
    // The device of an id that is bound to one.
    Result<std::shared_ptr<VerbsDevice>> device_of(const rdma_cm_id& id);
    // Keeps a queue whose messages are under way, and ends it later (D3).
    void defer_close(std::unique_ptr<VerbsQueue> queue);
    // The number of these queues.
    size_t deferred_closes() const;

  private:
    struct DeferredClose {
        std::unique_ptr<VerbsQueue> queue;
        uint64_t until_ns;
    };
    // An id on a device in use, and the context with librdmacm's descriptors of the device.
    struct Watched {
        CmId id;
        ibv_context* context;
        bool removed;
    };
    void run_deferred_closes();
    void watch(const rdma_cm_id& like);
    void watch_for_removals();
    void on_event(CmEvent event);
    void release_removed();

    const VerbsConfig config_;
    const Log log_;
    mutable std::mutex lock_;
    std::condition_variable changed_;
    std::map<ibv_context*, std::weak_ptr<VerbsDevice>> devices_;
    std::set<std::string> logged_;  // by log_once(), a limited number
    std::list<DeferredClose> deferred_closes_;
    bool stopping_ = false;
    CmEvents removals_;
    Descriptor stop_watching_;
    std::list<Watched> watched_;
    std::thread thread_, watcher_;
};

// ---- errors of a device as sentences: device, operation, status, and remedy ---------------------------

// For a call that set errno. device: empty if it is not known yet.
Problem verbs_call_failed(std::string_view call, std::string_view device, int error);
// For memory that could not be registered.
Problem verbs_memory_refused(std::string_view device, size_t bytes, int error);
// For rdma_create_event_channel(): RDMA is missing, or forbidden to this user.
Problem verbs_not_here(int error);

// Loads the libraries of RDMA (rdma_library.cc). Returns the cause if they are missing, else an empty string.
const std::string& rdma_libraries_missing();

// For a work request that completed badly.
struct VerbsBadCompletion {
    ChannelEnd why;
    std::string text;
    bool refused = false;  // by the other side's device: the cause, even if the other side has left since
};
VerbsBadCompletion verbs_completed_badly(std::string_view device, WorkKind kind, ibv_wc_status status);

}  // namespace farcached::fabric
