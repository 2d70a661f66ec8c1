// SPDX-License-Identifier: BSD-3-Clause
#include "bench/transport/trial.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/node_clock.h"
#include "base/random_word.h"
#include "bench/command.h"
#include "bench/data.h"
#include "bench/transport/client_link.h"
#include "bench/transport/node_process.h"
#include "bench/transport/transport_client.h"
#include "bench/usage.h"
#include "protocol/layout_hash.h"

namespace farcached::bench {

namespace {

namespace fs = std::filesystem;

bool add(const fs::path& path, uint64_t& to) {
    std::ifstream file(path);
    uint64_t n = 0;
    if (!(file >> n)) return false;
    to += n;
    return true;
}

}  // namespace

std::optional<DeviceCounters> device_counters() {
    DeviceCounters sum;
    bool any = false;
    std::error_code none;
    for (fs::directory_iterator device("/sys/class/infiniband", none), end; !none && device != end; device.increment(none)) {
        std::error_code no_port;
        for (fs::directory_iterator port(device->path() / "ports", no_port); !no_port && port != end;
             port.increment(no_port)) {
            const fs::path counters = port->path() / "hw_counters";
            const bool counts = add(counters / "rdma_sends", sum.sends) && add(counters / "sent_pkts", sum.packets);
            any = any || counts;
        }
    }
    if (!any) return {};
    return sum;
}

namespace {

constexpr uint64_t round_ns = 1'000'000;  // at least

}  // namespace

double check_cost_us(uint32_t value_bytes) {
    const uint64_t bytes = layout::item_bytes(1, value_bytes);
    std::vector<uint64_t> item((bytes + 7) / 8, UINT64_C(0x9e3779b97f4a7c15));
    std::array<double, 5> rounds{};
    uint64_t generation = 1;
    for (double& us : rounds) {
        const uint64_t begun_ns = boottime_ns();
        uint64_t ended_ns = begun_ns, times = 0;
        while (ended_ns - begun_ns < round_ns) {
            // Each check depends on the one before, so the compiler and the CPU cannot skip or overlap them.
            for (int i = 0; i < 16; i++) generation = layout::item_check(item.data(), bytes, 1, generation, 0);
            times += 16;
            ended_ns = boottime_ns();
        }
        us = double(ended_ns - begun_ns) / 1e3 / double(times);
    }
    std::sort(rounds.begin(), rounds.end());
    return rounds[rounds.size() / 2];
}

namespace {

constexpr uint64_t table_entries = 64 * 1024;

bool by_pointer(Transport transport) { return transport == Transport::onesided || transport == Transport::atomic; }
bool reads_one_sided(Transport transport) { return by_pointer(transport) || transport == Transport::index; }

// A pointer table with a private name.
std::unique_ptr<proxy::PointerTable> own_table() {
    auto host = proxy::TableHost::of_this_process();
    if (auto* failure = std::get_if<proxy::TableFailure>(&host)) throw std::runtime_error(failure->message);
    proxy::TableOptions options;
    options.name = "/farbench-" + std::to_string(getpid()) + "-" + std::to_string(random_word());
    options.entries = table_entries;
    options.host = std::get<proxy::TableHost>(host);
    options.seed = random_word();
    auto opened = proxy::PointerTable::open(options);
    shm_unlink(options.name.c_str());
    if (auto* failure = std::get_if<proxy::TableFailure>(&opened)) throw std::runtime_error(failure->message);
    return std::move(std::get<std::unique_ptr<proxy::PointerTable>>(opened));
}

proxy::LinkConfig link_config(Transport transport) {
    proxy::LinkConfig config = client_link_config();
    config.probe_index = transport == Transport::index;
    config.count_reads = transport == Transport::atomic;
    return config;
}

// A client's counters, for differences.
struct Counted : fabric::ChannelCells<uint64_t> {
    uint64_t onesided = 0;

