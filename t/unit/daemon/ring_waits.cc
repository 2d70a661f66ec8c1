// SPDX-License-Identifier: BSD-3-Clause
// Waits by polls of a ring: readiness is reported once per turn as long as it lasts, and a late completion is ignored.
#include "daemon/session/ring.h"

#include "t/lib/tap.h"

#ifdef FARCACHED_LIBURING

#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

namespace {

using namespace farcached;
using daemon::Readiness;

constexpr uint64_t polls = 5, cancellations = 3;

struct Counts {
    Counter enters, full, refused, overflows;
};

// An eventfd that counts its readiness reports.
struct Source {
    Source() : fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
    ~Source() {
        if (fd >= 0) close(fd);
    }
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;
    void raise() const {
        const uint64_t one = 1;
        if (write(fd, &one, sizeof one) != sizeof one) std::abort();
    }
    void lower() const {
        uint64_t count = 0;
        if (read(fd, &count, sizeof count) != sizeof count) std::abort();
    }

    int fd;
    int told = 0;
};

class Loop {
  public:
    explicit Loop(std::unique_ptr<daemon::Ring> made) : ring(std::move(made)), waits(*ring, polls, cancellations) {}
    std::unique_ptr<Readiness> wait_for(Source& source) {
        auto made = waits.make([&source] { source.told++; });
        made->await(source.fd, false);
        return made;
    }
    void turn() {
        waits.arm();
        enter();
        if (waits.any_ready()) waits.tell();
    }
    // As in the middle of a turn.
    void enter() {
        ring->enter(false, 0, [&](const io_uring_cqe& cqe) {
            if ((cqe.user_data & 7) == polls) waits.note(cqe.user_data);
        });
    }

    const std::unique_ptr<daemon::Ring> ring;
    daemon::RingWaits waits;
};

void lasting(Loop& loop) {
    Source source;
    const auto readiness = loop.wait_for(source);
    loop.turn();
    tap::is(source.told, 0, "not ready: no report");
    source.raise();
    loop.turn();
    loop.turn();
    loop.turn();
    tap::is(source.told, 3, "ready for three turns: reported in each");
    source.lower();
    loop.turn();
    tap::is(source.told, 3, "ready no more: no report");
    readiness->await(source.fd, true);
    loop.turn();
    tap::is(source.told, 4, "writable, and that is waited for");
}

void stopped(Loop& loop) {
    Source source, other;
    const auto readiness = loop.wait_for(source);
    source.raise();
    loop.waits.arm();
    loop.enter();
    readiness->stop();
    if (loop.waits.any_ready()) loop.waits.tell();
    loop.turn();
    tap::is(source.told, 0, "stopped when its completion was there: no report");
    readiness->await(other.fd, false);
    loop.turn();
    tap::is(source.told, 0, "another descriptor, and the first is ready: no report");
    other.raise();
    loop.turn();
    tap::is(source.told, 1, "the other is ready: reported");
}

// The first poll's completion is there, and not visited, when the second takes its place.
void late(Loop& loop) {
    Source source, other;
    auto readiness = loop.wait_for(source);
    loop.turn();
    source.raise();
    readiness.reset();
    readiness = loop.wait_for(other);
    loop.turn();
    loop.turn();
    tap::is(source.told + other.told, 0, "a late completion, and another source in its place: no report");
    other.raise();
    loop.turn();
    tap::is(other.told, 1, "and the other source is reported when it is ready");
    other.lower();
    for (int i = 0; i < 1000; i++) {
        readiness->await(i % 2 == 0 ? source.fd : other.fd, false);
        loop.waits.arm();
    }
    other.told = 0;
    loop.turn();
    loop.turn();
    tap::is(other.told, 0, "a thousand changes without a turn: only the last counts");
}

void ends_others(Loop& loop) {
    Source first, second, third;
    std::unique_ptr<Readiness> ends, made;
    Source* told = &first;
    auto begins = loop.waits.make([&] {
        told->told++;
        ends.reset();
        made = loop.wait_for(third);
    });
    ends = loop.wait_for(second);
    begins->await(first.fd, false);
    for (const Source* one : {&first, &second, &third}) one->raise();
    loop.turn();
    tap::is(first.told, 1, "a callback that ends another one, and makes one");
    tap::is(second.told, 0, "that one is not reported, though it was ready, too");
    begins->stop();
    loop.turn();
    tap::is(third.told, 1, "the new one is, in the next turn");
}

}  // namespace

int main() {
    Counts counts;
    std::string refusal;
    auto ring = daemon::Ring::make({counts.enters, counts.full, counts.refused, counts.overflows}, refusal);
    if (ring != nullptr) refusal = ring->check();
    if (!refusal.empty()) {
        tap::skip(1, refusal.c_str());
        return tap::done();
    }
    Loop loop(std::move(ring));
    lasting(loop);
    stopped(loop);
    late(loop);
    ends_others(loop);
    return tap::done();
}

#else

int main() {
    tap::skip(1, "built without liburing");
    return tap::done();
}

#endif
