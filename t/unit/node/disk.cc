// SPDX-License-Identifier: BSD-3-Clause
// The store of values on a disk (node/disk/): what is read is what was put, at any size, after drops, with failing and slow disks,
// and from many threads. All of it by io_uring and by threads. t/unit/node/disk_files.cc has the files.
//
// In the faulty build, t/faulty/node_disk, the program runs itself with each of some faults (base/broken.h).
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/broken.h"
#include "base/sanitizers.h"
#include "t/lib/tap.h"
#include "t/unit/node/disk_fixture.h"

using namespace farcached;
using namespace farcached::node;
using namespace farcached::node::disk_tests;

namespace {

std::string way;  // "io_uring: " or "threads: "

void ok(bool good, const std::string& name) { tap::ok(good, way + name); }
template <class Got, class Want>
void is(const Got& got, const Want& want, const std::string& name) {
    tap::is(got, want, way + name);
}

// The tests of this file have 8 segments of 64 KiB and 4 buffers of 16 KiB.
void stored_and_read(bool ring) {
    Folder folder;
    const auto store = open(small(folder, ring));
    DiskReads reads(*store);
    if (ring != reads.through_io_uring()) tap::note("no io_uring here: threads read");
    std::vector<Place> places;
    for (uint64_t i = 0; i < 100; i++) places.push_back(put_surely(*store, i));
    bool all = true;
    for (uint64_t i = 0; i < 100; i++) all &= store->alive(places[i]) && reads_as(reads, places[i], i);
    ok(all, "records are read from buffers and file");
    ok(store->statistics().reads_from_buffers > 0, "some of them from a buffer");
    ok(store->flush(), "the buffers are written out");
    for (uint64_t i = 0; i < 100; i++) all &= reads_as(reads, places[i], i);
    ok(all, "the same from the file");
    const DiskStatistics now = store->statistics();
    is(now.objects_read, uint64_t{200}, "all reads are counted");
    is(now.objects_used, uint64_t{100}, "and all records");
    is(now.bytes_read, 2 * now.bytes_used, "and their bytes");
    ok(now.records_bad + now.records_gone + now.read_errors + now.io_queue == 0, "nothing is bad");

    const size_t most = store->record_bytes_max();
    const std::string large(most, 'l');
    ok(!store->put("k", large, 1), "a record that exceeds a buffer is dropped");
    ok(!store->put(large, "v", 1), "a key of that length, too");
    is(store->statistics().dropped_too_large, uint64_t{2}, "and counted");
    const auto whole = store->put("", large, 2), empty = store->put("", "", 3);
    ok(whole.has_value() && empty.has_value(), "the largest and the smallest record are stored");
    CHECK(store->flush());
    ok(read(reads, *whole)->value == large, "the largest one is read");
    ok(read(reads, *empty)->tag == 3, "the smallest one is read");
    for (const Place& wrong : {Place{}, Place{places[0].segment, places[0].offset, 0}, Place{places[0].segment, 0, 24},
                               Place{places[0].segment + 8, places[0].offset, places[0].bytes}, Place{1, 2, 3},
                               Place{places[0].segment, UINT32_MAX, UINT32_MAX},
                               Place{places[0].segment, places[0].offset + 1, places[0].bytes},
                               Place{places[0].segment, places[0].offset, places[0].bytes - 1}})
        all &= !read(reads, wrong).has_value();
    ok(all, "there is no record at another place");
}

void drops(bool ring) {
    Folder folder;
    const auto store = open(small(folder, ring));
    DiskReads reads(*store);
    std::vector<Place> places;
    for (uint64_t i = 0; i < 1500; i++) places.push_back(put_surely(*store, i));
    bool right = true;
    uint64_t alive = 0, first_alive = 0;
    for (uint64_t i = 0; i < places.size(); i++) {
        const bool lives = store->alive(places[i]);
        if (lives && alive++ == 0) first_alive = i;
        right &= lives ? reads_as(reads, places[i], i) : !read(reads, places[i]).has_value();
    }
    ok(right, "each record that is alive is read, and no other");
    ok(alive > 200 && alive + first_alive == places.size(), "the oldest ones were dropped");
    DiskStatistics now = store->statistics();
    is(now.objects_used, alive, "those alive are counted");
    is(now.objects_used + now.objects_evicted, now.objects_written, "and the others");
    is(now.page_evictions + now.pages_used, now.page_allocs, "and the segments");
    is(now.records_gone, places.size() - alive, "and the reads of dropped ones");

    // The records of the third segment are forgotten: it is the next one that is reused.
    std::vector<uint64_t> segments;
    for (const Place& place : places)
        if (store->alive(place) && (segments.empty() || segments.back() != place.segment)) segments.push_back(place.segment);
    CHECK(segments.size() >= 4);
    for (const Place& place : places)
        if (place.segment == segments[2]) store->forget(place);
    ok(!store->alive(Place{segments[2], 0, 0}), "a full segment whose records are forgotten is free");
    is(store->statistics().page_reclaims, uint64_t{1}, "and counted");
    const uint64_t evictions = store->statistics().page_evictions;
    std::vector<Place> more;
    for (uint64_t i = 0; more.empty() || more.back().segment == segments.back() || more.back().segment == more[0].segment; i++)
        more.push_back(put_surely(*store, i));
    is(store->statistics().page_evictions, evictions, "it is used before the oldest one is dropped");
    is(more.back().segment % 8, segments[2] % 8, "at its place in the file");
    for (const Place& place : places) store->forget(place);
    for (const Place& place : more) store->forget(place);
    now = store->statistics();
    is(now.objects_used + now.bytes_used, uint64_t{0}, "all records are forgotten");
    is(now.pages_used, uint64_t{1}, "the open segment stays");
}

void size_limits(bool ring) {
    Folder folder;
    DiskConfig config = small(folder, ring);
    config.depth = 4;
    const auto store = open(config);
    const Place place = put_surely(*store, 1);
    CHECK(store->flush());
    DiskReads reads(*store);
    uint32_t accepted = 0, told = 0;
    for (uint64_t i = 0; i < 10; i++) accepted += reads.get(place, i);
    is(accepted, 4u, "reads under way are bounded");
    is(reads.under_way(), 4u, "they are counted");
    is(store->statistics().io_queue, uint64_t{4}, "by the store, too");
    is(store->statistics().reads_refused, uint64_t{6}, "and the others");
    uint64_t cookies = 0;
    bool nested = false;
    while (told < 5)
        wait_and_take(reads, [&](uint64_t cookie, const DiskRecord* record) {
            told++;
            cookies |= 1 << cookie;
            CHECK(record != nullptr);
            CHECK(is_record(*record, 1));
            if (!std::exchange(nested, true)) CHECK(!reads.get(place, 9) || reads.under_way() == 4);
            if (told == 4) CHECK(reads.get(place, 5));
        });
    is(cookies, uint64_t{0b101111}, "each read is reported once");
    is(reads.under_way(), 0u, "none is left");

    config.path += "-large";
    config.buffer_bytes = config.segment_bytes = 12 << 20;
    config.bytes = 2 * config.segment_bytes;
    const auto huge = open(config);
    const std::string value(11 << 20, 'x');
    const auto at = huge->put("k", value, 1);
    CHECK(huge->flush());
    DiskReads few(*huge);
    ok(few.get(*at, 1) && !few.get(*at, 2), "the bytes of reads under way are bounded");
    for (uint32_t i = 0; i < 4; i++) (void)reads.get(place, i);  // the destructors wait for these
}

class WriteLimit {  // of the process: longer files are refused
  public:
    explicit WriteLimit(uint64_t bytes) {
        CHECK(getrlimit(RLIMIT_FSIZE, &before_) == 0);
        const rlimit now{bytes, before_.rlim_max};
        CHECK(setrlimit(RLIMIT_FSIZE, &now) == 0);
    }
    ~WriteLimit() { CHECK(setrlimit(RLIMIT_FSIZE, &before_) == 0); }

