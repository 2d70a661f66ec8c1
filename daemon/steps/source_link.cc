// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/steps/source_link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/node_clock.h"
#include "process/log.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t rest_ns = 1'000'000'000;
constexpr uint64_t retry_ns = 20'000'000;
constexpr size_t receive_bytes = 64 << 10;
constexpr int receives_max = 4;  // per call of ready()
constexpr std::string_view greeting = "mn\r\n";

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

bool is_reply_to(SourceLink::Kind kind, uint64_t number, const protocol::SourceReply& reply) {
    using Status = protocol::SourceReply::Status;
    if (reply.status == Status::refused) return true;
    const bool has_number = reply.opaque == number;
    switch (kind) {
        case SourceLink::Kind::get:
            if (reply.status == Status::miss) return !reply.opaque.has_value() || has_number;  // older sources repeat none
            return has_number &&
                   (reply.status == Status::item || reply.status == Status::unusable || reply.status == Status::too_large);
        case SourceLink::Kind::remove: return has_number && (reply.status == Status::deleted || reply.status == Status::not_found);
        case SourceLink::Kind::flush: return reply.status == Status::ok;
    }
    return false;
}

}  // namespace

// ---- WarmSource --------------------------------------------------------------------------------------

size_t WarmSource::address(size_t attempt) const {
    const size_t pinned = pinned_.load(std::memory_order_acquire);
    return pinned != none ? pinned : attempt % options_.addresses.size();
}

bool WarmSource::greeted(size_t address) noexcept {
    size_t expected = none;
    const bool first = pinned_.compare_exchange_strong(expected, address, std::memory_order_acq_rel);
    if (!first && expected != address) return false;
    if (told_.exchange(false, std::memory_order_relaxed))
        process::say_made(process::Level::info, [&] { return "warm_from: " + options_.name + " replies again"; });
    return true;
}

void WarmSource::failed(std::string_view why) noexcept {
    if (told_.exchange(true, std::memory_order_relaxed)) return;
    process::say_made(process::Level::warning, [&] {
        return "warm_from: " + options_.name + ": " + std::string(why) +
               "; until it replies, misses are not fetched, and changes of items are refused";
    });
}

// ---- commands ----------------------------------------------------------------------------------------

SourceLink::SourceLink(WarmSource& source, Waits& waits, Sink& sink, bool rests)
    : source_(source), sink_(sink), rests_(rests), readiness_(waits.make_readiness([this] { ready(); })) {}

SourceLink::~SourceLink() { readiness_->stop(); }

void SourceLink::ask(Kind kind, std::string_view key, uint64_t number) {
    std::string text;
    bool possible = true;
    switch (kind) {
        case Kind::get: possible = protocol::append_source_get(text, key, number); break;
        case Kind::remove: possible = protocol::append_source_delete(text, key, number); break;
        case Kind::flush: text = "flush_all\r\n"; break;
    }
    Reply absent;
    absent.status = kind == Kind::get ? Reply::Status::miss : Reply::Status::not_found;
    if (!possible) return sink_.source_answered(number, /* ok= */ true, absent);
    const uint64_t now_ns = boottime_ns();
    if (rests_ && state_ == State::closed && now_ns < again_at_ns_) return sink_.source_answered(number, /* ok= */ false, Reply());
    commands_.push_back({kind, number, now_ns + source_.options().timeout_ns, std::move(text)});
    if (state_ == State::closed && now_ns >= again_at_ns_) open();
}

void SourceLink::end_tick() {
    if (state_ == State::ready && sent_ < commands_.size()) send();
}

void SourceLink::stop() {
    disconnect();
    fail_all();
}

uint64_t SourceLink::first_deadline_ns() const {
    return std::max(commands_.front().deadline_ns, replied_ns_ + source_.options().timeout_ns);
}

uint64_t SourceLink::timer_at_ns() const {
    if (commands_.empty()) return UINT64_MAX;
    const uint64_t deadline_ns = first_deadline_ns();
    if (state_ == State::ready) return deadline_ns;
    return std::min(deadline_ns, state_ == State::closed ? again_at_ns_ : greet_by_ns_);
}

// A command that times out may have its reply under way, so the connection ends.
void SourceLink::timer_due() {
    if (timer_at_ns() > boottime_ns()) return;
    if (first_deadline_ns() <= boottime_ns()) {
        disconnect();
        source_.failed("no reply within warm_timeout_ms");
        if (rests_) {
            again_at_ns_ = boottime_ns() + rest_ns;
            return fail_all();
        }
        const uint64_t last = commands_.back().number;  // the sink may submit others
        while (!commands_.empty() && first_deadline_ns() <= boottime_ns()) {
            const bool is_last = commands_.front().number == last;
            fail_first();
            if (is_last) break;
        }
        if (!commands_.empty() && state_ == State::closed) open();
        return;
    }
    if (state_ == State::closed) return open();
    failed("no greeting in time");
}