    static Counted of(const proxy::LinkCounters& counters) {
        Counted counted;
        counted.onesided = counters.get_onesided.get() + counters.get_index.get();
        add_cells<fabric::ChannelCells>(counted, counters.channel);
        return counted;
    }
    void add(const Counted& now, const Counted& before) {
        onesided += now.onesided - before.onesided;
        for (const auto& row : rows()) row.of(*this) += row.of(now) - row.of(before);
    }
};

void fill_counts(Measured& to, const Counted& counted, double operations) {
    to.verbs.reads = double(counted.rdma_reads) / operations;
    to.verbs.sends = double(counted.rdma_sends) / operations;
    to.verbs.receives = double(counted.rdma_receives) / operations;
    to.verbs.atomics = double(counted.rdma_atomics) / operations;
    to.verbs.doorbells = double(counted.rdma_doorbells) / operations;
    to.verbs.writes = double(counted.rdma_writes) / operations;
    to.rfp.wakeups = double(counted.rfp_wakeups) / operations;
    to.rfp.fetches = double(counted.rfp_fetches) / operations;
    to.rfp.fetches_early = double(counted.rfp_fetches_early) / operations;
    to.rfp.second_reads = double(counted.rfp_second_reads) / operations;
    to.rfp.switched = double(counted.rfp_switched) / operations;
    to.rfp.fetched = *to.rfp.fetches - *to.rfp.fetches_early - *to.rfp.second_reads;
    to.device.operations_in = *to.verbs.sends + *to.verbs.writes + *to.verbs.reads + *to.verbs.atomics;
    to.device.operations_out = to.verbs.receives;  // each takes a receive here, whether SEND or WRITE
    constexpr uint64_t atomic_bytes = 8;
    const uint64_t stream = counted.link_bytes_sent + counted.link_bytes_received;
    const uint64_t messages = counted.rdma_send_bytes + counted.rdma_receive_bytes;
    const uint64_t one_sided = counted.rdma_read_bytes + counted.rdma_write_bytes;
    to.verbs.wire_bytes = double(std::max(stream, messages + one_sided) + counted.rdma_atomics * atomic_bytes) / operations;
}

// The counts expected from a device: of both ends, if the node uses the same device. Each SEND and atomic is a packet
// and a reply; so is each WRITE or READ that fits one packet. The node's messages are SENDs, unless rpc differs.
void expect_counts(Measured& to, bool both_ends) {
    to.device.expected_sends = *to.verbs.sends + (both_ends ? *to.verbs.receives : 0);
    to.device.expected_packets = (*to.device.operations_in + *to.device.operations_out) * (both_ends ? 2 : 1);
}

class Crew {
  public:
    Crew(const Sweep& sweep, const TestedNode& node, const NodePlace& place, const TrialPlan& plan, uint32_t number,
         const std::atomic<bool>& stop)
        : sweep_(sweep),
          node_(node),
          plan_(plan),
          stop_(stop),
          reach_(place, sweep.spin),
          distribution_(sweep.keys, plan.zipf),
          values_(plan.sizes, /* verified= */ true),
          meeting_(plan.clients + 1) {
        if (by_pointer(plan.transport)) table_ = own_table();
        const TransportClient::Dependencies deps{sweep, distribution_, values_, stop_, given_up_, table_.get(), plan.key_prefix,
                                                   reads_one_sided(plan.transport)};
        for (uint32_t i = 0; i < plan.clients; i++)
            clients_.push_back(std::make_unique<TransportClient>(
                deps, link_config(plan.transport), channels_over(reach_, plan_.rpc),
                mix(sweep.seed) + mix(uint64_t(number) << 32 | i)));
        cpu_s_.resize(plan.clients);
        counted_.resize(plan.clients);
        rpc_.resize(plan.clients);
    }

    std::optional<Outcome> run();

  private:
    void work(uint32_t i);
    uint64_t share(uint64_t whole, uint32_t i) const {
        return whole * (i + 1) / plan_.clients - whole * i / plan_.clients;
    }
    void meet();
    void fill(Measured& to, double elapsed_s, const std::optional<DeviceCounters>& device) const;
    std::optional<double> node_cpu_s() const {
        if (!node_.pid.has_value()) return {};
        return process_cpu_s(*node_.pid);
    }

