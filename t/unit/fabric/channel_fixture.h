// SPDX-License-Identifier: BSD-3-Clause
// Fixture of the tests of channels: an end that records its events, and loops that wait for events with a deadline.
// Messages with checkable order and bytes, and the transports.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "fabric/channel.h"
#include "fabric/fault_channel.h"
#include "fabric/mapped_region.h"
#include "fabric/owner.h"
#include "fabric/region.h"
#include "fabric/shm/shm_channel.h"
#include "fabric/tcp_channel.h"
#include "fabric/verbs/verbs_channel.h"
#include "t/lib/tap.h"

namespace channel_test {

using namespace farcached;
using namespace farcached::fabric;

// The value; a refusal ends the test.
template <class Value>
Value value_of(Result<Value> result) {
    if (const auto* problem = std::get_if<Problem>(&result)) tap::bail_out(problem->text);
    return std::get<0>(std::move(result));
}
// The error's text; empty: none.
template <class Value>
std::string error_of(const Result<Value>& result) {
    const auto* problem = std::get_if<Problem>(&result);
    return problem == nullptr ? "" : problem->text;
}

inline uint64_t now_ms() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return uint64_t(t.tv_sec) * 1000 + uint64_t(t.tv_nsec) / 1'000'000;
}

inline uint64_t patience_ms() {
    const char* slow = std::getenv("FARCACHED_TEST_SLOW");
    const int factor = slow == nullptr ? 1 : std::atoi(slow);
    return 20'000 * uint64_t(factor > 0 ? factor : 1);
}

// One end of a channel. Consumes what `take` takes; without one, everything.
class End : public ChannelEvents {
  public:
    std::unique_ptr<Channel> channel;
    std::function<size_t(End&, std::string_view)> take;
    std::function<void(End&)> on_end;
    bool up = false, over = false;
    int ends = 0;
    ChannelEnd why = ChannelEnd::count;
    std::string text, bytes;
    size_t shown_max = 0;
    uint64_t wakeups = 0;
    std::vector<std::pair<uint64_t, ReadStatus>> reads;
    std::vector<size_t> reports;  // their bytes

    void connected() override { up = true; }
    size_t received(std::string_view all) override {
        if (over) std::abort();
        if (all.size() > shown_max) shown_max = all.size();
        if (take) return take(*this, all);
        bytes.append(all);
        return all.size();
    }
    void read_done(uint64_t token, ReadStatus status) override {
        reads.emplace_back(token, status);
    }
    void written(size_t size) override {
        if (over) std::abort();
        reports.push_back(size);
    }
    void ended(ChannelEnd end, const std::string& sentence) override {
        over = true;
        ends++;
        why = end;
        text = sentence;
        if (on_end) on_end(*this);
    }
    void send(std::string_view what) {
        channel->out().append(what);
        channel->flush();
    }
    std::string ending() const { return over ? std::string(channel_end_name(why)) : "none"; }
};

// Waits until one of them is ready, at most so long; runs each once, as a worker's tick does.
inline bool turn(std::initializer_list<End*> ends, int timeout_ms) {
    std::vector<pollfd> polled;
    std::vector<End*> alive;
    for (End* end : ends) {
        if (end->channel == nullptr || end->over) continue;
        polled.push_back(
            {end->channel->fd(), short(POLLIN | (end->channel->wants_write() ? POLLOUT : 0)), 0});
        alive.push_back(end);
    }
    if (polled.empty() || poll(polled.data(), polled.size(), timeout_ms) <= 0) return false;
    for (size_t i = 0; i < alive.size(); i++) {
        if (polled[i].revents == 0) continue;
        alive[i]->wakeups++;
        alive[i]->channel->ready();
    }
    for (End* end : alive)
        if (end->channel != nullptr && !end->over) end->channel->flush();
    return true;
}

template <class Condition>
bool pump(std::initializer_list<End*> ends, Condition&& condition) {
    const uint64_t until = now_ms() + patience_ms();
    while (!condition()) {
        if (now_ms() >= until) return false;
        turn(ends, 200);
    }
    return true;
}

// Do bytes travel both ways between two ends that are up?
inline bool talk(End& client, End& server) {
    client.send("hello");
    server.send("welcome");
    const bool all = pump({&client, &server}, [&] { return client.bytes == "welcome" && server.bytes == "hello"; });
    client.bytes.clear(), server.bytes.clear();
    return all;
}

// The wake-ups within that time; first, leftovers of the last exchange are consumed.
inline uint64_t idle_wakeups(std::initializer_list<End*> ends, int ms) {
    while (turn(ends, 20)) {
    }
    uint64_t woken = 0;
    for (const uint64_t until = now_ms() + uint64_t(ms); now_ms() < until;)
        woken += turn(ends, ms) ? 1 : 0;
    return woken;
}

