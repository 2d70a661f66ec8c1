// SPDX-License-Identifier: BSD-3-Clause
// Makes a queue, and closes it; its datapath is in verbs_datapath.cc.
#include "fabric/verbs_queue.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"

namespace farcached::fabric {

namespace {

bool must_not_wait(int fd) { return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0; }

}  // namespace

VerbsQueue::VerbsQueue(CmEvents events, CmId id, std::shared_ptr<VerbsDevice> device)
    : events_(std::move(events)), id_(std::move(id)), device_(std::move(device)) {}

std::unique_ptr<VerbsQueue> VerbsQueue::make(CmEvents events, CmId id, std::shared_ptr<VerbsDevice> device,
                                             std::string& error) {
    std::unique_ptr<VerbsQueue> queue(new VerbsQueue(std::move(events), std::move(id), std::move(device)));
    if (!queue->make_queues(error) || !queue->make_buffers(error)) return nullptr;
    if (queue->post_receives()) return queue;
    error = queue->bad_->text;
    return nullptr;
}

bool VerbsQueue::make_queues(std::string& error) {
    const char* device = device_->name();
    auto refuse = [&](const char* call) {
        error = verbs_call_failed(call, device, errno);
        return false;
    };
    ibv_context* context = device_->context();
    completions_.reset(ibv_create_comp_channel(context));
    if (completions_ == nullptr) return refuse("ibv_create_comp_channel");
    if (!must_not_wait(completions_->fd)) return refuse("fcntl");
    const uint32_t entries = config().send_queue() + config().receives;
    completion_queue_.reset(ibv_create_cq(context, int(entries), nullptr, completions_.get(), 0));
    if (completion_queue_ == nullptr) return refuse("ibv_create_cq");
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = completion_queue_.get();
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap.max_send_wr = config().send_queue();
    wanted.cap.max_recv_wr = config().receives;
    wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
    wanted.cap.max_inline_data = config().inline_bytes;
    ibv_qp_init_attr without_inline = wanted;
    without_inline.cap.max_inline_data = 0;
    // Only a try shows how much a device can send inline.
    if (rdma_create_qp(id_.get(), device_->domain(), &wanted) == 0)
        inline_bytes_ = std::min(config().inline_bytes, wanted.cap.max_inline_data);
    else if (rdma_create_qp(id_.get(), device_->domain(), &without_inline) != 0)
        return refuse("rdma_create_qp");
    queue_pair_.reset(id_.get());
    const uint32_t queue = config().send_queue();
    posted_.resize(queue);
    chain_.reserve(queue);
    pieces_.reserve(queue);
    reads_done_.reserve(config().reads);
    return true;
}

bool VerbsQueue::make_buffers(std::string& error) {
    const size_t bytes = size_t(config().sends + config().receives) * config().message_bytes + sizeof(uint64_t);
    buffers_ = std::make_unique<Mapping>(Mapping::Kind::private_memory, bytes, /* huge_pages= */ false);
    buffers_registered_.reset(ibv_reg_mr(device_->domain(), buffers_->data(), bytes, IBV_ACCESS_LOCAL_WRITE));
    if (buffers_registered_ == nullptr) {
        error = verbs_memory_refused(device_->name(), bytes, errno);
        return false;
    }
    inbox_.resize(config().receives);
    again_.reserve(config().receives);
    again_pieces_.reserve(config().receives);
    for (uint32_t i = 0; i < config().receives; i++) post_receive_later(i);
    return true;
}

bool VerbsQueue::use_memory(const void* base, size_t bytes, VerbsAccess access, std::string& error) {
    auto& memory = access == VerbsAccess::landing ? landing_ : shown_;
    memory = device_->memory(base, bytes, access, error);
    return memory != nullptr;
}

bool VerbsQueue::use_counters(uint64_t* counters, size_t bytes, std::string& error) {
    if (!device_->atomics()) {
        error = std::string(device_->name()) + " has no atomics";
        return false;
    }
    counters_memory_ = device_->memory(counters, bytes, VerbsAccess::counters, error);
    return counters_memory_ != nullptr;
}

void VerbsQueue::met(const VerbsReceives& there, const VerbsFarMemory& far, const VerbsFarCounters& counters) {
    CHECK(!credits_.has_value());
    credits_.emplace(config().receives, there.count);
    send_bytes_max_ = std::min(there.bytes, config().message_bytes);
    far_ = far;
    if (device_->atomics()) far_counters_ = counters;
    connected_ = true;
}

bool VerbsQueue::connected(std::string& error) {
    ibv_qp_attr attributes{};
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    if (counters_memory_ != nullptr) attributes.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
    int failed = ibv_modify_qp(id_->qp, &attributes, IBV_QP_ACCESS_FLAGS);
    if (failed != 0) {
        error = verbs_call_failed("ibv_modify_qp", device_->name(), failed);
        return false;
    }
    ibv_qp_init_attr ignored{};
    failed = ibv_query_qp(id_->qp, &attributes, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT, &ignored);
    if (failed != 0) {
        error = verbs_call_failed("ibv_query_qp", device_->name(), failed);
        return false;
    }
    const uint64_t flight = verbs_flight_us(attributes.timeout, attributes.retry_cnt);
    if (container_ != nullptr && container_->windowed()) container_->bind(add(WorkKind::bind, 0));
    if (attributes.timeout != 0 && flight <= verbs_flight_us(config().ack_timeout, config().retries)) return true;
    error = std::string(device_->name()) + " chose a timeout of 4.096 us * 2^" + std::to_string(attributes.timeout) +
            " and " + std::to_string(attributes.retry_cnt) + " retries, longer than the grace allows for";
    return false;
}

// ---- leaving ----------------------------------------------------------------------------------------

void VerbsQueue::leave() {
    CHECK(connected_);
    CHECK(!broken());
    CHECK(reads_pending_ == 0);
    // The landing memory may be freed before the queue, and memory that the other side might still READ may be reused (S12).
    ibv_qp_attr attributes{};
    if (shown_ != nullptr) (void)ibv_modify_qp(id_->qp, &attributes, IBV_QP_ACCESS_FLAGS);
    landing_.reset();
    shown_.reset();
    counters_memory_.reset();
    counters_ = &unread_;  // another thread owns the previous ones, and counts there
    if (posted_head_ == posted_tail_ && chain_.empty()) return;
    beating_ = false;
    post_beat();  // completes after all earlier requests
    (void)ring();
}

bool VerbsQueue::quiet() {
    collect();
    return broken() || posted_head_ == posted_tail_;
}

VerbsQueue::~VerbsQueue() {
    if (connected_) (void)rdma_disconnect(id_.get());
}

}  // namespace farcached::fabric