  private:
    rlimit before_{};
};

void failing_disk(bool ring) {
    Folder folder;
    DiskConfig config = small(folder, ring);
    std::mutex lock;
    std::vector<std::string> said;
    config.say = [&](const std::string& text) {
        const std::lock_guard held(lock);
        said.push_back(text);
    };
    const auto store = open(config);
    said.clear();
    DiskReads reads(*store);
    const Place before = put_surely(*store, 1);
    CHECK(store->flush());
    std::vector<std::pair<Place, uint64_t>> lost;
    uint64_t refused = 0;
    bool flushed = true;
    {
        const WriteLimit limit(disk_block_bytes);
        for (uint64_t i = 2; store->statistics().write_errors == 0; i++)
            if (const auto place = put(*store, i)) lost.emplace_back(*place, i);
        for (uint64_t i = 0; i < 10; i++) refused += !put(*store, i).has_value();
        flushed = store->flush();
    }
    settle(*store);
    ok(!flushed || store->statistics().buffers_waiting == 0, "flush() returns");
    ok(refused == 10, "after a failed write records are dropped");
    ok(store->statistics().dropped_by_fault >= 10, "and counted");
    ok(said.size() == 1 && said[0].find("a write failed") != std::string::npos, "one sentence is logged");
    uint64_t wrong = 0, missing = 0;
    for (const auto& [place, number] : lost) {
        const auto seen = read(reads, place);
        if (!seen)
            missing++;
        else
            wrong += !is_record({seen->key, seen->value, seen->tag}, number);
    }
    ok(wrong == 0 && missing > 0, "records of failed writes are not read");
    ok(reads_as(reads, before, 1), "earlier ones are");
    std::optional<Place> after;
    ok(wait_for([&] { return (after = put(*store, 77)).has_value(); }) && store->flush(), "later records are stored");
    ok(reads_as(reads, *after, 77), "and read");

    CHECK(truncate(config.path.c_str(), off_t(disk_block_bytes + 8)) == 0);
    ok(!read(reads, *after).has_value(), "a failed read finds nothing");
    is(store->statistics().read_errors, uint64_t{1}, "and is counted");
    ok(said.size() == 2 && said[1].find("a read failed") != std::string::npos, "another sentence is logged");
}

// Threads put, read, forget and verify at once, in so little space that segments are dropped during reads.
class Race {
  public:
    Race(bool ring, uint64_t steps) : steps_(steps) {
        DiskConfig config = small(folder_, ring, 3);
        config.depth = 8;
        store_ = open(config);
    }

