// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/session/datagrams.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/recorder.h"
#include "daemon/commands/binary_engine.h"
#include "protocol/udp_frame.h"

namespace farcached::daemon {

using protocol::BinaryRequest;
using protocol::BinaryStatus;

namespace {

constexpr int receives_per_turn = 8;
constexpr size_t datagram_bytes_kept = 2048;  // capacity of a datagram's buffer between two uses
constexpr size_t sends_together_max = 32;
constexpr std::string_view too_long = "reply exceeds udp_amplification";
constexpr std::string_view unfinished = "request does not end in its datagram";
constexpr std::string_view no_memory = "out of memory for datagrams";

// Without its key, which lies in the input.
BinaryRequest front_of(std::string_view input) {
    BinaryRequest request = protocol::parse_binary(input).request;
    request.key = {};
    return request;
}

void append_error(OutBuffer& out, std::string_view text) {
    out.append("SERVER_ERROR ");
    out.append(text);
    out.append("\r\n");
}

// The reply's source address: where the request arrived, on any interface for IPv4.
void turn_around(const msghdr& head, DatagramEnds& ends) {
    ends.peer.size = std::min<socklen_t>(head.msg_namelen, sizeof ends.peer.storage);
    std::memcpy(&ends.peer.storage, head.msg_name, ends.peer.size);
    ends.here_bytes = 0;
    const cmsghdr* const control = CMSG_FIRSTHDR(&head);
    if (control == nullptr || head.msg_controllen > ends.here.size()) return;
    std::memcpy(ends.here.data(), head.msg_control, head.msg_controllen);
    ends.here_bytes = head.msg_controllen;
    if (control->cmsg_level != IPPROTO_IP) return;
    in_pktinfo at{};
    char* const data = ends.here.data() + CMSG_LEN(0);
    std::memcpy(&at, data, sizeof at);
    at.ipi_ifindex = 0;
    std::memcpy(data, &at, sizeof at);
}

// As long as it lives an engine stops at that many bytes.
class Bound {
  public:
    Bound(size_t& bytes_max, size_t bytes) : bytes_max_(bytes_max), before_(bytes_max) { bytes_max = std::min(bytes_max, bytes); }
    ~Bound() { bytes_max_ = before_; }
    Bound(const Bound&) = delete;
    Bound& operator=(const Bound&) = delete;

  private:
    size_t& bytes_max_;
    const size_t before_;
};

// G6. As long as it lives no engine ends a session, and refusals show the datagram's sender.
class EndsNoSession {
  public:
    EndsNoSession(Context& context, const Datagram& datagram)
        : context_(context), room_(std::exchange(context.room, nullptr)) {
        context_.sender = &datagram.ends.peer;
    }
    ~EndsNoSession() {
        context_.room = room_;
        context_.sender = nullptr;
    }
    EndsNoSession(const EndsNoSession&) = delete;
    EndsNoSession& operator=(const EndsNoSession&) = delete;

