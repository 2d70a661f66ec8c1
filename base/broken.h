// SPDX-License-Identifier: BSD-3-Clause
// Faults on purpose, for t/'s own build of libraries and programs (FARCACHED_FAULTY; t/faulty.cc): switches that
// break one safety rule each (ARCHITECTURE.md), so that t/ can show that its checkers catch it, and moments at which
// a thread may be held up, so that what takes nanoseconds lasts long enough to be seen. In every program that is
// installed the switches are constants and nothing is held up.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace farcached::broken {

#ifdef FARCACHED_FAULTY
constexpr bool build = true;
#else
constexpr bool build = false;
#endif

enum class Moment : uint8_t {
    probing,    // a lock-free reader, between its looks at slot, guard and header
    reading,    // in the middle of its copy
    replacing,  // a node's replacement of an item, before and after the old guard's flip
};

// Defined by t/faulty.cc.
bool chosen(std::string_view rule);  // is it the rule that this process breaks?
uint32_t chosen_tag_mask();
bool chosen_sweeps();
void hold_up_sometimes(Moment moment);
void lie_sometimes(uint32_t& length);
void fail_on(std::string_view key);  // a key whose name is that of a failure
void on_take_back(std::function<void()> act);  // called, in a thread of its own, when what was lent is to be taken back

inline void hold_up(Moment moment) {
    if constexpr (build) hold_up_sometimes(moment);
}
// Memory that lies: what stands there is far too long for a moment, as who reads it without the lock sees it.
inline void lie(uint32_t& length) {
    if constexpr (build) lie_sometimes(length);
}

// A failure of the program itself, for what is said of it at its end.
inline void fail_if_named(std::string_view key) {
    if constexpr (build) fail_on(key);
}

// Circumstances: how much of an index slot's tag is used, so that keys collide; does a farnode give back what has
// expired, or does that lie where it is.
#ifdef FARCACHED_FAULTY
inline const uint32_t tag_mask = chosen_tag_mask();
inline const bool sweeps = chosen_sweeps();
#define BROKEN(rule, name) inline const bool name = chosen(rule);
#else
constexpr uint32_t tag_mask = UINT32_MAX;
constexpr bool sweeps = true;
#define BROKEN(rule, name) constexpr bool name = false;
#endif

BROKEN("S1", s1_overwrite_in_place)         // a set of equal size writes into the published item
BROKEN("S2", s2_free_leased)                // what dies under a lease is reused at once
BROKEN("S3", s3_count_from_reply)           // a lease is counted from its reply, not from what earned it
BROKEN("S4", s4_skip_key)                   // a matching tag is taken for a matching key
BROKEN("S4_GUARD", s4_skip_guard)           // what a pointer leads to is taken whatever its guard says
BROKEN("S4_LEASE", s4_skip_lease)           // no clock is looked at when a read has completed
BROKEN("S5", s5_skip_recheck)               // nothing is looked at again after the copy
BROKEN("S5_INDEX", s5_skip_check)           // what the index of another host led to is taken without its check
BROKEN("S6", s6_count_in_items)             // reads are counted in the bytes of the item itself
BROKEN("S7", s7_publish_before_flip)        // the new item is found before the old one is dead
BROKEN("S8", s8_lease_anywhere)             // every page is leasable
BROKEN("S9", s9_trust_pointer)              // a pointer is read wherever it leads
BROKEN("S9_OWNER", s9_ignore_owner)         // a dead node's memory is read as if it lived
BROKEN("S10", s10_trust_lengths)            // lengths read from the region are not checked
BROKEN("S10_POINTER", s10_accept_unchecked) // an entry of the pointer table is taken without its check
BROKEN("S11", s11_forget_floor)             // flush_all leaves items readable without the lock
BROKEN("S11_LEASED", s11_spare_leased)      // a delete by prefix leaves guards live that are under leases
BROKEN("S12", s12_reuse_at_timeout)         // a landing buffer is free when its reader gave up
BROKEN("S13", s13_ignore_exptime)           // lock-free readers serve expired items

#undef BROKEN

}  // namespace farcached::broken
