// SPDX-License-Identifier: BSD-3-Clause
// The RDMA devices of this process: their limits, their registered memory, and the queue pairs that are being closed.
// Setup only: a connection that is up only reads constants here, until it ends.
//
// D1  A device's protection domain and registered memory live as long as a connection or a listener uses them.
// D2  Memory is registered once per device, however many connections use it. The node's region and memory that a proxy
//     lends get REMOTE_READ and nothing else (S6). Landing memory for READs gets LOCAL_WRITE and nothing else. The counters
//     of reads get REMOTE_ATOMIC, which requires LOCAL_WRITE. Each connection has its own container
//     (fabric/verbs/verbs_reach.h).
// D3  A connection closed with messages under way stays until they have arrived, or until its own timeouts rule that out.
//     A thread watches it, so that no caller of close() waits.
// D4  When the host removes a device, each thread destroys its own ids of it, and then librdmacm's descriptors are closed:
//     the kernel waits for that. A thread watches one more id on each device, which gets the event of the removal even
//     without any other id.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "fabric/descriptor.h"
#include "fabric/verbs/verbs_config.h"
#include "fabric/verbs/verbs_objects.h"

namespace farcached::fabric {

class VerbsQueue;

// Others READ it, our own READs land in it, or others count in it.
enum class VerbsAccess : uint8_t { remote_read, landing, counters };

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
    // nullptr: `error` has the cause.
    std::shared_ptr<MemoryRegion> memory(const void* base, size_t bytes, VerbsAccess access, std::string& error);
    // Deregisters memory while others READ it. Only t/'s faulty build.
    void take_back();

  private:
    ibv_context* context_;  // librdmacm's, open as long as an id of that device exists
    ProtectionDomain domain_;
    VerbsConfig config_;
    Facts facts_;
    std::atomic<bool> removed_{false}, windows_;
    std::mutex lock_;
    std::map<const void*, std::weak_ptr<MemoryRegion>> registered_;
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
    // The device of an id that is bound to one. nullptr: `error` has the cause.
    std::shared_ptr<VerbsDevice> device_of(const rdma_cm_id& id, std::string& error);
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
    std::list<DeferredClose> deferred_closes_;
    bool stopping_ = false;
    CmEvents removals_;
    Descriptor stop_watching_;
    std::list<Watched> watched_;
    std::thread thread_, watcher_;
};

}  // namespace farcached::fabric
