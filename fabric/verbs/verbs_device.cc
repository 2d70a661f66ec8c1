// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_device.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "base/broken.h"
#include "base/check.h"
#include "base/node_clock.h"
#include "fabric/verbs/verbs_queue.h"

namespace farcached::fabric {

VerbsConfig VerbsConfig::clamped(const Device& device) const {
    VerbsConfig use = *this;
    constexpr uint32_t receives_min = 4, sends_min = 4, reads_min = 2, beats = 6;  // one of them the last, four are bindings
    // Each work request may leave a completion: SENDs and receives get a quarter each, READs get the rest.
    const uint32_t each_max = device.completions_max / 4;
    const uint32_t receives_max = std::max(receives_min, std::min(device.work_requests_max, each_max));
    use.receives = std::clamp(receives, receives_min, receives_max) & ~1U;
    const uint32_t queue = std::max(device.work_requests_max, sends_min + reads_min + beats);
    const uint32_t sends_max = std::max(sends_min, std::min(queue / 2 - beats, each_max));
    use.sends = std::clamp(sends, sends_min, sends_max);
    const uint32_t others = use.sends + beats + use.receives;
    const uint32_t completions = std::max(device.completions_max, others + reads_min);
    use.reads = std::clamp(reads, reads_min, std::min(queue - beats - use.sends, completions - others));
    const uint32_t at_once = std::min({uint32_t(reads_at_once), device.reads_at_once_out, device.reads_at_once_in});
    use.reads_at_once = uint8_t(std::max(at_once, 1U));
    use.fetches_at_once = std::min(fetches_at_once, use.reads_at_once);
    return use;
}

std::string VerbsConfig::describe() const {
    return std::to_string(receives) + " receives of " + std::to_string(message_bytes) + " bytes, " +
           std::to_string(sends) + " SENDs and " + std::to_string(reads) + " READs under way, " +
           std::to_string(reads_at_once) + " READs at once, SENDs up to " + std::to_string(inline_bytes) +
           " bytes inline, over after " + std::to_string(verbs_flight_us(ack_timeout, retries) / 1000) +
           " ms without an answer";
}

namespace {

constexpr int let_go_every_ms = 20;
constexpr std::chrono::milliseconds look_every{1};  // only while a queue is kept (D3)

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
        case VerbsAccess::windowed: return IBV_ACCESS_MW_BIND;
        case VerbsAccess::count: break;
    }
    return 0;
}

}  // namespace

Result<std::shared_ptr<MemoryRegion>> VerbsDevice::registered(const VerbsMemory& memory, VerbsAccess access) {
    std::lock_guard hold(lock_);
    std::weak_ptr<MemoryRegion>& known = registered_[{memory.data, access}];
    if (const auto there = known.lock(); there != nullptr && *there != nullptr) {
        CHECK((*there)->length == memory.bytes);
        return there;
    }
    MemoryRegion made(ibv_reg_mr(domain_.get(), const_cast<void*>(memory.data), memory.bytes, rights_of(access)));
    if (made == nullptr) return verbs_memory_refused(name(), memory.bytes, errno);
    auto shared = std::make_shared<MemoryRegion>(std::move(made));
    known = shared;
    return shared;
}

void VerbsDevice::take_back() {
    CHECK(broken::build);
    std::lock_guard hold(lock_);
    for (auto& [what, known] : registered_)
        if (const auto there = known.lock()) there->reset();
}

VerbsDevices::VerbsDevices(const VerbsConfig& config, Log log) : config_(config), log_(std::move(log)) {}

Result<std::shared_ptr<VerbsDevice>> VerbsDevices::device_of(const rdma_cm_id& id) {
    CHECK(id.verbs != nullptr);
    std::lock_guard hold(lock_);
    std::weak_ptr<VerbsDevice>& known = devices_[id.verbs];
    if (std::shared_ptr<VerbsDevice> there = known.lock()) return there;
    const char* name = ibv_get_device_name(id.verbs->device);
    ibv_device_attr attributes{};
    if (const int failed = ibv_query_device(id.verbs, &attributes); failed != 0)
        return verbs_call_failed("ibv_query_device", name, failed);
    ibv_port_attr port{};
    if (const int failed = ibv_query_port(id.verbs, id.port_num, &port); failed != 0)
        return verbs_call_failed("ibv_query_port", name, failed);
    ProtectionDomain domain(ibv_alloc_pd(id.verbs));
    if (domain == nullptr) return verbs_call_failed("ibv_alloc_pd", name, errno);
    const VerbsConfig use = config_.clamped(limits_of(attributes));
    // Both kinds of type 2 are bound to a queue pair.
    constexpr unsigned windows = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    const VerbsDevice::Facts facts{port.max_msg_sz, attributes.atomic_cap != IBV_ATOMIC_NONE,
                                   use.windows && (attributes.device_cap_flags & windows) != 0};
    auto device = std::make_shared<VerbsDevice>(id.verbs, std::move(domain), use, facts);
    known = device;
    watch(id);
    if constexpr (broken::build) {
        broken::on_take_back([taken = known] {
            if (const auto there = taken.lock()) there->take_back();
        });
    }
    log(std::string("RDMA device ") + name + ": " + use.describe());
    return device;
}

