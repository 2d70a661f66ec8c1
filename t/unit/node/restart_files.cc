// SPDX-License-Identifier: BSD-3-Clause
// Files that a node with -e may find: empty, damaged, of somebody else, of another boot, or outdated. The start never fails, and no
// wrong value returns.
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>

#include "t/lib/tap.h"
#include "t/unit/node/restart_fixture.h"

using namespace farcached;
using namespace farcached::node;
using namespace farcached::node::restart_tests;

namespace {

void whole_files() {
    Folder folder;
    const std::string file = folder.file();
    const auto cold = [&](const char* what, const char* why) {
        Run run(file);
        const bool good = run.node->stats(now).items == 0 && run.said.find(why) != std::string::npos;
        tap::report(good, std::string(what) + ": a cold start, " + why, run.said);
        set(*run.node, "k", "v");
        run.stop();
    };
    { Run run(file); tap::is(run.said, std::string(), "without a file nothing is said"); }
    overwrite(file, 0, "", 0);
    CHECK(truncate(file.c_str(), 0) == 0);
    cold("an empty file", "it is empty");
    tap::ok(value_of(*Run(file).node, "k") == "v", "and then it is kept");
    CHECK(truncate(file.c_str(), 5000) == 0);
    cold("a short file", "its end is missing");
    CHECK(truncate(file.c_str(), 0) == 0);
    overwrite(file, 0, "a letter to grandmother", 23);
    cold("a letter", "it was not a node's memory");
    tap::ok(std::filesystem::exists(file + ".damaged"), "the letter is kept");
    CHECK(truncate(file.c_str(), 0) == 0);
    overwrite(file, 0, "another letter....", 18);
    cold("another letter", "items.damaged-2");
    CHECK(chmod(file.c_str(), 0666) == 0);
    cold("a file that others can write", "it was not a node's memory");
    std::filesystem::create_hard_link(file, file + ".link");
    cold("a file with two names", "it was not a node's memory");
    make_file(file);
    const uint32_t version = layout::layout_version + 1;
    overwrite(file, offsetof(layout::RegionHeader, version), &version, sizeof version);
    cold("a file of another version", "another version");
    make_file(file, /* stopped= */ false);
    const layout::RegionHeader header = header_in(file);
    const uint64_t notes = FilePlaces(header.region_bytes, header.page_count).notes;
    overwrite(file, notes + offsetof(Notes, boot), "another", 7);
    cold("a kill, and another boot", "the system went down");
    make_file(file);
    overwrite(file, notes + offsetof(Notes, boot), "another", 7);
    tap::is(Run(file).node->stats(now).items, uint64_t{301}, "a stop, and another boot: all items");
    make_file(file);
    Run nobody_knows(file, small(), {first_clock.boottime_s, first_clock.unix_s - 10'000});
    tap::ok(nobody_knows.node->stats(now).items == 301, "the wall clock was set back, within one boot: all items");
    nobody_knows.stop();
    std::filesystem::remove(file);
    std::filesystem::create_directory(file);
    Run run(file);
    tap::report(run.restart.file() == nullptr && run.said.find("cannot open it") != std::string::npos, "a folder stays", run.said);
    set(*run.node, "k", "v");
    tap::is(value_of(*run.node, "k"), std::string("v"), "and the node works without a file");
    Run nowhere("/proc/none/items");
    tap::report(nowhere.restart.file() == nullptr && nowhere.said.find("will not be kept") != std::string::npos,
            "no folder: items are not kept", nowhere.said);
}

// If a run serves without the items of the file, no later run returns them.
void outdated_items() {
    Folder folder;
    const std::string file = folder.file(), fresh = file + ".new";
    make_file(file);
    std::filesystem::create_directory(fresh);
    {
        Run run(file);
        tap::report(run.restart.file() == nullptr && run.said.find("will not be kept") != std::string::npos,
                    "no new file can be made: nothing is kept", run.said);
    }
    std::filesystem::remove(fresh);
    tap::is(Run(file).node->stats(now).items, uint64_t{0}, "and the items of before do not return later");
    make_file(file);
    std::ofstream(fresh) << "my own notes";
    {
        Run run(file);
        tap::report(run.restart.file() == nullptr, "a foreign file of the new name: nothing is kept", run.said);
    }
    tap::is(std::filesystem::file_size(fresh), uintmax_t{12}, "it stays as it is");
    std::filesystem::remove(fresh);
    make_file(file);
    {  // killed before it served
        Restart restart(file, first_clock, [](bool, const std::string&) {});
        CHECK(restart.file() != nullptr);
    }
    tap::is(Run(file).node->stats(now).items, uint64_t{301}, "a start that ends before it serves loses nothing");
}

void numbers_go_on() {
    Folder folder;
    std::set<uint64_t> uniques;
    uint64_t issued = 0;
    for (int i = 0; i < 4; i++) {
        Run run(folder.file());
        if (i % 2 == 1) continue;  // a run that stores nothing
        for (int k = 0; k < 50; k++, issued++) uniques.insert(set(*run.node, "k" + std::to_string(k), std::to_string(i)));
    }
    tap::is(uniques.size(), size_t(issued), "no cas unique is given twice, also after a run without a store");
    for (int i = 0; i < 3; i++) {
        Run run(folder.file());
        tap::is(value_of(*run.node, "chosen"), std::string(i == 0 ? "(none)" : "c"), "a cas unique that a client chose");
        protocol::StoreOp op = store_op(*run.node, "chosen", "c");
        op.cas_set = UINT64_MAX - 5;
        CHECK(run.node->store(op, now).status == protocol::StoreReply::Status::stored);
        tap::ok(set(*run.node, "k", "v") < UINT64_C(1) << 40, "moves no other");
    }
}

// A start after another boot ends before it serves: the next one, in the same boot, knows the time all the same.
void starts_that_end_early() {
    for (const int64_t passed_s : {100, -100}) {
        Folder folder;
        {
            Run run(folder.file());
            set(*run.node, "expires", "e", now + 500);
            set(*run.node, "never", "n");
            run.stop();
        }
        const layout::RegionHeader header = header_in(folder.file());
        const uint64_t notes = FilePlaces(header.region_bytes, header.page_count).notes;
        overwrite(folder.file(), notes + offsetof(Notes, boot), "another", 7);
        timespec at{};
        clock_gettime(CLOCK_REALTIME, &at);
        const RunClock clock{5000, at.tv_sec + passed_s};
        { const Restart early(folder.file(), clock, [](bool, const std::string&) {}); }
        Run run(folder.file(), small(), {clock.boottime_s + 10, clock.unix_s + 10}, 2);
        const std::string title = passed_s > 0 ? "a start that ended early: " : "the same with a wall clock that was set back: ";
        tap::is(value_of(*run.node, "never", 2), std::string("n"), title + "an item without an expiry");
        const auto got = get(*run.node, "expires", 2);
        if (passed_s < 0) {
            tap::ok(!got.has_value(), title + "one that expires is lost");
            continue;
        }
        const int64_t left_s = got.has_value() ? int64_t(got->meta.exptime) : -1;
        tap::ok(left_s > 500 - passed_s - 20 && left_s <= 500 - passed_s - 10, title + "one that expires does so in time");
    }
}

// Wrong words anywhere in the file: an item is back as it was, or not at all.
void damaged_words() {
    Folder folder;
    const std::string file = folder.file(), good = folder.file() + ".good";
    make_file(good);
    const layout::RegionHeader header = header_in(good);
    const FilePlaces places(header.region_bytes, header.page_count);
    std::mt19937_64 random(7);
    const uint64_t parts[][2] = {{0, sizeof header},
                                 {header.pages_offset, header.page_count * sizeof(layout::PageEntry)},
                                 {header.arena_offset, 40 * layout::page_bytes},
                                 {places.descriptors, 40 * layout::page_slots_max * sizeof(Descriptor)},
                                 {places.notes, sizeof(Notes)}};
    uint64_t wrong = 0, back = 0;
    constexpr int files = 150;
    for (int i = 0; i < files; i++) {
        std::filesystem::copy_file(good, file, std::filesystem::copy_options::overwrite_existing);
        const auto& part = parts[random() % std::size(parts)];
        const int words = 1 + int(random() % 64);
        for (int w = 0; w < words; w++) {
            const uint64_t at = part[0] + random() % (part[1] / 8) * 8;
            const uint64_t choices[] = {random(), 0, UINT64_MAX, 1, UINT64_C(1) << random() % 64};
            const uint64_t word = choices[random() % std::size(choices)];
            if (at >= 8) overwrite(file, at, &word, sizeof word);
        }
        std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
        Run run(file);
        for (int k = 0; k < 300; k++) {
            const std::string value = value_of(*run.node, "k" + std::to_string(k));
            if (value == "(none)") continue;
            back++;
            wrong += value != std::string(size_t(k), 'v');
        }
        set(*run.node, "stored behind it", "s");
        const std::string large = value_of(*run.node, "large");
        wrong += large != "(none)" && large != long_value(300'000, 'l');
    }
    tap::report(wrong == 0 && back > files * 50, "damaged words: no wrong value is back", std::to_string(wrong) + " wrong");
}

}  // namespace

int main() {
    outdated_items();
    numbers_go_on();
    starts_that_end_early();
    whole_files();
    damaged_words();
    return tap::done();
}
