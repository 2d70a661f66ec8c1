// SPDX-License-Identifier: BSD-3-Clause
// PointerTable: the remote pointers that all proxies of one user on one host share. An item fetched by one proxy can be
// READ by the others without a request to the node.
//
// Owner: the process. It attaches once, after it took its final user id and after its last fork; its workers share the
// one object. Any thread may call every function but open() at any time.
//
// T1  The table uses no locks and no thread waits. Entries are words, loaded and stored whole (pointer_table_layout.h);
//     an entry whose check does not match its words is not a pointer. A process stopped or killed between any two
//     stores costs a miss, even if it resumes after other processes used the entry.
// T2  find() returns a pointer that a process put() whole, or merged from pointers to one place (T7). It is for that
//     key hash and incarnation, and was valid at `now`. It may be stale, and another key may have that hash. So the
//     reader checks before its READ that the pointer lies inside its region, and validates after it (S4, S9, S10).
// T3  Times are nanoseconds of CLOCK_BOOTTIME in one time namespace of one boot; open() refuses other tables.
// T4  The object gets its name in one step, when it is complete. The program never resizes, empties or removes a table;
//     every refusal names the step that the operator takes. This holds for a table of another boot, too. /dev/shm does
//     not outlive a boot, so such a table was copied there, and replacing it would race with other processes.
// T5  The table has no addresses: offsets, hashes and numbers only.
// T6  Each process has a number in the table. It is attached while it holds the kernel's lock on a byte at that number.
//     No process waits for such a lock, and it ends with its process. A number may repeat after 65535 more attached.
// T7  A slot stays with its key while it is leased (S1), so pointers to one place are merged. The entry keeps the
//     latest generation, the greatest length and the latest lease end. Of two places of one key, the entry keeps the
//     one with the later generation.
// T8  The report boards lie behind the entries and have their own rules (report_board.h).
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/function_ref.h"
#include "base/prefetch.h"
#include "fabric/remote_ptr.h"
#include "proxy/pointer_table_layout.h"
#include "proxy/report_board.h"

namespace farcached::proxy {

// Why a table cannot be used. The message beside it names the table, the fault and the remedy.
enum class TableRefusal : uint8_t {
    bad_name,      // not "/" and one file name
    bad_entries,   // the configured number is not a power of two, or too small or large
    wrong_owner,   // owned by another user
    wrong_mode,    // mode is not 0600
    too_small,     // shorter than its header requires
    not_a_table,   // wrong magic
    other_layout,  // made by another version of farcached
    corrupt,       // the header's check does not match, or its number of entries is impossible
    other_boot,    // lease ends are on the clock of another boot
    other_clock,   // ... or of another time namespace
    unsettled,     // its name appeared and vanished repeatedly
    system,        // a system call failed
};

struct TableFailure {
    TableRefusal reason;
    std::string message;  // one sentence or more, no newline
};

// The boot and the clock that entries' times refer to.
struct TableHost {
    uint64_t boot_id[2] = {0, 0};
    uint64_t clock_id = 0;  // inode of the time namespace; 0 if the kernel has none

    static std::variant<TableHost, TableFailure> of_this_process();
};

struct TableOptions {
    std::string name;  // POSIX shared-memory name
    uint64_t entries = UINT64_C(1)
                       << 20;  // for a new table; an existing one keeps its own
    uid_t owner = geteuid();   // the required owner
    TableHost host;
    uint64_t seed = 0;  // for a new table: random, not 0
};

// Expands a configured name: each "%U" becomes the user id, so that each user has a table.
std::string table_name(std::string configured, uid_t user);

// Progress of open() while it makes a table; tests kill it there.
enum class TableStep : uint8_t { file_made, sized, header_written, named, overtaken };

// Tests pass a callable that gets the number of each load or store before it happens.
struct NoPause {
    void operator()(uint32_t) const {}
};

class PointerTable {
  public:
    using Opened = std::variant<std::unique_ptr<PointerTable>, TableFailure>;

    // Attaches to the table of that name, or makes it. Takes the memory of all entries at once, so that a full /dev/shm
    // causes a refusal now and no SIGBUS later.
    static Opened open(const TableOptions& options);
    static Opened open(const TableOptions& options, FunctionRef<void(TableStep)> steps);

