// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/tcp_channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "fabric/socket.h"
#include "fabric/stream_channel.h"

namespace farcached::fabric {

namespace {

// Detects a silent host after some two minutes, also on a connection that only receives.
constexpr int keepalive_idle_s = 60, keepalive_interval_s = 15, keepalive_probes = 4;

void set_option(int fd, int level, int name, int value) {
    (void)setsockopt(fd, level, name, &value, sizeof value);
}

void set_stream_options(int fd) {
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, keepalive_idle_s);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, keepalive_interval_s);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, keepalive_probes);
}

class TcpChannel final : public StreamChannel {
  public:
    // tls: nullptr: none.
    TcpChannel(Descriptor socket, Descriptor poller, std::string name, ChannelEvents& events, size_t input_bytes_max,
               std::unique_ptr<TlsStream> tls)
        : StreamChannel(std::move(poller), std::move(name), events, input_bytes_max),
          socket_(std::move(socket)),
          tls_(std::move(tls)) {}

    void connect(const SocketAddress& to);
    void accepted() {
        watched_ = EPOLLIN;
        if (tls_ == nullptr) return opened();
        greeting_ = true;
    }

    bool post_read(const ReadRequest&) override { panic("post_read over tcp", __FILE__, __LINE__); }

  private:
    void advance() override;
    void woken() override {}
    size_t pull(char* to, size_t room) override;
    size_t push(std::string_view bytes) override;
    void look_for_end() override;
    bool watch(const Interest& interest) override;
    void hang_up() override { (void)shutdown(socket_.get(), SHUT_RDWR); }
    int socket_error() const;
    bool connected();
    void shake_hands();
    void end_with_tls(TlsStream::Outcome outcome);
    void wait_for(uint32_t wanted);

    Descriptor socket_;
    std::unique_ptr<TlsStream> tls_;
    bool connects_ = false;
    bool greeting_ = false;                  // TLS's handshake is under way
    uint32_t watched_ = EPOLLIN | EPOLLOUT;  // as registered with the poller
};

void TcpChannel::connect(const SocketAddress& to) {
    connects_ = true;
    if (::connect(socket_.get(), to.get(), to.size) == 0) return;
    if (errno == EINPROGRESS || errno == EINTR) return;
    end_with_errno(channel_end_of(errno), errno);
    hang_up();
}

int TcpChannel::socket_error() const {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
    return error;
}

void TcpChannel::advance() {
    if (!greeting_ && !connected()) return;
    if (tls_ != nullptr) {
        greeting_ = true;
        shake_hands();
        if (greeting_ || ending()) return;
    }
    opened();
    if (connects_) events().connected();
}

// Of TCP. False: not yet, or it ends.
bool TcpChannel::connected() {
    const int error = socket_error();
    if (error != 0) return end_with_errno(channel_end_of(error), error), false;
    SocketAddress here, there;
    here.size = there.size = sizeof here.storage;
    if (getpeername(socket_.get(), there.get(), &there.size) != 0) return false;
    // A connection to an ephemeral port of this host without a listener can connect to itself.
    const bool itself = getsockname(socket_.get(), here.get(), &here.size) == 0 && here == there;
    if (itself) end(ChannelEnd::refused, "the connection connected to itself");
    return !itself;
}

void TcpChannel::shake_hands() {
    const TlsStream::Outcome outcome = tls_->shake_hands();
    if (outcome == TlsStream::Outcome::done) {
        greeting_ = false;
    } else if (outcome == TlsStream::Outcome::ended) {
        end(ChannelEnd::tls, "the peer closed the connection in the handshake");
    } else {
        end_with_tls(outcome);
        if (!ending()) wait_for(outcome == TlsStream::Outcome::wants_output ? EPOLLOUT : EPOLLIN);
    }
}

// Only if that is the outcome.
void TcpChannel::end_with_tls(TlsStream::Outcome outcome) {
    if (outcome == TlsStream::Outcome::ended) return end(ChannelEnd::peer_closed, "");
    if (outcome != TlsStream::Outcome::failed) return;
    const int error = errno;
    if (!tls_->failure().empty()) return end(ChannelEnd::tls, tls_->failure());
    end_with_errno(channel_end_of(error), error);
}

size_t TcpChannel::pull(char* to, size_t room) {
    if (tls_ != nullptr) {
        TlsStream::Outcome outcome = TlsStream::Outcome::done;
        const size_t got = tls_->receive(to, room, outcome);
        end_with_tls(outcome);
        return got;
    }
    for (;;) {
        const ssize_t got = recv(socket_.get(), to, room, MSG_DONTWAIT);
        if (got > 0) return size_t(got);
        if (got == 0) {
            end(ChannelEnd::peer_closed, "");
            return 0;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) end_with_errno(channel_end_of(errno), errno);
        return 0;
    }
}

