// SPDX-License-Identifier: BSD-3-Clause
// Deliberate faults for t/'s own build of libraries and programs (FARCACHED_FAULTY; t/faulty/faulty.cc), of two kinds. A switch
// breaks one safety rule (ARCHITECTURE.md), so that t/ can show that its checkers detect it; FARCACHED_BREAK names it. A
// fault point makes something happen that any program must stand: FARCACHED_FAULTS sets those of the table below. Both are
// read once. In every installed program they are constants, and nothing happens.
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

// The likelihoods are from 0 to 1. Those of reads, sends, receipts and ends are the connections' (fabric/fault_channel.h).
// type, name, value otherwise, what it does
#define FAULT_POINTS(X)                                                                                     \
    X(uint64_t, seed, 1, "seed of connections' faults; each connection draws another from it")              \
    X(double, delay_read, 0, "likelihood that a read completes later than it could")                        \
    X(double, fail_read, 0, "likelihood that a read fails, with garbage where it lands")                    \
    X(double, tear_read, 0, "likelihood that a read of a mapped region is torn between lines")              \
    X(double, tear_words, 0, "likelihood that it is torn between words")                                    \
    X(double, shuffle_read, 0, "likelihood that a read is reported after others that are due")              \
    X(double, delay_send, 0, "likelihood that flushed bytes leave later, with those flushed then")          \
    X(double, delay_receive, 0, "likelihood that input is shown later, with what arrives until then")       \
    X(double, split_receive, 0, "likelihood that input is shown in parts")                                  \
    X(double, delay_end, 0, "likelihood that the end of the other side is reported later")                  \
    X(double, delay_ms_min, 0, "the shortest of these delays")                                              \
    X(double, delay_ms, 2, "the longest; each is drawn evenly between the two")                             \
    X(uint64_t, fail_read_number, 0, "this read of each connection fails, counted from 1; 0: none")         \
    X(uint64_t, drop_at_step, 0, "each connection is reset at this step; 0: never")                         \
    X(double, probing, 0, "likelihood of a hold-up of a lock-free reader, between its loads")               \
    X(double, reading, 0, "likelihood of a hold-up in the middle of its copy")                              \
    X(double, replacing, 0, "likelihood of a hold-up before and after the flip of the old guard")           \
    X(double, lying, 0, "likelihood that an item's length is a lie before it is replaced")                  \
    X(uint32_t, hold_up_us, 100, "the longest hold-up or lie, 1 to 999999")                                 \
    X(uint32_t, tag_mask, UINT32_MAX, "bits of an index slot's tag in use; fewer make keys collide")        \
    X(bool, sweeps, true, "a farnode frees expired items")                                                  \
    X(bool, fetch_always, false, "a proxy READs replies from a node's slots, however slow the node is")     \
    X(uint32_t, speaks, UINT32_MAX, "highest frame version: the process acts like a build of that version") \
    X(bool, take_back, false, "SIGUSR2 takes registered memory back from who reads it")                     \
    X(double, fail_disk_write, 0, "likelihood that a write to the disk store fails")                        \
    X(double, fail_disk_read, 0, "likelihood that a read from the disk store fails")                        \
    X(double, slow_disk, 0, "likelihood of a hold-up of a read or write of the disk store")                 \
    X(bool, stuck_disk, false, "a write to the disk store never ends")                                      \
    X(bool, failing, false, "requests for keys like fail:null end the process (t/faulty/faulty.cc)")        \
    X(bool, held_handshake, false, "each step of HandshakeThread waits for a SIGUSR2")                      \
    X(bool, held_copies, false, "a copy of a mapped item whose key begins with `held` waits for a SIGUSR2")

struct Faults {
#define X(type, name, otherwise, help) type name = otherwise;
    FAULT_POINTS(X)
#undef X
};

