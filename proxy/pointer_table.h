// SPDX-License-Identifier: BSD-3-Clause
// PointerTable: the remote pointers that all proxies of one user on one host share, so that an item that one
// of them has fetched can be READ by the others without asking the node.
//
// Owner: the process, which attaches once, after it has become the user it will be and after it last forked;
// its workers use the one object together. Every function but open() may be called by any thread at any time.
//
// T1  Nothing is locked and nobody waits. Entries are words, loaded and stored whole (pointer_table_layout.h);
//     one whose check does not match its words is no pointer. A process that is stopped or killed between any
//     two stores, or stopped there and resumed after others have used the entry, costs a miss.
// T2  What find() returns was put() whole by somebody, for that key hash and incarnation, and was valid at
//     `now`. It may be out of date, and another key may have that hash: the one who READs validates (S4), and
//     checks that the pointer lies inside its region before (S9, S10).
// T3  Times are nanoseconds of CLOCK_BOOTTIME in one time namespace of one boot, else open() refuses.
// T4  The object gets its name when it is complete, in one step. The program never resizes, empties or removes
//     a table: that is the operator's, as every refusal says. (No table of another boot is replaced either:
//     /dev/shm does not outlive a boot, so such a one was copied there, and taking its name from it would
//     race with another process doing the same, for a case that does not happen by itself.)
// T5  There is no address in it: offsets, hashes and numbers only.
// T6  A process has a number in it, and is known to be attached by the kernel's lock on a byte that goes by that number:
//     nobody waits for such a lock, and it ends with the process. After 65535 more have attached a number may come again.
// T7  Behind the entries are the report boards, which have rules of their own (report_board.h).
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
#include "fabric/remote_ptr.h"
#include "proxy/pointer_table_layout.h"
#include "proxy/report_board.h"

namespace farcached::proxy {

// Why a table cannot be used. The message beside it says which, what is wrong with it and what to do.
enum class TableRefusal : uint8_t {
    bad_name,      // not "/" and one file name
    bad_entries,   // the number asked for is no power of two, or too small or large
    wrong_owner,   // another user's
    wrong_mode,    // not 0600
    too_small,     // shorter than its header says
    not_a_table,   // other magic
    other_layout,  // another version of farcached made it
    corrupt,       // the header's check does not match, or its number of entries cannot be
    other_boot,    // lease ends in it are on another run of the kernel's clock
    other_clock,   // ... or on another time namespace's
    unsettled,     // its name appeared and vanished again and again
    system,        // a system call failed
};

struct TableFailure {
    TableRefusal reason;
    std::string message;  // one sentence or more, no newline
};

// Whose clock and which boot; what entries' times mean.
struct TableHost {
    uint64_t boot_id[2] = {0, 0};
    uint64_t clock_id = 0;  // inode of the time namespace; 0 where the kernel has none

    static std::variant<TableHost, TableFailure> of_this_process();
};

struct TableOptions {
    std::string name = "/farcached";  // POSIX shared-memory name
    uint64_t entries = UINT64_C(1)
                       << 20;  // if the table is made now; one that exists keeps its own
    uid_t owner = geteuid();   // whose it must be
    TableHost host;
    uint64_t seed = 0;  // random, not 0; used if the table is made now
};

// Where open() is while it makes a table; tests kill it there.
enum class TableStep : uint8_t { file_made, sized, header_written, named, overtaken };

// Tests are told before each load or store which one it is.
struct NoPause {
    void operator()(uint32_t) const {}
};

class PointerTable {
  public:
    using Opened = std::variant<std::unique_ptr<PointerTable>, TableFailure>;

    // Attaches to the table of that name, or makes it. Takes the memory of all entries at once, so that a full
    // /dev/shm is a refusal now and no SIGBUS later.
    static Opened open(const TableOptions& options);
    static Opened open(const TableOptions& options, FunctionRef<void(TableStep)> steps);

    ~PointerTable();
    PointerTable(const PointerTable&) = delete;
    PointerTable& operator=(const PointerTable&) = delete;

    bool created() const { return created_; }      // by this process, now
    uint64_t entries() const { return entries_; }  // may differ from what was asked for
    uint16_t filler() const { return filler_; }    // this process's number in it; 1 to 65535, goes round
    // Is a process of that number attached?
    bool attached(uint16_t filler) const;

    ReportBoards& boards() { return boards_; }
    // For one that has no other member of this process: numbers go round.
    BoardMember new_member() {
        return {filler_, uint16_t(1 + members_.fetch_add(1, std::memory_order_relaxed) % office_links_max)};
    }

    enum class Found : uint8_t { hit, miss, expired };
    struct Lookup {
        Found found = Found::miss;
        bool shared = false;       // a hit that another process filled
        uint64_t entry = 0;        // of a hit, for count_access()
        fabric::LeasedPtr leased;  // of a hit
    };
    // key_hash: the same for every process that may ask, so by the node's seed and not by one's own.
    // Writes nothing: an entry that many read stays in all their caches.
    template <class Pause = NoPause>
    Lookup find(uint64_t key_hash, uint64_t incarnation, uint64_t now_ns,
                Pause&& pause = Pause{}) const;