// Accepts one connection on the other side, and polls the connecting end until then.
inline bool accept_into(ChannelListener& listener, End& end, End* connecting = nullptr) {
    const uint64_t until = now_ms() + patience_ms();
    while (end.channel == nullptr && now_ms() < until) {
        pollfd polled[2] = {{listener.fd(), POLLIN, 0}, {-1, POLLIN, 0}};
        if (connecting != nullptr && !connecting->over) polled[1].fd = connecting->channel->fd();
        if (poll(polled, 2, 200) <= 0) continue;
        if (polled[1].revents != 0) turn({connecting}, 0);
        if (polled[0].revents != 0) end.channel = listener.accept(end);
    }
    return end.channel != nullptr;
}

// ---- messages: | bytes:4 | sequence:4 | hash:8 | payload |
// --------------------------------------------

struct MessageHead {
    uint32_t bytes, sequence;
    uint64_t hash;
};

inline void append_message(OutBuffer& out, uint32_t sequence, uint32_t payload_bytes) {
    std::mt19937_64 random(sequence);
    const uint32_t bytes = uint32_t(sizeof(MessageHead)) + payload_bytes;
    char* at = out.reserve(bytes + 8);
    for (uint32_t i = 0; i < payload_bytes; i += 8) {
        const uint64_t word = random();
        std::memcpy(at + sizeof(MessageHead) + i, &word, 8);
    }
    const MessageHead head{bytes, sequence, hash_bytes(at + sizeof head, payload_bytes, sequence)};
    std::memcpy(at, &head, sizeof head);
    out.commit(bytes);
}

inline uint32_t message_size(uint32_t sequence, uint32_t bytes_max) {
    std::mt19937 random(sequence * 7919 + 1);
    return random() % 8 == 0 ? random() % bytes_max : random() % 300;
}

// Checks received messages: each whole, in order, unchanged.
class Messages {
  public:
    uint32_t next = 0;
    uint32_t wrong = 0;
    std::function<void(std::string_view)> each;  // a whole message
    std::function<bool()> stop;                  // consume no more for now

    size_t take(std::string_view bytes) {
        size_t from = 0;
        while (bytes.size() - from >= sizeof(MessageHead)) {
            if (stop && stop()) break;
            MessageHead head;
            std::memcpy(&head, bytes.data() + from, sizeof head);
            if (head.sequence != next || head.bytes < sizeof head) {
                wrong++;
                return bytes.size();
            }
            if (bytes.size() - from < head.bytes) break;
            const char* payload = bytes.data() + from + sizeof head;
            if (hash_bytes(payload, head.bytes - sizeof head, head.sequence) != head.hash) wrong++;
            if (each) each(bytes.substr(from, head.bytes));
            next++;
            from += head.bytes;
        }
        return from;
    }
};

// Keeps at most `pending_max` bytes on their way to a slow reader.
class Sender {
  public:
    Sender(uint32_t count, uint32_t bytes_max, size_t pending_max)
        : count_(count), bytes_max_(bytes_max), pending_max_(pending_max) {}
    bool done() const { return next_ == count_; }
    uint32_t sent() const { return next_; }
    size_t pending_seen() const { return pending_seen_; }
    void fill(Channel& channel) {
        while (next_ < count_ && channel.out_pending() < pending_max_) {
            append_message(channel.out(), next_, message_size(next_, bytes_max_));
            next_++;
            if (channel.out_pending() > pending_seen_) pending_seen_ = channel.out_pending();
        }
        channel.flush();
    }

  private:
    uint32_t count_, bytes_max_;
    size_t pending_max_;
    uint32_t next_ = 0;
    size_t pending_seen_ = 0;
};

// Answers every message with itself, and does not consume while too much is pending.
inline void serve_echo(End& end, Messages& messages) {
    constexpr size_t pending_max = 256 * 1024;
    messages.each = [&end](std::string_view message) { end.channel->out().append(message); };
    messages.stop = [&end] { return end.channel->out_pending() > pending_max; };
    end.take = [&messages](End&, std::string_view bytes) { return messages.take(bytes); };
}

// ---- transports
// -----------------------------------------------------------------------------------------

using Connect = std::function<std::unique_ptr<Channel>(ChannelEvents&)>;

struct Transport {
    std::string name;
    std::unique_ptr<ChannelListener> listener;
    Connect connect;
    // Connects to an echo in a separate process that runs already; empty: a fork can use the listener.
    Connect connect_far;
    std::function<void()> kill_far;
    bool knocks_at_once = true;  // a connection attempt reaches the listener, even if it is abandoned
};

// tls: of both ends; nullptr: none.
inline Transport tcp_transport(const char* host, size_t input_bytes_max = input_bytes_default, const PeerTls* tls = nullptr) {
    auto listener = value_of(TcpListener::listen(*numeric_address(host, 0), 16, {.input_bytes_max = input_bytes_max, .tls = tls}));
    Transport tcp;
    tcp.name = std::string(tls != nullptr ? "tls " : "tcp ") + host;
    const SocketAddress address = listener->address();
    tcp.listener = std::move(listener);
    tcp.connect = [address, input_bytes_max, tls, host = std::string(host)](ChannelEvents& events) {
        return value_of(connect_tcp(address, events, {.input_bytes_max = input_bytes_max, .tls = tls, .host = host}));
    };
    return tcp;
}

