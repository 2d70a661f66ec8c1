// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_queue.h"

#include <arpa/inet.h>
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace farcached::fabric {

namespace {

constexpr int completions_at_once = 32;

bool must_not_wait(int fd) { return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0; }

}  // namespace

VerbsQueue::VerbsQueue(CmEvents events, CmId id, std::shared_ptr<VerbsDevice> device)
    : events_(std::move(events)),
      id_(std::move(id)),
      device_(std::move(device)),
      sends_(device_->config(), buffers_),
      inbox_(device_->config(), buffers_) {}

Result<std::unique_ptr<VerbsQueue>> VerbsQueue::make(CmEvents events, CmId id, std::shared_ptr<VerbsDevice> device) {
    std::unique_ptr<VerbsQueue> queue(new VerbsQueue(std::move(events), std::move(id), std::move(device)));
    if (Refusal no = queue->make_queues()) return *std::move(no);
    if (Refusal no = queue->buffers_.make(*queue->device_)) return *std::move(no);
    queue->inbox_.fill();
    if (!queue->went_well("ibv_post_recv", queue->inbox_.post(queue->id_->qp)))
        return system_problem(queue->failure_.bad()->text);
    return queue;
}

Refusal VerbsQueue::make_queues() {
    const char* device = device_->name();
    const VerbsConfig& config = device_->config();
    auto refuse = [&](const char* call) { return verbs_call_failed(call, device, errno); };
    ibv_context* context = device_->context();
    completions_.reset(ibv_create_comp_channel(context));
    if (completions_ == nullptr) return refuse("ibv_create_comp_channel");
    if (!must_not_wait(completions_->fd)) return refuse("fcntl");
    const uint32_t entries = config.send_queue() + config.receives;
    completion_queue_.reset(ibv_create_cq(context, int(entries), nullptr, completions_.get(), 0));
    if (completion_queue_ == nullptr) return refuse("ibv_create_cq");
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = completion_queue_.get();
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap.max_send_wr = config.send_queue();
    wanted.cap.max_recv_wr = config.receives;
    wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
    wanted.cap.max_inline_data = config.inline_bytes;
    ibv_qp_init_attr without_inline = wanted;
    without_inline.cap.max_inline_data = 0;
    // Only a try shows how much a device can send inline.
    if (rdma_create_qp(id_.get(), device_->domain(), &wanted) == 0)
        sends_.send_inline(std::min(config.inline_bytes, wanted.cap.max_inline_data));
    else if (rdma_create_qp(id_.get(), device_->domain(), &without_inline) != 0)
        return refuse("rdma_create_qp");
    queue_pair_.reset(id_.get());
    return {};
}

void VerbsQueue::met(const VerbsReceives& there, const VerbsFarMemory& far, const VerbsFarCounters& counters) {
    CHECK(!credits_.has_value());
    credits_.emplace(receives().count, there.count);
    send_bytes_max_ = std::min(there.bytes, receives().bytes);
    reach_.met(far, device_->atomics() ? counters : VerbsFarCounters());
}

Refusal VerbsQueue::connected() {
    ibv_qp_attr attributes{};
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    if (reach_.own(VerbsAccess::counters) != nullptr) attributes.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
    int failed = ibv_modify_qp(id_->qp, &attributes, IBV_QP_ACCESS_FLAGS);
    if (failed != 0) return verbs_call_failed("ibv_modify_qp", device_->name(), failed);
    ibv_qp_init_attr ignored{};
    failed = ibv_query_qp(id_->qp, &attributes, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT, &ignored);
    if (failed != 0) return verbs_call_failed("ibv_query_qp", device_->name(), failed);
    const uint64_t flight = verbs_flight_us(attributes.timeout, attributes.retry_cnt);
    if (const OwnContainer* own = reports_.own(); own != nullptr && own->windowed())
        own->bind(sends_.add(WorkKind::bind, IBV_WR_BIND_MW));
    const VerbsConfig& config = device_->config();
    if (attributes.timeout != 0 && flight <= verbs_flight_us(config.ack_timeout, config.retries)) return {};
    return system_problem(std::string(device_->name()) + " chose a timeout of 4.096 us * 2^" +
                          std::to_string(attributes.timeout) + " and " + std::to_string(attributes.retry_cnt) +
                          " retries, longer than the grace allows for");
}

bool VerbsQueue::went_well(const char* call, int error) {
    if (error != 0) failure_.fail(ChannelEnd::system, verbs_call_failed(call, device_->name(), error).text);
    return error == 0;
}

// ---- sending ----------------------------------------------------------------------------------------

ibv_send_wr& VerbsQueue::add_message(WorkKind kind, uint32_t bytes) {
    counters_->rdma_sends.add(1);
    counters_->rdma_send_bytes.add(bytes);
    ibv_send_wr& work = sends_.add_sent(kind, IBV_WR_SEND_WITH_IMM, bytes);
    const VerbsImmediate told{.credits = credits_->spend()};
    work.imm_data = htonl(told.packed());
    return work;
}

size_t VerbsQueue::push(std::string_view bytes) {
    size_t taken = 0;
    while (taken < bytes.size() && room_to_push()) {
        const size_t size = std::min<size_t>(bytes.size() - taken, send_bytes_max_);
        std::memcpy(sends_.next_buffer(), bytes.data() + taken, size);
        add_message(WorkKind::message, uint32_t(size));
        taken += size;
    }
    return taken;
}

ibv_send_wr& VerbsQueue::add_write(uint64_t offset, std::string_view bytes) {
    std::memcpy(sends_.next_buffer(), bytes.data(), bytes.size());
    ibv_send_wr& work = sends_.add_sent(WorkKind::write, IBV_WR_RDMA_WRITE, uint32_t(bytes.size()));
    work.wr.rdma.remote_addr = reports_.far()->address + offset;
    work.wr.rdma.rkey = reports_.far()->key;
    counters_->rdma_writes.add(1);
    counters_->rdma_write_bytes.add(bytes.size());
    return work;
}

// The last piece notifies the other end: every WRITE posted before it is complete by then.
bool VerbsQueue::post_report(std::string_view bytes) {
    CHECK(!bytes.empty());
    CHECK(bytes.size() <= container_bytes);
    if (failure_.any() || !credits_->may_send() || !reports_.far().has_value()) return false;  // B2, K4
    const bool tell = reports_.must_tell();
    const size_t piece = receives().bytes;
    if (sends_.room_to_send() < (bytes.size() + piece - 1) / piece + (tell ? 1 : 0)) return false;
    if (tell) {
        const VerbsContainer own = reports_.own()->where();
        add_write(container_bytes, {reinterpret_cast<const char*>(&own), sizeof own});
        reports_.told();
    }
    for (size_t at = 0; at < bytes.size(); at += piece) {
        ibv_send_wr& work = add_write(at, bytes.substr(at, piece));
        if (bytes.size() - at > piece) continue;
        work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        const VerbsImmediate told{credits_->spend(), uint32_t(bytes.size())};
        work.imm_data = htonl(told.packed());
    }
    return true;
}

void VerbsQueue::post_read(uint64_t* landing, uint32_t bytes, uint64_t far_offset, uint64_t token) {
    CHECK(sends_.room_to_read(/* count= */ false));
    reach_.aim_read(sends_.add_read(reach_.landing(landing, bytes), token), bytes, far_offset);
    counters_->rdma_reads.add(1);
    counters_->rdma_read_bytes.add(bytes);
}

void VerbsQueue::post_count(uint64_t far_offset) {
    CHECK(sends_.room_to_read(/* count= */ false));
    if (!reach_.counts_at(far_offset)) return;
    reach_.aim_count(sends_.add_count(), far_offset);
    counters_->rdma_atomics.add(1);
}

bool VerbsQueue::may_pay() const {
    return credits_->must_pay() && credits_->available() > 0 && sends_.room_to_send() > 0;
}

bool VerbsQueue::anything_to_post() const {
    return !failure_.any() && (inbox_.anything_to_post() || sends_.collected() || may_pay());
}

bool VerbsQueue::ring() {
    if (failure_.any()) return !failure_.bad().has_value();
    if (!went_well("ibv_post_recv", inbox_.post(id_->qp))) return false;
    if (may_pay()) add_message(WorkKind::credits, 0);
    return !sends_.collected() || went_well("ibv_post_send", post_chain());
}

int VerbsQueue::post_chain() {
    counters_->rdma_doorbells.add(1);
    return sends_.post(id_->qp);
}

// ---- completions ------------------------------------------------------------------------------------

void VerbsQueue::collect() {
    std::array<ibv_wc, completions_at_once> completions;
    for (;;) {
        const int count = ibv_poll_cq(completion_queue_.get(), completions_at_once, completions.data());
        if (count < 0)  // with or without errno
            failure_.fail(ChannelEnd::system, verbs_call_failed("ibv_poll_cq", device_->name(), errno).text);
        for (int i = 0; i < count; i++) {
            const ibv_wc& one = completions[size_t(i)];
            if (one.status != IBV_WC_SUCCESS) {
                completed_badly(one);
            } else if (!failure_.any()) {  // Q3
                completed_++;
                const WorkId id = WorkId::unpack(one.wr_id);
                if (id.kind == WorkKind::receive)
                    received(one);
                else
                    sends_.complete_up_to(id.number);
            }
        }
        if (count < completions_at_once) return;
    }
}

// Q3. A queue pair in error flushes all posted requests, in order.
void VerbsQueue::completed_badly(const ibv_wc& completion) {
    if (failure_.bad().has_value()) return;
    const WorkId id = WorkId::unpack(completion.wr_id);
    const bool flushed = completion.status == IBV_WC_WR_FLUSH_ERR;
    if (id.kind == WorkKind::bind && !flushed) device_->set_windowless();
    if (!failure_.completed_badly(id, flushed, verbs_completed_badly(device_->name(), id.kind, completion.status))) return;
    sends_.add_beat(/* last= */ true);
    failure_.look_for(sends_.last_number());
    if (post_chain() != 0) failure_.look_no_further();
}

void VerbsQueue::received(const ibv_wc& completion) {
    const uint32_t receive = uint32_t(WorkId::unpack(completion.wr_id).number);
    const bool told = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
    const VerbsImmediate said = VerbsImmediate::unpack(told ? ntohl(completion.imm_data) : 0);
    const bool written = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    auto corrupt = [&](const char* what) { failure_.fail(ChannelEnd::corrupt, what); };
    if (!told || !credits_->earn(said.credits) || (!written && completion.byte_len > receives().bytes))
        return corrupt("a message with an impossible number of credits");
    if (credits_->owed() + inbox_.count() >= receives().count) return corrupt("a message without a credit");
    if (written != (said.written != 0) || said.written > container_bytes || (written && reports_.own() == nullptr))
        return corrupt("the length of a report");
    reports_.heard();
    counters_->rdma_receives.add(1);
    if (written)
        reports_.arrived(said.written);
    else
        counters_->rdma_receive_bytes.add(completion.byte_len);
    inbox_.put(receive, written ? 0 : completion.byte_len, *credits_);
}

bool VerbsQueue::arm() {
    return went_well("ibv_req_notify_cq", ibv_req_notify_cq(completion_queue_.get(), /* solicited_only= */ 0));
}

// One arming causes one event.
bool VerbsQueue::disarm() {
    ibv_cq* of = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(completions_.get(), &of, &context) != 0) return false;
    ibv_ack_cq_events(completion_queue_.get(), 1);
    return true;
}

