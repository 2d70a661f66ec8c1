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

// The queue for a requested connection, on its private event channel. nullptr: `error` has the cause.
std::unique_ptr<VerbsQueue> queue_for(CmId& id, std::shared_ptr<VerbsDevice> device, std::string& error) {
    auto refuse = [&](const char* call) {
        error = verbs_call_failed(call, device->name(), errno);
        return nullptr;
    };
    CmEvents own(rdma_create_event_channel());
    if (own == nullptr) return refuse("rdma_create_event_channel");
    if (!set_up_descriptor(own->fd)) return refuse("fcntl");
    if (rdma_migrate_id(id.get(), own.get()) != 0) return refuse("rdma_migrate_id");
    uint8_t timeout = device->config().ack_timeout;
    if (rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout) != 0) {
        refuse("rdma_set_option");
        id.reset();  // before its event channel
        return nullptr;
    }
    return VerbsQueue::make(std::move(own), std::move(id), std::move(device), error);
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

std::unique_ptr<VerbsListener> VerbsListener::listen(const SocketAddress& at, const VerbsOffer& offer,
                                                     VerbsDevices& devices, int backlog, std::string& error,
                                                     size_t input_bytes_max) {
    const std::string where = "cannot listen at " + verbs_name(at) + ": ";
    CmEvents events(rdma_create_event_channel());
    if (events == nullptr) {
        error = where + verbs_not_here(errno);
        return nullptr;
    }
    std::unique_ptr<VerbsListener> listener(
        new VerbsListener(std::move(events), at, offer, devices, backlog, input_bytes_max));
    std::string why;
    if (listener->watch(why) && listener->begin(why)) return listener;
    error = where + why;
    return nullptr;
}

bool VerbsListener::watch(std::string& why) {
    const bool there = poller_ && timer_ && set_up_descriptor(events_->fd);
    for (const int fd : {events_->fd, timer_.get()}) {
        epoll_event event{};
        event.events = EPOLLIN;
        if (there && epoll_ctl(poller_.get(), EPOLL_CTL_ADD, fd, &event) == 0) continue;
        why = verbs_call_failed("epoll_ctl", "", errno);
        return false;
    }
    return true;
}

// On success an id listens, and the offer is registered if the address belongs to one device.
bool VerbsListener::begin(std::string& why) {
    const auto refuse = [&](const char* call) {
        why = verbs_call_failed(call, "", errno);
        return false;
    };
    rdma_cm_id* made = nullptr;
    if (rdma_create_id(events_.get(), &made, nullptr, RDMA_PS_TCP) != 0) return refuse("rdma_create_id");
    CmId id(made);
    int only = 1;
    if (address_.storage.ss_family == AF_INET6 &&
        rdma_set_option(made, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only) != 0)
        return refuse("rdma_set_option");
    if (rdma_bind_addr(made, address_.get()) != 0) return refuse("rdma_bind_addr");
    std::shared_ptr<VerbsDevice> device;
    if (made->verbs != nullptr) {
        device = devices_.device_of(*made, why);
        if (device == nullptr || !keep_registered(*device, why)) {
            kept_.release();  // released before the device
            return false;
        }
    }
    if (rdma_listen(made, backlog_) != 0) {
        refuse("rdma_listen");
        kept_.release();  // released before the device
        return false;
    }
    address_ = address_of(rdma_get_local_addr(made));
    id_ = std::move(id);
    device_ = std::move(device);
    return true;
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
    std::string why;
    if (!begin(why)) return;
    const itimerspec never{};
    (void)timerfd_settime(timer_.get(), 0, &never, nullptr);
    devices_.log(describe() + ": an RDMA device is back");
}

bool VerbsListener::keep_registered(VerbsDevice& device, std::string& error) {
    const VerbsMemory& landing = offer_.landing;
    if (landing.bytes > 0 && !kept_.use(device, landing.data, landing.bytes, VerbsAccess::landing, error)) return false;
    if (offer_.region == nullptr) return true;
    const RegionView& view = offer_.region->view();
    if (!kept_.use(device, view.base, view.region_bytes, VerbsAccess::remote_read, error)) return false;
    if (offer_.counters == nullptr) return true;
    if (device.atomics()) return kept_.use(device, offer_.counters, offer_.counters_bytes, VerbsAccess::counters, error);
    devices_.log(std::string("RDMA device ") + device.name() + " has no atomics: reads are not counted");
    return true;
}

