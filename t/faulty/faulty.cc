// SPDX-License-Identifier: BSD-3-Clause
// Defines the functions of base/broken.h and fault_plan_of_environment() for the programs t/faulty/*. The environment
// selects the broken rule, the faults of connections, and where threads are held up.
//
//   FARCACHED_BREAK=S7                       the rule, as base/broken.h names it; unset: all rules hold
//   FARCACHED_FAULTS=seed=1,tear_read=0.5    names of FaultPlan's members with their likelihoods, and
//     delay_ms_min=1,delay_ms=3              the shortest delay of each, and the longest
//     tag_mask=255                           the bits of index slots' tags in use
//     sweeps=0                               nodes do not free expired items
//     speaks=3                               the latest version of frames: the process is an older one
//     probing=0.1,reading=0.01,replacing=0.5,hold_up_us=100   how likely a thread is held up, and for how long at most
//     take_back=1                            SIGUSR2 revokes the readers' access to registered memory
//     failing=1                              a delete of the key fail:check, fail:null, fail:stack, fail:divide, fail:abort,
//                                            fail:bus or fail:throw ends the process in that way; in a farnode any
//                                            request for such a key does
//     lying=0.1                              how likely an item's length is wrong, for hold_up_us, before it is replaced
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/broken.h"
#include "base/check.h"
#include "fabric/fault_channel.h"

namespace {

std::string_view environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string_view() : value;
}

[[noreturn]] void fatal(std::string_view what) {
    std::fprintf(stderr, "FARCACHED_FAULTS: %.*s\n", int(what.size()), what.data());
    std::exit(64);
}

using Words = std::map<std::string, double, std::less<>>;

Words parse(std::string_view text) {
    Words words;
    while (!text.empty()) {
        const std::string_view word = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        const size_t equals = word.find('=');
        if (equals == std::string_view::npos) fatal(word);
        const std::string number(word.substr(equals + 1));
        char* end = nullptr;
        words[std::string(word.substr(0, equals))] = std::strtod(number.c_str(), &end);
        if (number.empty() || *end != '\0') fatal(word);
    }
    return words;
}

struct Faults {
    farcached::fabric::FaultPlan plan;
    double probing = 0, reading = 0, replacing = 0, lying = 0;

    double likely(farcached::broken::Moment moment) const {
        switch (moment) {
            case farcached::broken::Moment::probing: return probing;
            case farcached::broken::Moment::reading: return reading;
            case farcached::broken::Moment::replacing: return replacing;
        }
        return 0;
    }
    uint32_t tag_mask = UINT32_MAX, speaks = UINT32_MAX;
    bool sweeps = true, take_back = false, failing = false;
    uint64_t hold_up_us = 0;
};

Faults faults_of(Words words) {
    Faults faults;
    auto take = [&](std::string_view name, double otherwise) {
        const auto found = words.find(name);
        if (found == words.end()) return otherwise;
        const double value = found->second;
        words.erase(found);
        return value;
    };
    auto& plan = faults.plan;
    plan.seed = uint64_t(take("seed", 1));
    plan.delay_read = take("delay_read", 0);
    plan.fail_read = take("fail_read", 0);
    plan.tear_read = take("tear_read", 0);
    plan.tear_words = take("tear_words", 0);
    plan.shuffle_read = take("shuffle_read", 0);
    plan.delay_send = take("delay_send", 0);
    plan.delay_receive = take("delay_receive", 0);
    plan.split_receive = take("split_receive", 0);
    plan.delay_end = take("delay_end", 0);
    plan.delay_ns_max = uint64_t(take("delay_ms", 2) * 1e6);
    plan.delay_ns_min = uint64_t(take("delay_ms_min", 0) * 1e6);
    if (plan.delay_ns_min > plan.delay_ns_max) fatal("delay_ms is less than delay_ms_min");
    faults.tag_mask = uint32_t(take("tag_mask", UINT32_MAX));
    faults.speaks = uint32_t(take("speaks", UINT32_MAX));
    faults.sweeps = take("sweeps", 1) != 0;
    faults.take_back = take("take_back", 0) != 0;
    faults.failing = take("failing", 0) != 0;
    faults.probing = take("probing", 0);
    faults.reading = take("reading", 0);
    faults.replacing = take("replacing", 0);
    faults.lying = take("lying", 0);
    faults.hold_up_us = uint64_t(take("hold_up_us", 100));
    if (faults.hold_up_us == 0 || faults.hold_up_us >= 1'000'000) fatal("hold_up_us is from 1 to 999999");
    if (!words.empty()) fatal(words.begin()->first);
    return faults;
}

