// SPDX-License-Identifier: BSD-3-Clause
// Report boards: each access put on one is reported exactly once or counted as lost, although processes stop, die or
// interleave at any store. Also: the leader, the board of a node, and memory with arbitrary contents.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "proxy/report_board.h"
#include "t/unit/proxy/pointer_table_fixture.h"

using namespace table_test;
using proxy::BoardMember;
using proxy::ReportBoard;
using proxy::ReportBoards;
using protocol::ItemAccess;
using Leadership = ReportBoard::Leadership;

namespace {

constexpr uint64_t entries = 64;  // boards of 64 cells: eight sets
constexpr uint64_t seed = 0x5eed;

// Memory shared by processes.
class Memory {
  public:
    Memory() {
        at_ = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (at_ == MAP_FAILED) tap::bail_out("mmap");
    }
    ~Memory() { munmap(at_, bytes()); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    static size_t bytes() { return proxy::boards_bytes(entries); }
    ReportBoards boards() { return ReportBoards(at_, entries, seed); }
    ReportBoard board(uint64_t incarnation = one_node) {
        auto board = boards().of(incarnation, now);
        if (!board.has_value()) tap::bail_out("a board");
        return *board;
    }
    uint64_t* words() { return static_cast<uint64_t*>(at_); }

  private:
    void* at_;
};

// An item whose every field follows from its hash.
ItemAccess item_of(uint64_t hash, uint32_t count = 1) {
    return {hash, mix(hash + 1) % protocol::access_offset_max & ~UINT64_C(15), count,
            uint16_t(mix(hash + 2) % (protocol::access_region_max + 1)), uint16_t(mix(hash))};
}
bool is_item(const ItemAccess& record) {
    return record == item_of(record.hash, record.count);
}

// The items on the board, by hash; an unknown item is a failure.
struct Told {
    std::map<uint64_t, uint64_t> counts;
    uint64_t items = 0, accesses = 0, lost = 0;
    int strangers = 0;
};
Told take_all(ReportBoard& board, uint32_t items_max = UINT32_MAX, uint32_t cursor = 0) {
    Told told;
    const ReportBoard::Taken taken = board.take(items_max, cursor, [&](const ItemAccess& record) {
        told.counts[record.hash] += record.count;
        told.accesses += record.count;
        told.strangers += !is_item(record);
    });
    told.items = taken.items;
    told.lost = taken.lost;
    return told;
}

void shape() {
    tap::is(sizeof(proxy::BoardHeader), size_t{64}, "a header is a cache line");
    tap::is(proxy::board_cells(1 << 20), 4096u, "a table of a million entries has boards of 4096 cells");
    tap::is(proxy::boards_bytes(1 << 20), uint64_t{3 << 20} + 32 * 64, "which take 3 MiB and their headers");
    Memory memory;
    ReportBoard board = memory.board();
    const ItemAccess item{0x40 + 5, 0xbbbbbbbbb0, 7, 0xc, 0xdddd};
    board.put(item);
    const uint64_t* const cells = memory.words() + proxy::boards_max * 8;
    const uint64_t number = one_node % proxy::boards_max;
    const uint64_t tag = proxy::cell_tag({item.hash, UINT64_C(0x000c00bbbbbbbbb0)}, one_node, seed);
    const uint64_t* cell = cells + (number * 64 + 5 * 8 + tag % 8) * 3;
    tap::is(memory.words()[number * 8], one_node, "a board is at home by its incarnation");
    tap::is(cell[0], item.hash, "word 0: key hash; in the set of its low bits");
    tap::is(cell[1], UINT64_C(0x000c00bbbbbbbbb0), "word 1: region:16, offset:48");
    tap::is(cell[2], tag << 40 | UINT64_C(0xdddd000007), "word 2: tag:24, generation:16, count:24");
}

void put_and_take() {
    Memory memory;
    ReportBoard board = memory.board();
    tap::ok(!board.waiting(), "nothing waits at first");
    tap::is(board.put(item_of(1, 3)).accepted, 3u, "an item is put");
    tap::ok(!board.put(item_of(2, 4)).merged, "another is another");
    const ReportBoard::Put again = memory.board().put(item_of(1, 5));
    tap::ok(again.accepted == 5 && again.merged, "the same one is put together with what is there");
    const uint64_t number = board.announce();
    tap::ok(board.waiting() && board.waiting(number) && !board.waiting(number - 1), "and waits");
    Told told = take_all(board);
    tap::ok(told.counts == std::map<uint64_t, uint64_t>{{1, 8}, {2, 4}} && told.lost == 0, "all is reported, added up");
    tap::is(told.strangers, 0, "as it was put");
    tap::ok(!board.waiting() && !board.waiting(number), "nothing waits then");
    tap::is(take_all(board).items, 0u, "nothing is reported twice");

    board.put(item_of(1, (1 << 24) - 2));
    tap::is(board.put(item_of(1, 5)).accepted, 1u, "a count goes to 2^24 - 1, the rest is not accepted");
    tap::is(board.put(item_of(1, UINT32_MAX)).accepted, 0u, "however much that is");
    ItemAccess other = item_of(1, 2);
    other.offset ^= 16;
    tap::ok(!board.put(other).merged, "another place is another item");
    other = item_of(1, 2), other.hash += 8;
    tap::ok(!board.put(other).merged, "so is another key");
    told = take_all(board);
    tap::ok(told.items == 3 && told.accesses == (1 << 24) + 3, "and reported separately");
}

// The generations of one slot are one item.
void generations() {
    Memory memory;
    ReportBoard board = memory.board();
    const auto put = [&](uint16_t generation_tag, uint32_t count) {
        ItemAccess item = item_of(1, count);
        item.generation_tag = generation_tag;
        return board.put(item).merged;
    };
    const auto taken = [&] {
        ItemAccess all{};
        uint32_t cursor = 0;
        board.take(UINT32_MAX, cursor, [&](const ItemAccess& record) { all = record; });
        return std::to_string(all.count) + " of " + std::to_string(all.generation_tag);
    };
    tap::ok(!put(7, 1) && put(9, 2) && put(8, 4), "a newer generation is counted with the older ones, and an older one too");
    tap::is(taken(), "7 of 9", "all are reported together, of the latest");
    put(3, 1);
    tap::is(taken(), "1 of 3", "accesses taken before no longer count");
    put(65'535, 1), put(2, 1), put(65'534, 1);
    tap::is(taken(), "3 of 2", "serial arithmetic decides which is later");
}

void room() {
    Memory memory;
    ReportBoard board = memory.board();
    for (uint64_t n = 0; n < 8; n++) board.put(item_of(3 + 8 * n));
    tap::is(board.put(item_of(3 + 8 * 8)).accepted, 0u, "a set of eight has no room for a ninth");
    tap::is(board.put(item_of(3)).accepted, 1u, "but for more of one of the eight");
    tap::is(board.put(item_of(4)).accepted, 1u, "and its neighbour for another");
    tap::is(take_all(board).accesses, 10u, "all are reported");
    tap::is(board.put(item_of(3 + 8 * 8)).accepted, 1u, "then there is room again");
    take_all(board);

    const uint64_t number = (board.put(item_of(7)), board.put(item_of(6)), board.announce());
    for (uint64_t hash = 0; hash < 40; hash++) board.put(item_of(hash));
    std::map<uint64_t, int> times;
    uint32_t cursor = 0;
    for (int part = 0; part < 4; part++) {
        board.take(10, cursor, [&](const ItemAccess& record) { times[record.hash]++; });
        if (part == 0) board.put(item_of(0));  // the first set's item is not reported again before all others
    }
    tap::ok(times.size() == 40, "taking in parts covers all items");
    tap::ok(board.waiting(number), "until all is taken something waits");
    board.take(10, cursor, [&](const ItemAccess& record) { times[record.hash]++; });
    tap::is(times[0], 2, "the rest comes then");
    tap::ok(!board.waiting(), "and nothing waits any more");
}

// ---- stopped, resumed and killed --------------------------------------------------------------------

using Between = std::function<Told(ReportBoard&)>;

// A put is stopped before its step number `stop`, `between` runs, and the put continues. False: no such step.
bool put_stopped(uint32_t stop, uint64_t accepted_between, const Between& between, int& wrong) {
    Memory memory;
    ReportBoard board = memory.board();
    for (uint64_t n = 1; n < 8; n++) board.put(item_of(8 * n, 100));  // all but one cell of the set
    Told during;
    bool stopped = false;
    const ReportBoard::Put put = board.put(item_of(0, 7), [&](uint32_t step) {
        if (step != stop || stopped) return;
        stopped = true;
        ReportBoard other = memory.board();
        during = between(other);
    });
    const Told after = take_all(board);
    const uint64_t accounted = during.accesses + during.lost + after.accesses + after.lost;
    wrong += accounted != 700 + (stopped ? accepted_between : 0) + put.accepted;
    wrong += during.strangers + after.strangers;
    for (const auto& counts : {during.counts, after.counts})
        for (const auto& [hash, count] : counts) wrong += hash % 8 != 0 || hash > 8 * 9;
    wrong += board.put(item_of(0, 1)).accepted != 1;  // and it works
    wrong += take_all(board).counts != std::map<uint64_t, uint64_t>{{0, 1}};
    return stopped;
}

void put_stopped_everywhere() {
    struct Case {
        const char* name;
        uint64_t accepted;
        Between between;
    };
    const Case cases[] = {
        {"nothing", 0, [](ReportBoard&) { return Told(); }},
        {"another takes the cell", 50,
         [](ReportBoard& board) { return board.put(item_of(8 * 9, 50)), Told(); }},
        {"another takes the cell for the same item", 50,
         [](ReportBoard& board) { return board.put(item_of(0, 50)), Told(); }},
        {"all is taken", 0, [](ReportBoard& board) { return take_all(board); }},
        {"another takes the cell, and all is taken", 50,
         [](ReportBoard& board) { return board.put(item_of(8 * 9, 50)), take_all(board); }},
        {"all is taken, and put again", 51,
         [](ReportBoard& board) {
             Told told = take_all(board);
             board.put(item_of(8 * 9, 50));
             board.put(item_of(8 * 1, 1));
             return told;
         }},
    };
    for (const Case& c : cases) {
        int wrong = 0;
        uint32_t steps = 0;
        while (put_stopped(steps, c.accepted, c.between, wrong)) steps++;
        tap::is(steps, 3u, std::string("two stores and an exchange; between them ") + c.name);
        tap::is(wrong, 0, "each access is reported once, of its item, or lost");
    }
}

void killed() {
    int wrong = 0;
    for (uint32_t step = 0; step < 3; step++) {
        Memory memory;
        ReportBoard board = memory.board();
        for (uint64_t n = 1; n < 8; n++) board.put(item_of(8 * n, 100));
        std::fflush(stdout);
        const pid_t child = fork();
        if (child < 0) tap::bail_out("fork");
        if (child == 0) {
            board.put(item_of(0, 7), [&](uint32_t at) {
                if (at == step) raise(SIGKILL);
            });
            _exit(0);
        }
        int status = 0;
        while (waitpid(child, &status, 0) < 0) {}
        wrong += !WIFSIGNALED(status);
        wrong += board.put(item_of(8 * 9, 50)).accepted != 50;
        const Told told = take_all(board);
        wrong += told.accesses != 750 || told.lost != 0 || told.strangers != 0;
    }
    tap::is(wrong, 0, "a process killed at any store loses no access of others");
}

// Two puts claim one cell for different items, in the worst order: the words of one, the tag of the other.
void torn() {
    Memory memory;
    ReportBoard board = memory.board();
    for (uint64_t n = 1; n < 8; n++) board.put(item_of(8 * n));
    take_all(board);
    for (uint64_t n = 1; n < 8; n++) board.put(item_of(8 * n));
    bool inside = false;
    const ReportBoard::Put put = board.put(item_of(0, 7), [&](uint32_t step) {
        if (step != 1 || inside) return;
        inside = true;
        memory.board().put(item_of(8 * 9, 50));
    });
    const Told told = take_all(board);
    tap::ok(put.accepted == 0 && told.lost == 50, "a cell that two took is lost, and counted as lost");
    tap::is(told.accesses, 7u, "the others are not");
    tap::is(told.strangers, 0, "no access is reported that was not put");
}

// A take is stopped after it has removed an item, while others put and take.
void take_stopped() {
    Memory memory;
    ReportBoard board = memory.board();
    for (uint64_t hash = 0; hash < 16; hash++) board.put(item_of(hash, 10));
    board.announce();
    Told during;
    uint64_t taken = 0, put = 160;
    uint32_t cursor = 0;
    const ReportBoard::Taken all = board.take(UINT32_MAX, cursor, [&](const ItemAccess& record) {
        taken += record.count;
        if (taken != 10) return;
        ReportBoard other = memory.board();
        during = take_all(other, 5);
        for (const uint64_t hash : {record.hash, UINT64_C(15), UINT64_C(200)}) put += other.put(item_of(hash, 3)).accepted;
        other.announce();
    });
    tap::ok(board.waiting(), "an access put during a take may not be in it");
    const Told after = take_all(board);
    tap::is(during.strangers + after.strangers, 0, "every take gets accesses that were put");
    tap::is(taken + during.accesses + after.accesses, put, "two takes at once take all");
    tap::is(all.lost + during.lost + after.lost, 0u, "and lose nothing");
}

// ---- many at once -----------------------------------------------------------------------------------
constexpr uint64_t putters = 3, takers = 2, hammer_puts = 40'000;

void hammer() {
    Memory memory;
    std::atomic<uint64_t> accepted{0}, accounted{0}, lost{0}, strangers{0}, done{0};
    const auto tell = [&](const Told& told) {
        accounted += told.accesses + told.lost;
        lost += told.lost;
        strangers += uint64_t(told.strangers);
    };
    std::vector<std::thread> threads;
    for (uint64_t n = 0; n < putters; n++)
        threads.emplace_back([&, n] {
            ReportBoard board = memory.board();
            uint64_t random = mix(n), sum = 0;
            for (uint64_t i = 0; i < hammer_puts; i++) {
                random = mix(random);
                sum += board.put(item_of(random % 96, uint32_t(random >> 60) + 1), [&](uint32_t step) {
                    if ((random >> 32 & 63) == step) std::this_thread::yield();
                }).accepted;
                if (i % 16 == 0) board.announce();
            }
            accepted += sum;
            done++;
        });
    for (uint64_t n = 0; n < takers; n++)
        threads.emplace_back([&, n] {
            ReportBoard board = memory.board();
            uint32_t cursor = uint32_t(n);
            while (done < putters) tell(take_all(board, 20, cursor += 13));
        });
    for (std::thread& thread : threads) thread.join();
    ReportBoard board = memory.board();
    tell(take_all(board));
    tap::ok(accepted > hammer_puts, "threads put");
    tap::is(accounted.load(), accepted.load(), "and each access is reported, or counted as lost, once");
    tap::is(strangers.load(), 0u, "as it was put");
    tap::ok(lost < accepted / 20, "few are lost");
    tap::note("%llu accesses, %llu lost", (unsigned long long)accepted, (unsigned long long)lost);
}

// ---- the leader -------------------------------------------------------------------------------------

void leader() {
    Memory memory;
    ReportBoard board = memory.board();
    const BoardMember a{1, 1}, b{2, 1}, same_process{1, 2};
    std::vector<uint16_t> dead;
    const auto seek = [&](BoardMember who, uint64_t at_ns, uint64_t until_ns) {
        return board.seek(who, at_ns, until_ns, [&](uint16_t filler) {
            return std::find(dead.begin(), dead.end(), filler) == dead.end();
        });
    };
    tap::is(seek(a, now, now + 2 * second), Leadership::elected, "the first is elected");
    tap::is(seek(b, now + second, now + 3 * second), Leadership::others, "another is not");
    tap::is(seek(same_process, now + second, now + 3 * second), Leadership::others, "nor another link of its process");
    tap::is(seek(a, now + second, now + 3 * second), Leadership::held, "it goes on");
    tap::is(seek(b, now + 5 * second / 2, now + 9 * second), Leadership::others, "until its term ends");
    tap::is(seek(b, now + 3 * second, now + 9 * second), Leadership::taken_over, "after its term the next one takes over");
    tap::is(seek(a, now + 3 * second, now + 9 * second), Leadership::others, "then the other leads");
    board.resign(a);
    tap::is(seek(a, now + 3 * second, now + 9 * second), Leadership::others, "only the leader can resign");
    board.resign(b);
    tap::is(seek(a, now + 3 * second, now + 9 * second), Leadership::elected, "after it has resigned another is elected");
    dead = {1};
    tap::is(seek(b, now + 4 * second, now + 9 * second), Leadership::taken_over, "a dead leader is replaced at once");
    dead = {};
    board.seek(b, now, now + 1000 * second, [](uint16_t) { return true; });
    tap::is(seek(a, now, now + second), Leadership::taken_over, "a term too far in the future counts as ended");

    board.resign(a);
    std::atomic<int> elected{0};
    std::vector<std::thread> threads;
    for (uint16_t n = 1; n <= 4; n++)
        threads.emplace_back([&, n] {
            ReportBoard mine = memory.board();
            const auto alive = [](uint16_t) { return true; };
            elected += mine.seek({n, 1}, now, now + second, alive) == Leadership::elected;
        });
    for (std::thread& thread : threads) thread.join();
    tap::is(elected.load(), 1, "of processes that come at once one is elected");
}

// The kernel knows the attached processes.
void attached() {
    Name name;
    auto table = open(name);
    tap::ok(table->attached(table->filler()), "a process is attached itself");
    tap::ok(!table->attached(uint16_t(table->filler() + 1)), "and no other");
    int said[2];
    if (pipe(said) != 0) tap::bail_out("pipe");
    std::fflush(stdout);
    const pid_t child = fork();
    if (child < 0) tap::bail_out("fork");
    if (child == 0) {
        auto its = open(name);
        const uint16_t filler = its->filler();
        if (write(said[1], &filler, sizeof filler) != sizeof filler) _exit(1);
        raise(SIGSTOP);
        _exit(0);
    }
    uint16_t filler = 0;
    if (read(said[0], &filler, sizeof filler) != sizeof filler) tap::bail_out("read");
    int status = 0;
    while (waitpid(child, &status, WUNTRACED) < 0) {}
    tap::ok(WIFSTOPPED(status) && table->attached(filler), "a stopped process is attached");
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0) {}
    tap::ok(!table->attached(filler), "a killed one is not");
    close(said[0]);
    close(said[1]);
    const uint16_t first = table->filler();
    Raw raw(name);
    raw.header().fillers = first - 1u;
    auto another = open(name);
    tap::ok(another->filler() != first && another->attached(first), "a number that comes again while it is used is passed over");
}

// ---- which board ------------------------------------------------------------------------------------

void boards() {
    Memory memory;
    ReportBoards all = memory.boards();
    for (uint64_t n = 1; n <= proxy::boards_max; n++) {
        ReportBoard board = *all.of(mix(n), now);
        board.put(item_of(1, uint32_t(n)));
    }
    int wrong = 0;
    for (uint64_t n = 1; n <= proxy::boards_max; n++) {
        auto board = memory.boards().of(mix(n), now + second);
        wrong += !board.has_value() || take_all(*board).counts != std::map<uint64_t, uint64_t>{{1, n}};
    }
    tap::is(wrong, 0, "each of 32 nodes has a board, the same for all callers");
    tap::ok(!all.of(mix(33), now + second).has_value(), "one more has none");
    tap::ok(!all.of(0, now).has_value(), "nor has node 0");
    all.of(mix(1), now + ReportBoards::idle_ns);
    memory.boards().of(mix(2), now + second)->put(item_of(2, 9));
    for (uint64_t n = 3; n <= proxy::boards_max; n++) all.of(mix(n), now + ReportBoards::idle_ns);
    auto another = all.of(mix(33), now + second + ReportBoards::idle_ns);
    tap::ok(another.has_value(), "unless one was not used for three minutes");
    tap::ok(!all.of(mix(2), now + second + ReportBoards::idle_ns).has_value(), "whose node has none then");
    const Told told = take_all(*another);
    tap::ok(told.items == 0 && told.lost == 9, "its accesses there are lost, and not reported to another node");

    std::atomic<int> different{0};
    for (int round = 0; round < 50; round++) {
        Memory fresh;
        std::vector<std::thread> threads;
        for (int n = 0; n < 3; n++)
            threads.emplace_back([&] { different += fresh.board().put(item_of(1)).accepted != 1; });
        for (std::thread& thread : threads) thread.join();
        ReportBoard board = fresh.board();
        different += take_all(board).accesses != 3;
    }
    tap::is(different.load(), 0, "threads that begin with a node at once find one board");
}

// B3, S10: arbitrary memory contents.
void garbage() {
    std::mt19937_64 random(20);
    uint64_t impossible = 0, told = 0, refused = 0;
    for (int round = 0; round < 40; round++) {
        Memory memory;
        ReportBoard board = memory.board();
        const uint64_t header_words = proxy::boards_max * sizeof(proxy::BoardHeader) / 8;
        for (uint64_t n = 0; n < Memory::bytes() / 8; n++)
            if (n >= header_words || n % 8 != 0) memory.words()[n] = random();
        // Also one with a valid tag.
        uint64_t* cell = memory.words() + header_words + (one_node % proxy::boards_max) * 64 * 3;
        cell[2] = proxy::make_meter(proxy::cell_tag({cell[0], cell[1]}, one_node, seed), 1, 1);
        uint32_t cursor = uint32_t(random());
        for (int n = 0; n < 3; n++)
            board.take(20, cursor, [&](const ItemAccess& record) {
                told++;
                impossible += !protocol::has_record(record.offset, record.region) || record.count == 0;
            });
        board.take(UINT32_MAX, cursor, [&](const ItemAccess&) { told++; });
        refused += board.put(item_of(5)).accepted != 1;
        refused += take_all(board).counts != std::map<uint64_t, uint64_t>{{5, 1}};
        const Leadership got = board.seek({7, 1}, now, now + second, [](uint16_t) { return false; });
        refused += got != Leadership::taken_over;
    }
    tap::is(impossible, 0u, "noise yields no impossible record");
    tap::ok(told <= 40, "and hardly any record");
    tap::is(refused, 0u, "and afterwards the board works");
}

}  // namespace

int main() {
    shape();
    put_and_take();
    generations();
    room();
    put_stopped_everywhere();
    killed();
    torn();
    take_stopped();
    hammer();
    leader();
    attached();
    boards();
    garbage();
    return tap::done();
}
