// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs_device.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>

#include "base/check.h"
#include "fabric/verbs_error.h"
#include "fabric/verbs_queue.h"

namespace farcached::fabric {

namespace {

constexpr std::chrono::milliseconds look_every{1};  // only while there is anything to look after

uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return uint64_t(now.tv_sec) * 1'000'000'000 + uint64_t(now.tv_nsec);
}

VerbsConfig::Device limits_of(const ibv_device_attr& attributes) {
    VerbsConfig::Device device;
    device.work_requests_max = uint32_t(std::max(attributes.max_qp_wr, 0));
    device.completions_max = uint32_t(std::max(attributes.max_cqe, 0));
    device.reads_at_once_out = uint32_t(std::max(attributes.max_qp_init_rd_atom, 0));
    device.reads_at_once_in = uint32_t(std::max(attributes.max_qp_rd_atom, 0));
    return device;
}

int rights_of(VerbsAccess access) {
    switch (access) {
        case VerbsAccess::remote_read: return IBV_ACCESS_REMOTE_READ;
        case VerbsAccess::landing: return IBV_ACCESS_LOCAL_WRITE;
        case VerbsAccess::counters: return IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
    }
    return 0;
}

}  // namespace

std::shared_ptr<ibv_mr> VerbsDevice::memory(const void* base, size_t bytes, VerbsAccess access, std::string& error) {
    std::lock_guard hold(lock_);
    std::weak_ptr<ibv_mr>& known = registered_[base];
    if (std::shared_ptr<ibv_mr> there = known.lock()) {
        CHECK(there->length == bytes);
        return there;
    }
    MemoryRegion made(ibv_reg_mr(domain_.get(), const_cast<void*>(base), bytes, rights_of(access)));
    if (made == nullptr) {
        error = verbs_memory_refused(name(), bytes, errno);
        return nullptr;
    }
    std::shared_ptr<ibv_mr> shared(std::move(made));
    known = shared;
    return shared;
}

VerbsDevices::VerbsDevices(const VerbsConfig& config, Log log) : config_(config), log_(std::move(log)) {}

std::shared_ptr<VerbsDevice> VerbsDevices::device_of(const rdma_cm_id& id, std::string& error) {
    CHECK(id.verbs != nullptr);
    std::lock_guard hold(lock_);
    std::weak_ptr<VerbsDevice>& known = devices_[id.verbs];
    if (std::shared_ptr<VerbsDevice> there = known.lock()) return there;
    const char* name = ibv_get_device_name(id.verbs->device);
    ibv_device_attr attributes{};
    if (const int failed = ibv_query_device(id.verbs, &attributes); failed != 0) {
        error = verbs_call_failed("ibv_query_device", name, failed);
        return nullptr;
    }
    ibv_port_attr port{};
    if (const int failed = ibv_query_port(id.verbs, id.port_num, &port); failed != 0) {
        error = verbs_call_failed("ibv_query_port", name, failed);
        return nullptr;
    }
    ProtectionDomain domain(ibv_alloc_pd(id.verbs));
    if (domain == nullptr) {
        error = verbs_call_failed("ibv_alloc_pd", name, errno);
        return nullptr;
    }
    const VerbsConfig use = config_.clamped(limits_of(attributes));
    const VerbsDevice::Facts facts{port.max_msg_sz, attributes.atomic_cap != IBV_ATOMIC_NONE};
    auto device = std::make_shared<VerbsDevice>(id.verbs, std::move(domain), use, facts);
    known = device;
    log(std::string("RDMA device ") + name + ": " + use.describe());
    return device;
}

// ---- queues on their way out ------------------------------------------------------------------------

void VerbsDevices::bury(std::unique_ptr<VerbsQueue> queue) {
    const uint64_t patience_ns = 1000 * verbs_flight_us(config_.ack_timeout, config_.retries) + 100'000'000;
    std::lock_guard hold(lock_);
    burials_.push_back({std::move(queue), now_ns() + patience_ns});
    if (!thread_.joinable()) thread_ = std::thread([this] { look_after(); });
    changed_.notify_one();
}

size_t VerbsDevices::dying() const {
    std::lock_guard hold(lock_);
    return burials_.size();
}

void VerbsDevices::look_after() {
    std::unique_lock hold(lock_);
    for (;;) {
        changed_.wait(hold, [this] { return stopping_ || !burials_.empty(); });
        if (burials_.empty()) return;
        for (auto at = burials_.begin(); at != burials_.end();) {
            Burial& burial = *at;
            hold.unlock();  // only this thread takes any out
            const bool over = burial.queue->quiet() || now_ns() >= burial.until_ns;
            if (over) burial.queue.reset();
            hold.lock();
            at = over ? burials_.erase(at) : std::next(at);
        }
        if (!burials_.empty()) changed_.wait_for(hold, look_every);
    }
}

VerbsDevices::~VerbsDevices() {
    {
        std::lock_guard hold(lock_);
        stopping_ = true;
        changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
    CHECK(burials_.empty());
}

}  // namespace farcached::fabric