// ---- devices that are removed -------------------------------------------------------------------------

// Under lock_. A device that cannot be watched is still used.
void VerbsDevices::watch(const rdma_cm_id& like) {
    for (const Watched& one : watched_)
        if (one.context == like.verbs) return;
    if (removals_ == nullptr) {
        removals_.reset(rdma_create_event_channel());
        stop_watching_.reset(eventfd(0, EFD_CLOEXEC));
        if (removals_ == nullptr || !stop_watching_) return removals_.reset();
        watcher_ = std::thread([this] { watch_for_removals(); });
    }
    rdma_cm_id* made = nullptr;
    if (rdma_create_id(removals_.get(), &made, nullptr, RDMA_PS_TCP) != 0) return;
    CmId id(made);
    sockaddr_storage at{};
    const sockaddr* local = &like.route.addr.src_addr;
    const bool v6 = local->sa_family == AF_INET6;
    std::memcpy(&at, local, v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    (v6 ? reinterpret_cast<sockaddr_in6&>(at).sin6_port : reinterpret_cast<sockaddr_in&>(at).sin_port) = 0;
    if (rdma_bind_addr(made, reinterpret_cast<sockaddr*>(&at)) != 0 || made->verbs != like.verbs) return;
    watched_.push_back({std::move(id), like.verbs, false});
}

void VerbsDevices::watch_for_removals() {
    bool waits = false;  // until the last user of a removed device has gone
    for (;;) {
        pollfd polled[2] = {{stop_watching_.get(), POLLIN, 0}, {removals_->fd, POLLIN, 0}};
        (void)poll(polled, 2, waits ? let_go_every_ms : -1);
        if (polled[0].revents != 0) return;
        rdma_cm_event* event = nullptr;
        if (polled[1].revents != 0 && rdma_get_cm_event(removals_.get(), &event) == 0) on_event(CmEvent(event));
        std::lock_guard hold(lock_);
        release_removed();
        waits = std::any_of(watched_.begin(), watched_.end(), [](const Watched& one) { return one.removed; });
    }
}

void VerbsDevices::on_event(CmEvent event) {
    if (event->event != RDMA_CM_EVENT_DEVICE_REMOVAL) return;
    std::lock_guard hold(lock_);
    for (Watched& one : watched_) {
        if (one.id.get() != event->id) continue;
        one.removed = true;
        if (const auto device = devices_[one.context].lock()) device->set_removed();
    }
}

// D4. A kernel driver may wait for its users before it frees a device (soft-RoCE's does), while librdmacm keeps its own
// descriptors open until it sees another device. Once no connection uses them, /dev/null replaces the open files. The
// descriptor numbers stay librdmacm's to close; it does not close them while an id exists.
void VerbsDevices::release_removed() {
    for (auto at = watched_.begin(); at != watched_.end();) {
        if (!at->removed || !devices_[at->context].expired()) {
            ++at;
            continue;
        }
        const Descriptor nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
        if (!nothing) return;
        for (const int fd : {at->context->async_fd, at->context->cmd_fd}) (void)dup3(nothing.get(), fd, O_CLOEXEC);
        devices_.erase(at->context);
        at = watched_.erase(at);
    }
}

// ---- queues that are being closed -------------------------------------------------------------------

void VerbsDevices::defer_close(std::unique_ptr<VerbsQueue> queue) {
    const uint64_t patience_ns = 1000 * verbs_flight_us(config_.ack_timeout, config_.retries) + 100'000'000;
    std::lock_guard hold(lock_);
    deferred_closes_.push_back({std::move(queue), boottime_ns() + patience_ns});
    if (!thread_.joinable()) thread_ = std::thread([this] { run_deferred_closes(); });
    changed_.notify_one();
}

size_t VerbsDevices::deferred_closes() const {
    std::lock_guard hold(lock_);
    return deferred_closes_.size();
}

void VerbsDevices::run_deferred_closes() {
    std::unique_lock hold(lock_);
    for (;;) {
        changed_.wait(hold, [this] { return stopping_ || !deferred_closes_.empty(); });
        if (deferred_closes_.empty()) return;
        for (auto at = deferred_closes_.begin(); at != deferred_closes_.end();) {
            DeferredClose& deferred = *at;
            hold.unlock();  // only this thread removes entries
            const bool over = deferred.queue->device().removed() || deferred.queue->quiet() ||
                              boottime_ns() >= deferred.until_ns;
            if (over) deferred.queue.reset();
            hold.lock();
            at = over ? deferred_closes_.erase(at) : std::next(at);
        }
        if (!deferred_closes_.empty()) changed_.wait_for(hold, look_every);
    }
}

void VerbsDevices::log_once(const std::string& text) {
    constexpr size_t logged_max = 1024;
    {
        std::lock_guard hold(lock_);
        if (logged_.size() == logged_max || !logged_.insert(text).second) return;
    }
    log(text);
}

VerbsDevices::~VerbsDevices() {
    {
        std::lock_guard hold(lock_);
        stopping_ = true;
        changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
    CHECK(deferred_closes_.empty());
    if (!watcher_.joinable()) return;
    (void)eventfd_write(stop_watching_.get(), 1);
    watcher_.join();
}

// ---- errors ----------------------------------------------------------------------------------------

namespace {

std::string_view kind_name(WorkKind kind) {
    switch (kind) {
        case WorkKind::message: return "SEND";
        case WorkKind::credits: return "SEND of credits";
        case WorkKind::read:
        case WorkKind::fetch: return "READ";
        case WorkKind::count: return "FETCH_AND_ADD";
        case WorkKind::beat: return "empty WRITE";
        case WorkKind::write: return "WRITE";
        case WorkKind::bind: return "BIND_MW";
        case WorkKind::receive: return "RECV";
    }
    return "work request";
}

std::string at(std::string_view device) { return device.empty() ? "" : " at " + std::string(device); }

}  // namespace

Problem verbs_call_failed(std::string_view call, std::string_view device, int error) {
    std::string text = std::string(call) + at(device) + ": " + std::strerror(error);
    if (error == ENOMEM || error == EMFILE || error == ENFILE)
        text += "; see the limits of this process (LimitMEMLOCK=infinity and LimitNOFILE in its unit file) and of the "
                "device (rdma resource show)";
    if (error == EACCES || error == EPERM) text += "; give this user access to /dev/infiniband (group rdma)";
    if (error == ENODEV || error == EADDRNOTAVAIL)
        text += "; no RDMA device has this address (rdma link show, ip address show)";
    return system_problem(std::move(text));
}

Problem verbs_memory_refused(std::string_view device, size_t bytes, int error) {
    std::string text = "ibv_reg_mr of " + std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB" + at(device) + ": " +
                       std::strerror(error);
    if (error == ENOMEM || error == EAGAIN || error == EPERM)
        text += "; the limit on locked memory must allow that much: LimitMEMLOCK=infinity in the unit file, or "
                "ulimit -l unlimited";
    return system_problem(std::move(text));
}

Problem verbs_not_here(int error) {
    if (const std::string& why = rdma_libraries_missing(); !why.empty())
        return system_problem("RDMA cannot be used: " + why + "; install librdmacm1 (Fedora: librdmacm) and restart");
    // librdmacm reports a file that it may not open as missing.
    constexpr const char* manager = "/dev/infiniband/rdma_cm";
    if (access(manager, F_OK) == 0 && access(manager, R_OK | W_OK) != 0) error = EACCES;
    const char* remedy = "; there is no RDMA device (rdma link show), or the module rdma_ucm is not loaded";
    if (error == EACCES || error == EPERM) remedy = "; give this user access to /dev/infiniband/rdma_cm (group rdma)";
    if (error == EMFILE || error == ENFILE) remedy = "; raise LimitNOFILE in the unit file";
    return system_problem(std::string("RDMA cannot be used: ") + std::strerror(error) + remedy);
}

VerbsBadCompletion verbs_completed_badly(std::string_view device, WorkKind kind, ibv_wc_status status) {
    VerbsBadCompletion bad{ChannelEnd::system,
                           std::string(kind_name(kind)) + at(device) + ": " + ibv_wc_status_str(status), false};
    switch (status) {
        case IBV_WC_RETRY_EXC_ERR:
            bad.why = ChannelEnd::timed_out;
            bad.text += "; its host, its process or the network does not respond";
            break;
        case IBV_WC_RNR_RETRY_EXC_ERR:
            bad.why = ChannelEnd::corrupt;
            bad.text += "; it has posted fewer receives than announced";
            break;
        case IBV_WC_REM_ACCESS_ERR:
        case IBV_WC_REM_INV_REQ_ERR:
        case IBV_WC_REM_OP_ERR:
            bad.why = ChannelEnd::reset;
            bad.refused = true;
            bad.text += "; it no longer grants access to its memory";
            break;
        case IBV_WC_LOC_LEN_ERR:
            bad.why = ChannelEnd::corrupt;
            bad.text += "; a message was longer than agreed";
            break;
        case IBV_WC_LOC_QP_OP_ERR:
            bad.why = ChannelEnd::unreachable;
            bad.text += "; the device cannot send (rdma link show: is it up?)";
            break;
        case IBV_WC_WR_FLUSH_ERR: bad.why = ChannelEnd::reset; break;
        default: break;
    }
    return bad;
}

}  // namespace farcached::fabric
