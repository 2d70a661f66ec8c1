// SPDX-License-Identifier: BSD-3-Clause
// A worker's links, a client's queue of replies, and one node behind a TCP connection of 127.0.0.1, in one thread.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/node_clock.h"
#include "daemon/commands/asking.h"
#include "daemon/engine/links.h"
#include "daemon/engine/readiness.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/remote/nodes.h"
#include "fabric/socket.h"
#include "t/unit/daemon/text_fixture.h"
#include "t/unit/proxy/link_node.h"

namespace links_test {

using namespace farcached;

// Executes the requests of the latest connection to its port.
class Server {
  public:
    // port 0: the kernel chooses.
    explicit Server(const char* host = "127.0.0.1", uint16_t port = 0) {
        node.zero_ns = 0;
        listen_at(host, port);
    }
    ~Server() {
        hang_up();
        close(listener_);
    }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    uint16_t port() const { return port_; }
    // To another port.
    void move() {
        const int left = listener_;
        listen_at("127.0.0.1", 0);
        close(left);
        hang_up();
    }
    void hang_up() {
        if (fd_ >= 0) close(fd_);
        fd_ = -1;
        wire = link_test::Wire();
        node.forget_connection();
    }
    void serve() {
        const int came = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (came >= 0) {
            hang_up();
            fd_ = came;
        }
        if (fd_ < 0) return;
        char bytes[65536];
        ssize_t got = 0;
        while ((got = recv(fd_, bytes, sizeof bytes, 0)) > 0) wire.to_node.append(bytes, size_t(got));
        node.serve(wire, boottime_ns());
        const ssize_t sent = send(fd_, wire.to_proxy.data(), wire.to_proxy.size(), MSG_NOSIGNAL);
        if (sent > 0) wire.to_proxy.erase(0, size_t(sent));
    }

    link_test::FakeNode node;
    link_test::Wire wire;

  private:
    void listen_at(const char* host, uint16_t port) {
        listener_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        fabric::SocketAddress at = *fabric::numeric_address(host, port);
        const bool bound = bind(listener_, at.get(), at.size) == 0;
        if (!bound || listen(listener_, 8) != 0 || getsockname(listener_, at.get(), &at.size) != 0) std::abort();
        port_ = at.port();
    }

    int listener_ = -1;
    int fd_ = -1;
    uint16_t port_ = 0;
};

// By poll(), when asked to.
class PolledWaits final : public daemon::Waits {
  public:
    std::unique_ptr<daemon::Readiness> make_readiness(std::function<void()> ready) override {
        return std::make_unique<Polled>(*this, std::move(ready));
    }
    void run() {
        std::vector<pollfd> all;
        for (const Polled* one : polled_) all.push_back({one->fd, one->events, 0});
        poll(all.data(), all.size(), 0);
        const std::vector<Polled*> then = polled_;
        for (size_t i = 0; i < all.size(); i++)
            if (all[i].revents != 0 && then[i]->fd == all[i].fd) then[i]->ready();
    }

  private:
    struct Polled final : daemon::Readiness {
        Polled(PolledWaits& waits, std::function<void()> callback) : all(waits.polled_), ready(std::move(callback)) {
            all.push_back(this);
        }
        ~Polled() override { std::erase(all, this); }
        void await(int descriptor, bool writable) override {
            fd = descriptor;
            events = writable ? POLLIN | POLLOUT : POLLIN;
        }
        void stop() override { fd = -1; }

        std::vector<Polled*>& all;
        const std::function<void()> ready;
        int fd = -1;
        short events = 0;
    };

    std::vector<Polled*> polled_;
};

class Desk {
  public:
    // look_up: where the host "node.test" is.
    explicit Desk(const daemon::HostAddresses::LookUp& look_up = at_home) {
        settings.node_timeout_ms = 10'000;
        settings.nodes = {spec_of("a", server)};
        conf::MemorySettings memory;
        memory.item_bytes_max = 4 << 20;
        memory.cas = true;
        auto made = daemon::Nodes::make(settings, memory, look_up);
        nodes = std::get<std::unique_ptr<daemon::Nodes>>(std::move(made));
        links = std::make_unique<daemon::Links>(*nodes, room_, 0, waits_, pool);
        links->start();
    }
    ~Desk() {
        links->stop();
        links.reset();
    }
    Desk(const Desk&) = delete;
    Desk& operator=(const Desk&) = delete;

