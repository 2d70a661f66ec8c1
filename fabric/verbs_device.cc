// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs_device.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>

#include "base/broken.h"
#include "base/check.h"
#include "fabric/descriptor.h"
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

}  // namespace

// D4. A kernel driver may wait for its users before its device is gone (soft-RoCE's does), while librdmacm keeps its own
// descriptors open until it sees another device. Nobody uses them any more: what they are of is replaced by what nobody
// waits for, and the numbers remain librdmacm's to close.
VerbsDevice::~VerbsDevice() {
    domain_.reset();
    if (!removed_) return;
    const Descriptor nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!nothing) return;
    for (const int fd : {context_->async_fd, context_->cmd_fd}) (void)dup3(nothing.get(), fd, O_CLOEXEC);
}

std::shared_ptr<MemoryRegion> VerbsDevice::memory(const void* base, size_t bytes, VerbsAccess access,
                                                  std::string& error) {
    std::lock_guard hold(lock_);
    std::weak_ptr<MemoryRegion>& known = registered_[base];
    if (const auto there = known.lock(); there != nullptr && *there != nullptr) {
        CHECK((*there)->length == bytes);
        return there;
    }
    const int rights = access == VerbsAccess::remote_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_LOCAL_WRITE;
    MemoryRegion made(ibv_reg_mr(domain_.get(), const_cast<void*>(base), bytes, rights));
    if (made == nullptr) {
        error = verbs_memory_refused(name(), bytes, errno);
        return nullptr;
    }
    auto shared = std::make_shared<MemoryRegion>(std::move(made));
    known = shared;
    return shared;
}

void VerbsDevice::take_back() {
    CHECK(broken::build);
    std::lock_guard hold(lock_);
    for (auto& [base, known] : registered_)
        if (const auto there = known.lock()) there->reset();
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
    auto device = std::make_shared<VerbsDevice>(id.verbs, std::move(domain), use, port.max_msg_sz);
    known = device;
    if constexpr (broken::build) {
        broken::on_take_back([taken = known] {
            if (const auto there = taken.lock()) there->take_back();
        });
    }
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
            const bool over = burial.queue->device().removed() || burial.queue->quiet() ||
                              now_ns() >= burial.until_ns;
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
