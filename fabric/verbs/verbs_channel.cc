// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_channel.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/node_clock.h"
#include "base/prefetch.h"
#include "fabric/verbs/verbs_internal.h"

namespace farcached::fabric {

namespace {

constexpr int resolve_ms_max = 2000;

// Reasons in the status of a REJECTED event.
constexpr int reject_no_listener = 8, reject_by_consumer = 28;

}  // namespace

bool set_up_descriptor(int fd) {
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

std::string verbs_name(const SocketAddress& address) { return "verbs:" + to_string(address); }

VerbsChannel::VerbsChannel(Descriptor poller, std::string name, VerbsDevices& devices, ChannelEvents& events,
                           size_t input_bytes_max)
    : StreamChannel(std::move(poller), std::move(name), events, input_bytes_max),
      devices_(devices),
      agreement_(devices),
      wakeups_(this->poller(), devices.config().sleeps),
      // A READ takes several microseconds: with fewer polls a retry would never pay.
      spins_(devices.config().spins_max, devices.config().spins_max) {}

VerbsChannel::~VerbsChannel() { retire(); }

// ---- the connection ---------------------------------------------------------------------------------

Refusal VerbsChannel::connect(const SocketAddress& to, const VerbsMemories& memories, const RpcWish& wish) {
    agreement_.propose(memories, wish);
    cm_events_.reset(rdma_create_event_channel());
    if (cm_events_ == nullptr) return verbs_not_here(errno);
    rdma_cm_id* made = nullptr;
    if (rdma_create_id(cm_events_.get(), &made, nullptr, RDMA_PS_TCP) != 0)
        return verbs_call_failed("rdma_create_id", "", errno);
    id_.reset(made);
    if (!set_up_descriptor(cm_events_->fd) || !wakeups_.begin(cm_events_->fd))
        return verbs_call_failed("epoll_ctl", "", errno);
    SocketAddress address = to;
    if (rdma_resolve_addr(id_.get(), nullptr, address.get(), resolve_ms_max) != 0)
        end_with_call("rdma_resolve_addr", errno);
    if (ending()) wakeups_.kick();
    return {};
}

Refusal VerbsChannel::accepted(std::unique_ptr<VerbsQueue> queue, uint64_t fetch_bytes) {
    queue_ = std::move(queue);
    agreement_.lent(fetch_bytes);
    queue_->count_in(counters());
    if (!wakeups_.begin(queue_->id()->channel->fd)) return verbs_call_failed("epoll_ctl", "", errno);
    opened();
    wakeups_.kick();
    return {};
}

void VerbsChannel::end_with_call(const char* call, int error) {
    end(channel_end_of(error), verbs_call_failed(call, "", error).text);
}

void VerbsChannel::take_events() {
    rdma_event_channel* from = queue_ != nullptr ? queue_->id()->channel : cm_events_.get();
    rdma_cm_event* event = nullptr;
    while (!ending() && rdma_get_cm_event(from, &event) == 0) {
        take_event(CmEvent(event));
        from = queue_ != nullptr ? queue_->id()->channel : cm_events_.get();
        if (from == nullptr) return;
    }
}

void VerbsChannel::take_event(CmEvent event) {
    switch (event->event) {
        // An id whose event is held cannot be destroyed: functions that may destroy it get a released event.
        case RDMA_CM_EVENT_ADDR_RESOLVED: event.reset(); return address_resolved();
        case RDMA_CM_EVENT_ROUTE_RESOLVED: event.reset(); return route_resolved();
        case RDMA_CM_EVENT_CONNECT_RESPONSE: {
            const rdma_conn_param& param = event->param.conn;
            const std::string data(static_cast<const char*>(param.private_data), param.private_data_len);
            event.reset();
            if (!open()) answered(data);
            return;
        }
        case RDMA_CM_EVENT_REJECTED:
            if (!open()) return rejected(*event);
            peer_gone_ = true;  // the peer left before it learned that this side was ready
            return;
        case RDMA_CM_EVENT_ADDR_ERROR:
        case RDMA_CM_EVENT_ROUTE_ERROR: {
            const int error = event->status < 0 ? -event->status : EHOSTUNREACH;
            return end(ChannelEnd::unreachable, verbs_call_failed("address", "", error).text);
        }
        case RDMA_CM_EVENT_CONNECT_ERROR:
        case RDMA_CM_EVENT_UNREACHABLE: return end(ChannelEnd::unreachable, "no reply from that address");
        case RDMA_CM_EVENT_DISCONNECTED: peer_gone_ = true; return;
        case RDMA_CM_EVENT_DEVICE_REMOVAL:
            if (queue_ != nullptr) queue_->device().set_removed();
            return end(ChannelEnd::system, "the RDMA device was removed");
        default: return;
    }
}

void VerbsChannel::address_resolved() {
    auto device = devices_.device_of(*id_);
    if (const auto* problem = std::get_if<Problem>(&device)) return end(ChannelEnd::system, problem->text);
    auto queue = VerbsQueue::make(std::move(cm_events_), std::move(id_), std::get<0>(std::move(device)));
    if (const auto* problem = std::get_if<Problem>(&queue)) return end(ChannelEnd::no_memory, problem->text);
    queue_ = std::get<0>(std::move(queue));
    queue_->count_in(counters());
    if (const Refusal no = agreement_.prepare(*queue_)) return end(ChannelEnd::no_memory, no->text);
    uint8_t timeout = queue_->device().config().ack_timeout;
    if (rdma_set_option(queue_->id(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout) != 0)
        return end_with_call("rdma_set_option", errno);
    if (rdma_resolve_route(queue_->id(), resolve_ms_max) != 0) end_with_call("rdma_resolve_route", errno);
}

void VerbsChannel::route_resolved() {
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
    param.rnr_retry_count = 0;      // Q1
    if (const int failed = queue_->pair().connect(param); failed != 0) end_with_call("rdma_connect", failed);
}

void VerbsChannel::answered(std::string_view data) {
    const auto parsed = parse_verbs_welcome(data);
    if (const auto* problem = std::get_if<Problem>(&parsed)) return end(ChannelEnd::handshake, problem->text);
    const VerbsWelcome& welcome = std::get<0>(parsed);
    queue_->met(welcome.receives);
    if (const Refusal no = queue_->pair().ready(nullptr)) return end(ChannelEnd::system, no->text);
    if (const Refusal no = agreement_.answered(*queue_, welcome, describe())) return end(ChannelEnd::system, no->text);
    if (const int failed = queue_->pair().establish(); failed != 0) return end_with_call("rdma_establish", failed);
    opened();
    wakeups_.kick();  // frames flushed before are waiting
    events().connected();
}

void VerbsChannel::rejected(const rdma_cm_event& event) {
    const rdma_conn_param& param = event.param.conn;
    if (event.status == reject_no_listener) return end(ChannelEnd::refused, "");
    if (event.status != reject_by_consumer)
        return end(ChannelEnd::refused, "the connection manager's reason is " + std::to_string(event.status));
    const std::string_view data(static_cast<const char*>(param.private_data), param.private_data_len);
    const std::string text = verbs_refusal_text(data);
    end(ChannelEnd::handshake, text.empty() ? "no reason given" : text);
}

// ---- waking, and sleeping ---------------------------------------------------------------------------

void VerbsChannel::woken() {
    if (queue_ == nullptr) return;
    // The first call after the connection is made.
    if (!wakeups_.beats() && !wakeups_.begin_beats(queue_->completions().fd(), devices_.config().beat_ms))
        return end_with_call("timerfd_create", errno);
    const bool look = wakeups_.look_due();
    if (std::exchange(lingered_, false)) return;  // linger() collected
    if (look) {
        const VerbsWakeups::Seen seen = wakeups_.look(queue_->completions());
        if (seen.events) take_events();
        if (seen.beat) beat();
    }
    queue_->collect();
}

void VerbsChannel::beat() {
    if (queue_->failure().any()) queue_->look_no_further();
    if (queue_->completed() == completed_seen_) queue_->post_beat();
    completed_seen_ = queue_->completed();
}

bool VerbsChannel::anything_for(const Interest& interest) const {
    if (queue_->failure().bad().has_value() || queue_->anything_to_post()) return true;
    if (!queue_->reads_done().empty() || !reads_failed_.empty()) return true;
    if (queue_->reports().written() != 0) return true;
    if (interest.input && queue_->anything_came()) return true;
    return interest.output && queue_->room_to_push();
}

bool VerbsChannel::watch(const Interest& interest) {
    if (!devices_.config().sleeps) {
        interest_ = interest;
        return true;  // the owner calls ready() again in any case
    }
    if (interest.again || !queue_->arm()) {
        wakeups_.kick();
        return true;
    }
    interest_ = interest;
    queue_->collect();
    if (anything_for(interest)) return false;
    // A READ of a reply, a wake or the end of a message may be due while this end sleeps.
    const char* failed = wakeups_.wake_at(std::min(queue_->next_ns(), queue_->rpc().next_look_ns()));
    if (failed != nullptr) end_with_call(failed, errno);
    return true;
}

bool VerbsChannel::linger() {
    const bool sleeps = devices_.config().sleeps;
    if (!open() || ending() || ended() || (sleeps && !queue_->completions().armed())) return false;
    const bool look = looks();
    const uint32_t spins = sleeps && !look ? spins_.polls() : devices_.config().spins_max;
    for (uint32_t i = 0; i < spins; i++) {
        queue_->collect();
        if (anything_for(interest_)) {
            spins_.found(spins);
            lingered_ = true;
            return true;
        }
        pause_briefly();
    }
    if (spins > 0 && !look) spins_.found_nothing();
    return false;
}

bool VerbsChannel::looks() const {
    if (queue_ == nullptr || !open() || ending() || ended()) return false;
    return queue_->rpc().fetches() || queue_->rpc().looks(boottime_ns());
}

bool VerbsChannel::has_input() {
    if (queue_ == nullptr || !open() || ending() || ended()) return false;
    queue_->collect();
    lingered_ = anything_for(interest_);
    return lingered_;
}

void VerbsChannel::expect_replies(bool any) {
    if (queue_ != nullptr && queue_->rpc().has_reads()) queue_->rpc().expect_replies(any, boottime_ns());
}

RpcMode VerbsChannel::rpc() const {
    if (queue_ == nullptr) return RpcMode::count;
    const RpcChoice* choice = queue_->rpc().choice();
    return choice == nullptr ? RpcMode::send : choice->now();
}

// ---- bytes ------------------------------------------------------------------------------------------

size_t VerbsChannel::pull(char* to, size_t room) {
    const size_t got = queue_->pull(to, room);
    if (got < room) look_for_end();
    return got;
}

size_t VerbsChannel::push(std::string_view bytes) {
    size_t taken = queue_->push(bytes);
    if (taken < bytes.size()) {
        queue_->collect();
        taken += queue_->push(bytes.substr(taken));
    }
    return taken;
}

void VerbsChannel::post() {
    if (!queue_->ring()) wakeups_.kick();
}

void VerbsChannel::look_for_end() {
    const std::optional<VerbsBadCompletion>& bad = queue_->failure().bad();
    if (bad.has_value() && (!peer_gone_ || bad->refused || bad->why == ChannelEnd::corrupt))
        end(bad->why, bad->text);
    else if (peer_gone_ && !queue_->anything_came())
        end(ChannelEnd::peer_closed, "");
    if (ending()) retire();
}

void VerbsChannel::hang_up() {
    retire();
    wakeups_.kick();
}

// C1
void VerbsChannel::retire() {
    if (queue_ == nullptr) return;
    const bool last_words = open() && !peer_gone_ && !queue_->failure().any() && queue_->sends().reads_pending() == 0 &&
                            !queue_->device().removed();
    if (!last_words) return queue_.reset();
    queue_->leave(/* wait= */ devices_.deferred_closes() < deferred_reads_max);
    devices_.defer_close(std::move(queue_));
}

// ---- reads ------------------------------------------------------------------------------------------

void VerbsChannel::count_in(ChannelCounters& counters) {
    StreamChannel::count_in(counters);
    if (queue_ != nullptr) queue_->count_in(counters);
}

bool VerbsChannel::post_read(const ReadRequest& request) {
    CHECK(can_read());
    CHECK(well_formed(request.ptr));
    const bool count = request.count && counts_reads();
    if (!queue_->sends().room_to_read(count)) return false;
    if (agreement_.reads(request.ptr) && request.ptr.length <= queue_->device().read_bytes_max()) {
        queue_->post_read(request.landing, request.ptr.length, request.ptr.offset, request.token);
        if (count) queue_->post_count(request.ptr.offset);
    } else {
        reads_failed_.push_back(request.token);
        if (reads_failed_.size() == 1) wakeups_.kick();
    }
    return true;
}

bool VerbsChannel::post_fetch(const FetchRequest& request) {
    if (queue_ == nullptr || ending() || !queue_->sends().room_to_read(/* counted= */ false)) return false;
    if (!agreement_.fetches(request.offset, request.bytes)) return false;
    queue_->post_read(request.landing, request.bytes, request.offset, request.token);
    return true;
}

void VerbsChannel::copy_container(char* to, size_t bytes) const {
    CHECK(has_container());
    queue_->reports().own()->copy(to, bytes);
}

bool VerbsChannel::post_report(std::string_view bytes) {
    return queue_ != nullptr && open() && !ending() && queue_->post_report(bytes);
}

void VerbsChannel::tell_written() {
    const uint32_t bytes = queue_->reports().take_written();
    if (bytes != 0) events().written(bytes);
}

// Both lists keep their memory.
void VerbsChannel::tell_reads() {
    auto tell = [&](std::vector<uint64_t>& tokens, ReadStatus status) {
        telling_.swap(tokens);
        for (const uint64_t token : telling_) {
            if (ending()) break;
            events().read_done(token, status);
        }
        telling_.clear();
    };
    tell(queue_->reads_done(), ReadStatus::done);
    tell(reads_failed_, ReadStatus::failed);
}

// ---- rights -----------------------------------------------------------------------------------------

Result<std::string> VerbsChannel::grant() { return agreement_.grant(open_queue(), describe()); }

Refusal VerbsChannel::take_grant(std::string_view bytes) {
    Refusal no = agreement_.take_grant(open_queue(), bytes, describe());
    if (!no && agreement_.withholds()) wakeups_.kick();
    return no;
}

void VerbsChannel::revoke() {
    if (queue_ == nullptr) return;
    queue_->revoke();
    wakeups_.kick();
}

// ---- making one -------------------------------------------------------------------------------------

Result<std::unique_ptr<Channel>> connect_verbs(const SocketAddress& to, VerbsDevices& devices, const VerbsMemories& memories,
                                               ChannelEvents& events, const RpcWish& wish, size_t input_bytes_max) {
    const std::string name = verbs_name(to);
    Descriptor poller(epoll_create1(EPOLL_CLOEXEC));
    if (!poller) return no_descriptor(name);
    auto channel = std::make_unique<VerbsChannel>(std::move(poller), name, devices, events, input_bytes_max);
    if (const Refusal no = channel->connect(to, memories, wish)) return system_problem(name + ": " + no->text);
    return channel;
}

}  // namespace farcached::fabric