// Defined by t/faulty/faulty.cc.
bool chosen(std::string_view rule);  // is it the rule that this process breaks?
bool chosen_at_all();                // is FARCACHED_BREAK set, to a rule or to none?
Faults chosen_faults();
void hold_up_sometimes(double likely);
void lie_sometimes(uint32_t& length);
bool happens_sometimes(double likely);
void take_step();
void steps_left(uint64_t count);  // of this process, which the last of them kills; 0: any number
void fail_on(std::string_view key);  // fails if the key names a failure
void await_signal();
void on_take_back(std::function<void()> act);  // a separate thread calls `act` when lent memory is to be taken back

#ifdef FARCACHED_FAULTY
inline const Faults faults = chosen_faults();
#define BROKEN(rule, name) inline const bool name = chosen(rule);
#else
inline constexpr Faults faults{};
#define BROKEN(rule, name) constexpr bool name = false;
#endif

// Is a checker to catch a broken rule (t/faulty/broken_rules.py), rather than to pass?
inline bool must_catch() {
    if constexpr (build) return chosen_at_all();
    return false;
}
// A moment when a thread may be delayed, so that a window of nanoseconds lasts long enough to be hit.
inline void hold_up(double likely) {
    if constexpr (build) hold_up_sometimes(likely);
}
// Does the fault of that likelihood happen now?
inline bool happens([[maybe_unused]] double likely) {
    if constexpr (build) return happens_sometimes(likely);
    return false;
}
// A moment when a thread waits for a signal, so that t/ can act meanwhile.
inline void hold([[maybe_unused]] bool held) {
    if constexpr (build)
        if (held) await_signal();
}
// A moment when the process may be killed, so that t/ can kill it at each one of them (steps_left()).
inline void step() {
    if constexpr (build) take_step();
}
// Writes a far too long length into the item for a moment; only readers without the lock see it.
inline void lie(uint32_t& length) {
    if constexpr (build) lie_sometimes(length);
}
// Fails the whole program, to test its crash report.
inline void fail_if_named(std::string_view key) {
    if constexpr (build) fail_on(key);
}

