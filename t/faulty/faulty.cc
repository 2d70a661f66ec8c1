// SPDX-License-Identifier: BSD-3-Clause
// Defines the functions of base/broken.h for the programs t/faulty/*. FARCACHED_BREAK=S7 selects the broken rule; unset
// or empty, all rules hold. FARCACHED_FAULTS=seed=1,tear_read=0.5 sets fault points.
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

namespace {

using farcached::broken::faults;

std::string_view environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string_view() : value;
}

[[noreturn]] void fatal(std::string_view what) {
    std::fprintf(stderr, "FARCACHED_FAULTS: %.*s\nThe fault points:\n", int(what.size()), what.data());
#define X(type, name, otherwise, help) std::fprintf(stderr, "%-17s %s\n", #name, help);
    FAULT_POINTS(X)
#undef X
    std::exit(64);
}

constexpr uint32_t lie_bytes = UINT32_C(3) << 29;  // beyond the end of a small node's memory, which reserves a GiB

volatile int asked_to_take_back = -1;  // an eventfd
volatile int asked_to_go_on = -1;      // the same

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
    CHECK(ftruncate(file, bytes) == 0);
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(ftruncate(file, 0) == 0);
    return static_cast<volatile char*>(at);
}

void sleep_a_while() {
    const timespec some{0, long(1000 * (1 + dice() % faults.hold_up_us))};
    nanosleep(&some, nullptr);
}

}  // namespace

namespace farcached {

bool broken::chosen(std::string_view rule) { return rule == environment("FARCACHED_BREAK"); }

bool broken::chosen_at_all() { return std::getenv("FARCACHED_BREAK") != nullptr; }

broken::Faults broken::chosen_faults() {
    Faults chosen;
    for (std::string_view text = environment("FARCACHED_FAULTS"); !text.empty();) {
        const std::string_view word = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        const std::string name(word.substr(0, word.find('=')));
        const std::string number(word.substr(std::min(word.size(), name.size() + 1)));
        char* end = nullptr;
        const double value = std::strtod(number.c_str(), &end);
        bool known = false;
#define X(type, point, otherwise, help) \
    if (name == #point) known = true, chosen.point = type(value);
        FAULT_POINTS(X)
#undef X
        if (!known || number.empty() || *end != '\0') fatal(word);
    }
    if (chosen.delay_ms_min > chosen.delay_ms) fatal("delay_ms is less than delay_ms_min");
    if (chosen.held_handshake || chosen.held_copies) {
        asked_to_go_on = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
        std::signal(SIGUSR2, [](int) { (void)eventfd_write(asked_to_go_on, 1); });
    }
    if (chosen.hold_up_us == 0 || chosen.hold_up_us >= 1'000'000) fatal("hold_up_us is from 1 to 999999");
    return chosen;
}

namespace {
std::atomic<uint64_t> steps_until_killed{0};
}

void broken::steps_left(uint64_t count) { steps_until_killed.store(count); }

void broken::take_step() {
    if (steps_until_killed.load(std::memory_order_relaxed) == 0) return;
    if (steps_until_killed.fetch_sub(1) == 1) (void)kill(getpid(), SIGKILL);
}

void broken::hold_up_sometimes(double likely) {
    if (::happens(likely)) sleep_a_while();
}

bool broken::happens_sometimes(double likely) { return ::happens(likely); }

// A delete of the key fail:check, fail:null, fail:stack, fail:divide, fail:abort, fail:bus or fail:throw is the end of the process,
// by what that says; of a farnode whatever is asked of such a key.
void broken::fail_on(std::string_view key) {
    if (!faults.failing) return;
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
    if (!happens(faults.lying)) return;
    const uint32_t truth = length;
    __atomic_store_n(&length, lie_bytes, __ATOMIC_RELAXED);
    sleep_a_while();
    __atomic_store_n(&length, truth, __ATOMIC_RELAXED);
}

void broken::await_signal() {
    constexpr std::string_view told = "a thread is held up\n";
    (void)!write(STDERR_FILENO, told.data(), told.size());
    eventfd_t one = 0;
    while (eventfd_read(asked_to_go_on, &one) != 0) {
    }
}

void broken::on_take_back(std::function<void()> act) {
    static std::mutex lock;
    static std::vector<std::function<void()>> acts;
    const std::lock_guard hold(lock);
    acts.push_back(std::move(act));
    if (!faults.take_back || asked_to_take_back != -1) return;
    asked_to_take_back = eventfd(0, EFD_CLOEXEC);
    std::signal(SIGUSR2, [](int) { (void)eventfd_write(asked_to_take_back, 1); });
    std::thread([] {
        for (eventfd_t times = 0; eventfd_read(asked_to_take_back, &times) == 0;) {
            const std::lock_guard held(lock);
            for (const auto& one : acts) one();
        }
    }).detach();
}

}  // namespace farcached