    enum class Put : uint8_t {
        stored,
        kept,     // the table has a newer generation for the key, or this one for at least as long
        refused,  // not well_formed(), or valid no longer
    };
    // Replaces the key's entry of that incarnation, else a free, expired or torn one of its set, else the one
    // whose lease ends first: terms grow with use, so that is also the one least used.
    template <class Pause = NoPause>
    Put put(uint64_t key_hash, const fabric::LeasedPtr& leased, uint64_t now_ns,
            Pause&& pause = Pause{});

    // The lease of that item, in the key's entry, runs until valid_until_ns now, if that is later. Where there is no
    // pointer to it, and be it one whose lease was over, there is none afterwards. True if there was.
    struct ItemPlace {
        uint64_t incarnation = 0, generation = 0, offset = 0;
        uint32_t region = 0;
    };
    bool extend(uint64_t key_hash, const ItemPlace& item, uint64_t valid_until_ns, uint64_t now_ns);

    // Forgets a pointer that failed validation. A newer one of the key stays. True if it was there.
    bool drop(uint64_t key_hash, uint64_t incarnation, uint64_t generation);
    // Forgets whatever pointer the key has: after a mutation whose reply brought none, it would only fail.
    bool forget(uint64_t key_hash, uint64_t incarnation);

    // Counts `n` uses of the entry that a find() returned. It is a locked instruction on a line that others
    // read, so a worker adds up a tick's uses of an entry where it can. If the entry has meanwhile gone to
    // another key, that key's use is overstated by n: the count is for statistics and nothing else.
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
    // Tells all whole entries among the `count` from number `first`, expired ones too. To walk the table
    // in pieces, between other work, call it with consecutive ranges.
    void walk(uint64_t first, uint64_t count, Visit visit) const;

    static constexpr std::array<uint32_t, 5> lease_left_bounds_s = {1, 4, 16, 64, 256};
    struct Occupancy {
        uint64_t entries = 0;
        uint64_t live = 0;
        uint64_t expired = 0;
        uint64_t torn = 0;  // includes those being written while they were looked at
        uint64_t free = 0;
        uint64_t own = 0;       // of the live, filled by this process
        uint64_t accesses = 0;  // of whole entries
        // Live entries by the lease left: [i] less than lease_left_bounds_s[i] seconds; the last, more.
        std::array<uint64_t, lease_left_bounds_s.size() + 1> lease_left{};
    };
    // Adds the entries of a range to `sum`. A million take 25 ms, as a walk does: not in one piece
    // in a worker's thread.
    void add_occupancy(uint64_t first, uint64_t count, uint64_t now_ns, Occupancy& sum) const;

  private:
    // fd: the object's; closed in the end.
    PointerTable(int fd, void* mapping, uint64_t entries, uint64_t seed, bool created);

    TableHeader* header() const { return static_cast<TableHeader*>(mapping_); }
    uint64_t* at(uint64_t entry) const {
        char* start = static_cast<char*>(mapping_) + table_entries_offset;
        return reinterpret_cast<uint64_t*>(start) + entry * entry_words;
    }
    bool drop_if(uint64_t key_hash, uint64_t incarnation, std::optional<uint64_t> generation);
    // Is the key's entry newer than `leased`, or the same for at least as long? Generations of a key only grow.
    bool serves_as_well(const EntryCopy& copy, const fabric::LeasedPtr& leased,
                        uint64_t now_ns) const;
    // What it would cost to lose an entry: the one worth least is replaced.
    uint64_t worth(const EntryCopy& copy, uint64_t now_ns) const;

    int fd_;
    void* mapping_;
    uint64_t entries_;  // private copies of what the header said when it was checked
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
                Found::expired;  // unless two wrote it at once, and the other one's is live
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
    NoPause unwatched;
    for (uint32_t n = 0; n < set_ways && !same_key; n++) {
        const EntryCopy copy = load_entry(at(set.way(n)), unwatched);
        same_key =
            copy[word_key_hash] == key_hash && copy[word_incarnation] == leased.ptr.incarnation;
        if (same_key && serves_as_well(copy, leased, now_ns)) return Put::kept;
        const uint64_t cost = worth(copy, now_ns);
        if (!same_key && cost >= worth_least) continue;
        target = set.way(n);
        worth_least = cost;
    }
    // Two who put one key at once may each take an entry of its set. find() returns the nearer one; the other
    // is found only after that is gone, and then its lease ends, or it fails validation and is dropped.
    store_entry(at(target), pack_entry(key_hash, leased, filler_, seed_), !same_key, pause);
    return Put::stored;
}

}  // namespace farcached::proxy