BROKEN("S1", s1_overwrite_in_place)         // a set of equal size writes into the published item
BROKEN("S1_COMPOSE", s1_compose_in_slot)    // a new item is composed in the slot of the old one, from which it may copy
BROKEN("S1_RECEIVE", s1_receive_live)       // the value of a set is received into the live slot
BROKEN("S1_NO_DEAD", s1_keep_guard_live)    // an item is written in place without a dead guard
BROKEN("S1_REVIVE", s1_revive_first)        // a dead slot comes back to life before the live one of its key dies
BROKEN("S1_HASH", s1_remember_by_hash)      // a dead slot counts as a key's by its hash alone
BROKEN("S1_PINNED", s1_write_pinned)        // an item is written in place while a reply is sent from it
BROKEN("S2", s2_free_leased)                // a slot that dies under a lease is reused at once
BROKEN("S2_STALE", s2_stale_reclaim)        // a dead slot is free at the end of a lease of its previous death
BROKEN("S2_PINNED", s2_free_pinned)         // a slot that dies while a reply is sent from it is reused at once
BROKEN("S3_CLEAR", s3_clear_lease)          // an item written in place loses its lease end
BROKEN("S3", s3_count_from_reply)           // a lease is counted from its reply, not from the request that earned it
BROKEN("S4", s4_skip_key)                   // a matching tag counts as a matching key
BROKEN("S4_GUARD", s4_skip_guard)           // a read by pointer ignores the guard
BROKEN("S4_LEASE", s4_skip_lease)           // the end of the lease is not checked when a read has completed
BROKEN("S4_CHECK", s4_check_without_generation)    // an item's check does not depend on its generation
BROKEN("S4_GENERATION", s4_pointer_generation)     // a copy's check is verified with the pointer's generation, not the copy's
BROKEN("S4_SPILLED", s4_spilled_later)      // a spilled item's slot is read in a later generation, too
BROKEN("S4_DISK", s4_skip_disk_check)       // a record read from the disk is used without its check
BROKEN("S15", s15_ignore_subleases)         // a mutation is executed while proxies may READ the value on another node
BROKEN("S5", s5_skip_recheck)               // the reader checks no word again after the copy
BROKEN("S5_INDEX", s5_skip_check)           // an item found by another host's index is used without its check
BROKEN("S5_POINTER", s5_trust_shm_copy)     // an item read by pointer is used without its check, as if shared memory never tore
BROKEN("S6", s6_count_in_items)             // reads are counted in the bytes of the item itself
BROKEN("S7", s7_publish_before_flip)        // the new item is found before the old one is dead
BROKEN("S7_MARK", s7_ignore_mark)           // a value from elsewhere is stored though its key was mutated since
BROKEN("S7_TOUCHED", s7_ignore_touched)     // an item is brought from the former node though its key was mutated since
BROKEN("S7_SOURCE", s7_execute_first)       // a mutation is executed before the source of warm_from has deleted the key
BROKEN("S7_RESTART", s7_restart_dead)       // after a restart, items whose guard is dead return
BROKEN("S8", s8_lease_anywhere)             // every page is leasable
BROKEN("S9", s9_trust_pointer)              // a pointer is read wherever it leads
BROKEN("S9_OWNER", s9_ignore_owner)         // a dead node's memory is read as if it lived
BROKEN("S10", s10_trust_lengths)            // lengths read from the region are not checked
BROKEN("S10_POINTER", s10_accept_unchecked) // an entry of the pointer table is used without its check
BROKEN("S11", s11_forget_floor)             // flush_all leaves items readable without the lock
BROKEN("S11_LEASED", s11_spare_leased)      // a delete by prefix leaves guards of leased items live
BROKEN("S11_LIST", s11_revive_unlisted)     // the page of a revived slot is missing from the list that a flush visits
BROKEN("S12", s12_reuse_at_timeout)         // a landing buffer is free when its reader times out
BROKEN("S12_SLOTS", s12_reuse_slots)        // a slot of a connection is written again before its message was taken
BROKEN("S13", s13_ignore_exptime)           // lock-free readers serve expired items
BROKEN("S13_POINTER", s13_pointers_never_expire)  // reads by pointer take items whose exptime has passed
BROKEN("S16", s16_accept_any_proof)         // any proof by a known key's name is accepted
BROKEN("S16_EARLY", s16_welcome_unproved)   // a hello is welcomed without a proof
BROKEN("S16_NODE", s16_trust_any_node)      // a node's welcome is used without its proof
BROKEN("S17", s17_read_without_right)       // memory is read after the end of the node's serving right
BROKEN("S17_LATE", s17_skip_later_look)     // the right is checked before a copy of mapped memory, and not after it
BROKEN("S17_EPOCH", s17_take_old_epoch)     // a node executes requests of a list of nodes that is older than another's
BROKEN("S17_UNSENT", s17_take_unsent)       // a strict node executes requests by a list older than those of other nodes
BROKEN("S17_STOP", s17_keep_items)          // a node that is stopped leaves its items to readers whose right still runs
BROKEN("S17_FIRST", s17_skip_first_list)    // a farcached that starts sends its list to no node
BROKEN("S19", s19_skip_fence)               // a node that is back is used without its fence
BROKEN("S19_MOVED", s19_keep_moved)         // a changed list of nodes leaves items of keys that it gives to other nodes
BROKEN("S19_ADDRESS", s19_skip_check)       // another process at a node's new address keeps its items
BROKEN("S19_EARLY", s19_move_early)         // a moved key is used at its new node before the former one has deleted it
BROKEN("S20", s20_keep_copy)                // a mutation is sent to the primary node while the other one keeps its copy
BROKEN("S20_ORDER", s20_end_any)            // a copy is stored although another mutation of the key was under way
BROKEN("S20_UNIQUES", s20_forget_clock)     // a node issues uniques that the former first node of the keys may have issued
BROKEN("S18", s18_ignore_versions)          // peers of an older version read one-sided

#undef BROKEN

}  // namespace farcached::broken
