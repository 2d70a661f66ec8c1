// SPDX-License-Identifier: BSD-3-Clause
// Files that a DiskStore may find: of the run before, of another run, damaged, foreign, in use, or without space. No wrong record
// is read, and no foreign file is overwritten.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "t/lib/tap.h"
#include "t/unit/node/disk_fixture.h"

using namespace farcached;
using namespace farcached::node;
using namespace farcached::node::disk_tests;

namespace {

constexpr uint64_t segment = 64 * kib;

std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}
void write_file(const std::string& path, std::string_view bytes, uint64_t at = 0) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(pwrite(fd, bytes.data(), bytes.size(), off_t(at)) == ssize_t(bytes.size()));
    ::close(fd);
}
uint64_t offset_in_file(const Place& place, uint64_t segments = 8) {
    return disk_block_bytes + place.segment % segments * segment + place.offset;
}

using Stored = std::vector<std::pair<Place, uint64_t>>;

// A run that stores records, and ends with or without flush().
uint64_t run(const DiskConfig& config, uint64_t first, uint64_t count, bool clean, Stored& stored) {
    const auto store = open(config);
    for (uint64_t i = first; i < first + count; i++) stored.emplace_back(put_surely(*store, i), i);
    settle(*store);
    if (clean) CHECK(store->flush());
    return store->id();
}

struct Count {
    uint64_t right = 0, wrong = 0, missing = 0;
};
Count read_all(DiskStore& store, const Stored& stored) {
    DiskReads reads(store);
    Count count;
    for (const auto& [place, number] : stored) {
        const std::optional<Seen> seen = read(reads, place);
        (!seen ? count.missing : is_record({seen->key, seen->value, seen->tag}, number) ? count.right : count.wrong)++;
    }
    return count;
}

void restarts() {
    Folder folder;
    DiskConfig config = small(folder, true);
    Stored stored;
    config.former_store = run(config, 0, 150, true, stored);
    {
        const auto store = open(config);
        tap::ok(store->kept() && store->id() == config.former_store, "after a clean stop the store is the same");
        tap::is(read_all(*store, stored).right, stored.size(), "and has all records");
        tap::is(store->statistics().objects_used, uint64_t{0}, "none counts");
        bool adopted = true;
        for (const auto& [place, number] : stored) adopted &= store->adopt(place);
        tap::ok(adopted && !store->adopt(Place{}), "until the node has its place");
        tap::is(store->statistics().objects_used, stored.size(), "then it counts");
        for (const auto& [place, number] : stored) store->forget(place);
        tap::is(store->statistics().pages_free, uint64_t{8}, "a restored segment is free when its records are forgotten");
    }
    Stored unfinished;
    tap::is(run(config, 1000, 100, false, unfinished), config.former_store, "a run that is killed");
    {
        const auto store = open(config);
        const Count earlier = read_all(*store, stored), later = read_all(*store, unfinished);
        tap::ok(earlier.wrong + later.wrong == 0, "leaves no wrong record");
        tap::ok(later.right > 0 && later.missing > 0 && later.missing < 40, "and all of its segments but the last buffer");
        Stored more;
        for (uint64_t i = 2000; i < 2600; i++) more.emplace_back(put_surely(*store, i), i);
        bool repeats = false;
        for (const auto& [place, number] : more)
            for (const auto& [before, other] : unfinished) repeats |= place.segment == before.segment;
        tap::ok(!repeats, "no segment's number returns");
        tap::ok(read_all(*store, unfinished).wrong == 0 && read_all(*store, more).wrong == 0, "nothing is mixed up");
    }
    for (const char* what : {"no former store", "another store", "another size", "other segments"}) {
        DiskConfig other = config;
        Stored here;
        other.former_store = run(config, 0, 20, true, here);
        if (what == std::string("no former store")) other.former_store = 0;
        if (what == std::string("another store")) other.former_store++;
        if (what == std::string("another size")) other.bytes += segment;
        if (what == std::string("other segments")) other.segment_bytes *= 2;
        const auto store = open(other);
        bool alive = false;
        for (const auto& [place, number] : here) alive |= store->alive(place);
        tap::ok(!alive && !store->kept(), std::string(what) + ": nothing is kept");
        config.former_store = 0;
    }
}