// ---- leaving ----------------------------------------------------------------------------------------

void VerbsQueue::leave() {
    CHECK(credits_.has_value());
    CHECK(!failure_.any());
    CHECK(sends_.reads_pending() == 0);
    // The landing memory may be freed before the queue, and memory that the other side might still READ may be reused (S12).
    ibv_qp_attr attributes{};
    if (reach_.own(VerbsAccess::remote_read) != nullptr) (void)ibv_modify_qp(id_->qp, &attributes, IBV_QP_ACCESS_FLAGS);
    reach_.release();
    counters_ = &unread_;  // another thread owns the previous ones, and counts there
    if (!sends_.pending()) return;
    sends_.add_beat(/* last= */ true);
    (void)ring();
}

bool VerbsQueue::quiet() {
    collect();
    return failure_.any() || !sends_.pending();
}

VerbsQueue::~VerbsQueue() {
    if (credits_.has_value()) (void)rdma_disconnect(id_.get());
}

// ---- this end's container --------------------------------------------------------------------------

OwnContainer::OwnContainer()
    : memory_(Mapping::Kind::private_memory, verbs_container_bytes, /* huge_pages= */ false) {}

std::unique_ptr<OwnContainer> OwnContainer::make(const VerbsDevice& device) {
    std::unique_ptr<OwnContainer> made(new OwnContainer());
    if (device.windows()) made->window_.reset(ibv_alloc_mw(device.domain(), IBV_MW_TYPE_2));
    const int others = made->windowed() ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_WRITE;
    made->registered_.reset(
        ibv_reg_mr(device.domain(), made->memory_.data(), verbs_container_bytes, IBV_ACCESS_LOCAL_WRITE | others));
    return made->registered_ == nullptr ? nullptr : std::move(made);
}

// The owner of a window of type 2 chooses the lowest byte of its key.
VerbsContainer OwnContainer::where() const {
    const uint32_t key = windowed() ? ibv_inc_rkey(window_->rkey) : registered_->rkey;
    return {reinterpret_cast<uint64_t>(memory_.data()), verbs_container_bytes, key};
}

void OwnContainer::bind(ibv_send_wr& work) const {
    CHECK(windowed());
    work.bind_mw.mw = window_.get();
    work.bind_mw.rkey = where().key;
    work.bind_mw.bind_info.mr = registered_.get();
    work.bind_mw.bind_info.addr = where().address;
    work.bind_mw.bind_info.length = verbs_container_bytes;
    work.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
}

void OwnContainer::copy(char* to, size_t bytes) const {
    CHECK(bytes <= container_bytes);
    std::memcpy(to, memory_.data(), bytes);
}

std::optional<VerbsContainer> OwnContainer::other() const {
    VerbsContainer said;
    std::memcpy(&said, memory_.data() + container_bytes, sizeof said);
    if (!possible(said)) return std::nullopt;
    return said;
}

}  // namespace farcached::fabric