  private:
    Context& context_;
    RoomMaker* const room_;
};

}  // namespace

Datagrams::Datagrams(Context& context, const WorkerLive& live, SocketEvents& events, ReplyPool& replies, Waits& waits,
                     std::span<UdpSocket* const> sockets, bool later)
    : context_(context), live_(live), events_(events), pool_(replies), later_(later),
      memory_(kept_bytes_max, context.memory) {
    if (sockets.empty()) return;
    in_.reset(new char[together_max * bytes_max]);
    arrivals_ = std::make_unique<Arrival[]>(together_max);
    for (std::vector<Datagram*>* list : {&turn_, &taking_}) list->reserve(in_flight_max);
    for (UdpSocket* socket : sockets) {
        sockets_.push_back({socket, waits.make_readiness([this, socket] {
                                for (int i = 0; i < receives_per_turn; i++)
                                    if (!receive(*socket)) return;
                            })});
    }
}

// ---- receiving ------------------------------------------------------------------------------------------

void Datagrams::await(bool on) {
    awaited_ = on;
    for (const Awaited& one : sockets_) on ? one.ready->await(one.socket->fd, /* writable= */ false) : one.ready->stop();
}

// False: the socket holds no more, or there is no room for more.
bool Datagrams::receive(UdpSocket& socket) {
    const size_t most = std::min<size_t>(together_max, in_flight_max - in_flight_);
    if (most == 0) return false;
    std::array<mmsghdr, together_max> heads{};
    std::array<iovec, together_max> places;
    for (size_t i = 0; i < most; i++) {
        places[i] = {in_.get() + i * bytes_max, bytes_max};
        msghdr& head = heads[i].msg_hdr;
        head.msg_iov = &places[i];
        head.msg_iovlen = 1;
        head.msg_name = &arrivals_[i].peer;
        head.msg_namelen = sizeof arrivals_[i].peer;
        head.msg_control = arrivals_[i].control.data();
        head.msg_controllen = arrivals_[i].control.size();
    }
    const int got = recvmmsg(socket.fd, heads.data(), unsigned(most), MSG_DONTWAIT, nullptr);
    context_.counters.read_calls.add(1);
    if (got <= 0) return false;
    events_.read_clock();
    socket.last_command.store(context_.now, std::memory_order_relaxed);
    std::array<std::string_view, together_max> inputs;
    for (size_t i = 0; i < size_t(got); i++) {
        inputs[i] = {in_.get() + i * bytes_max, heads[i].msg_len};
        inputs[i].remove_prefix(std::min(protocol::udp_header_bytes, inputs[i].size()));
    }
    if (got > 1) events_.coming(std::span(inputs).first(size_t(got)));
    for (size_t i = 0; i < size_t(got); i++)
        serve(socket, heads[i].msg_hdr, {in_.get() + i * bytes_max, heads[i].msg_len});
    if (in_flight_ == in_flight_max) await(false);  // G2
    return size_t(got) == most;
}

void Datagrams::serve(UdpSocket& socket, const msghdr& head, std::string_view bytes) {
    context_.counters.bytes_read.add(bytes.size());
    const auto request = protocol::parse_udp_request(bytes);
    if (!request.has_value() || (head.msg_flags & MSG_TRUNC) != 0) return context_.counters.udp_invalid.add(1);
    context_.counters.udp_datagrams.add(1);
    Datagram* taken = nullptr;
    try {
        taken = &take(socket);
    } catch (const std::bad_alloc&) {
        return context_.counters.udp_no_memory.add(1);
    }
    Datagram& datagram = *taken;
    turn_around(head, datagram.ends);
    datagram.id = request->id;
    const bool looks_binary = uint8_t(request->bytes.front()) == protocol::binary_request_magic;
    datagram.binary = socket.protocol == SessionProtocol::any ? looks_binary : socket.protocol == SessionProtocol::binary;
    if (datagram.binary) datagram.first = front_of(request->bytes);
    datagram.reply_max = protocol::udp_reply_max(bytes.size(), live_.udp_amplification);
    datagram.state.fd = socket.fd;
    datagram.state.datagram = true;
    grant_rights(context_, datagram.state);
    datagram.state.replies = datagram.replies.has_value() ? &*datagram.replies : nullptr;
    step(datagram, request->bytes);
}

Datagram& Datagrams::take(UdpSocket& socket) {
    if (free_ == nullptr) free_ = &datagrams_.emplace_back(&memory_);
    if (later_) free_->replies.emplace(pool_, socket.fd, nullptr, free_, &memory_);
    in_flight_++;
    socket.in_flight.fetch_add(1, std::memory_order_relaxed);
    Datagram& datagram = *free_;
    free_ = datagram.next_free;
    datagram.socket = &socket;
    return datagram;
}

void Datagrams::free(Datagram& datagram) {
    unqueue(datagram);
    discharge(datagram);
    datagram.socket->in_flight.fetch_sub(1, std::memory_order_relaxed);
    datagram.socket = nullptr;
    datagram.whole = datagram.refused = datagram.holds = false;
    datagram.state = SessionState();
    datagram.replies.reset();
    release(datagram.input);
    datagram.input_start = 0;
    datagram.out.clear(datagram_bytes_kept);
    datagram.next_free = free_;
    free_ = &datagram;
    in_flight_--;
    if (!awaited_ && !stopping_) await(true);
}

// ---- executing ------------------------------------------------------------------------------------------

// W4: without memory the datagram is refused.
template <class Work>
bool Datagrams::within_memory(Datagram& datagram, Work work) {
    try {
        work();
        return true;
    } catch (const std::bad_alloc&) {
        context_.counters.udp_no_memory.add(1);
        refuse(datagram, BinaryStatus::no_memory, no_memory);
        return false;
    }
}

void Datagrams::step(Datagram& datagram, std::string_view input) {
    Recorder* const recorder = context_.recorder;
    if (recorder != nullptr) recorder->take(datagram.socket->fd, datagram.socket->address, input);
    const bool executed = within_memory(datagram, [&] { execute(datagram, input); });
    if (recorder != nullptr) recorder->put_down();
    if (executed) end_or_keep(datagram);
}

void Datagrams::execute(Datagram& datagram, std::string_view input) {
    if (context_.latencies != nullptr && context_.latencies->lists_slow())
        context_.latencies->begin_batch(datagram.socket->fd, input);
    const size_t room = datagram.reply_max - std::min(datagram.reply_max, datagram.out.leaves());
    const Bound bound(context_.out_bytes_max, room + 1);
    const EndsNoSession ends_none(context_, datagram);
    auto* const engine = datagram.binary ? run_binary : run_text;
    const Progress progress = engine(context_, datagram.state, input, out_, live_.requests_per_event);
    CHECK(progress.consumed <= input.size());
    const std::string_view rest = input.substr(progress.consumed);
    if (progress.next == Next::more) tell_unfinished(datagram, rest);
    if (datagram.replies.has_value()) datagram.replies->settle(out_);
    datagram.out.empty() ? datagram.out.swap(out_) : datagram.out.take(out_);
    out_.clear(datagram_bytes_kept);
    CHECK(progress.next != Next::watch);  // the engine refuses streams to a datagram
    CHECK(progress.next != Next::dump);
    const bool goes_on = progress.next == Next::yield || progress.next == Next::hold;
    datagram.whole = !goes_on || rest.empty();
    if (datagram.whole) return;
    datagram.holds = progress.next == Next::hold;
    datagram.held_slots = datagram.holds ? datagram.replies->slots() : 0;
    if (datagram.input.empty()) datagram.input.assign(rest);
    datagram.input_start = datagram.input.size() - rest.size();
}

// G4. A line without its end gets no reply, as in memcached.
void Datagrams::tell_unfinished(const Datagram& datagram, std::string_view rest) {
    const SessionState& state = datagram.state;
    const std::string_view head = state.pending != nullptr ? std::string_view(state.pending->head) : rest;
    const bool in_line = state.line.kind != GetLine::Kind::none;
    if (head.empty() && !in_line) return;
    context_.counters.udp_invalid.add(1);
    if (datagram.binary) {
        if (head.size() < protocol::binary_header_bytes) return;
        return binary::answer_error(out_, front_of(head), BinaryStatus::too_large, unfinished);
    }
    std::string_view line = head.substr(0, head.find('\n'));
    if (!in_line && line.size() == head.size()) return;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.ends_with(" noreply")) append_error(out_, unfinished);
}