// Gives the other side access to the offer, and puts its addresses into the welcome. False: `error` has the cause.
bool VerbsListener::offer_to(VerbsQueue& queue, VerbsWelcome& welcome, std::string& error) const {
    if (offer_.region == nullptr) return true;
    const RegionView& view = offer_.region->view();
    if (!queue.reach().use(queue.device(), view.base, view.region_bytes, VerbsAccess::remote_read, error)) return false;
    welcome.incarnation = view.header->incarnation;
    welcome.region_address = reinterpret_cast<uint64_t>(view.base);
    welcome.region_bytes = view.region_bytes;
    welcome.region_key = queue.reach().own(VerbsAccess::remote_read)->rkey;
    if (offer_.counters == nullptr || !queue.device().atomics()) return true;
    if (!queue.reach().use(queue.device(), offer_.counters, offer_.counters_bytes, VerbsAccess::counters, error)) return false;
    welcome.counters_address = reinterpret_cast<uint64_t>(offer_.counters);
    welcome.counters_bytes = offer_.counters_bytes;
    welcome.counters_from = view.header->arena_offset;
    welcome.counters_key = queue.reach().own(VerbsAccess::counters)->rkey;
    return true;
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
    std::string why;
    auto refuse = [&](rdma_cm_id* whom, VerbsRefusal reason) {
        if (whom != nullptr) reject(whom, reason);
        devices_.log(name + " is refused: " + why);
        return nullptr;
    };
    const VerbsConfig& config = devices_.config();
    const uint32_t flight_ms_max = uint32_t(verbs_flight_us(config.ack_timeout, config.retries) / 1000);
    VerbsHello hello;
    VerbsRefusal reason = VerbsRefusal::resources;
    if (!parse_verbs_hello(data, flight_ms_max, hello, reason, why)) return refuse(id.get(), reason);
    auto device = devices_.device_of(*id, why);
    if (device == nullptr) return refuse(id.get(), VerbsRefusal::resources);
    std::unique_ptr<VerbsQueue> queue = queue_for(id, std::move(device), why);
    if (queue == nullptr) return refuse(id.get(), VerbsRefusal::resources);

    VerbsWelcome welcome{};
    welcome.head = verbs_head(verbs_welcome_magic, sizeof welcome);
    welcome.receives = queue->receives();
    queue->reports().use(queue->device());
    if (const OwnContainer* own = queue->reports().own()) welcome.container = own->where();
    if (same_layout(hello.head) && !offer_to(*queue, welcome, why))
        return refuse(queue->id(), VerbsRefusal::resources);
    VerbsFarMemory lent;
    if (offer_.landing.bytes > 0 && hello.lent_bytes > 0) {
        if (!queue->reach().use(queue->device(), offer_.landing.data, offer_.landing.bytes, VerbsAccess::landing, why))
            return refuse(queue->id(), VerbsRefusal::resources);
        welcome.fetch_bytes_max = uint32_t(std::min<uint64_t>(offer_.landing.bytes, fetch_bytes_most));
        lent = {hello.lent_address, hello.lent_bytes, hello.lent_key};
    }
    queue->met(hello.receives, lent);
    rdma_conn_param param{};
    param.private_data = &welcome;
    param.private_data_len = sizeof welcome;
    param.responder_resources = std::min(asked.responder_resources, queue->device().config().reads_at_once);
    param.initiator_depth = std::min(asked.initiator_depth, queue->device().config().fetches_at_once);
    param.rnr_retry_count = 0;
    if (rdma_accept(queue->id(), &param) != 0) {
        why = verbs_call_failed("rdma_accept", queue->device().name(), errno);
        return refuse(nullptr, reason);
    }
    Descriptor poller(epoll_create1(EPOLL_CLOEXEC));
    if (!poller) why = verbs_call_failed("epoll_create1", "", errno);
    if (!poller || !queue->connected(why)) return refuse(nullptr, reason);
    auto channel = std::make_unique<VerbsChannel>(std::move(poller), name, devices_, events, input_bytes_max_);
    channel->set_source(source_of(from));
    if (channel->accepted(std::move(queue), lent.bytes, why)) return channel;
    return refuse(nullptr, reason);
}

}  // namespace farcached::fabric
