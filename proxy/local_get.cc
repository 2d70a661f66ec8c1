// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/local_get.h"

namespace farcached::proxy {

void LocalGet::count(fabric::Outcome outcome) {
    switch (outcome) {
        case fabric::Outcome::hit: counters_.local_hits.add(1); return;
        case fabric::Outcome::not_found: counters_.local_not_found.add(1); return;
        case fabric::Outcome::guard_dead: counters_.local_guard_dead.add(1); return;
        case fabric::Outcome::moved: counters_.local_moved.add(1); return;
        case fabric::Outcome::expired: counters_.local_expired.add(1); return;
        case fabric::Outcome::flushed: counters_.local_flushed.add(1); return;
        case fabric::Outcome::tokens: counters_.local_tokens.add(1); return;
        case fabric::Outcome::bounds: counters_.local_bounds.add(1); return;
        case fabric::Outcome::lease:
        case fabric::Outcome::generation:
        case fabric::Outcome::grown:
        case fabric::Outcome::key:
        case fabric::Outcome::check: break;  // only for pointers; this reads by the index
    }
    CHECK(outcome == fabric::Outcome::hit);
}

}  // namespace farcached::proxy
