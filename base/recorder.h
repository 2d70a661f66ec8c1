// SPDX-License-Identifier: BSD-3-Clause
// Recorder: a thread's current work, and the last events in it, for a crash report (process/crash_report.h). It also sets
// the thread's name.
//
// Owner: the thread that runs with it. Only that thread, and a signal handler in it, write or read it. So it has no lock,
// and its stores only need their order.
// F1  An event is a literal and two numbers. A note costs five stores and reads no clock.
// F2  It borrows the bytes at hand until put_down().
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/peer_address.h"

namespace farcached {

class Recorder {
  public:
    static constexpr size_t events_max = 32;
    static constexpr size_t name_bytes_max = 15;  // the kernel's

    struct Event {
        const char* what = nullptr;
        uint64_t at_ns = 0;      // CLOCK_BOOTTIME of the last clock() before; 0: none
        int64_t number = 0, more = 0;
    };
    struct AtHand {
        int fd = -1;              // of a client's connection; -1: none is at hand
        const PeerAddress* peer = nullptr;  // the client's address; nullptr: `from` has it
        std::string_view from;
        std::string_view bytes;   // received and not yet processed at take()
        const char* step = nullptr;  // the place in them where the present work begins
    };

    // Cuts a longer name. Empty: the thread keeps its name.
    explicit Recorder(std::string_view name);
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    // While it lives, the thread that made it has this recorder, its name, and a stack for signal handlers. So a handler can
    // report an overflow of the thread's stack.
    class Running {
      public:
        explicit Running(Recorder& recorder);
        ~Running();
        Running(const Running&) = delete;
        Running& operator=(const Running&) = delete;

      private:
        std::unique_ptr<char[]> stack_;
        stack_t before_{};  // restored at the end: a sanitizer has a stack, too
    };
    // The recorder of this thread, or nullptr.
    static Recorder* current();

    // ---- the thread -----------------------------------------------------------------------------
    // Notes a clock reading made for another purpose.
    void clock(uint64_t now_ns) { now_ns_.store(now_ns, std::memory_order_relaxed); }
    // what: a literal. The report prints the numbers after it, the second only if it is not 0.
    void note(const char* what, int64_t number = 0, int64_t more = 0) {
        const uint64_t count = noted_.load(std::memory_order_relaxed);
        Event& event = events_[count % events_max];
        event.what = what;
        event.at_ns = now_ns_.load(std::memory_order_relaxed);
        event.number = number;
        event.more = more;
        std::atomic_signal_fence(std::memory_order_release);
        noted_.store(count + 1, std::memory_order_relaxed);
    }
    void take(int fd, const PeerAddress& peer, std::string_view bytes) {
        at_hand_.peer = &peer;
        take(fd, bytes);
    }
    void take(int fd, std::string_view from, std::string_view bytes) {
        at_hand_.peer = nullptr;
        at_hand_.from = from;
        take(fd, bytes);
    }
    // Replaces the bytes at hand where only these bytes of the work are known; the client of the last take() stays.
    void hand(std::string_view bytes) {
        at_hand_.bytes = bytes;
        step_.store(bytes.data(), std::memory_order_relaxed);
    }
    // The thread now works on the bytes from `at` on.
    void step(const char* at) { step_.store(at, std::memory_order_relaxed); }
    void put_down() { fd_.store(-1, std::memory_order_relaxed); }

    // ---- a signal handler in the thread ----------------------------------------------------------
    std::string_view name() const { return {name_, name_bytes_}; }
    AtHand at_hand() const;
    uint64_t noted() const { return noted_.load(std::memory_order_relaxed); }
    // An event of the first noted() ones; only the last events_max are kept.
    const Event& event(uint64_t number) const { return events_[number % events_max]; }

  private:
    void take(int fd, std::string_view bytes) {
        at_hand_.bytes = bytes;
        step_.store(bytes.data(), std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_release);
        fd_.store(fd, std::memory_order_relaxed);
    }

    char name_[name_bytes_max + 1] = "";
    size_t name_bytes_ = 0;
    std::atomic<uint64_t> now_ns_{0}, noted_{0};
    std::array<Event, events_max> events_{};
    std::atomic<int> fd_{-1};
    std::atomic<const char*> step_{nullptr};
    AtHand at_hand_;
};

// Notes the event in this thread's recorder, if it has one.
void note_event(const char* what, int64_t number = 0, int64_t more = 0);

}  // namespace farcached