void Datagrams::deliver(Datagram& datagram) {
    const EndsNoSession ends_none(context_, datagram);
    const bool emitted = within_memory(datagram, [&] {
        datagram.replies->emit(out_);
        datagram.out.empty() ? datagram.out.swap(out_) : datagram.out.take(out_);
        out_.clear(datagram_bytes_kept);
    });
    if (emitted) end_or_keep(datagram);
}

void Datagrams::end_or_keep(Datagram& datagram) {
    ReplyQueue* const replies = datagram.state.replies;
    const bool waits = replies != nullptr && !replies->empty();
    if (datagram.refused) {
        datagram.out.clear(0);
        return waits ? replies->remind() : free(datagram);
    }
    if (protocol::udp_sent_bytes(datagram.out.leaves()) > datagram.reply_max) {
        context_.counters.udp_replies_refused.add(1);
        return refuse(datagram, BinaryStatus::too_large, too_long);  // G3
    }
    if (!waits && datagram.whole) {
        if (within_memory(datagram, [&] { send(datagram); })) free(datagram);
        return;
    }
    if (!within_memory(datagram, [&] { charge(datagram); })) return;
    if (!waits) return queue(datagram);
    replies->remind();
    if (datagram.whole) return;
    if (!datagram.holds || (replies->slots() < datagram.held_slots && replies->has_room())) queue(datagram);
}

// G5.
void Datagrams::charge(Datagram& datagram) {
    datagram.out.own_all();
    const size_t held = datagram.out.capacity();
    if (held <= datagram_bytes_kept) return discharge(datagram);
    if (held <= datagram.charged) return;
    if (!memory_.take(held - datagram.charged)) throw SessionMemorySpent();
    datagram.charged = held;
}