    ~PointerTable();
    PointerTable(const PointerTable&) = delete;
    PointerTable& operator=(const PointerTable&) = delete;

    bool created() const { return created_; }      // by this process, in this open()
    uint64_t entries() const { return entries_; }  // may differ from the options
    uint16_t filler() const { return filler_; }    // this process's number in the table; 1 to 65535, wraps
    // Is a process of that number attached?
    bool attached(uint16_t filler) const;

    ReportBoards& boards() { return boards_; }
    // A member number that no other link of this process uses; numbers wrap.
    BoardMember new_member() {
        return {filler_, uint16_t(1 + members_.fetch_add(1, std::memory_order_relaxed) % leader_links_max)};
    }

    enum class Found : uint8_t { hit, miss, expired };
    struct Lookup {
        Found found = Found::miss;
        bool shared = false;       // a hit that another process stored
        uint64_t entry = 0;        // on a hit, for count_access()
        fabric::LeasedPtr leased;  // on a hit
    };
    // key_hash: the same for all processes, so under the node's seed. Writes nothing, so that a popular entry stays in
    // all readers' caches.
    template <class Pause = NoPause>
    Lookup find(uint64_t key_hash, uint64_t incarnation, uint64_t now_ns,
                Pause&& pause = Pause{}) const;
    void prefetch(uint64_t key_hash) const { farcached::prefetch(at(set_of(key_hash, entries_).way(0))); }
    // Before a find() or put() of that key: prefetches the line of its home, where most keys are found.

    enum class Put : uint8_t {
        stored,
        kept,     // nothing to merge, or the entry has a later generation of the key at another place
        refused,  // not well_formed(), or its lease ended
    };
    // Updates the key's entry of that incarnation (T7). Otherwise replaces a free, expired or torn entry of its set, or
    // else the entry whose lease ends first. Terms grow with use, so that is also the least used one.
    template <class Pause = NoPause>
    Put put(uint64_t key_hash, const fabric::LeasedPtr& leased, uint64_t now_ns,
            Pause&& pause = Pause{});

    // Extends the lease of the key's pointer to that place until valid_until_ns, for any generation and even if the
    // lease ended. False: there is no such pointer, or its lease ends no earlier.
    struct Place {
        uint64_t incarnation = 0, offset = 0;
        uint32_t region = 0;
    };
    bool extend(uint64_t key_hash, const Place& place, uint64_t valid_until_ns, uint64_t now_ns);
    // Lease end of that pointer, past or future; 0: no such pointer.
    uint64_t valid_until_ns(uint64_t key_hash, const Place& place) const;

    // Drops a pointer that failed validation. A pointer of the key to another place or of another generation stays.
    // True: it was there.
    bool drop(uint64_t key_hash, const fabric::RemotePtr& ptr);
    // Drops the key's pointer: its item moved, or its lease is not renewed.
    bool forget(uint64_t key_hash, uint64_t incarnation);

    // Adds `n` uses to the entry that a find() returned. This is a locked instruction on a line that other threads
    // read, so a worker sums up a tick's uses first. If the entry changed to another key, that key's count is too high
    // by n; the count is for statistics only.
    void count_access(uint64_t entry, uint64_t n) {
        __atomic_fetch_add(at(entry) + word_accesses, n, __ATOMIC_RELAXED);
    }

    struct Record {
        uint64_t key_hash = 0;
        fabric::LeasedPtr leased;
        uint16_t filler = 0;
        uint64_t accesses = 0;
    };
    using Visit = FunctionRef<void(const Record&)>;
    // Visits all whole entries among the `count` from number `first`, expired ones too. To walk the table in pieces,
    // call it with consecutive ranges.
    void walk(uint64_t first, uint64_t count, Visit visit) const;

    static constexpr std::array<uint32_t, 5> lease_left_bounds_s = {1, 4, 16, 64, 256};
    struct Occupancy {
        uint64_t entries = 0;
        uint64_t live = 0;
        uint64_t expired = 0;
        uint64_t torn = 0;  // includes entries being written at that time
        uint64_t free = 0;
        uint64_t own = 0;       // of the live, stored by this process
        uint64_t accesses = 0;  // of whole entries
        // Live entries by time left of the lease: [i] less than lease_left_bounds_s[i] seconds; the last, more.
        std::array<uint64_t, lease_left_bounds_s.size() + 1> lease_left{};
    };
    // Adds the entries of a range to `sum`. A million entries take 25 ms, as in a walk, so a worker calls it in pieces.
    void add_occupancy(uint64_t first, uint64_t count, uint64_t now_ns, Occupancy& sum) const;