const Faults& faults() {
    static const Faults of_process = faults_of(parse(environment("FARCACHED_FAULTS")));
    return of_process;
}

constexpr uint32_t lie_bytes = UINT32_C(3) << 29;  // beyond the end of a small node's memory, which reserves a GiB

volatile int asked_to_take_back = -1;  // an eventfd

thread_local std::minstd_rand dice(std::random_device{}());

bool happens(double likely) {
    return likely != 0 && double(dice()) < likely * double(std::minstd_rand::max());
}

volatile bool has_bottom = false;  // so that no compiler knows

int fill_stack(int depth) {
    volatile char room[4096];
    room[depth % 4096] = 1;
    return has_bottom ? 0 : fill_stack(depth + 1) + room[0];
}

// Memory of a file that became shorter.
volatile char* beyond_the_end() {
    constexpr size_t bytes = 4096;
    const int file = memfd_create("failing", MFD_CLOEXEC);
    (void)ftruncate(file, bytes);
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)ftruncate(file, 0);
    return static_cast<volatile char*>(at);
}

void sleep_a_while() {
    const timespec some{0, long(1000 * (1 + dice() % faults().hold_up_us))};
    nanosleep(&some, nullptr);
}

}  // namespace

namespace farcached {

bool broken::chosen(std::string_view rule) { return rule == environment("FARCACHED_BREAK"); }

uint32_t broken::chosen_tag_mask() { return faults().tag_mask; }

bool broken::chosen_sweeps() { return faults().sweeps; }

uint32_t broken::chosen_speaks() { return faults().speaks; }

void broken::hold_up_sometimes(Moment moment) {
    if (happens(faults().likely(moment))) sleep_a_while();
}

void broken::fail_on(std::string_view key) {
    if (!faults().failing) return;
    CHECK(key != "fail:check");
    static volatile int* volatile nowhere = nullptr;
    static volatile int none = 0;
    if (key == "fail:null") *nowhere = 1;
    if (key == "fail:stack") none = fill_stack(none);
    if (key == "fail:divide") none = 7 / none;  // 1 / x is no division to a compiler
    if (key == "fail:abort") std::abort();
    if (key == "fail:bus") *beyond_the_end() = 1;
    if (key == "fail:throw") throw std::runtime_error("failing");
}

void broken::lie_sometimes(uint32_t& length) {
    if (!happens(faults().lying)) return;
    const uint32_t truth = length;
    __atomic_store_n(&length, lie_bytes, __ATOMIC_RELAXED);
    sleep_a_while();
    __atomic_store_n(&length, truth, __ATOMIC_RELAXED);
}

void broken::on_take_back(std::function<void()> act) {
    static std::mutex lock;
    static std::vector<std::function<void()>> acts;
    const std::lock_guard hold(lock);
    acts.push_back(std::move(act));
    if (!faults().take_back || asked_to_take_back != -1) return;
    asked_to_take_back = eventfd(0, EFD_CLOEXEC);
    std::signal(SIGUSR2, [](int) { (void)eventfd_write(asked_to_take_back, 1); });
    std::thread([] {
        for (eventfd_t times = 0; eventfd_read(asked_to_take_back, &times) == 0;) {
            const std::lock_guard held(lock);
            for (const auto& one : acts) one();
        }
    }).detach();
}

fabric::FaultPlan fabric::fault_plan_of_environment() {
    static std::atomic<uint64_t> calls{0};
    FaultPlan plan = faults().plan;
    plan.seed += calls.fetch_add(1) << 32;
    return plan;
}

}  // namespace farcached