size_t TcpChannel::push(std::string_view bytes) {
    if (tls_ != nullptr) {
        TlsStream::Outcome outcome = TlsStream::Outcome::done;
        const size_t sent = tls_->send(bytes, outcome);
        end_with_tls(outcome);
        return sent;
    }
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    for (;;) {
        const ssize_t sent = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) return size_t(sent);
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) end_with_errno(channel_end_of(errno), errno);
        return 0;
    }
}

void TcpChannel::look_for_end() {
    const int error = socket_error();
    if (error != 0) end_with_errno(channel_end_of(error), error);
}

bool TcpChannel::watch(const Interest& interest) {
    // An idle stream is writable: EPOLLOUT makes fd() readable at once.
    const uint32_t wanted = (interest.input ? uint32_t(EPOLLIN) : 0) |
                            (interest.output || interest.again ? uint32_t(EPOLLOUT) : 0);
    if (wanted != watched_ || interest.again) wait_for(wanted);
    return true;
}

void TcpChannel::wait_for(uint32_t wanted) {
    epoll_event event{};
    event.events = wanted;
    CHECK(epoll_ctl(poller(), EPOLL_CTL_MOD, socket_.get(), &event) == 0);
    watched_ = wanted;
}

}  // namespace

Result<std::unique_ptr<Channel>> connect_tcp(const SocketAddress& to, ChannelEvents& events, const TcpOptions& options) {
    const std::string name = "tcp:" + to_string(to);
    Descriptor fd(socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    Descriptor poller;
    if (fd) poller = poller_of(fd.get(), EPOLLIN | EPOLLOUT);
    if (!poller) return no_descriptor(name);
    set_stream_options(fd.get());
    auto tls = options.tls != nullptr ? options.tls->connect(fd.get(), options.host) : nullptr;
    auto channel =
        std::make_unique<TcpChannel>(std::move(fd), std::move(poller), name, events, options.input_bytes_max, std::move(tls));
    channel->connect(to);
    return channel;
}

// ---- listener ---------------------------------------------------------------------------------------

TcpListener::TcpListener(Descriptor socket, Descriptor reserve, const SocketAddress& address, const TcpOptions& options)
    : socket_(std::move(socket)),
      reserve_(std::move(reserve)),
      address_(address),
      options_(options) {}

Result<std::unique_ptr<TcpListener>> TcpListener::listen(const SocketAddress& at, int backlog, const TcpOptions& options) {
    auto refuse = [&](const char* call) {
        return system_problem(std::string(call) + ": cannot listen at tcp:" + to_string(at) + ": " + std::strerror(errno));
    };
    Descriptor fd(socket(at.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) return refuse("socket");
    set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (at.storage.ss_family == AF_INET6) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (bind(fd.get(), at.get(), at.size) != 0) return refuse("bind");
    if (::listen(fd.get(), backlog) != 0) return refuse("listen");
    SocketAddress bound;
    bound.size = sizeof bound.storage;
    if (getsockname(fd.get(), bound.get(), &bound.size) != 0) return refuse("getsockname");
    return std::unique_ptr<TcpListener>(
        new TcpListener(std::move(fd), reserve_descriptor(), bound, options));
}

std::unique_ptr<TcpListener> TcpListener::adopt(Descriptor socket, const TcpOptions& options) {
    SocketAddress bound;
    bound.size = sizeof bound.storage;
    CHECK(getsockname(socket.get(), bound.get(), &bound.size) == 0);
    return std::unique_ptr<TcpListener>(
        new TcpListener(std::move(socket), reserve_descriptor(), bound, options));
}

std::unique_ptr<Channel> TcpListener::accept(ChannelEvents& events) {
    for (;;) {
        SocketAddress from;
        Descriptor fd = accept_one(socket_.get(), reserve_, &from, turned_away_);
        if (!fd) return nullptr;
        Descriptor poller = poller_of(fd.get(), EPOLLIN);
        if (!poller) {
            turned_away_++;
            continue;
        }
        set_stream_options(fd.get());
        auto tls = options_.tls != nullptr ? options_.tls->accept(fd.get()) : nullptr;
        auto channel = std::make_unique<TcpChannel>(std::move(fd), std::move(poller), "tcp:" + to_string(from), events,
                                                    options_.input_bytes_max, std::move(tls));
        channel->set_source(source_of(from));
        channel->accepted();
        return channel;
    }
}

std::string TcpListener::describe() const { return "tcp:" + to_string(address_); }

}  // namespace farcached::fabric
