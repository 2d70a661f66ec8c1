// SPDX-License-Identifier: BSD-3-Clause
// The shared state of the consistency load's threads, and the work of one thread.
//
// C1  A key `s<n>` has one writer: thread n modulo threads. Every mutation takes the next sequence number
//     before it is sent (`issued`) and publishes it once it is answered (`acknowledged`). A GET sent after
//     that may miss (evictions), but returns no older value. It also returns no value older than one that
//     any thread has seen.
// C2  Once a flush_all is answered, no GET returns a value acknowledged before the flush_all was sent. A
//     delete by prefix does the same for the keys that begin so.
// C3  A key `t<n>` is stored with a short time to live, or gets one by a touch of its writer, and is not seen long after it.
// C4  Counters are shared: no two increments ever return the same number (bases never repeat).
// C5  Keys `h<n>` are written by several threads at once; their histories are recorded and must be
//     linearizable (consistency_history.h).
// C6  Where nodes fail (Options::outages) a change may be answered as unavailable. Its outcome is then unknown: a
//     *doubt*. It may take effect at any later time, or never. Its value may be seen from then on, whichever values were
//     acknowledged since; no other older value may. A miss then proves nothing: the request may not have reached the node.
// C7  Where failover is on (Options::failover) a key has several nodes. Older values may be seen: they are counted, but
//     are no fault. Torn, foreign and expired bytes are faults. (A touch may have reached one node alone.)
// C8  The shares of a thread's operations are a mix (consistency_mix.h); the checks do not depend on it.
// C9  Where values are on a disk (Options::disk) append and prepend are refused for them, and change nothing.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "t/load/consistency_client.h"
#include "t/load/consistency_history.h"
#include "t/load/consistency_mix.h"
#include "t/load/consistency_value.h"

namespace consistency {

constexpr uint32_t round_least = 250;

struct Options {
    std::vector<uint16_t> ports;  // of proxies of the same cache; threads take turns
    uint64_t seed = 1;
    uint32_t threads = 16;
    uint32_t seconds = 5;
    uint32_t keys = 2000;
    uint32_t ttl_keys = 4;  // of each thread: keys with a time to live
    uint32_t value_bytes_max = 200'000;
    uint32_t reads = 0;     // more, behind each mixed operation
    uint32_t round = round_least;  // mixed operations of a thread between two looks at the histories, as time allows
    uint32_t rest = 0;  // after each round all threads rest so many times as long as it took
    uint64_t mutations_min = 0;
    uint64_t operations_min = 0;
    std::vector<std::string> admins;  // of the same proxies: sockets of operators; empty: nothing is deleted by prefix
    const Mix* mix = &mixes[0];
    bool outages = false;
    bool failover = false;
    bool disk = false;
};

enum class Fault : uint8_t { torn, stale, history, counter, expired, reply, count };

// Counted by kind, and the first few printed in full.
class Faults {
  public:
    explicit Faults(bool failover) : failover_(failover) {}
    void add(Fault kind, const std::string& what);
    bool forgiven(Fault kind) const {
        return failover_ && (kind == Fault::stale || kind == Fault::history || kind == Fault::counter);
    }
    uint64_t of(Fault kind) const { return counts_[size_t(kind)].load(); }
    bool any() const {
        for (size_t kind = 0; kind < size_t(Fault::count); kind++)
            if (of(Fault(kind)) != 0 && !forgiven(Fault(kind))) return true;
        return false;
    }

  private:
    const bool failover_;
    std::array<std::atomic<uint64_t>, size_t(Fault::count)> counts_{};
    std::mutex lock_;
    uint32_t told_ = 0;
};

struct KeyState {
    std::atomic<uint64_t> issued{0};
    std::atomic<uint64_t> known{0};    // the newest that was acknowledged or seen
    std::atomic<uint64_t> flushed{0};  // known when a flush_all was sent that is answered now
    std::atomic<uint64_t> empty{0};    // the newest mutation that stored no bytes at all

    // By a touch: `touched` is not seen after `gone_at_ms`. The time is stored first, and looked at last.
    std::atomic<uint64_t> touched{0};
    std::atomic<int64_t> gone_at_ms{0};

    // The oldest that a GET sent from now on may return.
    uint64_t floor() const { return std::max(known.load(), flushed.load() + 1); }
};

inline void raise_to(std::atomic<uint64_t>& cell, uint64_t value) {
    uint64_t now = cell.load();
    while (now < value && !cell.compare_exchange_weak(now, value)) {
    }
}

constexpr uint32_t counters_count = 8;
constexpr uint32_t history_key_first = 1'000'000;
constexpr uint32_t history_group = 4;  // threads that share
constexpr uint32_t history_keys_per_group = 2;
constexpr uint32_t history_operations = 24;  // per thread and round

int64_t now_ms();

struct Shared {
    explicit Shared(const Options& o)
        : options(o),
          single_keys(o.keys),
          all_keys(o.keys + (o.mix->share(Step::ttl) == 0 ? 0 : o.threads * o.ttl_keys)),
          faults(o.failover),
          keys(all_keys) {}

