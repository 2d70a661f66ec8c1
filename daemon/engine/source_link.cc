// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/source_link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/node_clock.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t pause_ns = 1'000'000'000;
constexpr size_t receive_bytes = 64 << 10;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

SourceLink::SourceLink(const SourceOptions& options, Waits& waits)
    : options_(options), readiness_(waits.make_readiness([this] { ready(); })) {}

SourceLink::~SourceLink() { readiness_->stop(); }

// False: the source cannot be reached now.
bool SourceLink::open() {
    if (state_ != State::closed) return true;
    if (boottime_ns() < again_at_ns_) return false;
    const fabric::SocketAddress& to = options_.addresses[attempts_++ % options_.addresses.size()];
    socket_.reset(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (socket_) setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!socket_ || (::connect(socket_.get(), to.get(), to.size) != 0 && errno != EINPROGRESS)) {
        socket_.reset();
        again_at_ns_ = boottime_ns() + pause_ns;
        return false;
    }
    state_ = State::connecting;
    readiness_->await(socket_.get(), /* writable= */ true);
    return true;
}

template <class Append>
void SourceLink::ask(Append append, Done&& done) {
    if (!open()) return done(false, Reply());
    const size_t before = out_.size();
    try {
        if (state_ == State::connecting && out_.empty()) out_ = "mn\r\n";
        append(out_);
        commands_.push_back({boottime_ns() + options_.timeout_ns, std::move(done)});
    } catch (const std::bad_alloc&) {
        out_.resize(before);
        throw;
    }
}

void SourceLink::get(std::string_view key, Done done) {
    ask([&](std::string& to) { protocol::append_source_get(to, key); }, std::move(done));
}

void SourceLink::remove(std::string_view key, Done done) {
    ask([&](std::string& to) { protocol::append_source_delete(to, key); }, std::move(done));
}

void SourceLink::flush(Done done) {
    ask([](std::string& to) { to.append("flush_all\r\n"); }, std::move(done));
}

void SourceLink::end_tick() {
    if (state_ == State::greeting || state_ == State::ready) send();
}

void SourceLink::send() {
    while (sent_ < out_.size()) {
        const ssize_t taken = ::send(socket_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (taken < 0 && !would_block()) return fail();
        if (taken < 0) break;
        sent_ += size_t(taken);
    }
    const bool all = sent_ == out_.size();
    if (all) {
        out_.clear();
        sent_ = 0;
    }
    readiness_->await(socket_.get(), /* writable= */ !all);
}

void SourceLink::ready() {
    if (state_ == State::closed) return;
    if (state_ == State::connecting) {
        int error = 0;
        socklen_t size = sizeof error;
        if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) return fail();
        state_ = State::greeting;
    }
    try {
        if (!receive()) return fail();
    } catch (const std::bad_alloc&) {
        return fail();
    }
    if (state_ != State::closed) send();
}

// False: the connection ends.
bool SourceLink::receive() {
    for (;;) {
        const size_t before = in_.size();
        in_.resize(before + receive_bytes);
        const ssize_t got = ::recv(socket_.get(), in_.data() + before, receive_bytes, MSG_DONTWAIT);
        const int error = errno;
        in_.resize(before + size_t(std::max<ssize_t>(got, 0)));
        errno = error;
        if (got < 0) return would_block();
        if (got == 0 || !take_replies()) return false;
        if (state_ == State::closed) return true;
    }
}

// False: what arrived is no reply.
bool SourceLink::take_replies() {
    size_t taken = 0;
    for (;;) {
        const size_t skipped = size_t(std::min<uint64_t>(skip_, in_.size() - taken));
        skip_ -= skipped;
        taken += skipped;
        const Reply reply = protocol::parse_source_reply(std::string_view(in_).substr(taken), options_.value_bytes_max);
        if (reply.status == Reply::Status::need_more || skip_ != 0) break;
        if (reply.status == Reply::Status::invalid) return false;
        taken += reply.bytes;
        skip_ = reply.skip;
        if (state_ == State::greeting) {
            if (reply.status != Reply::Status::done) return false;
            state_ = State::ready;
            continue;
        }
        if (commands_.empty()) return false;
        const Done done = std::move(commands_.front().done);
        commands_.pop_front();
        done(reply.status != Reply::Status::refused, reply);
        if (state_ == State::closed) return true;
    }
    in_.erase(0, taken);
    return true;
}

void SourceLink::timer_due() {
    if (timer_at_ns() <= boottime_ns()) fail();
}

void SourceLink::fail() {
    readiness_->stop();
    socket_.reset();
    const bool idle = state_ == State::ready && commands_.empty();  // the source may close idle connections
    state_ = State::closed;
    again_at_ns_ = idle ? 0 : boottime_ns() + pause_ns;
    std::string().swap(out_);
    std::string().swap(in_);
    sent_ = skip_ = 0;
    std::deque<Command> failed;
    std::swap(failed, commands_);
    for (const Command& command : failed) command.done(false, Reply());
}

}  // namespace farcached::daemon
