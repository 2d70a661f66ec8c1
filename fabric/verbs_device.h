// SPDX-License-Identifier: BSD-3-Clause
// The RDMA devices that this process uses: what they can do, which memory they may reach, and the queue pairs that are
// on their way out. Setup only: nothing here is called once a connection is up, but to give one up.
//
// D1  A device's protection domain and registered memory live as long as a connection or a listener uses them.
// D2  Memory is registered once per device, however many connections use it. For the node's region, and for what a
//     proxy lends, that is REMOTE_READ and nothing else (S6), for what READs land in LOCAL_WRITE and nothing else; for
//     the counters of reads REMOTE_ATOMIC, which asks for LOCAL_WRITE. Containers are each connection's own
//     (fabric/verbs_container.h).
// D3  A connection that was closed with messages under way stays until they have arrived, or until its own timeouts say
//     that they will not; a thread looks after it, so that nobody who closes waits.
// D4  A device that is removed from the host is let go by all that have an id of it, each of its own thread, and then by
//     librdmacm: the kernel waits for that. An id of its own on each device, watched by a thread, hears of the removal
//     even when nobody else has one.
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
#include "fabric/verbs_config.h"
#include "fabric/verbs_objects.h"

namespace farcached::fabric {

class VerbsQueue;

// What others may do, where our own READs land, and what others count in.
enum class VerbsAccess : uint8_t { remote_read, landing, counters };

class VerbsDevice {
  public:
    struct Facts {
        uint64_t message_bytes_max;  // of one READ, too
        bool atomics;                // FETCH_AND_ADD
        bool windows;                // of memory, bound to a queue pair
    };
    VerbsDevice(ibv_context* context, ProtectionDomain domain, const VerbsConfig& config, const Facts& facts)
        : context_(context), domain_(std::move(domain)), config_(config), facts_(facts), windows_(facts.windows) {}

    ibv_context* context() const { return context_; }
    ibv_pd* domain() const { return domain_.get(); }
    const char* name() const { return ibv_get_device_name(context_->device); }
    const VerbsConfig& config() const { return config_; }  // as this device can have it
    uint64_t read_bytes_max() const { return facts_.message_bytes_max; }
    bool atomics() const { return facts_.atomics; }
    // Any thread. It has none any more when a binding has failed.
    bool windows() const { return windows_; }
    void set_windowless() { windows_ = false; }
    // The host has it no more (D4). Any thread.
    void set_removed() { removed_ = true; }
    bool removed() const { return removed_; }
    // nullptr: `error` says why.
    std::shared_ptr<MemoryRegion> memory(const void* base, size_t bytes, VerbsAccess access, std::string& error);
    // Deregisters what others read while they do. Only t/'s faulty build.
    void take_back();

  private:
    ibv_context* context_;  // librdmacm's, open as long as an id of that device is
    ProtectionDomain domain_;
    VerbsConfig config_;
    Facts facts_;
    std::atomic<bool> removed_{false}, windows_;
    std::mutex lock_;
    std::map<const void*, std::weak_ptr<MemoryRegion>> registered_;
};

// Owner: main. Outlives all channels and listeners over RDMA. Any thread may ask.
class VerbsDevices {
  public:
    using Log = std::function<void(const std::string&)>;
    // config: wanted. log: told of each device, with what is in force there, and of proxies that are refused; from any
    // thread, and may be empty.
    explicit VerbsDevices(const VerbsConfig& config, Log log = {});
    ~VerbsDevices();
    VerbsDevices(const VerbsDevices&) = delete;
    VerbsDevices& operator=(const VerbsDevices&) = delete;

    const VerbsConfig& config() const { return config_; }
    void log(const std::string& text) const {
        if (log_) log_(text);
    }
    // That of an id which is bound to one. nullptr: `error` says why.
    std::shared_ptr<VerbsDevice> device_of(const rdma_cm_id& id, std::string& error);
    // Looks after a queue whose messages are under way, and ends it.
    void bury(std::unique_ptr<VerbsQueue> queue);
    // Of those, how many there are.
    size_t dying() const;

  private:
    struct Burial {
        std::unique_ptr<VerbsQueue> queue;
        uint64_t until_ns;
    };
    // An id of a device that was used, and the descriptors that librdmacm holds it by.
    struct Watched {
        CmId id;
        ibv_context* context;
        bool removed;
    };
    void look_after();
    void watch(const rdma_cm_id& like);
    void watch_for_removals();
    void hear(CmEvent event);
    void let_go();

    const VerbsConfig config_;
    const Log log_;
    mutable std::mutex lock_;
    std::condition_variable changed_;
    std::map<ibv_context*, std::weak_ptr<VerbsDevice>> devices_;
    std::list<Burial> burials_;
    bool stopping_ = false;
    CmEvents removals_;
    Descriptor stop_watching_;
    std::list<Watched> watched_;
    std::thread thread_, watcher_;
};

}  // namespace farcached::fabric
