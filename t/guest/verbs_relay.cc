// SPDX-License-Identifier: BSD-3-Clause
// Imitates a node's end of RDMA, for tests of whole programs. It relays the bytes of each connection to a TCP port of
// this host and back, so that the server there is reached over RDMA. Or it sends nothing; its welcome may hold false
// values.
//
//   verbs_relay ADDRESS never          connection requests stay unanswered
//   verbs_relay ADDRESS silent         connections are made, and the relay sends nothing
//   verbs_relay ADDRESS PORT           both ways to and from 127.0.0.1:PORT
//   further words: version=N, layout=N: the welcome's
//
// Prints "port N" and serves until it is killed.
#include <arpa/inet.h>
#include <sys/epoll.h>

#include <cstdio>
#include <list>

#include "fabric/verbs/verbs_greeting.h"
#include "fabric/verbs/verbs_internal.h"
#include "fabric/verbs/verbs_queue.h"
#include "t/unit/fabric/channel_fixture.h"

namespace {

using namespace channel_test;

struct Words {
    bool never = false, silent = false;
    uint16_t port = 0;
    VerbsWelcome welcome{};
};

[[noreturn]] void fatal(const std::string& why) {
    std::fprintf(stderr, "verbs_relay: %s\n", why.c_str());
    std::exit(1);
}

Words parse(int count, char** words) {
    Words parsed;
    VerbsWelcome& welcome = parsed.welcome;
    welcome.head = verbs_head(verbs_welcome_magic, sizeof welcome);
    for (int i = 2; i < count; i++) {
        const std::string word = words[i];
        const auto number = [&] { return uint32_t(std::atoi(word.c_str() + word.find('=') + 1)); };
        if (word == "never") {
            parsed.never = true;
        } else if (word == "silent") {
            parsed.silent = true;
        } else if (word.starts_with("version=")) {
            welcome.head.version = uint16_t(number());
        } else if (word.starts_with("layout=")) {
            welcome.head.layout_version = number();
        } else if (std::atoi(word.c_str()) > 0) {
            parsed.port = uint16_t(std::atoi(word.c_str()));
        } else {
            fatal("what is " + word + "?");
        }
    }
    return parsed;
}

// A connection, and the target of its bytes.
struct Pair {
    End proxy, node;
    bool over() const { return proxy.over || node.over; }
};

void join_ends(End& from, End& to) {
    from.take = [&to](End&, std::string_view bytes) {
        if (to.channel == nullptr) return bytes.size();
        to.channel->out().append(bytes);
        to.channel->flush();
        return bytes.size();
    };
}

class Relay {
  public:
    Relay(const std::string& host, const Words& words) : words_(words), events_(rdma_create_event_channel()) {
        rdma_cm_id* made = nullptr;
        SocketAddress at = *numeric_address(host, 0);
        if (events_ == nullptr || rdma_create_id(events_.get(), &made, nullptr, RDMA_PS_TCP) != 0)
            fatal("rdma_create_id");
        id_.reset(made);
        if (rdma_bind_addr(made, at.get()) != 0 || rdma_listen(made, 64) != 0) fatal("rdma_listen");
        std::printf("port %d\n", ntohs(rdma_get_src_port(made)));
        std::fflush(stdout);
    }

    void serve() {
        for (;;) {
            std::vector<pollfd> polled{{events_->fd, POLLIN, 0}};
            for (Pair& pair : pairs_)
                for (End* end : {&pair.proxy, &pair.node})
                    if (end->channel != nullptr && !end->over) polled.push_back({end->channel->fd(), POLLIN, 0});
            poll(polled.data(), polled.size(), -1);
            if (polled[0].revents != 0) admit();
            for (Pair& pair : pairs_) turn({&pair.proxy, &pair.node}, 0);
            pairs_.remove_if([](const Pair& pair) { return pair.over(); });
        }
    }

  private:
    void admit() {
        rdma_cm_event* event = nullptr;
        if (rdma_get_cm_event(events_.get(), &event) != 0) fatal("rdma_get_cm_event");
        const bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
        rdma_cm_id* const whose = event->id;
        const rdma_conn_param asked = event->param.conn;
        VerbsHello hello{};
        if (request && asked.private_data_len >= sizeof hello) std::memcpy(&hello, asked.private_data, sizeof hello);
        rdma_ack_cm_event(event);
        if (!request) return;
        if (words_.never)
            unanswered_.emplace_back(whose);
        else
            accept(CmId(whose), hello, asked);
    }

    void accept(CmId id, const VerbsHello& hello, const rdma_conn_param& asked) {
        CmEvents own(rdma_create_event_channel());
        if (!set_up_descriptor(own->fd) || rdma_migrate_id(id.get(), own.get()) != 0) fatal("rdma_migrate_id");
        auto device = value_of(devices_.device_of(*id));
        uint8_t timeout = device->config().ack_timeout;
        if (rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout) != 0) return;
        auto result = VerbsQueue::make(std::move(own), std::move(id), std::move(device));
        if (!error_of(result).empty()) return;  // the client has given up
        auto queue = std::get<0>(std::move(result));
        VerbsWelcome welcome = words_.welcome;
        welcome.receives = queue->receives();
        queue->messages().met(hello.receives);
        rdma_conn_param param{};
        param.private_data = &welcome;
        param.private_data_len = sizeof welcome;
        param.responder_resources = asked.responder_resources;
        param.initiator_depth = 1;
        if (queue->pair().ready(&param) || queue->allow() || queue->pair().accept(param) != 0) return;
        Pair& pair = pairs_.emplace_back();
        join_ends(pair.proxy, pair.node);
        join_ends(pair.node, pair.proxy);
        if (!words_.silent) pair.node.channel = value_of(connect_tcp(*numeric_address("127.0.0.1", words_.port), pair.node));
        auto channel = std::make_unique<VerbsChannel>(Descriptor(epoll_create1(EPOLL_CLOEXEC)), "relay", devices_,
                                                      pair.proxy, input_bytes_default);
        if (const Refusal no = channel->accepted(std::move(queue), 0)) fatal(no->text);
        pair.proxy.channel = std::move(channel);
    }

    const Words words_;
    VerbsDevices devices_{VerbsConfig()};
    CmEvents events_;
    CmId id_;
    std::list<CmId> unanswered_;
    std::list<Pair> pairs_;
};

}  // namespace

int main(int count, char** words) {
    if (count < 3) fatal("ADDRESS never|silent|PORT [version=N] [layout=N]");
    Relay(words[1], parse(count, words)).serve();
}
