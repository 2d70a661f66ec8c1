// SPDX-License-Identifier: BSD-3-Clause
// Switches that break one safety rule on purpose (DESIGN section 5), so that t/ can show that the checker
// catches it. Off in every program that is installed; on only in the t/broken_* test programs.
#pragma once

namespace farcached::broken {

#ifdef FARCACHED_BREAK_S1
constexpr bool s1_overwrite_in_place = true;  // a set of equal size writes into the published item
#else
constexpr bool s1_overwrite_in_place = false;
#endif

#ifdef FARCACHED_BREAK_S2
constexpr bool s2_free_leased = true;  // what dies under a lease is reused at once
#else
constexpr bool s2_free_leased = false;
#endif

#ifdef FARCACHED_BREAK_S3
constexpr bool s3_count_from_reply = true;  // a lease is counted from its reply, not from what earned it
#else
constexpr bool s3_count_from_reply = false;
#endif

#ifdef FARCACHED_BREAK_S4
constexpr bool s4_skip_key = true;  // a matching tag is taken for a matching key
#else
constexpr bool s4_skip_key = false;
#endif

#ifdef FARCACHED_BREAK_S4_GUARD
constexpr bool s4_skip_guard = true;  // what a pointer leads to is taken whatever its guard says
#else
constexpr bool s4_skip_guard = false;
#endif

#ifdef FARCACHED_BREAK_S4_LEASE
constexpr bool s4_skip_lease = true;  // no clock is looked at when a read has completed
#else
constexpr bool s4_skip_lease = false;
#endif

#ifdef FARCACHED_BREAK_S5
constexpr bool s5_skip_recheck = true;  // nothing is looked at again after the copy
#else
constexpr bool s5_skip_recheck = false;
#endif

#ifdef FARCACHED_BREAK_S5_INDEX
constexpr bool s5_skip_check = true;  // what the index of another host led to is taken without its check
#else
constexpr bool s5_skip_check = false;
#endif

#ifdef FARCACHED_BREAK_S7
constexpr bool s7_publish_before_flip = true;  // the new item is found before the old one is dead
#else
constexpr bool s7_publish_before_flip = false;
#endif

#ifdef FARCACHED_BREAK_S8
constexpr bool s8_lease_anywhere = true;  // every page is leasable
#else
constexpr bool s8_lease_anywhere = false;
#endif

#ifdef FARCACHED_BREAK_S9
constexpr bool s9_trust_pointer = true;  // a pointer is read wherever it leads
#else
constexpr bool s9_trust_pointer = false;
#endif

#ifdef FARCACHED_BREAK_S9_OWNER
constexpr bool s9_ignore_owner = true;  // a dead node's memory is read as if it lived
#else
constexpr bool s9_ignore_owner = false;
#endif

#ifdef FARCACHED_BREAK_S10
constexpr bool s10_trust_lengths = true;  // lengths read from the region are not checked
#else
constexpr bool s10_trust_lengths = false;
#endif

#ifdef FARCACHED_BREAK_S10_POINTER
constexpr bool s10_accept_unchecked = true;  // an entry of the pointer table is taken without its check
#else
constexpr bool s10_accept_unchecked = false;
#endif

#ifdef FARCACHED_BREAK_S11
constexpr bool s11_forget_floor = true;  // flush_all leaves items readable without the lock
#else
constexpr bool s11_forget_floor = false;
#endif

#ifdef FARCACHED_BREAK_S12
constexpr bool s12_reuse_at_timeout = true;  // a landing buffer is free when its reader gave up
#else
constexpr bool s12_reuse_at_timeout = false;
#endif

#ifdef FARCACHED_BREAK_S13
constexpr bool s13_ignore_exptime = true;  // lock-free readers serve expired items
#else
constexpr bool s13_ignore_exptime = false;
#endif

}  // namespace farcached::broken