void Datagrams::discharge(Datagram& datagram) { memory_.give_back(std::exchange(datagram.charged, 0)); }

void Datagrams::queue(Datagram& datagram) {
    if (std::exchange(datagram.queued, true)) return;
    turn_.push_back(&datagram);
}

void Datagrams::unqueue(Datagram& datagram) {
    if (!std::exchange(datagram.queued, false)) return;
    std::erase(turn_, &datagram);
    std::ranges::replace(taking_, &datagram, nullptr);
}

// W3: after the sockets that were ready with them.
void Datagrams::take_turns() {
    if (turn_.empty()) return;
    events_.read_clock();
    taking_.swap(turn_);
    for (Datagram* const& datagram : taking_) {
        if (datagram == nullptr) continue;
        datagram->queued = false;
        step(*datagram, std::string_view(datagram->input).substr(datagram->input_start));
    }
    taking_.clear();
}

// ---- sending --------------------------------------------------------------------------------------------

// Sends an error instead of its replies, if that has room (G3). Answers to its requests under way are still counted.
void Datagrams::refuse(Datagram& datagram, BinaryStatus status, std::string_view why) {
    if (context_.recorder != nullptr) context_.recorder->put_down();  // its view is of the input
    out_.clear(0);
    datagram.out.clear(0);
    discharge(datagram);
    unqueue(datagram);
    release(datagram.input);
    datagram.state.pending.reset();
    datagram.whole = datagram.refused = true;
    try {
        if (datagram.binary)
            binary::answer_error(datagram.out, datagram.first, status, why);
        else
            append_error(datagram.out, why);
        if (protocol::udp_sent_bytes(datagram.out.leaves()) <= datagram.reply_max) send(datagram);
    } catch (const std::bad_alloc&) {  // no reply
    }
    datagram.out.clear(0);
    if (datagram.replies.has_value()) datagram.replies->discard();
    end_or_keep(datagram);
}

void Datagrams::send(Datagram& datagram) {
    if (datagram.out.empty()) return;
    events_.before_sending();
    datagram.out.own_all();
    send_all(datagram, datagram.out.own());
}

// G1.
void Datagrams::send_all(const Datagram& datagram, std::string_view reply) {
    std::array<std::array<char, protocol::udp_header_bytes>, sends_together_max> headers;
    std::array<std::array<iovec, 2>, sends_together_max> parts;
    std::array<mmsghdr, sends_together_max> heads;
    DatagramEnds ends = datagram.ends;
    const size_t count = protocol::udp_datagrams_of(reply.size());
    for (size_t number = 0; number < count;) {
        size_t ready = 0;
        for (; ready < sends_together_max && number + ready < count; ready++) {
            const std::string_view part = reply.substr((number + ready) * protocol::udp_payload_max, protocol::udp_payload_max);
            protocol::write_udp_header(headers[ready].data(), datagram.id, number + ready, count);
            parts[ready] = {{{headers[ready].data(), headers[ready].size()}, {const_cast<char*>(part.data()), part.size()}}};
            msghdr& head = heads[ready].msg_hdr;
            head = {};
            head.msg_iov = parts[ready].data();
            head.msg_iovlen = parts[ready].size();
            head.msg_name = ends.peer.size != 0 ? ends.peer.get() : nullptr;
            head.msg_namelen = ends.peer.size;
            head.msg_control = ends.here_bytes != 0 ? ends.here.data() : nullptr;
            head.msg_controllen = ends.here_bytes;
        }
        const int sent = sendmmsg(datagram.socket->fd, heads.data(), unsigned(ready), MSG_DONTWAIT | MSG_NOSIGNAL);
        context_.counters.write_calls.add(1);
        if (sent < 0 && errno == EINTR) continue;
        for (int i = 0; i < sent; i++) context_.counters.bytes_written.add(heads[size_t(i)].msg_len);
        if (sent <= 0) return context_.counters.udp_replies_lost.add(1);
        number += size_t(sent);
    }
}

// ---- the end --------------------------------------------------------------------------------------------

void Datagrams::begin_stop() {
    constexpr int receives_max = 64;
    for (const Awaited& one : sockets_)
        for (int i = 0; i < receives_max && receive(*one.socket); i++) continue;
    stopping_ = true;
    await(false);
}

void Datagrams::end_all() {
    for (Datagram& datagram : datagrams_)
        if (datagram.socket != nullptr) free(datagram);
    out_.clear(0);
}

}  // namespace farcached::daemon