    void run() {
        std::vector<std::thread> threads;
        for (uint32_t i = 0; i < 4; i++) threads.emplace_back([this, i] { work(i); });
        for (std::thread& one : threads) one.join();
        ok(wrong == 0, "no thread reads bytes that were not put there");
        ok(right > 0, "records are read");
        const DiskStatistics now = store_->statistics();
        ok(now.page_evictions > 10, "while segments are dropped");
        is(now.io_queue, uint64_t{0}, "no read is left");
        tap::note("%lu read, %lu not found, %lu puts dropped, %lu bad, %lu gone", right.load(), missing.load(),
                  dropped.load(), now.records_bad, now.records_gone);
    }

    std::atomic<uint64_t> right{0}, wrong{0}, missing{0}, dropped{0};

  private:
    struct Entry {
        std::mutex lock;
        Place place{};
        uint64_t number = 0;
    };

    bool enough() const { return right > 0 && store_->statistics().page_evictions > 10; }

    void work(uint32_t thread) {
        std::minstd_rand random(thread + 1);
        DiskReads reads(*store_);
        Place last{};
        const auto done = [this](uint64_t number, const DiskRecord* record) {
            (record == nullptr ? missing : is_record(*record, number) ? right : wrong)++;
        };
        for (uint64_t step = 0; step < steps_ || (!enough() && step < 100 * steps_); step++) {
            Entry& entry = entries_[random() % entries_.size()];
            Place place{};
            uint64_t number = 0;
            {
                const std::lock_guard held(entry.lock);
                place = entry.place;
                number = entry.number;
            }
            if (random() % 3 == 0) {
                number = (uint64_t{thread} << 32) + step;
                const auto now = put(*store_, number);
                dropped += !now.has_value();
                const std::lock_guard held(entry.lock);
                place = std::exchange(entry.place, now.value_or(Place{}));
                if (now) entry.number = number;
                if (random() % 4 == 0) store_->forget(place);
            } else if (place.segment != 0) {
                (void)reads.get(place, number);
                last = place;
            }
            if (random() % 4 == 0) reads.take(done);
        }
        while (reads.under_way() != 0) wait_and_take(reads, done);
        for (int i = 0; i < 8; i++) (void)reads.get(last, 0);  // the destructor waits
    }

