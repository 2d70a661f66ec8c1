// SPDX-License-Identifier: BSD-3-Clause
// T1 and S10: for any events between two stores of a writer, a lookup in the pointer table finds a whole pointer that
// was put, or a miss. Every interleaving of two writers; writers and readers stopped at every step; processes stopped
// and killed at every store; processes with threads that hammer a few entries. Built again with the check ignored
// (t/faulty/pointer_table_safety), each of those must find a violation.
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "base/broken.h"
#include "base/node_clock.h"
#include "t/unit/proxy/pointer_table_fixture.h"

using namespace table_test;

namespace {

struct Tally {
    int checks = 0;
    int violations = 0;
};

// Checks a lookup of a key: it finds nothing, or one of the pointers that were put for it.
void look(const PointerTable& table, uint64_t key, Tally& tally) {
    const PointerTable::Lookup seen = table.find(key, one_node, now);
    tally.checks++;
    if (seen.found == Found::hit && !is_derived(key, seen.leased)) tally.violations++;
}

void report(const Tally& tally, const char* name) {
    if (broken::must_catch()) {
        tap::ok(tally.violations > 0, std::string(name) + ": a broken check is caught");
        return;
    }
    tap::ok(tally.checks > 0, std::string(name) + ": something was looked at");
    tap::is(tally.violations, 0, name);
}

struct Pair {
    uint64_t key_a, generation_a, key_b, generation_b;
};

constexpr Pair pairs[] = {
    {key_of_set(3, 0), 1, key_of_set(3, 0), 2},  // a key and its next generation
    {key_of_set(3, 0), 2, key_of_set(3, 0), 1},
    {key_of_set(3, 0), 1, key_of_set(3, 1), 1},  // two keys in one entry
    {key_of_set(3, 0), 5, key_of_set(3, 1), 9},
};

// ---- every interleaving ----------------------------------------------------------------------------
// Two writers of eight stores each, made here in every order: C(16, 8) ways, looked at after every store.
class Interleaving {
  public:
    Interleaving(const PointerTable& table, uint64_t* entry, uint64_t seed, const Pair& pair, Tally& tally)
        : table_(table), entry_(entry), pair_(pair), tally_(tally),
          a_(proxy::pack_entry(pair.key_a, derived(pair.key_a, pair.generation_a), 1, seed)),
          b_(proxy::pack_entry(pair.key_b, derived(pair.key_b, pair.generation_b), 2, seed)) {}

    void run() { go_on(0, 0); }

  private:
    void go_on(uint32_t done_a, uint32_t done_b) {
        look(table_, pair_.key_a, tally_);
        if (pair_.key_b != pair_.key_a) look(table_, pair_.key_b, tally_);
        if (done_a < proxy::entry_words) step(a_[done_a], done_a, done_a + 1, done_b);
        if (done_b < proxy::entry_words) step(b_[done_b], done_b, done_a, done_b + 1);
    }
    void step(uint64_t word, uint32_t at, uint32_t done_a, uint32_t done_b) {
        const uint64_t before = words::load_relaxed(entry_ + at);
        words::store_relaxed(entry_ + at, word);
        go_on(done_a, done_b);
        words::store_relaxed(entry_ + at, before);
    }

