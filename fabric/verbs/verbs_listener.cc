// SPDX-License-Identifier: BSD-3-Clause
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "fabric/verbs/verbs_channel.h"
#include "fabric/verbs/verbs_internal.h"
#include "fabric/verbs/verbs_rights.h"

namespace farcached::fabric {

namespace {

constexpr long again_every_ms = 500;

SocketAddress address_of(const sockaddr* from) {
    SocketAddress address;
    address.size = from->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    std::memcpy(&address.storage, from, address.size);
    return address;
}

void reject(rdma_cm_id* id, VerbsRefusal reason) {
    VerbsRefuse refuse{};
    refuse.head = verbs_head(verbs_refuse_magic, sizeof refuse);
    refuse.reason = reason;
    (void)rdma_reject(id, &refuse, sizeof refuse);
}

// The queue for a requested connection, on its private event channel.
Result<std::unique_ptr<VerbsQueue>> queue_for(CmId& id, std::shared_ptr<VerbsDevice> device) {
    auto refuse = [&](const char* call) { return verbs_call_failed(call, device->name(), errno); };
    CmEvents own(rdma_create_event_channel());
    if (own == nullptr) return refuse("rdma_create_event_channel");
    if (!set_up_descriptor(own->fd)) return refuse("fcntl");
    if (rdma_migrate_id(id.get(), own.get()) != 0) return refuse("rdma_migrate_id");
    uint8_t timeout = device->config().ack_timeout;
    if (rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout) != 0) {
        Problem no = refuse("rdma_set_option");
        id.reset();  // before its event channel
        return no;
    }
    return VerbsQueue::make(std::move(own), std::move(id), std::move(device));
}

}  // namespace

VerbsListener::VerbsListener(CmEvents events, const SocketAddress& address, const VerbsOffer& offer,
                             VerbsDevices& devices, int backlog, size_t input_bytes_max)
    : poller_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      events_(std::move(events)),
      address_(address),
      offer_(offer),
      devices_(devices),
      backlog_(backlog),
      input_bytes_max_(input_bytes_max) {}

VerbsListener::~VerbsListener() = default;

int VerbsListener::fd() const { return poller_.get(); }
std::string VerbsListener::describe() const { return verbs_name(address_); }

Result<std::unique_ptr<VerbsListener>> VerbsListener::listen(const SocketAddress& at, const VerbsOffer& offer,
                                                             VerbsDevices& devices, int backlog, size_t input_bytes_max) {
    const auto refuse = [&](const Problem& why) {
        return system_problem("cannot listen at " + verbs_name(at) + ": " + why.text);
    };
    CmEvents events(rdma_create_event_channel());
    if (events == nullptr) return refuse(verbs_not_here(errno));
    std::unique_ptr<VerbsListener> listener(
        new VerbsListener(std::move(events), at, offer, devices, backlog, input_bytes_max));
    if (const Refusal no = listener->watch()) return refuse(*no);
    if (const Refusal no = listener->begin()) return refuse(*no);
    return listener;
}

