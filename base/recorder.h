// SPDX-License-Identifier: BSD-3-Clause
// Recorder: what a thread is doing, and the last things that happened in it, for the report of a crash
// (process/crash_report.h). It gives its thread its name, too.
//
// Owner: the thread that runs with it. Nobody else writes or reads, but a signal's handler in that same thread: so
// nothing is locked, and stores have only to be made in their order.
// F1  An event is a literal and two numbers. A note costs five stores; the clock is not read for it.
// F2  What is at hand is borrowed until put_down().
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
        uint64_t at_ns = 0;      // CLOCK_BOOTTIME, as it was read before; 0: it never was
        int64_t number = 0, more = 0;
    };
    struct AtHand {
        int fd = -1;              // of a client's connection; -1: nothing is at hand
        const PeerAddress* peer = nullptr;  // whose; nullptr: `from` says so
        std::string_view from;
        std::string_view bytes;   // what was received and not yet done when it was taken
        const char* step = nullptr;  // what is done now begins there
    };

    // A longer name is cut. Empty: the thread keeps the name it has.
    explicit Recorder(std::string_view name);
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    // While it lives the thread that made it has this recorder, its name, and a stack for signals' handlers, so that an
    // overflow of its own stack can be reported.
    class Running {
      public:
        explicit Running(Recorder& recorder);
        ~Running();
        Running(const Running&) = delete;
        Running& operator=(const Running&) = delete;

      private:
        std::unique_ptr<char[]> stack_;
        stack_t before_{};  // a sanitizer has one, too, and wants it back
    };
    // Of this thread; nullptr: it has none.
    static Recorder* current();

    // ---- the thread -----------------------------------------------------------------------------
    // A clock was read, for another reason.
    void clock(uint64_t now_ns) { now_ns_.store(now_ns, std::memory_order_relaxed); }
    // what: a literal. The numbers are shown behind it, the second if it is not 0.
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
    // The same of who was taken, where only this much is known of what is done.
    void hand(std::string_view bytes) {
        at_hand_.bytes = bytes;
        step_.store(bytes.data(), std::memory_order_relaxed);
    }
    // Of what is at hand, this is done now.
    void step(const char* at) { step_.store(at, std::memory_order_relaxed); }
    void put_down() { fd_.store(-1, std::memory_order_relaxed); }

    // ---- a signal's handler in it ----------------------------------------------------------------
    std::string_view name() const { return {name_, name_bytes_}; }
    AtHand at_hand() const;
    uint64_t noted() const { return noted_.load(std::memory_order_relaxed); }
    // of the noted() first; only the last events_max are kept.
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

// In this thread's recorder, if it has one.
void note_event(const char* what, int64_t number = 0, int64_t more = 0);

}  // namespace farcached