    const Sweep& sweep_;
    const TestedNode& node_;
    const TrialPlan plan_;
    const std::atomic<bool>& stop_;
    std::atomic<bool> given_up_{false};  // a client failed
    Reach reach_;
    Distribution distribution_;
    Values values_;
    std::unique_ptr<proxy::PointerTable> table_;
    std::vector<std::unique_ptr<TransportClient>> clients_;
    std::barrier<> meeting_;  // of the clients and run()
    std::mutex lock_;
    std::exception_ptr failure_;
    std::vector<double> cpu_s_;      // of each client, while measured
    std::vector<Counted> counted_;   // of each client, while measured
    std::vector<RpcMode> rpc_;       // of each client, at the end
};

// A failed client still arrives at every barrier, so that the others do not block.
void Crew::work(uint32_t i) {
    auto tried = [&](auto&& step) {
        if (stop_.load() || given_up_.load()) return;
        try {
            step();
        } catch (const std::exception&) {
            std::lock_guard hold(lock_);
            if (failure_ == nullptr) failure_ = std::current_exception();
            given_up_.store(true);
        }
    };
    TransportClient& client = *clients_[i];
    tried([&] {
        client.connect();
        const uint64_t first = sweep_.keys * i / plan_.clients;
        client.prefill(first, first + share(sweep_.keys, i));
    });
    meeting_.arrive_and_wait();
    tried([&] { client.run(share(sweep_.warmup, i), plan_.sets_percent, /* measured= */ false); });
    meeting_.arrive_and_wait();
    meeting_.arrive_and_wait();
    const Counted before = Counted::of(client.counters());
    const double cpu_before_s = thread_cpu_s();
    tried([&] { client.run(share(sweep_.operations, i), plan_.sets_percent, /* measured= */ true); });
    cpu_s_[i] = thread_cpu_s() - cpu_before_s;
    counted_[i].add(Counted::of(client.counters()), before);
    rpc_[i] = client.counters().rpc;
    meeting_.arrive_and_wait();
    tried([&] { client.disconnect(); });
}

std::optional<Outcome> Crew::run() {
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < plan_.clients; i++) threads.emplace_back([this, i] { work(i); });
    meeting_.arrive_and_wait();  // keys are stored
    meeting_.arrive_and_wait();  // warmed up
    Outcome outcome;
    std::optional<double> node_before_s, node_after_s;
    const auto device_before = device_counters();
    try {
        node_before_s = node_cpu_s();
    } catch (...) {
        failure_ = std::current_exception();
        given_up_.store(true);
    }
    const uint64_t begin_ns = boottime_ns();
    meeting_.arrive_and_wait();  // start
    meeting_.arrive_and_wait();  // end
    const double elapsed_s = double(boottime_ns() - begin_ns) * 1e-9;
    const auto device_after = device_counters();
    for (std::thread& thread : threads) thread.join();
    if (failure_ == nullptr && !stop_.load()) node_after_s = node_cpu_s();
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    if (stop_.load()) return {};
    std::optional<DeviceCounters> device;
    if (device_before.has_value() && device_after.has_value() && reach_.via() == Via::verbs)
        device = *device_after - *device_before;
    fill(outcome.measured, elapsed_s, device);
    if (node_before_s.has_value())
        outcome.measured.node_cpu_us_per_op = (*node_after_s - *node_before_s) * 1e6 / double(sweep_.operations);
    for (const auto& client : clients_)
        if (outcome.first_error.empty()) outcome.first_error = client->first_error();
    for (const RpcMode mode : {RpcMode::send, RpcMode::write, RpcMode::rfp})
        if (std::find(rpc_.begin(), rpc_.end(), mode) != rpc_.end())
            outcome.rpc += (outcome.rpc.empty() ? "" : ", ") + std::string(rpc_mode_name(mode));
    return outcome;
}

void Crew::fill(Measured& to, double elapsed_s, const std::optional<DeviceCounters>& device) const {
    Histogram latency;
    TransportParts parts;
    Counted counted;
    uint64_t errors = 0, gets = 0;
    double cpu_s = 0;
    for (size_t i = 0; i < clients_.size(); i++) {
        const TransportClient& client = *clients_[i];
        latency.merge(client.latency());
        errors += client.errors();
        gets += client.gets();
        cpu_s += cpu_s_[i];
        counted.add(counted_[i], Counted());
        parts.begin_ns += client.parts().begin_ns;
        parts.post_ns += client.parts().post_ns;
        parts.wait_ns += client.parts().wait_ns;
        parts.finish_ns += client.parts().finish_ns;
    }
    const double operations = double(latency.count());
    auto us = [&](double ns) { return ns / 1e3; };
    to.ops_per_s = operations / elapsed_s;
    to.mean_us = us(latency.mean());
    to.p50_us = us(double(latency.quantile(0.5)));
    to.p95_us = us(double(latency.quantile(0.95)));
    to.p99_us = us(double(latency.quantile(0.99)));
    to.p999_us = us(double(latency.quantile(0.999)));
    to.errors = double(errors);
    to.client_cpu_us_per_op = cpu_s * 1e6 / operations;
    to.onesided_share = gets == 0 ? 0 : double(counted.onesided) / double(gets);
    fill_counts(to, counted, operations);
    if (device.has_value()) {
        to.device.sends = double(device->sends) / operations;
        to.device.packets = double(device->packets) / operations;
        expect_counts(to, node_.here);
        if (node_.here) to.device.node_sends = *to.device.sends - *to.verbs.sends;
    }
    if (!sweep_.profile) return;
    to.profile.begin_us = us(double(parts.begin_ns)) / operations;
    to.profile.post_us = us(double(parts.post_ns)) / operations;
    to.profile.wait_us = us(double(parts.wait_ns)) / operations;
    to.profile.finish_us = us(double(parts.finish_ns)) / operations;
}

}  // namespace

