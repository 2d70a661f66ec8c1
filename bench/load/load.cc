// SPDX-License-Identifier: BSD-3-Clause
#include "bench/load/load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "bench/command.h"

namespace farcached::bench {

namespace {

constexpr uint64_t second_ns = UINT64_C(1'000'000'000);
constexpr rlim_t descriptors_beside = 64;  // of a process, in addition to its connections

using Workers = std::vector<std::unique_ptr<Worker>>;

// Runs `work` for each worker, in a thread of its own.
class Crew {
  public:
    Crew(const Workers& workers, FunctionRef<void(Worker&, uint32_t)> work)
        : running_(workers.size()) {
        for (uint32_t i = 0; i < workers.size(); i++)
            threads_.emplace_back([this, &worker = *workers[i], i, work] {
                work(worker, i);
                std::lock_guard lock(mutex_);
                running_--;
                ended_.notify_one();
            });
    }
    ~Crew() {
        for (std::thread& thread : threads_) thread.join();
    }

    // True if all threads have ended.
    bool wait_until(uint64_t at_ns) {
        // libstdc++'s steady_clock is CLOCK_MONOTONIC.
        std::chrono::steady_clock::time_point at{std::chrono::nanoseconds(at_ns)};
        std::unique_lock lock(mutex_);
        return ended_.wait_until(lock, at, [this] { return running_ == 0; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable ended_;
    size_t running_;
    std::vector<std::thread> threads_;
};

// A line a second on stderr: rewritten in place on a terminal.
class Progress {
  public:
    Progress(const Workers& workers, const LoadOptions& options)
        : workers_(workers),
          terminal_(isatty(STDERR_FILENO) == 1),
          shown_(terminal_ || options.output.progress),
          last_ns_(now_ns()) {}

    // Shows progress until `at_ns`. True: all threads ended before.
    bool watch(Crew& crew, const char* phase, uint64_t at_ns, uint64_t whole) {
        while (true) {
            uint64_t tick_ns = last_ns_ + second_ns;
            if (crew.wait_until(std::min(tick_ns, at_ns))) return true;
            if (now_ns() >= at_ns) return false;
            line(phase, whole);
        }
    }
    void end() {
        if (shown_ && terminal_) std::fprintf(stderr, "\r%*s\r", columns, "");
    }

  private:
    static constexpr int columns = 78;

    // whole: number of operations expected; 0: unknown.
    void line(const char* phase, uint64_t whole) {
        uint64_t operations = 0, keys_read = 0, hits = 0;
        for (const auto& worker : workers_) {
            operations += worker->operations.get();
            keys_read += worker->keys_read.get();
            hits += worker->hits.get();
        }
        uint64_t now = now_ns();
        double rate = double(operations - operations_) / (double(now - last_ns_) * 1e-9);
        char text[columns * 2];
        if (whole > 0)
            std::snprintf(text, sizeof text, "%s: %3.0f %%, %.0f operations/s", phase,
                          100.0 * double(operations) / double(whole), rate);
        else
            std::snprintf(text, sizeof text, "%s: %.0f operations/s, hit ratio %.4f", phase, rate,
                          keys_read == keys_read_
                              ? 0.0
                              : double(hits - hits_) / double(keys_read - keys_read_));
        if (shown_)
            std::fprintf(stderr, terminal_ ? "\r%-*s" : "%-*s\n", terminal_ ? columns : 0, text);
        operations_ = operations;
        keys_read_ = keys_read;
        hits_ = hits;
        last_ns_ = now;
    }

    const Workers& workers_;
    bool terminal_, shown_;
    uint64_t last_ns_;
    uint64_t operations_ = 0, keys_read_ = 0, hits_ = 0;
};

void allow_descriptors(uint32_t connections) {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    rlim_t wanted = connections + descriptors_beside;
    if (limit.rlim_cur >= wanted) return;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? wanted : std::min(wanted, limit.rlim_max);
    setrlimit(RLIMIT_NOFILE, &limit);
}

Workers make_workers(Plan& plan) {
    const Shape& shape = plan.options.shape;
    allow_descriptors(shape.connections);
    Workers workers;
    for (uint32_t i = 0; i < shape.threads; i++) {
        uint32_t share =
            shape.connections / shape.threads + (i < shape.connections % shape.threads ? 1 : 0);
        workers.push_back(std::make_unique<Worker>(plan, i, share));
    }
    return workers;
}

// Runs `work` for each worker until all have ended. Returns the seconds that it took. operations: the number expected.
double run_phase(const Workers& workers, Progress& progress, const char* name, uint64_t operations,
                 FunctionRef<void(Worker&, uint32_t)> work) {
    const uint64_t start_ns = now_ns();
    Crew crew(workers, work);
    progress.watch(crew, name, UINT64_MAX, operations);
    return double(now_ns() - start_ns) * 1e-9;
}

void measure(const Workers& workers, const LoadOptions& options, Progress& progress, ShareMeter& shares,
             Results& results) {
    const Bounds& bounds = options.bounds;
    const Target& target = options.target;
    const Pace& pace = options.pace;
    if (bounds.warmup_s == 0) shares.begin();
    const uint64_t start_ns = now_ns();
    uint64_t from_ns = start_ns + uint64_t(bounds.warmup_s * 1e9);
    uint64_t to_ns = from_ns + uint64_t(bounds.seconds * 1e9);
    auto work = [&](Worker& worker, uint32_t number) {
        uint64_t requests = bounds.requests / workers.size();
        if (number < bounds.requests % workers.size()) requests++;
        if (bounds.requests > 0 && requests == 0) return;
        const Window window{from_ns, to_ns, requests};
        if (pace.rate == 0) return worker.load(window);
        const uint32_t of = uint32_t(workers.size());
        worker.load_at_rate(window, Schedule(start_ns, pace.rate, pace.arrivals, number, of, options.mix.seed));
    };
    Crew crew(workers, work);
    progress.watch(crew, "warm-up", from_ns, 0);
    if (bounds.warmup_s > 0) shares.begin();
    Usage server_before = usage_of(target.server_pids), back_before = usage_of(target.back_pids);
    double client_before_s = own_cpu_s();
    progress.watch(crew, "load", pace.rate == 0 ? to_ns : UINT64_MAX, 0);
    results.client_cpu_s = own_cpu_s() - client_before_s;
    results.server = usage_of(target.server_pids) - server_before;
    results.back = usage_of(target.back_pids) - back_before;
    results.shares = shares.end();
    progress.watch(crew, "the last replies", UINT64_MAX, 0);
    results.measured_s = bounds.seconds;
    uint64_t last_ns = from_ns;
    for (const auto& worker : workers) last_ns = std::max(last_ns, worker->tally().last_reply_ns);
    const double replied_s = double(last_ns - from_ns) * 1e-9;
    if (bounds.requests > 0 || interrupted)
        results.measured_s = replied_s;
    else if (pace.rate > 0)
        results.measured_s = std::max(bounds.seconds, replied_s);
}

}  // namespace

Command load_command() {
    const auto run = [](std::span<char* const> arguments) -> int {
        LoadOptions options;
        const std::string wrong = read_load_options(arguments, options);
        if (!wrong.empty()) return refuse_arguments("load", wrong);
        const Results results = run_load(options);
        std::fputs(text_report(options, results).c_str(), stdout);
        const Output& output = options.output;
        if (!output.json_path.empty()) write_file(output.json_path, json_report(options, results), std::ios::trunc);
        if (!output.csv_path.empty()) append_csv(output.csv_path, options, results);
        if (!output.histogram_path.empty()) write_file(output.histogram_path, histogram_csv(results), std::ios::trunc);
        return results.total.failures.total() == 0 && !interrupted ? exit_good : exit_failed;
    };
    return {"load", "", "Load on a memcached server, in a closed loop or at a rate: throughput, latency, hit ratio, server CPU.",
            {load_options().begin(), load_options().end()}, run};
}

Results run_load(const LoadOptions& options) {
    Plan plan(options);
    Workers workers = make_workers(plan);
    usage_of(options.target.server_pids);  // throws now if there is no such process
    usage_of(options.target.back_pids);
    catch_interrupts();
    ShareMeter shares(options.target);
    Progress progress(workers, options);
    Results results;
    const Mix& mix = options.mix;
    const auto store = [&](Worker& worker, uint32_t number) { worker.preload(number, workers.size()); };
    const auto read = [&](Worker& worker, uint32_t number) { worker.read_all(number, workers.size(), mix.warmup_reads); };
    const auto warm_up = [&](Worker& worker, uint32_t number) {
        const uint64_t all = options.bounds.warmup_requests, of = workers.size();
        worker.warm_up(all / of + (number < all % of ? 1 : 0));
    };
    if (mix.preload) results.preload_s = run_phase(workers, progress, "preload", mix.keys, store);
    if (!plan.stop && mix.warmup_reads > 0)
        results.warmup_reads_s = run_phase(workers, progress, "reads before", mix.keys * mix.warmup_reads, read);
    if (!plan.stop && options.bounds.warmup_requests > 0)
        run_phase(workers, progress, "warm-up", options.bounds.warmup_requests, warm_up);
    if (!plan.stop) measure(workers, options, progress, shares, results);
    progress.end();
    for (const auto& worker : workers) {
        const Tally& tally = worker->tally();
        results.total.sets.merge(tally.sets);
        results.total.gets.merge(tally.gets);
        results.total.deletes.merge(tally.deletes);
        results.total.keys_read += tally.keys_read;
        results.total.hits += tally.hits;
        results.total.late += tally.late;
        results.total.sent_after_max_ns = std::max(results.total.sent_after_max_ns, tally.sent_after_max_ns);
        results.total.unsent += tally.unsent;
        results.total.failures.merge(tally.failures);
    }
    return results;
}

}  // namespace farcached::bench
