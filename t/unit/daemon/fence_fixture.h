// SPDX-License-Identifier: BSD-3-Clause
// Two nodes with their fences, and workers. A test changes the links, and calls attend() for each step of a worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/remote/fence.h"

namespace fence_test {

using namespace farcached::daemon;
using What = Kill::What;

constexpr uint64_t ms = 1'000'000;

class World {
  public:
    Fences fences;
    Fence a, b;
    uint64_t now_ns = 1'000'000 * ms;
    bool drained = false;

    void divert(const std::string& key, uint64_t until_ns = UINT64_MAX) {
        fences.divert(a, b, key, until_ns, /* capped= */ until_ns != UINT64_MAX);
        Fences::answered(b);
    }
    void divert_too_many(uint64_t until_ns = UINT64_MAX) {
        for (int i = 0; !fences.shown(a).all; i++) divert("many" + std::to_string(i), until_ns);
    }
    // Until something else can have happened after a failure.
    void wait() { now_ns += 1000 * ms; }
};

struct Worker {
    World& world;
    uint32_t number;
    bool up = true, down = false, busy = false;  // of its link to a; b's is up
    bool failover = true;
    FenceState a = FenceState::in_use, b = FenceState::in_use;
    bool guests_at_b = true, changed = false, unsettled = false;
    Kill at_a{}, at_b{};
    bool up_b = true, drained_b = false;
    uint64_t incarnation = 0, renewal = 0;  // of the link to a
    uint64_t again_at_ns = 0;
    bool held = false;       // a connection came up since it attended
    bool elsewhere = false, ends = false, two = false, back = false;
    bool counts = false;     // its link, as it is up

    std::string_view attend() {
        held = false;
        const bool drained = world.drained;
        Fences::Seen seen[2] = {{.fence = &world.a, .owns_link = true, .up = up, .down = down, .busy = busy, .drained = drained,
                                 .incarnation = incarnation, .renewal = renewal},
                                {.fence = &world.b, .owns_link = true, .up = up_b, .drained = drained_b}};
        const Fences::Attended attended = world.fences.attend(number, seen, failover, world.now_ns);
        changed = attended.changed;
        unsettled = attended.unsettled;
        again_at_ns = attended.again_at_ns;
        elsewhere = seen[0].elsewhere;
        ends = seen[0].ends;
        two = seen[0].two;
        back = seen[0].back;
        counts = seen[0].up;
        a = seen[0].state;
        b = seen[1].state;
        guests_at_b = seen[1].takes_guests;
        if (seen[0].kill.what != What::none) at_a = std::move(seen[0].kill);
        if (seen[1].kill.what != What::none) at_b = std::move(seen[1].kill);
        return fence_state_name(a);
    }
    std::string_view lose() {
        up = false;
        down = true;
        return attend();
    }
    std::string_view connect() {
        up = true;
        down = false;
        return attend();
    }
    // Of a node that DNS finds: its link to a comes up. It attends later.
    void come_up(uint64_t process, uint64_t at) {
        world.fences.met(world.a, number, at);
        incarnation = process;
        up = held = true;
        down = false;
    }
    // Its link ends, which it shows when it attends.
    void end() {
        up = held = false;
        down = true;
    }
    // Do requests go to a?
    bool uses() const { return up && !held && a == FenceState::in_use; }
    size_t acknowledge(bool done = true) {
        const size_t keys = at_a.keys.size();
        world.fences.killed(world.a, std::exchange(at_a, Kill()), done, world.now_ns);
        return keys;
    }
    size_t acknowledge_guests(bool done = true) {
        const size_t keys = at_b.keys.size();
        world.fences.killed(world.b, std::exchange(at_b, Kill()), done, world.now_ns);
        return keys;
    }
};

}  // namespace fence_test
