// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_connection.h"

#include <cerrno>

#include "fabric/stream_channel.h"
#include "fabric/verbs/verbs_greeting.h"

namespace farcached::fabric {

namespace {

constexpr int resolve_ms_max = 2000;

// Reasons in the status of a REJECTED event.
constexpr int reject_no_listener = 8, reject_by_consumer = 28;

VerbsConnection::Failed call_failed(const char* call, int error) {
    return {channel_end_of(error), verbs_call_failed(call, "", error).text};
}

VerbsConnection::Failed rejected(const rdma_cm_event& event) {
    const rdma_conn_param& param = event.param.conn;
    if (event.status == reject_no_listener) return {ChannelEnd::refused, ""};
    if (event.status != reject_by_consumer)
        return {ChannelEnd::refused, "the connection manager's reason is " + std::to_string(event.status)};
    const std::string_view data(static_cast<const char*>(param.private_data), param.private_data_len);
    const std::string text = verbs_refusal_text(data);
    return {ChannelEnd::handshake, text.empty() ? "no reason given" : text};
}

}  // namespace

Refusal VerbsConnection::begin() {
    cm_events_.reset(rdma_create_event_channel());
    if (cm_events_ == nullptr) return verbs_not_here(errno);
    rdma_cm_id* made = nullptr;
    if (rdma_create_id(cm_events_.get(), &made, nullptr, RDMA_PS_TCP) != 0)
        return verbs_call_failed("rdma_create_id", "", errno);
    id_.reset(made);
    return {};
}

std::optional<VerbsConnection::Failed> VerbsConnection::resolve(const SocketAddress& to) {
    SocketAddress address = to;
    if (rdma_resolve_addr(id_.get(), nullptr, address.get(), resolve_ms_max) != 0) return call_failed("rdma_resolve_addr", errno);
    return {};
}

VerbsConnection::Step VerbsConnection::next(bool open) {
    rdma_event_channel* from = events();
    rdma_cm_event* event = nullptr;
    if (from == nullptr || rdma_get_cm_event(from, &event) != 0) return Progress::waits;
    return take(CmEvent(event), open);
}

VerbsConnection::Step VerbsConnection::take(CmEvent event, bool open) {
    switch (event->event) {
        // Y2
        case RDMA_CM_EVENT_ADDR_RESOLVED: event.reset(); return address_resolved();
        case RDMA_CM_EVENT_ROUTE_RESOLVED: event.reset(); return route_resolved();
        case RDMA_CM_EVENT_CONNECT_RESPONSE: {
            const rdma_conn_param& param = event->param.conn;
            const std::string data(static_cast<const char*>(param.private_data), param.private_data_len);
            event.reset();
            return open ? Progress::goes_on : answered(data);
        }
        case RDMA_CM_EVENT_REJECTED:
            if (!open) return rejected(*event);
            peer_gone_ = true;  // the peer left before it learned that this side was ready
            return Progress::goes_on;
        case RDMA_CM_EVENT_ADDR_ERROR:
        case RDMA_CM_EVENT_ROUTE_ERROR: {
            const int error = event->status < 0 ? -event->status : EHOSTUNREACH;
            return Failed{ChannelEnd::unreachable, verbs_call_failed("address", "", error).text};
        }
        case RDMA_CM_EVENT_CONNECT_ERROR:
        case RDMA_CM_EVENT_UNREACHABLE: return Failed{ChannelEnd::unreachable, "no reply from that address"};
        case RDMA_CM_EVENT_DISCONNECTED: peer_gone_ = true; return Progress::goes_on;
        case RDMA_CM_EVENT_DEVICE_REMOVAL:
            if (queue_ != nullptr) queue_->device().set_removed();
            return Failed{ChannelEnd::system, "the RDMA device was removed"};
        default: return Progress::goes_on;
    }
}

VerbsConnection::Step VerbsConnection::address_resolved() {
    auto device = devices_.device_of(*id_);
    if (const auto* problem = std::get_if<Problem>(&device)) return Failed{ChannelEnd::system, problem->text};
    auto queue = VerbsQueue::make(std::move(cm_events_), std::move(id_), std::get<0>(std::move(device)));
    if (const auto* problem = std::get_if<Problem>(&queue)) return Failed{ChannelEnd::no_memory, problem->text};
    queue_ = std::get<0>(std::move(queue));
    if (const Refusal no = agreement_.prepare(*queue_)) return Failed{ChannelEnd::no_memory, no->text};
    uint8_t timeout = queue_->device().config().ack_timeout;
    if (rdma_set_option(queue_->id(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout) != 0)
        return call_failed("rdma_set_option", errno);
    if (rdma_resolve_route(queue_->id(), resolve_ms_max) != 0) return call_failed("rdma_resolve_route", errno);
    return Progress::has_queue;
}

VerbsConnection::Step VerbsConnection::route_resolved() {
    const VerbsConfig& config = queue_->device().config();
    VerbsHello hello{};
    hello.head = verbs_head(verbs_hello_magic, sizeof hello);
    hello.receives = queue_->receives();
    hello.flight_ms = uint32_t(verbs_flight_us(config.ack_timeout, config.retries) / 1000);
    if (const ibv_mr* lent = queue_->reach().own(VerbsAccess::remote_read)) {
        hello.lent_address = reinterpret_cast<uint64_t>(lent->addr);
        hello.lent_bytes = lent->length;
        hello.lent_key = lent->rkey;
    }
    rdma_conn_param param{};
    param.private_data = &hello;
    param.private_data_len = sizeof hello;
    param.initiator_depth = config.reads_at_once;
    param.responder_resources = config.fetches_at_once;
    param.retry_count = config.retries;
    param.rnr_retry_count = 0;  // Q1
    if (const int failed = queue_->pair().connect(param); failed != 0) return call_failed("rdma_connect", failed);
    return Progress::goes_on;
}

VerbsConnection::Step VerbsConnection::answered(std::string_view data) {
    const auto parsed = parse_verbs_welcome(data);
    if (const auto* problem = std::get_if<Problem>(&parsed)) return Failed{ChannelEnd::handshake, problem->text};
    const VerbsWelcome& welcome = std::get<0>(parsed);
    queue_->messages().met(welcome.receives);
    if (const Refusal no = queue_->pair().ready(nullptr)) return Failed{ChannelEnd::system, no->text};
    if (const Refusal no = agreement_.answered(*queue_, welcome)) return Failed{ChannelEnd::system, no->text};
    if (const int failed = queue_->pair().establish(); failed != 0) return call_failed("rdma_establish", failed);
    return Progress::connected;
}

void VerbsConnection::retire(bool open) {
    if (queue_ == nullptr) return;
    const bool last_words = open && !peer_gone_ && !queue_->failure().any() && queue_->sends().reads_pending() == 0 &&
                            !queue_->device().removed();
    if (!last_words) return queue_.reset();
    queue_->leave(/* wait= */ devices_.deferred_closes() < deferred_reads_max);
    devices_.defer_close(std::move(queue_));
}

}  // namespace farcached::fabric