    const PointerTable& table_;
    uint64_t* entry_;
    const Pair& pair_;
    Tally& tally_;
    EntryCopy a_, b_;
};

void every_interleaving() {
    Tally tally;
    for (const Pair& pair : pairs) {
        Name name;
        auto table = open(name);
        Raw raw(name);
        table->put(pair.key_a, derived(pair.key_a, 77), now);  // over a third pointer
        uint64_t* entry = raw.entry(table->find(pair.key_a, one_node, now).entry);
        Interleaving(*table, entry, raw.header().seed, pair, tally).run();
    }
    report(tally, "every interleaving of the stores of two writers");
}

// ---- stopped and resumed, in one process -----------------------------------------------------------
// Fills the set of key_of_set(3, n) but for one entry, so that all put()s below go for that.
void leave_one_entry(PointerTable& table) {
    for (uint64_t n = 10; n < 13; n++) {
        fabric::LeasedPtr leased = derived(key_of_set(3, n), 1);
        leased.valid_until_ns = now + 10'000 * second;
        table.put(key_of_set(3, n), leased, now);
    }
}

// put() stopped before its store number `stop`; false if it has none.
bool writer_stopped(const Pair& pair, uint32_t stop, Tally& tally) {
    Name name;
    auto a = open(name);
    auto b = open(name);
    leave_one_entry(*a);
    auto look_at_both = [&] {
        for (const PointerTable* table : {a.get(), b.get()}) {
            look(*table, pair.key_a, tally);
            look(*table, pair.key_b, tally);
        }
    };
    bool stopped = false;
    a->put(pair.key_a, derived(pair.key_a, pair.generation_a), now, [&](uint32_t step) {
        if (step != stop) return;
        stopped = true;
        look_at_both();
        b->put(pair.key_b, derived(pair.key_b, pair.generation_b), now);
        look_at_both();
        tally.violations += b->find(pair.key_b, one_node, now).found != Found::hit;
    });
    look_at_both();
    a->put(pair.key_a, derived(pair.key_a, 99), now);  // and the entry can be used again
    tally.violations += a->find(pair.key_a, one_node, now).leased != derived(pair.key_a, 99);
    look_at_both();
    return stopped;
}

// find() stopped before its load number `stop`.
bool reader_stopped(const Pair& pair, uint32_t stop, Tally& tally) {
    Name name;
    auto table = open(name);
    leave_one_entry(*table);
    table->put(pair.key_a, derived(pair.key_a, pair.generation_a), now);
    bool stopped = false;
    const PointerTable::Lookup seen = table->find(pair.key_a, one_node, now, [&](uint32_t step) {
        if (step != stop) return;
        stopped = true;
        table->drop(pair.key_a, derived(pair.key_a, pair.generation_a).ptr);
        table->put(pair.key_b, derived(pair.key_b, pair.generation_b), now);
    });
    tally.checks++;
    if (seen.found == Found::hit && !is_derived(pair.key_a, seen.leased)) tally.violations++;
    return stopped;
}

void stopped_and_resumed() {
    Tally writers, readers;
    for (const Pair& pair : pairs) {
        uint32_t stores = 0, loads = 0;
        while (writer_stopped(pair, stores, writers)) stores++;
        while (reader_stopped(pair, loads, readers)) loads++;
        if (stores != 8 && stores != 7) tap::bail_out("a put has seven stores, or eight over another key");
        if (loads != 8) tap::bail_out("a find has eight loads");
    }
    report(writers, "a writer stopped at each store, overtaken by another and resumed");
    report(readers, "a reader stopped at each load while the entry changes");
}

// ---- stopped and killed, in processes of their own -------------------------------------------------
void signalled(int signal_number, const Pair& pair, uint32_t stop, Tally& tally) {
    Name name;
    auto table = open(name);
    leave_one_entry(*table);
    table->put(pair.key_a, derived(pair.key_a, 0), now);
    std::fflush(stdout);
    const pid_t child = fork();
    if (child < 0) tap::bail_out("fork");
    if (child == 0) {
        table->put(pair.key_a, derived(pair.key_a, pair.generation_a), now, [&](uint32_t step) {
            if (step == stop) raise(signal_number);
        });
        _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, WUNTRACED) < 0) {}
    const bool as_told = signal_number == SIGKILL ? WIFSIGNALED(status) : WIFSTOPPED(status);
    if (!as_told) tap::bail_out("the child did not end as it should");
    look(*table, pair.key_a, tally);
    table->put(pair.key_b, derived(pair.key_b, pair.generation_b), now);
    look(*table, pair.key_b, tally);
    if (signal_number == SIGSTOP) {
        kill(child, SIGCONT);
        while (waitpid(child, &status, 0) < 0) {}
    }
    look(*table, pair.key_a, tally);
    look(*table, pair.key_b, tally);
    table->put(pair.key_a, derived(pair.key_a, 99), now);
    tally.violations += table->find(pair.key_a, one_node, now).leased != derived(pair.key_a, 99);
}

void processes_stopped_and_killed() {
    Tally killed, stopped;
    for (const Pair& pair : pairs) {
        for (uint32_t stop = 0; stop < 7; stop++) {
            signalled(SIGKILL, pair, stop, killed);
            signalled(SIGSTOP, pair, stop, stopped);
        }
    }
    report(killed, "a process killed at each store");
    report(stopped, "a process stopped at each store, overtaken and continued");
}

// ---- the hammer ------------------------------------------------------------------------------------
// Several processes with several threads put, find, drop, count and walk a few keys that share two sets. They yield the
// processor between stores and between loads; one process is killed on the way.
constexpr int hammer_processes = 3;
constexpr int hammer_threads = 3;
constexpr uint64_t hammer_keys = 12;
constexpr uint64_t deadline_s = 600;

struct Board {  // shared by the processes
    std::atomic<uint64_t> operations;
    std::atomic<uint64_t> hits;
    std::atomic<uint64_t> violations;
    std::atomic<uint64_t> victim_operations;
};