Refusal VerbsListener::watch() {
    const bool there = poller_ && timer_ && set_up_descriptor(events_->fd);
    for (const int fd : {events_->fd, timer_.get()}) {
        epoll_event event{};
        event.events = EPOLLIN;
        if (!there || epoll_ctl(poller_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return verbs_call_failed("epoll_ctl", "", errno);
    }
    return {};
}

// On success an id listens, and the offer is registered if the address belongs to one device.
Refusal VerbsListener::begin() {
    const auto refuse = [&](const char* call) { return verbs_call_failed(call, "", errno); };
    rdma_cm_id* made = nullptr;
    if (rdma_create_id(events_.get(), &made, nullptr, RDMA_PS_TCP) != 0) return refuse("rdma_create_id");
    CmId id(made);
    int only = 1;
    if (address_.storage.ss_family == AF_INET6 &&
        rdma_set_option(made, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only) != 0)
        return refuse("rdma_set_option");
    if (rdma_bind_addr(made, address_.get()) != 0) return refuse("rdma_bind_addr");
    std::shared_ptr<VerbsDevice> device;
    Refusal no;
    if (made->verbs != nullptr) {
        auto found = devices_.device_of(*made);
        if (auto* problem = std::get_if<Problem>(&found)) return *std::move(problem);
        device = std::get<0>(std::move(found));
        no = keep_registered(*device);
    }
    if (!no && rdma_listen(made, backlog_) != 0) no = refuse("rdma_listen");
    if (no) {
        kept_.release();  // before the device
        return no;
    }
    address_ = address_of(rdma_get_local_addr(made));
    id_ = std::move(id);
    device_ = std::move(device);
    return {};
}

void VerbsListener::device_removed() {
    if (id_ == nullptr) return;
    if (device_ != nullptr) device_->set_removed();
    kept_.release();
    device_.reset();
    id_.reset();
    devices_.log(describe() + ": the RDMA device was removed; connections fail until a device is back");
    itimerspec every{};
    every.it_interval.tv_nsec = every.it_value.tv_nsec = again_every_ms * 1'000'000;
    (void)timerfd_settime(timer_.get(), 0, &every, nullptr);
}

void VerbsListener::begin_again() {
    uint64_t times = 0;
    if (read(timer_.get(), &times, sizeof times) <= 0) return;
    if (begin()) return;
    const itimerspec never{};
    (void)timerfd_settime(timer_.get(), 0, &never, nullptr);
    devices_.log(describe() + ": an RDMA device is back");
}

Refusal VerbsListener::keep_registered(VerbsDevice& device) {
    if (Refusal no = kept_.use(device, offer_.landing, VerbsAccess::landing)) return no;
    if (offer_.region == nullptr) return {};
    const RegionView& view = offer_.region->view();
    const auto access = offer_.withholds && device.windows() ? VerbsAccess::windowed : VerbsAccess::remote_read;
    if (Refusal no = kept_.use(device, {view.base, view.region_bytes}, access)) return no;
    if (offer_.counters == nullptr) return {};
    if (device.atomics()) return kept_.use(device, {offer_.counters, offer_.counters_bytes}, VerbsAccess::counters);
    devices_.log(std::string("RDMA device ") + device.name() + " has no atomics: reads are not counted");
    return {};
}

// Names all of this side's memory for a proxy, and uses what the proxy lends.
Refusal VerbsListener::offer_to(VerbsQueue& queue, const VerbsHello& hello, VerbsWelcome& welcome, uint64_t& fetch_bytes) const {
    auto names = name_offer(queue, offer_, same_layout(hello.head));
    if (auto* no = std::get_if<Problem>(&names)) return std::move(*no);
    welcome.names = std::get<0>(names);
    if (offer_.landing.bytes == 0 || hello.lent_bytes == 0) return {};
    if (Refusal no = queue.reach().use(queue.device(), offer_.landing, VerbsAccess::landing)) return no;
    welcome.names.fetch_bytes_max = uint32_t(std::min<uint64_t>(offer_.landing.bytes, fetch_bytes_most));
    queue.reach().met({hello.lent_address, hello.lent_bytes, hello.lent_key}, {});
    fetch_bytes = hello.lent_bytes;
    return {};
}

std::unique_ptr<Channel> VerbsListener::accept(ChannelEvents& events) {
    begin_again();
    for (;;) {
        rdma_cm_event* event = nullptr;
        if (rdma_get_cm_event(events_.get(), &event) != 0) return nullptr;
        CmEvent owned(event);
        if (owned->event == RDMA_CM_EVENT_DEVICE_REMOVAL && owned->id == id_.get()) {
            owned.reset();  // before the id is destroyed
            device_removed();
            continue;
        }
        if (owned->event != RDMA_CM_EVENT_CONNECT_REQUEST) continue;
        if (auto channel = meet(std::move(owned), events)) return channel;
    }
}

std::unique_ptr<Channel> VerbsListener::meet(CmEvent request, ChannelEvents& events) {
    CmId id(request->id);
    const rdma_conn_param asked = request->param.conn;
    const std::string data(static_cast<const char*>(asked.private_data), asked.private_data_len);
    request.reset();  // before the id can be destroyed
    const SocketAddress from = address_of(rdma_get_peer_addr(id.get()));
    const std::string name = verbs_name(from);
    // whom: nullptr if it is accepted already.
    auto refuse = [&](const std::string& why, rdma_cm_id* whom, VerbsRefusal reason = VerbsRefusal::resources) {
        if (whom != nullptr) reject(whom, reason);
        devices_.log(name + " is refused: " + why);
        return nullptr;
    };
    const VerbsConfig& config = devices_.config();
    const uint32_t flight_ms_max = uint32_t(verbs_flight_us(config.ack_timeout, VerbsConfig::retries_max) / 1000);
    const auto parsed = parse_verbs_hello(data, flight_ms_max);
    if (const auto* no = std::get_if<VerbsNot>(&parsed)) return refuse(no->text, id.get(), no->reason);
    const VerbsHello& hello = std::get<0>(parsed);
    auto device = devices_.device_of(*id);
    if (const auto* no = std::get_if<Problem>(&device)) return refuse(no->text, id.get());
    auto made = queue_for(id, std::get<0>(std::move(device)));
    if (const auto* no = std::get_if<Problem>(&made)) return refuse(no->text, id.get());
    std::unique_ptr<VerbsQueue> queue = std::get<0>(std::move(made));

    VerbsWelcome welcome{};
    welcome.head = verbs_head(verbs_welcome_magic, sizeof welcome);
    welcome.receives = queue->receives();
    queue->messages().met(hello.receives);
    uint64_t fetch_bytes = 0;
    Refusal no;
    if (offer_.withholds)
        queue->await_permission();
    else
        no = offer_to(*queue, hello, welcome, fetch_bytes);
    rdma_conn_param param{};
    param.private_data = &welcome;
    param.private_data_len = sizeof welcome;
    param.responder_resources = std::min(asked.responder_resources, queue->device().config().reads_at_once);
    param.initiator_depth = std::min(asked.initiator_depth, queue->device().config().fetches_at_once);
    param.rnr_retry_count = 0;
    if (!no) no = queue->pair().ready(&param);
    if (!no && !offer_.withholds) no = queue->allow();
    if (no) return refuse(no->text, queue->id());
    if (const int failed = queue->pair().accept(param); failed != 0)
        return refuse(verbs_call_failed("rdma_accept", queue->device().name(), failed).text, nullptr);
    Descriptor poller(epoll_create1(EPOLL_CLOEXEC));
    if (!poller) return refuse(verbs_call_failed("epoll_create1", "", errno).text, nullptr);
    auto channel = std::make_unique<VerbsChannel>(std::move(poller), name, devices_, events, input_bytes_max_);
    channel->set_source(source_of(from));
    if (offer_.withholds) channel->withhold(offer_, same_layout(hello.head));
    no = channel->accepted(std::move(queue), fetch_bytes);
    if (no) return refuse(no->text, nullptr);
    return channel;
}

}  // namespace farcached::fabric
