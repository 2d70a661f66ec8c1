// SPDX-License-Identifier: BSD-3-Clause
#include "bench/hitratio/clients.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <memory>
#include <stdexcept>

#include "base/check.h"
#include "bench/command.h"
#include "bench/load/connection.h"
#include "bench/load/server_stats.h"
#include "bench/load/worker.h"

namespace farcached::bench {

namespace {

constexpr uint64_t stall_ns = UINT64_C(30'000'000'000);
constexpr uint64_t wait_ns_max = UINT64_C(50'000'000);  // longest delay in noticing an interrupt
constexpr uint64_t second_ns = UINT64_C(1'000'000'000);
// "user" and 19 digits, the first a 1: the length of the simulation's keys.
constexpr const char* key_prefix = "user";
constexpr uint64_t key_offset = UINT64_C(1'000'000'000'000'000'000);

struct Client {
    Client(const Target& server, const RequestWriter& writer, const Values& values)
        : connection(connect_to(server), Wire::text, writer, values) {}
    Connection connection;
    struct Due {
        Trace::Step step;
        uint64_t at_ns;
    };
    std::deque<Due> waiting;
    Trace::Step step{};  // under way
    bool busy = false;
};

struct Counted {
    uint64_t gets = 0, hits = 0;
    Latencies latencies;
    uint64_t leased_samples = 0;
    double leased_sum = 0;
    uint64_t late_ns_max = 0;
};

uint64_t grown(const ServerStats::Numbers& before, const ServerStats::Numbers& after, const char* name) {
    const auto was = before.find(name), is = after.find(name);
    CHECK(was != before.end());
    CHECK(is != after.end());
    return is->second - std::min(was->second, is->second);
}

class Clients {
  public:
    Clients(const SimScale& scale, const Popularity& popularity, const SimPoint& point, const std::vector<Target>& servers)
        : scale_(scale),
          point_(point),
          writer_(Wire::text, key_prefix),
          values_(scale.value_bytes, scale.value_bytes, scale.value_bytes >= Values::verified_bytes_min),
          trace_(*point.workload, popularity, uint64_t(scale.shift_s) * scale.rate, scale.seed),
          stats_(servers) {
        for (uint32_t i = 0; i < scale.clients; i++)
            clients_.push_back(std::make_unique<Client>(servers[i % servers.size()], writer_, values_));
        polled_.resize(clients_.size());
        for (size_t i = 0; i < clients_.size(); i++) polled_[i].fd = clients_[i]->connection.fd();
        check_policy();
    }

    std::optional<AskedPoint> run() {
        wait_for_second();
        begun_ns_ = last_reply_ns_ = now_ns();
        if (!take_steps(scale_.warmup)) return std::nullopt;
        const ServerStats::Numbers proxies = stats_.proxies(), nodes = stats_.nodes();
        counted_ = {};
        const uint64_t refused = failures_.refused;
        if (!take_steps(scale_.warmup + scale_.operations)) return std::nullopt;
        AskedPoint found;
        summarize(proxies, stats_.proxies(), nodes, stats_.nodes(), found);
        found.result.sets_refused = failures_.refused - refused;
        found.failures = failures_;
        return found;
    }

  private:
    void check_policy() {
        const std::string has = stats_.policy();
        const std::string_view wanted = name_of(policy_config(*point_.contestant, {}).policy);
        if (has != wanted) throw std::runtime_error("the nodes' policy is \"" + has + "\", not " + std::string(wanted));
    }

    void wait_for_second() {
        const uint64_t first = stats_.nodes().at("uptime");
        const timespec between{0, 1'000'000};
        while (stats_.nodes().at("uptime") == first && !interrupted.load()) nanosleep(&between, nullptr);
    }

    uint64_t due_ns(uint64_t step) const {
        return begun_ns_ + uint64_t((unsigned __int128)(step) * second_ns / scale_.rate);
    }

    // Runs the steps before `end` and waits for their answers. False: interrupted.
    bool take_steps(uint64_t end) {
        while (at_ < end || busy_ > 0) {
            if (interrupted.load()) return false;
            uint64_t now = now_ns();
            for (; at_ < end && due_ns(at_) <= now; at_++) hand_out(*clients_[at_ % scale_.clients], due_ns(at_));
            if (now >= sample_due_ns_) sample(now);
            const uint64_t next = at_ < end ? due_ns(at_) : now + wait_ns_max;
            now = now_ns();
            wait(next > now ? std::min(next - now, wait_ns_max) : 0);
            if (busy_ > 0 && now_ns() - last_reply_ns_ > stall_ns) throw std::runtime_error("no more replies");
            if (busy_ == 0) last_reply_ns_ = now_ns();
        }
        return true;
    }

    void hand_out(Client& client, uint64_t due) {
        client.waiting.push_back({trace_.next(), due});
        if (!client.busy) begin(client);
    }

    void begin(Client& client) {
        counted_.late_ns_max = std::max(counted_.late_ns_max, now_ns() - client.waiting.front().at_ns);
        client.step = client.waiting.front().step;
        client.waiting.pop_front();
        client.busy = true;
        busy_++;
        ask(client, client.step.set);
    }

    void ask(Client& client, bool set) {
        Connection& connection = client.connection;
        const uint64_t key = key_offset + client.step.key;
        connection.batch.clear();
        if (set)
            connection.batch.add_set(connection.out, key, sequence_++);
        else
            connection.batch.add_get(connection.out, {&key, 1});
        connection.sent_at_ns = now_ns();
        flush(client);
    }

    void flush(Client& client) {
        const Connection::Io io = client.connection.flush();
        if (io == Connection::Io::closed) throw std::runtime_error("a server closed a connection");
        client.connection.waits_to_write = io == Connection::Io::blocked;
    }

    void wait(uint64_t ns) {
        for (size_t i = 0; i < clients_.size(); i++)
            polled_[i].events = short(clients_[i]->connection.waits_to_write ? POLLIN | POLLOUT : POLLIN);
        const timespec at_most{0, long(ns)};
        const int ready = ppoll(polled_.data(), polled_.size(), &at_most, nullptr);
        if (ready <= 0) return;
        for (size_t i = 0; i < clients_.size(); i++) {
            if ((polled_[i].revents & POLLOUT) != 0) flush(*clients_[i]);
            if ((polled_[i].revents & ~POLLOUT) != 0) receive(*clients_[i]);
        }
    }

    void receive(Client& client) {
        Connection& connection = client.connection;
        const Connection::Io io = connection.receive();
        if (io == Connection::Io::blocked) return;
        if (io == Connection::Io::closed) throw std::runtime_error("a server closed a connection");
        const uint64_t at_ns = now_ns();
        last_reply_ns_ = at_ns;
        while (!connection.batch.done()) {
            const Batch::Step step = connection.batch.step(connection.input(), failures_);
            if (step.broken) throw std::runtime_error("protocol error of a server: " + failures_.first);
            if (step.wanted > 0) return connection.expect(step.wanted);
            connection.consumed(step.bytes);
            if (step.answered) answered(client, step.answer, at_ns - connection.sent_at_ns);
        }
        if (!connection.input().empty()) throw std::runtime_error("a server sent more than was requested");
        if (!client.busy && !client.waiting.empty()) begin(client);
    }

    void answered(Client& client, const Answered& answer, uint64_t took_ns) {
        if (answer.kind == RequestKind::set) {
            counted_.latencies.sets.add(took_ns);
        } else {
            counted_.gets++;
            counted_.hits += answer.hits;
            (answer.hits > 0 ? counted_.latencies.hits : counted_.latencies.misses).add(took_ns);
            if (answer.hits == 0) return ask(client, true);
        }
        client.busy = false;
        busy_--;
    }

    // Samples the leased share, as often as the simulation does.
    void sample(uint64_t now) {
        sample_due_ns_ = now + scale_.report_interval_s * second_ns;
        ServerStats::Numbers nodes = stats_.nodes();
        counted_.leased_samples++;
        counted_.leased_sum += double(nodes["lease_bytes"] + nodes["reclaim_pending_bytes"]) / double(nodes["limit_maxbytes"]);
    }

    void summarize(const ServerStats::Numbers& proxies_before, const ServerStats::Numbers& proxies_after,
                   const ServerStats::Numbers& nodes_before, const ServerStats::Numbers& nodes_after, AskedPoint& found) {
        auto proxies = [&](const char* name) { return grown(proxies_before, proxies_after, name); };
        auto nodes = [&](const char* name) { return grown(nodes_before, nodes_after, name); };
        auto one_of = [](uint64_t count) { return double(std::max<uint64_t>(1, count)); };
        const uint64_t memory_bytes = nodes_after.at("limit_maxbytes");
        SimResult& result = found.result;
        found.cache_ratio = double(memory_bytes) / data_bytes(scale_);
        result.items_max = items_in(scale_, memory_bytes);
        result.bound_hit_ratio = trace_.bound(result.items_max);
        result.gets = counted_.gets;
        result.pointer_hits = proxies("get_onesided");
        result.twosided_hits = counted_.hits - std::min(counted_.hits, result.pointer_hits);
        result.total_hit_ratio = double(counted_.hits) / one_of(counted_.gets);
        result.pointer_hit_ratio = double(result.pointer_hits) / one_of(counted_.gets);
        for (const char* name : {"read_invalid_generation", "read_invalid_dead", "read_invalid_key", "read_invalid_length",
                                 "read_invalid_crc"})
            result.invalid_reads += proxies(name);
        result.leased_share = counted_.leased_sum / one_of(counted_.leased_samples);
        result.evictions = nodes("evictions");
        result.leases_without_room = nodes("lease_denied_no_room");
        result.leases_after_set = nodes("lease_denied_dead_key") + nodes("lease_denied_dead");
        result.report_items = proxies("report_items");
        result.report_bytes_per_s = double(proxies("report_bytes")) * scale_.rate / one_of(scale_.operations);
        found.latencies = counted_.latencies;
        found.late_s_max = double(counted_.late_ns_max) / double(second_ns);
    }

    const SimScale& scale_;
    const SimPoint& point_;
    const RequestWriter writer_;
    const Values values_;
    Trace trace_;
    ServerStats stats_;
    std::vector<std::unique_ptr<Client>> clients_;
    std::vector<pollfd> polled_;  // one per client
    Counted counted_;
    Failures failures_;
    uint64_t at_ = 0, sequence_ = 0, busy_ = 0;
    uint64_t begun_ns_ = 0, last_reply_ns_ = 0, sample_due_ns_ = 0;
};

}  // namespace

std::optional<AskedPoint> ask_servers(const SimScale& scale, const Popularity& popularity, const SimPoint& point,
                                      const std::vector<Target>& servers) {
    CHECK(!servers.empty());
    CHECK(servers.size() == scale.hosts);
    CHECK(scale.hosts <= scale.clients);
    return Clients(scale, popularity, point, servers).run();
}

}  // namespace farcached::bench