Result<NodePlace> place_for(Transport transport, const TestedNode& node) {
    const NodePlace* tcp = node.over(Via::tcp);
    const NodePlace* rdma = node.over(Via::verbs);
    if (transport == Transport::tcp) {
        if (tcp == nullptr) return system_problem("the node has no address for tcp");
        return *tcp;
    }
    const NodePlace* other = rdma != nullptr ? rdma : node.over(Via::shm);
    if (other == nullptr) return system_problem("over tcp only tcp is possible");
    if (transport == Transport::atomic && other->via == Via::shm) return system_problem("over shm there are no atomics");
    return *other;
}

uint16_t this_run() {
    static const uint16_t number = uint16_t(random_word());
    return number;
}

std::optional<Outcome> run_plan(const Sweep& sweep, const TestedNode& node, const TrialPlan& plan, uint32_t number,
                                const std::atomic<bool>& stop) {
    const auto place = place_for(plan.transport, node);
    if (const auto* problem = std::get_if<Problem>(&place)) throw std::runtime_error(problem->text);
    Crew crew(sweep, node, std::get<0>(place), plan, number, stop);
    return crew.run();
}

std::optional<Trial> run_trial(const Sweep& sweep, const TestedNode& node, const Point& point, uint32_t number,
                               const std::atomic<bool>& stop) {
    TrialPlan plan;
    plan.transport = point.transport;
    plan.clients = point.clients;
    plan.sets_percent = workload_sets_percent[size_t(point.workload)];
    plan.zipf = sweep.zipf;
    plan.sizes = {{sweep.value_bytes, sweep.value_bytes}};
    plan.key_prefix = form("%04x%u%u%03u%03u:", unsigned(this_run()), unsigned(point.transport), unsigned(point.workload),
                           point.clients, number);
    std::optional<Outcome> outcome = run_plan(sweep, node, plan, number, stop);
    if (!outcome.has_value()) return {};
    return Trial{std::move(*outcome), point, number};
}

}  // namespace farcached::bench