uint64_t hammer_key(uint64_t n) { return key_of_set(n % 2, n / 2); }

void check_hit(Board& board, const PointerTable::Lookup& seen, uint64_t key) {
    if (seen.found != Found::hit) return;
    board.hits.fetch_add(1, std::memory_order_relaxed);
    if (!is_derived(key, seen.leased)) board.violations.fetch_add(1, std::memory_order_relaxed);
}

void hammer_once(PointerTable& table, Board& board, uint64_t random, uint64_t step) {
    const uint64_t key = hammer_key(random % hammer_keys);
    const uint64_t choice = random >> 8 & 0xff;
    auto pause = [&](uint32_t n) {
        if ((random >> 16 & 7) == n) std::this_thread::yield();
    };
    if (choice < 110) {
        // Some of the entries in the way count as expired, or the newest would stay for ever.
        const fabric::LeasedPtr leased = derived(key, step);
        table.put(key, leased, choice < 55 ? now : leased.valid_until_ns - 1, pause);
    } else if (choice < 240) {
        const PointerTable::Lookup seen = table.find(key, one_node, now, pause);
        check_hit(board, seen, key);
        if (choice < 120) table.drop(key, seen.leased.ptr);
        if (choice > 200 && seen.found == Found::hit) table.count_access(seen.entry, 1);
    } else {
        auto check = [&](const PointerTable::Record& record) {
            if (!is_derived(record.key_hash, record.leased))
                board.violations.fetch_add(1, std::memory_order_relaxed);
        };
        table.walk(0, 8, check);
    }
}

// One process of the hammer. The victim goes on until it is killed.
int hammer(const Name& name, Board& board, uint64_t process, uint64_t operations, bool victim) {
    auto table = open(name);
    const uint64_t until_ns = boottime_ns() + deadline_s * second;
    std::atomic<int> late{0};
    std::vector<std::thread> threads;
    for (uint64_t thread = 0; thread < hammer_threads; thread++) {
        threads.emplace_back([&, thread] {
            uint64_t random = mix(process * 100 + thread);
            for (uint64_t n = 1; victim || n <= operations; n++) {
                random = mix(random);
                hammer_once(*table, board, random, n << 8 | process << 4 | thread);
                if (n % 256 != 0) continue;
                board.operations.fetch_add(256, std::memory_order_relaxed);
                if (victim) board.victim_operations.fetch_add(256, std::memory_order_relaxed);
                if (boottime_ns() <= until_ns) continue;
                late = 1;
                return;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    return late;
}

void hammering(uint64_t operations) {
    Name name;
    auto table = open(name);
    void* shared = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) tap::bail_out("mmap");
    Board& board = *new (shared) Board{};
    std::vector<pid_t> children;
    std::fflush(stdout);
    for (uint64_t process = 0; process <= hammer_processes; process++) {
        const pid_t child = fork();
        if (child < 0) tap::bail_out("fork");
        if (child == 0) _exit(hammer(name, board, process, operations, process == hammer_processes));
        children.push_back(child);
    }
    const pid_t victim = children.back();
    const uint64_t until_ns = boottime_ns() + deadline_s * second;
    while (board.victim_operations.load() < operations / 2 && boottime_ns() < until_ns)
        std::this_thread::yield();
    kill(victim, SIGKILL);
    int failed = 0;
    for (pid_t child : children) {
        int status = 0;
        while (waitpid(child, &status, 0) < 0) {}
        if (child == victim) failed += !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        else failed += !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    tap::is(failed, 0, "the hammer: all processes ended as they should");
    Tally tally{int(board.hits.load() > 0), int(board.violations.load())};
    tap::note("%llu operations, %llu hits, %llu violations", (unsigned long long)board.operations.load(),
              (unsigned long long)board.hits.load(), (unsigned long long)board.violations.load());
    report(tally, "processes and threads that hammer a few entries");

    uint64_t works = 0;
    for (uint64_t n = 0; n < hammer_keys; n++) {
        const fabric::LeasedPtr leased = derived(hammer_key(n), UINT64_C(1) << 60 | n);
        table->put(hammer_key(n), leased, now);
        works += table->find(hammer_key(n), one_node, now).leased == leased;
    }
    tap::is(works, hammer_keys, "after it every key can be put and found");
    munmap(shared, sizeof(Board));
}

}  // namespace

int main() {
    every_interleaving();
    stopped_and_resumed();
    processes_stopped_and_killed();
    const bool long_run = std::getenv("FARCACHED_TEST_LONG") != nullptr;
    hammering(long_run ? 4'000'000 : 60'000);
    return tap::done();
}
