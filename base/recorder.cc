// SPDX-License-Identifier: BSD-3-Clause
#include "base/recorder.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace farcached {

namespace {

constexpr size_t stack_bytes = 64 << 10;

// Thread-local: a signal handler gets no argument of ours.
thread_local Recorder* running = nullptr;

}  // namespace

Recorder::Recorder(std::string_view name) : name_bytes_(std::min(name.size(), name_bytes_max)) {
    std::memcpy(name_, name.data(), name_bytes_);
}

Recorder* Recorder::current() { return running; }

// Without memory for its own stack, the handler uses the thread's, and cannot report an overflow of that stack.
Recorder::Running::Running(Recorder& recorder) : stack_(new (std::nothrow) char[stack_bytes]) {
    if (recorder.name_bytes_ != 0) pthread_setname_np(pthread_self(), recorder.name_);
    running = &recorder;
    if (stack_ == nullptr) return;
    stack_t stack{};
    stack.ss_sp = stack_.get();
    stack.ss_size = stack_bytes;
    sigaltstack(&stack, &before_);
}

Recorder::Running::~Running() {
    running = nullptr;
    if (stack_ != nullptr) sigaltstack(&before_, nullptr);
}

Recorder::AtHand Recorder::at_hand() const {
    AtHand hand = at_hand_;
    hand.fd = fd_.load(std::memory_order_relaxed);
    hand.step = step_.load(std::memory_order_relaxed);
    return hand;
}

void note_event(const char* what, int64_t number, int64_t more) {
    if (running != nullptr) running->note(what, number, more);
}

}  // namespace farcached