void SourceLink::fail_first() noexcept {
    const uint64_t number = commands_.front().number;
    commands_.pop_front();
    sink_.source_answered(number, /* ok= */ false, Reply());
}

// Not those that the sink submits meanwhile.
void SourceLink::fail_all() noexcept {
    for (size_t left = commands_.size(); left > 0; left--) fail_first();
}

// ---- the connection ----------------------------------------------------------------------------------

void SourceLink::open() {
    address_ = source_.address(attempts_++);
    tries_++;
    const fabric::SocketAddress& to = source_.options().addresses[address_];
    socket_.reset(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (socket_) setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!socket_ || (::connect(socket_.get(), to.get(), to.size) != 0 && errno != EINPROGRESS)) return failed(std::strerror(errno));
    state_ = State::connecting;
    greet_by_ns_ = boottime_ns() + source_.options().timeout_ns / 2;
    readiness_->await(socket_.get(), /* writable= */ true);
}

// False: it would block, or the connection has ended.
bool SourceLink::send_text(std::string_view text, size_t& sent) {
    while (sent < text.size()) {
        const ssize_t taken = ::send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (taken < 0) {
            if (would_block())
                readiness_->await(socket_.get(), /* writable= */ true);
            else
                failed(std::strerror(errno));
            return false;
        }
        sent += size_t(taken);
    }
    return true;
}

void SourceLink::send() {
    if (state_ == State::greeting && !send_text(greeting, sent_bytes_)) return;
    if (state_ == State::ready) {
        for (; sent_ < commands_.size(); sent_++) {
            if (!send_text(commands_[sent_].text, sent_bytes_)) return;
            sent_bytes_ = 0;
        }
    }
    readiness_->await(socket_.get(), /* writable= */ false);
}

void SourceLink::ready() {
    if (state_ == State::closed) return;
    if (state_ == State::connecting) {
        int error = 0;
        socklen_t size = sizeof error;
        if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
        if (error != 0) return failed(std::strerror(error));
        state_ = State::greeting;
    }
    try {
        if (!receive()) return failed("it ended the connection, or sent something else than memcached 1.6");
    } catch (const std::bad_alloc&) {
        return failed("no memory for a reply");
    }
    if (state_ != State::closed) send();
}

// False: the connection ends.
bool SourceLink::receive() {
    for (int i = 0; i < receives_max; i++) {
        const size_t before = in_.size();
        in_.resize(before + receive_bytes);
        const ssize_t got = ::recv(socket_.get(), in_.data() + before, receive_bytes, MSG_DONTWAIT);
        const int error = errno;
        in_.resize(before + size_t(std::max<ssize_t>(got, 0)));
        errno = error;
        if (got < 0) return would_block();
        if (got == 0 || !take_replies()) return false;
        if (size_t(got) < receive_bytes) return true;
    }
    return true;
}

// False: what arrived is no reply to what was sent.
bool SourceLink::take_replies() {
    size_t taken = 0;
    for (;;) {
        const size_t skipped = size_t(std::min<uint64_t>(skip_, in_.size() - taken));
        skip_ -= skipped;
        taken += skipped;
        if (skip_ != 0) break;
        const Reply reply = protocol::parse_source_reply(std::string_view(in_).substr(taken), source_.options().value_bytes_max);
        if (reply.status == Reply::Status::need_more) break;
        if (!take(reply)) return false;
        taken += reply.bytes;
        skip_ = reply.skip;
    }
    in_.erase(0, taken);
    return true;
}

bool SourceLink::take(const Reply& reply) {
    if (state_ == State::greeting) {
        if (reply.status != Reply::Status::version || !source_.greeted(address_)) return false;
        state_ = State::ready;
        sent_bytes_ = 0;
        return true;
    }
    if (sent_ == 0 || !is_reply_to(commands_.front().kind, commands_.front().number, reply)) return false;
    const uint64_t number = commands_.front().number;
    commands_.pop_front();
    sent_--;
    tries_ = 0;
    replied_ns_ = boottime_ns();
    sink_.source_answered(number, reply.status != Reply::Status::refused, reply);
    return true;
}

void SourceLink::disconnect() noexcept {
    readiness_->stop();
    socket_.reset();
    state_ = State::closed;
    std::string().swap(in_);
    sent_ = sent_bytes_ = 0;
    skip_ = 0;
}

// The connection has ended. One more connection than addresses is tried at once, as the source may close any at any time.
void SourceLink::failed(const char* why) noexcept {
    disconnect();
    if (commands_.empty()) return;  // the source may close idle connections
    if (tries_ <= source_.options().addresses.size()) {
        again_at_ns_ = 0;
        return open();
    }
    tries_ = 0;
    source_.failed(why);
    again_at_ns_ = boottime_ns() + (rests_ ? rest_ns : retry_ns);
    if (rests_) fail_all();
}

}  // namespace farcached::daemon