    static daemon::HostAddresses::Found at_home(const std::string&, uint16_t port) {
        return std::vector{*fabric::numeric_address("127.0.0.1", port)};
    }
    static conf::NodeSpec spec_of(std::string name, const Server& at) {
        conf::NodeSpec spec;
        spec.name = std::move(name);
        spec.channel = conf::NodeChannel::tcp;
        spec.host = "node.test";
        spec.port = at.port();
        return spec;
    }
    // Applies the current settings.
    void reload() {
        auto prepared = nodes->prepare(settings, at_home);
        nodes->use(std::get<std::shared_ptr<const daemon::NodeSet>>(std::move(prepared)));
        links->take();
    }

    // Polls the nodes, then runs the worker's events.
    void begin_tick() {
        poll(nullptr, 0, 1);
        if (!stands_still) server.serve();
        other.serve();
        waits_.run();
        if (links->timer_at_ns() <= boottime_ns()) links->timer_due();
    }
    // Runs the worker's loop until the condition holds, for at most ten seconds.
    template <class Is>
    bool until(Is is) {
        const uint64_t deadline_ns = boottime_ns() + UINT64_C(10'000'000'000);
        while (!is()) {
            if (boottime_ns() > deadline_ns) return false;
            begin_tick();
            links->end_tick();
        }
        return true;
    }
    bool until_up() { return until_state(daemon::NodeState::up); }
    bool until_down() { return until_state(daemon::NodeState::down); }

    template <class Op>
    daemon::SubmitResult ask(const Op& op) {
        const daemon::NoRecord record;
        daemon::ReplySlot& slot = asking->open();
        const daemon::SubmitResult asked = links->ask(op, asking->ticket_of(slot));
        asking->park(slot, out_, asked == daemon::SubmitResult::crowded, false, "", "", record, &write_answer);
        return asked;
    }
    daemon::SubmitResult set(std::string_view key, std::string_view value) {
        protocol::StoreOp op;
        op.key = {key, 0};
        op.value = value;
        return ask(op);
    }
    daemon::SubmitResult get(std::string_view key) {
        protocol::GetOp op;
        op.key = {key, 0};
        const daemon::NoRecord record;
        daemon::ReplySlot& slot = asking->open();
        const daemon::SubmitResult asked = links->get(links->peers().choose(key), op, {}, asking->ticket_of(slot));
        asking->park(slot, out_, asked == daemon::SubmitResult::crowded, true, "", "", record, &write_answer);
        return asked;
    }
    // The replies to all requests, a word each; empty if a reply did not come.
    std::string answers() {
        std::string all;
        const bool came = until([&] {
            for (daemon::ReplyQueue* ready : pool.take_ready()) ready->emit(out_);
            return queue.empty() && other_queue.empty();
        });
        if (came) all.assign(out_.data(), out_.size());
        out_.clear(0);
        return all;
    }

    conf::ProxySettings settings;
    Server server, other;  // the servers of node a and, if a test wants it, b
    bool stands_still = false;  // node a
    fixture::Talk talk;
    daemon::ReplyPool pool{talk.context};
    daemon::ReplyQueue queue{pool, -1}, other_queue{pool, -1};  // two sessions'
    daemon::ReplyQueue* asking = &queue;
    std::unique_ptr<daemon::Nodes> nodes;
    std::unique_ptr<daemon::Links> links;

  private:
    bool until_state(daemon::NodeState state) {
        return until([&] { return nodes->all()[0].state == state; });
    }
    static void write_answer(daemon::ReplySlot& slot, const daemon::ReplyTarget& to) {
        if (!slot.available()) return to.out.append("unavailable ");
        if (const auto* got = std::get_if<protocol::GetReply>(&slot.reply()); got != nullptr) {
            to.out.append(got->status == protocol::GetReply::Status::hit ? slot.value() : "miss");
            return to.out.append(" ");
        }
        const auto* stored = std::get_if<protocol::StoreReply>(&slot.reply());
        const bool is_stored = stored != nullptr && stored->status == protocol::StoreReply::Status::stored;
        to.out.append(is_stored ? "stored " : "answered ");
    }

    daemon::Mailroom room_{1};
    PolledWaits waits_;
    OutBuffer out_;
};

}  // namespace links_test