    // Remembers a doubt. Sequence 0: a value without bytes.
    void doubt(uint32_t key, uint64_t sequence);
    bool doubted(uint32_t key, uint64_t sequence);

    // A check failed, or the time is up.
    bool over() const { return stop || faults.any(); }

    const Options options;
    const int64_t end_ms = now_ms() + int64_t(options.seconds) * 1000;
    const uint32_t single_keys;
    const uint32_t all_keys;  // the ones with a time to live come last
    Faults faults;
    std::vector<KeyState> keys;
    std::atomic<uint64_t> ticket{1};
    std::atomic<uint64_t> gets{0}, hits{0}, mutations{0}, unavailable{0}, prefix_deletes{0};
    std::atomic<uint64_t> doubts_seen{0};  // values of unknown outcome that a get returned after newer ones
    std::atomic<bool> stop{false};

    std::mutex lock;  // of what follows
    std::array<std::unordered_set<uint64_t>, counters_count> counted;
    std::map<uint32_t, std::vector<Operation>> histories;  // of this round, by key
    std::vector<std::pair<std::string, Operation>> flushes;  // of the keys that begin so
    std::unordered_set<uint64_t> observed;                 // records that gets of this round returned
    std::set<std::pair<uint32_t, uint64_t>> doubts;        // key, sequence
};

std::string key_name(const Shared& shared, uint32_t key);

class Worker {
  public:
    Worker(Shared& shared, uint32_t index);  // shared outlives this

    void round(uint32_t number);

  private:
    // The state of a key that its writer knows.
    struct Own {
        bool may_exist = false;
        uint32_t records = 0;
        uint64_t newest_record = 0;
    };

    Step any_step();
    void mixed_operation();
    // Each takes the sequence number, carries the mutation out and acknowledges it, or doubts it.
    void write_one(Step step, uint32_t key);
    void store(uint32_t key, Own& own, uint64_t sequence);
    void add_to(uint32_t key, Own& own, uint64_t sequence);
    void store_by_cas(uint32_t key, Own& own, uint64_t sequence);
    void store_gone(uint32_t key, Own& own, uint64_t sequence);
    void remove(uint32_t key, Own& own, uint64_t sequence);
    void touch(uint32_t key, const Own& own);
    // Counts an answer of unknown outcome; true: it is one.
    bool unknown(Answer answer);
    bool settle(Answer answer, uint32_t key, uint64_t sequence, bool empty = false);
    // May it be found although its writer knows that it is gone?
    bool is_doubted(uint32_t key) const { return doubted_.contains(key) || shared_.options.failover; }
    uint32_t own_ttl_key();
    void store_with_ttl();
    void shorten();
    void read_one();
    void read_and_touch();
    void read_many();
    void count();
    void flush(const std::string& prefix);
    std::string some_prefix();
    // The known state of a key before a GET of it is sent.
    struct Before {
        int64_t started_ms;
        uint64_t floor, touched;
        int64_t gone_at_ms;
    };
    Before before(uint32_t key) const;
    Found checked_get(uint32_t key, std::optional<uint32_t> exptime = std::nullopt);
    void check(uint32_t key, const Before& before, const Found& found);
    void check_chain(uint32_t key, uint64_t floor, const Chain& chain);
    void check_end(uint32_t key, const Before& before, const Chain& chain);
    void history_operation(uint32_t key);
    Answer history_change(Operation& op, uint32_t key, uint64_t what, const std::string& value);
    void record_history(uint32_t key, Operation op, Answer answer);

    uint32_t any_key();
    uint32_t own_key();
    Wire any_wire() { return Wire(random_.below(3)); }
    uint64_t any_size();
    uint64_t issue(uint32_t key) { return shared_.keys[key].issued.fetch_add(1) + 1; }
    void acknowledge(uint32_t key, uint64_t sequence) {
        raise_to(shared_.keys[key].known, sequence);
    }
    std::string record(uint32_t key, uint64_t sequence, uint64_t previous, int64_t gone_at_ms,
                       uint64_t bytes) const;

    struct Seen {
        uint64_t cas;
        uint64_t identity;
    };

    Shared& shared_;
    const uint32_t index_;
    Random random_;
    Client client_;
    std::map<uint32_t, Own> own_;
    std::unordered_set<uint32_t> doubted_;  // keys that a change of unknown outcome by this thread may still change
    std::map<uint32_t, Seen> seen_;  // history keys: the last gets
    uint64_t history_sequence_ = 0;
};

}  // namespace consistency