void damages() {
    Folder folder;
    DiskConfig config = small(folder, true);
    Stored stored;
    config.former_store = run(config, 0, 150, true, stored);
    const std::string good = content(config.path);
    uint64_t wrong = 0, right = 0;
    const auto& [place, number] = stored[100];
    for (uint32_t i = 0; i < place.bytes; i++) {  // each byte of a record
        const uint64_t at = offset_in_file(place) + i;
        const char byte = char(good[at] ^ (1 << i % 8));
        write_file(config.path, {&byte, 1}, at);
        if (i % 16 == 0) {
            const auto store = open(config);
            const Count count = read_all(*store, {stored[100]});
            wrong += count.right + count.wrong;
            right += read_all(*store, {stored[99], stored[101]}).right;
        }
        write_file(config.path, {&good[at], 1}, at);
    }
    tap::is(wrong, uint64_t{0}, "a record with a wrong byte is not read");
    tap::is(right, 2 * ((uint64_t{place.bytes} + 15) / 16), "the others are");

    // A whole segment at the place of another one, with and without its header.
    std::vector<uint64_t> numbers;
    for (const auto& [where, what] : stored)
        if (numbers.empty() || numbers.back() != where.segment) numbers.push_back(where.segment);
    CHECK(numbers.size() >= 3);
    for (const uint64_t from : {uint64_t{0}, uint64_t{sizeof(SegmentHeader)}}) {
        const std::string other = good.substr(offset_in_file({numbers[0], 0, 0}) + from, segment - from);
        write_file(config.path, other, offset_in_file({numbers[1], 0, 0}) + from);
        const auto store = open(config);
        const Count count = read_all(*store, stored);
        uint64_t there = 0;
        for (const auto& [where, what] : stored) there += where.segment == numbers[1];
        tap::ok(count.wrong == 0 && count.missing == there, "a segment at the place of another is not read");
        write_file(config.path, good);
    }
    CHECK(truncate(config.path.c_str(), off_t(offset_in_file({numbers[1], 0, 0}))) == 0);
    {
        const auto store = open(config);
        const Count count = read_all(*store, stored);
        tap::ok(store->kept() && count.wrong == 0 && count.missing > 0, "a file that was cut has fewer records");
    }
    write_file(config.path, good);
    write_file(config.path, "?", offsetof(SuperBlock, segments));
    tap::ok(!open(config)->kept(), "a damaged superblock: a new store");
    write_file(config.path, good);
    tap::is(read_all(*open(config), stored).right, stored.size(), "the good file is good");
}

void foreign_files() {
    Folder folder;
    DiskConfig config = small(folder, true);
    const auto refused = [&](const char* name, const char* why) {
        const std::string said = problem_of(config);
        tap::report(said.find(why) != std::string::npos && said.find("; ") != std::string::npos, name, said);
    };
    const std::string letter = "a letter to grandmother";
    write_file(config.path, letter);
    refused("a letter is refused", "other contents");
    tap::is(content(config.path), letter, "and stays as it is");
    write_file(config.path, std::string(4096, '\0') + "a file system", 64 * kib);
    CHECK(truncate(config.path.c_str(), 0) == 0);
    write_file(config.path, "a file system", 64 * kib);
    refused("a file with a word behind zeros is refused", "other contents");
    tap::is(content(config.path).size(), 64 * kib + 13, "and stays as it is");
    CHECK(truncate(config.path.c_str(), 0) == 0);
    CHECK(truncate(config.path.c_str(), 10 * segment) == 0);
    tap::is(problem_of(config), std::string(), "a file of zeros is taken");
    {
        const auto first = open(config);
        refused("a file in use is refused", "in use by another process");
    }
    tap::is(problem_of(config), std::string(), "and taken after its use");
    tap::is(std::filesystem::file_size(config.path), disk_block_bytes + 8 * segment, "it has its size");
    if (struct stat facts {}; stat(config.path.c_str(), &facts) == 0)
        tap::ok(uint64_t(facts.st_blocks) * 512 >= 8 * segment, "and its space");
    CHECK(chmod(config.path.c_str(), 0660) == 0);
    refused("a file that others can write is refused", "other users can write");
    config.path = folder.path();
    refused("a folder is refused", "cannot open");
    config.path = folder.path() + "/none/values";
    refused("no folder", "cannot open");
    config.path = "/dev/null";
    refused("a device without blocks is refused", "not a file");
    config.path = folder.path() + "/fifo";
    CHECK(mkfifo(config.path.c_str(), 0600) == 0);
    refused("a pipe is refused", "not a file");

    config = small(folder, true);
    config.path += "-2";
    rlimit before{}, limit{};
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    limit = {4 * segment, before.rlim_max};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    const std::string said = problem_of(config);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    tap::report(said.find("cannot set the file's size") != std::string::npos, "a file without space is refused", said);
    tap::is(problem_of(config), std::string(), "with space it is taken");
}

void wrong_sizes() {
    Folder folder;
    const auto refused = [&](const char* name, auto change) {
        DiskConfig config = small(folder, true);
        change(config);
        tap::ok(!problem_of(config).empty(), name);
    };
    refused("one segment is too few", [](DiskConfig& config) { config.bytes = 2 * segment - 1; });
    refused("a million is too many", [](DiskConfig& config) { config.bytes = segment << 21; });
    refused("an odd segment", [](DiskConfig& config) { config.segment_bytes += 512; });
    refused("a small segment", [](DiskConfig& config) { config.segment_bytes = 4096; });
    refused("a large segment", [](DiskConfig& config) { config.segment_bytes = config.bytes = UINT64_C(4) << 30; });
    refused("no segment", [](DiskConfig& config) { config.segment_bytes = 0; });
    refused("a buffer larger than a segment", [](DiskConfig& config) { config.buffer_bytes = 2 * segment; });
    refused("an odd buffer", [](DiskConfig& config) { config.buffer_bytes = 5000; });
    refused("one buffer", [](DiskConfig& config) { config.buffers = 1; });
    refused("no thread", [](DiskConfig& config) { config.threads = 0; });
    refused("no reads", [](DiskConfig& config) { config.depth = 0; });
    tap::ok(!std::filesystem::exists(folder.file()), "no file was made");
}

}  // namespace

int main() {
    std::signal(SIGXFSZ, SIG_IGN);
    restarts();
    damages();
    foreign_files();
    wrong_sizes();
    return tap::done();
}