  private:
    // Takes ownership of fd, the object's.
    PointerTable(int fd, void* mapping, uint64_t entries, uint64_t seed, bool created);

    TableHeader* header() const { return static_cast<TableHeader*>(mapping_); }
    uint64_t* at(uint64_t entry) const {
        char* start = static_cast<char*>(mapping_) + table_entries_offset;
        return reinterpret_cast<uint64_t*>(start) + entry * entry_words;
    }
    bool drop_if(uint64_t key_hash, uint64_t incarnation, const fabric::RemotePtr* only);
    // The key's new entry contents after a put of `told` (T7).
    fabric::LeasedPtr merged(const EntryCopy& copy, const fabric::LeasedPtr& told, uint64_t now_ns) const;
    std::optional<fabric::LeasedPtr> pointer_to(uint64_t key_hash, const Place& place) const;
    // The cost of losing an entry: the entry of least worth is replaced.
    uint64_t worth(const EntryCopy& copy, uint64_t now_ns) const;

    int fd_;
    void* mapping_;
    uint64_t entries_;  // private copies of the header's fields, as checked
    uint64_t seed_;
    uint16_t filler_ = 0;
    bool created_;
    ReportBoards boards_;
    std::atomic<uint32_t> members_{0};
};

template <class Pause>
PointerTable::Lookup PointerTable::find(uint64_t key_hash, uint64_t incarnation, uint64_t now_ns,
                                        Pause&& pause) const {
    Lookup result;
    const SetPlace set = set_of(key_hash, entries_);
    for (uint32_t n = 0; n < set_ways; n++) {
        const uint64_t number = set.way(n);
        if (words::load_relaxed(at(number) + word_key_hash) != key_hash) continue;
        const EntryCopy copy = load_entry(at(number), pause);
        if (copy[word_key_hash] != key_hash) continue;
        if (copy[word_incarnation] != incarnation) continue;
        if (entry_state(copy, seed_) != EntryState::whole) continue;
        if (copy[word_valid_until] <= now_ns) {
            result.found =
                Found::expired;  // unless two processes wrote it at once, and the other entry is live
            continue;
        }
        result = {Found::hit, filler_of(copy) != filler_, number, unpack_entry(copy)};
        return result;
    }
    return result;
}

template <class Pause>
PointerTable::Put PointerTable::put(uint64_t key_hash, const fabric::LeasedPtr& leased,
                                    uint64_t now_ns, Pause&& pause) {
    if (!fabric::well_formed(leased.ptr)) return Put::refused;
    if (leased.valid_until_ns <= now_ns) return Put::refused;
    const SetPlace set = set_of(key_hash, entries_);
    uint64_t target = set.way(0);
    uint64_t worth_least = UINT64_MAX;
    bool same_key = false;
    fabric::LeasedPtr stored = leased;
    NoPause unwatched;
    for (uint32_t n = 0; n < set_ways && !same_key; n++) {
        const EntryCopy copy = load_entry(at(set.way(n)), unwatched);
        same_key =
            copy[word_key_hash] == key_hash && copy[word_incarnation] == leased.ptr.incarnation;
        if (same_key) {
            stored = merged(copy, leased, now_ns);
            if (entry_state(copy, seed_) == EntryState::whole && stored == unpack_entry(copy)) return Put::kept;
        }
        const uint64_t cost = worth(copy, now_ns);
        if (!same_key && cost >= worth_least) continue;
        target = set.way(n);
        worth_least = cost;
    }
    // Two processes that put one key at once may each take an entry of its set. find() returns the nearer one. The
    // other is found only after that is gone; then its lease ends, or it fails validation and is dropped.
    store_entry(at(target), pack_entry(key_hash, stored, filler_, seed_), !same_key, pause);
    return Put::stored;
}

}  // namespace farcached::proxy