// Over the RDMA device with that address.
inline Transport verbs_transport(const std::string& host, VerbsDevices& devices, const VerbsOffer& offer = {},
                                 VerbsMemories memories = {}) {
    auto listener = value_of(VerbsListener::listen(*numeric_address(host, 0), offer, devices, 16));
    Transport verbs;
    verbs.name = "verbs";
    verbs.connect = [to = listener->address(), &devices, memories](ChannelEvents& events) {
        return value_of(connect_verbs(to, devices, memories, events));
    };
    verbs.listener = std::move(listener);
    verbs.knocks_at_once = false;
    return verbs;
}

// A temporary folder; the destructor removes it.
class Folder {
  public:
    Folder() {
        const char* top = std::getenv("TMPDIR");
        path_ = std::string(top == nullptr ? "/tmp" : top) + "/farcached-channel-XXXXXX";
        if (mkdtemp(path_.data()) == nullptr) tap::bail_out("mkdtemp " + path_);
    }
    ~Folder() {
        std::error_code ignored;
        if (made_by_ == getpid()) std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::string operator/(const char* name) const { return path_ + "/" + name; }

  private:
    std::string path_;
    pid_t made_by_ = getpid();
};

inline RegionShape small_region(uint64_t incarnation) {
    RegionShape shape;
    shape.page_count = 4;
    shape.buckets_max = 16;
    shape.overflow_max = 4;
    shape.incarnation = incarnation;
    shape.hash_seed = 7;
    return shape;
}

// A node's side of shm: a small region, owned by this thread, and its listener.
struct ShmNode {
    explicit ShmNode(const std::string& path, const ShmOptions& options = {},
                     uint64_t incarnation = 4711)
        : region(small_region(incarnation)) {
        owner.emplace(region.header(), value_of(NameLock::take(path)));
        listener = value_of(ShmListener::listen(*owner, &region, options, 16));
    }
    Region region;
    std::optional<Owner> owner;
    std::unique_ptr<ShmListener> listener;
};

inline Transport shm_transport(ShmNode& node, MappedRegions& regions,
                               const ShmOptions& options = {}) {
    Transport shm;
    shm.name = "shm";
    shm.listener = std::move(node.listener);
    shm.connect = [path = node.owner->path(), &regions, options](ChannelEvents& events) {
        return value_of(connect_shm(path, regions, events, options));
    };
    return shm;
}

// Accepts channels with injected faults.
class FaultListener : public ChannelListener {
  public:
    FaultListener(std::unique_ptr<ChannelListener> inner, const FaultPlan& plan)
        : inner_(std::move(inner)), plan_(plan) {}
    int fd() const override { return inner_->fd(); }
    std::unique_ptr<Channel> accept(ChannelEvents& events) override {
        plan_.seed++;
        auto wrapped = FaultChannel::wrap(plan_, events, [&](ChannelEvents& e) -> Result<std::unique_ptr<Channel>> {
            if (auto accepted = inner_->accept(e)) return accepted;
            return system_problem("no connection waits");
        });
        return error_of(wrapped).empty() ? std::get<0>(std::move(wrapped)) : nullptr;
    }
    std::string describe() const override { return inner_->describe(); }

  private:
    std::unique_ptr<ChannelListener> inner_;
    FaultPlan plan_;
};

inline Transport faulty(Transport transport, FaultPlan plan) {
    transport.name = "fault over " + transport.name;
    transport.listener = std::make_unique<FaultListener>(std::move(transport.listener), plan);
    plan.seed += 1000;
    for (Connect* one : {&transport.connect, &transport.connect_far})
        if (*one)
            *one = [connect = std::move(*one), plan](ChannelEvents& events) {
                return value_of(FaultChannel::wrap(plan, events, connect));
            };
    return transport;
}

// Two ends that know each other.
inline bool join(Transport& transport, End& client, End& server) {
    client.channel = transport.connect(client);
    if (client.channel == nullptr) return false;
    if (!accept_into(*transport.listener, server, &client)) return false;
    return pump({&client, &server}, [&] { return client.up || client.over; }) && client.up;
}

// A child that runs `body` and is gone when this is.
class Child {
  public:
    explicit Child(const std::function<void()>& body) : pid_(fork()) {
        if (pid_ != 0) return;
        body();
        std::fflush(stdout);
        _exit(0);
    }
    ~Child() { kill_now(); }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    void kill_now() {
        if (pid_ <= 0) return;
        kill(pid_, SIGKILL);
        wait();
    }
    int wait() {
        int status = 0;
        if (pid_ > 0) waitpid(pid_, &status, 0);
        pid_ = -1;
        return status;
    }
    pid_t pid() const { return pid_; }

  private:
    pid_t pid_;
};

}  // namespace channel_test
