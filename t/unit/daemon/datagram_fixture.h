// SPDX-License-Identifier: BSD-3-Clause
// Fixture of the tests of UDP: a worker's Datagrams over a pair of datagram sockets, in front of a small real node. The test is
// the event loop. A pair of Unix sockets, unlike one of UDP, refuses to send while the other end's queue is full.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/session/datagrams.h"
#include "protocol/udp_frame.h"
#include "t/unit/daemon/text_fixture.h"

namespace fixture {

class ManualWaits final : public daemon::Waits {
  public:
    std::unique_ptr<daemon::Readiness> make_readiness(std::function<void()> ready) override {
        auto one = std::make_unique<One>(std::move(ready));
        last_ = one.get();
        return one;
    }
    bool awaited() const { return last_->awaited; }
    void turn() {
        if (last_->awaited) last_->ready();
    }

  private:
    struct One final : daemon::Readiness {
        explicit One(std::function<void()> callback) : ready(std::move(callback)) {}
        void await(int, bool) override { awaited = true; }
        void stop() override { awaited = false; }
        const std::function<void()> ready;
        bool awaited = false;
    };
    One* last_ = nullptr;
};

class NoEvents final : public daemon::SocketEvents {
  public:
    void read_clock() override {}
    void coming(std::span<const std::string_view>) override {}
    void received(daemon::Session&, std::string_view, bool) override { std::abort(); }
    void received_in_place(daemon::Session&, size_t) override { std::abort(); }
    void input_ended(daemon::Session&, int) override { std::abort(); }
    void writable(daemon::Session&) override { std::abort(); }
    void before_sending() override { sends++; }
    void unsent(daemon::Session&, OutBuffer&, size_t, int) override { std::abort(); }
    void sent(daemon::Session&) override { std::abort(); }
    void turn_of_waiting() override { std::abort(); }

    int sends = 0;
};

inline std::string udp_frame(uint16_t id, std::string_view bytes, uint16_t total = 1) {
    std::array<char, protocol::udp_header_bytes> header{};
    protocol::write_udp_header(header.data(), id, 0, total);
    return std::string(header.data(), header.size()).append(bytes);
}

class DatagramTalk {
  public:
    explicit DatagramTalk(bool later = false, bool unix_pair = false, daemon::SessionMemory* memory = nullptr) {
        talk.context.memory = memory;
        unix_pair ? pair_unix() : pair_udp();
        std::array<daemon::UdpSocket*, 1> sockets = {&socket};
        datagrams = std::make_unique<daemon::Datagrams>(talk.context, live, events, pool, waits, sockets, later);
        datagrams->start();
    }
    ~DatagramTalk() {
        datagrams->begin_stop();
        datagrams->end_all();
        ::close(socket.fd);
        ::close(client);
    }
    DatagramTalk(const DatagramTalk&) = delete;
    DatagramTalk& operator=(const DatagramTalk&) = delete;

    void send(std::string_view datagram) {
        if (::send(client, datagram.data(), datagram.size(), 0) != ssize_t(datagram.size())) std::abort();
    }
    // The worker's loop, until it would sleep.
    void run() {
        waits.turn();
        while (true) {
            pool.begin_tick();
            for (daemon::ReplyQueue* queue : pool.take_ready()) datagrams->deliver(*queue->datagram());
            if (!datagrams->waiting() && !pool.anything_ready()) return;
            datagrams->take_turns();
        }
    }
    std::vector<std::string> received() const {
        std::vector<std::string> all;
        std::array<char, 2048> some;
        for (ssize_t got; (got = recv(client, some.data(), some.size(), 0)) >= 0;) all.emplace_back(some.data(), size_t(got));
        return all;
    }
    // The reply put together. "?" stands in front of one that is not well formed.
    std::string ask(std::string_view bytes, uint16_t id = 7) {
        send(udp_frame(id, bytes));
        run();
        const std::vector<std::string> parts = received();
        std::string reply;
        for (size_t i = 0; i < parts.size(); i++) {
            std::array<char, protocol::udp_header_bytes> header{};
            protocol::write_udp_header(header.data(), id, i, parts.size());
            const bool last = i + 1 == parts.size();
            if (!parts[i].starts_with(std::string_view(header.data(), header.size())) || parts[i].size() <= header.size() ||
                (!last && parts[i].size() != protocol::udp_datagram_max) || parts[i].size() > protocol::udp_datagram_max)
                reply.insert(0, "?");
            reply += parts[i].substr(header.size());
        }
        return reply;
    }

  private:
    void pair_unix() {
        std::array<int, 2> pair{};
        if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()) != 0) std::abort();
        socket.fd = pair[0];
        client = pair[1];
    }
    void pair_udp() {
        sockaddr_in here{};
        socklen_t size = sizeof here;
        here.sin_family = AF_INET;
        here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto* const at = reinterpret_cast<sockaddr*>(&here);
        for (int* const fd : {&socket.fd, &client}) *fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        const bool bound = bind(socket.fd, at, size) == 0 && getsockname(socket.fd, at, &size) == 0;
        if (!bound || connect(client, at, size) != 0) std::abort();
    }

  public:
    Talk talk;
    daemon::WorkerLive live;
    NoEvents events;
    daemon::ReplyPool pool{talk.context};
    ManualWaits waits;
    daemon::UdpSocket socket;
    int client = -1;
    std::unique_ptr<daemon::Datagrams> datagrams;
};

}  // namespace fixture