    Folder folder_;
    const uint64_t steps_;
    std::unique_ptr<DiskStore> store_;
    std::array<Entry, 200> entries_;
};

constexpr uint64_t race_steps = has_tsan ? 5'000 : 20'000;

// ---- with faults -----------------------------------------------------------------------------------------

// A disk that takes its time for each buffer.
void slow_disk(bool ring) {
    Folder folder;
    const auto store = open(small(folder, ring, 100));
    DiskReads reads(*store);
    std::vector<std::pair<Place, uint64_t>> stored;
    for (uint64_t i = 0; i < 1000; i++)
        if (const auto place = put(*store, i)) stored.emplace_back(*place, i);
    const DiskStatistics now = store->statistics();
    ok(now.dropped_no_buffer > 0, "records that find no buffer are dropped");
    is(now.dropped_no_buffer + stored.size(), uint64_t{1000}, "and counted");
    bool all = true;
    for (const auto& [place, number] : stored) all &= reads_as(reads, place, number);
    ok(all, "the others are read, from buffers or the file");
}

void failing_reads(bool ring) {
    Folder folder;
    const auto store = open(small(folder, ring, 100));
    DiskReads reads(*store);
    uint64_t right = 0, missing = 0;
    for (uint64_t i = 0; i < 200; i++) {
        const Place place = put_surely(*store, i);
        CHECK(store->flush());
        const auto seen = read(reads, place);
        if (!seen)
            missing++;
        else
            right += is_record({seen->key, seen->value, seen->tag}, i);
    }
    ok(right > 0 && missing > 0 && right + missing == 200, "a read is right, or finds nothing");
    is(store->statistics().read_errors, missing, "those that failed are counted");
}

void race(bool ring) { Race(ring, race_steps / 4).run(); }

struct Case {
    const char* name;
    const char* faults;
    void (*run)(bool ring);
};
constexpr Case cases[] = {
    {"slow", "slow_disk=1,hold_up_us=20000", slow_disk},
    {"failing-reads", "fail_disk_read=0.5", failing_reads},
    {"race-slow", "slow_disk=0.3,hold_up_us=2000", race},
    {"race-failing", "fail_disk_read=0.1,slow_disk=0.1,hold_up_us=500", race},
};

void name_way(bool ring) { way = ring ? "io_uring: " : "threads: "; }

// The program once more for each, as its faults are chosen at its start.
[[maybe_unused]] void run_cases() {
    for (const Case& one : cases) {
        const pid_t child = fork();
        if (child == 0) {
            CHECK(setenv("FARCACHED_FAULTS", one.faults, 1) == 0);
            execl("/proc/self/exe", "node_disk", one.name, nullptr);
            _exit(127);
        }
        int status = -1;
        while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
        tap::ok(status == 0, std::string("with ") + one.faults);
    }
}

int run_case(std::string_view name) {
    std::fclose(stdout);  // the results are in the status
    CHECK(std::freopen("/dev/null", "w", stderr) != nullptr);
    for (const bool ring : {true, false})
        for (const Case& one : cases)
            if (name == one.name) one.run(ring);
    return tap::done();
}

// A rule that is broken must be noticed by the race.
int run_broken() {
    std::fflush(stdout);
    Folder folder;
    const auto store = open(small(folder, true, 2));
    DiskReads reads(*store);
    std::vector<Place> places;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < 400; i++) places.push_back(put_surely(*store, i));
    CHECK(store->flush());
    for (uint64_t i = 0; i < places.size(); i++) {  // each place, as if its segment were the one that lives there now
        Place place = places[i];
        for (const Place& last : places)
            if (last.segment % 2 == place.segment % 2) place.segment = last.segment;
        const auto seen = read(reads, place);
        wrong += seen.has_value() && !(place == places[i] && is_record({seen->key, seen->value, seen->tag}, i)) &&
                 std::ranges::find(places, place) == places.end();
    }
    for (uint64_t i = 0; i < 20; i++) {  // damage of the file
        const Place& place = places[places.size() - 1 - i];
        if (place.bytes < 200) continue;
        const int fd = ::open(folder.file().c_str(), O_RDWR | O_CLOEXEC);
        CHECK(pwrite(fd, "damaged", 7, off_t(disk_block_bytes + place.segment % 2 * 64 * kib + place.offset + 100)) == 7);
        ::close(fd);
        wrong += read(reads, place).has_value();
    }
    tap::ok(wrong > 0, "a record without a matching check is caught");
    return tap::done();
}

}  // namespace

int main(int count, char** words) {
    std::signal(SIGXFSZ, SIG_IGN);
    if (count > 1) return run_case(words[1]);
    if (broken::must_catch()) return run_broken();  // t/faulty/broken_rules.py
    if constexpr (broken::build) run_cases();
    for (const bool ring : {true, false}) {
        name_way(ring);
        stored_and_read(ring);
        drops(ring);
        size_limits(ring);
        failing_disk(ring);
        Race(ring, race_steps).run();
    }
    return tap::done();
}
